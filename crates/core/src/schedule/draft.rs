//! A schedule as somebody wrote it down, before anybody looked whether it makes sense.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Backoff, CatchUp, Overlap, Problems, Schedule, check};
use crate::Time;

/// A schedule that may have any number of mistakes in it.
///
/// [`check`](Self::check) turns it into a [`Schedule`], or says everything that is wrong with it.
///
/// ```
/// use windlass_core::schedule::ScheduleDraft;
///
/// let problems = ScheduleDraft::new("nightly", "etl")
///     .cron("0 24 * * *")
///     .timezone("Europe/Pariss")
///     .check()
///     .unwrap_err();
/// assert_eq!(
///     problems.to_string(),
///     "`0 24 * * *` is not a cron expression: in the hours, at character 3, `24` is not between 0 and 23\n\
///      there is no time zone `Europe/Pariss`: did you mean `Europe/Paris`?",
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScheduleDraft {
    /// The schedule's name.
    pub name: String,
    /// The workflow whose runs it starts.
    pub workflow: String,
    /// A fingerprint of the input that its runs get. The input itself is kept beside the schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// How long it is from one time to the next, or from the end of a run to the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Duration>,
    /// Whether `every` counts from the end of a run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub after_finish: bool,
    /// A cron expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// The zone whose clocks the cron expression goes by. Default: UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// Single instants.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at: Vec<Time>,
    /// Whether it only fires when somebody says so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub manual: bool,
    /// What happens to a time that comes while a run is under way. Default: it is left out.
    #[serde(default)]
    pub overlap: Overlap,
    /// What happens to times that were missed. Default: the latest is made up for.
    #[serde(default)]
    pub catch_up: CatchUp,
    /// How long ago a time may be that is made up for. Default: as long as it likes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catch_up_within: Option<Duration>,
    /// By how much a time may be put off, so that not everything happens at once. Default: not at all.
    #[serde(default, skip_serializing_if = "Duration::is_zero")]
    pub jitter: Duration,
    /// The instant before which it has no times; a fixed rate begins with it. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Time>,
    /// The instant from which on it has no times. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Time>,
    /// How many runs it starts by itself. Default: as many as there are times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// How it is held back when its runs fail.
    #[serde(default)]
    pub backoff: Backoff,
}

impl ScheduleDraft {
    /// A schedule that does not say when yet.
    #[must_use]
    pub fn new(name: impl Into<String>, workflow: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            workflow: workflow.into(),
            input: None,
            every: None,
            after_finish: false,
            cron: None,
            timezone: None,
            at: Vec::new(),
            manual: false,
            overlap: Overlap::default(),
            catch_up: CatchUp::default(),
            catch_up_within: None,
            jitter: Duration::ZERO,
            start: None,
            end: None,
            count: None,
            backoff: Backoff::default(),
        }
    }

    /// Says what its runs get, by a fingerprint: see [`Fingerprint`](crate::Fingerprint).
    #[must_use]
    pub fn input(mut self, fingerprint: impl Into<String>) -> Self {
        self.input = Some(fingerprint.into());
        self
    }

    /// Makes it fire again and again, so long from one time to the next.
    ///
    /// The times begin with [`starting_at`](Self::starting_at), or else with 1970: every 15 minutes is every quarter of an hour, on
    /// whichever day it is declared.
    #[must_use]
    pub fn every(mut self, period: Duration) -> Self {
        self.every = Some(period);
        self
    }

    /// Makes [`every`](Self::every) count from the end of a run. The first time is so long after it is declared, or
    /// [`starting_at`](Self::starting_at) if that is later.
    #[must_use]
    pub fn after_finish(mut self) -> Self {
        self.after_finish = true;
        self
    }

    /// Makes it fire when a [`Cron`](super::Cron) expression says so.
    #[must_use]
    pub fn cron(mut self, expression: impl Into<String>) -> Self {
        self.cron = Some(expression.into());
        self
    }

    /// Makes the cron expression go by the clocks of this zone, such as `Europe/Paris`.
    #[must_use]
    pub fn timezone(mut self, name: impl Into<String>) -> Self {
        self.timezone = Some(name.into());
        self
    }

    /// Makes it fire at an instant. Said several times, it fires at each.
    #[must_use]
    pub fn at(mut self, instant: impl Into<Time>) -> Self {
        self.at.push(instant.into());
        self
    }

    /// Makes it fire only when somebody says so.
    #[must_use]
    pub fn manual(mut self) -> Self {
        self.manual = true;
        self
    }

    /// Says what happens to a time that comes while a run is under way.
    #[must_use]
    pub fn overlap(mut self, overlap: Overlap) -> Self {
        self.overlap = overlap;
        self
    }

    /// Says what happens to times that were missed.
    #[must_use]
    pub fn catch_up(mut self, catch_up: CatchUp) -> Self {
        self.catch_up = catch_up;
        self
    }

    /// Makes up only for times that are not longer ago than this.
    #[must_use]
    pub fn catch_up_within(mut self, window: Duration) -> Self {
        self.catch_up_within = Some(window);
        self
    }

    /// Puts each time off by up to so much, but never to the next time or past it. By how much depends on the schedule's
    /// name and on the time alone, so that every process comes to the same.
    #[must_use]
    pub fn jitter(mut self, longest: Duration) -> Self {
        self.jitter = longest;
        self
    }

    /// Leaves out times before an instant. A fixed rate begins with it.
    #[must_use]
    pub fn starting_at(mut self, instant: impl Into<Time>) -> Self {
        self.start = Some(instant.into());
        self
    }

    /// Leaves out an instant and times after it.
    #[must_use]
    pub fn ending_at(mut self, instant: impl Into<Time>) -> Self {
        self.end = Some(instant.into());
        self
    }

    /// Lets it start so many runs by itself, and then no more. Runs that somebody asks for do not count.
    #[must_use]
    pub fn count(mut self, runs: u64) -> Self {
        self.count = Some(runs);
        self
    }

    /// Says how it is held back when its runs fail.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// The schedule.
    ///
    /// # Errors
    ///
    /// When anything is wrong with it: every problem at once.
    pub fn check(self) -> Result<Schedule, Problems> {
        check::check(self)
    }
}
