//! Looking at a run: what its tasks see, and what people see.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use serde_json::{Map, Value};

use super::{Lane, LaneId, Lanes, Phase, Run, Verdict};
use crate::{Failure, Merge, RuleView, Skip, StepKind, TaskIx, TaskOutcome, TaskState, Time};

/// A task as people see it.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskView {
    /// Its name.
    pub name: Arc<str>,
    /// Where it stands.
    pub state: TaskState,
    /// How many attempts have ended.
    pub attempts: u32,
    /// Why it was skipped.
    pub skip: Option<Skip>,
    /// Its last error, if it failed.
    pub failure: Option<Failure>,
    /// When it ended.
    pub ended_at: Option<Time>,
    /// For a `for_each` that has begun: how many instances have ended, and how many there are.
    pub items: Option<(usize, usize)>,
}

impl Run {
    /// How a task ended; `None` while it has not.
    #[must_use]
    pub fn outcome(&self, task: TaskIx) -> Option<StepKind> {
        self.tasks[task.get()].outcome
    }

    /// The last error of a failed task.
    #[must_use]
    pub fn failure(&self, task: TaskIx) -> Option<&Failure> {
        self.tasks[task.get()].failure.as_deref()
    }

    /// Why a task was skipped.
    #[must_use]
    pub fn skip(&self, task: TaskIx) -> Option<&Skip> {
        self.tasks[task.get()].skip.as_ref()
    }

    /// How many elements of this task's `for_each` there are.
    #[must_use]
    pub fn instances(&self, task: TaskIx) -> usize {
        match &self.tasks[task.get()].lanes {
            Lanes::One(_) => 1,
            Lanes::Many(fan) => fan.lanes.len(),
        }
    }

    /// How an instance of a `for_each` ended.
    #[must_use]
    pub fn instance(&self, task: TaskIx, item: usize) -> Option<StepKind> {
        let Lanes::Many(fan) = &self.tasks[task.get()].lanes else { return None };
        match fan.lanes.get(item)?.phase {
            Phase::Done(kind) => Some(kind),
            _ => None,
        }
    }

    /// Whether a task or instance waits to be executed alone.
    #[must_use]
    pub fn is_isolating(&self, lane: LaneId) -> bool {
        self.isolating.contains(&lane)
    }

    /// Whether a task or instance has completed, be it one of an element that is there no more.
    #[must_use]
    pub fn has_completed(&self, lane: LaneId) -> bool {
        match (&self.tasks[lane.task.get()].lanes, lane.item) {
            (_, None) => self.outcome(lane.task) == Some(StepKind::Completed),
            (Lanes::Many(fan), Some(item)) if fan.surplus.contains(&item) => true,
            (_, Some(item)) => self.instance(lane.task, item as usize) == Some(StepKind::Completed),
        }
    }

    /// The last error of an instance of a `for_each`.
    #[must_use]
    pub fn instance_failure(&self, task: TaskIx, item: usize) -> Option<&Failure> {
        let Lanes::Many(fan) = &self.tasks[task.get()].lanes else { return None };
        fan.failures.get(&u32::try_from(item).ok()?)
    }

    /// The context that the run leaves behind: all changes, in the same order for any run of this plan.
    #[must_use]
    pub fn final_context(&self) -> Map<String, Value> {
        self.merged(self.plan.graph.topological(), Merge::LastWins)
    }

    pub(super) fn merged(&self, order: &[TaskIx], merge: Merge) -> Map<String, Value> {
        let mut context = Map::clone(&self.context);
        let writers = order.iter().filter_map(|at| Some((*at, self.tasks[at.get()].changes.as_deref()?)));
        match merge {
            Merge::LastWins => writers.for_each(|(_, changes)| changes.apply(&mut context, merge)),
            Merge::Deep => {
                // A writer that saw another's value replaced it on purpose; only values that were written
                // side by side are merged.
                let mut by_key: BTreeMap<&str, Vec<TaskIx>> = BTreeMap::new();
                for (at, changes) in writers {
                    changes.keys().for_each(|key| by_key.entry(key).or_default().push(at));
                }
                for (key, writers) in by_key {
                    self.merge_key(key, &self.unseen(&writers), &mut context);
                }
            }
        }
        context
    }

    /// The writers whose value no later writer saw.
    fn unseen(&self, writers: &[TaskIx]) -> Vec<TaskIx> {
        let seen: HashSet<TaskIx> = match writers {
            [_] => HashSet::new(),
            many => many.iter().flat_map(|at| self.plan.graph.ancestors(*at)).collect(),
        };
        writers.iter().copied().filter(|at| !seen.contains(at)).collect()
    }

    fn merge_key(&self, key: &str, writers: &[TaskIx], context: &mut Map<String, Value>) {
        context.remove(key);
        for at in writers {
            if let Some(changes) = &self.tasks[at.get()].changes {
                changes.only(key).apply(context, Merge::Deep);
            }
        }
    }

    pub(super) fn skip_reason(&mut self, task: TaskIx) -> Option<Skip> {
        let plan = Arc::clone(&self.plan);
        let definition = plan.definition.task(task);
        if let Some(rule) = &definition.rule {
            let context = if rule.reads_context() { self.context_for(task) } else { Default::default() };
            return (!rule.holds(&Upstream { run: self, task, context })).then_some(Skip::Rule);
        }
        definition.dependencies.iter().find_map(|&at| {
            let name = || plan.definition.task(at).name.to_string();
            match self.outcome(at) {
                Some(StepKind::Completed) => None,
                Some(StepKind::Skipped) => Some(Skip::UpstreamSkipped(name())),
                _ => Some(Skip::UpstreamFailed(name())),
            }
        })
    }

    /// When everything upstream of a task had ended in this generation: work that was kept from an earlier
    /// one is as late as what it waits for.
    pub(super) fn dependencies_ended_at(&self, task: TaskIx) -> Time {
        let dependencies = self.plan.graph.dependencies(task).iter().map(|at| &self.tasks[at.get()]);
        dependencies
            .flat_map(|task| [Some(task.ready_at), task.ended_at])
            .flatten()
            .fold(self.opened_at, Time::max)
    }

    /// Every task, as people see it.
    #[must_use]
    pub fn tasks(&self) -> Vec<TaskView> {
        self.plan.definition.indices().map(|at| self.task_view(at)).collect()
    }

    fn task_view(&self, at: TaskIx) -> TaskView {
        let task = &self.tasks[at.get()];
        let name = Arc::clone(&self.plan.definition.task(at).name);
        let (lanes, items) = match &task.lanes {
            Lanes::One(lane) => (std::slice::from_ref(lane), None),
            Lanes::Many(fan) => {
                let done = fan.lanes.iter().filter(|lane| lane.is_done()).count();
                (fan.lanes.as_slice(), (!fan.lanes.is_empty()).then_some((done, fan.lanes.len())))
            }
        };
        TaskView {
            name,
            state: self.task_state(at, lanes),
            attempts: lanes.iter().map(|lane| lane.spent).sum(),
            skip: task.skip.clone(),
            failure: task.failure.as_deref().cloned(),
            ended_at: task.ended_at.filter(|_| task.outcome.is_some()),
            items,
        }
    }

    fn task_state(&self, at: TaskIx, lanes: &[Lane]) -> TaskState {
        let task = &self.tasks[at.get()];
        match task.outcome {
            Some(StepKind::Completed) => return TaskState::Completed,
            Some(StepKind::Failed) => return TaskState::Failed,
            Some(StepKind::Skipped) => return TaskState::Skipped,
            Some(_) => return TaskState::Cancelled,
            None => {}
        }
        if let Some(Verdict::Abandoned { step, .. }) = self.closing.as_deref()
            && self.plan.lane(step).or_else(|| self.plan.caller(step)).is_some_and(|lane| lane.task == at)
        {
            return TaskState::Abandoned;
        }
        if self.ended {
            return TaskState::Cancelled;
        }
        if lanes.iter().any(|lane| lane.is_alive()) {
            return TaskState::Running;
        }
        match task.waiting_for {
            0 if self.begun => TaskState::Ready,
            _ if !self.begun => TaskState::NotStarted,
            _ => TaskState::Pending,
        }
    }
}

/// What a rule sees of a run.
struct Upstream<'a> {
    run: &'a Run,
    task: TaskIx,
    context: Arc<Map<String, Value>>,
}

impl RuleView for Upstream<'_> {
    fn outcome(&self, task: &str) -> Option<TaskOutcome> {
        let definition = &self.run.plan.definition;
        let at =
            definition.task(self.task).dependencies.iter().find(|at| &*definition.task(**at).name == task)?;
        Some(match self.run.outcome(*at)? {
            StepKind::Completed => TaskOutcome::Completed,
            StepKind::Skipped => TaskOutcome::Skipped,
            StepKind::Cancelled => TaskOutcome::Cancelled,
            _ => TaskOutcome::Failed,
        })
    }

    fn context(&self, key: &str) -> Option<&Value> {
        self.context.get(key)
    }
}
