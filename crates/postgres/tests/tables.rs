//! What the tables cost whoever writes to them: indexes, updates and notifications.

mod common;

use std::{
    collections::BTreeMap,
    future::poll_fn,
    sync::Arc,
    time::{Duration, Instant},
};

use common::{cluster, connect, fresh, new_run, node, step};
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client, NoTls};
use windlass_core::{ClaimId, NodeId, RunId, RunState};
use windlass_postgres::{Postgres, PostgresOptions};
use windlass_store::{Act, Claim, DefinitionId, NewEnd, NewRun, Store, Unit, Wait, Written};

const INDEXES: &str = "\
    SELECT tablename::text, indexdef FROM pg_indexes WHERE schemaname = $1 AND indexdef NOT LIKE '% USING btree %'";
/// Columns that an index of a table names, also in its condition.
const INDEXED: &str = "\
    SELECT DISTINCT a.attname::text FROM pg_index AS i JOIN pg_attribute AS a ON a.attrelid = i.indrelid \
    JOIN pg_depend AS d ON d.objid = i.indexrelid AND d.refobjid = i.indrelid AND d.refobjsubid = a.attnum \
    WHERE i.indrelid = ($1 || '.run')::text::regclass";
const ROW: &str =
    "SELECT each.key, each.value FROM {s}.run AS r, jsonb_each_text(to_jsonb(r)) AS each WHERE id::text = $1";

struct World {
    schema: String,
    store: Postgres,
    me: NodeId,
    client: Client,
}

impl World {
    async fn new() -> Self {
        let schema = fresh();
        let store = PostgresOptions::new().schema(&schema).open(cluster().url()).await.unwrap();
        let me = node();
        store.join(me.clone()).await.unwrap();
        Self { schema, store, me: me.id, client: connect(cluster().url()).await }
    }

    async fn commit(&self, run: RunId, act: Act) -> Written {
        let mut answers = self.store.commit(Some(self.me), Arc::new(vec![Unit { run, act }])).await.unwrap();
        answers.remove(0).unwrap()
    }

    async fn claim(&self, run: RunId) -> ClaimId {
        let claim = ClaimId::new();
        let request = Claim {
            node: self.me,
            claim,
            room: 10,
            queues: vec![("default".into(), 10)],
            workflows: vec![("etl".into(), DefinitionId(1))],
            bytes: usize::MAX,
            kept: Vec::new(),
            free_own: true,
        };
        let runs = self.store.claim(request).await.unwrap().runs;
        assert_eq!(runs.iter().map(|image| image.run.id).collect::<Vec<_>>(), [run]);
        claim
    }

    /// The columns of the run's row, as they are now.
    async fn row(&self, run: RunId) -> BTreeMap<String, Option<String>> {
        let rows = self.client.query(&ROW.replace("{s}", &self.schema), &[&run.to_string()]).await.unwrap();
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    }

    async fn drop(self) {
        drop(self.store);
        self.client.batch_execute(&format!("DROP SCHEMA {} CASCADE", self.schema)).await.unwrap();
    }
}

#[tokio::test]
async fn no_table_has_an_index_that_is_dear_to_write() {
    let world = World::new().await;
    let others = world.client.query(INDEXES, &[&world.schema]).await.unwrap();
    let others: Vec<(String, String)> = others.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert!(others.is_empty(), "{others:?}");
    world.drop().await;
}

#[tokio::test]
async fn no_index_of_runs_names_a_column_that_changes() {
    let world = World::new().await;
    let (run, claim) = (RunId::new(), ClaimId::new());
    world.commit(run, Act::Start(Box::new(new_run(claim, DefinitionId(1))))).await;
    let began = world.row(run).await;
    let wait = Wait {
        state: RunState::Suspended,
        until: None,
        topics: vec!["news".into()],
        reason: None,
        blocked_by: None,
    };
    let (steps, consumed) = (vec![step("a")], Vec::new());
    world.commit(run, Act::Park { claim, steps, consumed, wait }).await;
    let body = bytes::Bytes::new();
    world.commit(run, Act::Send(windlass_store::NewMessage { topic: "news".into(), key: None, body })).await;
    let claim = world.claim(run).await;
    world.commit(run, Act::Release { claim }).await;
    let claim = world.claim(run).await;
    let end = NewEnd { state: RunState::Failed, output: None, failure: None };
    world.commit(run, Act::End { claim, steps: Vec::new(), end }).await;
    let ended = world.row(run).await;
    let changed: Vec<&String> = began.keys().filter(|name| began[*name] != ended[*name]).collect();
    assert!(!changed.is_empty(), "it was parked, released and claimed");
    let indexed = world.client.query(INDEXED, &[&world.schema]).await.unwrap();
    let indexed: Vec<String> = indexed.iter().map(|row| row.get(0)).collect();
    assert!(indexed.contains(&"id".to_owned()), "{indexed:?}");
    assert!(changed.iter().all(|name| !indexed.contains(name)), "{changed:?} of {indexed:?}");
    world.drop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_notified_for_each_row_or_each_commit() {
    const COMMITS: usize = 200;
    let world = World::new().await;
    let (client, mut connection) = tokio_postgres::connect(cluster().url(), NoTls).await.unwrap();
    let (heard, mut hears) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
            if let Ok(AsyncMessage::Notification(said)) = message
                && heard.send(said.payload().to_owned()).is_err()
            {
                break;
            }
        }
    });
    let channel = format!("\"windlass:{}\"", world.schema);
    client.batch_execute(&format!("LISTEN {channel}")).await.unwrap();
    let began = Instant::now();
    for _ in 0..COMMITS {
        let unit = || {
            let new = NewRun { owner: None, ..new_run(ClaimId(0), DefinitionId(1)) };
            Unit { run: RunId::new(), act: Act::Start(Box::new(new)) }
        };
        world.store.commit(None, Arc::new((0..50).map(|_| unit()).collect())).await.unwrap();
    }
    let took = began.elapsed();
    client.batch_execute(&format!("NOTIFY {channel}, 'over'")).await.unwrap();
    let mut count = 0;
    while hears.recv().await.unwrap() != "over" {
        count += 1;
    }
    // One for each 5 ms, and what was said at the edges.
    let most = took.div_duration_f64(Duration::from_millis(5)) as usize + 3;
    assert!((1..=most).contains(&count), "{count} in {took:?}");
    assert!(count <= COMMITS + 3, "{count} for {COMMITS} commits of 50 runs each");
    world.drop().await;
}
