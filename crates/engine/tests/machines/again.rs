//! Handlers that are called again, and visits that are looked back at.

use serde::{Deserialize, Serialize};
use windlass::{Event, Failure, Flow, Result, Retry, RunState, machine, machine::MachineState, testing::Lab};

use crate::tally::{Tally, secs};

#[derive(MachineState, Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum State {
    Cleaned,
    Stubborn,
    Chance,
    Late,
    Done,
}

const NEVER: Event<()> = Event::new("never");

struct Again(Tally);

impl Again {
    /// A step that fails for good so many times, and is undone.
    async fn shaky(&self, cx: &Flow, name: &str, failures: u32) -> Result<u32> {
        let (doing, undoing, what) = (&self.0, self.0.clone(), format!("undo {name}"));
        let step = cx.step(name, move |step: windlass::Cx| async move {
            doing.add(name);
            if step.attempt() <= failures { Err(Failure::new("not yet")) } else { Ok(step.attempt()) }
        });
        step.retry(Retry::attempts(2).delay(secs(1)).fixed())
            .undo(move |_: u32| async move {
                undoing.add(what);
                Ok::<_, Failure>(())
            })
            .await
    }
}

#[machine(state = State, data = u32, initial = Cleaned, terminal = [Done])]
impl Again {
    /// The first attempt comes to a step that the second does not come to.
    #[on(Cleaned, to = [Stubborn], retry(attempts = 2, delay = "1h"))]
    async fn clean(&self, cx: &Flow, _data: &mut u32) -> Result<State> {
        let charged = self.shaky(cx, "charge", 2).await;
        if charged.is_err() {
            let tally = &self.0;
            cx.step("clean up", || async move { Ok::<_, Failure>(tally.add("clean up") as u32) }).await?;
        }
        charged?;
        Ok(State::Stubborn)
    }

    /// Each attempt of the handler gives its step as many attempts as the first.
    #[on(Stubborn, to = [Chance], retry(attempts = 3, delay = "1h"))]
    async fn persist(&self, cx: &Flow, data: &mut u32) -> Result<State> {
        *data += self.shaky(cx, "persist", 5).await?;
        Ok(State::Chance)
    }

    /// What it calls depends on chance, the time and a patch.
    #[on(Chance, to = [Late], retry(attempts = 2, delay = "1h"))]
    async fn take_a_chance(&self, cx: &Flow, _data: &mut u32) -> Result<State> {
        let name = match cx.patch("named") {
            true => format!("{} at {}", cx.uuid(), cx.now().0),
            false => "unnamed".to_owned(),
        };
        let (tally, undoing) = (&self.0, self.0.clone());
        cx.step(&name, || async move { Ok::<_, Failure>(tally.add("chance") as u32) })
            .undo(move |_: u32| async move {
                undoing.add("undo chance");
                Ok::<_, Failure>(())
            })
            .await?;
        let name = if cx.random() < 0.5 { "heads" } else { "tails" };
        self.shaky(cx, name, 2).await?;
        Ok(State::Late)
    }

    #[on(Late, to = [Done], timeout = "10m", rate(1, per = "1m"), retry(attempts = 2, delay = "1h"))]
    async fn wait_in_vain(&self, cx: &Flow, _data: &mut u32) -> Result<State> {
        self.shaky(cx, "hope", 0).await?;
        cx.event(NEVER).await?;
        Ok(State::Done)
    }
}

/// How often each step was done, and what was undone.
fn done(tally: &Tally) -> ([usize; 6], Vec<String>) {
    let steps = ["charge", "clean up", "persist", "chance", "hope"].map(|step| tally.of(step));
    let [charge, clean_up, persist, chance, hope] = steps;
    let coin = tally.of("heads") + tally.of("tails");
    let undone = tally.all().into_iter().filter(|what| what.starts_with("undo"));
    let undone = undone.map(|what| what.replace("heads", "coin").replace("tails", "coin"));
    ([charge, clean_up, persist, chance, coin, hope], undone.collect())
}

/// Each step as often as its attempts, and what completed undone once, newest first.
const DONE: [usize; 6] = [3, 1, 6, 1, 3, 1];
const UNDONE: [&str; 5] = ["undo hope", "undo coin", "undo chance", "undo persist", "undo charge"];

#[windlass::test]
async fn a_handler_that_is_called_again_may_take_another_path_and_is_undone_in_the_end(
    lab: Lab,
) -> Result<()> {
    let tally = Tally::default();
    let engine = lab.engine().resource(Again(tally.clone())).workflow(Again::workflow()).launch().await?;
    let run = engine.start(Again::workflow(), 0).await?;
    let error = run.await.unwrap_err().to_string();
    assert!(error.contains("10m"), "{error}");
    assert_eq!(done(&tally), (DONE, UNDONE.map(str::to_owned).to_vec()));
    Ok(())
}

#[windlass::test]
async fn a_handler_that_ran_out_of_time_has_all_of_it_again_when_its_run_is_retried(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let engine = lab.engine().resource(Again(tally.clone())).workflow(Again::workflow()).launch().await?;
    let mut run = engine.start(Again::workflow(), 0).await?;
    let error = (&mut run).await.unwrap_err().to_string();
    assert!(error.contains("10m"), "{error}");
    run.retry().await?;
    run.send(NEVER, &()).await?;
    assert_eq!((&mut run).await?.state, State::Done);
    Ok(())
}

#[windlass::test]
async fn handlers_that_are_called_again_are_crashed_everywhere_and_repeat_nothing_recorded(
    lab: Lab,
) -> Result<()> {
    let boundaries = lab
        .crash_everywhere(|builder| async {
            let tally = Tally::default();
            let engine = builder.resource(Again(tally.clone())).workflow(Again::workflow()).launch().await?;
            let run = engine.start(Again::workflow(), 0).key("one").await?;
            let error = run.await.unwrap_err().to_string();
            assert!(error.contains("10m"), "{error}");
            // What was done before the crash is not done again.
            let (steps, undone) = done(&tally);
            assert!(steps.iter().zip(DONE).all(|(times, most)| *times <= most), "{:?}", tally.all());
            assert!(UNDONE.iter().rev().zip(undone.iter().rev()).all(|(one, other)| one == other));
            assert!(undone.len() <= UNDONE.len(), "{undone:?}");
            engine.stop().await?;
            Ok::<_, Failure>(())
        })
        .await?;
    assert!(boundaries >= 40, "{boundaries}");
    Ok(())
}

#[windlass::test]
async fn visits_that_are_over_are_looked_back_at_as_they_were(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let engine = lab.engine().resource(Again(tally.clone())).workflow(Again::workflow()).launch().await?;
    let run = engine.start(Again::workflow(), 0).await?;
    // It is parked in the last state, between its two attempts.
    lab.advance(secs(4 * 3600 + 1800)).await;
    assert_eq!(run.status().await?.state, RunState::Suspended);
    assert_eq!(tally.of("hope"), 1);
    engine.stop().await?;
    let engine = lab.engine().resource(Again(tally.clone())).workflow(Again::workflow()).launch().await?;
    engine.client().run(&Again::workflow(), run.id()).cancel("enough").await?;
    lab.advance(secs(60)).await;
    assert_eq!(run.status().await?.state, RunState::Cancelled);
    assert_eq!(done(&tally), (DONE, UNDONE.map(str::to_owned).to_vec()));
    Ok(())
}

#[windlass::test]
async fn a_machine_between_two_attempts_or_in_a_later_state_can_be_checked(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let engine = lab.engine().resource(Again(tally.clone())).workflow(Again::workflow()).launch().await?;
    engine.start(Again::workflow(), 0).await?;
    for _ in 0..6 {
        lab.advance(secs(1800)).await;
        let before = tally.all();
        let report = engine.check(Again::workflow()).resource(Again(tally.clone())).await?;
        assert_eq!((report.runs.len(), report.compatible().count()), (1, 1), "{report:?}");
        assert_eq!(tally.all(), before, "nothing is executed");
    }
    Ok(())
}
