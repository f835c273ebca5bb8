//! What a macro saw of a workflow, as plain data.

use std::{sync::Arc, time::Duration};

use windlass_core::{
    Backoff, Chart, Draft, Durability, Failure, Merge, OnFailure, Output, Retry, RetryOn, Rule, TaskDraft,
};

use super::{AnyWorkflow, Predicate, TaskCode, Workflow};
use crate::flow::FlowParts;

/// What a macro saw of a workflow as a whole.
#[derive(Debug)]
pub struct WorkflowParts {
    /// Its name.
    pub name: &'static str,
    /// What it is for.
    pub description: Option<&'static str>,
    /// The version, where the author sets it by hand.
    pub version: Option<&'static str>,
    /// The task whose result is the run's.
    pub output: Option<&'static str>,
    /// What the first failed task means to the rest.
    pub on_failure: OnFailure,
    /// When dependents may start.
    pub durability: Durability,
    /// The longest that a run may take.
    pub timeout: Option<Duration>,
    /// Whether its tasks are executed by any node.
    pub spread: bool,
}

/// What a macro saw of a task.
#[derive(Debug)]
pub struct TaskParts {
    /// Its name.
    pub name: &'static str,
    /// The fingerprint of its code.
    pub code: &'static str,
    /// What it waits for.
    pub after: &'static [&'static str],
    /// Its rule in JSON.
    pub rule: Option<&'static str>,
    /// What happens after a failed attempt.
    pub retry: RetryParts,
    /// The longest that one attempt may take.
    pub timeout: Option<Duration>,
    /// The longest that the task may take.
    pub deadline: Option<Duration>,
    /// The longest that an attempt may go without a beat.
    pub beat_timeout: Option<Duration>,
    /// The dependency that is handed out element by element.
    pub for_each: Option<&'static str>,
    /// How many elements may be worked on at once.
    pub limit: Option<u32>,
    /// How contexts are joined.
    pub merge: Merge,
    /// Whether its failure leaves the run's verdict alone.
    pub allow_failure: bool,
    /// The queue that its attempts wait in.
    pub queue: Option<&'static str>,
}

/// What a macro saw of a retry policy. What is `None` keeps its default.
#[derive(Debug)]
pub struct RetryParts {
    /// How many attempts, the first included.
    pub attempts: Option<u32>,
    /// How the waits grow.
    pub shape: Shape,
    /// The first wait.
    pub delay: Option<Duration>,
    /// How many times longer each wait is than the one before.
    pub factor: Option<f64>,
    /// The longest wait.
    pub max: Option<Duration>,
    /// The share of a wait by which it varies.
    pub jitter: Option<f64>,
    /// Which failures are tried again. Empty is all.
    pub on: &'static [On],
}

/// How the waits between attempts grow.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// Not at all.
    Fixed,
    /// By the first one.
    Linear,
    /// By a factor.
    Exponential,
}

/// Which failures are tried again.
#[derive(Clone, Copy, Debug)]
pub enum On {
    /// All.
    All,
    /// None.
    Never,
    /// Those that go away by themselves.
    Transient,
    /// Those with one of these texts.
    Matching(&'static [&'static str]),
    /// Those for which the function of this name says so.
    Predicate(&'static str),
}

/// Makes the workflow.
///
/// # Panics
///
/// When the parts do not make a workflow. The macros have checked that they do.
pub fn build<I, O>(workflow: WorkflowParts, tasks: Vec<(TaskParts, TaskCode)>) -> Workflow<I, O> {
    let mut draft = Draft::new(workflow.name);
    draft.description = workflow.description.map(str::to_owned);
    draft.version = workflow.version.map(str::to_owned);
    draft.output = workflow.output.map_or(Output::Nothing, |name| Output::Named(name.to_owned()));
    draft.on_failure = workflow.on_failure;
    draft.durability = workflow.durability;
    draft.timeout = workflow.timeout;
    draft.spread = workflow.spread;
    let mut codes = Vec::with_capacity(tasks.len());
    for (parts, code) in tasks {
        let mut task = parts.draft();
        task.undo = code.undo.is_some();
        codes.push(join_conditions(code, &task.retry));
        draft.tasks.push(task);
    }
    match draft.check() {
        Ok(definition) => AnyWorkflow::new(definition, codes).typed(),
        Err(problems) => panic!("the workflow `{}` does not hold together:\n{problems}", workflow.name),
    }
}

/// Makes the workflow that a durable function is.
///
/// # Panics
///
/// When its name is none. The macro has checked that it is.
pub(crate) fn build_flow<I, O>(parts: FlowParts, chart: Option<Chart>, code: TaskCode) -> Workflow<I, O> {
    let mut task = TaskDraft::new(parts.name).retry(Retry::attempts(1));
    task.flow = true;
    task.code = Some(parts.code.to_owned());
    let mut draft = Draft::new(parts.name).task(task);
    draft.description = parts.description.map(str::to_owned);
    draft.version = parts.version.map(str::to_owned);
    draft.timeout = parts.timeout;
    match draft.check() {
        Ok(mut definition) => {
            definition.chart = chart;
            AnyWorkflow::new(definition, vec![code]).typed()
        }
        Err(problems) => panic!("the flow `{}` does not hold together:\n{problems}", parts.name),
    }
}

impl TaskParts {
    fn draft(self) -> TaskDraft {
        let mut task = TaskDraft::new(self.name).after(self.after.iter().copied());
        task.rule = self.rule.map(|json| match Rule::from_text(json) {
            Ok(rule) => rule,
            Err(error) => panic!("the rule of `{}` is not one: {error}: {json}", self.name),
        });
        task.retry = self.retry.policy();
        task.timeout = self.timeout;
        task.deadline = self.deadline;
        task.beat_timeout = self.beat_timeout;
        task.for_each = self.for_each.map(str::to_owned);
        task.limit = self.limit;
        task.merge = self.merge;
        task.allow_failure = self.allow_failure;
        task.queue = self.queue.map(str::to_owned);
        task.code = Some(self.code.to_owned());
        task
    }
}

impl RetryParts {
    /// The policy that the author meant.
    pub(crate) fn policy(&self) -> Retry {
        let mut retry = match self.shape {
            Shape::Fixed => Retry::default().fixed(),
            Shape::Linear => Retry::default().linear(),
            Shape::Exponential => Retry::default(),
        };
        retry.attempts = self.attempts.unwrap_or(retry.attempts);
        retry.jitter = self.jitter.unwrap_or(retry.jitter);
        match &mut retry.backoff {
            Backoff::Fixed { delay } => *delay = self.delay.unwrap_or(*delay),
            Backoff::Linear { delay, max } => set_waits(self, delay, max),
            Backoff::Exponential { delay, factor, max } => {
                *factor = self.factor.unwrap_or(*factor);
                set_waits(self, delay, max);
            }
        }
        if !self.on.is_empty() {
            retry.on = self.on.iter().map(|on| on.condition()).collect();
        }
        retry
    }
}

/// A first wait that is longer than the default cap raises it. A cap that the author wrote holds.
fn set_waits(parts: &RetryParts, delay: &mut Duration, max: &mut Duration) {
    *delay = parts.delay.unwrap_or(*delay);
    *max = parts.max.unwrap_or((*max).max(*delay));
}

impl On {
    fn condition(self) -> RetryOn {
        match self {
            Self::All => RetryOn::All,
            Self::Never => RetryOn::Never,
            Self::Transient => RetryOn::Transient,
            Self::Matching(texts) => RetryOn::Matching(texts.iter().copied().map(str::to_owned).collect()),
            Self::Predicate(name) => RetryOn::Predicate(name.to_owned()),
        }
    }
}

/// Joins a predicate with the other conditions of its policy by *any*.
///
/// A failure that the predicate refuses is made permanent, which would override the others.
pub(crate) fn join_conditions(mut code: TaskCode, retry: &Retry) -> TaskCode {
    let mut others = retry.clone();
    others.attempts = 2;
    others.on.retain(|on| !matches!(on, RetryOn::Predicate(_)));
    if others.on.is_empty() {
        return code;
    }
    code.predicate = code.predicate.map(|predicate| -> Predicate {
        Arc::new(move |failure: &Failure| predicate(failure) || others.decide(1, failure, 0.5).is_some())
    });
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: RetryParts = RetryParts {
        attempts: None,
        shape: Shape::Exponential,
        delay: None,
        factor: None,
        max: None,
        jitter: None,
        on: &[],
    };

    #[test]
    fn what_the_author_leaves_out_keeps_its_default() {
        assert_eq!(PLAIN.policy(), Retry::default());
    }

    #[test]
    fn a_long_first_wait_raises_the_default_cap_but_not_the_author_s() {
        let minute = Some(Duration::from_secs(60));
        let Backoff::Exponential { max, .. } = RetryParts { delay: minute, ..PLAIN }.policy().backoff else {
            panic!()
        };
        assert_eq!(Some(max), minute);
        let second = Some(Duration::from_secs(1));
        let parts = RetryParts { delay: minute, max: second, shape: Shape::Linear, ..PLAIN };
        let Backoff::Linear { max, .. } = parts.policy().backoff else { panic!() };
        assert_eq!(Some(max), second);
    }

    #[test]
    fn a_predicate_is_joined_with_the_other_conditions_by_any() {
        let retry = RetryParts { on: &[On::Transient, On::Predicate("is_busy")], ..PLAIN }.policy();
        let code = TaskCode::blocking(|_| unreachable!()).retried_when(|failure| failure.message == "busy");
        let predicate = join_conditions(code, &retry).predicate.unwrap();
        assert!(predicate(&Failure::new("busy")));
        assert!(predicate(&Failure::new("lost").transient()));
        assert!(!predicate(&Failure::new("no such user")));
    }

    #[test]
    fn a_predicate_alone_decides_alone() {
        let retry = RetryParts { on: &[On::Predicate("is_busy")], ..PLAIN }.policy();
        let code = TaskCode::blocking(|_| unreachable!()).retried_when(|failure| failure.message == "busy");
        let predicate = join_conditions(code, &retry).predicate.unwrap();
        assert!(predicate(&Failure::new("busy")));
        assert!(!predicate(&Failure::new("lost").transient()));
    }
}
