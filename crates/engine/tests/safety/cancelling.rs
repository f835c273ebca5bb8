//! Cancelling runs, wherever they stand, and what they have started.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::Notify;
use windlass::{Cancelled, RunId, RunState, prelude::*, store::Query};

use crate::{
    durable::GO,
    eventually::{PATIENCE, eventually_async},
    flow_waits::{in_time, until},
    room::Room,
};

/// What was undone, and what something waits for.
#[derive(Debug, Default)]
struct Scales {
    undone: Mutex<Vec<&'static str>>,
    /// Told when a step, or an undo, waits for the gate.
    waits: Notify,
    gate: Notify,
    /// Whether the undo waits for the gate.
    is_slow: AtomicBool,
}

/// Does something that can be undone, and then waits for word; or works for as long as nobody stops it.
#[flow]
async fn deed(cx: &Flow, works: bool, scales: Res<Arc<Scales>>) -> Result<()> {
    let undoing = Arc::clone(&scales);
    let undo = move |()| async move {
        if undoing.is_slow.load(Ordering::SeqCst) {
            undoing.waits.notify_one();
            undoing.gate.notified().await;
        }
        undoing.undone.lock().push("undone");
        Ok::<_, Failure>(())
    };
    cx.step("do", || async { Ok::<_, Failure>(()) }).undo(undo).await?;
    if works {
        cx.step("work", || async {
            scales.waits.notify_one();
            std::future::pending::<Result<()>>().await
        })
        .await?;
    }
    cx.event(GO).await?;
    Ok(())
}

/// The same workflow in a program whose code does not agree with what is recorded.
#[flow(name = "deed")]
async fn other(cx: &Flow, works: bool) -> Result<()> {
    cx.step("something else", || async move { Ok::<_, Failure>(works) }).await?;
    Ok(())
}

/// Waits for word.
#[flow]
async fn child(cx: &Flow) -> Result<u64> {
    cx.event(GO).await
}

/// What becomes of a parent's child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
enum Fate {
    /// The parent ends before it.
    Ends,
    /// The same, and the child is to be left alone.
    Leaves,
    /// The parent waits for it.
    Waits,
}

/// Starts a child, and ends when word comes, or with the child.
#[flow]
async fn parent(cx: &Flow, fate: Fate) -> Result<()> {
    let started = cx.run(child::workflow(), ());
    if fate == Fate::Waits {
        return started.await.map(drop);
    }
    let started = if fate == Fate::Leaves { started.leave() } else { started };
    windlass::select! {
        ended = started => ended.map(drop),
        word = cx.event(GO) => word.map(drop),
    }
}

fn builder(store: Arc<dyn windlass::store::Store>, scales: &Arc<Scales>) -> windlass::EngineBuilder {
    let engine = Engine::over(store).resource(Arc::clone(scales));
    let engine = engine.workflow(child::workflow()).workflow(parent::workflow());
    engine.park_after(Duration::from_millis(50)).cancel_grace(Duration::from_millis(50))
}

async fn launch(room: &Room, scales: &Arc<Scales>) -> Engine {
    builder(room.store().await, scales).workflow(deed::workflow()).launch().await.expect("it launches")
}

/// Waits for the end of a run that was cancelled, and was undone so often.
async fn cancelled(engine: &Engine, run: RunId, scales: &Scales, undone: usize) {
    let error = in_time(engine.run(&deed::workflow(), run)).await.expect_err("it was cancelled");
    assert_eq!(error.code(), "run_cancelled");
    assert!(error.to_string().contains("enough"), "the reason is kept: {error}");
    assert_eq!(scales.undone.lock().len(), undone);
}

async fn a_run_is_cancelled_in_every_state_from_another_process(room: Room) {
    let scales = Arc::<Scales>::default();
    let client = room.client().await;
    // Pending: nobody is there who could begin it.
    let run = client.start(deed::workflow(), false).await.expect("it starts");
    assert_eq!(run.cancel("enough").await.expect("it is cancelled"), Cancelled::Requested);
    let engine = launch(&room, &scales).await;
    cancelled(&engine, run.id(), &scales, 0).await;
    let again = run.cancel("enough").await.expect("it can be asked");
    assert_eq!(again, Cancelled::AlreadyEnded(RunState::Cancelled));
    // Running: its step does not end by itself.
    let run = client.start(deed::workflow(), true).await.expect("it starts");
    in_time(scales.waits.notified()).await;
    assert_eq!(run.cancel("enough").await.expect("it is cancelled"), Cancelled::Requested);
    cancelled(&engine, run.id(), &scales, 1).await;
    // Suspended.
    let run = client.start(deed::workflow(), false).await.expect("it starts");
    until(&room, run.id(), RunState::Suspended).await;
    assert_eq!(run.cancel("enough").await.expect("it is cancelled"), Cancelled::Requested);
    cancelled(&engine, run.id(), &scales, 2).await;
    // Paused.
    let run = client.start(deed::workflow(), false).await.expect("it starts");
    until(&room, run.id(), RunState::Suspended).await;
    run.pause().await.expect("it is paused");
    until(&room, run.id(), RunState::Paused).await;
    assert_eq!(run.cancel("enough").await.expect("it is cancelled"), Cancelled::Requested);
    cancelled(&engine, run.id(), &scales, 3).await;
    // Undoing: the first verdict stands, and what is undone is undone once.
    scales.is_slow.store(true, Ordering::SeqCst);
    let run = client.start(deed::workflow(), false).await.expect("it starts");
    until(&room, run.id(), RunState::Suspended).await;
    run.cancel("enough").await.expect("it is cancelled");
    in_time(scales.waits.notified()).await;
    let second = run.cancel("a second time").await.expect("it can be asked");
    assert_eq!(second, Cancelled::Requested);
    scales.gate.notify_one();
    cancelled(&engine, run.id(), &scales, 4).await;
    engine.stop().await.expect("it stops");
}

async fn a_blocked_run_that_is_cancelled_is_undone_when_code_that_agrees_appears(room: Room) {
    let scales = Arc::<Scales>::default();
    let engine = launch(&room, &scales).await;
    let id = engine.start(deed::workflow(), false).await.expect("it starts").id();
    until(&room, id, RunState::Suspended).await;
    engine.stop().await.expect("it stops");
    let newer = builder(room.store().await, &scales).workflow(other::workflow());
    let newer = newer.launch().await.expect("it launches");
    let run = newer.run(&other::workflow(), id);
    // It is looked at when something comes for it.
    run.send(GO, &1).await.expect("it is sent");
    until(&room, id, RunState::Blocked).await;
    assert_eq!(run.cancel("enough").await.expect("it is cancelled"), Cancelled::Blocked);
    eventually_async("it says that it waits to be undone", PATIENCE, || async {
        let wait = run.status().await.expect("it can be asked").wait;
        wait.and_then(|wait| wait.reason).is_some_and(|why| why.contains("is undone when there is code"))
    })
    .await;
    newer.stop().await.expect("it stops");
    assert!(scales.undone.lock().is_empty());
    let engine = launch(&room, &scales).await;
    cancelled(&engine, id, &scales, 1).await;
    engine.stop().await.expect("it stops");
}

async fn a_child_is_cancelled_with_its_parent_unless_it_is_to_be_left(room: Room) {
    let scales = Arc::default();
    for (fate, cancels, expected) in [
        (Fate::Waits, true, RunState::Cancelled),
        (Fate::Ends, false, RunState::Cancelled),
        (Fate::Leaves, false, RunState::Suspended),
        (Fate::Leaves, true, RunState::Suspended),
    ] {
        let engine = launch(&room, &scales).await;
        let id = engine.start(parent::workflow(), fate).await.expect("it starts").id();
        let children = || async {
            let store = room.store().await;
            let page = store.find(Query { limit: 1, workflow: Some("child".into()), ..Query::default() });
            page.await.expect("runs can be found").runs
        };
        let newest = || async { children().await.first().map(|found| (found.id, found.standing.state())) };
        eventually_async("both wait", PATIENCE, || async {
            matches!(newest().await, Some((of, RunState::Suspended)) if of > id)
        })
        .await;
        until(&room, id, RunState::Suspended).await;
        // What becomes of it is said while no process is there, and done by the next.
        engine.stop().await.expect("it stops");
        let client = room.client().await;
        let run = client.run(&parent::workflow(), id);
        match cancels {
            true => drop(run.cancel("enough").await.expect("it is cancelled")),
            false => run.send(GO, &1).await.expect("it is sent"),
        }
        let engine = launch(&room, &scales).await;
        assert_eq!(in_time(engine.run(&parent::workflow(), id)).await.is_err(), cancels);
        let (found, _) = newest().await.expect("there is one");
        until(&room, found, expected).await;
        engine.run(&child::workflow(), found).terminate("it is over").await.expect("it is terminated");
        engine.stop().await.expect("it stops");
    }
}

on_both! {
    a_run_is_cancelled_in_every_state_from_another_process,
    a_blocked_run_that_is_cancelled_is_undone_when_code_that_agrees_appears,
    a_child_is_cancelled_with_its_parent_unless_it_is_to_be_left,
}
