//! A page answers at once, however many runs there are. It takes minutes and some gigabytes of disk to make them:
//! `cargo test -p windlass --all-features --test millions -- --ignored --nocapture`.
#![cfg(all(feature = "sqlite", feature = "postgres"))]

use std::{
    future::Future,
    time::{Duration, Instant},
};

use windlass::{Client, RunState, Runs, Time, prelude::*};
use windlass_cluster::Cluster;

/// How many runs have ended. Of every hundred two failed and one was cancelled; one in a hundred thousand is of a queue of its
/// own. A fifth as many are pending.
const ENDED: u64 = 5_000_000;
/// What a person does not wait for.
const SOON: Duration = Duration::from_millis(300);
/// The runs were started one each half a second.
const EACH: i64 = 500_000;

const SQLITE: &str = "\
    INSERT OR IGNORE INTO name (text) VALUES ('w0'), ('w1'), ('rare'), ('default'); \
    CREATE TEMP TABLE new AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {all}) \
        SELECT i, unhex(printf('%012x70008000%012x', ({first} + i * {each}) / 1000, i)) AS id, {first} + i * {each} AS at, \
            (SELECT no FROM name WHERE text = CASE WHEN i % 1000 = 0 THEN 'w1' ELSE 'w0' END) AS workflow, \
            (SELECT no FROM name WHERE text = CASE WHEN i % 100000 = 5 THEN 'rare' ELSE 'default' END) AS queue FROM n; \
    INSERT INTO run (id, workflow, queue, priority, created_at, input) SELECT id, workflow, queue, 5, at, x'6e' FROM new; \
    INSERT INTO ended (workflow, run, generation, state, at, definition, recoveries, step_name, step_attempt, step_started_at, \
            step_took, output) \
        SELECT workflow, id, 1, CASE WHEN i % 100 IN (1, 2) THEN 7 WHEN i % 100 = 3 THEN 8 ELSE 6 END, at + 1000, 1, 0, 'a', 1, \
            at, 1000, x'2234220a' FROM new WHERE i % 6 <> 0; \
    INSERT INTO ready (queue, lane, workflow, priority, run, generation, recoveries) \
        SELECT queue, '', workflow, 5, id, 1, 0 FROM new WHERE i % 6 = 0; \
    INSERT INTO tally SELECT 0, workflow, state, count(*) FROM ended GROUP BY 2, 3 ON CONFLICT DO NOTHING; \
    DROP TABLE new";

const POSTGRES: &str = "\
    CREATE TEMP TABLE new AS SELECT i, \
        (lpad(to_hex(({first} + i * {each}) / 1000), 12, '0') || '70008000' || lpad(to_hex(i), 12, '0'))::uuid AS id, \
        {first} + i * {each} AS at, CASE WHEN i % 1000 = 0 THEN 'w1' ELSE 'w0' END AS workflow, \
        CASE WHEN i % 100000 = 5 THEN 'rare' ELSE 'default' END AS queue FROM generate_series(1::bigint, {all}) AS i; \
    INSERT INTO {s}.run (id, workflow, queue, priority, generation, opened_at, recoveries, created_at, input) \
        SELECT id, workflow, queue, 5, 1, at, 0, at, 'n' FROM new; \
    INSERT INTO {s}.ended (workflow, run, generation, state, at, definition, step_name, step_attempt, step_epoch, \
            step_started_at, step_ended_at, output) \
        SELECT workflow, id, 1, CASE WHEN i % 100 IN (1, 2) THEN 7 WHEN i % 100 = 3 THEN 8 ELSE 6 END, at + 1000, 1, 'a', 1, 0, \
            at, at + 1000, 'four' FROM new WHERE i % 6 <> 0; \
    INSERT INTO {s}.ready (queue, lane, workflow, priority, run) \
        SELECT queue, '', workflow, 5, id FROM new WHERE i % 6 = 0; \
    INSERT INTO {s}.tally SELECT 0, workflow, state, count(*) FROM {s}.ended GROUP BY 2, 3 ON CONFLICT DO NOTHING; \
    DROP TABLE new; ANALYZE {s}.run; ANALYZE {s}.ended; ANALYZE {s}.ready";

fn filled(sql: &str, first: Time) -> String {
    let numbers =
        [("{all}", ENDED / 5 * 6), ("{first}", first.0.cast_unsigned()), ("{each}", EACH.cast_unsigned())];
    numbers.iter().fold(sql.to_owned(), |sql, (name, number)| sql.replace(name, &number.to_string()))
}

/// A database that knows two workflows.
async fn prepare(url: &str) -> (Client, Time) {
    let workflow = |name: &str| {
        let task = Task::new("a", |_| async move { Ok(serde_json::Value::Null) });
        Workflow::builder(name).task(task).build().unwrap()
    };
    let engine = Engine::open(url).workflow(workflow("w0")).workflow(workflow("w1")).launch().await.unwrap();
    let first = engine.now() - Duration::from_micros((ENDED / 5 * 6) * EACH.unsigned_abs());
    engine.stop().await.unwrap();
    (Client::connect(url).await.unwrap(), first)
}

/// Asks three times, so that what was just written is out of the way; the last counts.
async fn timed<T, F: Future<Output = T>>(
    slow: &mut Vec<String>,
    what: &str,
    mut ask: impl FnMut() -> F,
) -> T {
    ask().await;
    ask().await;
    let began = Instant::now();
    let answer = ask().await;
    let took = began.elapsed();
    println!("{:>6} ms  {what}", took.as_millis());
    if took > SOON {
        slow.push(format!("{what}: {took:?}"));
    }
    answer
}

async fn ask_all(client: &Client, first: Time) {
    let days = |days: u64| first + Duration::from_secs(days * 86_400);
    let runs = || client.runs();
    let searches: Vec<(&str, Runs)> = vec![
        ("all", runs()),
        ("of the common workflow", runs().workflow("w0")),
        ("of the rare workflow", runs().workflow("w1")),
        ("of none", runs().workflow("w7")),
        ("completed", runs().completed()),
        ("failed", runs().failed()),
        ("failed of the rare workflow", runs().failed().workflow("w1")),
        ("completed of the rare workflow", runs().completed().workflow("w1")),
        ("pending", runs().pending()),
        ("running", runs().running()),
        ("blocked", runs().state(RunState::Blocked)),
        ("live of the rare workflow", runs().live().workflow("w1")),
        ("of a rare queue", runs().queue("rare")),
        ("failed of a rare queue", runs().queue("rare").failed()),
        ("of a tag that none has", runs().tag("eu")),
        ("of a key that none has", runs().key("k")),
        ("of the first week", runs().since(first).until(days(7))),
        ("failed of the first week", runs().since(first).until(days(7)).failed()),
    ];
    let mut slow = Vec::new();
    for (what, search) in searches {
        let search = search.limit(100);
        timed(&mut slow, &format!("list {what}"), || async { search.portion().await.unwrap() }).await;
        timed(&mut slow, &format!("count {what}"), || async { search.counts().await.unwrap() }).await;
    }
    let overview = timed(&mut slow, "overview", || async { client.overview().await.unwrap() }).await;
    let completed = overview.states.iter().find(|count| count.state == RunState::Completed).unwrap();
    assert!(completed.count.abs_diff(ENDED * 97 / 100) < ENDED / 20, "{completed:?}");
    assert!(completed.estimated);
    for name in ["w0", "w1"] {
        let workflows = client.workflows();
        let statistics = || async { workflows.statistics(name).await.unwrap() };
        assert_eq!(timed(&mut slow, &format!("statistics of {name}"), statistics).await.runs, 200);
        timed(&mut slow, &format!("grid of {name}"), || async { workflows.grid(name, 50).await.unwrap() })
            .await;
    }
    assert!(slow.is_empty(), "{slow:#?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it takes minutes and some gigabytes of disk"]
async fn a_page_answers_at_once_over_millions_in_sqlite() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("millions.db");
    let (client, first) = prepare(&format!("sqlite://{}", file.display())).await;
    let sql = filled(SQLITE, first);
    rusqlite::Connection::open(&file).unwrap().execute_batch(&format!("BEGIN; {sql}; COMMIT")).unwrap();
    ask_all(&client, first).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it takes minutes and some gigabytes of disk"]
async fn a_page_answers_at_once_over_millions_in_postgres() {
    let cluster = Cluster::find().expect("a cluster is there");
    let schema = format!("millions_{}", std::process::id());
    let (client, first) = prepare(&format!("{}?schema={schema}", cluster.url())).await;
    let (connection, driver) = tokio_postgres::connect(cluster.url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(driver);
    connection.batch_execute(&filled(POSTGRES, first).replace("{s}", &schema)).await.unwrap();
    ask_all(&client, first).await;
    connection.batch_execute(&format!("DROP SCHEMA {schema} CASCADE")).await.unwrap();
}
