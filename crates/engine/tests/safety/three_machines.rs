//! Three processes share one PostgreSQL database while one of them is killed, another is frozen past its lease, and the
//! server is restarted.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use windlass_cluster::Cluster;

use crate::{
    eventually::{PATIENCE, eventually, eventually_async},
    graph, ledger,
    room::Room,
    three_processes::{HELD, LEASE, RUNS, STEP, freeze_and_finish, go_on, held_by, node_of, serving},
};

/// How many runs fail once, and are parked until their second attempt.
const RETRIED: usize = 50;

#[tokio::test(flavor = "multi_thread")]
async fn three_machines_share_five_thousand_runs_through_a_kill_a_freeze_and_a_restart_of_the_server() {
    let cluster = Cluster::start(&[]).expect("a cluster starts");
    let room = Room::on_postgres(cluster.url());
    let (mut killed, frozen, mut sound) =
        (serving("killed", &room), serving("frozen", &room), serving("sound", &room));
    let (client, store) = (room.client().await, room.store().await);
    let workflow = graph::pair(&Arc::new(ledger::Ledger::open(&room.effects(), "nobody")));
    let started = client.start_many(workflow, vec![STEP; RUNS]).await.expect("the runs start");
    assert_eq!(started.len(), RUNS);
    sound.tell("retry later");

    let worked =
        |by: &str| ledger::effects(&room.effects()).iter().filter(|effect| effect.process() == by).count();
    eventually("all three work", PATIENCE, || {
        ["killed", "frozen", "sound"].iter().all(|by| worked(by) > HELD)
    });

    let node = node_of(&client, &killed).await.expect("the process is a node");
    // Before it can end one of its runs, so that it holds some.
    killed.tell("freeze before an end");
    killed.freeze_in_trap();
    killed.kill();
    let orphans = held_by(&*store, node).await;
    assert!(!orphans.is_empty(), "the killed process held nothing, so this shows nothing");
    cluster.restart("immediate").expect("the server restarts");
    let last_fault = Instant::now();
    eventually_async("the runs of the killed process go on", PATIENCE, || go_on(&*store, &orphans, node))
        .await;
    let took = last_fault.elapsed();
    assert!(took < LEASE + Duration::from_secs(2), "{} runs went on only after {took:?}", orphans.len());

    freeze_and_finish(&room, &client, &*store, frozen, sound, RUNS + RETRIED).await;
}
