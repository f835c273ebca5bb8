//! One run of three tasks at a time, from start to awaited result.

use std::time::{Duration, Instant};

use super::{Bench, chain3::chain};
use crate::{Result, commits, latencies::Latencies, report::Line};

/// A start and three steps, each durable before the next begins.
const COMMITS: f64 = 4.0;

/// How much longer than its commits a run may take.
const FACTOR: f64 = 1.5;

/// Commits and runs take turns of this length, and are compared turn by turn: how long a disk takes to write
/// differs from one second to the next by more than what is measured here.
const TURN: Duration = Duration::from_millis(100);

/// Measures commits and runs in turns.
pub(crate) async fn measure(bench: &Bench<'_>) -> Result<Line> {
    commits::listen()?;
    let limit = bench.limit(1).await?;
    let database = bench.database().await?;
    let engine = super::engine(&database.url(), 1_000).workflow(chain::workflow()).launch().await?;
    let bytes_before = database.bytes().await?;
    let mut single = Latencies::default();
    let mut runs = Latencies::default();
    let mut ratios = Vec::new();
    let mut written = 0;
    let begin = Instant::now();
    while runs.len() == 0 || begin.elapsed() < bench.span() {
        let mut commits_now = limit.commits(TURN).await?;
        let mut runs_now = Latencies::default();
        let (turn, before) = (Instant::now(), commits::written());
        while turn.elapsed() < TURN {
            let start = Instant::now();
            engine.start(chain::workflow(), ()).await?.await?;
            runs_now.push(start.elapsed());
        }
        written += commits::written() - before;
        let middles = commits_now.percentile_ms(0.5).zip(runs_now.percentile_ms(0.5));
        ratios.extend(middles.map(|(commit, run)| COMMITS * commit / run));
        single.append(commits_now);
        runs.append(runs_now);
    }
    let ended = database.ended().await?;
    if ended != runs.len() as u64 {
        let awaited = runs.len();
        return Err(format!("{awaited} results were awaited, but the database has {ended} ended runs").into());
    }
    engine.stop().await?;

    let tasks = (ended * 3) as f64;
    let bytes = database.bytes().await?.saturating_sub(bytes_before) as f64;
    ratios.sort_by(f64::total_cmp);
    let ratio = ratios.get(ratios.len() / 2).copied().ok_or("no commit was measured")?;
    Ok(bench
        .line("p50_ms <= 1.5 x 4 commits")
        .times(1.0, ratio)
        .latencies(runs.percentile_ms(0.5), runs.percentile_ms(0.99))
        .costs(Some(written as f64 / tasks), Some(bytes / tasks))
        .also("commit_p50_ms", single.percentile_ms(0.5).unwrap_or(f64::NAN))
        .holds(FACTOR * ratio >= 1.0))
}
