//! What becomes of a schedule that is declared again with other settings.

use super::{
    Decision, Schedule, Slot, Tell,
    decide::{Step, fresh},
    state::Waiting,
};
use crate::Time;

impl Step<'_> {
    /// Goes on with other settings.
    pub(super) fn update(mut self, to: Schedule) -> Decision {
        let from = self.schedule;
        if to == *from {
            return self.finish();
        }
        let (was, is) = (from.settings(), to.settings());
        let same_times = from.timing() == to.timing() && was.start == is.start && was.end == is.end;
        let more_runs = was.count != is.count && self.state.left(from) == 0;
        if !same_times {
            self.settle();
            self.drop_backfills();
        }
        self.tell(Tell::Updated { difference: from.difference(&to) });
        let mut step = Step { schedule: &to, state: self.state, now: self.now, commands: self.commands };
        // Times that it did not have before have not been missed, nor those for which no run was left.
        if !same_times || more_runs {
            step.state.cursor = step.state.cursor.max(fresh(&to, step.now));
        }
        step.finish()
    }

    /// Decides on the times that have come and could not start yet, while it is known which they are. Those that are
    /// made up for wait.
    fn settle(&mut self) {
        let oldest = self.state.next_time(self.schedule).filter(|time| *time <= self.now);
        let Some(oldest) = oldest.filter(|_| self.state.left(self.schedule) > 0) else { return };
        if self.state.paused.is_some() || self.state.tripped {
            self.state.held_until = self.state.held_until.max(self.now);
        }
        let last = self.schedule.previous_time(Time(self.now.0.saturating_add(1)));
        for time in self.choose(oldest, last.unwrap_or(oldest).max(oldest)) {
            let (slot, origin) = (Slot::Time(time), self.origin(time));
            self.state.cursor = time;
            if !self.is_taken(&slot) {
                self.wait(Waiting { slot, origin, at: time });
            }
        }
    }

    /// Gives up past times that somebody asked for: with other times, nobody has said how many they are.
    pub(super) fn drop_backfills(&mut self) {
        for span in std::mem::take(&mut self.state.backfills) {
            if let Some(first) = self.schedule.next_time(span.after).filter(|time| *time <= span.last) {
                self.tell(Tell::BackfillDropped { first, last: span.last });
            }
        }
    }
}
