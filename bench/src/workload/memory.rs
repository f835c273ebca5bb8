//! A node with a long backlog and a thousand runs at work.

use std::{sync::Arc, time::Duration};

use windlass::Client;

use super::{Bench, recover::endless, roll::Roll};
use crate::{Result, process, report::Line};

/// How many runs wait.
const PENDING: f64 = 100_000.0;

/// How much memory the whole process may have had.
const MEGABYTES: f64 = 200.0;

/// How many runs one call of `start_many` carries.
const CALL: u64 = 10_000;

/// How long to wait for the runs to be at work.
const PATIENCE: Duration = Duration::from_secs(60);

/// Enqueues the backlog, lets the node take what it has room for, and looks at the memory of the process.
pub(crate) async fn measure(bench: &Bench<'_>) -> Result<Line> {
    process::forget_peak();
    let running = bench.concurrency() as u64;
    let pending = (PENDING * bench.options.scale) as u64;
    let database = bench.database().await?;
    let client = Client::connect(&database.url()).await?;
    let mut left = pending + running;
    while left > 0 {
        let call = left.min(CALL);
        client.start_many(endless::workflow(), (0..call).map(|_| ())).await?;
        left -= call;
    }
    drop(client);

    let roll = Roll::new(running);
    let engine = super::engine(&database.url(), bench.concurrency())
        .resource(Arc::clone(&roll))
        .workflow(endless::workflow())
        .launch()
        .await?;
    tokio::time::timeout(PATIENCE, roll.full())
        .await
        .map_err(|_| format!("only {} of {running} runs are at work", roll.present()))?;
    let (now, peak) = (process::megabytes(), process::peak_megabytes());
    let (held, ready) = (database.held().await?, database.ready().await?);
    if (held, ready) != (running, pending) {
        return Err(format!("{held} runs are held and {ready} wait, not {running} and {pending}").into());
    }
    engine.stop().await?;
    let mut line = bench.line("memory_mb < 200").also("pending", pending as f64);
    for (name, value) in [("memory_mb", peak), ("memory_at_work_mb", now)] {
        line = value.into_iter().fold(line, |line, value| line.also(name, value));
    }
    Ok(line.holds(peak.is_none_or(|peak| peak < MEGABYTES)))
}
