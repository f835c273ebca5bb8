//! What ought to come out of a run, worked out the slow and simple way.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Map, Value};
use windlass_core::{
    Changes, Definition, Ended, Failure, LaneId, Merge, RuleView, Skip, StepKind, TaskIx, TaskOutcome,
};

/// The ancestors of each task, each after its own, in the order declared; and all tasks in such an order.
#[derive(Clone, Debug)]
pub struct Lineage {
    ancestors: Vec<Vec<TaskIx>>,
    all: Vec<TaskIx>,
}

impl Lineage {
    pub fn of(definition: &Definition) -> Self {
        let above = |task: TaskIx| {
            let mut order = Vec::new();
            visit(definition, task, &mut order);
            order.pop();
            order
        };
        let waited_for: HashSet<TaskIx> =
            definition.tasks.iter().flat_map(|task| task.dependencies.iter().copied()).collect();
        let mut all = Vec::new();
        for leaf in definition.indices().filter(|at| !waited_for.contains(at)) {
            visit(definition, leaf, &mut all);
        }
        Self { ancestors: definition.indices().map(above).collect(), all }
    }

    pub fn ancestors(&self, task: TaskIx) -> &[TaskIx] {
        &self.ancestors[task.get()]
    }
}

fn visit(definition: &Definition, task: TaskIx, order: &mut Vec<TaskIx>) {
    if order.contains(&task) {
        return;
    }
    for at in &definition.task(task).dependencies {
        visit(definition, *at, order);
    }
    order.push(task);
}

/// How tasks ended and what they changed: all that contexts and rules depend on.
#[derive(Debug)]
pub struct Facts<'a> {
    pub definition: &'a Definition,
    pub lineage: &'a Lineage,
    pub initial: &'a Map<String, Value>,
    pub outcomes: BTreeMap<TaskIx, StepKind>,
    pub changes: BTreeMap<TaskIx, Changes>,
}

/// How a whole run ends when nobody interferes and no time limit is reached.
#[derive(Debug)]
pub struct Expected {
    pub outcomes: BTreeMap<TaskIx, StepKind>,
    pub skips: BTreeMap<TaskIx, Skip>,
    pub lanes: BTreeMap<LaneId, StepKind>,
    pub context: Map<String, Value>,
    /// The lanes whose failure makes the run fail.
    pub failed: Vec<LaneId>,
}

impl Facts<'_> {
    /// What a task sees.
    pub fn context_for(&self, task: TaskIx) -> Map<String, Value> {
        self.merge(self.lineage.ancestors(task), self.definition.task(task).merge)
    }

    /// What the run leaves behind.
    pub fn final_context(&self) -> Map<String, Value> {
        self.merge(&self.lineage.all, Merge::LastWins)
    }

    fn merge(&self, order: &[TaskIx], merge: Merge) -> Map<String, Value> {
        let mut context = self.initial.clone();
        let mut touched = HashSet::new();
        for writer in order {
            let Some(changes) = self.changes.get(writer) else { continue };
            for key in changes.keys() {
                let writes = |at: &TaskIx| self.changes.get(at).is_some_and(|c| c.keys().any(|k| k == key));
                if merge == Merge::LastWins {
                    changes.only(key).apply(&mut context, merge);
                } else if order.iter().any(|at| writes(at) && self.lineage.ancestors(*at).contains(writer)) {
                    // Somebody saw this value and replaced it.
                } else {
                    if touched.insert(key.to_owned()) {
                        context.remove(key);
                    }
                    changes.only(key).apply(&mut context, merge);
                }
            }
        }
        context
    }

    /// Why a task whose dependencies have ended does not run.
    pub fn skip(&self, task: TaskIx) -> Option<Skip> {
        if let Some(rule) = &self.definition.task(task).rule {
            let context = self.context_for(task);
            return (!rule.holds(&View { facts: self, context })).then_some(Skip::Rule);
        }
        let dependencies = &self.definition.task(task).dependencies;
        dependencies.iter().find_map(|at| {
            let name = self.definition.task(*at).name.to_string();
            match self.outcomes[at] {
                StepKind::Completed => None,
                StepKind::Skipped => Some(Skip::UpstreamSkipped(name)),
                _ => Some(Skip::UpstreamFailed(name)),
            }
        })
    }
}

struct View<'a> {
    facts: &'a Facts<'a>,
    context: Map<String, Value>,
}

impl RuleView for View<'_> {
    fn outcome(&self, task: &str) -> Option<TaskOutcome> {
        let at = self.facts.definition.find(task)?;
        Some(match self.facts.outcomes.get(&at)? {
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

/// How a run ends whose attempts end like this.
pub fn expect(
    definition: &Definition,
    initial: &Map<String, Value>,
    script: impl Fn(LaneId, u32) -> Ended,
) -> Expected {
    let lineage = Lineage::of(definition);
    let mut facts =
        Facts { definition, lineage: &lineage, initial, outcomes: BTreeMap::new(), changes: BTreeMap::new() };
    let (mut skips, mut lanes, mut items) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let mut failed = Vec::new();
    while facts.outcomes.len() < definition.tasks.len() {
        let ended = |at: &TaskIx| facts.outcomes.contains_key(at);
        let next = definition
            .indices()
            .find(|at| !ended(at) && definition.task(*at).dependencies.iter().all(ended))
            .expect("a graph without cycles has a next task");
        if let Some(why) = facts.skip(next) {
            skips.insert(next, why);
            facts.outcomes.insert(next, StepKind::Skipped);
            continue;
        }
        let task = definition.task(next);
        let instances: Vec<LaneId> = match task.for_each {
            None => vec![LaneId::of(next)],
            Some(each) => {
                let completed = facts.outcomes[&each.over] == StepKind::Completed;
                let count = if completed { items[&each.over] } else { 0 };
                (0..count).map(|item| LaneId { task: next, item: Some(item) }).collect()
            }
        };
        let mut changes = Changes::default();
        let mut worst = StepKind::Completed;
        for lane in &instances {
            match last(&script, definition, *lane) {
                Ok((change, count)) => {
                    changes.extend(&change);
                    items.insert(next, count.unwrap_or(0));
                    lanes.insert(*lane, StepKind::Completed);
                }
                Err(_) => {
                    lanes.insert(*lane, StepKind::Failed);
                    if !task.allow_failure {
                        failed.push(*lane);
                    }
                    if task.for_each.is_none() || !task.allow_failure {
                        worst = StepKind::Failed;
                    }
                }
            }
        }
        if task.for_each.is_some() {
            items.insert(next, instances.len() as u32);
        }
        facts.outcomes.insert(next, worst);
        facts.changes.insert(next, changes);
    }
    let context = facts.final_context();
    Expected { outcomes: facts.outcomes, skips, lanes, context, failed }
}

/// What is left of a lane when its attempts are used up.
fn last(
    script: &impl Fn(LaneId, u32) -> Ended,
    definition: &Definition,
    lane: LaneId,
) -> Result<(Changes, Option<u32>), Failure> {
    let retry = &definition.task(lane.task).retry;
    let mut attempt = 1;
    loop {
        match script(lane, attempt) {
            Ended::Completed { changes, items } | Ended::Recorded { changes, items, .. } => {
                return Ok((changes, items));
            }
            Ended::Failed(failure) if retry.decide(attempt, &failure, 0.5).is_none() => return Err(failure),
            Ended::Failed(_) => attempt += 1,
            Ended::Cut | Ended::Killed { .. } => panic!("no script cuts an attempt off"),
        }
    }
}
