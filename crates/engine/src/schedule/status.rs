//! How a schedule stands, for people and programs.

use serde::Serialize;
use windlass_core::{
    Time,
    schedule::{LastRun, Status},
};

use super::schedules::View;

/// How a schedule stands.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ScheduleStatus {
    /// Its name.
    pub name: String,
    /// The workflow whose runs it starts.
    pub workflow: String,
    /// When it starts them, in words.
    pub words: String,
    /// What it does, in a word.
    pub status: Status,
    /// Why it was paused, if it is.
    pub paused: Option<String>,
    /// How many runs it has started, whoever asked for them.
    pub runs: u64,
    /// The keys of its runs that have not ended.
    pub running: Vec<String>,
    /// The last run that was started.
    pub last_run: Option<LastRun>,
    /// When the next is started, if it is known: not while it is paused or has stopped.
    pub next_run: Option<Time>,
    /// Why it could not do what it was to do when it last tried, if it could not: a codec that failed, a message of a newer
    /// program. It tries again by itself, within five minutes.
    pub trouble: Option<String>,
}

impl ScheduleStatus {
    pub(super) fn of(view: &View) -> Self {
        let (schedule, state) = (&view.ledger.declaration.schedule, &view.ledger.state);
        Self {
            name: schedule.name().to_owned(),
            workflow: schedule.workflow().to_owned(),
            words: schedule.in_words(),
            status: state.status(),
            paused: state.paused().map(str::to_owned),
            runs: state.runs(),
            running: state.running(schedule),
            last_run: state.last_run().cloned(),
            next_run: state.wake().map(|at| at.max(view.now)),
            trouble: view.trouble.clone(),
        }
    }
}
