//! The parts of a run: its tasks, their attempts, and what durable functions called.

use serde::Serialize;
use utoipa::ToSchema;
use windlass::{AttemptStatus, CallKind, CallStatus, FailureKind, TaskStatus};

use super::{
    instant,
    state::{Outcome, Stage},
};

/// Why something failed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Failure {
    /// `error`, `panic`, `timed_out`, `deadline_exceeded`, `beat_lost`, `cancelled`, `decode` or `encode`.
    kind: &'static str,
    /// What happened, in the words of whoever said so first.
    message: String,
    /// The messages of the error's sources, outermost first.
    chain: Vec<String>,
    /// Whether it is likely to go away by itself.
    transient: bool,
}

impl From<windlass::Failure> for Failure {
    fn from(failure: windlass::Failure) -> Self {
        let kind = match failure.kind {
            FailureKind::Error => "error",
            FailureKind::Panic => "panic",
            FailureKind::TimedOut => "timed_out",
            FailureKind::DeadlineExceeded => "deadline_exceeded",
            FailureKind::BeatLost => "beat_lost",
            FailureKind::Cancelled => "cancelled",
            FailureKind::Decode => "decode",
            FailureKind::Encode => "encode",
        };
        Self { kind, message: failure.message, chain: failure.chain, transient: failure.transient }
    }
}

/// Where a task of a run stands.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Task {
    name: String,
    state: Stage,
    /// Why it was skipped, in words.
    skipped_because: Option<String>,
    /// The last error, if it failed.
    failure: Option<Failure>,
    /// Its finished attempts; for a `for_each`, those of all elements.
    attempts: Vec<Attempt>,
    /// For a `for_each` that has begun.
    items: Option<Items>,
    /// How far a running attempt says it has come, from 0 to 1.
    progress: Option<f64>,
    /// How its undo stands, if that has begun.
    undo: Option<Stage>,
    /// The last error of its undo.
    undo_failure: Option<Failure>,
}

/// The elements of a `for_each`.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Items {
    /// How many have ended.
    ended: usize,
    /// How many there are.
    total: usize,
}

impl From<TaskStatus> for Task {
    fn from(task: TaskStatus) -> Self {
        Self {
            name: task.name.to_string(),
            state: task.state.into(),
            skipped_because: task.skip.map(|skip| skip.to_string()),
            failure: task.failure.map(Into::into),
            attempts: task.attempts.into_iter().map(Into::into).collect(),
            items: task.items.map(|(ended, total)| Items { ended, total }),
            // JSON has no words for what is no number.
            progress: task.progress.filter(|progress| progress.is_finite()),
            undo: task.undo.map(Into::into),
            undo_failure: task.undo_failure.map(Into::into),
        }
    }
}

/// A finished attempt.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Attempt {
    /// The task's name, with the element's place in a `for_each`.
    step: String,
    /// In which generation of the run.
    generation: u32,
    /// Which attempt, counted from 1.
    number: u32,
    outcome: Outcome,
    #[schema(format = DateTime)]
    started_at: String,
    #[schema(format = DateTime)]
    ended_at: String,
    failure: Option<Failure>,
    /// When the next attempt is due.
    #[schema(format = DateTime)]
    retry_at: Option<String>,
}

impl From<AttemptStatus> for Attempt {
    fn from(attempt: AttemptStatus) -> Self {
        Self {
            step: attempt.step.to_string(),
            generation: attempt.generation,
            number: attempt.number,
            outcome: attempt.kind.into(),
            started_at: instant(attempt.started_at),
            ended_at: instant(attempt.ended_at),
            failure: attempt.failure.map(Into::into),
            retry_at: attempt.retry_at.map(instant),
        }
    }
}

/// Something that a durable function called, or a task waited for.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Call {
    /// Its name, with a number from the second of that name on: `charge#2`.
    name: String,
    /// `step`, `sleep`, `event`, `child`, `patch` or `visit`.
    kind: &'static str,
    state: Stage,
    /// How many attempts have ended.
    attempts: u32,
    failure: Option<Failure>,
    #[schema(format = DateTime)]
    started_at: String,
    #[schema(format = DateTime)]
    ended_at: String,
    /// When the next attempt is due, or a wait ends.
    #[schema(format = DateTime)]
    retry_at: Option<String>,
    /// The run that a `child` is, if it is known: of a fork's it is not.
    #[schema(format = Uuid)]
    child: Option<String>,
    undo: Option<Stage>,
    undo_failure: Option<Failure>,
}

impl From<CallStatus> for Call {
    fn from(call: CallStatus) -> Self {
        let kind = match call.kind {
            CallKind::Step => "step",
            CallKind::Sleep => "sleep",
            CallKind::Event => "event",
            CallKind::Child => "child",
            CallKind::Patch => "patch",
            CallKind::Visit => "visit",
        };
        Self {
            name: call.name.to_string(),
            kind,
            state: call.state.into(),
            attempts: call.attempts,
            failure: call.failure.map(Into::into),
            started_at: instant(call.started_at),
            ended_at: instant(call.ended_at),
            retry_at: call.retry_at.map(instant),
            child: call.child.map(|child| child.to_string()),
            undo: call.undo.map(Into::into),
            undo_failure: call.undo_failure.map(Into::into),
        }
    }
}
