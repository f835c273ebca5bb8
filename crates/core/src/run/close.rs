//! How a run comes to its end.

use super::{Attempt, Command, LaneId, Order, Phase, Run, Verdict};
use crate::Failure;

impl Run {
    pub(super) fn order(&mut self, order: Order) {
        match order {
            Order::Pause => self.paused = true,
            Order::Resume => self.paused = false,
            Order::Cancel { reason } => self.close(Verdict::Cancelled { reason }),
            Order::Terminate { reason } => {
                self.stop_everything();
                self.ended = true;
                self.commands.push(Command::End(Verdict::Cancelled { reason }));
            }
        }
    }

    /// Settles how the run ends. The first verdict stands.
    pub(super) fn close(&mut self, verdict: Verdict) {
        if self.closing.is_none() {
            self.closing = Some(Box::new(verdict));
            // Nothing more begins that would have to be alone.
            self.isolating.clear();
            self.stop_everything();
        }
    }

    pub(super) fn stop_everything(&mut self) {
        let stops: Vec<LaneId> = self.lanes().filter(|(_, lane)| lane.is_alive()).map(|(id, _)| id).collect();
        self.commands.extend(stops.into_iter().map(Command::Stop));
    }

    pub(super) fn finish(&mut self) {
        if self.ended || self.alive > 0 {
            return;
        }
        let verdict = match self.closing.as_deref() {
            Some(_) if let Some(lane) = self.unclosed.take() => return self.put_in_order(lane),
            Some(verdict) => verdict.clone(),
            None if self.left > 0 => return,
            None if self.failed.is_empty() => Verdict::Completed,
            None => self.failure_verdict(),
        };
        self.ended = true;
        self.commands.push(Command::End(verdict));
    }

    /// Has a durable function put things in order, once its run's verdict stands.
    fn put_in_order(&mut self, lane: LaneId) {
        let number = self.lane(lane).spent + 1;
        self.lane_mut(lane).phase = Phase::Running;
        self.alive += 1;
        self.commands.push(Command::Start(Attempt { lane, number, deadline: None, closing: true }));
    }

    /// Notes that the run's durable function begins, with all that is recorded of it: from here on it puts things in
    /// order itself when a verdict stands.
    pub fn function_begins(&mut self) {
        self.unclosed = None;
    }

    /// How the run will end, if that is settled.
    #[must_use]
    pub fn closing(&self) -> Option<&Verdict> {
        self.closing.as_deref()
    }

    pub(super) fn failure_verdict(&self) -> Verdict {
        let mut failed = self.failed.iter().cloned();
        Verdict::Failed {
            step: failed.next().unwrap_or_default(),
            failure: self.first_failure.clone().unwrap_or_else(|| Box::new(Failure::new("a task failed"))),
            also: failed.collect(),
        }
    }

    pub(super) fn unfinished(&self) -> Vec<String> {
        let open = self.tasks.iter().zip(&self.definition().tasks).filter(|(run, _)| run.outcome.is_none());
        open.map(|(_, task)| task.name.to_string()).collect()
    }
}
