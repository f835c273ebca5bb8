//! How long ended runs are kept.

use std::time::Duration;

use crate::{RunState, Time};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a run is kept after it has ended, by how it ended.
///
/// By default what completed is kept for 7 days, and everything else for 30: what failed is what somebody will ask about.
/// `None` keeps it for ever, and nothing is kept for less than [an hour](Self::LEAST).
///
/// ```
/// use std::time::Duration;
/// use windlass_core::{Retention, RunState};
///
/// let day = Duration::from_secs(24 * 60 * 60);
/// let retention = Retention::default().completed(day).abandoned(None);
/// assert_eq!(retention.of(RunState::Completed), Some(day));
/// assert_eq!(retention.of(RunState::Failed), Some(30 * day));
/// assert_eq!(retention.of(RunState::Abandoned), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    completed: Option<Duration>,
    failed: Option<Duration>,
    cancelled: Option<Duration>,
    abandoned: Option<Duration>,
}

impl Default for Retention {
    fn default() -> Self {
        Self { completed: Some(7 * DAY), ..Self::all(30 * DAY) }
    }
}

impl Retention {
    /// What is shorter counts as this. A start whose answer was lost is sent again, and is harmless because its run is there;
    /// and whoever awaits a run hears of its end from the store.
    pub const LEAST: Duration = Duration::from_secs(60 * 60);

    /// Keeps everything for ever.
    #[must_use]
    pub const fn forever() -> Self {
        Self { completed: None, failed: None, cancelled: None, abandoned: None }
    }

    /// Keeps every run for the same time, however it ended.
    #[must_use]
    pub const fn all(age: Duration) -> Self {
        Self { completed: Some(age), failed: Some(age), cancelled: Some(age), abandoned: Some(age) }
    }

    /// How long runs are kept that completed. Default: 7 days.
    #[must_use]
    pub fn completed(self, age: impl Into<Option<Duration>>) -> Self {
        Self { completed: age.into(), ..self }
    }

    /// How long runs are kept that failed. Default: 30 days.
    #[must_use]
    pub fn failed(self, age: impl Into<Option<Duration>>) -> Self {
        Self { failed: age.into(), ..self }
    }

    /// How long runs are kept that were cancelled. Default: 30 days.
    #[must_use]
    pub fn cancelled(self, age: impl Into<Option<Duration>>) -> Self {
        Self { cancelled: age.into(), ..self }
    }

    /// How long runs are kept that were abandoned. Default: 30 days.
    #[must_use]
    pub fn abandoned(self, age: impl Into<Option<Duration>>) -> Self {
        Self { abandoned: age.into(), ..self }
    }

    /// How long a run is kept that ended so; `None` is for ever, and so is what has not ended.
    #[must_use]
    pub fn of(&self, state: RunState) -> Option<Duration> {
        let age = match state {
            RunState::Completed => self.completed,
            RunState::Failed => self.failed,
            RunState::Cancelled => self.cancelled,
            RunState::Abandoned => self.abandoned,
            RunState::Pending
            | RunState::Running
            | RunState::Suspended
            | RunState::Paused
            | RunState::Blocked
            | RunState::Undoing => None,
        };
        age.map(|age| age.max(Self::LEAST))
    }

    /// Whether the time is over of a run that ended so, and then.
    #[must_use]
    pub fn is_over(&self, state: RunState, ended_at: Time, now: Time) -> bool {
        self.of(state).is_some_and(|age| ended_at + age <= now)
    }

    /// Nothing that began at this time or later is old enough to go; `None` when nothing ever goes.
    #[must_use]
    pub fn horizon(&self, now: Time) -> Option<Time> {
        let ages = RunState::ALL.into_iter().filter_map(|state| self.of(state));
        // An instant later than what may just go.
        ages.min().map(|age| Time((now - age).0.saturating_add(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_goes_when_its_own_time_is_over_and_not_before() {
        let retention = Retention::forever().completed(2 * Retention::LEAST);
        let (ended, now) = (Time(0), Time(0) + 2 * Retention::LEAST);
        assert!(retention.is_over(RunState::Completed, ended, now));
        assert!(!retention.is_over(RunState::Completed, Time(1), now));
        assert!(!retention.is_over(RunState::Failed, ended, Time::MAX));
        assert!(!retention.is_over(RunState::Running, ended, Time::MAX));
    }

    #[test]
    fn nothing_goes_sooner_than_an_hour_after_its_end() {
        let retention = Retention::all(Duration::ZERO);
        assert!(!retention.is_over(RunState::Failed, Time(1), Time(0) + Retention::LEAST));
        assert!(retention.is_over(RunState::Failed, Time(0), Time(0) + Retention::LEAST));
    }

    #[test]
    fn what_may_go_lies_before_the_horizon() {
        let now = Time(0) + 10 * DAY;
        let retention = Retention::forever().failed(3 * DAY).completed(DAY);
        let horizon = retention.horizon(now).unwrap();
        assert!(retention.is_over(RunState::Completed, Time(horizon.0 - 1), now));
        assert!(!retention.is_over(RunState::Completed, horizon, now));
        assert_eq!(Retention::forever().horizon(now), None);
        assert_eq!(Retention::all(Duration::MAX).horizon(now), Some(Time(now.0 - i64::MAX + 1)));
    }
}
