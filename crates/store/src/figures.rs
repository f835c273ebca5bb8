//! Counts, for people.

use std::sync::Arc;

use windlass_core::{RunState, Time};

/// How many of the runs that fit a query stand in a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// The state.
    pub state: RunState,
    /// How many were seen.
    pub count: u64,
    /// Whether these are all.
    pub whole: bool,
}

/// What waits to be claimed, and what is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backlog {
    /// Each queue in which runs are ready or held, by name.
    pub queues: Vec<QueueBacklog>,
    /// The earliest time that a run waits for; it may have passed.
    pub due: Option<Time>,
}

/// What of a queue waits to be claimed, and what is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueBacklog {
    /// Its name.
    pub name: Arc<str>,
    /// How many of its runs are ready.
    pub ready: u64,
    /// How many of its runs are held.
    pub held: u64,
    /// Since when the one of those that are ready might have run that might have first.
    pub oldest: Option<Time>,
}

impl QueueBacklog {
    /// A queue with nothing in it.
    #[must_use]
    pub const fn new(name: Arc<str>) -> Self {
        Self { name, ready: 0, held: 0, oldest: None }
    }
}

/// So many more runs of a workflow came to a state. The engine says how many, and stores add up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    /// The workflow.
    pub workflow: Arc<str>,
    /// [`RunState::Running`] for runs that began, or a state in which they ended.
    pub state: RunState,
    /// When the minute began in which they did. Of all time: [`Tally::EVER`].
    pub at: Time,
    /// How many. Below zero for those that do not stand there any more; that is kept of all time alone.
    pub count: i64,
}

impl Tally {
    /// Stands for all time, in place of a minute.
    pub const EVER: Time = Time(0);

    /// For how many minutes they are kept one by one.
    pub const MINUTES: u64 = 24 * 60;
}
