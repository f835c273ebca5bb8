//! The engine on a PostgreSQL that is full, comes late, or goes away.
#![cfg(feature = "postgres")]

#[path = "../../postgres/tests/common/half_open.rs"]
mod half_open;
mod late;

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use half_open::Way;
use late::late;
use tokio::sync::Notify;
use windlass::prelude::*;
use windlass_cluster::Cluster;

#[workflow]
mod double {
    use super::*;

    #[task]
    pub async fn only(input: u32) -> Result<u32> {
        Ok(2 * input)
    }
}

/// A server with little room.
fn small() -> Cluster {
    let settings =
        ["fsync = off", "max_connections = 8", "superuser_reserved_connections = 0", "max_wal_senders = 0"];
    Cluster::start(&settings).unwrap()
}

/// Takes connections until there are no more.
async fn fill(url: &str) -> Vec<tokio_postgres::Client> {
    let mut taken = Vec::new();
    while let Ok((client, connection)) = tokio_postgres::connect(url, tokio_postgres::NoTls).await {
        tokio::spawn(connection);
        taken.push(client);
    }
    taken
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_on_a_full_server_says_so_at_launch_and_works_on_with_what_it_has() -> Result<()> {
    let cluster = small();
    let taken = fill(cluster.url()).await;
    let url = format!("{}?wait=1", cluster.url());
    let error =
        Engine::open(url.as_str()).workflow(double::workflow()).launch().await.expect_err("it is full");
    let text = error.to_string();
    assert!(error.code() == "store" && text.contains("too many clients"), "{text}");
    drop(taken);

    let grace = Duration::from_secs(5);
    let engine = Engine::open(cluster.url()).workflow(double::workflow()).stop_grace(grace).launch().await?;
    let taken = fill(cluster.url()).await;
    // All of these at once want more connections than there are.
    let starts: Vec<_> = (0..300)
        .map(|number| {
            let engine = engine.clone();
            tokio::spawn(async move { engine.start(double::workflow(), number).await?.await })
        })
        .collect();
    for (number, start) in (0..).zip(starts) {
        assert_eq!(start.await.unwrap()?, 2 * number);
    }
    let begun = Instant::now();
    engine.stop().await?;
    assert!(begun.elapsed() < grace + Duration::from_secs(10), "{:?}", begun.elapsed());
    drop(taken);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_is_launched_before_its_server_waits_for_it() -> Result<()> {
    let cluster = Cluster::start(&["fsync = off"]).unwrap();
    cluster.stop("fast").unwrap();
    let url = format!("{}?wait=60", cluster.url());
    let launching = tokio::spawn(Engine::open(url).workflow(double::workflow()).launch());
    cluster.resume().unwrap();
    let engine = launching.await.unwrap()?;
    assert_eq!(engine.start(double::workflow(), 1).await?.await?, 2);
    engine.stop().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_goes_away_under_load_costs_nothing_that_was_acknowledged_and_little_time() -> Result<()>
{
    let cluster = Cluster::start(&["fsync = off"]).unwrap();
    let engine = Engine::open(cluster.url()).workflow(double::workflow()).launch().await?;
    let over = Arc::new(AtomicBool::new(false));
    // Each of these goes on for as long as the test does, and waits while nothing can be written.
    let workers: Vec<_> = (0..50_u32)
        .map(|worker| {
            let (engine, over) = (engine.clone(), Arc::clone(&over));
            tokio::spawn(async move {
                let mut acknowledged = Vec::new();
                while !over.load(Ordering::Relaxed) {
                    let run = engine.start(double::workflow(), worker).await?;
                    acknowledged.push(run.id());
                    assert_eq!(run.await?, 2 * worker);
                }
                Ok::<_, Failure>(acknowledged)
            })
        })
        .collect();
    for how in ["immediate", "fast"] {
        assert_eq!(engine.start(double::workflow(), 1).await?.await?, 2);
        cluster.stop(how).unwrap();
        // Nothing is acknowledged meanwhile.
        let error = engine.start(double::workflow(), 7).within(Duration::from_secs(2)).await.unwrap_err();
        let windlass::Error::Unknown { run_id } = error else { panic!("{error}") };
        cluster.resume().unwrap();
        let back = Instant::now();
        for number in 0..50 {
            assert_eq!(engine.start(double::workflow(), number).await?.await?, 2 * number);
        }
        assert!(back.elapsed() < Duration::from_secs(10), "it took {:?} to be back", back.elapsed());
        assert_eq!(late(&engine, double::workflow(), run_id).await?, 14);
    }
    over.store(true, Ordering::Relaxed);
    let mut acknowledged = Vec::new();
    for worker in workers {
        acknowledged.extend(worker.await.unwrap()?);
    }
    let completed: HashSet<_> =
        engine.runs().completed().limit(1_000_000).list().await?.into_iter().map(|run| run.id).collect();
    assert!(
        acknowledged.iter().all(|id| completed.contains(id)),
        "a run that was acknowledged has not completed"
    );
    assert!(acknowledged.len() > 50, "only {} runs, so this shows little", acknowledged.len());
    engine.stop().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_waits_for_a_login_that_is_put_right() -> Result<()> {
    let cluster = Cluster::find().unwrap();
    let role = format!("login_{}", std::process::id());
    let (admin, connection) = tokio_postgres::connect(cluster.url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    admin.batch_execute(&format!("CREATE ROLE {role} SUPERUSER LOGIN")).await.unwrap();
    let url = format!("{}?schema={role}", cluster.url().replace("windlass@", &format!("{role}@")));
    let engine = Engine::open(url).workflow(double::workflow()).launch().await?;
    assert_eq!(engine.start(double::workflow(), 1).await?.await?, 2);

    // In this order: whoever is cut off comes back at once.
    admin.batch_execute(&format!("ALTER ROLE {role} NOLOGIN")).await.unwrap();
    let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1";
    while !admin.query(cut, &[&role]).await.unwrap().is_empty() {}
    let error = engine.start(double::workflow(), 2).within(Duration::from_secs(1)).await.unwrap_err();
    assert_eq!(error.code(), "unknown_fate");
    admin.batch_execute(&format!("ALTER ROLE {role} LOGIN")).await.unwrap();
    assert_eq!(engine.start(double::workflow(), 3).await?.await?, 6);
    engine.stop().await?;
    admin.batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await.unwrap();
    Ok(())
}

/// How often the step of [`held`] has begun, and the word on which it ends.
#[derive(Default)]
struct Held {
    begun: AtomicU32,
    ends: Notify,
}

#[workflow]
mod held {
    use super::*;

    #[task]
    pub async fn only(input: u32, held: Res<Arc<Held>>) -> Result<u32> {
        held.begun.fetch_add(1, Ordering::SeqCst);
        held.ends.notified().await;
        Ok(input)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_go_dead_without_a_word_cost_no_lease_while_the_server_can_be_reached() -> Result<()>
{
    let cluster = Cluster::find().unwrap();
    let (front, place) = cluster.url().split_once('@').unwrap();
    let (server, database) = place.split_once('/').unwrap();
    let way = Way::to(server).await;
    let schema = format!("half_open_{}", std::process::id());
    let url = |place: &str| format!("{front}@{place}/{database}?schema={schema}");
    let held = Arc::new(Held::default());
    let engine = Engine::open(url(&format!("127.0.0.1:{}", way.port())))
        .workflow(held::workflow())
        .resource(Arc::clone(&held))
        .heartbeat(Duration::from_secs(2))
        .stale_after(Duration::from_secs(16))
        .launch()
        .await?;
    let run = engine.start(held::workflow(), 1).await?;
    let patience = Duration::from_secs(60);
    let begun = Instant::now();
    while held.begun.load(Ordering::SeqCst) == 0 {
        assert!(begun.elapsed() < patience, "the run does not begin");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let watcher = Client::connect(&url(server)).await?;
    let node = watcher.nodes().await?.remove(0);
    way.cut();
    // The next heartbeat is sent before that, and gets no answer.
    let cut = Instant::now();
    loop {
        let nodes = watcher.nodes().await?;
        let same = nodes.iter().find(|other| other.id == node.id).expect("its name is not lost");
        if same.heartbeat_at.since(node.heartbeat_at) > Duration::from_secs(5) {
            break;
        }
        assert!(cut.elapsed() < patience, "no heartbeat arrives");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(held.begun.load(Ordering::SeqCst), 1, "the run was cancelled and begun again");
    held.ends.notify_one();
    assert_eq!(run.await?, 1);
    engine.stop().await?;
    Ok(())
}
