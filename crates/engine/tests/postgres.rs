//! The engine on PostgreSQL.
#![cfg(feature = "postgres")]

mod late;

use std::sync::{
    LazyLock,
    atomic::{AtomicU32, Ordering},
};

use late::late;
use windlass::prelude::*;
use windlass_cluster::{Bouncer, Cluster};

static CLUSTER: LazyLock<Cluster> = LazyLock::new(|| Cluster::find().unwrap());

/// The URL of a schema of its own.
fn url() -> String {
    static POOLER: LazyLock<Option<Bouncer>> = LazyLock::new(|| pooler(&CLUSTER));
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let (process, next) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let way = POOLER.as_ref().map_or(CLUSTER.url(), Bouncer::url);
    format!("{way}?schema=engine_{process}_{next}")
}

/// All of these tests are also part of `pooled.rs`, where a pooler in transaction mode stands before the server.
fn pooler(cluster: &Cluster) -> Option<Bouncer> {
    let is_pooled = module_path!().starts_with("pooled::");
    is_pooled.then(|| {
        Bouncer::before(cluster.url(), &["default_pool_size = 3", "server_login_retry = 1"]).unwrap()
    })
}

#[workflow(output = third)]
mod chain {
    use super::*;

    #[task]
    pub async fn first(input: u32) -> Result<u32> {
        Ok(input + 1)
    }

    #[task]
    pub async fn second(first: u32) -> Result<u32> {
        Ok(first + 1)
    }

    #[task]
    pub async fn third(second: u32) -> Result<u32> {
        Ok(second + 1)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chain_runs_on_a_postgres_database() -> Result<()> {
    let engine = Engine::open(url()).workflow(chain::workflow()).launch().await?;
    assert_eq!(engine.start(chain::workflow(), 1).await?.await?, 4);
    engine.stop().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_process_starts_another_runs_and_the_first_hears_of_its_end() -> Result<()> {
    let url = url();
    let client = Client::connect(&url).await?;
    let engine = Engine::open(&url).workflow(chain::workflow()).launch().await?;
    let runs = client.start_many(chain::workflow(), 0..500).await?;
    assert_eq!(runs.len(), 500);
    let (first, last) =
        (client.start(chain::workflow(), 7).await?, client.start(chain::workflow(), 8).await?);
    assert_eq!((first.await?, last.await?), (10, 11));
    engine.stop().await?;
    Ok(())
}

#[workflow]
mod alone {
    use super::*;

    #[task]
    pub async fn only(input: u32) -> Result<u32> {
        Ok(input)
    }
}

/// A connection of the application's own.
async fn application() -> tokio_postgres::Client {
    let server = CLUSTER.url();
    let (client, connection) = tokio_postgres::connect(server, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

fn schema(url: &str) -> &str {
    url.split_once("schema=").unwrap().1
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_application_starts_in_its_own_transaction_runs_when_that_commits_and_only_then() -> Result<()>
{
    let url = url();
    let engine = Engine::open(url.as_str()).workflow(chain::workflow()).launch().await?;
    let mut application = application().await;
    let start = format!("SELECT {}.start('chain', $1::json)", schema(&url));
    let input = |number: u32| tokio_postgres::types::Json(serde_json::json!(number));

    let transaction = application.transaction().await.unwrap();
    let gone: uuid::Uuid = transaction.query_one(&start, &[&input(1)]).await.unwrap().get(0);
    transaction.rollback().await.unwrap();
    let transaction = application.transaction().await.unwrap();
    let kept: uuid::Uuid = transaction.query_one(&start, &[&input(2)]).await.unwrap().get(0);
    transaction.commit().await.unwrap();

    let run = engine.run(&chain::workflow(), kept.to_string().parse().unwrap());
    assert_eq!(run.await?, 5);
    let runs = engine.runs().list().await?;
    assert!(runs.iter().all(|run| run.id.to_string() != gone.to_string()), "what was rolled back is there");
    engine.stop().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_in_sql_and_a_key_in_rust_are_the_same_key() -> Result<()> {
    let url = url();
    let client = Client::connect(url.as_str()).await?;
    let application = application().await;
    let schema = schema(&url);
    let start = format!("SELECT {schema}.start('chain', '7', key => 'order-1')::text");
    let first: String = application.query_one(&start, &[]).await.unwrap().get(0);
    let again: String = application.query_one(&start, &[]).await.unwrap().get(0);
    let rust = client.start(chain::workflow(), 7).key("order-1").await?;
    assert_eq!((first.as_str(), rust.id().to_string()), (again.as_str(), first.clone()));
    let other = format!("SELECT {schema}.start('chain', '8', key => 'order-1')");
    let error = application.query_one(&other, &[]).await.unwrap_err();
    let error = error.as_db_error().unwrap();
    assert_eq!(error.code().code(), "WL002");
    assert!(error.message().contains("order-1") && error.message().contains(&first), "{}", error.message());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_cancelled_in_sql_whether_it_waits_or_has_ended() -> Result<()> {
    let url = url();
    let engine = Engine::open(url.as_str()).workflow(chain::workflow()).launch().await?;
    let application = application().await;
    let schema = schema(&url);
    let start = format!("SELECT {schema}.start('chain', '1', delay => '1 hour', tags => '{{a,b}}')::text");
    let id: String = application.query_one(&start, &[]).await.unwrap().get(0);
    assert_eq!(engine.runs().tag("b").list().await?.len(), 1);
    let cancel = format!("SELECT {schema}.cancel('{id}', 'not needed')");
    assert!(application.query_one(&cancel, &[]).await.unwrap().get::<_, bool>(0));
    let error = engine.run(&chain::workflow(), id.parse().unwrap()).await.unwrap_err();
    assert_eq!(error.code(), "run_cancelled");
    assert!(!application.query_one(&cancel, &[]).await.unwrap().get::<_, bool>(0));
    engine.stop().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_connection_is_cut_again_and_again_and_every_run_completes_once() -> Result<()> {
    let url = url();
    // Told apart from everybody else's on this server.
    let name = format!("cut_{}", schema(&url));
    let engine =
        Engine::open(format!("{url}&application_name={name}")).workflow(chain::workflow()).launch().await?;
    let cut = {
        let application = application().await;
        let cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = $1";
        async move || application.query_one(cut, &[&name]).await.unwrap().get::<_, i64>(0)
    };
    let mut cuts = 0;
    for round in 0..10_u32 {
        let mut runs = Vec::new();
        for number in 0..50 {
            runs.push(tokio::spawn({
                let engine = engine.clone();
                async move { engine.start(chain::workflow(), 100 * round + number).await?.await }
            }));
        }
        cuts += cut().await;
        for (number, run) in (0..).zip(runs) {
            assert_eq!(run.await.unwrap()?, 100 * round + number + 3);
        }
    }
    assert!(cuts > 10, "only {cuts} connections were cut, so this shows little");
    assert_eq!(engine.runs().limit(1000).list().await?.len(), 500);
    engine.stop().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_whose_server_is_away_goes_on_when_it_is_back_and_stops_in_time_when_it_is_not()
-> Result<()> {
    let cluster = Cluster::start(&["fsync = off"]).unwrap();
    let pooler = pooler(&cluster);
    let way = pooler.as_ref().map_or(cluster.url(), Bouncer::url);
    let grace = std::time::Duration::from_secs(1);
    let engine = Engine::open(way).workflow(chain::workflow()).stop_grace(grace).launch().await?;
    assert_eq!(engine.start(chain::workflow(), 1).await?.await?, 4);
    cluster.stop("immediate").unwrap();
    let patience = std::time::Duration::from_millis(500);
    // Nothing is acknowledged meanwhile, but it is asked again and again.
    let error = engine.start(chain::workflow(), 2).within(patience).await.unwrap_err();
    let windlass::Error::Unknown { run_id } = error else { panic!("{error}") };
    cluster.resume().unwrap();
    assert_eq!(engine.start(chain::workflow(), 3).await?.await?, 6);
    assert_eq!(late(&engine, chain::workflow(), run_id).await?, 5);
    cluster.stop("immediate").unwrap();
    let asked = std::time::Instant::now();
    // What it could not do it says.
    engine.stop().await.ok();
    assert!(asked.elapsed() < grace + std::time::Duration::from_secs(10), "{:?}", asked.elapsed());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_claim_passed_over_because_somebody_held_it_is_looked_at_again_soon() -> Result<()> {
    let url = url();
    let client = Client::connect(url.as_str()).await?;
    let run = client.start(chain::workflow(), 1).await?;
    let application = application().await;
    let hold = format!("BEGIN; SELECT FROM {}.ready FOR UPDATE", schema(&url));
    application.batch_execute(&hold).await.unwrap();
    let free = client.start(alone::workflow(), 1).await?;
    let hour = std::time::Duration::from_secs(3600);
    let engine = Engine::open(url.as_str())
        .workflow(chain::workflow())
        .workflow(alone::workflow())
        .poll(hour)
        .launch()
        .await?;
    // This one was claimed, and the other passed over.
    assert_eq!(free.await?, 1);
    // Whatever else makes the engine look has done so by now; a shorter pause would only show less.
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    // Nothing but a second look can find it: nobody tells when a lock is gone.
    application.batch_execute("ROLLBACK").await.unwrap();
    let soon = std::time::Duration::from_secs(3);
    assert_eq!(tokio::time::timeout(soon, run).await.expect("it is looked at again")?, 4);
    engine.stop().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_a_stranger_has_taken_and_not_committed_holds_up_nobody_else() -> Result<()> {
    let url = url();
    let engine =
        Engine::open(url.as_str()).workflow(chain::workflow()).workflow(alone::workflow()).launch().await?;
    let application = application().await;
    let take = format!("BEGIN; SELECT {}.start('chain', '1', key => 'order-1')", schema(&url));
    application.batch_execute(&take).await.unwrap();
    let waits = tokio::spawn({
        let engine = engine.clone();
        async move { engine.start(chain::workflow(), 1).key("order-1").await }
    });
    // Within a transaction, whoever looks at others sees what they did when it first looked.
    let watcher = self::application().await;
    let waiting =
        "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%'";
    // Whoever waits for the stranger waits for ever.
    let patience = std::time::Duration::from_secs(30);
    tokio::time::timeout(patience, async {
        while watcher.query(waiting, &[&schema(&url)]).await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        for number in 0..50 {
            assert_eq!(engine.start(alone::workflow(), number).await?.await?, number);
        }
        Ok::<_, windlass::Error>(())
    })
    .await
    .expect("nobody waits for the stranger but who wants the same key")?;
    application.batch_execute("COMMIT").await.unwrap();
    let run = waits.await.unwrap()?;
    assert_eq!(run.await?, 4);
    assert_eq!(engine.runs().workflow("chain").list().await?.len(), 1);
    engine.stop().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_who_never_commits_holds_up_nobody_but_who_wants_the_same_key() -> Result<()> {
    const WORD: Event<String> = Event::new("word");
    let url = url();
    let engine =
        Engine::open(url.as_str()).workflow(chain::workflow()).workflow(alone::workflow()).launch().await?;
    let client = engine.client().clone();
    let later = client.start(chain::workflow(), 5).delay(std::time::Duration::from_secs(3600)).await?;
    let mut strangers = Vec::new();
    for key in ["never", "undone", "done"] {
        let stranger = application().await;
        let take = format!("BEGIN; SELECT {}.start('chain', '1', key => '{key}')", schema(&url));
        stranger.batch_execute(&take).await.unwrap();
        strangers.push(stranger);
    }
    let waits = |key: &'static str| {
        let client = client.clone();
        tokio::spawn(async move { client.start(chain::workflow(), 1).key(key).await })
    };
    let [never, undone, done] = ["never", "undone", "done"].map(waits);
    let watcher = self::application().await;
    let waiting =
        "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%'";
    // Whoever waits for a stranger waits for ever.
    let patience = std::time::Duration::from_secs(60);
    tokio::time::timeout(patience, async {
        while watcher.query(waiting, &[&schema(&url)]).await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        for number in 0..20 {
            let (key, word) = (format!("key {number}"), format!("word {number}"));
            assert_eq!(engine.start(alone::workflow(), number).key(key).await?.await?, number);
            later.send(WORD, &word).key(&word).await?;
        }
        engine.queue("mail").concurrency(3).await?;
        let [_, undoes, does] = &strangers[..] else { unreachable!("there are three") };
        undoes.batch_execute("ROLLBACK").await.unwrap();
        assert_eq!(undone.await.unwrap()?.await?, 4);
        does.batch_execute("COMMIT").await.unwrap();
        let run = done.await.unwrap()?;
        assert_eq!(run.await?, 4);
        Ok::<_, windlass::Error>(())
    })
    .await
    .expect("nobody waits for a stranger but who wants the same key")?;
    assert!(!never.is_finished(), "a key that nobody has for sure was given away");
    // It waits even now, and its caller hears that it is not to be.
    engine.stop().await?;
    let error = never.await.unwrap().unwrap_err();
    assert!(matches!(error.code(), "stopped" | "unknown_fate"), "{error}");
    assert_eq!(client.nodes().await?.len(), 0, "nothing is left of the engine");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_is_stopped_while_a_start_waits_for_a_stranger_leaves_nothing_behind() -> Result<()> {
    let url = url();
    let engine = Engine::open(url.as_str()).workflow(chain::workflow()).launch().await?;
    let (stranger, watcher) = (application().await, application().await);
    let take = format!("BEGIN; SELECT {}.start('chain', '1', key => 'order-1')", schema(&url));
    stranger.batch_execute(&take).await.unwrap();
    let waits = tokio::spawn({
        let engine = engine.clone();
        async move { engine.start(chain::workflow(), 1).key("order-1").await }
    });
    let waiting =
        "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%'";
    while watcher.query(waiting, &[&schema(&url)]).await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    // The start waits in the name of the node, and for longer than stopping may take.
    engine.stop().await?;
    let error = waits.await.unwrap().unwrap_err();
    assert!(matches!(error.code(), "stopped" | "unknown_fate"), "{error}");
    stranger.batch_execute("ROLLBACK").await.unwrap();
    let client = Client::connect(&url).await?;
    assert_eq!((client.nodes().await?.len(), client.runs().list().await?.len()), (0, 0));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_a_node_holds_without_having_been_told_goes_on() -> Result<()> {
    let url = url();
    let engine = Engine::open(url.as_str())
        .workflow(chain::workflow())
        .heartbeat(std::time::Duration::from_millis(100))
        .launch()
        .await?;
    let hour = std::time::Duration::from_secs(3600);
    let run = engine.start(chain::workflow(), 1).delay(hour).await?;
    // As if it had been claimed, and the answer lost with whoever had asked.
    let (s, id) = (schema(&url), run.id());
    let take = format!(
        "BEGIN; DELETE FROM {s}.waiting; \
         INSERT INTO {s}.holding (node, claims, runs) SELECT id, ARRAY[77], ARRAY['{id}'::uuid] FROM {s}.node; COMMIT"
    );
    application().await.batch_execute(&take).await.unwrap();
    let soon = std::time::Duration::from_secs(10);
    assert_eq!(tokio::time::timeout(soon, run).await.expect("it is adopted")?, 4);
    engine.stop().await?;
    Ok(())
}
