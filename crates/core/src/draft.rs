//! A workflow as somebody wrote it down, before anybody looked whether it makes sense.

use std::{collections::HashMap, sync::Arc, time::Duration};

use crate::{
    Definition, Durability, ForEach, Merge, OnFailure, Problems, Retry, Rule, Task, TaskIx, check::Check,
};

/// A workflow whose tasks are known by name, and which may have any number of mistakes in it.
///
/// [`check`](Self::check) turns it into a [`Definition`], or says everything that is wrong with it.
///
/// ```
/// use windlass_core::{Draft, TaskDraft};
///
/// let problems = Draft::new("etl")
///     .task(TaskDraft::new("extract"))
///     .task(TaskDraft::new("load").after(["exract"]))
///     .check()
///     .unwrap_err();
/// assert_eq!(
///     problems.to_string(),
///     "`load` waits for `exract`, but no task has that name: did you mean `extract`?",
/// );
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// The workflow's name.
    pub name: String,
    /// The version, where the author sets it by hand. Default: a fingerprint of the definition.
    pub version: Option<String>,
    /// What the workflow is for.
    pub description: Option<String>,
    /// The tasks, as declared.
    pub tasks: Vec<TaskDraft>,
    /// The task whose result is the run's. Default: the only unconditional leaf.
    pub output: Output,
    /// What the first failed task means to the rest. Default: other branches finish.
    pub on_failure: OnFailure,
    /// When dependents may start. Default: when the result is committed.
    pub durability: Durability,
    /// The longest that a run may take. Default: for ever.
    pub timeout: Option<Duration>,
    /// Whether its tasks are executed by any node. Default: by the one that holds the run.
    pub spread: bool,
}

/// Which task's result is the run's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// That of the only leaf without a condition. It is a problem if there is none, or more than one.
    #[default]
    Leaf,
    /// That of the only leaf without a condition if there is exactly one, and otherwise none.
    LeafIfAny,
    /// That of the task with this name.
    Named(String),
    /// None: the run has no result.
    Nothing,
}

/// One task of a [`Draft`].
#[derive(Clone, Debug, PartialEq)]
pub struct TaskDraft {
    /// The task's name.
    pub name: String,
    /// The tasks it waits for. Naming one twice is the same as naming it once.
    pub dependencies: Vec<String>,
    /// When it runs. Default: when all its dependencies completed.
    pub rule: Option<Rule>,
    /// What happens after a failed attempt. Default: [`Retry::default`].
    pub retry: Retry,
    /// The longest that one attempt may take. Default: for ever.
    pub timeout: Option<Duration>,
    /// The longest that the task may take with all its retries. Default: for ever.
    pub deadline: Option<Duration>,
    /// The longest that an attempt may go without a beat. Default: for ever.
    pub beat_timeout: Option<Duration>,
    /// The dependency whose result is handed out element by element. Default: none.
    pub for_each: Option<String>,
    /// How many elements may be worked on at once. Default: as many as there are slots.
    pub limit: Option<u32>,
    /// How the contexts of its dependencies are joined. Default: the last one wins.
    pub merge: Merge,
    /// Whether its failure leaves the run's verdict alone. Default: no.
    pub allow_failure: bool,
    /// The queue that its attempts wait in, for any node that serves it. Default: they are executed where the run is.
    pub queue: Option<String>,
    /// A fingerprint of its code. Default: none.
    pub code: Option<String>,
    /// Whether its body is a durable function. Default: no.
    pub flow: bool,
    /// Whether what it has done can be undone. Default: no.
    pub undo: bool,
}

impl Draft {
    /// A workflow without tasks.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            version: None,
            description: None,
            tasks: Vec::new(),
            output: Output::default(),
            on_failure: OnFailure::default(),
            durability: Durability::default(),
            timeout: None,
            spread: false,
        }
    }

    /// Adds a task.
    #[must_use]
    pub fn task(mut self, task: TaskDraft) -> Self {
        self.tasks.push(task);
        self
    }

    /// Says which task's result is the run's.
    #[must_use]
    pub fn output(mut self, output: Output) -> Self {
        self.output = output;
        self
    }

    /// The definition.
    ///
    /// # Errors
    ///
    /// When anything is wrong with it: every problem at once.
    pub fn check(self) -> Result<Definition, Problems> {
        let (edges, output) = Check::new(&self).run()?;
        let places: HashMap<String, TaskIx> =
            self.tasks.iter().enumerate().map(|(at, task)| (task.name.clone(), at.into())).collect();
        let tasks = self.tasks.into_iter().zip(edges).map(|(task, dependencies)| Task {
            for_each: task
                .for_each
                .as_ref()
                .map(|over| ForEach { over: places[over.as_str()], limit: task.limit }),
            name: task.name.into(),
            dependencies,
            rule: task.rule,
            retry: task.retry,
            timeout: task.timeout,
            deadline: task.deadline,
            beat_timeout: task.beat_timeout,
            merge: task.merge,
            allow_failure: task.allow_failure,
            queue: task.queue.map(Into::into),
            code: task.code,
            flow: task.flow,
            undo: task.undo,
        });
        let mut definition = Definition {
            name: self.name.into(),
            version: Arc::default(),
            description: self.description,
            tasks: tasks.collect(),
            output,
            on_failure: self.on_failure,
            durability: self.durability,
            timeout: self.timeout,
            spread: self.spread,
            chart: None,
        };
        definition.version = self.version.unwrap_or_else(|| definition.fingerprint()).into();
        Ok(definition)
    }
}

impl TaskDraft {
    /// A task that waits for nothing, with the default policies.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            dependencies: Vec::new(),
            rule: None,
            retry: Retry::default(),
            timeout: None,
            deadline: None,
            beat_timeout: None,
            for_each: None,
            limit: None,
            merge: Merge::default(),
            allow_failure: false,
            queue: None,
            code: None,
            flow: false,
            undo: false,
        }
    }

    /// Makes it wait for these tasks too.
    #[must_use]
    pub fn after<S: Into<String>>(mut self, tasks: impl IntoIterator<Item = S>) -> Self {
        self.dependencies.extend(tasks.into_iter().map(Into::into));
        self
    }

    /// Makes it run when this holds, instead of when all its dependencies completed.
    #[must_use]
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rule = Some(rule);
        self
    }

    /// Sets what happens after a failed attempt.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// Makes it run once per element of this task's result, and wait for it.
    #[must_use]
    pub fn for_each(mut self, task: impl Into<String>) -> Self {
        let task = task.into();
        if !self.dependencies.contains(&task) {
            self.dependencies.push(task.clone());
        }
        self.for_each = Some(task);
        self
    }

    /// Whether a rule of its own may keep it from running.
    pub(crate) fn is_conditional(&self) -> bool {
        self.rule.as_ref().is_some_and(|rule| *rule != Rule::Always)
    }
}
