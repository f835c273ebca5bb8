//! Where a schedule stands.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Schedule, Timing};
use crate::Time;

/// Where a schedule stands. It is kept in one row, and changed by [`Schedule::decide`] alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Every time up to here has been decided on, once and for all.
    pub(super) cursor: Time,
    /// When the last run ended, or the schedule was declared: what a fixed delay counts from.
    pub(super) rested_at: Time,
    /// How many runs it started by itself.
    pub(super) fired: u64,
    /// How many runs it started, whoever asked for them.
    pub(super) runs: u64,
    /// The runs that have not ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) running: Vec<Live>,
    /// What is to be started when they have, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) waiting: Vec<Waiting>,
    /// What is left of past times that somebody asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) backfills: Vec<Span>,
    /// Why it was paused, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) paused: Option<String>,
    /// Whether it has stopped after too many failures.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) tripped: bool,
    /// How many runs have failed in a row.
    #[serde(default)]
    pub(super) streak: u32,
    /// Why the last of them did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) last_error: Option<String>,
    /// Until when nothing could be started that the clock asked for.
    pub(super) held_until: Time,
    /// The last run that was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) last_run: Option<LastRun>,
    /// The last before it that had ended: what is put back when the start of that one is taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ended_run: Option<LastRun>,
    /// When it wants to hear of the clock again.
    pub(super) wake: Option<Time>,
}

/// What a run is started for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Slot {
    /// A time of the schedule.
    Time(Time),
    /// Somebody's wish, by an id that the same wish has whenever it is told again.
    Wish(String),
}

/// Why a run is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Origin {
    /// Its time has come.
    Clock,
    /// Its time was missed, and is made up for.
    CatchUp,
    /// Somebody asked for a run now.
    Trigger,
    /// Somebody asked for past times.
    Backfill,
}

/// A run that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Live {
    pub(super) slot: Slot,
    pub(super) origin: Origin,
    pub(super) fired_at: Time,
    /// Whether it was asked to end, so that it is asked once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) cancelled: bool,
    /// Whether it was under way when another failed, or somebody forgave: then its failure is not one more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) excused: bool,
}

/// Something that is started later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Waiting {
    pub(super) slot: Slot,
    pub(super) origin: Origin,
    /// Its time, or when somebody wished for it.
    pub(super) at: Time,
}

/// Past times that are started one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Span {
    /// The times after this one are left.
    pub(super) after: Time,
    /// This one included.
    pub(super) last: Time,
}

/// The last run that was started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastRun {
    /// The run's key.
    pub key: String,
    /// When it was started.
    pub fired_at: Time,
    /// When it ended, if it has.
    pub ended_at: Option<Time>,
    /// Whether it completed.
    pub completed: bool,
}

/// What a schedule does, in a word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    /// Nothing has run, or the last run was cancelled, or its failure does not count: another that was beside it had failed
    /// before, or somebody had reset the schedule.
    Idle,
    /// A run is under way.
    Running,
    /// The last run completed.
    Completed,
    /// The last run failed.
    Backoff {
        /// Nothing is started by the clock before.
        until: Time,
        /// How many have failed in a row.
        streak: u32,
        /// Why the last one did.
        last_error: String,
    },
    /// It has stopped until somebody resets it.
    Tripped {
        /// How many have failed in a row.
        streak: u32,
        /// Why the last one did.
        last_error: String,
    },
}

impl State {
    /// That of a schedule which is declared for the first time.
    pub(super) fn declared(cursor: Time, now: Time) -> Self {
        Self {
            cursor,
            rested_at: now,
            fired: 0,
            runs: 0,
            running: Vec::new(),
            waiting: Vec::new(),
            backfills: Vec::new(),
            paused: None,
            tripped: false,
            streak: 0,
            last_error: None,
            held_until: Time(i64::MIN),
            last_run: None,
            ended_run: None,
            wake: None,
        }
    }

    /// What it does, in a word.
    #[must_use]
    pub fn status(&self) -> Status {
        let (streak, last_error) = (self.streak, self.last_error.clone().unwrap_or_default());
        if self.tripped {
            return Status::Tripped { streak, last_error };
        }
        match &self.last_run {
            _ if !self.running.is_empty() => Status::Running,
            _ if streak > 0 => Status::Backoff { until: self.held_until, streak, last_error },
            Some(last) if last.completed => Status::Completed,
            _ => Status::Idle,
        }
    }

    /// When it wants to hear of the clock again: `None` while only something else can move it.
    #[must_use]
    pub fn wake(&self) -> Option<Time> {
        self.wake
    }

    /// Whether the end of a run may change what comes next, and when. Otherwise it is time enough to hear of it at the next
    /// time: of one end. Of several, one that failed has to be heard of before another lets the schedule look at the clock.
    #[must_use]
    pub fn awaits_ends(&self, schedule: &Schedule) -> bool {
        let (is_held, are_several) = (self.streak > 0 || self.tripped, self.running.len() > 1);
        let is_behind = !self.waiting.is_empty() || !self.backfills.is_empty();
        is_held || is_behind || are_several || matches!(schedule.timing(), Timing::AfterFinish(_))
    }

    /// Why it was paused, if it is.
    #[must_use]
    pub fn paused(&self) -> Option<&str> {
        self.paused.as_deref()
    }

    /// How many runs it has started, whoever asked for them.
    #[must_use]
    pub fn runs(&self) -> u64 {
        self.runs
    }

    /// The last run that was started.
    #[must_use]
    pub fn last_run(&self) -> Option<&LastRun> {
        self.last_run.as_ref()
    }

    /// The keys of its runs that have not ended, in the order in which they were started.
    #[must_use]
    pub fn running(&self, schedule: &Schedule) -> Vec<String> {
        self.running.iter().map(|live| live.slot.key(schedule.name())).collect()
    }

    /// The next times that it has not decided on: as many as asked for, or fewer when it ends before. While a run is
    /// under way, a fixed delay has none.
    #[must_use]
    pub fn next_times(&self, schedule: &Schedule, count: usize) -> Vec<Time> {
        let left = usize::try_from(self.left(schedule)).unwrap_or(usize::MAX);
        let first = self.next_time(schedule);
        std::iter::successors(first, |time| schedule.next_time(*time)).take(count.min(left)).collect()
    }

    /// How many more runs it may start by itself.
    pub(super) fn left(&self, schedule: &Schedule) -> u64 {
        schedule.settings().count.map_or(u64::MAX, |count| {
            let waiting = self.waiting.iter().filter(|waiting| waiting.origin.is_by_clock()).count();
            count.saturating_sub(self.fired + waiting as u64)
        })
    }
}

impl Origin {
    /// Whether it counts among the runs that a schedule starts by itself.
    pub(super) const fn is_by_clock(self) -> bool {
        matches!(self, Self::Clock | Self::CatchUp)
    }
}

impl Live {
    pub(super) fn as_last_run(&self, schedule: &str) -> LastRun {
        let key = self.slot.key(schedule);
        LastRun { key, fired_at: self.fired_at, ended_at: None, completed: false }
    }
}

impl Slot {
    /// What a run was started for, by its key; `None` when it is not one of this schedule's.
    pub(super) fn of(key: &str, schedule: &str) -> Option<Self> {
        let rest = key.strip_prefix(schedule)?;
        let slot = match rest.strip_prefix('!') {
            Some(id) => Self::Wish(id.to_owned()),
            None => {
                let at: jiff::Timestamp = rest.strip_prefix('@')?.parse().ok()?;
                Self::Time(Time(at.as_microsecond()))
            }
        };
        // The same instant in other words is another key.
        (slot.key(schedule) == key).then_some(slot)
    }

    /// The key of its run: one run for each time of a schedule, and one for each wish.
    #[must_use]
    pub fn key(&self, schedule: &str) -> String {
        match self {
            Self::Time(time) => format!("{schedule}@{time}"),
            Self::Wish(id) => format!("{schedule}!{id}"),
        }
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(time) => time.fmt(f),
            Self::Wish(id) => write!(f, "wish {id}"),
        }
    }
}
