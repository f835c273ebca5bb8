//! A task's transaction takes effect exactly once on PostgreSQL, whenever its process is killed or frozen.

use std::time::Duration;

use tokio_postgres::{Client, NoTls};
use windlass_cluster::Cluster;

use crate::{
    child::Child,
    entries,
    eventually::{PATIENCE, eventually_async},
    proxy::{Cut, Proxy},
    role::{Part, Role},
    room::Room,
    three_processes::node_of,
};

const HEARTBEAT: Duration = Duration::from_millis(200);
const LEASE: Duration = Duration::from_millis(1500);

/// A room on a server of its own, with the application's table.
async fn room(cluster: &Cluster) -> (Room, Client) {
    let room = Room::on_postgres(cluster.url());
    let (client, connection) =
        tokio_postgres::connect(cluster.url(), NoTls).await.expect("the server answers");
    tokio::spawn(connection);
    let table = entries::table(&room);
    let schema = table.split_once('.').expect("a schema").0;
    let make = format!(
        "CREATE SCHEMA {schema}; CREATE TABLE {table} (run text NOT NULL, step text NOT NULL, made_by text NOT NULL)"
    );
    client.batch_execute(&make).await.expect("the table is made");
    (room, client)
}

fn serving(name: &str, room: &Room) -> Child {
    Child::ready(Role::new(name, room, Part::Enter).lease(HEARTBEAT, LEASE))
}

/// The entries of all runs: run, step, and who made it.
async fn entries(client: &Client, room: &Room) -> Vec<(String, String, String)> {
    let sql = format!("SELECT run, step, made_by FROM {} ORDER BY run, step", entries::table(room));
    let rows = client.query(&sql, &[]).await.expect("the table is read");
    rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
}

async fn all_complete(room: &Room, runs: usize) {
    let client = room.client().await;
    eventually_async("all runs complete", PATIENCE, || async {
        client.runs().completed().limit(1000).list().await.expect("runs can be found").len() == runs
    })
    .await;
}

/// Each run has made its two entries once.
async fn check(client: &Client, room: &Room, runs: usize) -> Vec<(String, String, String)> {
    let entries = entries(client, room).await;
    let mut steps: Vec<_> = entries.iter().map(|(run, step, _)| (run.clone(), step.clone())).collect();
    assert_eq!(steps.len(), 2 * runs, "{entries:?}");
    steps.dedup();
    assert_eq!(steps.len(), 2 * runs, "{entries:?}");
    entries
}

/// What becomes of the commit of a process that was killed when it had sent it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Commit {
    Arrives,
    Never,
    ArrivesWhenOthersHaveTakenOver,
}

async fn killed_with_its_commit_on_the_way(commit: Commit) {
    let cluster = Cluster::find().expect("a cluster");
    let (room, client) = room(&cluster).await;
    let place = cluster.url().split_once('@').expect("a user").1.split_once('/').expect("a database").0;
    let proxy = Proxy::start(place.to_owned()).await;
    let direct = room.url();
    // The proxy has to read what is said.
    let through =
        direct.replace(place, &format!("127.0.0.1:{}", proxy.port())).replace('?', "?sslmode=disable&");
    room.set_url(&through);
    let mut killed = serving("killed", &room);
    room.set_url(&direct);
    proxy.cut(Cut::Held);
    killed.tell("start");
    proxy.reached().await;
    killed.kill();
    match commit {
        Commit::Arrives => proxy.deliver(),
        Commit::Never => proxy.lose(),
        Commit::ArrivesWhenOthersHaveTakenOver => {}
    }
    let sound = serving("sound", &room);
    all_complete(&room, 1).await;
    proxy.deliver();
    let entries = check(&client, &room, 1).await;
    let first_by = if commit == Commit::Arrives { "killed" } else { "sound" };
    assert_eq!((entries[0].2.as_str(), entries[1].2.as_str()), (first_by, "sound"));
    sound.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_killed_after_its_commit_does_not_do_it_again() {
    killed_with_its_commit_on_the_way(Commit::Arrives).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_killed_before_its_commit_leaves_nothing() {
    killed_with_its_commit_on_the_way(Commit::Never).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_arrives_after_another_process_took_over_changes_nothing() {
    killed_with_its_commit_on_the_way(Commit::ArrivesWhenOthersHaveTakenOver).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_frozen_in_a_body_past_its_lease_has_its_writes_refused_whole() {
    let cluster = Cluster::find().expect("a cluster");
    let (room, client) = room(&cluster).await;
    let mut frozen = serving("frozen", &room);
    let watcher = room.client().await;
    let node = node_of(&watcher, &frozen).await.expect("the process is a node");
    frozen.tell("freeze in a body");
    frozen.tell("start");
    frozen.freeze_in_trap();
    let sound = serving("sound", &room);
    all_complete(&room, 1).await;
    frozen.thaw();
    eventually_async("the frozen process is back under another name", PATIENCE, || async {
        node_of(&watcher, &frozen).await.is_some_and(|now| now != node)
    })
    .await;
    frozen.stop();
    let entries = check(&client, &room, 1).await;
    assert!(entries.iter().all(|(_, _, by)| by == "sound"), "{entries:?}");
    sound.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_killed_again_and_again_makes_every_entry_once() {
    let cluster = Cluster::find().expect("a cluster");
    let (room, client) = room(&cluster).await;
    let (mut runs, mut spread) = (0, 7_u64);
    for boot in 0..8 {
        let mut child = serving(&boot.to_string(), &room);
        for _ in 0..20 {
            child.tell("start");
            child.hear("started");
            runs += 1;
        }
        // Some instant of the work.
        spread = spread * 31 % 97;
        tokio::time::sleep(Duration::from_millis(spread)).await;
        child.kill();
    }
    let sound = serving("sound", &room);
    all_complete(&room, runs).await;
    check(&client, &room, runs).await;
    sound.stop();
}
