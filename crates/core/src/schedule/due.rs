//! What the clock asks of a schedule: the times that have come, and those that were missed.

use super::{
    CatchUp, Origin, Overlap, Slot, Tell, Timing,
    decide::{GRACE, MOST_AT_ONCE, Step},
    state::Waiting,
};
use crate::Time;

/// More times than this are not counted.
const MOST_COUNTED: usize = 1_000;

impl Step<'_> {
    /// Decides on every time that has come.
    pub(super) fn take_due(&mut self) {
        if self.is_held() || self.state.left(self.schedule) == 0 {
            return;
        }
        let oldest = self.state.next_time(self.schedule);
        let Some(oldest) = oldest.filter(|oldest| self.schedule.due(*oldest) <= self.now) else { return };
        // Of several that cancel each other, only the last is worth starting.
        let only_last = self.schedule.settings().overlap == Overlap::CancelRunning;
        if only_last || self.is_missed(oldest) { self.catch_up(oldest) } else { self.keep_up(oldest) }
    }

    /// Whether a time passed while nothing could be started.
    fn is_missed(&self, time: Time) -> bool {
        let due = self.schedule.due(time);
        due < self.state.held_until || self.now.since(due) > GRACE
    }

    /// Nothing was missed: each time is offered.
    fn keep_up(&mut self, oldest: Time) {
        let mut next = Some(oldest);
        for _ in 0..MOST_AT_ONCE {
            let Some(time) = next.filter(|time| self.schedule.due(*time) <= self.now) else { return };
            if self.state.left(self.schedule) == 0 {
                return;
            }
            self.take(time);
            next = self.schedule.next_time(time);
        }
    }

    /// The latest times are offered, as many as the schedule makes up for.
    fn catch_up(&mut self, oldest: Time) {
        for time in self.choose(oldest, self.newest(oldest)) {
            self.take(time);
        }
    }

    /// The times that are made up for, in their order; the others are left out. Nothing here takes longer when more was
    /// missed.
    pub(super) fn choose(&mut self, oldest: Time, newest: Time) -> Vec<Time> {
        let chosen = self.chosen(oldest, newest);
        let left_out = match chosen.first() {
            None => Some(newest),
            Some(first) => self.schedule.previous_time(*first).filter(|time| *time >= oldest),
        };
        if let Some(last) = left_out {
            let times = std::iter::successors(Some(oldest), |time| self.schedule.next_time(*time));
            let times = times.take_while(|time| *time <= last).take(MOST_COUNTED).count() as u64;
            self.tell(Tell::Missed { first: oldest, last, times });
            self.state.cursor = last;
            // What counts from the end of a run counts from here.
            self.state.rested_at = self.state.rested_at.max(self.now);
        }
        chosen
    }

    /// The last time that has come.
    fn newest(&self, oldest: Time) -> Time {
        if matches!(self.schedule.timing(), Timing::AfterFinish(_)) {
            return oldest;
        }
        let last = self.schedule.previous_time(Time(self.now.0.saturating_add(1)));
        let come = last.filter(|time| self.schedule.due(*time) <= self.now);
        // Each is due before the next: only the last may still have to wait.
        come.or_else(|| self.schedule.previous_time(last?)).unwrap_or(oldest).max(oldest)
    }

    /// The times that are made up for, in their order.
    fn chosen(&self, oldest: Time, newest: Time) -> Vec<Time> {
        let settings = self.schedule.settings();
        let most = match settings.catch_up {
            CatchUp::Skip => u64::from(!self.is_missed(newest)),
            CatchUp::Latest => 1,
            CatchUp::All { .. } if settings.overlap == Overlap::CancelRunning => 1,
            CatchUp::All { max } => max.into(),
        };
        let most = usize::try_from(most.min(self.state.left(self.schedule))).unwrap_or(usize::MAX);
        let is_near = |time: &Time| {
            let late = self.now.since(self.schedule.due(*time));
            !self.is_missed(*time) || settings.catch_up_within.is_none_or(|window| late <= window)
        };
        let back = std::iter::successors(Some(newest), |time| self.schedule.previous_time(*time));
        let mut chosen: Vec<Time> =
            back.take_while(|time| *time >= oldest && is_near(time)).take(most).collect();
        chosen.reverse();
        chosen
    }

    pub(super) fn origin(&self, time: Time) -> Origin {
        if self.is_missed(time) { Origin::CatchUp } else { Origin::Clock }
    }

    fn take(&mut self, time: Time) {
        let (slot, origin) = (Slot::Time(time), self.origin(time));
        self.state.cursor = time;
        // One that was taken up again after a reset may still be under way.
        if self.is_taken(&slot) {
            return;
        }
        if self.schedule.settings().overlap == Overlap::CancelRunning && self.state.running.is_empty() {
            self.replace_waiting();
        }
        self.offer(Waiting { slot, origin, at: time });
    }
}
