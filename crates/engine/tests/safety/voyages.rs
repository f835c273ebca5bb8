//! A process that runs graphs whose tasks wait, and are undone, is killed at boundaries of records and started again.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
    time::Duration,
};

use windlass::{Engine, RunId, RunState, StepKind, prelude::*};
use windlass_store::Query;

use crate::{
    child::{Child, kill_at, was_killed},
    crash_sweep::{Place, recorded_before},
    durable::{GO, errand},
    ledger::{self, Ledger},
    program::note_records,
    role::{Boundary, Part, Role},
    room::Room,
};

/// A moment of work, so that a kill has something to interrupt.
const WORK: Duration = Duration::from_millis(1);

/// Notes what is executed under the name of its record, and works for a moment.
async fn noted(cx: &Cx, ledger: &Ledger, name: &str) {
    ledger.note_as(cx.run_id(), name, cx.attempt());
    tokio::time::sleep(WORK).await;
}

#[workflow(output = land)]
pub mod voyage {
    use super::*;

    #[task]
    pub async fn pack(cx: &Cx, ledger: Res<Arc<Ledger>>) -> Result<u64> {
        noted(cx, &ledger, "pack").await;
        Ok(1)
    }

    #[undo(pack)]
    pub async fn unpack(pack: u64, cx: &Cx, ledger: Res<Arc<Ledger>>) -> Result<()> {
        assert_eq!(pack, 1);
        noted(cx, &ledger, "pack//undo").await;
        Ok(())
    }

    #[task]
    pub async fn sail(pack: u64, cx: &Cx, ledger: Res<Arc<Ledger>>) -> Result<u64> {
        cx.sleep(Duration::from_millis(2)).await?;
        let word = cx.event(GO).await?;
        noted(cx, &ledger, "sail").await;
        Ok(pack + word)
    }

    #[undo(sail)]
    pub async fn sail_back(cx: &Cx, ledger: Res<Arc<Ledger>>) -> Result<()> {
        noted(cx, &ledger, "sail//undo").await;
        Ok(())
    }

    #[task]
    pub async fn trade(sail: u64, cx: &Cx, ledger: Res<Arc<Ledger>>) -> Result<u64> {
        let done = cx.run(errand::workflow(), ()).await?;
        noted(cx, &ledger, "trade").await;
        Ok(sail + done)
    }

    #[undo(trade)]
    pub async fn give_back(cx: &Cx, ledger: Res<Arc<Ledger>>) -> Result<()> {
        noted(cx, &ledger, "trade//undo").await;
        Ok(())
    }

    #[task(retry(attempts = 1))]
    pub async fn land(input: bool, trade: u64, cx: &Cx, ledger: Res<Arc<Ledger>>) -> Result<u64> {
        noted(cx, &ledger, "land").await;
        if input { Err("no harbour".into()) } else { Ok(trade) }
    }
}

/// Starts two voyages under keys, one of which fails, and sees them to their ends.
pub async fn sail(role: &Role, room: &Room, ledger: Arc<Ledger>, kill: Option<Boundary>) {
    let store = room.store_with(kill_at(kill)).await;
    note_records(&*store, role, room).await;
    let mut builder = Engine::over(store)
        .resource(ledger)
        .workflow(voyage::workflow())
        .workflow(errand::workflow())
        .heartbeat(role.heartbeat)
        .stale_after(role.stale_after);
    if room.is_on_postgres() {
        builder = builder.name("sweep");
    }
    let engine = builder.launch().await.expect("the engine launches");
    for fails in [false, true] {
        let start = engine.start(voyage::workflow(), fails).key(format!("fails-{fails}"));
        let run = start.await.expect("the run starts");
        room.append("acknowledged", &run.id().to_string());
        let sent = run.send(GO, &7).key("once").await;
        // It may have come to its end before.
        assert!(sent.as_ref().err().is_none_or(|error| error.code() == "already_ended"), "{sent:?}");
        match run.await {
            Ok(sum) => assert!(!fails && sum == 1 + 7 + 2, "{sum}"),
            Err(error) => assert!(fails && error.to_string().contains("no harbour"), "{error}"),
        }
    }
    engine.stop().await.expect("the engine stops");
}

/// A record of a run, which attempt it was, and how that ended.
type Fact = (String, u32, StepKind);

/// What is recorded of each run, in order, and how it ended.
fn records(room: &Room) -> BTreeMap<RunId, (RunState, Vec<Fact>)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime starts").block_on(async {
        let store = room.store().await;
        let mut records = BTreeMap::new();
        for run in store.find(Query::default()).await.expect("runs can be found").runs {
            let image = store.load(run.id).await.expect("a run can be loaded").expect("the run is there");
            let ended = image.steps.into_iter().filter(|step| step.kind != StepKind::Started);
            let facts = ended.map(|step| (step.name.to_string(), step.attempt, step.kind)).collect();
            records.insert(run.id, (run.standing.state(), facts));
        }
        records
    })
}

fn facts(records: &BTreeMap<RunId, (RunState, Vec<Fact>)>) -> Vec<BTreeSet<Fact>> {
    let mut facts: Vec<_> = records.values().map(|(_, facts)| facts.iter().cloned().collect()).collect();
    facts.sort();
    facts
}

/// Kills the program on either side of every so-and-so-many-th commit that it makes.
fn kill_at_boundaries(place: &Place, every: usize) {
    let role = |room: &Room, boot: usize, kill| Role::new(&boot.to_string(), room, Part::Sail { kill });
    let room = place.room();
    let mut child = Child::spawn(role(&room, 0, None));
    let status = child.end();
    assert!(status.success(), "the program ends by itself: {status}\n{}", child.last_words());
    let expected = facts(&records(&room));
    let is_killed_at = |boundary: Boundary| {
        let (room, story) = (place.room(), format!("killed at {boundary:?}"));
        let mut first = Child::spawn(role(&room, 0, Some(boundary)));
        let status = first.end();
        if !was_killed(status) {
            assert!(status.success(), "{story}: {status}\n{}", first.last_words());
            return false;
        }
        let mut second = Child::spawn(role(&room, 1, None));
        let status = second.end();
        assert!(status.success(), "{story}: {status} after a restart\n{}", second.last_words());
        check(&room, &expected, &story);
        true
    };
    let sides: [fn(u64) -> Boundary; 2] = [Boundary::Before, Boundary::After];
    let reached = std::thread::scope(|scope| {
        let sweep = |side: fn(u64) -> Boundary| {
            (1..).step_by(every).take_while(|number| is_killed_at(side(*number))).count()
        };
        let sides = sides.map(|side| scope.spawn(move || sweep(side)));
        sides.map(|side| side.join().expect("every boundary is survived"))
    });
    assert!(reached.iter().all(|boundaries| *boundaries * every >= 20), "so few: {reached:?}");
}

/// Holds the ledger against the records.
fn check(room: &Room, expected: &[BTreeSet<Fact>], story: &str) {
    let records = records(room);
    for acknowledged in room.lines("acknowledged") {
        let run: RunId = acknowledged.parse().expect("a run id");
        assert!(records.contains_key(&run), "{story}: run {run} was acknowledged and is lost");
    }
    assert_eq!(facts(&records), expected, "{story}");
    for (state, facts) in records.values() {
        let undone = facts.iter().filter_map(|(name, ..)| name.strip_suffix("//undo"));
        let expected: &[&str] = if *state == RunState::Failed { &["trade", "sail", "pack"] } else { &[] };
        assert_eq!(undone.collect::<Vec<_>>(), expected, "{story}: newest first, each once");
    }
    let known = recorded_before(room, 1).unwrap_or_default();
    for (attempt, by) in ledger::by_attempt(ledger::effects(&room.effects())) {
        let once: HashSet<&String> = by.iter().collect();
        assert_eq!(once.len(), by.len(), "{story}: {attempt:?} was executed twice without a kill: {by:?}");
        let again = by.iter().any(|boot| ledger::process(boot) == "1");
        assert!(!again || !known.contains(&attempt), "{story}: {attempt:?} was recorded and ran again");
    }
}

#[test]
fn graphs_in_a_file_that_are_killed_at_any_boundary_wait_once_and_are_undone_once() {
    kill_at_boundaries(&Place::InAFile, 1);
}

#[cfg(feature = "postgres")]
#[test]
fn graphs_on_postgres_that_are_killed_at_boundaries_wait_once_and_are_undone_once() {
    kill_at_boundaries(&Place::on_postgres(), 3);
}

/// Waits for word in one task, and for times in another.
#[workflow(output = end)]
pub mod watch {
    use super::*;

    #[task]
    pub async fn listen(input: u64, cx: &Cx) -> Result<u64> {
        let mut sum = 0;
        for _ in 0..input {
            sum += cx.event(GO).await?;
        }
        Ok(sum)
    }

    #[task]
    pub async fn nap(input: u64, cx: &Cx) -> Result<()> {
        for _ in 0..input {
            cx.sleep(WORK).await?;
        }
        Ok(())
    }

    #[task(after = [nap])]
    pub async fn end(listen: u64) -> Result<u64> {
        Ok(listen)
    }
}

/// Where a node has no room, a run that waits is given up at once: just when what it waits for may be coming.
async fn no_event_is_lost_on_tasks_that_are_just_being_parked(room: Room) {
    const RUNS: u64 = 30;
    const EVENTS: u64 = 6;
    let engine = Engine::over(room.store().await)
        .workflow(watch::workflow())
        .max_runs(RUNS as usize / 2)
        .park_after(WORK)
        .launch()
        .await
        .expect("the engine launches");
    let mut listening = Vec::new();
    for _ in 0..RUNS {
        let run = engine.start(watch::workflow(), EVENTS).await.expect("the run starts");
        listening.push(tokio::spawn(async move {
            for number in 0..EVENTS {
                let sent = run.send(GO, &1).key(number.to_string()).await;
                assert!(sent.as_ref().err().is_none_or(|error| error.code() == "already_ended"), "{sent:?}");
                tokio::time::sleep(WORK).await;
            }
            run.await
        }));
    }
    for run in listening {
        let sum = tokio::time::timeout(PATIENCE, run).await.expect("no run hangs").expect("it is joined");
        assert_eq!(sum.expect("the run completes"), EVENTS);
    }
    engine.stop().await.expect("the engine stops");
}

/// How long something may take that takes a moment.
const PATIENCE: Duration = Duration::from_secs(60);

on_both!(no_event_is_lost_on_tasks_that_are_just_being_parked);
