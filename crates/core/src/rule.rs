//! When a task runs: conditions on its dependencies and on the context.

mod compare;
mod json;
#[cfg(test)]
mod tests;
mod text;

use serde_json::Value;

/// A condition that decides, once all dependencies have ended, whether a task runs or is skipped.
#[derive(Clone, Debug, PartialEq)]
pub enum Rule {
    /// Whatever happened.
    Always,
    /// Every one of these holds. True of none.
    All(Vec<Self>),
    /// At least one of these holds. False of none.
    Any(Vec<Self>),
    /// Not one of these holds. True of none.
    None(Vec<Self>),
    /// This does not hold.
    Not(Box<Self>),
    /// The dependency completed.
    Succeeded(String),
    /// The dependency failed.
    Failed(String),
    /// The dependency was skipped.
    Skipped(String),
    /// The dependency ended, in whichever way.
    Done(String),
    /// A value of the context compares like this.
    Context {
        /// The key. Dots lead into nested objects, unless the whole key is there as it stands.
        key: String,
        /// How to compare.
        op: Op,
        /// What to compare with. `exists` and `not_exists` do not look at it.
        value: Value,
    },
}

/// How a value of the context is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// The values are the same; numbers by their size.
    Eq,
    /// The values differ, or the key is missing.
    Ne,
    /// The context's value is greater.
    Gt,
    /// The context's value is greater or the same.
    Ge,
    /// The context's value is less.
    Lt,
    /// The context's value is less or the same.
    Le,
    /// The context's string, array or object has the value as a part, an element or a key.
    Contains,
    /// It does not, or the key is missing.
    NotContains,
    /// The context's value is an element of the given array.
    In,
    /// The context's string fits the given pattern, in which `*` stands for any text, `?` for one
    /// character, and a backslash takes the next character as it stands.
    Matches,
    /// The key is there, even if it is null.
    Exists,
    /// The key is missing.
    NotExists,
}

/// How a dependency ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TaskOutcome {
    /// It returned a result.
    Completed,
    /// Its last attempt failed.
    Failed,
    /// Its rule said no.
    Skipped,
    /// It was stopped before it could end.
    Cancelled,
}

/// What a rule looks at.
pub trait RuleView {
    /// How the dependency of this name ended; `None` when it has not, or is not known.
    fn outcome(&self, task: &str) -> Option<TaskOutcome>;

    /// The context's value of this key, taken as it stands.
    fn context(&self, key: &str) -> Option<&Value>;
}

/// Why a JSON text is not a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct RuleError {
    /// Where in the JSON: `$.conditions[1].operator`.
    pub path: String,
    /// What is wrong there.
    pub message: String,
}

/// A key of the context that is about to be compared. See [`Rule::context`].
#[derive(Clone, Debug)]
#[must_use = "a key alone is not a rule: compare it with something"]
pub struct ContextKey(String);

impl Rule {
    /// Holds when the dependency completed.
    #[must_use]
    pub fn succeeded(task: impl Into<String>) -> Self {
        Self::Succeeded(task.into())
    }

    /// Holds when the dependency failed.
    #[must_use]
    pub fn failed(task: impl Into<String>) -> Self {
        Self::Failed(task.into())
    }

    /// Holds when the dependency was skipped.
    #[must_use]
    pub fn skipped(task: impl Into<String>) -> Self {
        Self::Skipped(task.into())
    }

    /// Holds when the dependency has ended, in whichever way.
    #[must_use]
    pub fn done(task: impl Into<String>) -> Self {
        Self::Done(task.into())
    }

    /// Holds when every one of these does; true of none.
    #[must_use]
    pub fn all(rules: impl IntoIterator<Item = Self>) -> Self {
        Self::All(rules.into_iter().collect())
    }

    /// Holds when at least one of these does; false of none.
    #[must_use]
    pub fn any(rules: impl IntoIterator<Item = Self>) -> Self {
        Self::Any(rules.into_iter().collect())
    }

    /// Holds when not one of these does; true of none.
    #[must_use]
    pub fn none(rules: impl IntoIterator<Item = Self>) -> Self {
        Self::None(rules.into_iter().collect())
    }

    /// Holds when this does not.
    #[must_use]
    #[allow(
        clippy::should_implement_trait,
        reason = "the word of the rule language, for a value that is no number"
    )]
    pub fn not(rule: Self) -> Self {
        Self::Not(Box::new(rule))
    }

    /// Begins a comparison with a value of the context.
    ///
    /// Dots lead into nested objects: `a.b` is the `b` of `a`, unless there is a key `a.b` as it stands.
    ///
    /// ```
    /// use windlass_core::Rule;
    ///
    /// let rule = Rule::any([Rule::failed("load"), Rule::context("dry_run").eq(true)]);
    /// assert_eq!(rule.to_string(), r#"any(failed(load), context("dry_run") == true)"#);
    /// ```
    pub fn context(key: impl Into<String>) -> ContextKey {
        ContextKey(key.into())
    }

    /// Whether the rule holds for what is seen.
    #[must_use]
    pub fn holds(&self, view: &impl RuleView) -> bool {
        match self {
            Self::Always => true,
            Self::All(rules) => rules.iter().all(|rule| rule.holds(view)),
            Self::Any(rules) => rules.iter().any(|rule| rule.holds(view)),
            Self::None(rules) => !rules.iter().any(|rule| rule.holds(view)),
            Self::Not(rule) => !rule.holds(view),
            Self::Succeeded(task) => view.outcome(task) == Some(TaskOutcome::Completed),
            Self::Failed(task) => view.outcome(task) == Some(TaskOutcome::Failed),
            Self::Skipped(task) => view.outcome(task) == Some(TaskOutcome::Skipped),
            Self::Done(task) => view.outcome(task).is_some(),
            Self::Context { key, op, value } => op.holds(compare::find(view, key), value),
        }
    }

    /// The tasks that the rule names, each once, in the order in which it names them.
    #[must_use]
    pub fn tasks(&self) -> Vec<&str> {
        let mut seen = std::collections::HashSet::new();
        let mut tasks = Vec::new();
        self.visit(&mut |rule| {
            if let Self::Succeeded(task) | Self::Failed(task) | Self::Skipped(task) | Self::Done(task) = rule
                && seen.insert(task.as_str())
            {
                tasks.push(task.as_str());
            }
        });
        tasks
    }

    /// Whether the rule looks at the context.
    #[must_use]
    pub fn reads_context(&self) -> bool {
        let mut reads = false;
        self.visit(&mut |rule| reads = reads || matches!(rule, Self::Context { .. }));
        reads
    }

    /// Whether the rule could hold although this dependency did not complete.
    ///
    /// The answer errs on the side of yes: each name and each comparison is taken by itself, so a rule that
    /// contradicts itself in a roundabout way may still be said to hold.
    #[must_use]
    pub fn may_run_without(&self, dependency: &str) -> bool {
        [TaskOutcome::Failed, TaskOutcome::Skipped, TaskOutcome::Cancelled]
            .into_iter()
            .any(|outcome| self.truth(dependency, outcome) != Some(false))
    }

    /// What is certain about the rule when all that is known is how one dependency ended.
    fn truth(&self, dependency: &str, outcome: TaskOutcome) -> Option<bool> {
        let ended = |task: &str, wanted| (task == dependency).then_some(outcome == wanted);
        match self {
            Self::Always => Some(true),
            Self::All(rules) => every(rules.iter().map(|rule| rule.truth(dependency, outcome))),
            Self::Any(rules) => {
                every(rules.iter().map(|rule| rule.truth(dependency, outcome).map(|t| !t))).map(|t| !t)
            }
            Self::None(rules) => every(rules.iter().map(|rule| rule.truth(dependency, outcome).map(|t| !t))),
            Self::Not(rule) => rule.truth(dependency, outcome).map(|truth| !truth),
            Self::Succeeded(task) => ended(task, TaskOutcome::Completed),
            Self::Failed(task) => ended(task, TaskOutcome::Failed),
            Self::Skipped(task) => ended(task, TaskOutcome::Skipped),
            // A rule is asked only when every dependency has ended.
            Self::Done(_) => Some(true),
            Self::Context { .. } => None,
        }
    }

    fn visit<'a>(&'a self, see: &mut impl FnMut(&'a Self)) {
        see(self);
        match self {
            Self::All(rules) | Self::Any(rules) | Self::None(rules) => {
                rules.iter().for_each(|rule| rule.visit(see));
            }
            Self::Not(rule) => rule.visit(see),
            _ => {}
        }
    }
}

/// Whether all are true: false as soon as one is false, unknown when one is unknown.
fn every(mut truths: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    truths
        .try_fold(Some(true), |all, truth| match truth {
            Some(false) => Err(()),
            Some(true) => Ok(all),
            None => Ok(None),
        })
        .unwrap_or(Some(false))
}

impl ContextKey {
    fn compare(self, op: Op, value: impl Into<Value>) -> Rule {
        Rule::Context { key: self.0, op, value: value.into() }
    }

    /// Holds when the value is this; numbers are compared by size, so 1 is 1.0.
    #[must_use]
    #[allow(clippy::should_implement_trait, reason = "it builds a rule and compares nothing")]
    pub fn eq(self, value: impl Into<Value>) -> Rule {
        self.compare(Op::Eq, value)
    }

    /// Holds when the value is not this, or the key is missing.
    #[must_use]
    #[allow(clippy::should_implement_trait, reason = "it builds a rule and compares nothing")]
    pub fn ne(self, value: impl Into<Value>) -> Rule {
        self.compare(Op::Ne, value)
    }

    /// Holds when the value is greater: numbers with numbers, strings with strings.
    #[must_use]
    pub fn gt(self, value: impl Into<Value>) -> Rule {
        self.compare(Op::Gt, value)
    }

    /// Holds when the value is greater or the same: numbers with numbers, strings with strings.
    #[must_use]
    pub fn ge(self, value: impl Into<Value>) -> Rule {
        self.compare(Op::Ge, value)
    }

    /// Holds when the value is less: numbers with numbers, strings with strings.
    #[must_use]
    pub fn lt(self, value: impl Into<Value>) -> Rule {
        self.compare(Op::Lt, value)
    }

    /// Holds when the value is less or the same: numbers with numbers, strings with strings.
    #[must_use]
    pub fn le(self, value: impl Into<Value>) -> Rule {
        self.compare(Op::Le, value)
    }

    /// Holds when the value is a string with this part, an array with this element, or an object with
    /// this key.
    #[must_use]
    pub fn contains(self, value: impl Into<Value>) -> Rule {
        self.compare(Op::Contains, value)
    }

    /// Holds when [`contains`](Self::contains) does not, so also when the key is missing.
    #[must_use]
    pub fn not_contains(self, value: impl Into<Value>) -> Rule {
        self.compare(Op::NotContains, value)
    }

    /// Holds when the value is one of these.
    #[must_use]
    pub fn is_in<V: Into<Value>>(self, values: impl IntoIterator<Item = V>) -> Rule {
        self.compare(Op::In, values.into_iter().map(Into::into).collect::<Vec<Value>>())
    }

    /// Holds when the value is a string that fits a pattern as a whole. In it `*` stands for any text, `?`
    /// for one character, and a backslash takes the next character as it stands.
    #[must_use]
    pub fn matches(self, pattern: impl Into<String>) -> Rule {
        self.compare(Op::Matches, pattern.into())
    }

    /// Holds when the key is there, even if its value is null.
    #[must_use]
    pub fn exists(self) -> Rule {
        self.compare(Op::Exists, Value::Null)
    }

    /// Holds when the key is missing.
    #[must_use]
    pub fn not_exists(self) -> Rule {
        self.compare(Op::NotExists, Value::Null)
    }
}
