//! A backlog of one-task runs, enqueued in bulk, then worked off by one process. History is kept.

use std::{sync::Arc, time::Instant};

use windlass::{Client, prelude::*};

use super::{Bench, mean, roll::Roll};
use crate::{Result, commits, database::Database, report::Line};

/// How many runs.
const RUNS: f64 = 200_000.0;

/// How many runs one call of `start_many` carries. What is enqueued is whole calls, so that the raw insert and ours write
/// the same number of rows.
const CALL: u64 = 10_000;

/// One task that does nothing but count.
#[workflow]
pub(crate) mod single {
    use std::sync::Arc;

    use windlass::prelude::*;

    use crate::workload::roll::Roll;

    #[task]
    pub(crate) async fn only(roll: Res<Arc<Roll>>) -> Result<()> {
        roll.answer();
        Ok(())
    }
}

/// Measures the limits, ours, and the limits again.
pub(crate) async fn measure(bench: &Bench<'_>) -> Result<Line> {
    let runs = bench.backlog();
    let limits =
        async || bench.limits(async |queue| Ok([queue.enqueue(runs).await?, queue.burndown().await?])).await;
    commits::listen()?;
    let before = limits().await?;
    let database = bench.database().await?;
    let enqueued_per_s = enqueue(&database, runs).await?;
    let bytes_before = database.bytes().await?;
    let commits_before = commits::written();
    let worked_per_s = work(&database, &Roll::new(runs), bench.concurrency()).await?;
    let commits = commits::written() - commits_before;
    let bytes = database.bytes().await?.saturating_sub(bytes_before);
    drop(database);
    let after = limits().await?;

    let enqueue_limit = mean(before[0], after[0]);
    let line = bench
        .line("of_limit >= 0.5, enqueue_of_limit >= 0.5")
        .rates(worked_per_s, mean(before[1], after[1]))
        .costs(Some(commits as f64 / runs as f64), Some(bytes as f64 / runs as f64))
        .also("enqueued_per_s", enqueued_per_s)
        .also("limit_enqueued_per_s", enqueue_limit)
        .also("enqueue_of_limit", enqueued_per_s / enqueue_limit);
    let within = line.of_limit() >= 0.5 && enqueued_per_s / enqueue_limit >= 0.5;
    Ok(line.holds(within))
}

/// How many runs a backlog has.
pub(super) fn runs(scale: f64) -> u64 {
    ((RUNS * scale / CALL as f64).ceil() as u64).max(1) * CALL
}

/// Enqueues from a client, which runs nothing, so that the backlog is whole before anyone works on it.
pub(super) async fn enqueue(database: &Database, runs: u64) -> Result<f64> {
    let client = Client::connect(&database.url()).await?;
    let begin = Instant::now();
    for _ in 0..runs / CALL {
        client.start_many(single::workflow(), (0..CALL).map(|_| ())).await?;
    }
    let took = begin.elapsed();
    let ready = database.ready().await?;
    if ready != runs {
        return Err(format!("{runs} runs were enqueued, but the database has {ready}").into());
    }
    Ok(runs as f64 / took.as_secs_f64())
}

/// Works off as many runs as are wanted on the roll, and says how many in each second.
pub(super) async fn work(database: &Database, roll: &Arc<Roll>, concurrency: usize) -> Result<f64> {
    let runs = roll.wanted();
    let begin = Instant::now();
    let engine = super::engine(&database.url(), concurrency)
        .resource(Arc::clone(roll))
        .workflow(single::workflow())
        .launch()
        .await?;
    roll.full().await;
    database.until_ended(runs).await?;
    let took = begin.elapsed();
    engine.stop().await?;
    Ok(runs as f64 / took.as_secs_f64())
}
