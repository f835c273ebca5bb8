//! A thousand schedules: due at one instant, one of them due by itself, and all of them with nothing to do.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use windlass::{Client, Time, prelude::*};

use super::{Bench, idle, roll::Roll};
use crate::{Result, clock, latencies::Latencies, report::Line};

/// How many schedules there are.
const SCHEDULES: f64 = 1_000.0;

/// How long it may take until the last of those has fired that are due together.
const SECONDS: f64 = 1.0;

/// How late one may be that is due by itself, in milliseconds, and how often that is measured.
const LATE_MS: f64 = 50.0;
const TIMES: u64 = 50;
const PERIOD: Duration = Duration::from_millis(100);

/// How many statements a process may execute in a second that has nothing to do.
const STATEMENTS: f64 = 1.0;

/// How long after the last declaration they are due.
const SOON: Duration = Duration::from_secs(2);

/// How long one declaration may take.
const DECLARED: Duration = Duration::from_millis(15);

/// How long to wait for the last of them.
const PATIENCE: Duration = Duration::from_secs(60);

/// How late each run began.
#[derive(Default)]
struct Lateness(Mutex<Latencies>);

/// Answers the roll, and says how late it is.
#[flow]
async fn tick(cx: &Flow, _input: (), roll: Res<Arc<Roll>>, late: Res<Arc<Lateness>>) -> Result<(), Failure> {
    let planned = cx.fired().map_or(Time(0), |fired| fired.scheduled_at);
    let (roll, late) = (&roll, &late);
    cx.step("answer", || async {
        let now = Time((clock::now() / 1_000) as i64);
        if let Ok(mut late) = late.0.lock() {
            late.push(now.since(planned));
        }
        roll.answer();
        Ok::<_, Failure>(())
    })
    .await
}

pub(crate) async fn measure(bench: &Bench<'_>) -> Result<Line> {
    let schedules = (SCHEDULES * bench.options.scale).ceil() as u64;
    let fired = together(bench, schedules).await?;
    let (middle, latest) = alone(bench).await?;
    let idle = idle::rate(bench, schedules, async |client| declare_idle(client, schedules).await).await?;
    let line = bench.line("fired_s <= 1, late_p99_ms < 50, statements_per_s < 1");
    let line = line.also("schedules", schedules as f64).also("fired_s", fired);
    let line = line.also("late_p50_ms", middle).also("late_p99_ms", latest).also("statements_per_s", idle);
    Ok(line.holds(fired <= SECONDS && latest < LATE_MS && idle < STATEMENTS))
}

/// How long it takes until the last of many has fired that are due at one instant.
async fn together(bench: &Bench<'_>, schedules: u64) -> Result<f64> {
    let database = bench.database().await?;
    let (roll, late) = (Roll::new(schedules), Arc::<Lateness>::default());
    let engine = super::engine(&database.url(), bench.concurrency())
        .resource(Arc::clone(&roll))
        .resource(late)
        .workflow(tick::workflow())
        .launch()
        .await?;
    // Declared without a time first: that takes as long as it takes.
    for number in 0..schedules {
        engine.schedule(&format!("s{number}")).manual().workflow(tick::workflow(), ()).await?;
    }
    let due = clock::now() + (SOON + DECLARED * schedules as u32).as_nanos() as u64;
    let at = Time((due / 1_000) as i64);
    for number in 0..schedules {
        engine.schedule(&format!("s{number}")).at(at).workflow(tick::workflow(), ()).await?;
    }
    let to_go = clock::between(clock::now(), due).map_err(|_| "they were due before all were declared")?;
    tokio::time::timeout(to_go + PATIENCE, roll.full())
        .await
        .map_err(|_| format!("{} of {schedules} schedules have fired", roll.present()))?;
    let fired = clock::between(due, clock::now())?.as_secs_f64();
    engine.stop().await?;
    if roll.present() != schedules {
        return Err(format!("{schedules} schedules fired {} times", roll.present()).into());
    }
    Ok(fired)
}

/// How late a schedule is that is due by itself, in the middle and nearly at worst.
async fn alone(bench: &Bench<'_>) -> Result<(f64, f64)> {
    let database = bench.database().await?;
    let (roll, late) = (Roll::new(TIMES), Arc::<Lateness>::default());
    let engine = super::engine(&database.url(), bench.concurrency())
        .resource(Arc::clone(&roll))
        .resource(Arc::clone(&late))
        .workflow(tick::workflow())
        .launch()
        .await?;
    engine.schedule("tick").every(PERIOD).count(TIMES).workflow(tick::workflow(), ()).await?;
    tokio::time::timeout(PATIENCE, roll.full()).await.map_err(|_| "a schedule stopped firing")?;
    engine.stop().await?;
    let mut late = late.0.lock().map_err(|_| "a run panicked")?;
    let percentiles = (late.percentile_ms(0.5), late.percentile_ms(0.99));
    let (Some(middle), Some(latest)) = percentiles else { return Err("nothing was measured".into()) };
    Ok((middle, latest))
}

async fn declare_idle(client: &Client, schedules: u64) -> Result<()> {
    for number in 0..schedules {
        let yearly = client.schedule(&format!("s{number}")).cron("0 0 29 2 *");
        yearly.workflow(idle::parked::workflow(), ()).await?;
    }
    Ok(())
}
