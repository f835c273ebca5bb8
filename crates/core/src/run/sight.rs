//! What tasks see of the context, worked out once and handed down.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::Run;
use crate::{Merge, TaskIx};

/// What a task sees of the context and what it leaves to its dependents, while anybody needs it.
///
/// A task that waits for one other sees what that one saw, with its changes. So a chain hands one map down,
/// and the tasks after a fork share one, instead of each merging the changes of all its ancestors again.
#[derive(Debug)]
pub(super) struct Sight {
    seen: Option<Arc<Map<String, Value>>>,
    left: Option<Arc<Map<String, Value>>>,
    /// Dependents that have not asked yet what this task leaves to them.
    heirs: usize,
}

impl Sight {
    pub(super) const fn new(heirs: usize) -> Self {
        Self { seen: None, left: None, heirs }
    }

    /// Forgets everything: nobody asks any more.
    pub(super) fn close(&mut self) {
        self.seen = None;
        self.left = None;
    }

    const fn is_known(&self) -> bool {
        self.seen.is_some() || self.left.is_some()
    }
}

impl Run {
    /// What a task sees of the context: what the run started with, and what the task's ancestors changed.
    #[must_use]
    pub fn context_for(&mut self, task: TaskIx) -> Arc<Map<String, Value>> {
        if !self.any_changes {
            return Arc::clone(&self.context);
        }
        let entry = &self.tasks[task.get()];
        if let Some(seen) = &entry.sight.seen {
            return Arc::clone(seen);
        }
        // What it sees is certain once all it waits for has ended, and asked for until it has ended itself.
        if entry.waiting_for > 0 || entry.outcome.is_some() {
            return Arc::new(self.merged_for(task));
        }
        let seen = self.inherit(task).unwrap_or_else(|| Arc::new(self.merged_for(task)));
        self.tasks[task.get()].sight.seen = Some(Arc::clone(&seen));
        seen
    }

    fn merged_for(&self, task: TaskIx) -> Map<String, Value> {
        self.merged(&self.plan.graph.ancestors(task), self.plan.definition.task(task).merge)
    }

    /// Hands what a skipped task would have seen on to its dependents, where that costs nothing.
    pub(super) fn see_through(&mut self, task: TaskIx) {
        let known = |at: &TaskIx| self.tasks[at.get()].sight.is_known();
        let is_cheap = self.plan.graph.dependencies(task).iter().any(known);
        if is_cheap && self.tasks[task.get()].sight.seen.is_none() {
            self.tasks[task.get()].sight.seen = self.inherit(task);
        }
    }

    /// What the only dependency of a task leaves to it; `None` when the changes have to be merged.
    fn inherit(&mut self, task: TaskIx) -> Option<Arc<Map<String, Value>>> {
        let plan = Arc::clone(&self.plan);
        let heritage = match (plan.graph.dependencies(task), plan.definition.task(task).merge) {
            (&[only], Merge::LastWins) => Some(self.leave(only)),
            _ => None,
        };
        for at in plan.graph.dependencies(task) {
            let sight = &mut self.tasks[at.get()].sight;
            sight.heirs = sight.heirs.saturating_sub(1);
            if sight.heirs == 0 {
                sight.close();
            }
        }
        heritage
    }

    /// What a task that has ended leaves to those that wait for it alone.
    fn leave(&mut self, task: TaskIx) -> Arc<Map<String, Value>> {
        if let Some(left) = &self.tasks[task.get()].sight.left {
            return Arc::clone(left);
        }
        let seen = self.tasks[task.get()].sight.seen.take();
        let left = match seen.filter(|_| self.plan.definition.task(task).merge == Merge::LastWins) {
            Some(mut seen) => {
                if let Some(changes) = &self.tasks[task.get()].changes {
                    changes.apply(Arc::make_mut(&mut seen), Merge::LastWins);
                }
                seen
            }
            None => Arc::new(self.merged(&self.plan.graph.upstream(&[task]), Merge::LastWins)),
        };
        self.tasks[task.get()].sight.left = Some(Arc::clone(&left));
        left
    }
}
