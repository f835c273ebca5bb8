//! Queues with limits: what they are told, and what is in them.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use windlass_core::Time;

use crate::Rate;

/// How much of a queue may be under way, over all nodes together. `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct QueueLimits {
    /// How many of its runs are held at once.
    pub concurrency: Option<u32>,
    /// How many of them one node holds.
    pub per_node: Option<u32>,
    /// How many of them have the same [key](crate::NewRun::queue_key). Those without a key are not counted.
    pub per_key: Option<u32>,
    /// How many are taken in a span of time.
    pub rate: Option<Rate>,
    /// How many with the same key are taken in a span of time. Those without a key are not counted.
    pub key_rate: Option<Rate>,
    /// For how long a run waits until it is as urgent as one that is a step more urgent and was started then. `None` is for
    /// ever.
    pub ageing: Option<Duration>,
    /// Whether a run that was taken once counts until it ends, also while nobody holds it.
    pub hold: bool,
}

impl QueueLimits {
    /// None at all.
    pub const NONE: Self = Self {
        concurrency: None,
        per_node: None,
        per_key: None,
        rate: None,
        key_rate: None,
        ageing: None,
        hold: false,
    };
}

/// A change of what a queue is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueChange {
    /// Sets all limits.
    Limits(QueueLimits),
    /// Lets nobody take anything from it, or lets them again. What was taken is left alone.
    Paused(bool),
    /// Takes back all that it was told: it has no limits, is not paused, and is not shown. Its runs are still handed out as
    /// those of a declared queue are, since some may have keys.
    Removed,
}

/// What a change did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueChanged {
    /// The queue was not declared before.
    Created,
    /// It was so before.
    Unchanged,
    /// It was otherwise before.
    Updated,
}

/// A queue that was declared, and what is in it.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueRow {
    /// Its name.
    pub name: Arc<str>,
    /// Its limits.
    pub limits: QueueLimits,
    /// Whether nobody takes anything from it.
    pub paused: bool,
    /// How many of its runs are ready. Those that wait for a time or a message are not counted.
    pub depth: u64,
    /// Since when the one of them that was started first might have run: what was delayed, since it was due.
    pub oldest: Option<Time>,
    /// How many of its runs count against its limits.
    pub running: u64,
}

impl QueueRow {
    /// A queue with nothing in it.
    #[must_use]
    pub const fn new(name: Arc<str>) -> Self {
        let limits = QueueLimits::NONE;
        Self { name, limits, paused: false, depth: 0, oldest: None, running: 0 }
    }
}

/// What a store keeps of a queue to know whose turn it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueState {
    /// Its limits.
    pub limits: QueueLimits,
    /// Whether nobody takes anything from it.
    pub paused: bool,
    /// The lane that had the last turn; `None` before the first.
    pub cursor: Option<String>,
    /// Whether what it was told was taken back.
    pub removed: bool,
}

impl QueueState {
    /// What a change makes of a queue, which is `None` if it was not declared, and what it is to be called. `None` when it
    /// changes nothing.
    #[must_use]
    pub fn change(before: Option<&Self>, change: QueueChange) -> Option<(Self, QueueChanged)> {
        let is_there = before.is_some_and(|before| !before.removed);
        let mut state = Self { removed: false, ..before.cloned().unwrap_or_default() };
        match change {
            QueueChange::Limits(limits) => state.limits = limits,
            QueueChange::Paused(false) | QueueChange::Removed if !is_there => return None,
            QueueChange::Paused(paused) => state.paused = paused,
            QueueChange::Removed => {
                state = Self { cursor: state.cursor, removed: true, ..Self::default() };
            }
        }
        match is_there {
            false => Some((state, QueueChanged::Created)),
            true => (before != Some(&state)).then_some((state, QueueChanged::Updated)),
        }
    }
}
