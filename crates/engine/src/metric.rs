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

use std::sync::Arc;

use metrics::{SharedString, counter, gauge, histogram};

fn label(text: &Arc<str>) -> SharedString {
    SharedString::from_shared(Arc::clone(text))
}

pub(crate) fn committed(units: usize) {
    counter!("windlass_commits_total").increment(1);
    counter!("windlass_records_total").increment(units as u64);
}

pub(crate) fn run_started(workflow: &Arc<str>) {
    counter!("windlass_runs_started_total", "workflow" => label(workflow)).increment(1);
}

pub(crate) fn run_ended(workflow: &Arc<str>, state: &'static str) {
    counter!("windlass_runs_ended_total", "workflow" => label(workflow), "state" => state).increment(1);
}

pub(crate) fn attempt_ended(workflow: &Arc<str>, task: &Arc<str>, outcome: &'static str, seconds: f64) {
    counter!("windlass_attempts_total", "workflow" => label(workflow), "task" => label(task), "outcome" => outcome)
        .increment(1);
    histogram!("windlass_attempt_seconds", "workflow" => label(workflow), "task" => label(task))
        .record(seconds);
}

pub(crate) fn runs_held(runs: usize) {
    gauge!("windlass_runs_held").set(runs as f64);
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
