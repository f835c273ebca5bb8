//! Stopping, and going on elsewhere.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tokio_util::sync::CancellationToken;
use windlass::{RunState, StepKind};

use crate::{
    child::Child,
    eventually::{PATIENCE, eventually, eventually_async},
    faulty::{Asked, Fault, Faulty},
    graph, ledger,
    role::{Part, Role},
    room::Room,
    stage::{Stage, What},
    three_processes::all,
};

/// What going on may take: far below the lease of a minute that nobody waits for.
const AT_ONCE: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread")]
async fn after_a_kill_the_restarted_program_goes_on_at_once() {
    let room = Room::new();
    let serving = |name| Child::ready(Role::new(name, &room, Part::Serve));
    let worked = |by: &str| ledger::effects(&room.effects()).iter().any(|effect| effect.process() == by);
    let mut before = serving("before");
    let client = room.client().await;
    let workflow = graph::pair(&Arc::new(ledger::Ledger::open(&room.effects(), "nobody")));
    client.start(workflow, 60_000).await.expect("the run starts");
    eventually("the run begins", PATIENCE, || worked("before"));
    before.kill();
    let killed = Instant::now();
    let _after = serving("after");
    eventually("the run goes on", PATIENCE, || worked("after"));
    assert!(killed.elapsed() < AT_ONCE, "the run went on only after {:?}", killed.elapsed());
}

on_both! {
    a_graceful_stop_hands_over_at_once_and_its_attempts_do_not_count,
    processes_that_are_replaced_one_after_the_other_repeat_nothing_and_lose_nothing,
}

async fn a_graceful_stop_hands_over_at_once_and_its_attempts_do_not_count(room: Room) {
    let stage = Stage::default();
    let (never, at_once) = (CancellationToken::new(), CancellationToken::new());
    at_once.cancel();
    let first = stage.engine("first", room.store().await, &never).stop_grace(Duration::from_millis(100));
    let first = first.launch().await.expect("it launches");
    let second = stage.engine("second", room.store().await, &at_once).launch().await.expect("it launches");
    let run = first.start(stage.workflow(), 0).await.expect("the run starts");
    eventually("the run begins", PATIENCE, || stage.when("first", "first", What::Began).is_some());
    first.stop().await.expect("it stops");
    let stopped = Instant::now();
    let id = run.id();
    assert_eq!(second.run(&stage.workflow(), id).await.expect("the run completes"), 1);
    assert!(stopped.elapsed() < AT_ONCE, "the run went on only after {:?}", stopped.elapsed());
    let image = room.store().await.load(id).await.expect("a run can be loaded").expect("the run is there");
    let steps: Vec<_> = image.steps.iter().map(|step| (&*step.name, step.attempt, step.kind)).collect();
    assert_eq!(steps, [("first", 1, StepKind::Completed), ("second", 1, StepKind::Completed)]);
    assert_eq!(image.standing.recoveries, 0, "nothing was recovered from the dead");
    second.stop().await.expect("it stops");
}

/// As when a new version is rolled out: each process finishes what it executes, and hands over the rest.
async fn processes_that_are_replaced_one_after_the_other_repeat_nothing_and_lose_nothing(room: Room) {
    const RUNS: usize = 300;
    const STEP: u64 = 100;
    let serving = |name: &str| Child::ready(Role::new(name, &room, Part::Serve).max_runs(50));
    let worked =
        |by: &str| ledger::effects(&room.effects()).iter().filter(|effect| effect.process() == by).count();
    let client = room.client().await;
    let pair = graph::pair(&Arc::new(ledger::Ledger::open(&room.effects(), "nobody")));
    let mut started = Vec::new();
    let mut serve = ["one", "two", "three"].map(|name| (name, Some(serving(name))));
    for (at, next) in [(0, "fourth"), (1, "fifth"), (2, "sixth")] {
        // There is work for all of them.
        started.extend(client.start_many(pair.clone(), vec![STEP; RUNS]).await.expect("the runs start"));
        let (name, process) = &mut serve[at];
        eventually("the process that is replaced works", PATIENCE, || worked(name) > 0);
        process.take().expect("it has not stopped yet").stop();
        let before = worked(name);
        *process = Some(serving(next));
        started.extend(client.start_many(pair.clone(), vec![STEP; RUNS]).await.expect("the runs start"));
        eventually("the next process works", PATIENCE, || worked(next) > 0);
        assert_eq!(worked(name), before, "`{name}` has stopped");
        *name = next;
    }
    eventually_async("all runs complete", PATIENCE, || async {
        client.runs().live().limit(1).list().await.expect("runs can be found").is_empty()
    })
    .await;
    let store = room.store().await;
    let all = all(&*store).await;
    assert_eq!(all.len(), started.len());
    assert!(
        all.iter().all(|run| run.standing.state() == RunState::Completed && run.standing.recoveries == 0)
    );
    let by_attempt = ledger::by_attempt(ledger::effects(&room.effects()));
    let again: Vec<_> = by_attempt.iter().filter(|(_, by)| by.len() > 1).collect();
    assert!(again.is_empty(), "{} attempts were executed more than once: {again:?}", again.len());
    assert_eq!(by_attempt.len(), 2 * started.len(), "two steps of each run, each in one attempt");
    assert!(by_attempt.keys().all(|attempt| attempt.attempt == 1));
    serve.into_iter().filter_map(|(_, process)| process).for_each(Child::stop);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_soft_stop_lets_what_executes_finish_and_starts_nothing_new() {
    let (room, stage, falls) = (Room::new(), Stage::default(), CancellationToken::new());
    let engine = stage.engine("only", room.store().await, &falls).launch().await.expect("it launches");
    let run = engine.start(stage.workflow(), 0).await.expect("the run starts");
    eventually("the run begins", PATIENCE, || stage.when("only", "first", What::Began).is_some());
    let stopping = tokio::spawn({
        let engine = engine.clone();
        async move { engine.stop().await }
    });
    falls.cancel();
    stopping.await.expect("it does not panic").expect("it stops");
    let store = room.store().await;
    let image = store.load(run.id()).await.expect("a run can be loaded").expect("the run is there");
    // Whether the second step began before the stop was heard of, is open; that it was cut off is not.
    assert!(stage.scenes().iter().all(|scene| scene.what != What::Dropped), "{:?}", stage.scenes());
    assert!(matches!(image.standing.state(), RunState::Suspended | RunState::Completed), "{image:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_twice_is_harmless() {
    let (room, stage, falls) = (Room::new(), Stage::default(), CancellationToken::new());
    let engine = stage.engine("only", room.store().await, &falls).launch().await.expect("it launches");
    let (one, other) = tokio::join!(engine.stop(), engine.stop());
    one.expect("it stops");
    other.expect("it stops");
    engine.stop().await.expect("it has stopped");
    engine.stop_now().await.expect("it has stopped");
    let refused = engine.start(stage.workflow(), 0).await.expect_err("a stopped engine starts nothing");
    assert_eq!(refused.code(), "stopped");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_stop_makes_the_first_one_hard() {
    let (room, stage, never) = (Room::new(), Stage::default(), CancellationToken::new());
    let engine = stage.engine("only", room.store().await, &never).stop_grace(Duration::from_secs(3600));
    let engine = engine.launch().await.expect("it launches");
    let run = engine.start(stage.workflow(), 0).await.expect("the run starts");
    eventually("the run begins", PATIENCE, || stage.when("only", "first", What::Began).is_some());
    let soft = tokio::spawn({
        let engine = engine.clone();
        async move { engine.stop().await }
    });
    // Whichever of the two comes first waits for the attempt, and the other one does not let it.
    engine.stop().await.expect("it stops");
    tokio::time::timeout(PATIENCE, soft).await.expect("in time").expect("no panic").expect("it stops");
    let store = room.store().await;
    let image = store.load(run.id()).await.expect("a run can be loaded").expect("the run is there");
    assert_eq!(image.standing.state(), RunState::Suspended, "anyone may go on with it");
    assert!(image.steps.is_empty(), "the attempt does not count: {:?}", image.steps);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_returns_in_time_while_another_process_holds_the_file_and_says_what_is_left() {
    let (room, stage, never) = (Room::new(), Stage::default(), CancellationToken::new());
    let mut frozen = Child::ready(Role::new("frozen", &room, Part::Serve));
    let grace = Duration::from_millis(300);
    let engine = stage.engine("only", room.store().await, &never).stop_grace(grace);
    let engine = engine.launch().await.expect("it launches");
    let run = engine.start(stage.workflow(), 0).await.expect("the run starts");
    let id = run.id();
    eventually("the run begins", PATIENCE, || stage.when("only", "first", What::Began).is_some());
    frozen.tell("freeze in a write");
    frozen.freeze_in_trap();
    let began = Instant::now();
    let left = engine.stop().await.expect_err("the run cannot be handed over").to_string();
    let took = began.elapsed();
    assert!(took < grace + Duration::from_secs(8), "stopping took {took:?}");
    assert!(left.contains("1 runs in hand"), "{left}");

    // Nothing is lost: when the file is free again, others go on.
    frozen.kill();
    drop((run, engine));
    let at_once = CancellationToken::new();
    at_once.cancel();
    let next = stage.engine("next", room.store().await, &at_once).launch().await.expect("it launches");
    let run = next.run(&stage.workflow(), id);
    assert_eq!(tokio::time::timeout(PATIENCE, run).await.expect("in time").expect("the run completes"), 1);
    next.stop().await.expect("it stops");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_has_left_does_not_join_again() {
    let (room, stage) = (Room::new(), Stage::default());
    let store = Arc::new(Faulty::new(room.store().await));
    let never = CancellationToken::new();
    let engine = stage.engine("only", Arc::clone(&store) as _, &never).heartbeat(Duration::from_millis(20));
    let engine = engine.launch().await.expect("it launches");
    // It leaves and does not hear of it. Meanwhile its heartbeat is told that there is no such node.
    let leaving = AtomicBool::new(true);
    store.on_call(move |asked| match asked {
        Asked::Other if leaving.swap(false, Ordering::Relaxed) => Fault::NoAnswer,
        _ => Fault::None,
    });
    engine.stop().await.expect_err("nobody told it that it has left");
    assert_eq!(room.store().await.nodes().await.expect("nodes can be listed"), []);
}
