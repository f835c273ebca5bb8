//! Ten thousand parked durable functions that are due at one instant.

use std::{sync::Arc, time::Duration};

use windlass::{Time, prelude::*};

use super::{Bench, roll::Roll};
use crate::{Result, clock, report::Line};

/// How many functions sleep.
const RUNS: f64 = 10_000.0;

/// How long it may take until the last of them goes on.
const SECONDS: f64 = 2.0;

/// How many runs one call of `start_many` carries.
const CALL: u64 = 10_000;

/// How long a function sleeps before it is parked, and until when all are: so long, and so much more for each.
const PARK_AFTER: Duration = Duration::from_millis(200);
const PARKED: Duration = Duration::from_secs(4);
const PARKED_EACH: Duration = Duration::from_millis(1);

/// How long to wait for the last of them.
const PATIENCE: Duration = Duration::from_secs(120);

/// Sleeps until a time, and answers the roll.
#[flow]
async fn sleeper(cx: &Flow, until: Time, roll: Res<Arc<Roll>>) -> Result<(), Failure> {
    cx.sleep_until(until).await?;
    let roll = &roll;
    cx.step("answer", || async {
        roll.answer();
        Ok::<_, Failure>(())
    })
    .await
}

/// Parks the functions, waits for their time, and then for the last of them.
pub(crate) async fn measure(bench: &Bench<'_>) -> Result<Line> {
    let runs = (RUNS * bench.options.scale).ceil() as u64;
    let database = bench.database().await?;
    let roll = Roll::new(runs);
    let engine = super::engine(&database.url(), bench.concurrency())
        .park_after(PARK_AFTER)
        .resource(Arc::clone(&roll))
        .workflow(sleeper::workflow())
        .launch()
        .await?;
    let due = clock::now() + (PARKED + PARKED_EACH * runs as u32).as_nanos() as u64;
    let mut left = runs;
    while left > 0 {
        let call = left.min(CALL);
        engine.start_many(sleeper::workflow(), (0..call).map(|_| Time((due / 1_000) as i64))).await?;
        left -= call;
    }
    database.until_waiting(runs).await?;
    let to_go =
        clock::between(clock::now(), due).map_err(|_| "the functions were due before all were parked")?;

    tokio::time::timeout(to_go + PATIENCE, roll.full())
        .await
        .map_err(|_| format!("{} of {runs} functions went on", roll.present()))?;
    let resumed = clock::between(due, clock::now())?.as_secs_f64();
    database.until_ended(runs).await?;
    let ended = clock::between(due, clock::now())?.as_secs_f64();
    engine.stop().await?;
    let answers = roll.present();
    if answers != runs {
        return Err(format!("{runs} functions went on {answers} times").into());
    }
    let line = bench.line("resumed_s <= 2").also("parked", runs as f64);
    Ok(line.also("resumed_s", resumed).also("ended_s", ended).holds(resumed <= SECONDS))
}
