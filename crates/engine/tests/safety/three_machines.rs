//! Three processes share one PostgreSQL database while one of them is killed, another is frozen past its lease, and the
//! server is restarted.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use tokio_postgres::NoTls;
use windlass::{RunId, RunState, StepKind};
use windlass_cluster::Cluster;
use windlass_core::Time;
use windlass_store::{Place, RunSummary, Store};

use crate::{
    eventually::{PATIENCE, eventually_async},
    graph,
    ledger::{Attempt, Ledger},
    room::Room,
    three_processes::{
        LEASE, all, all_work, check_effects, check_ends, freeze_past_lease, held_by, node_of, serving,
        thaw_and_finish,
    },
};

/// Runs of two steps, and how long each of these takes, in milliseconds.
const RUNNING: usize = 4500;
const STEP: u64 = 300;
/// Runs that wait for so many milliseconds, again and again, until the last fault. These are parked meanwhile,
const PARKED: usize = 400;
const PARKED_FOR: u64 = 2000;
/// and these are not.
const RETRYING: usize = 100;
const RETRIED_AFTER: u64 = 300;
const RUNS: usize = RUNNING + PARKED + RETRYING;
/// How many runs each process holds at most.
const HELD: usize = 300;
/// How many runs are left for after the last fault, at most: as many as two processes can bring to their ends in time.
const LEFT: usize = 1500;

/// The time by the server's clock.
async fn now(room: &Room) -> Time {
    let url = room.url();
    let (server, schema) = url.split_once("?schema=").expect("a schema");
    let (client, connection) = tokio_postgres::connect(server, NoTls).await.expect("the server answers");
    tokio::spawn(connection);
    let clock = format!("SELECT {schema}.clock()");
    Time(client.query_one(&clock, &[]).await.expect("the server has a clock").get(0))
}

#[tokio::test(flavor = "multi_thread")]
async fn all_runs_of_three_processes_complete_in_time_after_a_kill_a_freeze_and_a_restart_of_the_server() {
    let cluster = Cluster::start(&["fsync = off"]).expect("a cluster starts");
    let room = Room::on_postgres(cluster.url());
    let [mut killed, mut frozen, sound] =
        ["killed", "frozen", "sound"].map(|name| serving(name, &room, HELD));
    let (client, store) = (room.client().await, room.store().await);
    let ledger = Arc::new(Ledger::open(&room.effects(), "nobody"));
    let persistent = [vec![PARKED_FOR; PARKED], vec![RETRIED_AFTER; RETRYING]].concat();
    let persistent = client.start_many(graph::persistent(&ledger, &room), persistent).await;
    let running = client.start_many(graph::pair(&ledger), vec![STEP; RUNNING]).await;
    let started: HashSet<RunId> =
        [persistent, running].into_iter().flat_map(|runs| runs.expect("the runs start")).collect();
    assert_eq!(started.len(), RUNS);
    all_work(&room, HELD);

    let while_frozen = freeze_past_lease(&room, &client, &mut frozen).await;
    eventually_async("most runs have ended", PATIENCE, || async {
        client.runs().completed().limit(RUNS).list().await.expect("runs can be found").len() > RUNS - LEFT
    })
    .await;
    eventually_async("many runs are parked", PATIENCE, || async {
        client.runs().state(RunState::Suspended).limit(PARKED).list().await.expect("runs can be found").len()
            > PARKED / 2
    })
    .await;
    cluster.restart("immediate").expect("the server restarts");
    let node = node_of(&client, &killed).await.expect("the process is a node");
    // Last, so that all of its lease has to run out; and before it can end one of its runs, so that it holds some.
    killed.tell("freeze before an end");
    killed.freeze_in_trap();
    killed.kill();
    assert!(
        !held_by(&*store, node).await.is_empty(),
        "the killed process held nothing, so this shows nothing"
    );
    room.append(graph::ENOUGH, "the last fault is over");
    let last_fault = now(&room).await;
    thaw_and_finish(&client, frozen, sound).await;

    let all = all(&*store).await;
    assert_eq!(all.iter().map(|run| run.id).collect::<HashSet<_>>(), started);
    let took = all.iter().map(end).max().expect("there are runs").since(last_fault);
    assert!(took < LEASE + Duration::from_secs(2), "the last run ended {took:?} after the last fault");
    check_ends(&room, RUNS, HELD);
    let executed = check_effects(&room, while_frozen, HELD);
    let recorded = recorded(&*store, &all).await;
    let missing: Vec<_> = executed.symmetric_difference(&recorded).collect();
    assert!(missing.is_empty(), "only executed, or only recorded: {missing:?}");
}

fn end(run: &RunSummary) -> Time {
    match &run.standing.place {
        Place::Ended(end) if end.state == RunState::Completed => end.at,
        _ => panic!("a run is not complete: {run:?}"),
    }
}

/// All recorded attempts. Each is recorded once, and each step of a run has completed once.
async fn recorded(store: &dyn Store, runs: &[RunSummary]) -> HashSet<Attempt> {
    let mut recorded = HashSet::new();
    // Many at once: one after the other takes long.
    let mut loaded = Vec::new();
    for some in runs.chunks(500) {
        let answers: Vec<_> = some.iter().map(|run| store.load(run.id)).collect();
        for answer in answers {
            loaded.push(answer.await.expect("a run can be loaded").expect("the run is there"));
        }
    }
    for (RunSummary { id, workflow, .. }, image) in runs.iter().zip(loaded) {
        let mut completed: HashMap<String, usize> = HashMap::new();
        for step in image.steps.into_iter().filter(|step| step.kind != StepKind::Started) {
            *completed.entry(step.name.to_string()).or_default() +=
                usize::from(step.kind == StepKind::Completed);
            let attempt = Attempt { run: *id, step: step.name.to_string(), attempt: step.attempt };
            assert!(recorded.insert(attempt.clone()), "{attempt:?} is recorded twice");
        }
        let steps = if &**workflow == "pair" { 2 } else { 1 };
        assert!(
            completed.len() == steps && completed.values().all(|count| *count == 1),
            "{id}: {completed:?}"
        );
    }
    recorded
}
