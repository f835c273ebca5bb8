//! Items that are gathered into runs: one by one from many callers, all at once, and how soon a full batch begins.

use std::time::Duration;

use tokio::{sync::mpsc, task::JoinSet, time::Instant};
use windlass::{Client, prelude::*};

use super::Bench;
use crate::{Result, latencies::Latencies, report::Line};

/// How many items there are, and how many of them one run gets.
const ITEMS: f64 = 10_000.0;
const SIZE: usize = 100;

/// How many callers add them one by one.
const CALLERS: u32 = 64;

/// How soon after its last item a batch may begin, in milliseconds, how often that is measured, and with how many items.
const SOON_MS: f64 = 50.0;
const TIMES: u32 = 50;
const FEW: usize = 10;

/// How long an item may wait for others: longer than anything that is measured.
const AGE: Duration = Duration::from_secs(600);

/// How long to wait for the last of them.
const PATIENCE: Duration = Duration::from_secs(120);

/// Where runs say what they got, and when they began.
struct Report(mpsc::UnboundedSender<(Instant, Vec<u32>)>);

#[workflow]
mod gather {
    use super::*;

    #[task]
    pub async fn note(input: Vec<u32>, report: Res<Report>) -> Result<usize, Failure> {
        let items = input.len();
        report.0.send((Instant::now(), input)).map_err(Failure::permanent)?;
        Ok(items)
    }
}

pub(crate) async fn measure(bench: &Bench<'_>) -> Result<Line> {
    let items = (ITEMS * bench.options.scale).ceil() as u32;
    let singly = throughput(bench, items, one_by_one).await?;
    let together = throughput(bench, items, at_once).await?;
    let (middle, latest) = delay(bench).await?;
    let line = bench.line("start_p99_ms < 50");
    let line = line.also("items", f64::from(items)).also("items_per_s", singly);
    let line = line.also("bulk_items_per_s", together);
    let line = line.also("start_p50_ms", middle).also("start_p99_ms", latest);
    Ok(line.holds(latest < SOON_MS))
}

/// How many items pass in a second, from the first call to the run that gets the last of them.
async fn throughput(
    bench: &Bench<'_>,
    items: u32,
    add: impl AsyncFn(Client, u32) -> Result<()>,
) -> Result<f64> {
    let database = bench.database().await?;
    let (sender, mut reports) = mpsc::unbounded_channel();
    let engine = super::engine(&database.url(), bench.concurrency())
        .resource(Report(sender))
        .workflow(gather::workflow())
        .launch()
        .await?;
    engine.batch("gather", gather::workflow()).size(SIZE).age(AGE).await?;
    let client: &Client = &engine;
    let begun = Instant::now();
    add(client.clone(), items).await?;
    engine.batches().get::<u32>("gather").await?.flush().await?;
    let mut found = Vec::new();
    while found.len() < items as usize {
        let report = tokio::time::timeout(PATIENCE, reports.recv()).await;
        let (_, got) =
            report.map_err(|_| format!("{} of {items} items came", found.len()))?.ok_or("stopped")?;
        found.extend(got);
    }
    let took = begun.elapsed().as_secs_f64();
    engine.stop().await?;
    found.sort_unstable();
    if found != (0..items).collect::<Vec<_>>() {
        return Err("an item was not in exactly one run".into());
    }
    Ok(f64::from(items) / took)
}

async fn one_by_one(client: Client, items: u32) -> Result<()> {
    let batch = client.batches().get("gather").await?;
    let mut callers = JoinSet::new();
    for first in 0..CALLERS {
        let batch = batch.clone();
        callers.spawn(async move {
            for item in (first..items).step_by(CALLERS as usize) {
                batch.add(item).await?;
            }
            Ok::<_, windlass::Error>(())
        });
    }
    while let Some(added) = callers.join_next().await {
        added??;
    }
    Ok(())
}

async fn at_once(client: Client, items: u32) -> Result<()> {
    client.batches().get("gather").await?.add_many(0..items).await?;
    Ok(())
}

/// How soon a run begins after the last item that it needs was acknowledged, in the middle and nearly at worst.
async fn delay(bench: &Bench<'_>) -> Result<(f64, f64)> {
    let database = bench.database().await?;
    let (sender, mut reports) = mpsc::unbounded_channel();
    let engine = super::engine(&database.url(), bench.concurrency())
        .resource(Report(sender))
        .workflow(gather::workflow())
        .launch()
        .await?;
    engine.batch("gather", gather::workflow()).size(FEW).age(AGE).await?;
    let batch = engine.batches().get("gather").await?;
    let mut delays = Latencies::with_room();
    for _ in 0..TIMES {
        for item in 0..FEW as u32 {
            batch.add(item).await?;
        }
        let acknowledged = Instant::now();
        let report = tokio::time::timeout(PATIENCE, reports.recv()).await.map_err(|_| "no run began")?;
        let (began, _) = report.ok_or("stopped")?;
        delays.push(began.saturating_duration_since(acknowledged));
    }
    engine.stop().await?;
    let percentiles = (delays.percentile_ms(0.5), delays.percentile_ms(0.99));
    let (Some(middle), Some(latest)) = percentiles else { return Err("nothing was measured".into()) };
    Ok((middle, latest))
}
