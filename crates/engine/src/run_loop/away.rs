//! Attempts of a run that any node may execute: publishing them, taking them back, and hearing how they ended.

use std::{sync::Arc, time::Duration};

use windlass_core::{Attempt, Ended, Event, Failure, LaneId};
use windlass_store::{Act, InboxRow, NewSpread, Reach, SpreadKey, Written};

use super::{Mail, RunCell, RunLoop, submit};
use crate::{
    committer::{Fate, Reply, Thread},
    report::{Ending, Report},
};

/// Why published attempts are taken back.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Recall {
    /// The deadline of their task has passed; it is this long.
    Late(Duration),
    /// The run is paused, and they were not begun.
    Paused,
}

impl RunLoop {
    /// Publishes attempts, and lets this node know that there is something to take.
    pub(super) fn publish(&self, cell: &Arc<RunCell>, attempts: &[Attempt]) {
        let (subject, node) = (&cell.subject, &cell.node);
        let spread = |attempt: &Attempt| {
            let queue = subject.registered.routes.queue(attempt.lane.task).unwrap_or(&subject.queue);
            let key = self.key_of(attempt.lane, attempt.number);
            node.guests.check_served(queue, &key.step, subject.run);
            NewSpread { key, queue: Arc::clone(queue) }
        };
        let (claim, definition) = (subject.claim, subject.registered.definition);
        let act = Act::Publish { claim, definition, tasks: attempts.iter().map(spread).collect() };
        let publisher = Arc::clone(cell);
        let reply = move |fate: Fate, thread| match fate {
            Ok(_) => publisher.node.guests.changed.notify_one(),
            Err(lost) => publisher.hand(Mail::Committed(0, Err(Box::new(lost))), thread),
        };
        submit(cell, act, Reply::Then(Box::new(reply)));
    }

    /// Takes back published attempts. What becomes of them is heard when that is committed.
    pub(super) fn withdraw(&self, cell: &Arc<RunCell>, lanes: Vec<(LaneId, u32)>, why: Recall) {
        let reach = match why {
            Recall::Late(_) => Reach::All,
            Recall::Paused => Reach::Unclaimed,
        };
        let tasks = lanes.iter().map(|(lane, number)| self.key_of(*lane, *number)).collect();
        let act = Act::Withdraw { claim: cell.subject.claim, tasks, reach };
        let asker = Arc::clone(cell);
        let reply = move |fate: Fate, thread: Thread| {
            // Whoever executes one of them here is to be told.
            asker.node.guests.changed.notify_one();
            let mail = match fate {
                Ok(Written::Withdrawn { out, .. }) => Mail::Withdrawn { lanes, out, why },
                Ok(_) => return,
                Err(lost) => Mail::Committed(0, Err(Box::new(lost))),
            };
            asker.hand(mail, thread);
        };
        submit(cell, act, Reply::Then(Box::new(reply)));
    }

    /// Takes back what nobody has begun, since nothing new may begin in a paused run.
    pub(super) fn withdraw_unbegun(&self, cell: &Arc<RunCell>) {
        let away: Vec<_> = self.run.away().collect();
        if !self.over && !away.is_empty() {
            self.withdraw(cell, away, Recall::Paused);
        }
    }

    /// Published attempts were taken back, but for those of which an outcome is there or may still come.
    pub(super) fn withdrawn(&mut self, lanes: Vec<(LaneId, u32)>, out: &[SpreadKey], why: Recall) {
        let started_at = self.at;
        for (lane, number) in lanes {
            if self.run.out(lane) != Some(number) || out.contains(&self.key_of(lane, number)) {
                continue;
            }
            let ended = match why {
                Recall::Late(after) => Ended::Failed(Failure::deadline_exceeded(after)),
                Recall::Paused => Ended::Cut,
            };
            self.apply(Event::Ended { lane, started_at, ended, dice: 0.0 });
        }
    }

    /// Hears how a published attempt ended. The row goes with the record of it; one that says nothing new goes too.
    pub(super) fn hear_outcome(&mut self, cell: &RunCell, row: &InboxRow) {
        let run = cell.subject.run;
        let report = match Report::decode(&cell.node.hub, row) {
            Ok(report) => report,
            Err(error) => {
                // Whoever takes the run up next says so where people look.
                tracing::error!(%run, %error, "an outcome cannot be read; the run is given up");
                return self.halt();
            }
        };
        let Report { generation, key, started_at, ending } = report;
        let lane = self.run.plan().lane(&key.step).filter(|lane| self.run.out(*lane) == Some(key.attempt));
        let Some(lane) = lane.filter(|_| generation == cell.subject.generation) else {
            tracing::debug!(%run, step = %key.step, attempt = key.attempt, "an outcome that nobody waits for");
            return self.consumed.push(row.seq);
        };
        match ending {
            Ending::Done(done) => self.attempt_ended(cell, lane, started_at, Some(Ok(done))),
            Ending::Failed(failure) => self.attempt_ended(cell, lane, started_at, Some(Err(failure))),
            Ending::Killed(deaths) => {
                let ended = Ended::Killed { deaths };
                self.apply(Event::Ended { lane, started_at, ended, dice: 0.0 });
            }
        }
        // It goes along with what is recorded of it.
        self.consumed.push(row.seq);
    }

    fn key_of(&self, lane: LaneId, number: u32) -> SpreadKey {
        SpreadKey { step: self.run.step_name(lane), attempt: number }
    }
}
