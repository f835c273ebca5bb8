//! Connections that cannot be made, and those that fail without a word.

mod common;

use std::time::{Duration, Instant};

use common::{cluster, half_open::Way, hears, node};
use tokio::{net::TcpListener, time::timeout};
use tokio_postgres::Client;
use windlass_cluster::Cluster;
use windlass_postgres::{Postgres, PostgresOptions};
use windlass_store::Store;

fn fresh() -> String {
    format!("connections_{}", uuid::Uuid::now_v7().simple())
}

/// A server with room for this many connections.
fn small(room: u32) -> Cluster {
    let room = format!("max_connections = {room}");
    Cluster::start(&["fsync = off", "superuser_reserved_connections = 0", "max_wal_senders = 0", &room])
        .unwrap()
}

/// Takes connections until there are no more.
async fn fill(url: &str) -> Vec<Client> {
    let mut taken = Vec::new();
    while let Ok((client, connection)) = tokio_postgres::connect(url, tokio_postgres::NoTls).await {
        tokio::spawn(connection);
        taken.push(client);
    }
    taken
}

#[tokio::test]
async fn a_full_server_is_waited_for_and_named_when_it_stays_full() {
    let cluster = small(6);
    let taken = fill(cluster.url()).await;
    assert!(taken.len() > 3, "only {} connections", taken.len());
    let text = Postgres::open(&format!("{}?wait=1", cluster.url())).await.unwrap_err().to_string();
    assert!(text.contains("too many clients") && text.contains("max_connections"), "{text}");
    assert!(text.contains("times in 1 s"), "{text}");
    let opening = tokio::spawn({
        let url = cluster.url().to_owned();
        async move { Postgres::open(&url).await }
    });
    drop(taken);
    opening.await.unwrap().unwrap().nodes().await.unwrap();
}

#[tokio::test]
async fn a_store_on_a_full_server_makes_do_with_the_connections_it_has() {
    let cluster = small(6);
    let store = PostgresOptions::new().connections(8).open(cluster.url()).await.unwrap();
    let me = node();
    store.join(me.clone()).await.unwrap();
    let taken = fill(cluster.url()).await;
    assert!(!taken.is_empty());
    for _ in 0..5 {
        let beats: Vec<_> = (0..40).map(|_| store.heartbeat(me.id, 0.into())).collect();
        for beat in beats {
            beat.await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_server_that_is_down_is_waited_for_so_long_and_no_longer() {
    let cluster = Cluster::start(&["fsync = off"]).unwrap();
    cluster.stop("fast").unwrap();
    let begun = Instant::now();
    let text = Postgres::open(&format!("{}?wait=2", cluster.url())).await.unwrap_err().to_string();
    assert!(text.contains("is the server running") && text.contains("tried"), "{text}");
    assert!((1..6).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
    let opening = tokio::spawn({
        let url = format!("{}?wait=60", cluster.url());
        async move { Postgres::open(&url).await }
    });
    cluster.resume().unwrap();
    opening.await.unwrap().unwrap().nodes().await.unwrap();
}

#[tokio::test]
async fn whoever_answers_nothing_is_given_up_in_time() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = silent.local_addr().unwrap().port();
    let begun = Instant::now();
    let url = format!("postgres://me@127.0.0.1:{port}/app?connect_timeout=1&wait=0");
    let text = Postgres::open(&url).await.unwrap_err().to_string();
    assert!(text.contains("has not answered for 1 s"), "{text}");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_listening_connection_that_went_dead_is_noticed_and_replaced() {
    let (front, place) = cluster().url().split_once('@').unwrap();
    let (server, database) = place.split_once('/').unwrap();
    let way = Way::to(server).await;
    let (schema, listen) = (fresh(), format!("{front}@127.0.0.1:{}/{database}", way.port()));
    let store =
        PostgresOptions::new().schema(&schema).listen_url(listen).open(cluster().url()).await.unwrap();
    let other = PostgresOptions::new().schema(&schema).open(cluster().url()).await.unwrap();
    hears(&store, &other).await;
    let mut hints = store.hints();
    way.cut();
    // The next self-test fails, and from then on it looks for itself until it listens again.
    for _ in 0..3 {
        timeout(Duration::from_secs(30), hints.recv()).await.expect("it looks for itself").unwrap();
    }
    hears(&store, &other).await;
}

#[tokio::test]
async fn whoever_looks_something_up_does_not_hear_of_connections_that_ended_while_nobody_used_them() {
    let (name, schema) = (format!("ended_{}", std::process::id()), fresh());
    let url = format!("{}?application_name={name}&schema={schema}", cluster().url());
    let store = Postgres::open(&url).await.unwrap();
    let watcher = common::connect(cluster().url()).await;
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = $1";
    let mut ended = 0;
    for _ in 0..20 {
        // Several at once have several connections.
        let looks: Vec<_> = (0..8).map(|_| store.nodes()).collect();
        for look in looks {
            look.await.unwrap();
        }
        ended += watcher.query_one(end, &[&name]).await.unwrap().get::<_, i64>(0);
        assert!(store.nodes().await.unwrap().is_empty());
    }
    assert!(ended > 20, "only {ended} connections were ended");
}
