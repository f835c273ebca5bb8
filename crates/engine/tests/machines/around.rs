//! What surrounds a machine: managed resources and observers.

use std::{sync::mpsc, time::Duration};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use windlass::{
    Failure, Result, machine,
    machine::{MachineState, Managed, Observer, Visited},
    testing::Lab,
};

use crate::tally::Tally;

#[derive(MachineState, Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum State {
    Only,
    Done,
}

struct Small;

#[machine(state = State, data = u32, initial = Only, terminal = [Done])]
impl Small {
    #[on(Only, to = [Done])]
    async fn only(&self, data: &mut u32) -> Result<State> {
        if *data == 0 { Err(Failure::permanent("nothing to do")) } else { Ok(State::Done) }
    }
}

/// The number tells one type from another.
struct Part<const N: u32> {
    tally: Tally,
    is_sound: bool,
}

impl<const N: u32> Managed for Part<N> {
    fn name(&self) -> String {
        format!("part {N}")
    }

    async fn set_up(&self) -> Result<()> {
        self.tally.add(format!("up {N}"));
        if self.is_sound { Ok(()) } else { Err(Failure::new("it is rusty")) }
    }

    async fn tear_down(&self) -> Result<()> {
        self.tally.add(format!("down {N}"));
        Ok(())
    }

    async fn health(&self) -> Result<()> {
        if N == 2 { Err(Failure::new("it squeaks")) } else { Ok(()) }
    }
}

fn part<const N: u32>(tally: &Tally, is_sound: bool) -> Part<N> {
    Part { tally: tally.clone(), is_sound }
}

#[windlass::test]
async fn resources_are_set_up_first_to_last_and_torn_down_last_to_first(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let engine = lab
        .engine()
        .managed(part::<1>(&tally, true))
        .managed(part::<2>(&tally, true))
        .resource(Small)
        .workflow(Small::workflow())
        .launch()
        .await?;
    assert_eq!(tally.all(), ["up 1", "up 2"]);
    let health: Vec<_> =
        engine.health().await.into_iter().map(|one| (one.name, one.outcome.is_ok())).collect();
    assert_eq!(health, [("part 1".to_owned(), true), ("part 2".to_owned(), false)]);
    engine.start(Small::workflow(), 1).await?.await?;
    engine.stop().await?;
    engine.stop().await?;
    assert_eq!(tally.all(), ["up 1", "up 2", "down 2", "down 1"]);
    Ok(())
}

#[windlass::test]
async fn an_engine_whose_resource_cannot_be_set_up_is_not_launched_and_leaves_nothing_up(
    lab: Lab,
) -> Result<()> {
    let tally = Tally::default();
    let launched = lab
        .engine()
        .managed(part::<1>(&tally, true))
        .managed(part::<2>(&tally, false))
        .managed(part::<3>(&tally, true))
        .launch()
        .await;
    let error = launched.unwrap_err().to_string();
    assert!(error.contains("`part 2` cannot be set up: it is rusty"), "{error}");
    assert_eq!(tally.all(), ["up 1", "up 2", "down 1"]);
    Ok(())
}

struct Witness(Mutex<mpsc::Sender<String>>);

impl Witness {
    fn tell(&self, what: String) {
        self.0.lock().send(what).expect("the test listens");
    }
}

impl Observer for Witness {
    fn entered(&self, visit: &Visited) {
        self.tell(format!("entered {} of {}", visit.state, visit.machine));
    }

    fn left(&self, visit: &Visited, to: &str) {
        self.tell(format!("left {} for {to}", visit.state));
    }

    fn failed(&self, visit: &Visited, failure: &Failure) {
        self.tell(format!("{} failed: {failure}", visit.state));
    }
}

/// An observer that is of no use must not matter.
struct Panics;

impl Observer for Panics {
    fn entered(&self, _: &Visited) {
        panic!("on purpose");
    }
}

#[windlass::test]
async fn observers_are_told_of_every_state_and_cannot_fail_a_run(lab: Lab) -> Result<()> {
    let (sender, told) = mpsc::channel();
    let engine = lab
        .engine()
        .observer(Panics)
        .observer(Witness(Mutex::new(sender)))
        .resource(Small)
        .workflow(Small::workflow())
        .launch()
        .await?;
    engine.start(Small::workflow(), 1).await?.await?;
    assert!(engine.start(Small::workflow(), 0).await?.await.is_err());
    let next = || told.recv_timeout(Duration::from_secs(10)).expect("observers are told");
    assert_eq!(next(), "entered Only of small");
    assert_eq!(next(), "left Only for Done");
    assert_eq!(next(), "entered Only of small");
    assert_eq!(next(), "Only failed: nothing to do");
    Ok(())
}
