//! What the end of a run means for its schedule.

use super::{Decision, Outcome, Slot, Tell, chance, decide::Step, state::Live};
use crate::Time;

/// No more than so many characters of an error are kept.
const LONGEST_ERROR: usize = 1_000;

impl Step<'_> {
    pub(super) fn ended(&mut self, key: &str, outcome: Outcome, at: Time) {
        // A run whose end was told before, or that is another's, changes nothing.
        let Some(live) = self.forget(key) else { return };
        let completed = outcome == Outcome::Completed;
        if let Some(last) = self.state.last_run.as_mut().filter(|last| last.key == key) {
            (last.ended_at, last.completed) = (Some(at), completed);
        }
        self.state.rested_at = self.state.rested_at.max(at);
        match outcome {
            Outcome::Completed if !self.state.tripped => self.forgive(at),
            Outcome::Failed { error } if !live.excused => self.failed(&error, at),
            Outcome::Completed | Outcome::Failed { .. } | Outcome::Cancelled => {}
        }
    }

    /// Takes a start back. What may start instead is for the next step: otherwise one step would go through all the
    /// runs that there are already.
    pub(super) fn existed(mut self, key: &str) -> Decision {
        let Some(live) = self.forget(key) else {
            let wake = self.state.wake;
            return self.rest_until(wake);
        };
        let state = &mut self.state;
        state.runs = state.runs.saturating_sub(1);
        state.fired = state.fired.saturating_sub(u64::from(live.origin.is_by_clock()));
        if state.last_run.as_ref().is_some_and(|last| last.key == key) {
            let under_way = state.running.last().map(|live| live.as_last_run(self.schedule.name()));
            let both = [state.ended_run.clone(), under_way];
            state.last_run = both.into_iter().flatten().max_by_key(|run| run.fired_at);
        }
        let now = self.now;
        self.rest_until(Some(now))
    }

    /// Takes a run out of those that are under way, if it is there.
    fn forget(&mut self, key: &str) -> Option<Live> {
        let slot = Slot::of(key, self.schedule.name())?;
        let place = self.state.running.iter().position(|live| live.slot == slot)?;
        Some(self.state.running.remove(place))
    }

    fn failed(&mut self, error: &str, at: Time) {
        let backoff = &self.schedule.settings().backoff;
        let streak = self.state.streak.saturating_add(1);
        self.state.streak = streak;
        self.excuse();
        self.state.last_error = Some(error.chars().take(LONGEST_ERROR).collect());
        let dice = chance::dice("backoff", self.schedule.name(), at);
        let until = at + backoff.delay(streak, dice);
        self.state.held_until = self.state.held_until.max(until);
        if backoff.trip_after.is_some_and(|failures| streak >= failures) {
            self.state.tripped = true;
            self.tell(Tell::Trips { streak });
        } else {
            self.tell(Tell::BacksOff { until: self.state.held_until, streak });
        }
    }

    /// Forgets the failures, but not that it was held until then.
    pub(super) fn forgive(&mut self, at: Time) {
        (self.state.streak, self.state.last_error) = (0, None);
        self.state.held_until = self.state.held_until.min(at);
    }

    /// Runs that were beside each other and fail for one reason are one failure in the row.
    pub(super) fn excuse(&mut self) {
        for live in &mut self.state.running {
            live.excused = true;
        }
    }
}
