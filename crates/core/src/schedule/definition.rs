//! What a schedule is, as data, and when it fires.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Problems, ScheduleDraft, Timing, chance};
use crate::Time;

/// A sound schedule. It is made by [`ScheduleDraft::check`].
///
/// ```
/// use std::time::Duration;
/// use windlass_core::{Time, schedule::ScheduleDraft};
///
/// let schedule = ScheduleDraft::new("poll", "inbox").every(Duration::from_secs(30)).check().unwrap();
/// assert_eq!(schedule.in_words(), "every 30s");
/// assert_eq!(schedule.next_times(2, Time(10_000_000)), [Time(30_000_000), Time(60_000_000)]);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "ScheduleDraft", into = "ScheduleDraft")]
pub struct Schedule {
    timing: Timing,
    /// Everything else. What it says about when to fire is taken out.
    settings: ScheduleDraft,
}

impl Schedule {
    /// Of a draft that has been checked.
    pub(super) fn new(mut draft: ScheduleDraft, timing: Timing) -> Self {
        (draft.every, draft.cron, draft.timezone) = (None, None, None);
        (draft.after_finish, draft.manual) = (false, false);
        draft.at.clear();
        Self { timing, settings: draft }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.settings.name
    }

    /// The workflow whose runs it starts.
    #[must_use]
    pub fn workflow(&self) -> &str {
        &self.settings.workflow
    }

    /// When it fires.
    #[must_use]
    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    /// Its other settings. What a draft says about when to fire is not among them: see [`timing`](Self::timing).
    #[must_use]
    pub fn settings(&self) -> &ScheduleDraft {
        &self.settings
    }

    /// The zone whose clocks it goes by.
    #[must_use]
    pub fn zone(&self) -> &str {
        match &self.timing {
            Timing::Cron(_, zone) => zone.name(),
            _ => "UTC",
        }
    }

    /// The first time after an instant, within its bounds. What counts from the end of runs has no times of its own.
    #[must_use]
    pub fn next_time(&self, after: Time) -> Option<Time> {
        let bounds = &self.settings;
        let after = bounds.start.map_or(after, |start| after.max(Time(start.0.saturating_sub(1))));
        self.timing.next(after, bounds.start).filter(|time| bounds.end.is_none_or(|end| *time < end))
    }

    /// The last time before an instant, within its bounds.
    #[must_use]
    pub fn previous_time(&self, before: Time) -> Option<Time> {
        let bounds = &self.settings;
        let before = bounds.end.map_or(before, |end| before.min(end));
        self.timing
            .previous(before, bounds.start)
            .filter(|time| bounds.start.is_none_or(|start| *time >= start))
    }

    /// The next times after an instant: as many as asked for, or fewer when it ends before. Jitter is not counted in, nor
    /// what was started already: see [`State::next_times`](super::State::next_times).
    #[must_use]
    pub fn next_times(&self, count: usize, after: Time) -> Vec<Time> {
        let most =
            self.settings.count.map_or(count, |runs| count.min(usize::try_from(runs).unwrap_or(count)));
        std::iter::successors(self.next_time(after), |time| self.next_time(*time)).take(most).collect()
    }

    /// When the run of a time is to start: at the time, or later by its jitter, but always before the next time.
    #[must_use]
    pub fn due(&self, time: Time) -> Time {
        let longest = u64::try_from(self.settings.jitter.as_micros()).unwrap_or(u64::MAX);
        if longest == 0 {
            return time;
        }
        // Spread over what there is room for: cut off at the next time, most would gather before it.
        let room = self.next_time(time).map_or(longest, |next| longest.min(next.0.abs_diff(time.0)));
        time + Duration::from_micros(chance::draw("jitter", self.name(), time) % room)
    }

    /// What it does, in words: `every weekday at 09:00 in Europe/Berlin`.
    #[must_use]
    pub fn in_words(&self) -> String {
        let ScheduleDraft { start, end, count, .. } = &self.settings;
        let mut words = self.timing.in_words();
        if let Some(start) = start {
            words += &format!(", from {start}");
        }
        if let Some(end) = end {
            words += &format!(", until {end}");
        }
        match count {
            Some(1) => words += ", 1 time",
            Some(count) => words += &format!(", {count} times"),
            None => {}
        }
        words
    }
}

impl TryFrom<ScheduleDraft> for Schedule {
    type Error = Problems;

    fn try_from(draft: ScheduleDraft) -> Result<Self, Problems> {
        draft.check()
    }
}

impl From<Schedule> for ScheduleDraft {
    fn from(schedule: Schedule) -> Self {
        let mut draft = schedule.settings;
        match schedule.timing {
            Timing::Every(period) => draft.every = Some(period),
            Timing::AfterFinish(pause) => {
                draft.every = Some(pause);
                draft.after_finish = true;
            }
            Timing::Cron(cron, zone) => {
                draft.cron = Some(cron.to_string());
                draft.timezone = Some(zone.name().to_owned());
            }
            Timing::At(times) => draft.at = times,
            Timing::Manual => draft.manual = true,
        }
        draft
    }
}
