//! How much memory a durable function of small steps takes while it runs.

use std::{future::pending, sync::Arc};

use windlass::prelude::*;

use super::{
    Bench,
    steps::{TEN, do_nothing},
    wake::Bell,
};
use crate::{
    Result,
    other::{self, Other},
    process,
    report::Line,
};

/// The part of the process that holds the functions.
pub(crate) const HOLDER: &str = "holder";

/// How much memory one of them may take.
const BYTES: f64 = 10_000.0;

const MEGABYTE: f64 = 1_048_576.0;

/// Does ten steps, and stays in the next.
#[flow]
async fn busy(cx: &Flow, bell: Res<Arc<Bell>>) -> Result<(), Failure> {
    do_nothing(cx, TEN).await?;
    let bell = &bell;
    let stay = || async {
        bell.ring();
        pending::<Result<(), Failure>>().await
    };
    cx.step("stay", stay).await
}

/// Lets a process of its own hold the functions: what others gave back there would be taken again.
pub(crate) async fn measure(bench: &Bench<'_>) -> Result<Line> {
    let runs = bench.concurrency() as u64;
    let database = bench.database().await?;
    let mut holder = Other::start(&format!("{HOLDER} {runs} {}", database.url()))?;
    let bytes: f64 = holder.hear().await?.parse()?;
    let held = database.held().await?;
    if held != runs {
        return Err(format!("{held} runs are held, not {runs}").into());
    }
    holder.leave().await?;
    let line = bench.line("bytes_per_run < 10000");
    Ok(if bytes == 0.0 { line } else { line.also("bytes_per_run", bytes).holds(bytes < BYTES) })
}

/// The other side: says by how much each function of the second half made it grow. The first half fills what there is
/// once, however many follow. What the system does not tell is zero.
pub(crate) async fn play(order: &str) -> Result<()> {
    let [runs, url] = super::words(order)?;
    let runs: usize = runs.parse()?;
    let (bell, mut rung) = Bell::new();
    let engine = super::engine(url, runs).resource(bell).workflow(busy::workflow()).launch().await?;
    let mut weights = Vec::new();
    for half in [runs / 2, runs - runs / 2] {
        engine.start_many(busy::workflow(), (0..half).map(|_| ())).await?;
        for _ in 0..half {
            rung.recv().await.ok_or("the engine is gone")?;
        }
        weights.push(process::megabytes().unwrap_or_default());
    }
    println!("{}", (weights[1] - weights[0]) * MEGABYTE / (runs - runs / 2) as f64);
    while other::word().await?.is_some() {}
    Ok(engine.stop().await?)
}
