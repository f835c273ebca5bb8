//! What a run loop says, for whoever reads logs at three in the morning.

use windlass_core::{LaneId, Step, Verdict, format_duration};

use super::{RunCell, RunLoop};

impl RunLoop {
    /// Says what failed, and what happens next.
    pub(super) fn log_failure(&self, cell: &RunCell, lane: LaneId, step: &Step) {
        let Some(failure) = &step.detail.failure else { return };
        let definition = &self.run.plan().definition;
        let (run, key, name, attempt) =
            (cell.subject.run, cell.subject.key.as_deref(), &step.name, step.attempt);
        let attempts = definition.task(lane.task).retry.attempts;
        let workflow = &definition.name;
        match step.detail.retry_at.map(|at| format_duration(at.since(step.ended_at))) {
            Some(delay) => tracing::warn!(
                %run, %workflow, key, step = %name, attempt, attempts, %failure, delay,
                "{name} failed, attempt {attempt} of {attempts}: {failure}; trying again in {delay}"
            ),
            None => tracing::warn!(
                %run, %workflow, key, step = %name, attempt, attempts, %failure,
                "{name} failed for good, attempt {attempt} of {attempts}: {failure}"
            ),
        }
    }

    pub(super) fn log_end(&self, cell: &RunCell, verdict: &Verdict) {
        let run = cell.subject.run;
        let workflow = &self.run.plan().definition.name;
        match verdict {
            Verdict::Completed => tracing::debug!(%run, %workflow, "the run completed"),
            Verdict::Failed { step, failure, .. } => {
                tracing::warn!(%run, %workflow, step, %failure, "the run failed");
            }
            Verdict::TimedOut { after, .. } => {
                tracing::warn!(%run, %workflow, ?after, "the run took too long")
            }
            Verdict::Cancelled { reason } => tracing::info!(%run, %workflow, reason, "the run was cancelled"),
            Verdict::Abandoned { step, deaths } => {
                tracing::error!(%run, %workflow, step, deaths, "the run killed its process too often");
            }
        }
    }
}
