//! What can be wrong with a draft, in words that say what to do.

use std::{error::Error, fmt};

/// One thing that is wrong with a [`Draft`](crate::Draft).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// There are no tasks.
    #[error("the workflow `{workflow}` has no tasks")]
    NoTasks {
        /// The workflow.
        workflow: String,
    },
    /// A name cannot be used.
    #[error("{what} cannot be called `{name}`: {why}")]
    Name {
        /// What has the name.
        what: &'static str,
        /// The name.
        name: String,
        /// Why not.
        why: &'static str,
    },
    /// Two tasks have the same name.
    #[error("two tasks are called `{name}`")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// A task's name means something else to the parameters of tasks.
    #[error("a task cannot be called `{name}`: in a task's parameters that word means something else")]
    Reserved {
        /// The name.
        name: String,
    },
    /// A dependency does not exist.
    #[error("`{task}` waits for `{dependency}`, but no task has that name{}", meant(hint))]
    UnknownDependency {
        /// The task that waits.
        task: String,
        /// What it waits for.
        dependency: String,
        /// A task that is spelled nearly the same.
        hint: Option<String>,
    },
    /// Tasks wait for each other.
    #[error("tasks wait for each other: {}", path.join(" → "))]
    Cycle {
        /// The way round; the first task is also the last.
        path: Vec<String>,
    },
    /// A rule names a task that is not a dependency.
    #[error("the rule of `{task}` names `{named}`, which is not among its dependencies{}", meant(hint))]
    RuleNotADependency {
        /// The task with the rule.
        task: String,
        /// What the rule names.
        named: String,
        /// A dependency that is spelled nearly the same.
        hint: Option<String>,
    },
    /// A rule makes no sense.
    #[error("the rule of `{task}` cannot be used: {why}")]
    Rule {
        /// The task with the rule.
        task: String,
        /// Why not.
        why: String,
    },
    /// A `for_each` is over a task that does not exist.
    #[error("`{task}` runs for each element of `{over}`, but no task has that name{}", meant(hint))]
    ForEachUnknown {
        /// The task.
        task: String,
        /// What it should run over.
        over: String,
        /// A task that is spelled nearly the same.
        hint: Option<String>,
    },
    /// A `for_each` is over a task that is not a dependency.
    #[error("`{task}` runs for each element of `{over}`, which is not among its dependencies")]
    ForEachNotADependency {
        /// The task.
        task: String,
        /// What it should run over.
        over: String,
    },
    /// There is a limit, but nothing to limit.
    #[error("`{task}` has a limit, but does not run for each element of anything")]
    LimitWithoutForEach {
        /// The task.
        task: String,
    },
    /// The task would never be executed.
    #[error("`{task}` has 0 attempts: the first execution counts, so at least 1 is needed")]
    NoAttempts {
        /// The task.
        task: String,
    },
    /// The retry policy makes no sense.
    #[error("the retry of `{task}` cannot be used: {why}")]
    Retry {
        /// The task.
        task: String,
        /// Why not.
        why: String,
    },
    /// A number or a duration is zero where that leaves no room for anything.
    #[error("{} has a {what} of 0: leave it out for none", named(task))]
    Zero {
        /// The task, or `None` for the workflow.
        task: Option<String>,
        /// What is zero.
        what: &'static str,
    },
    /// The output does not exist.
    #[error("the output is to be that of `{output}`, but no task has that name{}", meant(hint))]
    OutputUnknown {
        /// The name given.
        output: String,
        /// A task that is spelled nearly the same.
        hint: Option<String>,
    },
    /// More than one task could be the output.
    #[error("the output could be that of {}: say which with `output`", listed(leaves))]
    OutputAmbiguous {
        /// The unconditional leaves.
        leaves: Vec<String>,
    },
    /// No task is sure to be the output.
    #[error(
        "every last task has a condition ({}): say with `output` whose result is the run's",
        listed(leaves)
    )]
    OutputConditional {
        /// The leaves, all of them conditional.
        leaves: Vec<String>,
    },
}

/// Everything that is wrong with a [`Draft`](crate::Draft): at least one thing. It prints one per line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// These problems; `None` when there are none.
    #[must_use]
    pub(crate) fn from_found(problems: Vec<Problem>) -> Option<Self> {
        (!problems.is_empty()).then_some(Self(problems))
    }

    /// The problems, in the order in which they were found.
    pub fn iter(&self) -> std::slice::Iter<'_, Problem> {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a Problems {
    type Item = &'a Problem;
    type IntoIter = std::slice::Iter<'a, Problem>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        one_per_line(f, &self.0)
    }
}

/// Prints problems, one per line.
pub(crate) fn one_per_line(f: &mut fmt::Formatter<'_>, problems: &[impl fmt::Display]) -> fmt::Result {
    for (at, problem) in problems.iter().enumerate() {
        let line = if at == 0 { "" } else { "\n" };
        write!(f, "{line}{problem}")?;
    }
    Ok(())
}

impl Error for Problems {}

fn meant(hint: &Option<String>) -> String {
    hint.as_ref().map(|near| format!(": did you mean `{near}`?")).unwrap_or_default()
}

fn named(task: &Option<String>) -> String {
    task.as_ref().map_or_else(|| "the workflow".to_owned(), |task| format!("`{task}`"))
}

fn listed(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
