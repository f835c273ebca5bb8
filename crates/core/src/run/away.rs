//! Attempts that are published for any node to execute.

use std::cmp::Reverse;

use super::{Attempt, Command, LaneId, Lanes, Phase, Run};
use crate::TaskIx;

impl Run {
    /// An attempt of this lane, whoever executes it. What it waits for has ended.
    #[must_use]
    pub fn attempt(&self, lane: LaneId, number: u32) -> Attempt {
        let limit = self.plan.definition.task(lane.task).deadline;
        Attempt {
            lane,
            number,
            deadline: limit.map(|limit| self.dependencies_ended_at(lane.task) + limit),
            closing: false,
        }
    }

    /// The attempt of this lane that was published, if its end has not been heard.
    #[must_use]
    pub fn out(&self, lane: LaneId) -> Option<u32> {
        let entry = match (&self.tasks[lane.task.get()].lanes, lane.item) {
            (Lanes::One(entry), None) => entry,
            (Lanes::Many(fan), Some(item)) => fan.lanes.get(item as usize)?,
            _ => return None,
        };
        entry.is_out().then_some(entry.spent + 1)
    }

    /// Whether there are published attempts that somebody may be executing.
    #[must_use]
    pub const fn is_away(&self) -> bool {
        self.away > 0
    }

    /// The published attempts that somebody may be executing.
    pub fn away(&self) -> impl Iterator<Item = (LaneId, u32)> + '_ {
        let any = self.away > 0;
        let lanes = any.then(|| self.lanes()).into_iter().flatten();
        lanes.filter(|(_, lane)| lane.phase == Phase::Away).map(|(id, lane)| (id, lane.spent + 1))
    }

    pub(super) fn is_spread(&self, task: TaskIx) -> bool {
        self.spread.get(task.get()).is_some_and(|is_spread| *is_spread)
    }

    /// Notes that an attempt is published.
    pub(super) fn send_away(&mut self, lane: LaneId) {
        let deadline = self.task_deadline(lane.task);
        let entry = self.lane_mut(lane);
        entry.phase = Phase::Away;
        let number = entry.spent + 1;
        self.alive += 1;
        self.away += 1;
        self.recalls.extend(deadline.map(|at| Reverse((at, lane, number))));
    }

    /// Has a published attempt taken back whose deadline has passed, if it is still out.
    pub(super) fn recall(&mut self, lane: LaneId, number: u32) {
        let entry = self.lane(lane);
        let after = self.definition().task(lane.task).deadline;
        if let (Phase::Away, Some(after)) = (entry.phase, after)
            && entry.spent + 1 == number
        {
            self.lane_mut(lane).phase = Phase::Recalled;
            self.away -= 1;
            let attempt = Attempt { lane, number, deadline: self.task_deadline(lane.task), closing: false };
            self.commands.push(Command::Withdraw { attempt, after });
        }
    }
}
