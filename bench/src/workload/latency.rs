//! One run of three tasks at a time, from start to awaited result.

use super::{Bench, chain3, mean};
use crate::{Result, database::Database, limit, report::Line};

/// A start and three steps, each durable before the next begins.
const COMMITS: f64 = 4.0;

/// How much longer than its commits a run may take.
const FACTOR: f64 = 1.5;

/// Measures a commit, ours, and a commit again.
pub(crate) async fn measure(bench: &Bench<'_>) -> Result<Line> {
    let commit = || -> Result<f64> {
        let mut commits = limit::Sqlite::open(bench.ground)?.commits(bench.half())?;
        commits.percentile_ms(0.5).ok_or_else(|| "no commit was measured".into())
    };
    let before = commit()?;
    let database = Database::new(bench.ground)?;
    let mut ours = chain3::work(&database, bench.concurrency(), bench.span()).await?;
    let limit = COMMITS * mean(before, commit()?);
    let p50 = ours.latencies.percentile_ms(0.5).ok_or("no run ended in the time given")?;
    Ok(bench
        .line("p50_ms <= 1.5 x 4 commits")
        .times(p50, limit)
        .latencies(Some(p50), ours.latencies.percentile_ms(0.99))
        .costs(Some(ours.commits_per_task), Some(ours.bytes_per_task))
        .also("commit_p50_ms", limit / COMMITS)
        .holds(p50 <= FACTOR * limit))
}
