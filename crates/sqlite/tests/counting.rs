//! What the measurement of an idle process counts.

#![cfg(feature = "counting")]

use windlass_sqlite::{
    Sqlite,
    counting::{begin, so_far},
};
use windlass_store::Store;

#[tokio::test]
async fn what_writes_and_what_reads_is_counted() {
    begin();
    let dir = tempfile::tempdir().unwrap();
    let store = Sqlite::open(dir.path().join("app.db").to_str().unwrap()).await.unwrap();
    let opened = so_far();
    assert!(opened > 0, "making the tables is a statement too");
    store.nodes().await.unwrap();
    assert!(so_far() >= opened + 3, "a question has a beginning, a query and an end");
}
