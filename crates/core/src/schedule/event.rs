//! What a schedule is told, and what it asks for.

use serde::{Deserialize, Serialize};

use super::{Origin, Schedule, Slot};
use crate::{Fingerprint, RunId, Time};

/// What happened to a schedule.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The clock shows the time that it wanted to hear of, or any other.
    Due,
    /// A run that it started has ended.
    Ended {
        /// The run's key.
        key: String,
        /// How it ended.
        outcome: Outcome,
        /// When it ended. What counts from the end of a run counts from here, and not from when somebody looked; what may
        /// start because of it is decided by the clock as it is.
        at: Time,
    },
    /// There was a run with the key already, so none was started.
    Existed {
        /// The key.
        key: String,
    },
    /// Somebody wants a run now.
    Trigger {
        /// The same whenever the same wish is told again. It has at most 200 characters.
        id: String,
        /// Whether there is a run with the wish's [key](Slot::key) already, as seen in the transaction of this event. A
        /// wish that is told again then changes nothing.
        exists: bool,
    },
    /// Somebody wants the runs of past times.
    Backfill {
        /// From this instant on.
        from: Time,
        /// Before this instant.
        to: Time,
    },
    /// Nothing more is to be started, until it is resumed.
    Pause {
        /// Why, in that person's words.
        note: String,
    },
    /// Go on.
    Resume,
    /// Forget the failures, and go on.
    Reset,
    /// It was declared again, under the same name.
    Update(Box<Schedule>),
    /// It is no longer wanted.
    Remove,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It completed.
    Completed,
    /// It failed, or was abandoned.
    Failed {
        /// Why.
        error: String,
    },
    /// Somebody cancelled it, which says nothing about the schedule.
    Cancelled,
}

/// What a schedule asks for. All of it, and the new state, belong into one transaction.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Start a run, unless there is one with its key: then say so with [`Event::Existed`], in the same transaction.
    Start(Firing),
    /// Cancel a run.
    Cancel {
        /// Its key.
        key: String,
    },
    /// Tell it of the clock at this time; `None` is not at all. It takes the place of what was asked for before.
    Advance(Option<Time>),
    /// Forget the schedule. Runs that are under way go on.
    Remove,
    /// Say that this happened, to whoever asks or reads along.
    Tell(Tell),
}

/// A run that is to be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Firing {
    /// The run's key: `nightly@2026-03-01T01:00:00Z` for a time, `nightly!id` for a wish.
    pub key: String,
    /// The workflow that it is a run of.
    pub workflow: String,
    /// The time that it is for; for a wish, when it was told.
    pub scheduled_at: Time,
    /// When it is started.
    pub fired_at: Time,
    /// Why.
    pub origin: Origin,
}

impl Firing {
    /// The id of the run, when a schedule that is kept under this id starts it in this turn of its own. It begins with the
    /// time, as all ids do; the rest depends on nothing else.
    #[must_use]
    pub fn run(&self, schedule: RunId, turn: u64) -> RunId {
        let seed = Fingerprint::new().part("windlass firing 1").part(schedule.as_bytes());
        seed.part(turn.to_le_bytes()).part(&self.key).run_id(self.fired_at)
    }
}

/// What happened to a schedule, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tell {
    /// A time or a wish is left out.
    Skipped {
        /// Which.
        slot: Slot,
        /// Why.
        why: Skip,
    },
    /// A time or a wish waits until it may start.
    Waits {
        /// Which.
        slot: Slot,
    },
    /// Times were missed, and are not made up for.
    Missed {
        /// The first of them.
        first: Time,
        /// The last of them.
        last: Time,
        /// How many there are, counted up to 1,000.
        times: u64,
    },
    /// A run failed, and nothing is started by the clock for a while.
    BacksOff {
        /// Until when.
        until: Time,
        /// How many have failed in a row.
        streak: u32,
    },
    /// Too many runs have failed in a row: nothing is started until somebody resets it.
    Trips {
        /// How many.
        streak: u32,
    },
    /// Past times that somebody asked for are not started.
    BackfillRefused(super::BackfillError),
    /// Past times that somebody asked for are no longer started: the schedule has other times now, or was removed.
    BackfillDropped {
        /// The first that is left out.
        first: Time,
        /// The last.
        last: Time,
    },
    /// It was declared with other settings.
    Updated {
        /// What is different, in words.
        difference: Vec<String>,
    },
}

/// Why a time or a wish is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Skip {
    /// A run is under way.
    Running,
    /// Too many wait already.
    Full,
    /// A later time has taken its place.
    Replaced,
    /// It has stopped after too many failures: reset it first.
    Tripped,
    /// The schedule was removed.
    Removed,
    /// The id of the wish has more than 200 characters; the first 200 are told.
    TooLong,
}
