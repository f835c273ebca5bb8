//! One run, one task feeding ten thousand instances of another, one joining them.

use std::time::Instant;

use windlass::prelude::*;

use super::{Bench, mean};
use crate::{Result, commits, latencies::Latencies, limit::Limit, process, report::Line};

/// How many instances.
const WIDTH: u64 = 10_000;

/// Tasks of one run.
const TASKS: u64 = WIDTH + 2;

/// How much memory the work may add to the process. Ten thousand instances are some megabytes of records; what
/// grows with the number of runs would pass this within seconds.
const MEGABYTES: f64 = 200.0;

/// Feed, hand out, join.
#[workflow(output = join)]
pub(crate) mod fan {
    use windlass::prelude::*;

    #[task]
    pub(crate) async fn feed() -> Result<Vec<u32>> {
        Ok((0..super::WIDTH as u32).collect())
    }

    #[task(for_each = feed)]
    pub(crate) async fn each(item: &u32) -> Result<u32> {
        Ok(*item)
    }

    #[task]
    pub(crate) async fn join(each: &[u32]) -> Result<usize> {
        Ok(each.len())
    }
}

/// Measures the limit, ours, and the limit again.
pub(crate) async fn measure(bench: &Bench<'_>) -> Result<Line> {
    let list = serde_json::to_vec(&(0..WIDTH).collect::<Vec<_>>())?;
    let joined = WIDTH.to_string();
    let limit = async || {
        let measure =
            async |limit: Limit| Ok([limit.fanout(WIDTH, &list, joined.as_bytes(), bench.half()).await?]);
        bench.limits(measure).await
    };
    commits::listen()?;
    let [before] = limit().await?;
    let database = bench.database().await?;
    let engine = super::engine(&database.url(), 1_000).workflow(fan::workflow()).launch().await?;
    let (commits_before, memory_before) = (commits::written(), process::peak_megabytes());

    let begin = Instant::now();
    let mut latencies = Latencies::default();
    while latencies.len() == 0 || begin.elapsed() < bench.span() {
        let start = Instant::now();
        let joined = engine.start(fan::workflow(), ()).await?.await?;
        latencies.push(start.elapsed());
        if joined as u64 != WIDTH {
            return Err(format!("{joined} instances were joined, not {WIDTH}").into());
        }
    }
    let took = begin.elapsed();

    let (commits, runs) = (commits::written() - commits_before, latencies.len() as u64);
    let grown = process::peak_megabytes().zip(memory_before).map(|(now, before)| now - before);
    database.until_ended(runs).await?;
    engine.stop().await?;
    let tasks = (runs * TASKS) as f64;
    let bytes = database.bytes().await? as f64;
    drop(database);
    let [after] = limit().await?;
    let line = bench
        .line("of_limit >= 0.3, memory_mb < 200")
        .rates(tasks / took.as_secs_f64(), mean(before, after))
        .latencies(latencies.percentile_ms(0.5), latencies.percentile_ms(0.99))
        .costs(Some(commits as f64 / tasks), Some(bytes / tasks));
    let within = line.of_limit() >= 0.3;
    let line = match grown {
        Some(grown) => line.also("memory_mb", grown).holds(grown < MEGABYTES),
        None => line,
    };
    Ok(line.holds(within))
}
