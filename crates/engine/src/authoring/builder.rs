//! A workflow that is made at run time, from data.

use std::{sync::Arc, time::Duration};

use windlass_core::{Draft, Durability, OnFailure, Output, Problems, TaskDraft};

use super::{AnyWorkflow, Task, Workflow};

/// Makes a workflow at run time. Begin with [`Workflow::builder`].
///
/// Its version is a hash of its structure and policies. It cannot see into closures, so an author who changes
/// what they do sets [`version`](Self::version) by hand.
#[derive(Debug)]
#[must_use = "a workflow is made by `build`"]
pub struct WorkflowBuilder {
    draft: Draft,
    tasks: Vec<Task>,
}

impl WorkflowBuilder {
    pub(crate) fn new(name: impl Into<String>) -> Self {
        Self { draft: Draft::new(name).output(Output::LeafIfAny), tasks: Vec::new() }
    }

    /// Adds a task.
    pub fn task(mut self, task: Task) -> Self {
        self.tasks.push(task);
        self
    }

    /// Adds several tasks.
    pub fn tasks(mut self, tasks: impl IntoIterator<Item = Task>) -> Self {
        self.tasks.extend(tasks);
        self
    }

    /// Says what the workflow is for. Default: nothing is said.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.draft.description = Some(description.into());
        self
    }

    /// Names the task whose result is the run's. Default: the only task without a rule that nothing waits for;
    /// if there are several or none, the run's result is `null`.
    pub fn output(mut self, task: impl Into<String>) -> Self {
        self.draft.output = Output::Named(task.into());
        self
    }

    /// Sets the version by hand. Default: a hash of structure and policies.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.draft.version = Some(version.into());
        self
    }

    /// Cancels everything else at the first failure. Default: other branches finish.
    pub fn fail_fast(mut self) -> Self {
        self.draft.on_failure = OnFailure::FailFast;
        self
    }

    /// Lets dependents start while a result is being committed. Default: they wait for the commit.
    pub fn pipelined(mut self) -> Self {
        self.draft.durability = Durability::Pipelined;
        self
    }

    /// Sets the longest that a run may take. Default: no limit.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.draft.timeout = Some(timeout);
        self
    }

    /// Lets any node that serves the run's queue execute its tasks. Default: the node that holds the run does.
    pub fn spread(mut self) -> Self {
        self.draft.spread = true;
        self
    }

    /// Makes the workflow.
    ///
    /// # Errors
    ///
    /// When anything is wrong with it: every problem at once.
    pub fn build(self) -> Result<Workflow, Problems> {
        let Self { mut draft, tasks } = self;
        let (drafts, codes): (Vec<TaskDraft>, Vec<_>) = tasks.into_iter().map(Task::split).unzip();
        draft.tasks = drafts;
        let definition = draft.check()?;
        let names = definition.tasks.iter().map(|task| {
            let names = task.dependencies.iter().map(|&at| definition.task(at).name.to_string());
            names.collect::<Arc<[String]>>()
        });
        let code = names.zip(codes).map(|(names, code)| code(names)).collect();
        Ok(AnyWorkflow::new(definition, code).typed())
    }
}
