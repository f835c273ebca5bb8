//! What an attempt's end means.

use std::cmp::Reverse;

use super::{Ended, LaneId, Lanes, Phase, Run, Verdict};
use crate::{Detail, Failure, StepKind, TaskIx, Time};

impl Run {
    pub(super) fn attempt_ended(
        &mut self,
        lane: LaneId,
        started_at: Time,
        ended: Ended,
        dice: f64,
        now: Time,
    ) {
        if !self.lane(lane).is_alive() {
            return;
        }
        match self.lane(lane).phase {
            Phase::Deferred(_) => self.deferred -= 1,
            Phase::Away => self.away -= 1,
            _ => {}
        }
        self.alive -= 1;
        let attempt = self.lane(lane).spent + 1;
        match ended {
            Ended::Completed { changes, items } => {
                if self.plan.flow() == Some(lane.task) {
                    // It returned before it could hear of another verdict, and has undone nothing: it came first.
                    self.closing = None;
                }
                let detail = Detail::completed(changes, items);
                self.lane_done(lane, StepKind::Completed, attempt, started_at, now, detail);
            }
            Ended::Recorded { changes, items, at } => {
                let detail = Detail::completed(changes, items);
                self.keep(lane, StepKind::Completed, &detail);
                self.lane_over(lane, StepKind::Completed, attempt, at);
            }
            Ended::Failed(failure) => self.attempt_failed(lane, attempt, started_at, failure, dice, now),
            Ended::Cut if self.closing.is_some() => {
                self.lane_done(lane, StepKind::Cancelled, attempt, started_at, now, Detail::default());
            }
            // The node gives the run up; the attempt does not count, and whoever takes the run repeats it.
            Ended::Cut => self.wake(lane),
            Ended::Killed { deaths } => {
                self.lane_mut(lane).phase = Phase::Ready;
                let step = self.step_name(lane).to_string();
                self.close(Verdict::Abandoned { step, deaths });
            }
        }
    }

    pub(super) fn attempt_failed(
        &mut self,
        lane: LaneId,
        attempt: u32,
        started_at: Time,
        failure: Failure,
        dice: f64,
        now: Time,
    ) {
        let task = self.definition().task(lane.task);
        let next = task
            .retry
            .decide(attempt, &failure, dice)
            .map(|delay| now + delay)
            .filter(|_| self.closing.is_none())
            .filter(|at| self.task_deadline(lane.task).is_none_or(|deadline| *at < deadline));
        let Some(at) = next else {
            let detail = Detail { failure: Some(Box::new(failure)), ..Detail::default() };
            self.lane_done(lane, StepKind::Failed, attempt, started_at, now, detail);
            return;
        };
        let detail = Detail { failure: Some(Box::new(failure)), retry_at: Some(at), ..Detail::default() };
        self.record(lane, StepKind::Retrying, attempt, started_at, now, detail);
        let entry = self.lane_mut(lane);
        entry.spent = attempt;
        entry.phase = Phase::Backoff(at);
        self.backoffs.push(Reverse((at, lane)));
    }

    pub(super) fn lane_done(
        &mut self,
        lane: LaneId,
        kind: StepKind,
        attempt: u32,
        started_at: Time,
        now: Time,
        detail: Detail,
    ) {
        let name = (kind == StepKind::Failed).then(|| self.step_name(lane).to_string());
        self.keep(lane, kind, &detail);
        if let (Some(name), Some(failure)) = (name, &detail.failure) {
            self.note_failure(lane.task, name, failure);
        }
        self.record(lane, kind, attempt, started_at, now, detail);
        self.lane_over(lane, kind, attempt, now);
    }

    fn lane_over(&mut self, lane: LaneId, kind: StepKind, attempt: u32, at: Time) {
        let entry = self.lane_mut(lane);
        entry.spent = attempt;
        entry.phase = Phase::Done(kind);
        self.lane_settled(lane, kind, at);
    }

    /// Remembers what later decisions need of a lane's outcome.
    pub(super) fn keep(&mut self, lane: LaneId, kind: StepKind, detail: &Detail) {
        let task = &mut self.tasks[lane.task.get()];
        match (kind, &mut task.lanes, lane.item) {
            (StepKind::Completed, Lanes::Many(fan), Some(item)) => {
                fan.changes.extend(detail.changes.as_deref().map(|changes| (item, changes.clone())));
            }
            (StepKind::Completed, Lanes::One(_), _) => {
                task.items = detail.items;
                if detail.changes.is_some() {
                    task.changes.clone_from(&detail.changes);
                    self.any_changes = true;
                }
            }
            (StepKind::Failed, Lanes::One(_), _) => task.failure = detail.failure.clone(),
            (StepKind::Failed, Lanes::Many(fan), Some(item)) => {
                if let Some(failure) = &detail.failure {
                    fan.failures.insert(item, Failure::clone(failure));
                }
            }
            (StepKind::Skipped, ..) => task.skip = detail.skipped.as_deref().cloned(),
            _ => {}
        }
    }

    pub(super) fn note_failure(&mut self, task: TaskIx, step: String, failure: &Failure) {
        if self.definition().task(task).allow_failure {
            return;
        }
        self.first_failure.get_or_insert_with(|| Box::new(failure.clone()));
        self.failed.push(step);
    }
}
