//! What several of these tests begin with.
#![allow(dead_code, reason = "each test program uses some of it")]

pub mod failing_way;
pub mod half_open;
pub mod own_schema;

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::time::timeout;
use tokio_postgres::{Client, NoTls};
use windlass_cluster::Cluster;
use windlass_core::{ClaimId, NodeId, StepKind, Time};
use windlass_postgres::Postgres;
use windlass_store::{DefinitionId, Hint, NewNode, NewRun, Owner, StepRow, Store};

/// The cluster of this test program.
pub fn cluster() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| Cluster::find().unwrap())
}

/// A name that no other schema has.
pub fn fresh() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("test_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A connection beside the store's.
pub async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Has something done, and waits for it where nothing can be awaited.
pub fn execute(sql: String) {
    let work = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { connect(cluster().url()).await.batch_execute(&sql).await.unwrap() });
    };
    std::thread::spawn(work).join().unwrap();
}

/// A node that has done nothing yet.
pub fn node() -> NewNode {
    NewNode {
        id: NodeId::new(),
        name: None,
        version: "test".into(),
        queues: vec!["default".into()],
        stale_after: Duration::from_secs(30),
    }
}

/// A run that its node wants to hold under this claim.
pub fn new_run(claim: ClaimId, definition: DefinitionId) -> NewRun {
    NewRun {
        workflow: "etl".into(),
        queue: "default".into(),
        queue_key: None,
        priority: 5,
        delay: None,
        timeout: None,
        input: Bytes::new(),
        context: None,
        key: None,
        tags: Vec::new(),
        forked_from: None,
        trace: None,
        parent: None,
        steps: Vec::new(),
        owner: Some(Owner { claim, definition }),
    }
}

/// A step that completed at its first attempt, without a result.
pub fn step(name: &str) -> StepRow {
    StepRow {
        generation: 1,
        name: name.into(),
        attempt: 1,
        epoch: 0,
        kind: StepKind::Completed,
        started_at: Time(1),
        ended_at: Time(2),
        output: None,
        detail: None,
    }
}

/// Waits until one hears at once, and not by looking, of what another does.
pub async fn hears(one: &Postgres, other: &Postgres) {
    let mut hints = one.hints();
    let (begun, mut in_a_row) = (Instant::now(), 0);
    while in_a_row < 10 {
        assert!(begun.elapsed() < Duration::from_secs(30), "it does not hear");
        // What came of its own accord is none of the other's.
        while hints.try_recv().is_ok() {}
        let node = node();
        other.join(node.clone()).await.unwrap();
        other.leave(node.id).await.unwrap();
        let heard = timeout(Duration::from_millis(100), hints.recv()).await;
        in_a_row = if matches!(heard, Ok(Ok(Hint::News(_)))) { in_a_row + 1 } else { 0 };
    }
}
