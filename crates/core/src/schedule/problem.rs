//! What can be wrong with a schedule, in words that say what to do.

use std::{error::Error, fmt};

use super::{CronError, UnknownZone};
use crate::problem::one_per_line;

/// One thing that is wrong with a [`ScheduleDraft`](super::ScheduleDraft).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A name cannot be used.
    #[error("{what} cannot be called `{name}`: {why}")]
    Name {
        /// What has the name.
        what: &'static str,
        /// The name.
        name: String,
        /// Why not.
        why: &'static str,
    },
    /// Nothing says when it fires.
    #[error("`{schedule}` does not say when: use `every`, `cron`, `at` or `manual`")]
    NoTiming {
        /// The schedule.
        schedule: String,
    },
    /// It says more than once when it fires.
    #[error("`{schedule}` says when in more than one way ({}): make it several schedules", .ways.join(", "))]
    Timings {
        /// The schedule.
        schedule: String,
        /// How.
        ways: Vec<&'static str>,
    },
    /// The cron expression cannot be used.
    #[error("{0}")]
    Cron(#[from] CronError),
    /// The time zone is not known.
    #[error("{0}")]
    Zone(#[from] UnknownZone),
    /// A setting belongs to another kind of schedule.
    #[error("`{schedule}` has `{setting}`, which is for {belongs} only")]
    Misplaced {
        /// The schedule.
        schedule: String,
        /// The setting.
        setting: &'static str,
        /// What it belongs to.
        belongs: &'static str,
    },
    /// A setting makes no sense.
    #[error("the {setting} of `{schedule}` cannot be used: {why}")]
    Setting {
        /// The schedule.
        schedule: String,
        /// The setting.
        setting: &'static str,
        /// Why not.
        why: String,
    },
    /// It has no time between its bounds.
    #[error("`{schedule}` never fires: it has no time from {from} until {until}")]
    Never {
        /// The schedule.
        schedule: String,
        /// From when on, in words.
        from: String,
        /// Until when, in words.
        until: String,
    },
}

/// Everything that is wrong with a [`ScheduleDraft`](super::ScheduleDraft): at least one thing. It prints one per line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub(super) Vec<Problem>);

impl Problems {
    /// The problems, in the order in which they were found.
    pub fn iter(&self) -> std::slice::Iter<'_, Problem> {
        self.0.iter()
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        one_per_line(f, &self.0)
    }
}

impl Error for Problems {}
