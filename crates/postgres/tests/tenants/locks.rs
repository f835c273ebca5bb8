//! Locks that stand for nodes, among tenants: a frozen process is ended, a stranger is not.

use std::time::Duration;

use hmac_sha256::Hash;
use tokio_postgres::Client;
use windlass_core::NodeId;
use windlass_store::{Death, NewNode, Store, StoreError};

use crate::database::{Database, created, ended, inside, opened};

fn node(stale_after: Duration) -> NewNode {
    NewNode { id: NodeId::new(), name: None, version: String::new(), queues: Vec::new(), stale_after }
}

/// Holds what stands for a node of `acme`, as a process does that is frozen in a transaction.
async fn freeze(session: &Client, node: NodeId) {
    let digest = Hash::hash(&[b"windlass_acme\0", node.as_bytes().as_slice()].concat());
    let lock = i64::from_be_bytes(digest[..8].try_into().unwrap());
    session.batch_execute("BEGIN").await.unwrap();
    session.execute("SELECT pg_advisory_xact_lock_shared($1)", &[&lock]).await.unwrap();
}

/// Declares a node dead once it is stale.
async fn bury(store: &impl Store, judge: NodeId, dead: NodeId) -> Result<(), StoreError> {
    for _ in 0..200 {
        if store.declare_dead(judge, dead, Death::Stale).await? {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it never goes stale");
}

#[tokio::test]
async fn a_tenants_role_ends_its_own_sessions_that_are_frozen() {
    let database = Database::new().await;
    let url = created(&database.tenants().await, "acme").await;
    let (store, frozen) = (opened(&url).await, inside(&url).await);
    let (judge, dead) = (node(Duration::from_secs(60)), node(Duration::from_millis(1)));
    store.join(judge.clone()).await.unwrap();
    store.join(dead.clone()).await.unwrap();
    freeze(&frozen, dead.id).await;
    bury(&store, judge.id, dead.id).await.unwrap();
    ended(&frozen).await;
}

#[tokio::test]
async fn a_stranger_who_holds_a_nodes_lock_holds_it_up_and_does_nothing_worse() {
    let database = Database::new().await;
    let tenants = database.tenants().await;
    let (url, other) = (created(&tenants, "acme").await, created(&tenants, "beta").await);
    let (store, stranger, frozen) = (opened(&url).await, inside(&other).await, inside(&url).await);
    let (judge, dead) = (node(Duration::from_secs(60)), node(Duration::from_millis(1)));
    store.join(judge.clone()).await.unwrap();
    store.join(dead.clone()).await.unwrap();
    freeze(&stranger, dead.id).await;
    freeze(&frozen, dead.id).await;
    let error = bury(&store, judge.id, dead.id).await.unwrap_err();
    assert!(error.is_temporary(), "{error}");
    // The stranger is no cover for others.
    ended(&frozen).await;
    stranger.batch_execute("COMMIT").await.unwrap();
    bury(&store, judge.id, dead.id).await.unwrap();
}
