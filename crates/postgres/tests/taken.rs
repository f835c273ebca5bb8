//! Starts that look at the run that has their key, where several meet.

mod common;

use std::sync::Arc;

use common::{cluster, connect, fresh, new_run, node};
use tokio_postgres::Client;
use windlass_core::{ClaimId, NodeId, RunId, RunState};
use windlass_postgres::{Postgres, PostgresOptions};
use windlass_store::{
    Act, Claim, DefinitionId, KeyConflict, KeyLife, NewEnd, NewKey, NewMessage, NewRun, Refusal, Replace,
    Store, Unit, Written,
};

const VERSION: DefinitionId = DefinitionId(1);

async fn open(schema: &str) -> Postgres {
    PostgresOptions::new().schema(schema).open(cluster().url()).await.unwrap()
}

fn over(state: RunState) -> NewEnd {
    NewEnd { state, output: None, failure: None }
}

fn replacing() -> KeyConflict {
    let order = NewMessage { topic: "!cancel".into(), body: "replaced".into(), key: None };
    KeyConflict::Replace(Box::new(Replace { end: over(RunState::Cancelled), order }))
}

/// A start that finds its key taken, if it is.
fn taken(conflict: KeyConflict) -> NewRun {
    let key = NewKey { key: "k".into(), digest: [1; 16], life: KeyLife::Kept, conflict };
    NewRun { key: Some(key), owner: None, ..new_run(ClaimId(0), VERSION) }
}

async fn start(store: &Postgres, run: RunId, new: NewRun) -> Result<Written, Refusal> {
    write(store, None, run, Act::Start(Box::new(new))).await
}

async fn write(store: &Postgres, node: Option<NodeId>, run: RunId, act: Act) -> Result<Written, Refusal> {
    store.commit(node, Arc::new(vec![Unit { run, act }])).await.unwrap().remove(0)
}

async fn take(store: &Postgres, node: NodeId) -> ClaimId {
    let claim = ClaimId::new();
    let request = Claim {
        node,
        claim,
        room: 1,
        queues: vec![("default".into(), 1)],
        workflows: vec![("etl".into(), VERSION)],
        kept: Vec::new(),
        bytes: usize::MAX,
        free_own: false,
    };
    assert_eq!(store.claim(request).await.unwrap().runs.len(), 1);
    claim
}

/// Until somebody waits for a lock on a table.
async fn waits_for_table(client: &Client, schema: &str, table: &str) {
    let sql = format!(
        "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = '{schema}.{table}'::regclass AND NOT granted)"
    );
    until(client, &sql).await;
}

/// Until so many who have been at the keys wait for another's transaction.
async fn wait_for_others(client: &Client, schema: &str, count: usize) {
    let sql = format!(
        "SELECT count(DISTINCT pid) >= {count} FROM pg_locks AS w JOIN pg_locks AS k USING (pid) \
         WHERE w.locktype = 'transactionid' AND NOT w.granted AND k.relation = '{schema}.key'::regclass"
    );
    until(client, &sql).await;
}

async fn until(client: &Client, sql: &str) {
    while !client.query_one(sql, &[]).await.unwrap().get::<_, bool>(0) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_is_sent_again_while_its_first_sending_is_under_way_does_not_meet_itself() {
    for conflict in [KeyConflict::Reject, replacing(), KeyConflict::Debounce] {
        let schema = fresh();
        let (one, two) = (open(&schema).await, open(&schema).await);
        // The first sending takes the key, and comes no further.
        let (stranger, watcher) = (connect(cluster().url()).await, connect(cluster().url()).await);
        let run = RunId::new();
        let place = format!("('default', '', 'etl', 5, '{}')", uuid::Uuid::from_bytes(*run.as_bytes()));
        let insert =
            format!("INSERT INTO {schema}.ready (queue, lane, workflow, priority, run) VALUES {place}");
        stranger.batch_execute(&format!("BEGIN; {insert}")).await.unwrap();
        let first = start(&one, run, taken(conflict.clone()));
        let again = async {
            wait_for_others(&watcher, &schema, 1).await;
            start(&two, run, taken(conflict.clone())).await
        };
        let letting_go = async {
            wait_for_others(&watcher, &schema, 2).await;
            stranger.batch_execute("ROLLBACK").await.unwrap();
        };
        let (first, again, ()) = tokio::join!(first, again, letting_go);
        assert!(matches!(first, Ok(Written::Started { .. })), "{first:?}");
        assert_eq!(again, Ok(Written::Existing { run }), "{conflict:?}");
        assert_eq!(two.load(run).await.unwrap().unwrap().standing.state(), RunState::Pending);
        assert_eq!(two.by_key("etl".into(), "k".into()).await.unwrap(), Some(run));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_ends_while_it_is_replaced_does_not_fail_the_start() {
    let schema = fresh();
    let (one, two) = (open(&schema).await, open(&schema).await);
    let node = node();
    one.join(node.clone()).await.unwrap();
    let (first, second) = (RunId::new(), RunId::new());
    assert!(start(&one, first, taken(replacing())).await.is_ok());
    let claim = take(&one, node.id).await;
    // The second start has seen that the first run is live, and comes no further.
    let (stranger, watcher) = (connect(cluster().url()).await, connect(cluster().url()).await);
    let lock = format!("BEGIN; LOCK TABLE {schema}.waiting IN EXCLUSIVE MODE");
    stranger.batch_execute(&lock).await.unwrap();
    let ending = async {
        waits_for_table(&watcher, &schema, "waiting").await;
        let end = Act::End { claim, steps: Vec::new(), end: over(RunState::Completed) };
        assert!(write(&one, Some(node.id), first, end).await.is_ok());
        stranger.batch_execute("COMMIT").await.unwrap();
    };
    let (answer, ()) = tokio::join!(start(&two, second, taken(replacing())), ending);
    assert!(matches!(answer, Ok(Written::Started { .. })), "{answer:?}");
    assert_eq!(two.load(first).await.unwrap().unwrap().standing.state(), RunState::Completed);
    assert_eq!(two.by_key("etl".into(), "k".into()).await.unwrap(), Some(second));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_in_sql_is_not_answered_with_a_run_that_the_application_has_cancelled() {
    let schema = fresh();
    let store = open(&schema).await;
    let client = connect(cluster().url()).await;
    let start = |input: &str| {
        format!(
            "SELECT {schema}.start('etl', '{input}', key => 'k', if_taken => 'debounce', delay => '1 hour')"
        )
    };
    let begin =
        async |input: &str| -> uuid::Uuid { client.query_one(&start(input), &[]).await.unwrap().get(0) };
    let cancel = async |run: uuid::Uuid| {
        let sql = format!("SELECT {schema}.cancel(run => $1, reason => 'enough')");
        client.query_one(&sql, &[&run]).await.unwrap();
    };
    let first = begin("1").await;
    client.batch_execute("BEGIN").await.unwrap();
    cancel(first).await;
    let second = begin("2").await;
    client.batch_execute("COMMIT").await.unwrap();
    assert_ne!(second, first, "in the same transaction");
    cancel(second).await;
    let third = begin("3").await;
    assert!(third != second && third != first, "and in the next");
    assert_eq!(begin("4").await, third);
    let input = async |run: uuid::Uuid| {
        let run = RunId::from_bytes(*run.as_bytes());
        store.load(run).await.unwrap().unwrap().run.input
    };
    assert_eq!([input(first).await, input(second).await, input(third).await], ["1", "2", "4"]);
}
