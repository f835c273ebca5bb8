//! A parked durable function with ten thousand recorded steps gets an event, and goes on.

use std::time::{Duration, Instant};

use windlass::prelude::*;

use super::{Bench, steps::do_nothing};
use crate::{Result, clock, report::Line};

/// How many steps are recorded.
const STEPS: f64 = 10_000.0;

/// How long it may take to go on: the event is committed, the run is claimed, its records are read, the function is run
/// from its top, and the event is recorded as received.
const MILLISECONDS: f64 = 100.0;

/// How long a function waits before it is parked.
const PARK_AFTER: Duration = Duration::from_millis(200);

const GO: Event<()> = Event::new("go");

/// Steps one after the other.
#[flow]
async fn in_a_row(cx: &Flow, steps: usize) -> Result<u64, Failure> {
    do_nothing(cx, steps).await?;
    go_on(cx).await
}

/// Steps all at once.
#[flow]
async fn at_once(cx: &Flow, steps: usize) -> Result<u64, Failure> {
    cx.map(0..steps, steps, |_| cx.step("step", || async { Ok::<_, Failure>(()) })).await?;
    go_on(cx).await
}

/// Says when the function went on.
async fn go_on(cx: &Flow) -> Result<u64, Failure> {
    cx.event(GO).await?;
    cx.step("look", || async { Ok::<_, Failure>(clock::now()) }).await
}

/// Measures steps in a row, and steps all at once.
pub(crate) async fn measure(bench: &Bench<'_>) -> Result<Line> {
    let steps = (STEPS * bench.options.scale).ceil() as usize;
    let database = bench.database().await?;
    let engine = super::engine(&database.url(), 1_000)
        .park_after(PARK_AFTER)
        .workflow(in_a_row::workflow())
        .workflow(at_once::workflow())
        .launch()
        .await?;
    let mut line = bench.line("resumed_ms < 100, resumed_at_once_ms < 100").also("steps", steps as f64);
    for (name, workflow) in [("", in_a_row::workflow()), ("_at_once", at_once::workflow())] {
        let begin = Instant::now();
        let run = engine.start(workflow, steps).await?;
        database.until_waiting(1).await?;
        let recorded = begin.elapsed().as_secs_f64();
        let calls = run.status().await?.calls.len();
        if calls != steps {
            return Err(format!("{calls} steps are recorded, not {steps}").into());
        }
        let called = clock::now();
        run.send(GO, &()).await?;
        let resumed = clock::between(called, run.await?)?.as_secs_f64() * 1e3;
        line = line
            .also(&format!("recorded{name}_s"), recorded)
            .also(&format!("resumed{name}_ms"), resumed)
            .holds(resumed < MILLISECONDS);
    }
    engine.stop().await?;
    Ok(line)
}
