//! What is known about a finished attempt: the facts that a run is rebuilt from.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{CallKind, Changes, Failure, Time, Verdict};

/// A finished attempt of a task, as it is recorded. Its output is kept beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The task's name, with the element's place for an instance of a `for_each`: `enrich[3]`.
    pub name: Arc<str>,
    /// Which attempt this was, counted from 1. Zero for a task that never ran.
    pub attempt: u32,
    /// How many times the run had been recovered from a dead process when this was written.
    pub epoch: u32,
    /// How it ended.
    pub kind: StepKind,
    /// When the attempt began.
    pub started_at: Time,
    /// When it ended.
    pub ended_at: Time,
    /// What else there is to say; nothing, for a plain success.
    pub detail: Detail,
}

/// How an attempt ended. The numbers are what stores keep, so they never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(u8)]
pub enum StepKind {
    /// The task completed, and its output is beside the record.
    Completed = 0,
    /// The task failed, and no attempt follows.
    Failed = 1,
    /// The attempt failed, and another follows.
    Retrying = 2,
    /// The task's rule said no.
    Skipped = 3,
    /// The run was cancelled, or failed fast, before the task could end.
    Cancelled = 4,
    /// The attempt has begun. Written only after a recovery.
    Started = 5,
}

impl StepKind {
    /// Every kind, in the order of its number.
    pub const ALL: [Self; 6] =
        [Self::Completed, Self::Failed, Self::Retrying, Self::Skipped, Self::Cancelled, Self::Started];

    /// The kind with this number.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// Whether the task (or instance) is done with, whatever the outcome.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        !matches!(self, Self::Retrying | Self::Started)
    }
}

/// What a step record says beside its outcome.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Detail {
    /// Why the attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Box<Failure>>,
    /// Why the task was skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<Box<Skip>>,
    /// When the next attempt is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Time>,
    /// How many elements a result has that a `for_each` hands out; or how many instances a `for_each` had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<u32>,
    /// What the task changed in the run's context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<Box<Changes>>,
    /// What a durable function called, where it was not a step.
    #[serde(default, skip_serializing_if = "CallKind::is_step")]
    pub call: CallKind,
    /// Whether a child that was started goes on when its parent ends.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub left: bool,
    /// How the run will end, once its undos have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Box<Verdict>>,
    /// That the run went on under a changed definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<Box<Changed>>,
}

/// That a run went on under a changed definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// The version that it followed until then.
    pub from: String,
    /// The version that it follows from then on.
    pub to: String,
    /// The number that the store knows that version by.
    pub definition: i64,
}

impl Detail {
    /// What a completed attempt says.
    #[must_use]
    pub fn completed(changes: Changes, items: Option<u32>) -> Self {
        let changes = (!changes.is_empty()).then(|| Box::new(changes));
        Self { changes, items, ..Self::default() }
    }

    /// Whether there is nothing to write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { failure, skipped, retry_at, items, changes, call, left, verdict, changed } = self;
        failure.is_none()
            && skipped.is_none()
            && retry_at.is_none()
            && items.is_none()
            && changes.is_none()
            && call.is_step()
            && !left
            && verdict.is_none()
            && changed.is_none()
    }
}

/// Why a task did not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Skip {
    /// It needed a task that failed.
    UpstreamFailed(String),
    /// It needed a task that was skipped.
    UpstreamSkipped(String),
    /// Its rule did not hold.
    Rule,
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UpstreamFailed(task) => write!(f, "`{task}` failed"),
            Self::UpstreamSkipped(task) => write!(f, "`{task}` was skipped"),
            Self::Rule => f.write_str("its rule did not hold"),
        }
    }
}
