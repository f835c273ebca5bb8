//! Chain3 beside millions of rows that are not its own.

use std::time::Duration;

use windlass::prelude::*;

use super::{Bench, chain3, mean, roll::Roll};
use crate::{Result, database::Database, multiply::multiply, report::Line};

/// Runs that have ended.
const ENDED: f64 = 5_000_000.0;

/// Runs that wait for a time that does not come.
const DELAYED: f64 = 1_000_000.0;

/// Longer than any measurement.
const DELAY: Duration = Duration::from_secs(30 * 24 * 3600);

/// One task that does nothing.
#[workflow]
pub(crate) mod settled {
    use windlass::prelude::*;

    #[task]
    pub(crate) async fn only() -> Result<()> {
        Ok(())
    }
}

/// Measures chain3 on empty tables, on deep ones, and on empty ones again. The limit is the empty one.
pub(crate) async fn measure(bench: &Bench<'_>) -> Result<Line> {
    let (ended, delayed) = ((ENDED * bench.options.scale) as u64, (DELAYED * bench.options.scale) as u64);
    let empty = async || -> Result<f64> {
        let database = bench.database().await?;
        Ok(chain3::work(chain3::CHAIN, &database, bench.concurrency(), bench.half(), &Roll::endless())
            .await?
            .tasks_per_s)
    };
    let deep = bench.database().await?;
    fill(&deep, ended, delayed, Duration::ZERO).await?;
    let before = empty().await?;
    let mut ours =
        chain3::work(chain3::CHAIN, &deep, bench.concurrency(), bench.span(), &Roll::endless()).await?;
    let line = bench
        .line("of_limit >= 0.85")
        .rates(ours.tasks_per_s, mean(before, empty().await?))
        .latencies(ours.latencies.percentile_ms(0.5), ours.latencies.percentile_ms(0.99))
        .costs(Some(ours.commits_per_task), Some(ours.bytes_per_task))
        .also("ended_rows", ended as f64)
        .also("delayed_rows", delayed as f64);
    let within = line.of_limit() >= 0.85;
    Ok(line.holds(within))
}

/// Lets one run end and another wait, and multiplies both. What has ended did so that long ago.
pub(super) async fn fill(database: &Database, ended: u64, delayed: u64, age: Duration) -> Result<()> {
    let engine = super::engine(&database.url(), 1).workflow(settled::workflow()).launch().await?;
    let done = engine.start(settled::workflow(), ()).await?;
    let done_id = done.id();
    done.await?;
    let waiting_id = engine.start(settled::workflow(), ()).delay(DELAY).await?.id();
    engine.stop().await?;
    database.age(age).await?;
    multiply(database, *done_id.as_bytes(), ended.saturating_sub(1), age).await?;
    multiply(database, *waiting_id.as_bytes(), delayed.saturating_sub(1), Duration::ZERO).await?;
    let (have_ended, have_waiting) = (database.ended().await?, database.waiting().await?);
    if (have_ended, have_waiting) != (ended.max(1), delayed.max(1)) {
        return Err(format!("the tables hold {have_ended} ended and {have_waiting} waiting runs").into());
    }
    Ok(())
}
