//! The states of runs and tasks, and every step from one to another that is legal.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where a run stands. The numbers are what stores keep, so they never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(u8)]
pub enum RunState {
    /// Committed, and waiting for a node with room, for its delay, or for its queue.
    Pending = 0,
    /// Owned by a node; something is or may be executing.
    Running = 1,
    /// Parked until a time, an event or an order.
    Suspended = 2,
    /// A person said so: nothing new starts until it is resumed.
    Paused = 3,
    /// No live node has code that can continue it. It resumes by itself when one appears.
    Blocked = 4,
    /// Its verdict is final, and its undos are running.
    Undoing = 5,
    /// Everything it had to do is done.
    Completed = 6,
    /// A task failed for good, or the run took too long.
    Failed = 7,
    /// Somebody cancelled it.
    Cancelled = 8,
    /// It killed its process too often.
    Abandoned = 9,
}

impl RunState {
    /// Every state, in the order of its number.
    pub const ALL: [Self; 10] = [
        Self::Pending,
        Self::Running,
        Self::Suspended,
        Self::Paused,
        Self::Blocked,
        Self::Undoing,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
        Self::Abandoned,
    ];

    /// The states that only a person's retry leaves.
    pub const TERMINAL: [Self; 4] = [Self::Completed, Self::Failed, Self::Cancelled, Self::Abandoned];

    /// The state with this number.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// Whether the run has ended.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled | Self::Abandoned)
    }
}

impl fmt::Display for RunState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Where a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TaskState {
    /// Its run has not begun.
    NotStarted,
    /// It waits for its dependencies.
    Pending,
    /// It may run, and waits for a slot or for the time of its retry.
    Ready,
    /// An attempt is executing.
    Running,
    /// It returned a result, which is recorded.
    Completed,
    /// Its last attempt failed.
    Failed,
    /// Its rule said no.
    Skipped,
    /// The run was cancelled, or failed fast, before it ended.
    Cancelled,
    /// It killed its process too often.
    Abandoned,
}

impl TaskState {
    /// Every state.
    pub const ALL: [Self; 9] = [
        Self::NotStarted,
        Self::Pending,
        Self::Ready,
        Self::Running,
        Self::Completed,
        Self::Failed,
        Self::Skipped,
        Self::Cancelled,
        Self::Abandoned,
    ];

    /// Whether the task has ended.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Skipped | Self::Cancelled | Self::Abandoned)
    }
}

impl fmt::Display for TaskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
