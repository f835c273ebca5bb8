//! What the tests of batches share.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use windlass::{Client, EngineBuilder, prelude::*};

/// What the runs of `index` got, in the order in which they began.
#[derive(Clone, Default)]
pub struct Diary(Arc<Mutex<Vec<Vec<u32>>>>);

#[workflow]
pub mod index {
    use super::*;

    #[task]
    pub async fn write(input: Vec<u32>, diary: Res<Diary>) -> Result<Vec<u32>> {
        diary.0.lock().push(input.clone());
        Ok(input)
    }
}

impl Diary {
    /// What each run got.
    pub fn batches(&self) -> Vec<Vec<u32>> {
        self.0.lock().clone()
    }
}

pub fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// An engine that has `index`.
pub fn with_index(engine: EngineBuilder, diary: &Diary) -> EngineBuilder {
    engine.resource(diary.clone()).workflow(index::workflow())
}

/// What all runs of `index` that completed got, oldest first.
pub async fn inputs(client: &Client) -> Result<Vec<Vec<u32>>> {
    let mut runs = client.runs().workflow("index").limit(20_000).list().await?;
    runs.sort_by_key(|run| (run.created_at, run.id));
    let mut inputs = Vec::new();
    for run in runs {
        inputs.push(client.run(&index::workflow(), run.id).await?);
    }
    Ok(inputs)
}

/// Waits until all runs of `index` together got so many items.
pub async fn until_taken(client: &Client, name: &str, items: u64) -> Result<()> {
    let batch = client.batches().get::<u32>(name).await?;
    let enough = async {
        while batch.status().await?.items < items {
            tokio::time::sleep(millis(10)).await;
        }
        Ok::<_, Failure>(())
    };
    tokio::time::timeout(secs(60), enough).await?
}

/// Fails unless each of the numbers below this was in exactly one run.
pub fn assert_each_once(inputs: &[Vec<u32>], items: u32) {
    let mut all = inputs.concat();
    all.sort_unstable();
    assert_eq!(all, (0..items).collect::<Vec<_>>(), "each item is in one run: {inputs:?}");
}
