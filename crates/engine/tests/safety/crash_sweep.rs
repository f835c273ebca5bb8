//! A process is killed at every boundary of a record and at random instants, and started again until it is done.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use windlass::{RunId, RunState, StepKind};
use windlass_store::Query;

use crate::{
    child::{Child, was_killed},
    graph,
    ledger::{self, Attempt, Ledger},
    role::{Boundary, Part, Role},
    room::Room,
};

/// A step of the graph, which attempt it was, and how that ended.
pub type Fact = (String, u32, StepKind);

/// What is recorded of a run: twenty tasks, of which one has four instances, and one fails twice before it completes.
pub const FACTS: usize = 19 + 4 + 2;
/// How often a program may be started before it must be done.
const BOOTS: usize = 12;

/// How many runs such a program starts.
pub const RUNS: usize = 2;

/// Where the databases are.
pub enum Place {
    InAFile,
    #[cfg(feature = "postgres")]
    OnPostgres(windlass_cluster::Cluster),
}

impl Place {
    /// A server of its own: so many schemas would be left on another.
    #[cfg(feature = "postgres")]
    pub fn on_postgres() -> Self {
        Self::OnPostgres(windlass_cluster::Cluster::start(&["fsync = off"]).expect("a cluster starts"))
    }

    pub fn room(&self) -> Room {
        match self {
            Self::InAFile => Room::new(),
            #[cfg(feature = "postgres")]
            Self::OnPostgres(cluster) => Room::on_postgres(cluster.url()),
        }
    }
}

/// A program that is killed, and what it does when it is not.
struct Sweep {
    place: Place,
    /// What is recorded of each run.
    facts: BTreeSet<Fact>,
    /// For how long the program runs.
    took: Duration,
}

impl Sweep {
    fn of(place: Place) -> Self {
        let room = place.room();
        let began = Instant::now();
        let mut child = Child::spawn(role(&room, 0, None));
        let status = child.end();
        assert!(status.success(), "the program ends by itself: {status}\n{}", child.last_words());
        let took = began.elapsed();
        let facts = records(&room).into_values().next().expect("there are runs");
        assert_eq!(facts.len(), FACTS, "{facts:?}");
        Self { place, facts, took }
    }
}

fn role(room: &Room, boot: usize, kill: Option<Boundary>) -> Role {
    Role::new(&boot.to_string(), room, Part::Sweep { kill })
}

/// What is recorded of each run, all of which must be completed.
pub fn records(room: &Room) -> BTreeMap<RunId, BTreeSet<Fact>> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime starts");
    runtime.block_on(async {
        let store = room.store().await;
        let mut records = BTreeMap::new();
        for run in
            store.find(Query { limit: 1000, ..Query::default() }).await.expect("runs can be found").runs
        {
            assert_eq!(run.standing.state(), RunState::Completed, "{run:?}");
            let image = store.load(run.id).await.expect("a run can be loaded").expect("the run is there");
            let ended = image.steps.into_iter().filter(|step| step.kind != StepKind::Started);
            let facts = ended.map(|step| (step.name.to_string(), step.attempt, step.kind));
            records.insert(run.id, facts.collect());
        }
        records
    })
}

/// What was recorded when a boot of the program began; `None` when it did not live long enough to say, and to do
/// anything.
pub fn recorded_before(room: &Room, boot: usize) -> Option<HashSet<Attempt>> {
    let name = format!("recorded-{boot}");
    room.file(&name).exists().then_some(())?;
    let attempt = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let [run, step, attempt] = words[..] else { panic!("a line is cut short: {line}") };
        Attempt {
            run: run.parse().expect("a run id"),
            step: step.to_owned(),
            attempt: attempt.parse().expect("a number"),
        }
    };
    Some(room.lines(&name).iter().map(|line| attempt(line)).collect())
}

/// Holds the ledger against the records of so many runs.
pub fn check(expected: &BTreeSet<Fact>, room: &Room, runs: usize, boots: usize, story: &str) {
    let records = records(room);
    assert_eq!(records.len(), runs, "{story}: that many runs were started, each under a key");
    for acknowledged in room.lines("acknowledged") {
        let run = acknowledged.parse().expect("a run id");
        assert!(records.contains_key(&run), "{story}: run {run} was acknowledged and is lost");
    }
    for (run, facts) in &records {
        assert_eq!(facts, expected, "{story}: the records of run {run} differ");
    }
    let known: Vec<Option<HashSet<Attempt>>> = (0..boots).map(|boot| recorded_before(room, boot)).collect();
    let executed = ledger::by_attempt(ledger::effects(&room.effects()));
    for (attempt, by) in &executed {
        let boots: HashSet<&String> = by.iter().collect();
        assert_eq!(boots.len(), by.len(), "{story}: {attempt:?} was executed twice without a kill: {by:?}");
        for boot in by {
            let boot: usize = ledger::process(boot).parse().expect("a boot's number");
            assert!(
                known[boot].as_ref().is_some_and(|known| !known.contains(attempt)),
                "{story}: {attempt:?} was recorded before boot {boot} and ran again: {by:?}"
            );
        }
    }
    check_order(&executed, &known, story);
    for (run, facts) in &records {
        for (step, attempt, _) in facts.iter().filter(|(.., kind)| *kind != StepKind::Skipped) {
            let attempt = Attempt { run: *run, step: step.clone(), attempt: *attempt };
            assert!(executed.contains_key(&attempt), "{story}: {attempt:?} is recorded and never ran");
        }
    }
}

/// Nothing began before all that it depends on was recorded: whatever a boot executed, the next one found the
/// records of its dependencies.
pub fn check_order(
    executed: &HashMap<Attempt, Vec<String>>,
    known: &[Option<HashSet<Attempt>>],
    story: &str,
) {
    let ledger = Arc::new(Ledger::open(Path::new("/dev/null"), "nobody"));
    let workflow = graph::twenty(&ledger);
    let definition = workflow.definition();
    let task_of = |step: &str| step.split('[').next().unwrap_or_default().to_owned();
    for (attempt, by) in executed {
        let task = definition.task(definition.find(&task_of(&attempt.step)).expect("the task is defined"));
        for boot in by {
            let boot: usize = ledger::process(boot).parse().expect("a boot's number");
            let Some(found) = known.iter().skip(boot + 1).flatten().next() else { continue };
            for &dependency in &task.dependencies {
                let name = &*definition.task(dependency).name;
                let recorded = found.iter().filter(|known| {
                    known.run == attempt.run
                        && task_of(&known.step) == name
                        && is_end(&known.step, known.attempt)
                });
                let needed = if name == "each" { 4 } else { 1 };
                assert!(
                    recorded.count() >= needed,
                    "{story}: {attempt:?} began in boot {boot} before `{name}` was recorded"
                );
            }
        }
    }
}

/// Whether this attempt is the last one of its step.
fn is_end(step: &str, attempt: u32) -> bool {
    step != "flaky" || attempt == 3
}

impl Sweep {
    /// Kills the program on either side of every commit that it makes.
    fn kill_at_every_boundary(&self) {
        let sides: [fn(u64) -> Boundary; 2] = [Boundary::Before, Boundary::After];
        let reached: Vec<u64> = std::thread::scope(|scope| {
            let sweep = |side: fn(u64) -> Boundary| {
                (1..).take_while(|number| self.is_killed_at(side(*number))).count() as u64
            };
            let sides = sides.map(|side| scope.spawn(move || sweep(side)));
            sides.into_iter().map(|side| side.join().expect("every boundary is survived")).collect()
        });
        // Joining, defining, two starts, a record for each level of the graph, two ends, leaving.
        assert!(
            reached.iter().all(|boundaries| *boundaries >= 12),
            "so few boundaries were reached: {reached:?}"
        );
    }

    /// Kills the first boot of the program at a boundary. Answers whether the boundary was reached.
    fn is_killed_at(&self, boundary: Boundary) -> bool {
        let (room, story) = (self.place.room(), format!("killed at {boundary:?}"));
        let mut first = Child::spawn(role(&room, 0, Some(boundary)));
        let status = first.end();
        if !was_killed(status) {
            assert!(status.success(), "{story}: {status}\n{}", first.last_words());
            return false;
        }
        let mut second = Child::spawn(role(&room, 1, None));
        let status = second.end();
        assert!(status.success(), "{story}: {status} after a restart\n{}", second.last_words());
        check(&self.facts, &room, RUNS, 2, &story);
        true
    }

    /// Kills so many boots of programs at random instants.
    fn kill_at_random(&self, kills: u64) {
        let seed = 0x5EED_u64;
        let (killed, numbers) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while killed.load(Ordering::SeqCst) < kills {
                        let dice = Dice::new(seed + numbers.fetch_add(1, Ordering::SeqCst));
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
            let mut child = Child::spawn(role(&room, boot, None));
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
            check(&self.facts, &room, RUNS, boot + 1, &story);
            return kills;
        }
        panic!("{story}: the program is not done after {BOOTS} boots");
    }
}

mod in_a_file {
    use super::*;

    #[test]
    fn a_process_that_is_killed_at_any_boundary_of_a_record_loses_and_repeats_nothing_recorded() {
        Sweep::of(Place::InAFile).kill_at_every_boundary();
    }

    #[test]
    fn a_process_that_is_killed_at_random_instants_loses_and_repeats_nothing_recorded() {
        Sweep::of(Place::InAFile).kill_at_random(100);
    }
}

#[cfg(feature = "postgres")]
mod on_postgres {
    use super::*;

    #[test]
    fn a_process_that_is_killed_at_any_boundary_of_a_record_loses_and_repeats_nothing_recorded() {
        Sweep::of(Place::on_postgres()).kill_at_every_boundary();
    }

    #[test]
    fn a_process_that_is_killed_at_random_instants_loses_and_repeats_nothing_recorded() {
        Sweep::of(Place::on_postgres()).kill_at_random(40);
    }
}

/// A small source of numbers that can be repeated.
#[derive(Debug)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number in `[0, 1)`.
    pub fn roll(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}
