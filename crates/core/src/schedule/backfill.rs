//! Runs for times that are past.

use serde::{Deserialize, Serialize};

use super::{Schedule, State, Timing, decide::GRACE};
use crate::Time;

/// More times than this are not asked for at once.
const MOST: usize = 10_000;

/// More wishes for past times than this do not wait.
pub(super) const MOST_SPANS: usize = 10;

/// Why past times cannot be started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum BackfillError {
    /// It has no times of its own.
    #[error("`{schedule}` has no times that could be past: it fires {words}")]
    NoTimes {
        /// The schedule.
        schedule: String,
        /// When it fires.
        words: String,
    },
    /// The end is not after the beginning.
    #[error("from {from} until {to} is no time at all")]
    Empty {
        /// The beginning.
        from: Time,
        /// The end.
        to: Time,
    },
    /// The end is in the future.
    #[error("{to} is not past yet: it is {now}")]
    NotPast {
        /// The end.
        to: Time,
        /// The time.
        now: Time,
    },
    /// There are too many times.
    #[error(
        "`{schedule}` has more than {MOST} times from {from} until {to}: ask for fewer, such as until {enough}"
    )]
    TooMany {
        /// The schedule.
        schedule: String,
        /// The beginning.
        from: Time,
        /// The end.
        to: Time,
        /// An end that is near enough.
        enough: Time,
    },
    /// Too many such wishes wait already.
    #[error("`{schedule}` still has {MOST_SPANS} wishes for past times to fulfil")]
    Busy {
        /// The schedule.
        schedule: String,
    },
}

impl Schedule {
    /// The times from one instant until another whose runs a backfill would start: a dry run.
    ///
    /// Times that the schedule has not decided on yet are not among them: it will. Those that have a run already are, and
    /// keep the run they have.
    ///
    /// # Errors
    ///
    /// When it has no times of its own, when the end is not past or not after the beginning, or when there are more than
    /// 10,000 times.
    pub fn backfill(
        &self,
        state: &State,
        from: Time,
        to: Time,
        now: Time,
    ) -> Result<Vec<Time>, BackfillError> {
        let schedule = || self.name().to_owned();
        if matches!(self.timing(), Timing::AfterFinish(_) | Timing::Manual) {
            return Err(BackfillError::NoTimes { schedule: schedule(), words: self.timing().in_words() });
        }
        if from >= to {
            return Err(BackfillError::Empty { from, to });
        }
        // Whoever says `until now` has looked at a clock that may be ahead a little.
        if to > now + GRACE {
            return Err(BackfillError::NotPast { to, now });
        }
        if state.backfills.len() >= MOST_SPANS {
            return Err(BackfillError::Busy { schedule: schedule() });
        }
        let first = self.next_time(Time(from.0.saturating_sub(1)));
        let times = std::iter::successors(first, |time| self.next_time(*time));
        let times = times.take_while(|time| *time < to && *time <= state.cursor);
        let times: Vec<Time> = times.take(MOST + 1).collect();
        match times.get(MOST) {
            Some(enough) => Err(BackfillError::TooMany { schedule: schedule(), from, to, enough: *enough }),
            None => Ok(times),
        }
    }
}
