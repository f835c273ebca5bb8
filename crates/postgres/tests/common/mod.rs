//! What several of these tests begin with.
#![allow(dead_code, reason = "each test program uses some of it")]

use std::sync::OnceLock;

use tokio_postgres::{Client, NoTls};
use windlass_cluster::Cluster;

/// The cluster of this test program.
pub fn cluster() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| Cluster::find().unwrap())
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
