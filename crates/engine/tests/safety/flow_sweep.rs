//! A process that runs durable functions, or state machines, is killed at every boundary of a record and at random
//! instants, and started again until it is done.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use serde::{Serialize, de::DeserializeOwned};
use windlass::{Engine, RunId, RunState, StepKind, Workflow};
use windlass_store::Query;

use crate::{
    child::{Child, kill_at, was_killed},
    crash_sweep::{Dice, Place, recorded_before},
    durable::{GO, Plan, errand, journey, sum},
    ledger::{self, Attempt, Ledger},
    program::note_records,
    relay::deadly,
    role::{Boundary, Part, Role},
    room::Room,
    voyage::{Leg, Luggage, Voyage},
};

/// A call, which attempt it was, and how that ended.
type Fact = (String, u32, StepKind);

/// How often a program may be started before it must be done.
const BOOTS: usize = 12;

/// Starts two journeys under keys, one of which fails, and sees them to their ends.
pub async fn travel(
    role: &Role,
    room: &Room,
    ledger: Arc<Ledger>,
    by_machine: bool,
    links: u64,
    kill: Option<Boundary>,
) {
    let store = room.store_with(kill_at(kill)).await;
    note_records(&*store, role, room).await;
    let mut builder = Engine::over(deadly(store, kill))
        // Those who kill it are no part of it.
        .max_recoveries(u32::MAX)
        .resource(Voyage(Arc::clone(&ledger)))
        .resource(ledger)
        .workflow(journey::workflow())
        .workflow(Voyage::workflow())
        .workflow(errand::workflow())
        .heartbeat(role.heartbeat)
        .stale_after(role.stale_after);
    if room.is_on_postgres() {
        builder = builder.name("sweep");
    }
    let engine = builder.launch().await.expect("the engine launches");
    let sums = match by_machine {
        false => see_off(&engine, room, &journey::workflow(), |plan| plan, links).await,
        true => {
            let ends = see_off(&engine, room, &Voyage::workflow(), Luggage::new, links).await;
            assert_eq!(ends.state, Leg::Home);
            ends.data.sum
        }
    };
    assert_eq!(sums, sum(&Plan { links, fails: false }));
    engine.stop().await.expect("the engine stops");
}

/// Starts two runs, one of which fails, and answers what the other gives.
async fn see_off<I, O>(
    engine: &Engine,
    room: &Room,
    workflow: &Workflow<I, O>,
    input: fn(Plan) -> I,
    links: u64,
) -> O
where
    I: Serialize + Send + Sync + 'static,
    O: DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    let mut runs = Vec::new();
    for fails in [false, true] {
        let plan = Plan { links, fails };
        let start = engine.start(workflow.clone(), input(plan)).key(format!("fails-{fails}"));
        let run = start.await.expect("the run starts");
        room.append("acknowledged", &run.id().to_string());
        let sent = run.send(GO, &7).key("once").await;
        // It may have come to its end before.
        assert!(sent.as_ref().err().is_none_or(|error| error.code() == "already_ended"), "{sent:?}");
        runs.push(run);
    }
    let failed = runs.pop().expect("there are two").await.expect_err("this one fails").to_string();
    assert!(failed.contains("no seats"), "{failed}");
    runs.pop().expect("there are two").await.expect("this one completes")
}

/// A program that is killed, and what it does when it is not.
pub struct Sweep {
    pub place: Place,
    by_machine: bool,
    links: u64,
    /// What is recorded of the two journeys and of their errands.
    pub facts: Vec<BTreeSet<Fact>>,
    took: Duration,
}

impl Sweep {
    pub fn of(place: Place, links: u64) -> Self {
        Self::new(place, false, links)
    }

    fn of_machines(place: Place, links: u64) -> Self {
        Self::new(place, true, links)
    }

    fn new(place: Place, by_machine: bool, links: u64) -> Self {
        let room = place.room();
        let mut sweep = Self { place, by_machine, links, facts: Vec::new(), took: Duration::ZERO };
        let began = Instant::now();
        let mut child = Child::spawn(sweep.role(&room, 0, None));
        let status = child.end();
        assert!(status.success(), "the program ends by itself: {status}\n{}", child.last_words());
        sweep.took = began.elapsed();
        sweep.facts = Records::of(&room, "at first").facts();
        sweep
    }

    pub fn role(&self, room: &Room, boot: usize, kill: Option<Boundary>) -> Role {
        Role::new(
            &boot.to_string(),
            room,
            Part::Travel { by_machine: self.by_machine, links: self.links, kill },
        )
    }

    /// Kills the program on either side of every commit that it makes, or of every so-and-so-many-th.
    fn kill_at_boundaries(&self, every: usize) {
        let sides: [fn(u64) -> Boundary; 2] = [Boundary::Before, Boundary::After];
        let reached: Vec<usize> = std::thread::scope(|scope| {
            let sweep = |side: fn(u64) -> Boundary| {
                (1..).step_by(every).take_while(|number| self.is_killed_at(side(*number))).count()
            };
            let sides = sides.map(|side| scope.spawn(move || sweep(side)));
            sides.into_iter().map(|side| side.join().expect("every boundary is survived")).collect()
        });
        assert!(reached.iter().all(|boundaries| *boundaries * every >= 20), "so few: {reached:?}");
    }

    /// Kills the first boot of the program at a boundary. Answers whether the boundary was reached.
    fn is_killed_at(&self, boundary: Boundary) -> bool {
        let (room, story) = (self.place.room(), format!("killed at {boundary:?}"));
        let mut first = Child::spawn(self.role(&room, 0, Some(boundary)));
        let status = first.end();
        if !was_killed(status) {
            assert!(status.success(), "{story}: {status}\n{}", first.last_words());
            return false;
        }
        let mut second = Child::spawn(self.role(&room, 1, None));
        let status = second.end();
        assert!(status.success(), "{story}: {status} after a restart\n{}", second.last_words());
        self.check(&room, 2, &story);
        true
    }

    /// Kills so many boots of programs at random instants.
    fn kill_at_random(&self, kills: u64) {
        let (killed, numbers) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while killed.load(Ordering::SeqCst) < kills {
                        let dice = Dice::new(0xF10 + numbers.fetch_add(1, Ordering::SeqCst));
                        killed.fetch_add(self.killed_at_random(dice), Ordering::SeqCst);
                    }
                });
            }
        });
    }

    /// Kills the boots of one program at random instants, four at most. Answers how many.
    fn killed_at_random(&self, mut dice: Dice) -> u64 {
        let room = self.place.room();
        let (mut kills, mut story) = (0, format!("{dice:?}"));
        for boot in 0..BOOTS {
            let mut child = Child::spawn(self.role(&room, boot, None));
            if kills < 4 {
                let instant = self.took.mul_f64(dice.roll());
                story.push_str(&format!(", boot {boot} killed after {instant:?}"));
                // The kill comes at an instant, whatever the child is doing.
                std::thread::sleep(instant);
                if !child.is_over() {
                    child.kill();
                    kills += 1;
                    continue;
                }
            }
            let status = child.end();
            assert!(status.success(), "{story}: {status}\n{}", child.last_words());
            self.check(&room, boot + 1, &story);
            return kills;
        }
        panic!("{story}: the program is not done after {BOOTS} boots");
    }

    /// Holds the ledger against the records.
    pub fn check(&self, room: &Room, boots: usize, story: &str) {
        let records = Records::of(room, story);
        for acknowledged in room.lines("acknowledged") {
            let run: RunId = acknowledged.parse().expect("a run id");
            assert!(records.0.contains_key(&run), "{story}: run {run} was acknowledged and is lost");
        }
        for (found, expected) in records.facts().iter().zip(&self.facts) {
            let differ: Vec<&Fact> = found.symmetric_difference(expected).collect();
            assert!(differ.is_empty(), "{story}: the records differ: {differ:?}");
        }
        let known: Vec<Option<HashSet<Attempt>>> =
            (0..boots).map(|boot| recorded_before(room, boot)).collect();
        let executed = ledger::by_attempt(ledger::effects(&room.effects()));
        for (attempt, by) in &executed {
            let once: HashSet<&String> = by.iter().collect();
            assert_eq!(
                once.len(),
                by.len(),
                "{story}: {attempt:?} was executed twice without a kill: {by:?}"
            );
            for boot in by {
                let boot: usize = ledger::process(boot).parse().expect("a boot's number");
                assert!(
                    known[boot].as_ref().is_some_and(|known| !known.contains(attempt)),
                    "{story}: {attempt:?} was recorded before boot {boot} and ran again: {by:?}"
                );
            }
        }
        for (run, (_, facts)) in &records.0 {
            let does = |name: &str| is_undoable(name.strip_suffix("/undo").unwrap_or(name));
            for (step, attempt, _) in facts.iter().filter(|(name, ..)| does(name)) {
                let attempt = Attempt { run: *run, step: step.clone(), attempt: *attempt };
                assert!(executed.contains_key(&attempt), "{story}: {attempt:?} is recorded and never ran");
            }
        }
    }
}

/// What is recorded of each run, in order, and how it ended.
struct Records(BTreeMap<RunId, (RunState, Vec<Fact>)>);

impl Records {
    fn of(room: &Room, story: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let records = runtime.expect("a runtime starts").block_on(async {
            let store = room.store().await;
            let mut records = BTreeMap::new();
            for run in store.find(Query::default()).await.expect("runs can be found").runs {
                let image = store.load(run.id).await.expect("a run can be loaded").expect("the run is there");
                let ended = image.steps.into_iter().filter(|step| step.kind != StepKind::Started);
                let facts = ended.map(|step| (step.name.to_string(), step.attempt, step.kind)).collect();
                records.insert(run.id, (run.standing.state(), facts));
            }
            records
        });
        let records = Self(records);
        records.check(story);
        records
    }

    /// Two journeys and two errands, one of the journeys failed, and undone newest first.
    fn check(&self, story: &str) {
        let mut states: Vec<RunState> = self.0.values().map(|(state, _)| *state).collect();
        states.sort();
        let expected = [RunState::Completed, RunState::Completed, RunState::Completed, RunState::Failed];
        assert_eq!(states, expected, "{story}");
        for (state, facts) in self.0.values() {
            let done = |fact: &&Fact| fact.2 == StepKind::Completed;
            let undone: Vec<&str> =
                facts.iter().filter(done).filter_map(|(name, ..)| name.strip_suffix("/undo")).collect();
            let steps = facts.iter().filter(done).map(|(name, ..)| name.as_str());
            let mut undoable: Vec<&str> = steps.filter(|name| is_undoable(name)).collect();
            undoable.reverse();
            let expected = if *state == RunState::Failed { undoable } else { Vec::new() };
            assert_eq!(undone, expected, "{story}: {facts:?}");
        }
    }

    fn facts(&self) -> Vec<BTreeSet<Fact>> {
        let mut facts: Vec<_> = self.0.values().map(|(_, facts)| facts.iter().cloned().collect()).collect();
        facts.sort();
        facts
    }
}

fn is_undoable(name: &str) -> bool {
    let steps = ["link", "left", "right", "flaky", "item", "end", "fetch", "carry"];
    // A machine's begin with the visit: `/Joining:left`.
    let own = name.strip_prefix('/').map(|name| name.rsplit(':').next().unwrap_or(name));
    own.is_some_and(|own| steps.iter().any(|step| own.starts_with(step)) && !own.ends_with("/undo"))
}

/// How many steps in a row, so that all of it takes no more than some seconds.
const LINKS: u64 = 6;

mod in_a_file {
    use super::*;

    #[test]
    fn functions_that_are_killed_at_any_boundary_of_a_record_repeat_nothing_recorded() {
        Sweep::of(Place::InAFile, LINKS).kill_at_boundaries(1);
    }

    #[test]
    fn functions_that_are_killed_at_random_instants_repeat_nothing_recorded() {
        Sweep::of(Place::InAFile, LINKS).kill_at_random(40);
    }

    #[test]
    fn machines_that_are_killed_at_any_boundary_of_a_record_repeat_nothing_recorded() {
        Sweep::of_machines(Place::InAFile, 2).kill_at_boundaries(2);
    }

    #[test]
    fn machines_that_are_killed_at_random_instants_repeat_nothing_recorded() {
        Sweep::of_machines(Place::InAFile, 2).kill_at_random(20);
    }
}

#[cfg(feature = "postgres")]
mod on_postgres {
    use super::*;

    #[test]
    fn functions_that_are_killed_at_any_boundary_of_a_record_repeat_nothing_recorded() {
        Sweep::of(Place::on_postgres(), LINKS).kill_at_boundaries(1);
    }

    #[test]
    fn functions_that_are_killed_at_random_instants_repeat_nothing_recorded() {
        Sweep::of(Place::on_postgres(), LINKS).kill_at_random(20);
    }

    #[test]
    fn machines_that_are_killed_at_any_boundary_of_a_record_repeat_nothing_recorded() {
        Sweep::of_machines(Place::on_postgres(), 2).kill_at_boundaries(5);
    }
}
