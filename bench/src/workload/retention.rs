//! How long a claim takes while millions of old runs are discarded.

use std::time::{Duration, Instant};

use windlass::{Engine, Retention};

use super::{Bench, depth};
use crate::{Result, database::Database, latencies::Latencies, report::Line};

/// Runs that have ended, and whose time is over.
const ENDED: f64 = 5_000_000.0;

/// By how many milliseconds a claim may be delayed.
const DELAYED_MS: f64 = 50.0;

/// How long ago they ended.
const YESTERDAY: Duration = Duration::from_secs(24 * 3600);

/// A run with a delay is claimed when it is due.
const SHORTLY: Duration = Duration::from_millis(1);

/// How soon after its launch an engine begins to discard, and a little more.
const BEGINS: Duration = Duration::from_millis(5_200);

/// Measures claims, one at a time, of an engine that discards nothing and of one that does.
pub(crate) async fn measure(bench: &Bench<'_>) -> Result<Line> {
    let ended = (ENDED * bench.options.scale) as u64;
    let database = bench.database().await?;
    depth::fill(&database, ended, 1, YESTERDAY).await?;
    let mut calm = claims(&database, Retention::forever(), Duration::ZERO, bench.span()).await?;
    let before = database.ended().await?;
    let began = Instant::now();
    let mut busy = claims(&database, Retention::all(Retention::LEAST), BEGINS, bench.span()).await?;
    let took = began.elapsed().saturating_sub(BEGINS).as_secs_f64();
    let gone = (before + busy.len() as u64).saturating_sub(database.ended().await?);
    let most = |times: &mut Latencies| times.percentile_ms(1.0).unwrap_or(f64::NAN);
    let (calm_most, busy_most) = (most(&mut calm), most(&mut busy));
    Ok(bench
        .line("claim_max_ms < claim_max_without_ms + 50, some are discarded")
        .latencies(busy.percentile_ms(0.5), busy.percentile_ms(0.99))
        .also("ended_rows", ended as f64)
        .also("discarded", gone as f64)
        .also("discarded_per_s", gone as f64 / took)
        .also("claim_max_ms", busy_most)
        .also("claim_max_without_ms", calm_most)
        .holds(busy_most < calm_most + DELAYED_MS)
        .holds(gone > 0))
}

/// How long runs take from the end of their delay to their result, after a while.
async fn claims(
    database: &Database,
    retention: Retention,
    after: Duration,
    span: Duration,
) -> Result<Latencies> {
    let engine: Engine = super::engine(&database.url(), 100)
        .retention(retention)
        .workflow(depth::settled::workflow())
        .launch()
        .await?;
    tokio::time::sleep(after).await;
    let (mut times, begin) = (Latencies::default(), Instant::now());
    while times.len() == 0 || begin.elapsed() < span {
        let called = Instant::now();
        engine.start(depth::settled::workflow(), ()).delay(SHORTLY).await?.await?;
        times.push(called.elapsed().saturating_sub(SHORTLY));
    }
    engine.stop().await?;
    Ok(times)
}
