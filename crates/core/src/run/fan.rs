//! The instances of a `for_each`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{Lane, LaneId, Lanes, Phase, Run};
use crate::{Changes, Failure, StepKind, TaskIx, Time};

/// The instances of a `for_each`.
#[derive(Debug, Default)]
pub(super) struct Fan {
    pub(super) lanes: Vec<Lane>,
    /// Instances that wait for one of the others to end.
    pub(super) queued: VecDeque<u32>,
    /// What instances changed in the context. Joined in the order of the elements when all have ended, so
    /// that the order in which they raced leaves no trace.
    pub(super) changes: BTreeMap<u32, Changes>,
    pub(super) failures: BTreeMap<u32, Failure>,
    /// Instances that an earlier generation completed, of elements that are there no more: what they did is still to be
    /// undone if the run does not complete.
    pub(super) surplus: BTreeSet<u32>,
    pub(super) left: usize,
    pub(super) failed: u32,
    pub(super) cut: u32,
}

impl Fan {
    fn outcome(&self, allow_failure: bool) -> StepKind {
        match (self.cut, self.failed) {
            (1.., _) => StepKind::Cancelled,
            (_, 1..) if !allow_failure => StepKind::Failed,
            _ => StepKind::Completed,
        }
    }
}

impl Run {
    /// Counts a lane that has ended, and ends its task with the last one.
    pub(super) fn lane_settled(&mut self, lane: LaneId, kind: StepKind, now: Time) {
        let task = &mut self.tasks[lane.task.get()];
        let Lanes::Many(fan) = &mut task.lanes else {
            return self.task_done(lane.task, kind, now);
        };
        fan.left -= 1;
        fan.failed += u32::from(kind == StepKind::Failed);
        fan.cut += u32::from(kind == StepKind::Cancelled);
        if fan.left > 0 {
            if let Some(item) = fan.queued.pop_front() {
                self.queue(LaneId { task: lane.task, item: Some(item) });
            }
            return;
        }
        self.fan_done(lane.task, now);
    }

    pub(super) fn fan_done(&mut self, task: TaskIx, at: Time) {
        let kind = self.join_instances(task);
        self.task_done(task, kind, at);
    }

    /// What the instances of a `for_each` amount to, in the order of the elements.
    pub(super) fn join_instances(&mut self, task: TaskIx) -> StepKind {
        let allow_failure = self.definition().task(task).allow_failure;
        let entry = &mut self.tasks[task.get()];
        let Lanes::Many(fan) = &mut entry.lanes else { return StepKind::Completed };
        let kind = fan.outcome(allow_failure);
        if kind == StepKind::Failed {
            entry.failure = fan.failures.values().next().cloned().map(Box::new);
        }
        let mut changes = Changes::default();
        for change in std::mem::take(&mut fan.changes).into_values() {
            changes.extend(&change);
        }
        if !changes.is_empty() {
            entry.changes = Some(Box::new(changes));
            self.any_changes = true;
        }
        kind
    }

    /// How many elements a task hands out. A `for_each` hands out the results of its instances.
    pub(super) fn elements(&self, task: TaskIx) -> u32 {
        let entry = &self.tasks[task.get()];
        match &entry.lanes {
            _ if entry.outcome != Some(StepKind::Completed) => 0,
            Lanes::One(_) => entry.items.unwrap_or(0),
            Lanes::Many(fan) => u32::try_from(fan.lanes.len()).unwrap_or(u32::MAX),
        }
    }

    /// Makes a `for_each` run once per element. What was recorded of its instances is there already.
    pub(super) fn fan_out(&mut self, task: TaskIx, items: u32) {
        let limit =
            self.definition().task(task).for_each.and_then(|f| f.limit).unwrap_or(self.fan_limit).max(1);
        let entry = &mut self.tasks[task.get()];
        let Lanes::Many(fan) = &mut entry.lanes else { return };
        let beyond = (items..).zip(fan.lanes.iter().skip(items as usize));
        fan.surplus = beyond
            .filter(|(_, lane)| lane.phase == Phase::Done(StepKind::Completed))
            .map(|(item, _)| item)
            .collect();
        fan.changes.split_off(&items);
        fan.lanes.resize(items as usize, Lane::NEW);
        fan.queued = (0..items).filter(|item| !fan.lanes[*item as usize].is_done()).collect();
        fan.left = fan.queued.len();
        if fan.left == 0 {
            // Nothing records this end, so it has to be one that can be worked out again.
            let at = entry.ended_at.unwrap_or(entry.ready_at);
            return self.fan_done(task, at);
        }
        let mut first: Vec<u32> = fan.queued.drain(..fan.left.min(limit as usize)).collect();
        if !self.published.is_empty() {
            // Whoever published them may have had another limit.
            let is_out = |item: &u32| {
                let lane = LaneId { task, item: Some(*item) };
                self.published.contains(&(lane, fan.lanes[*item as usize].spent + 1))
            };
            first.extend(fan.queued.iter().copied().filter(is_out));
            fan.queued.retain(|item| !first.contains(item));
        }
        for item in first {
            self.queue(LaneId { task, item: Some(item) });
        }
    }
}
