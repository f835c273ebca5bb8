//! The measurements that Windlass takes, through the `metrics` facade.
//!
//! | name | kind | labels | what it counts |
//! |---|---|---|---|
//! | `windlass_commits_total` | counter | | transactions written |
//! | `windlass_records_total` | counter | | units written |
//! | `windlass_runs_started_total` | counter | `workflow` | runs that this process started |
//! | `windlass_runs_ended_total` | counter | `workflow`, `state` | runs that ended here |
//! | `windlass_attempts_total` | counter | `workflow`, `task`, `outcome` | attempts that ended here |
//! | `windlass_attempt_seconds` | histogram | `workflow`, `task` | how long attempts took |
//! | `windlass_runs_held` | gauge | | runs that this node holds |
//! | `windlass_runs_claimed_total` | counter | | runs taken from the store |
//! | `windlass_runs_recovered_total` | counter | | runs taken over from dead nodes |
//! | `windlass_attempts_overdue` | gauge | | attempts past their limit that cannot be stopped |
//! | `windlass_fenced_total` | counter | | times this process lost its identity |

use std::{sync::Arc, time::Duration};

use metrics::{Counter, Gauge, Histogram, SharedString, counter, gauge, histogram};
use windlass_core::{Definition, RunState, TaskIx};

use crate::credit::Credit;

/// What is counted for every commit.
pub(crate) struct CommitMeter {
    commits: Counter,
    records: Counter,
}

impl CommitMeter {
    pub(crate) fn new() -> Self {
        Self { commits: counter!("windlass_commits_total"), records: counter!("windlass_records_total") }
    }

    pub(crate) fn committed(&self, units: usize) {
        self.commits.increment(1);
        self.records.increment(units as u64);
    }
}

/// A run that a client started, which knows the workflow by name only.
pub(crate) fn run_started(workflow: &Arc<str>) {
    let workflow = SharedString::from_shared(Arc::clone(workflow));
    counter!("windlass_runs_started_total", "workflow" => workflow).increment(1);
}

pub(crate) fn runs_held() -> Gauge {
    gauge!("windlass_runs_held")
}

/// What is counted for the runs and tasks of one workflow, looked up once.
pub(crate) struct Meters {
    started: Counter,
    ended: [(RunState, Counter); 4],
    tasks: Vec<TaskMeter>,
}

/// What is counted for the attempts of one task.
pub(crate) struct TaskMeter {
    completed: Counter,
    failed: Counter,
    seconds: Histogram,
    /// Whether its code lets go of its thread.
    pub(crate) credit: Credit,
}

impl Meters {
    pub(crate) fn new(definition: &Definition) -> Self {
        let workflow = || SharedString::from_shared(definition.name.clone());
        let ended = |state, name: &'static str| {
            (state, counter!("windlass_runs_ended_total", "workflow" => workflow(), "state" => name))
        };
        let task = |name: &Arc<str>| {
            let task = || SharedString::from_shared(name.clone());
            let attempts = |outcome: &'static str| counter!("windlass_attempts_total", "workflow" => workflow(), "task" => task(), "outcome" => outcome);
            TaskMeter {
                completed: attempts("completed"),
                failed: attempts("failed"),
                seconds: histogram!("windlass_attempt_seconds", "workflow" => workflow(), "task" => task()),
                credit: Credit::default(),
            }
        };
        Self {
            started: counter!("windlass_runs_started_total", "workflow" => workflow()),
            ended: [
                ended(RunState::Completed, "completed"),
                ended(RunState::Failed, "failed"),
                ended(RunState::Cancelled, "cancelled"),
                ended(RunState::Abandoned, "abandoned"),
            ],
            tasks: definition.tasks.iter().map(|found| task(&found.name)).collect(),
        }
    }

    pub(crate) fn started(&self) {
        self.started.increment(1);
    }

    pub(crate) fn ended(&self, state: RunState) {
        if let Some((_, counter)) = self.ended.iter().find(|(ended, _)| *ended == state) {
            counter.increment(1);
        }
    }

    pub(crate) fn task(&self, at: TaskIx) -> &TaskMeter {
        &self.tasks[at.get()]
    }
}

impl TaskMeter {
    pub(crate) fn attempt_ended(&self, completed: bool, took: Duration) {
        if completed { &self.completed } else { &self.failed }.increment(1);
        self.seconds.record(took.as_secs_f64());
    }
}

pub(crate) fn runs_claimed(runs: usize) {
    counter!("windlass_runs_claimed_total").increment(runs as u64);
}

pub(crate) fn runs_recovered(runs: usize) {
    counter!("windlass_runs_recovered_total").increment(runs as u64);
}

pub(crate) fn attempts_overdue(attempts: usize) {
    gauge!("windlass_attempts_overdue").set(attempts as f64);
}

pub(crate) fn fenced() {
    counter!("windlass_fenced_total").increment(1);
}
