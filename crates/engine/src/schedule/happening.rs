//! What happened to a schedule, for people.

use std::fmt;

use serde::{Deserialize, Serialize};
use windlass_core::{
    RunId, RunState, Time,
    schedule::{Origin, Skip, Tell},
};

use crate::Error;

/// Something that happened to a schedule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Happening {
    /// When.
    pub at: Time,
    /// What.
    pub what: What,
}

/// What can happen to a schedule. It prints as a sentence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum What {
    /// It was declared for the first time, or after it was removed.
    Declared,
    /// It started a run.
    Started {
        /// The run's key.
        key: String,
        /// The run.
        run: RunId,
        /// The time that it is for.
        scheduled_at: Time,
        /// Why.
        origin: Origin,
    },
    /// One of its runs ended.
    Ended {
        /// The run's key.
        key: String,
        /// The run.
        run: RunId,
        /// How.
        state: RunState,
        /// Why, if it did not complete.
        error: Option<String>,
    },
    /// There was a run for this time already, so none was started.
    Existed {
        /// The key of that run.
        key: String,
    },
    /// Somebody paused it.
    Paused {
        /// Why, in their words.
        note: String,
    },
    /// Somebody let it go on.
    Resumed,
    /// Somebody reset it.
    Reset,
    /// Somebody asked for the runs of past times.
    BackfillAsked {
        /// From this instant on.
        from: Time,
        /// Before this instant.
        to: Time,
    },
    /// Somebody removed it.
    Removed,
    /// It came to this by itself.
    Told(Tell),
}

/// No more than so many characters of anybody's words are kept: a hundred happenings are read whenever a schedule is.
const LONGEST: usize = 1_000;

/// As much of it as is kept.
pub(crate) fn cut(words: String) -> String {
    match words.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &words[..end]),
        None => words,
    }
}

/// A note that is too long is refused: it is read whenever the schedule is.
pub(crate) fn checked_note(note: String) -> Result<String, Error> {
    match note.chars().count() {
        0..=LONGEST => Ok(note),
        long => Err(Error::Invalid(format!("a note of {long} characters is too long: {LONGEST} are kept"))),
    }
}

impl What {
    /// The same in no more words than are kept.
    pub(super) fn cut(self) -> Self {
        match self {
            Self::Ended { key, run, state, error } => Self::Ended { key, run, state, error: error.map(cut) },
            Self::Paused { note } => Self::Paused { note: cut(note) },
            other => other,
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Declared => f.write_str("declared"),
            Self::Started { key, origin, .. } => write!(f, "started {key} ({})", reason(*origin)),
            Self::Ended { key, state, error, .. } => {
                write!(f, "{key} is {state}")?;
                error.as_ref().map_or(Ok(()), |error| write!(f, ": {error}"))
            }
            Self::Existed { key } => write!(f, "{key} was there already"),
            Self::Paused { note } if note.is_empty() => f.write_str("paused"),
            Self::Paused { note } => write!(f, "paused: {note}"),
            Self::Resumed => f.write_str("resumed"),
            Self::Reset => f.write_str("reset"),
            Self::BackfillAsked { from, to } => write!(f, "asked for the times from {from} until {to}"),
            Self::Removed => f.write_str("removed"),
            Self::Told(tell) => told(f, tell),
        }
    }
}

fn told(f: &mut fmt::Formatter<'_>, tell: &Tell) -> fmt::Result {
    match tell {
        Tell::Skipped { slot, why } => write!(f, "left out {slot}: {}", left_out(*why)),
        Tell::Waits { slot } => write!(f, "{slot} waits for a run to end"),
        Tell::Missed { first, last, times } => write!(f, "missed {times} times, from {first} to {last}"),
        Tell::BacksOff { until, streak } => {
            write!(f, "held back until {until} after {streak} failures in a row")
        }
        Tell::Trips { streak } => write!(f, "stopped after {streak} failures in a row: reset it to go on"),
        Tell::BackfillRefused(why) => write!(f, "past times are not started: {why}"),
        Tell::BackfillDropped { first, last } => write!(f, "gave up the past times from {first} to {last}"),
        Tell::Updated { difference } => write!(f, "updated: {}", difference.join("; ")),
    }
}

fn reason(origin: Origin) -> &'static str {
    match origin {
        Origin::Clock => "its time had come",
        Origin::CatchUp => "made up for",
        Origin::Trigger => "somebody asked for it",
        Origin::Backfill => "a past time",
    }
}

fn left_out(why: Skip) -> &'static str {
    match why {
        Skip::Running => "a run was under way",
        Skip::Full => "too many wait already",
        Skip::Replaced => "a later one took its place",
        Skip::Tripped => "it has stopped after too many failures",
        Skip::Removed => "the schedule was removed",
        Skip::TooLong => "its id is too long",
    }
}
