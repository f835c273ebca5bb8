//! How a workflow has done of late.

use std::{sync::Arc, time::Duration};

use windlass_core::{RunState, TaskState};
use windlass_store::{Place, Query};

use crate::{
    Error,
    grid::{LOOK, pasts},
    workflows::Workflows,
};

/// How many runs are looked at.
const LATEST: usize = 200;

/// How the latest runs of a workflow that have ended have done.
#[derive(Clone, Debug, PartialEq)]
pub struct Statistics {
    /// How many runs were looked at: the latest, and not all.
    pub runs: usize,
    /// How many of them failed or were abandoned.
    pub failed: usize,
    /// How long those took that completed, from when they might first run to their end.
    pub duration: Option<Spread>,
    /// Each task, or what a durable function called.
    pub tasks: Vec<TaskStatistics>,
}

/// How a task has done in these runs.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskStatistics {
    /// The task's name.
    pub task: Arc<str>,
    /// In how many runs it executed.
    pub runs: usize,
    /// In how many of them it failed.
    pub failed: usize,
    /// In how many of them it needed more than one attempt.
    pub retried: usize,
    /// How long it took where it completed, from its first attempt to the end of its last.
    pub duration: Option<Spread>,
}

/// How long most, nearly all, and all but the slowest took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Half of them took no longer.
    pub p50: Duration,
    /// Nine in ten took no longer.
    pub p90: Duration,
    /// Ninety-nine in a hundred took no longer.
    pub p99: Duration,
}

impl Spread {
    /// `None` of nothing.
    fn of(mut spans: Vec<Duration>) -> Option<Self> {
        spans.sort_unstable();
        let last = spans.len().checked_sub(1)?;
        let at = |percent: usize| spans[(spans.len() * percent).div_ceil(100).saturating_sub(1).min(last)];
        Some(Self { p50: at(50), p90: at(90), p99: at(99) })
    }
}

impl Workflows {
    /// How the latest runs of a workflow that have ended have done.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownWorkflow`] when no engine ever brought it, when the store cannot be asked, or the record cannot be
    /// read.
    pub async fn statistics(&self, name: &str) -> Result<Statistics, Error> {
        self.get(name).await?;
        let (states, limit) = (RunState::TERMINAL.to_vec(), LATEST);
        let query = Query { workflow: Some(name.into()), states, limit, look: LOOK, ..Query::default() };
        let runs = self.client.hub().store.find(query).await?.runs;
        let is_failed = |state| matches!(state, RunState::Failed | RunState::Abandoned);
        let took = runs.iter().filter_map(|run| match &run.standing.place {
            Place::Ended(end) if end.state == RunState::Completed => {
                Some(end.at.since(run.standing.opened_at))
            }
            _ => None,
        });
        let duration = Spread::of(took.collect());
        let mut tasks: Vec<(TaskStatistics, Vec<Duration>)> = Vec::new();
        for past in pasts(&self.client, &runs).await?.into_iter().flatten().filter(|past| past.attempts > 0) {
            let known = tasks.iter().position(|(task, _)| task.task == past.task);
            let place = known.unwrap_or_else(|| {
                let task = Arc::clone(&past.task);
                tasks.push((
                    TaskStatistics { task, runs: 0, failed: 0, retried: 0, duration: None },
                    Vec::new(),
                ));
                tasks.len() - 1
            });
            let (task, took) = &mut tasks[place];
            task.runs += 1;
            task.failed += usize::from(past.state == TaskState::Failed);
            task.retried += usize::from(past.attempts > 1);
            took.extend((past.state == TaskState::Completed).then(|| past.took()));
        }
        let tasks =
            tasks.into_iter().map(|(task, took)| TaskStatistics { duration: Spread::of(took), ..task });
        let failed = runs.iter().filter(|run| is_failed(run.standing.state())).count();
        Ok(Statistics { runs: runs.len(), failed, duration, tasks: tasks.collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_of_what_was_and_not_of_what_lies_between() {
        let seconds = |seconds: &[u64]| seconds.iter().copied().map(Duration::from_secs).collect::<Vec<_>>();
        assert_eq!(Spread::of(seconds(&[])), None);
        let one = Duration::from_secs(3);
        assert_eq!(Spread::of(seconds(&[3])), Some(Spread { p50: one, p90: one, p99: one }));
        let hundred = Spread::of((1..=100).rev().map(Duration::from_secs).collect()).unwrap();
        let [p50, p90, p99] = [50, 90, 99].map(Duration::from_secs);
        assert_eq!(hundred, Spread { p50, p90, p99 });
        assert_eq!(Spread::of(seconds(&[1, 2])).unwrap().p50, Duration::from_secs(1));
    }
}
