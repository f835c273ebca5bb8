//! What a run is told.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use windlass_core::{Failure, LaneId, TaskView, Time};
use windlass_store::{InboxRow, SpreadKey};

use super::Recall;
use crate::{Done, committer::Lost};

/// What a run is told.
pub(crate) enum Mail {
    /// It is held, with what came before that.
    Begin(Vec<InboxRow>),
    /// An attempt is over; without an outcome when it was cut off.
    Ended { lane: LaneId, started_at: Time, outcome: Option<Box<Result<Done, Failure>>> },
    /// An attempt has completed, and its record is durable: it was committed with what the attempt wrote.
    Recorded { lane: LaneId, done: Box<Done>, record: Recorded },
    /// So many records are durable, or not to be.
    Committed(u64, Result<(), Box<Lost>>),
    /// The attempt of this number waits without a slot.
    Deferred(LaneId, u32, Time),
    /// A deferred attempt of this number goes on.
    Undeferred(LaneId, u32),
    /// Published attempts were taken back, but for those that are named as out.
    Withdrawn { lanes: Vec<(LaneId, u32)>, out: Vec<SpreadKey>, why: Recall },
    /// Something came from outside.
    Inbox(Box<InboxRow>),
    /// The time has come that the core named.
    Tick,
    /// Begin more of what may start.
    GoOn,
    /// Start nothing new; give the run up when nothing executes.
    Halt,
    /// Stop what executes, and give the run up.
    GiveUp,
    /// A suspect may start, and keeps others from starting until its attempt has ended.
    Isolated(LaneId, OwnedSemaphorePermit),
    /// A durable function has failed, and has to put things in order.
    Failing(LaneId, Failure),
    /// The records do not fit the code of a durable function, for this reason.
    Blocked(String),
    /// Things are in order, and the run may end.
    InOrder,
    /// A durable function has stopped where it can be taken up again, because the node gives the run up.
    Surrender,
    /// Say where the tasks stand.
    Describe(oneshot::Sender<Described>),
    /// The run is not this node's any more: drop it without a word.
    Vanish,
}

/// What a record that is durable says beside the result.
pub(crate) struct Recorded {
    pub(crate) started_at: Time,
    pub(crate) ended_at: Time,
    /// The result, as the store keeps it.
    pub(crate) kept: Bytes,
    /// How many elements the result has, where a `for_each` hands them out.
    pub(crate) items: Option<u32>,
}

/// Where the tasks of a run stand, and how far those that execute say they have come.
pub(crate) struct Described {
    pub(crate) tasks: Vec<TaskView>,
    pub(crate) progress: HashMap<Arc<str>, f64>,
}
