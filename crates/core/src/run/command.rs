//! What a run is told, and what it asks for.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Changes, Failure, RunState, Step, TaskIx, Time};

/// One line of attempts: a plain task, or one instance of a `for_each`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LaneId {
    /// The task.
    pub task: TaskIx,
    /// The element's place, for an instance of a `for_each`.
    pub item: Option<u32>,
}

/// An attempt that may start now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// What is attempted.
    pub lane: LaneId,
    /// Counted from 1.
    pub number: u32,
    /// When the task's own deadline passes.
    pub deadline: Option<Time>,
    /// Whether a durable function is only to put things in order: the run's verdict stands.
    pub closing: bool,
}

/// What happened to a run.
#[derive(Clone, Debug)]
pub enum Event {
    /// The run was taken up: whatever can start, may start.
    Begin,
    /// An attempt is over.
    Ended {
        /// What was attempted.
        lane: LaneId,
        /// When the attempt began.
        started_at: Time,
        /// How it ended.
        ended: Ended,
        /// A uniform number in `[0, 1)` for the jitter of a retry.
        dice: f64,
    },
    /// This many more of the records asked for are durable, in the order in which they were asked for.
    Recorded(u64),
    /// An attempt gave its slot back and waits until this time before it asks again.
    Deferred {
        /// What is attempted.
        lane: LaneId,
        /// When it asks again; [`Time::MAX`] when it waits for something that has no time.
        until: Time,
    },
    /// A deferred attempt goes on.
    Undeferred(LaneId),
    /// A suspect may start: no other suspect of this node executes.
    Isolated(LaneId),
    /// Somebody wants something of the run.
    Order(Order),
    /// A durable function has failed, and has to put things in order before it ends. If the run has a verdict already,
    /// that one stands.
    Failing {
        /// What is attempted.
        lane: LaneId,
        /// Why.
        failure: Failure,
    },
    /// The node wants to give the run up: nothing new may start.
    Halt,
    /// Time has passed.
    Tick,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ended {
    /// It returned a result.
    Completed {
        /// What it changed in the context.
        changes: Changes,
        /// How many elements the result has, where a `for_each` hands them out.
        items: Option<u32>,
    },
    /// It returned a result, whose record is durable already: it was written together with the attempt's own writes.
    Recorded {
        /// What it changed in the context.
        changes: Changes,
        /// How many elements the result has, where a `for_each` hands them out.
        items: Option<u32>,
        /// When it ended, as the record says.
        at: Time,
    },
    /// It failed.
    Failed(Failure),
    /// It was stopped before it could end by itself.
    Cut,
    /// So many nodes died that executed it, that nobody tries again. Only for attempts that were published: the others
    /// are counted with their run.
    Killed {
        /// How many.
        deaths: u32,
    },
}

/// What somebody outside wants of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// End it, after what runs was stopped.
    Cancel {
        /// Why, in that person's words.
        reason: String,
    },
    /// Let what runs finish, and start nothing new.
    Pause,
    /// Go on.
    Resume,
    /// End it at once.
    Terminate {
        /// Why, in that person's words.
        reason: String,
    },
}

/// What a run asks for. Records come in the order in which they must become durable.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Keep this fact, with the lane's output if it completed.
    Record {
        /// Whose output belongs to it.
        lane: LaneId,
        /// The fact.
        step: Step,
    },
    /// Start an attempt.
    Start(Attempt),
    /// Publish an attempt, for any node to execute. Its end is told with [`Event::Ended`], whoever executed it.
    Publish(Attempt),
    /// Take back a published attempt whose deadline has passed, and say that it failed, unless it has ended.
    Withdraw {
        /// What was attempted.
        attempt: Attempt,
        /// How long its task may take.
        after: Duration,
    },
    /// Let this lane start when no other suspect executes: it was executing when its process died, and if it
    /// kills the next one too, nobody else should be blamed. Answered with [`Event::Isolated`].
    Isolate(LaneId),
    /// Stop a running attempt: tell it, give it its grace, then drop it. One that is published is cut off at once.
    Stop(LaneId),
    /// End the run, together with the records that were asked for before.
    End(Verdict),
}

/// How a run ended, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Verdict {
    /// Everything it had to do is done.
    Completed,
    /// A task failed for good.
    Failed {
        /// The first task or instance that failed.
        step: String,
        /// Its last error.
        failure: Box<Failure>,
        /// Others that failed too.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        also: Vec<String>,
    },
    /// It took longer than its time limit.
    TimedOut {
        /// The limit.
        after: Duration,
        /// The tasks that had not ended.
        unfinished: Vec<String>,
    },
    /// Somebody cancelled it.
    Cancelled {
        /// Why, in that person's words.
        reason: String,
    },
    /// It killed its process too often.
    Abandoned {
        /// The step that was started each time.
        step: String,
        /// How many times.
        deaths: u32,
    },
}

impl Verdict {
    /// The state that a run with this verdict ends in.
    #[must_use]
    pub const fn state(&self) -> RunState {
        match self {
            Self::Completed => RunState::Completed,
            Self::Failed { .. } | Self::TimedOut { .. } => RunState::Failed,
            Self::Cancelled { .. } => RunState::Cancelled,
            Self::Abandoned { .. } => RunState::Abandoned,
        }
    }
}

/// What a run does while nothing of it executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Something executes, is about to, or the run has ended: it does not rest.
    Busy,
    /// It waits for this time; `None` when only an order can move it.
    Waiting(Option<Time>),
    /// It is paused. The time is that of its time limit.
    Paused(Option<Time>),
    /// It may be given up now.
    Halted,
}
