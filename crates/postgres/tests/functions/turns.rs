//! Transactions that meet, and what is left of those that are rolled back.

use std::{future::poll_fn, sync::Arc, time::Duration};

use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client, NoTls};
use windlass_core::RunId;
use windlass_store::{Act, KeyConflict, KeyLife, NewKey, NewRun, Store, Unit, Written};

use crate::{Schema, ask, cluster, connect};

/// How long to wait for what comes at once.
const SOON: Duration = Duration::from_secs(10);

/// Waits until a connection of that name waits for a lock.
async fn until_it_waits(schema: &Schema, name: &str) {
    let waits = format!(
        "EXISTS (SELECT FROM pg_stat_activity WHERE application_name = '{name}' AND wait_event_type = 'Lock')"
    );
    for _ in 0..5000 {
        if schema.one(&waits).await == "true" {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!("nobody waits");
}

/// Another application, which can be told from all others.
async fn another(schema: &Schema) -> (Client, String) {
    let name = format!("{}.another", schema.name);
    (connect(&format!("{}?application_name={name}", cluster().url())).await, name)
}

#[tokio::test]
async fn what_is_rolled_back_never_happened() {
    let schema = Schema::new().await;
    let other = schema.start("'etl', delay => '1 hour'").await;
    let contents = "(SELECT concat_ws(' ', (SELECT count(*) FROM {s}.run), (SELECT count(*) FROM {s}.key), \
        (SELECT count(*) FROM {s}.tag), (SELECT count(*) FROM {s}.ready), (SELECT count(*) FROM {s}.waiting), \
        (SELECT count(*) FROM {s}.inbox)))";
    let before = schema.one(contents).await;
    schema.execute("BEGIN").await;
    schema.start("'etl', '1', key => 'k', tags => '{a}'").await;
    schema.start("'etl', '1', delay => '1 hour'").await;
    schema.one(&format!("{{s}}.cancel('{other}')")).await;
    schema.one(&format!("{{s}}.send('{other}', 'paid', key => 'k')")).await;
    assert_ne!(schema.one(contents).await, before);
    schema.execute("ROLLBACK").await;
    assert_eq!(schema.one(contents).await, before);
    // The key is free for another input.
    schema.start("'etl', '2', key => 'k'").await;
}

/// Has one start a key, and another wait for it. Answers what the second got.
async fn meet(schema: &Schema, key: &str, input: u8, end: &str) -> (RunId, Result<Option<String>, String>) {
    let (another, name) = another(schema).await;
    schema.execute("BEGIN").await;
    let first = schema.start(&format!("'etl', '1', key => '{key}'")).await;
    let (of, call) = (schema.name.clone(), format!("{{s}}.start('etl', '{input}', key => '{key}')"));
    let second = tokio::spawn(async move { ask(&another, &of, &call).await });
    until_it_waits(schema, &name).await;
    schema.execute(end).await;
    (first, second.await.unwrap())
}

#[tokio::test]
async fn whoever_comes_second_with_a_key_waits_and_gets_the_run_of_the_first() {
    let schema = Schema::new().await;
    let (first, second) = meet(&schema, "k", 1, "COMMIT").await;
    assert_eq!(second, Ok(Some(first.to_string())));
    let (first, second) = meet(&schema, "l", 2, "COMMIT").await;
    let refused = second.unwrap_err();
    assert!(refused.starts_with("WL002") && refused.contains(&first.to_string()), "{refused}");
}

#[tokio::test]
async fn whoever_waited_for_a_key_that_was_rolled_back_has_it() {
    let schema = Schema::new().await;
    let (first, second) = meet(&schema, "k", 2, "ROLLBACK").await;
    let second = second.unwrap().unwrap();
    assert_ne!(second, first.to_string());
    assert_eq!(schema.one("{s}.run_by_key('etl', 'k')").await, second);
    assert_eq!(schema.one("(SELECT count(*) FROM {s}.run)").await, "1");
}

#[tokio::test]
async fn an_engine_waits_for_an_applications_key_as_others_do() {
    let schema = Schema::new().await;
    schema.execute("BEGIN").await;
    let first = schema.start("'etl', '1', key => 'k'").await;
    let digest = schema.one("(SELECT encode(digest, 'hex') FROM {s}.key)").await;
    let digest = uuid::Uuid::parse_str(&digest).unwrap().into_bytes();
    let new = NewRun {
        workflow: "etl".into(),
        queue: "default".into(),
        queue_key: None,
        priority: 5,
        delay: None,
        timeout: None,
        input: "1".into(),
        context: None,
        key: Some(NewKey { key: "k".into(), digest, life: KeyLife::Kept, conflict: KeyConflict::Refuse }),
        tags: Vec::new(),
        forked_from: None,
        trace: None,
        parent: None,
        steps: Vec::new(),
        owner: None,
    };
    let batch = Arc::new(vec![Unit { run: RunId::new(), act: Act::Start(Box::new(new)) }]);
    let commit = schema.store.commit(None, batch);
    let end = async {
        until_it_waits(&schema, &format!("{}.store", schema.name)).await;
        schema.execute("COMMIT").await;
    };
    let (answers, ()) = tokio::join!(commit, end);
    assert_eq!(answers.unwrap(), [Ok(Written::Existing { run: first })]);
}

#[tokio::test]
async fn a_transaction_that_repeats_its_reads_is_told_to_begin_again() {
    let schema = Schema::new().await;
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        let (another, _) = another(&schema).await;
        another.batch_execute(&format!("BEGIN ISOLATION LEVEL {level}; SELECT 1")).await.unwrap();
        let key = level.replace(' ', "-");
        let run = schema.start(&format!("'etl', '1', key => '{key}'")).await;
        let call = format!("{{s}}.start('etl', '1', key => '{key}')");
        assert!(ask(&another, &schema.name, &call).await.unwrap_err().starts_with("40001"));
        another.batch_execute(&format!("ROLLBACK; BEGIN ISOLATION LEVEL {level}")).await.unwrap();
        assert_eq!(ask(&another, &schema.name, &call).await, Ok(Some(run.to_string())));
        another.batch_execute("COMMIT").await.unwrap();
    }
}

#[tokio::test]
async fn those_who_listen_hear_of_each_transaction_once_when_it_commits() {
    let schema = Schema::new().await;
    let (client, mut connection) = tokio_postgres::connect(cluster().url(), NoTls).await.unwrap();
    let (notes, mut heard) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notification(note) = message {
                notes.send(note.payload().to_owned()).unwrap();
            }
        }
    });
    client.batch_execute(&format!("LISTEN \"windlass:{}\"", schema.name)).await.unwrap();
    let say = format!("SELECT pg_notify('windlass:{}', 'committed')", schema.name);

    schema.execute("BEGIN").await;
    schema.start("'etl'").await;
    schema.execute("ROLLBACK; BEGIN; SET LOCAL windlass.notify = off").await;
    schema.start("'etl'").await;
    schema.execute("COMMIT; BEGIN").await;
    for _ in 0..3 {
        schema.start("'etl'").await;
    }
    client.batch_execute(&say).await.unwrap();
    schema.execute("COMMIT").await;
    client.batch_execute(&say).await.unwrap();

    let mut said = Vec::new();
    while said.iter().filter(|note| *note == "committed").count() < 2 {
        said.push(tokio::time::timeout(SOON, heard.recv()).await.expect("a note").unwrap());
    }
    // The store says that it is there.
    said.retain(|note| matches!(note.as_str(), "sql" | "committed"));
    assert_eq!(said, ["committed", "sql", "committed"]);
}
