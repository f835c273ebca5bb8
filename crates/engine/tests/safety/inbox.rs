//! Orders reach a run whichever hint gets lost.

use std::{sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;
use windlass::RunState;
use windlass_store::{Act, Store};

use crate::{
    eventually::{PATIENCE, eventually, eventually_async},
    faulty::{Fault, Faulty},
    room::Room,
    stage::{Stage, What},
};

async fn state(store: &dyn Store, run: windlass::RunId) -> RunState {
    let image = store.load(run).await.expect("a run can be loaded").expect("the run is there");
    image.standing.state()
}

async fn an_order_whose_hint_is_lost_reaches_a_running_run_with_a_heartbeat(room: Room) {
    let (stage, never) = (Stage::default(), CancellationToken::new());
    let store = Arc::new(Faulty::new(room.store().await).deaf());
    let engine = stage.engine("deaf", store, &never).launch().await.expect("it launches");
    let run = engine.start(stage.workflow(), 0).await.expect("the run starts");
    eventually("the run begins", PATIENCE, || stage.when("deaf", "first", What::Began).is_some());

    let client = room.client().await;
    client.run(&stage.workflow(), run.id()).cancel("enough").await.expect("the order is given");
    let store = room.store().await;
    // The safety net is an hour away, so only a heartbeat can have brought the order.
    eventually_async("the run is cancelled", Duration::from_secs(5), || async {
        state(&*store, run.id()).await == RunState::Cancelled
    })
    .await;
    engine.stop().await.expect("it stops");
}

async fn an_order_that_is_committed_before_the_parking_wakes_the_run(room: Room) {
    let (stage, falls) = (Stage::default(), CancellationToken::new());
    let store = Arc::new(Faulty::new(room.store().await).deaf());
    let (parking, goes_on) = (CancellationToken::new(), CancellationToken::new());
    let (parks, held) = (parking.clone(), goes_on.clone());
    store.on_call(move |asked| {
        if !asked.commits(|act| matches!(act, Act::Park { .. })) {
            return Fault::None;
        }
        parks.cancel();
        Fault::HeldUntil(held.clone())
    });
    let engine = stage.engine("deaf", store, &falls).launch().await.expect("it launches");
    let run = engine.start(stage.workflow(), 0).await.expect("the run starts");
    run.pause().await.expect("the run is paused");
    falls.cancel();
    parking.cancelled().await;
    let client = room.client().await;
    client.run(&stage.workflow(), run.id()).resume().await.expect("the run is resumed");
    goes_on.cancel();
    assert_eq!(tokio::time::timeout(PATIENCE, run).await.expect("in time").expect("the run completes"), 1);
    engine.stop().await.expect("it stops");
}

async fn a_parked_run_whose_wake_up_is_not_heard_of_is_found_by_the_safety_net(room: Room) {
    let (stage, falls) = (Stage::default(), CancellationToken::new());
    let store = Arc::new(Faulty::new(room.store().await).deaf());
    let engine = stage.engine("deaf", store, &falls).poll(Duration::from_millis(200));
    let engine = engine.launch().await.expect("it launches");
    let run = engine.start(stage.workflow(), 0).await.expect("the run starts");
    run.pause().await.expect("the run is paused");
    falls.cancel();
    let store = room.store().await;
    eventually_async("the run is parked", PATIENCE, || async {
        state(&*store, run.id()).await == RunState::Paused
    })
    .await;
    let client = room.client().await;
    client.run(&stage.workflow(), run.id()).resume().await.expect("the run is resumed");
    assert_eq!(tokio::time::timeout(PATIENCE, run).await.expect("in time").expect("the run completes"), 1);
    engine.stop().await.expect("it stops");
}

on_both! {
    an_order_whose_hint_is_lost_reaches_a_running_run_with_a_heartbeat,
    an_order_that_is_committed_before_the_parking_wakes_the_run,
    a_parked_run_whose_wake_up_is_not_heard_of_is_found_by_the_safety_net,
}
