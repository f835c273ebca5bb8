//! What a workflow is, as data: tasks, what they wait for, and their policies.
//!
//! A [`Definition`] is always sound. It is made from a [`Draft`](crate::Draft), whose check finds every
//! problem at once.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{Retry, Rule, TaskIx};

/// A sound graph of tasks with its policies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Definition {
    /// The workflow's name: what runs and schedules call it by.
    pub name: Arc<str>,
    /// A stable hash of structure, policies and code, or what the author set by hand.
    pub version: Arc<str>,
    /// What the workflow is for, in the author's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The tasks, as declared. A [`TaskIx`] is a place in this list.
    pub tasks: Vec<Task>,
    /// The task whose result is the run's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<TaskIx>,
    /// What the first failed task means to the rest.
    #[serde(default)]
    pub on_failure: OnFailure,
    /// When dependents may start.
    #[serde(default)]
    pub durability: Durability,
    /// The longest that a run may take, unless its start says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// Whether its tasks are executed by any node, and not only by the one that holds the run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub spread: bool,
    /// The states that its only task goes through, if that is a state machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chart: Option<Chart>,
}

/// The states of a machine, and where each leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chart {
    /// The state that a run begins in.
    pub initial: Arc<str>,
    /// The states, as declared.
    pub states: Vec<ChartState>,
}

/// One state of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChartState {
    /// Its name.
    pub name: Arc<str>,
    /// The states that may follow it.
    pub to: Vec<Arc<str>>,
    /// Whether a run ends in it.
    pub is_terminal: bool,
}

/// One task of a graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Unique in its workflow: letters, digits, `_`, `-` and `.`.
    pub name: Arc<str>,
    /// What it waits for, in the order declared (the order in which contexts are merged).
    pub dependencies: Vec<TaskIx>,
    /// When it runs, once its dependencies have ended. `None` is the default rule: all completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<Rule>,
    /// What happens after a failed attempt.
    pub retry: Retry,
    /// The longest that one attempt may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// The longest that the task may take with all its retries, from the moment it became ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Duration>,
    /// The longest that an attempt may go without a beat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beat_timeout: Option<Duration>,
    /// Set for a task that runs once per element of a dependency's result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_each: Option<ForEach>,
    /// How the contexts of its dependencies are joined.
    #[serde(default)]
    pub merge: Merge,
    /// Whether its failure leaves the run's verdict alone.
    #[serde(default)]
    pub allow_failure: bool,
    /// The queue that its attempts wait in, for any node that serves it; `None` is the run's queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Arc<str>>,
    /// A fingerprint of its code, where the author's tokens were seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Whether its body is a durable function, with a journal of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub flow: bool,
    /// Whether what it has done can be undone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub undo: bool,
}

/// One durable instance per element of a dependency's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForEach {
    /// The dependency whose elements are handed out. It is also among the task's dependencies.
    pub over: TaskIx,
    /// How many instances of one run may be in flight at once; `None` is as many as there are slots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// What the first failed task means to the rest of its run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnFailure {
    /// Only its dependents are skipped; other branches finish.
    #[default]
    FinishOthers,
    /// Everything else is cancelled at once.
    FailFast,
}

/// When the dependents of a finished task may start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Durability {
    /// When its result is committed.
    #[default]
    Strict,
    /// At once, while its commit is in flight. The run's end waits for all commits.
    Pipelined,
}

/// How the context changes of several dependencies are joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Merge {
    /// The later-declared dependency wins, key by key.
    #[default]
    LastWins,
    /// Objects are merged recursively, and arrays are joined without duplicates.
    Deep,
}

impl Definition {
    /// The task at this place.
    ///
    /// # Panics
    ///
    /// When the place belongs to another definition.
    #[must_use]
    pub fn task(&self, at: TaskIx) -> &Task {
        &self.tasks[at.get()]
    }

    /// Where the task of this name stands.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<TaskIx> {
        self.tasks.iter().position(|task| &*task.name == name).map(TaskIx::from)
    }

    /// All places, as declared.
    pub fn indices(&self) -> impl Iterator<Item = TaskIx> + use<> {
        (0..self.tasks.len()).map(TaskIx::from)
    }
}
