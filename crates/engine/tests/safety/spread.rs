//! One run is spread over three processes, and one of them is killed midway.

use std::{collections::HashSet, time::Duration};

use windlass::RunId;
use windlass_store::{Place, Store};

use crate::{
    child::Child,
    eventually::{PATIENCE, eventually, eventually_async},
    ledger,
    role::{Part, Role},
    room::Room,
};

/// How many tasks the run has beside its first and its last.
const TASKS: u64 = 200;
/// How many each process executes at once.
pub const SLOTS: usize = 4;
const PROCESSES: [&str; 3] = ["one", "two", "three"];

fn spreading(name: &str, room: &Room) -> Child {
    let role = Role::new(name, room, Part::Spread).park_after(Duration::from_millis(500));
    Child::ready(role.lease(Duration::from_millis(300), Duration::from_secs(3)))
}

/// Whether the run has completed, and with what.
async fn output(store: &dyn Store, run: RunId) -> Option<Vec<u8>> {
    // A server that is busy answers later.
    let image = store.load(run).await.ok()??;
    match image.standing.place {
        Place::Ended(end) => Some(end.output.expect("the run completes").to_vec()),
        _ => None,
    }
}

/// Spreads a run over three processes, kills one of them midway, and counts what was done.
async fn spread(room: Room, owner: &str, victim: &str) {
    let mut children = PROCESSES.map(|name| spreading(name, &room));
    let place = |name: &str| PROCESSES.iter().position(|other| *other == name).expect("a process");
    children[place(owner)].tell(&format!("spread {TASKS}"));
    let run: RunId = children[place(owner)].hear("started").parse().expect("a run id");
    let store = room.store().await;

    let worked =
        |by: &str| ledger::effects(&room.effects()).iter().filter(|effect| effect.process() == by).count();
    eventually("all three work", PATIENCE, || PROCESSES.iter().all(|by| worked(by) > SLOTS));
    assert!(output(&*store, run).await.is_none(), "the run was over before anybody was killed");
    children[place(victim)].kill();
    eventually_async("the run completes", PATIENCE, || async { output(&*store, run).await.is_some() }).await;

    let expected = (TASKS * (TASKS - 1) / 2).to_string();
    let codec = windlass::Compressed::default();
    let output = output(&*store, run).await.expect("it has ended");
    let json = windlass::Codec::decode(&codec, output.into()).expect("the output can be read");
    assert_eq!(&json[..], expected.as_bytes(), "nothing is lost, and nothing counts twice");
    let image = store.load(run).await.expect("the store answers").expect("the run is there");
    assert!(image.published.is_empty() && image.inbox.is_empty());
    let steps: HashSet<_> = image
        .steps
        .iter()
        .filter(|step| step.kind != windlass::StepKind::Started)
        .map(|step| &step.name)
        .collect();
    assert_eq!(steps.len() as u64, TASKS + 2);

    let by_attempt = ledger::by_attempt(ledger::effects(&room.effects()));
    assert_eq!(by_attempt.len() as u64, TASKS, "each task, in its first attempt");
    let mut repeats = 0;
    for (attempt, by) in by_attempt {
        let sound = by.iter().filter(|node| ledger::process(node) != victim).count();
        assert!(sound <= 1, "{attempt:?} was executed twice, and nobody had died of it: {by:?}");
        repeats += by.len() - 1;
    }
    // Beside what it executed, it had outcomes on the way.
    assert!(repeats <= SLOTS * 3, "{repeats} repeats, but the killed process executed {SLOTS} at once");
    for (name, child) in PROCESSES.iter().zip(children) {
        if *name != victim {
            child.stop();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_two_hundred_tasks_uses_three_processes_and_loses_nothing_when_one_is_killed() {
    spread(Room::new(), "one", "two").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_outcomes_of_spread_tasks_find_the_next_owner_when_the_first_is_killed() {
    spread(Room::new(), "one", "one").await;
}

#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_two_hundred_tasks_uses_three_processes_on_postgres_and_loses_nothing_when_one_is_killed() {
    let cluster = windlass_cluster::Cluster::find().expect("a cluster is there");
    spread(Room::on_postgres(cluster.url()), "one", "two").await;
}

#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread")]
async fn the_outcomes_of_spread_tasks_find_the_next_owner_on_postgres_when_the_first_is_killed() {
    let cluster = windlass_cluster::Cluster::find().expect("a cluster is there");
    spread(Room::on_postgres(cluster.url()), "one", "one").await;
}
