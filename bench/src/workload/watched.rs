//! Chain3 while somebody looks on, beside chain3 without.

use std::time::{Duration, Instant};

use super::{
    Bench,
    chain3::{self, CHAIN, chain},
    mean,
    roll::Roll,
};
use crate::{Result, page::Page, report::Line};

/// How much of what is done while nobody looks must be done while somebody does.
const SHARE: f64 = 0.95;

/// Measures without a page, with one, and without one again.
pub(crate) async fn measure(bench: &Bench<'_>) -> Result<Line> {
    let (before, _) = haul(bench, false, bench.half()).await?;
    let (ours, looks) = haul(bench, true, bench.span()).await?;
    let (after, _) = haul(bench, false, bench.half()).await?;
    if looks == 0 {
        return Err("nobody has looked".into());
    }
    let line = bench
        .line(&format!("of_limit >= {SHARE}"))
        .rates(ours, mean(before, after))
        .also("looks", looks as f64);
    let within = line.of_limit() >= SHARE;
    Ok(line.holds(within))
}

/// Tasks in each second, and how often somebody has looked.
async fn haul(bench: &Bench<'_>, is_watched: bool, span: Duration) -> Result<(f64, u64)> {
    let database = bench.database().await?;
    let engine = super::engine(&database.url(), bench.concurrency()).workflow(chain::workflow());
    let engine = engine.launch().await?;
    let shown = engine.start(chain::workflow(), ()).await?;
    let id = shown.id();
    shown.await?;
    let page = if is_watched { Some(Page::open(&engine, id).await?) } else { None };
    let begin = Instant::now();
    chain3::keep_busy(CHAIN, &engine, bench.concurrency(), span, &Roll::endless()).await?;
    let took = begin.elapsed();
    let looks = page.as_ref().map_or(0, Page::looks);
    drop(page);
    // The one that is shown has ended before.
    let ended = database.ended().await? - 1;
    engine.stop().await?;
    Ok(((ended * CHAIN.tasks as u64) as f64 / took.as_secs_f64(), looks))
}
