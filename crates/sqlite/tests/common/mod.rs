//! What several of these tests begin with.
#![allow(dead_code, reason = "each test program uses some of it")]

use std::sync::Arc;

use bytes::Bytes;
use windlass_core::RunId;
use windlass_sqlite::Sqlite;
use windlass_store::{Act, NewRun, Query, Store, StoreError, Unit, Written};

/// A start that asks for nothing special.
pub fn new_run() -> NewRun {
    NewRun {
        workflow: Arc::from("etl"),
        queue: Arc::from("default"),
        queue_key: None,
        priority: 5,
        delay: None,
        timeout: None,
        input: Bytes::from_static(b"1"),
        context: None,
        key: None,
        tags: Vec::new(),
        forked_from: None,
        trace: None,
        parent: None,
        steps: Vec::new(),
        owner: None,
    }
}

/// The start of a run with an input of this size, under a fresh id.
pub fn start(bytes: usize) -> Unit {
    let new = NewRun { input: Bytes::from(vec![7; bytes]), tags: vec!["a".into()], ..new_run() };
    Unit { run: RunId::new(), act: Act::Start(Box::new(new)) }
}

/// Writes starts, all of which must be made.
pub async fn write(store: &Sqlite, units: Vec<Unit>) -> Result<(), StoreError> {
    for answer in store.commit(None, Arc::new(units)).await? {
        assert!(matches!(answer, Ok(Written::Started { .. })), "{answer:?}");
    }
    Ok(())
}

/// How many runs there are.
pub async fn count(store: &Sqlite) -> usize {
    store.find(Query { limit: 10_000, ..Query::default() }).await.unwrap().runs.len()
}
