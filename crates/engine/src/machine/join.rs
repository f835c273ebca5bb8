//! Several pieces of work at once, and when they are enough.

use std::{
    collections::VecDeque,
    future::{Future, poll_fn},
    pin::Pin,
    task::Poll,
    time::Duration,
};

use serde::{Serialize, de::DeserializeOwned};
use windlass_core::{Failure, format_duration};

use super::table::Handled;
use crate::{Flow, Slot, Step, flow::ENOUGH};

/// What became of the branches of a split, by name, in the order in which they are listed.
#[derive(Clone, Debug)]
pub struct Joined {
    branches: Vec<(&'static str, Branch)>,
}

/// What became of one branch.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Branch {
    /// It completed. [`Joined::get`] has its value.
    Completed(Slot),
    /// It failed.
    Failed(Failure),
    /// It was stopped, or never begun, since the outcome was certain without it.
    Cancelled,
}

impl Joined {
    /// What a branch returned.
    ///
    /// # Errors
    ///
    /// Its failure; and when it was cancelled, there is no such branch, or it returned another type.
    pub fn get<T: DeserializeOwned>(&self, name: &str) -> Result<T, Failure> {
        match self.branch(name) {
            Some(Branch::Completed(value)) => value.decode(),
            Some(Branch::Failed(failure)) => Err(failure.clone()),
            Some(Branch::Cancelled) => Err(Failure::permanent(format!("the branch `{name}` was cancelled"))),
            None => Err(Failure::permanent(format!("there is no branch `{name}`"))),
        }
    }

    /// What became of a branch.
    #[must_use]
    pub fn branch(&self, name: &str) -> Option<&Branch> {
        self.branches.iter().find(|(known, _)| *known == name).map(|(_, branch)| branch)
    }

    /// Whether a branch completed.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        matches!(self.branch(name), Some(Branch::Completed(_)))
    }

    /// All branches.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Branch)> {
        self.branches.iter().map(|(name, branch)| (*name, branch))
    }
}

/// How many branches are enough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Join {
    /// All.
    All,
    /// One.
    Any,
    /// So many.
    Quorum(usize),
    /// So many of a hundred.
    Percentage(f64),
    /// As many as can be had, and at least so many.
    Partial(usize),
    /// As many as can be had in this time, and at least one.
    PartialTimeout(Duration),
}

impl Join {
    /// Whether they are enough, as soon as that is certain.
    fn decide(self, total: usize, completed: usize, failed: usize) -> Option<bool> {
        let needed = self.needed(total);
        if total - failed < needed {
            return Some(false);
        }
        let waits_for_all = matches!(self, Self::Partial(_) | Self::PartialTimeout(_));
        (if waits_for_all { completed + failed == total } else { completed >= needed }).then_some(true)
    }

    fn needed(self, total: usize) -> usize {
        match self {
            Self::All => total,
            Self::Any | Self::PartialTimeout(_) => 1,
            Self::Quorum(needed) | Self::Partial(needed) => needed,
            Self::Percentage(share) => {
                ((share * total as f64 / 100.0).ceil() as usize).clamp(1, total.max(1))
            }
        }
    }
}

/// A branch that has not begun.
pub struct BranchWork<'a> {
    /// Its name.
    pub name: &'static str,
    /// Begins it.
    pub begin: Box<dyn FnOnce() -> Handled<'a, Slot> + Send + 'a>,
}

/// What a branch returned, as the joining method gets it.
#[expect(clippy::missing_errors_doc, reason = "it is said where a value is made")]
pub fn joined<T: Serialize + Send + Sync + 'static>(value: T) -> Result<Slot, Failure> {
    // What is handed on is what a record would hold, also when there is none.
    Ok(Slot::from_bytes(Slot::new(value)?.bytes().clone()))
}

/// Runs branches until it is certain whether they are enough.
#[expect(clippy::missing_errors_doc, reason = "macros call it")]
pub async fn split<'a>(
    flow: &Flow,
    branches: Vec<BranchWork<'a>>,
    join: Join,
    limit: Option<u32>,
) -> Result<Joined, Failure> {
    let names: Vec<&'static str> = branches.iter().map(|branch| branch.name).collect();
    let total = names.len();
    let mut outcomes: Vec<Option<Result<Slot, Failure>>> = vec![None; total];
    let mut verdict = join.decide(total, 0, 0);
    let work = branches.into_iter().map(|branch| (branch.begin)());
    let running = at_once(work, limit, |at, outcome| {
        outcomes[at] = Some(outcome);
        let ended = || outcomes.iter().flatten();
        let completed = ended().filter(|outcome| outcome.is_ok()).count();
        verdict = join.decide(total, completed, ended().count() - completed);
        verdict.is_none()
    });
    match join {
        Join::PartialTimeout(span) => first(running, flow.aside(ENOUGH, flow.now() + span)).await?,
        _ => running.await,
    }
    let is_enough = verdict.unwrap_or_else(|| outcomes.iter().flatten().any(Result::is_ok));
    if !is_enough {
        return Err(too_few(join, &names, &outcomes));
    }
    let branch = |outcome| match outcome {
        Some(Ok(value)) => Branch::Completed(value),
        Some(Err(failure)) => Branch::Failed(failure),
        None => Branch::Cancelled,
    };
    Ok(Joined { branches: names.into_iter().zip(outcomes.into_iter().map(branch)).collect() })
}

/// Waits for the work, or for the time. What is over at the same time as the time counts.
async fn first(
    work: impl Future<Output = ()>,
    time: impl Future<Output = Result<(), Failure>>,
) -> Result<(), Failure> {
    let (mut work, mut time) = (std::pin::pin!(work), std::pin::pin!(time));
    poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Ready(()) => Poll::Ready(Ok(())),
        Poll::Pending => time.as_mut().poll(cx),
    })
    .await
}

fn too_few(join: Join, names: &[&str], outcomes: &[Option<Result<Slot, Failure>>]) -> Failure {
    let why: Vec<String> = names
        .iter()
        .zip(outcomes)
        .filter_map(|(name, outcome)| Some(format!("`{name}`: {}", outcome.as_ref()?.as_ref().err()?)))
        .collect();
    let wanted = match join {
        Join::All => "all are needed".to_owned(),
        Join::PartialTimeout(span) => format!("none completed within {}", format_duration(span)),
        join => format!("{} are needed", join.needed(names.len())),
    };
    let failures = outcomes.iter().flatten().filter_map(|outcome| outcome.as_ref().err());
    let mut failure =
        Failure::new(format!("too few of {} branches completed ({wanted}): {}", names.len(), why.join("; ")));
    failure.transient = failures.clone().count() > 0 && failures.clone().all(|failure| failure.transient);
    failure
}

/// Runs steps, a number of them at once, and answers what became of each, in their order.
pub async fn each<'a, T: DeserializeOwned + Send + 'static>(
    steps: impl Iterator<Item = Step<'a, T>> + Send,
    limit: Option<u32>,
) -> Vec<Result<T, Failure>> {
    let mut outcomes = Vec::new();
    let steps = steps.map(|step| -> Handled<'a, T> { Box::pin(step) });
    at_once(steps, limit, |at, outcome| {
        if outcomes.len() <= at {
            outcomes.resize_with(at + 1, || None);
        }
        outcomes[at] = Some(outcome);
        true
    })
    .await;
    outcomes.into_iter().flatten().collect()
}

type Piece<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Runs pieces of work, a number of them at once, begun in their order. Whoever hears of an end says whether to go on.
async fn at_once<'a, T>(
    work: impl Iterator<Item = Piece<'a, T>>,
    limit: Option<u32>,
    mut ended: impl FnMut(usize, T) -> bool,
) {
    let mut work = work.enumerate();
    let limit = limit.map_or(usize::MAX, |limit| limit as usize);
    let mut running: VecDeque<(usize, Piece<'a, T>)> = VecDeque::new();
    poll_fn(|cx| {
        loop {
            while running.len() < limit
                && let Some(next) = work.next()
            {
                running.push_back(next);
            }
            if running.is_empty() {
                return Poll::Ready(());
            }
            let before = running.len();
            for _ in 0..before {
                let Some((at, mut piece)) = running.pop_front() else { break };
                match piece.as_mut().poll(cx) {
                    Poll::Pending => running.push_back((at, piece)),
                    Poll::Ready(outcome) => {
                        if !ended(at, outcome) {
                            running.clear();
                            return Poll::Ready(());
                        }
                    }
                }
            }
            if running.len() == before {
                return Poll::Pending;
            }
        }
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_join_ends_as_soon_as_its_outcome_is_certain() {
        for (join, total, completed, failed, certain) in [
            (Join::All, 3, 2, 0, None),
            (Join::All, 3, 3, 0, Some(true)),
            (Join::All, 3, 0, 1, Some(false)),
            (Join::Any, 3, 0, 2, None),
            (Join::Any, 3, 1, 0, Some(true)),
            (Join::Any, 3, 0, 3, Some(false)),
            (Join::Quorum(2), 3, 1, 1, None),
            (Join::Quorum(2), 3, 2, 0, Some(true)),
            (Join::Quorum(2), 3, 0, 2, Some(false)),
            (Join::Percentage(50.0), 3, 1, 1, None),
            (Join::Percentage(50.0), 3, 2, 0, Some(true)),
            (Join::Percentage(50.0), 3, 1, 2, Some(false)),
            (Join::Percentage(0.1), 3, 0, 0, None),
            (Join::Percentage(100.0), 3, 2, 0, None),
            (Join::Partial(1), 3, 2, 0, None),
            (Join::Partial(1), 3, 2, 1, Some(true)),
            (Join::Partial(2), 3, 0, 2, Some(false)),
            (Join::PartialTimeout(Duration::from_secs(1)), 3, 2, 0, None),
            (Join::PartialTimeout(Duration::from_secs(1)), 3, 2, 1, Some(true)),
            (Join::PartialTimeout(Duration::from_secs(1)), 3, 0, 3, Some(false)),
        ] {
            assert_eq!(join.decide(total, completed, failed), certain, "{join:?} {completed} {failed}");
        }
    }
}
