//! What the tests of schedules share.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use windlass::{
    EngineBuilder,
    prelude::*,
    schedule::{Fired, Happening},
};

/// What the runs of `job` saw.
#[derive(Clone, Default)]
pub struct Diary(Arc<Mutex<Vec<Fired>>>);

/// What a run of `job` does.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub struct Plan {
    /// How many seconds it takes.
    pub takes: u64,
    /// Whether it fails.
    pub fails: bool,
}

/// A run that takes so many seconds.
pub fn takes(seconds: u64) -> Plan {
    Plan { takes: seconds, fails: false }
}

/// A run that fails after so many seconds.
pub fn fails_after(seconds: u64) -> Plan {
    Plan { takes: seconds, fails: true }
}

#[workflow]
pub mod job {
    use super::*;

    #[task(retry(attempts = 1))]
    pub async fn work(input: Plan, cx: &Cx, diary: Res<Diary>) -> Result<String> {
        let fired = cx.fired().cloned();
        diary.0.lock().extend(fired);
        tokio::time::sleep(secs(input.takes)).await;
        if input.fails { Err(Failure::permanent("out of paper")) } else { Ok("done".to_owned()) }
    }
}

pub fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub fn mins(minutes: u64) -> Duration {
    secs(60 * minutes)
}

pub fn hours(hours: u64) -> Duration {
    mins(60 * hours)
}

impl Diary {
    /// The times that runs were started for and the times at which they were, shortly.
    pub fn fires(&self) -> Vec<String> {
        let shown = |fired: &Fired| {
            let (planned, real) = (short(fired.scheduled_at), short(fired.fired_at));
            if planned == real { real } else { format!("{planned} at {real}") }
        };
        self.0.lock().iter().map(shown).collect()
    }

    pub fn entries(&self) -> Vec<Fired> {
        self.0.lock().clone()
    }
}

/// An engine that has `job`.
pub fn with_job(engine: EngineBuilder, diary: &Diary) -> EngineBuilder {
    engine.resource(diary.clone()).workflow(job::workflow())
}

/// An instant on the laboratory's first day, shortly: `02:00` or `02:00:30`.
pub fn short(time: windlass::Time) -> String {
    let text = time.to_string();
    let text = text.strip_prefix("2026-01-01T").unwrap_or(&text).trim_end_matches('Z');
    text.strip_suffix(":00").filter(|text| text.contains(':')).unwrap_or(text).to_owned()
}

/// What happened, one line each.
pub fn told(history: &[Happening]) -> Vec<String> {
    history.iter().map(|happening| format!("{} {}", short(happening.at), happening.what)).collect()
}

/// What a program would have to say to get hold of the engine's own runs.
pub fn the_engines_own(workflow: &str) -> Result<Workflow<serde_json::Value, serde_json::Value>> {
    Ok(Workflow::builder(workflow).task(Task::new("keep", |_| async { Ok::<_, Failure>(1) })).build()?)
}
