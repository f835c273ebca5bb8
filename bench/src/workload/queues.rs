//! A queue with limits, deep and shallow.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use windlass::{Client, prelude::*};

use super::Bench;
use crate::{Result, database::Database, report::Line};

/// Runs that are pending, and the keys that they are counted by.
const PENDING: f64 = 1_000_000.0;
const KEYS: f64 = 10_000.0;

/// The same of a shallow queue.
const FEW: u64 = 1_000;

/// Runs of one key, behind which another key has one.
const CROWD: f64 = 50_000.0;

/// How many runs are worked off in each queue.
const TAKEN: usize = 500;

const QUEUE: &str = "tight";

/// One task that does nothing.
#[workflow]
pub(crate) mod errand {
    use windlass::prelude::*;

    #[task]
    pub(crate) async fn only(input: u64) -> Result<u64> {
        super::DONE.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Ok(input)
    }
}

/// How many were done in this process: a listing would go through the whole queue.
static DONE: AtomicUsize = AtomicUsize::new(0);

/// Measures how long it takes to work off some runs of a shallow queue and of a deep one, and how long a key with one run
/// waits behind a key with many.
pub(crate) async fn measure(bench: &Bench<'_>) -> Result<Line> {
    let count = |whole: f64| ((whole * bench.options.scale) as u64).max(1);
    let (pending, keys, crowd) = (count(PENDING).max(FEW), count(KEYS), count(CROWD));
    let shallow = work_off(&bench.database().await?, FEW, keys.min(FEW)).await?;
    let deep = work_off(&bench.database().await?, pending, keys).await?;
    let waited = wait_behind(&bench.database().await?, crowd).await?;
    let (shallow_ms, deep_ms, waited_ms) = (millis(shallow), millis(deep), millis(waited));
    Ok(bench
        .line("deep_ms <= 2 * shallow_ms, waited_ms < 1000")
        .also("pending", pending as f64)
        .also("keys", keys as f64)
        .also("shallow_ms", shallow_ms)
        .also("deep_ms", deep_ms)
        .also("waited_ms", waited_ms)
        .holds(deep_ms <= 2.0 * shallow_ms)
        .holds(waited_ms < 1_000.0))
}

fn millis(span: Duration) -> f64 {
    span.as_secs_f64() * 1_000.0
}

/// How long some runs of a queue with so many over so many keys take.
async fn work_off(database: &Database, pending: u64, keys: u64) -> Result<Duration> {
    let client = Client::connect(&database.url()).await?;
    client.queue(QUEUE).concurrency(50).per_key(2).await?;
    let start = client.start_many(errand::workflow(), 0..pending).queue(QUEUE);
    start.queue_key(move |number: &u64| format!("customer-{}", number % keys)).await?;
    let engine = super::engine(&database.url(), 100).serve([QUEUE]).workflow(errand::workflow());
    DONE.store(0, Ordering::Relaxed);
    let began = Instant::now();
    let engine = engine.launch().await?;
    while DONE.load(Ordering::Relaxed) < TAKEN {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let took = began.elapsed();
    engine.stop().await?;
    Ok(took)
}

/// How long a run waits whose key has no other, behind a key with so many.
async fn wait_behind(database: &Database, crowd: u64) -> Result<Duration> {
    let engine =
        super::engine(&database.url(), 100).serve([QUEUE]).workflow(errand::workflow()).launch().await?;
    engine.queue(QUEUE).concurrency(10).await?;
    let start = engine.start_many(errand::workflow(), 0..crowd).queue(QUEUE);
    start.queue_key(|_| "crowd".to_owned()).await?;
    let began = Instant::now();
    engine.start(errand::workflow(), 0).queue(QUEUE).queue_key("rare").await?.await?;
    let took = began.elapsed();
    engine.stop().await?;
    Ok(took)
}
