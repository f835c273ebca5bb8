//! How a task ended, for the tasks that come after it.

use serde::{Deserialize, Serialize};
use windlass_core::{Failure, Skip};

/// How a task ended, with its result if it has one.
///
/// A task that takes `Outcome<T>` sees what became of its dependency. It runs only if its rule lets it: with
/// the default rule the outcome is always `Completed`. After a `for_each` with `allow_failure`, dependents get a
/// list of outcomes, one per element.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Outcome<T> {
    /// It completed, with this result.
    Completed(T),
    /// Its last attempt failed.
    Failed(Failure),
    /// It did not run.
    Skipped(Skip),
    /// The run was cancelled, or failed fast, before it ended.
    Cancelled,
}

impl<T> Outcome<T> {
    /// Whether there is a result.
    #[must_use]
    pub const fn is_completed(&self) -> bool {
        matches!(self, Self::Completed(_))
    }

    /// Whether the last attempt failed.
    #[must_use]
    pub const fn is_failed(&self) -> bool {
        matches!(self, Self::Failed(_))
    }

    /// Whether the task did not run.
    #[must_use]
    pub const fn is_skipped(&self) -> bool {
        matches!(self, Self::Skipped(_))
    }

    /// The result, if there is one.
    #[must_use]
    pub fn completed(self) -> Option<T> {
        match self {
            Self::Completed(value) => Some(value),
            _ => None,
        }
    }

    /// Why the task failed, if it did.
    #[must_use]
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Failed(failure) => Some(failure),
            _ => None,
        }
    }

    /// The outcome with its result borrowed.
    #[must_use]
    pub fn as_ref(&self) -> Outcome<&T> {
        match self {
            Self::Completed(value) => Outcome::Completed(value),
            Self::Failed(failure) => Outcome::Failed(failure.clone()),
            Self::Skipped(skip) => Outcome::Skipped(skip.clone()),
            Self::Cancelled => Outcome::Cancelled,
        }
    }

    /// The same outcome with another result.
    #[must_use]
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Outcome<U> {
        match self {
            Self::Completed(value) => Outcome::Completed(change(value)),
            Self::Failed(failure) => Outcome::Failed(failure),
            Self::Skipped(skip) => Outcome::Skipped(skip),
            Self::Cancelled => Outcome::Cancelled,
        }
    }

    /// The result, or a failure that says what happened instead, to be passed on with `?`.
    ///
    /// # Errors
    ///
    /// When the task did not complete.
    pub fn into_result(self) -> Result<T, Failure> {
        match self {
            Self::Completed(value) => Ok(value),
            Self::Failed(failure) => Err(failure),
            Self::Skipped(skip) => Err(Failure::permanent(format!("the task was skipped: {skip}"))),
            Self::Cancelled => Err(Failure::permanent("the task was cancelled")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_survives_the_record() {
        let outcomes = vec![
            Outcome::Completed(7),
            Outcome::Failed(Failure::new("boom")),
            Outcome::Skipped(Skip::Rule),
            Outcome::Cancelled,
        ];
        let json = serde_json::to_string(&outcomes).unwrap();
        assert_eq!(serde_json::from_str::<Vec<Outcome<i32>>>(&json).unwrap(), outcomes);
        assert!(json.starts_with(r#"[{"Completed":7},{"Failed":{"#), "{json}");
    }

    #[test]
    fn only_a_completed_task_has_a_result() {
        assert_eq!(Outcome::Completed(7).map(|n| n + 1).into_result().unwrap(), 8);
        let skipped: Outcome<i32> = Outcome::Skipped(Skip::UpstreamFailed("load".into()));
        assert_eq!(skipped.clone().completed(), None);
        assert_eq!(skipped.into_result().unwrap_err().message, "the task was skipped: `load` failed");
    }
}
