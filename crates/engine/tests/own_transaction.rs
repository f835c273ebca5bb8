//! Starting, sending and cancelling in a transaction of the application's own.
#![cfg(feature = "postgres")]

use std::{
    sync::{
        LazyLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio_postgres::{Client as Application, NoTls};
use windlass::{
    Error, RunId,
    postgres::{cancel_in, send_in, start_in},
    prelude::*,
};
use windlass_cluster::Cluster;

static CLUSTER: LazyLock<Cluster> = LazyLock::new(|| Cluster::find().unwrap());

/// A schema that no other test has.
fn schema() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("own_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

fn url(schema: &str) -> String {
    format!("{}?schema={schema}", CLUSTER.url())
}

async fn application() -> Application {
    let (client, connection) = tokio_postgres::connect(CLUSTER.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Order {
    total: f64,
    id: u32,
}

const ORDER: Order = Order { total: 4.2, id: 17 };

#[workflow(timeout = "1h")]
mod order {
    use super::*;

    #[task]
    pub async fn charge(input: &Order, seen: Res<Seen>) -> Result<u32> {
        seen.0.fetch_add(1, Ordering::Relaxed);
        Ok(input.id)
    }
}

/// How often orders were charged.
#[derive(Default)]
struct Seen(AtomicU32);

/// All that the tables hold of the one run that is there, but for its id and the time of its start.
async fn facts(application: &Application, schema: &str) -> String {
    let facts = "\
        SELECT concat_ws(E'\\n', \
            (SELECT concat_ws(' ', workflow, queue, priority, tenure, generation, definition, opened_at - created_at, \
                 recoveries, timeout, convert_from(input, 'UTF8'), convert_from(context, 'UTF8'), key, tags, forked_from, \
                 trace) FROM {s}.run), \
            (SELECT concat_ws(' ', a.queue, a.workflow, a.priority) FROM {s}.ready AS a JOIN {s}.run ON id = run), \
            (SELECT concat_ws(' ', w.workflow, w.state, w.until - created_at, w.topics, w.reason, w.blocked_by) \
                 FROM {s}.waiting AS w JOIN {s}.run ON id = run), \
            (SELECT concat_ws(' ', k.workflow, k.key, k.digest, k.until - created_at) FROM {s}.key AS k \
                 JOIN {s}.run ON id = run), \
            (SELECT string_agg(tag, ' ' ORDER BY tag) FROM {s}.tag JOIN {s}.run ON id = run))";
    application.query_one(&facts.replace("{s}", schema), &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn a_start_leaves_the_same_whether_it_comes_from_rust_from_sql_or_in_a_transaction() -> Result<()> {
    let (minute, hour) = (Duration::from_secs(60), Duration::from_secs(3600));
    let mut application = application().await;
    for full in [false, true] {
        let [rust, sql, both] = [schema(), schema(), schema()];
        let client = Client::connect(&url(&rust)).await?;
        let start = client.start(order::workflow(), ORDER);
        let start = if full {
            let start = start.key("k").key_for(hour).or_existing().queue("q").priority(2).delay(minute);
            start.timeout(2 * hour).tag("b").tag("é\"").tag("b").context(json!({"dry": true})).trace("00-1")
        } else {
            start
        };
        start.await?;

        Client::connect(&url(&sql)).await?;
        let options = if full {
            r#"key => 'k', key_for => '1 hour', or_existing => true, queue => 'q', priority => 2, delay => '1 minute',
               timeout => '2 hours', tags => '{b,"é\"",b}', context => '{"dry": true}', trace => '00-1'"#
        } else {
            // What the workflow says of itself is known to the code alone.
            "timeout => '1 hour'"
        };
        let call = format!(r#"SELECT {sql}.start('order', '{{"total":4.2,"id":17}}', {options})"#);
        application.batch_execute(&call).await.unwrap();

        Client::connect(&url(&both)).await?;
        let transaction = application.transaction().await.unwrap();
        let start = start_in(&transaction, order::workflow(), ORDER).schema(&both);
        let start = if full {
            let start = start.key("k").key_for(hour).or_existing().queue("q").priority(2).delay(minute);
            start.timeout(2 * hour).tag("b").tag("é\"").tag("b").context(json!({"dry": true})).trace("00-1")
        } else {
            start
        };
        start.await?;
        transaction.commit().await.unwrap();

        let expected = facts(&application, &rust).await;
        assert_eq!(facts(&application, &sql).await, expected);
        assert_eq!(facts(&application, &both).await, expected);
        assert!(
            expected.contains(if full { "order q 2 1 1 60000000" } else { "order default 5 1 1 0" }),
            "{expected}"
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_taken_key_is_rejected_replaced_or_put_off_and_a_rollback_undoes_that() -> Result<()> {
    use windlass::{IfTaken, RunState};
    let schema = schema();
    let client = Client::connect(&url(&schema)).await?;
    let mut application = application().await;
    let hour = Duration::from_secs(3600);
    let order = |id| Order { id, ..ORDER };
    let first = client.start(order::workflow(), order(1)).key("k").delay(hour).await?;
    let calls = [IfTaken::Reject, IfTaken::Replace, IfTaken::Debounce(2 * hour)];
    for (commits, then) in [false, true].into_iter().flat_map(|commits| calls.map(|then| (commits, then))) {
        let key_of =
            async || client.run_by_key(&order::workflow(), "k").await.map(|run| run.map(|run| run.id()));
        let before = key_of().await?.unwrap();
        let transaction = application.transaction().await.unwrap();
        let start =
            start_in(&transaction, order::workflow(), order(2)).schema(&schema).key("k").if_taken(then);
        let started = start.await;
        match then {
            IfTaken::Reject => {
                assert!(matches!(started, Err(Error::KeyTaken { run, .. }) if run == before), "{started:?}");
                continue;
            }
            IfTaken::Replace => assert_ne!(started?, before),
            _ => assert_eq!(started?, before),
        }
        if commits {
            transaction.commit().await.unwrap();
            assert_eq!(key_of().await? == Some(before), then != IfTaken::Replace);
        } else {
            transaction.rollback().await.unwrap();
            assert_eq!(key_of().await?, Some(before));
            assert_eq!(first.status().await?.state, RunState::Pending);
        }
    }
    let engine =
        Engine::open(url(&schema)).resource(Seen::default()).workflow(order::workflow()).launch().await?;
    assert!(engine.run(&order::workflow(), first.id()).await.is_err(), "it was replaced before it began");
    let left = client.runs().live().list().await?;
    assert_eq!(left.len(), 1, "the one that was put off");
    engine.stop().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_rolled_back_never_runs_and_what_commits_runs_once() -> Result<()> {
    let schema = schema();
    let engine =
        Engine::open(url(&schema)).resource(Seen::default()).workflow(order::workflow()).launch().await?;
    let mut application = application().await;
    let mut kept = Vec::new();
    for id in 0..20 {
        let transaction = application.transaction().await.unwrap();
        let start = start_in(&transaction, order::workflow(), Order { id, ..ORDER });
        let run = start.schema(&schema).key(format!("order-{}", id / 2)).or_existing().await?;
        if id % 3 == 0 {
            transaction.rollback().await.unwrap();
        } else {
            transaction.commit().await.unwrap();
            kept.push(run);
        }
    }
    kept.sort();
    kept.dedup();
    for run in &kept {
        engine.run(&order::workflow(), *run).await?;
    }
    let runs = engine.runs().list().await?;
    assert_eq!((runs.len(), kept.len()), (10, 10));
    assert!(runs.iter().all(|run| kept.contains(&run.id)));
    engine.stop().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_cancelled_and_sent_to_in_a_transaction() -> Result<()> {
    let schema = schema();
    let client = Client::connect(&url(&schema)).await?;
    let mut application = application().await;
    let run = start_in(&application, order::workflow(), ORDER).schema(&schema).delay(Duration::MAX).await?;
    let transaction = application.transaction().await.unwrap();
    assert!(send_in(&transaction, run, "paid", ORDER).schema(&schema).key("once").await?);
    assert!(send_in(&transaction, run, "paid", ORDER).schema(&schema).key("once").await?);
    assert!(cancel_in(&transaction, run, "not needed").schema(&schema).await?);
    transaction.rollback().await.unwrap();
    let inbox = format!("SELECT count(*) FROM {schema}.inbox");
    assert_eq!(application.query_one(&inbox, &[]).await.unwrap().get::<_, i64>(0), 0);
    assert!(send_in(&application, run, "paid", ORDER).schema(&schema).key("once").await?);
    assert!(cancel_in(&application, run, "not needed").schema(&schema).await?);
    assert_eq!(application.query_one(&inbox, &[]).await.unwrap().get::<_, i64>(0), 2);

    let engine =
        Engine::open(url(&schema)).resource(Seen::default()).workflow(order::workflow()).launch().await?;
    let error = client.run(&order::workflow(), run).await.unwrap_err();
    assert!(error.code() == "run_cancelled" && error.to_string().contains("not needed"), "{error}");
    assert!(!cancel_in(&application, run, "again").schema(&schema).await?);
    assert!(!send_in(&application, run, "paid", ORDER).schema(&schema).await?);
    assert!(!cancel_in(&application, RunId::new(), "nobody").schema(&schema).await?);
    engine.stop().await?;
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_done_is_said_with_the_codes_that_others_have() -> Result<()> {
    let schema = schema();
    Client::connect(&url(&schema)).await?;
    let mut application = application().await;
    let start = |input| start_in(&application, order::workflow(), input).schema(&schema);
    let run = start(ORDER).key("k").await?;
    match start(Order { id: 18, ..ORDER }).key("k").await.unwrap_err() {
        Error::KeyTaken { workflow, key, run: other } => {
            assert_eq!((workflow.as_str(), key.as_str(), other), ("order", "k", run));
        }
        other => panic!("{other}"),
    }
    for (error, code, word) in [
        (start(ORDER).priority(10).await.unwrap_err(), "invalid", "priority 10"),
        (start(ORDER).context(json!([1])).await.unwrap_err(), "invalid", "JSON object"),
        (start(Order { total: f64::NAN, ..ORDER }).await.unwrap_err(), "encode", "total"),
        (start(ORDER).schema("nowhere").await.unwrap_err(), "store", "is `nowhere` its schema?"),
        (start(ORDER).schema("public").await.unwrap_err(), "store", "is `public` its schema?"),
        (
            send_in(&application, run, "!cancel", ()).schema(&schema).await.unwrap_err(),
            "invalid",
            "engine's own",
        ),
        (
            send_in(&application, run, "paid", "x".repeat(5 << 20)).schema(&schema).await.unwrap_err(),
            "payload_too_large",
            "the payload is 5242882 bytes, over the limit of 4194304",
        ),
    ] {
        assert!(error.code() == code && error.to_string().contains(word), "{code}: {error}");
    }
    // Two transactions that meet: the second may begin again.
    let serializable = application.build_transaction();
    let transaction =
        serializable.isolation_level(tokio_postgres::IsolationLevel::Serializable).start().await;
    let transaction = transaction.unwrap();
    transaction.query("SELECT 1", &[]).await.unwrap();
    start_in(&self::application().await, order::workflow(), ORDER).schema(&schema).key("l").await?;
    let error = start_in(&transaction, order::workflow(), ORDER).schema(&schema).key("l").await.unwrap_err();
    assert_eq!(error.code(), "unavailable", "{error}");
    Ok(())
}

#[workflow(timeout = "100ms")]
mod endless {
    use super::*;

    #[task]
    pub async fn wait(input: String) -> Result<usize> {
        if input.is_empty() {
            std::future::pending::<()>().await;
        }
        Ok(input.len())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_sql_started_is_as_any_other() -> Result<()> {
    let schema = schema();
    let engine = Engine::open(url(&schema)).payload_limit(1024).workflow(endless::workflow());
    let engine = engine.cancel_grace(Duration::ZERO).launch().await?;
    let application = application().await;
    let start = async |input: &str| {
        let call = format!("SELECT {schema}.start('endless', {input})::text");
        let run: String = application.query_one(&call, &[]).await.unwrap().get(0);
        engine.run(&endless::workflow(), run.parse().unwrap()).await
    };
    // The limit that the workflow declares holds.
    assert_eq!(start("'\"\"'").await.unwrap_err().code(), "run_timed_out");
    // What is larger than the engine would have taken is read all the same.
    assert_eq!(start("to_jsonb(repeat('x', 5000))").await?, 5000);
    // What does not fit fails the run.
    let error = start("'17'").await.unwrap_err();
    assert!(error.code() == "run_failed" && error.to_string().contains("does not fit its type"), "{error}");
    engine.stop().await?;
    Ok(())
}
