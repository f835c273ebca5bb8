//! The engine on PostgreSQL.
#![cfg(feature = "postgres")]

use std::sync::{
    LazyLock,
    atomic::{AtomicU32, Ordering},
};

use windlass::prelude::*;
use windlass_cluster::Cluster;

/// The URL of a schema of its own.
fn url() -> String {
    static CLUSTER: LazyLock<Cluster> = LazyLock::new(|| Cluster::find().unwrap());
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let (process, next) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    format!("{}?schema=engine_{process}_{next}", CLUSTER.url())
}

#[workflow(output = third)]
mod chain {
    use super::*;

    #[task]
    pub async fn first(input: u32) -> Result<u32> {
        Ok(input + 1)
    }

    #[task]
    pub async fn second(first: u32) -> Result<u32> {
        Ok(first + 1)
    }

    #[task]
    pub async fn third(second: u32) -> Result<u32> {
        Ok(second + 1)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chain_runs_on_a_postgres_database() -> Result<()> {
    let engine = Engine::open(url()).workflow(chain::workflow()).launch().await?;
    assert_eq!(engine.start(chain::workflow(), 1).await?.await?, 4);
    engine.stop().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_process_starts_another_runs_and_the_first_hears_of_its_end() -> Result<()> {
    let url = url();
    let client = Client::connect(&url).await?;
    let engine = Engine::open(&url).workflow(chain::workflow()).launch().await?;
    let runs = client.start_many(chain::workflow(), 0..500).await?;
    assert_eq!(runs.len(), 500);
    let (first, last) =
        (client.start(chain::workflow(), 7).await?, client.start(chain::workflow(), 8).await?);
    assert_eq!((first.await?, last.await?), (10, 11));
    engine.stop().await?;
    Ok(())
}
