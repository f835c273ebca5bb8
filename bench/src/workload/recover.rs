//! A process that holds ten thousand runs is killed while another is up.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use windlass::{EngineBuilder, prelude::*};

use super::{Bench, roll::Roll};
use crate::{
    Result,
    options::Store,
    other::{self, Other},
    report::Line,
};

/// The part of the process that is killed.
pub(crate) const VICTIM: &str = "victim";

/// What the victim says when it holds everything.
const HOLDING: &str = "holding";

/// How long the other process may take once it can know: on SQLite at once, on PostgreSQL when the lease has lapsed.
const SECONDS: f64 = 2.0;

/// A lease is this many measurements long: with ten seconds for each, it is the default of an engine.
const LEASE: f64 = 3.0;

/// The shortest lease.
const SHORTEST: f64 = 1.5;

/// Heartbeats within a lease, as by default.
const HEARTBEATS: u32 = 6;

/// How long to wait before giving the measurement up.
const PATIENCE: Duration = Duration::from_secs(120);

/// One task that never ends by itself.
#[workflow]
pub(crate) mod endless {
    use std::{future::pending, sync::Arc};

    use windlass::prelude::*;

    use crate::workload::roll::Roll;

    #[task]
    pub(crate) async fn stay(roll: Res<Arc<Roll>>) -> Result<()> {
        roll.answer();
        pending().await
    }
}

/// Starts the victim and the survivor, kills the one, and waits for the other.
pub(crate) async fn measure(bench: &Bench<'_>) -> Result<Line> {
    let runs = bench.concurrency() as u64;
    let database = bench.database().await?;
    let lease = Duration::from_secs_f64((LEASE * bench.options.seconds).max(SHORTEST));
    let mut victim = Other::start(&format!("{VICTIM} {runs} {} {}", lease.as_secs_f64(), database.url()))?;
    victim.expect(HOLDING).await?;

    let roll = Roll::new(runs);
    let engine = engine(&database.url(), bench.concurrency(), lease)
        .resource(Arc::clone(&roll))
        .workflow(endless::workflow())
        .launch()
        .await?;
    let early = roll.present();
    if early != 0 {
        return Err(format!("{early} runs changed hands before their process was killed").into());
    }
    let begin = Instant::now();
    victim.kill().await?;
    tokio::time::timeout(PATIENCE, roll.full()).await.map_err(|_| {
        let present = roll.present();
        format!("after {} s only {present} of {runs} runs go on", PATIENCE.as_secs())
    })?;
    let took = begin.elapsed().as_secs_f64();
    let held = database.held().await?;
    if held != runs {
        return Err(format!("{runs} runs go on, but the database has {held} of them held").into());
    }
    engine.stop().await?;
    let line = match bench.store {
        Store::Sqlite => bench.line("recovered_s <= 2").holds(took <= SECONDS),
        Store::Postgres => bench
            .line("recovered_s <= stale_after_s + 2")
            .also("stale_after_s", lease.as_secs_f64())
            .holds(took <= lease.as_secs_f64() + SECONDS),
    };
    Ok(line.also("recovered_s", took).also("runs", runs as f64))
}

fn engine(url: &str, runs: usize, lease: Duration) -> EngineBuilder {
    super::engine(url, runs).stale_after(lease).heartbeat(lease / HEARTBEATS)
}

/// The other side: takes the runs, says so, and waits for its end.
pub(crate) async fn be_killed(order: &str) -> Result<()> {
    let [runs, lease, url] = super::words(order)?;
    let (runs, lease): (u64, _) = (runs.parse()?, Duration::from_secs_f64(lease.parse()?));
    let roll = Roll::new(runs);
    let engine = engine(url, runs as usize, lease)
        .resource(Arc::clone(&roll))
        .workflow(endless::workflow())
        .launch()
        .await?;
    engine.start_many(endless::workflow(), (0..runs).map(|_| ())).await?;
    roll.full().await;
    println!("{HOLDING}");
    // Whoever started this process kills it. Should that one die first, its end of the pipe closes.
    other::word().await?;
    Err("nobody is left to kill this process".into())
}
