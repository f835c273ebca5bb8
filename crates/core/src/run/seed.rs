//! Taking a run up: from nothing, or from its records.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use serde_json::{Map, Value};

use super::{Fan, Lane, LaneId, Lanes, Phase, Plan, Run, Sight, TaskRun, Verdict};
use crate::{CallKind, Definition, OnFailure, Step, StepKind, TaskIx, Time, UNDO, VERDICT, VERSION};

/// All that a run is made from.
#[derive(Clone, Debug)]
pub struct Seed {
    /// What it is a run of.
    pub plan: Arc<Plan>,
    /// Counted from 1; raised by a person's retry.
    pub generation: u32,
    /// How many times it was taken over from a dead node.
    pub recoveries: u32,
    /// How many deaths in a row with the same step started are one too many, less one.
    pub max_recoveries: u32,
    /// When this generation might first run.
    pub opened_at: Time,
    /// The longest it may take from then on.
    pub timeout: Option<Duration>,
    /// How many instances of a `for_each` without a limit may be in flight.
    pub fan_limit: u32,
    /// For each task, whether its attempts are published for any node to execute. Empty when none are.
    pub spread: Arc<[bool]>,
    /// Attempts that are published, or of which an outcome has come: what of them is current is not published again.
    pub published: Vec<(LaneId, u32)>,
    /// The context it started with.
    pub context: Map<String, Value>,
    /// Its records with their generations, in the order in which they were recorded.
    pub steps: Vec<(u32, Step)>,
}

/// Why records and code do not fit together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Divergence {
    /// A task was recorded that the code does not have.
    Gone {
        /// The recorded step.
        step: String,
    },
    /// A recorded task waited for other tasks than it does now.
    Dependencies {
        /// The recorded task.
        task: String,
        /// What it waited for.
        recorded: Vec<String>,
        /// What it waits for now.
        now: Vec<String>,
    },
    /// A recorded step is an instance of a `for_each`, and its task is not one, or the other way round.
    Shape {
        /// The recorded step.
        step: String,
    },
    /// A durable function does not make a call that is recorded.
    NotCalled {
        /// The recorded call.
        step: String,
        /// What it was.
        recorded: CallKind,
        /// The last recorded call that it does make.
        after: Option<String>,
    },
    /// A durable function makes a call as something else than what is recorded.
    Kind {
        /// The call.
        step: String,
        /// What is recorded.
        recorded: CallKind,
        /// What it is now.
        now: CallKind,
    },
    /// A recorded result cannot be read by the code that asks for it.
    Unreadable {
        /// The recorded step.
        step: String,
        /// Why it cannot be read.
        why: String,
    },
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone { step } => write!(f, "`{step}` is recorded, but the code has no such task"),
            Self::Dependencies { task, recorded, now } => write!(
                f,
                "`{task}` is recorded with the dependencies [{}], but the code has [{}]",
                recorded.join(", "),
                now.join(", ")
            ),
            Self::NotCalled { step, recorded, after } => {
                write!(f, "`{step}` is recorded as {recorded}, but the code does not call it")?;
                match after {
                    Some(after) => write!(f, " after `{after}`"),
                    None => f.write_str(" where it begins"),
                }
            }
            Self::Kind { step, recorded, now } => {
                write!(f, "`{step}` is recorded as {recorded}, but the code calls it as {now}")
            }
            Self::Unreadable { step, why } => {
                write!(f, "`{step}` is recorded with a result that the code cannot read: {why}")
            }
            Self::Shape { step } => {
                write!(
                    f,
                    "`{step}` is recorded, but its task has changed between a single task and a for_each"
                )
            }
        }
    }
}

impl std::error::Error for Divergence {}

impl Plan {
    /// Whether a run that was recorded under `recorded` can go on under this plan: every recorded task must
    /// still be there, with the same dependencies.
    ///
    /// # Errors
    ///
    /// The first difference.
    pub fn continues<'s>(
        &self,
        recorded: &Definition,
        steps: impl IntoIterator<Item = &'s str>,
    ) -> Result<(), Divergence> {
        for step in steps.into_iter().filter(|step| ![VERDICT, VERSION].contains(step)) {
            // What code called is compared when it is called again.
            let lane = self.lane(step).or_else(|| self.caller(step));
            let lane = lane.ok_or_else(|| Divergence::Gone { step: step.to_owned() })?;
            let task = self.definition.task(lane.task);
            let Some(old) = recorded.find(&task.name) else { continue };
            let was = dependency_names(recorded, recorded.task(old));
            let now = dependency_names(&self.definition, task);
            if was != now {
                return Err(Divergence::Dependencies { task: task.name.to_string(), recorded: was, now });
            }
        }
        Ok(())
    }
}

fn dependency_names(definition: &Definition, task: &crate::Task) -> Vec<String> {
    task.dependencies.iter().map(|&at| definition.task(at).name.to_string()).collect()
}

impl Run {
    /// Takes a run up. Nothing starts before [`Event::Begin`](super::Event::Begin), so that orders that
    /// wait for the run are heard first.
    ///
    /// # Errors
    ///
    /// When a recorded step has no place in the plan.
    pub fn new(seed: Seed) -> Result<Self, Divergence> {
        let definition = Arc::clone(&seed.plan.definition);
        let tasks: Vec<TaskRun> =
            seed.plan.definition.indices().map(|at| TaskRun::new(&seed.plan, at, seed.opened_at)).collect();
        let mut run = Self {
            left: tasks.len(),
            plan: seed.plan,
            generation: seed.generation,
            epoch: seed.recoveries,
            opened_at: seed.opened_at,
            timeout: seed.timeout,
            fan_limit: seed.fan_limit,
            context: Arc::new(seed.context),
            tasks,
            alive: 0,
            deferred: 0,
            away: 0,
            spread: seed.spread,
            published: seed.published.into_iter().collect(),
            recalls: Default::default(),
            considered: Default::default(),
            ready: Default::default(),
            gate: Default::default(),
            suspects: Default::default(),
            isolating: Default::default(),
            backoffs: Default::default(),
            asked: 0,
            durable: 0,
            begun: false,
            paused: false,
            halted: false,
            closing: None,
            unclosed: None,
            ended: false,
            undo_deaths: BTreeMap::new(),
            undone: BTreeMap::new(),
            failed: Vec::new(),
            first_failure: None,
            any_changes: false,
            // Mostly there is one at a time.
            commands: Vec::with_capacity(2),
        };
        run.undone = run.undone_before(&seed.steps);
        for (generation, step) in &seed.steps {
            run.restore(*generation, step)?;
        }
        run.link();
        let deaths = run.deaths(&seed.steps);
        if matches!(run.closing.as_deref(), Some(Verdict::Abandoned { .. })) {
            // What kills its process is not run again, not even to put things in order.
            run.unclosed = None;
        }
        if run.closing.is_some() {
            // The verdict stands, and undos are all that still executes: one that kills its process has failed.
            run.undo_deaths = deaths.into_iter().map(|(step, deaths)| (step.to_owned(), deaths)).collect();
            return Ok(run);
        }
        let last_life = deaths.iter().filter(|(_, deaths)| **deaths >= seed.max_recoveries);
        // A durable function is alone with its steps.
        let lane = |step| run.plan.lane(step).or_else(|| run.plan.caller(step));
        run.suspects = last_life.filter_map(|(step, _)| lane(step)).collect();
        let poison = deaths.into_iter().find(|(_, deaths)| *deaths > seed.max_recoveries);
        if let Some((step, deaths)) = poison {
            let verdict = Verdict::Abandoned { step: step.to_owned(), deaths };
            run.closing = Some(Box::new(verdict));
            run.unclosed = None;
        } else if definition.on_failure == OnFailure::FailFast
            && definition.indices().any(|at| run.is_fatal(at))
        {
            run.closing = Some(Box::new(run.failure_verdict()));
        }
        Ok(run)
    }

    /// Takes one record in. Of earlier generations only completed work counts.
    fn restore(&mut self, generation: u32, step: &Step) -> Result<(), Divergence> {
        if &*step.name == VERSION {
            return Ok(());
        }
        let gone = || Divergence::Gone { step: step.name.to_string() };
        if step.name.contains('/') {
            let caller = self.plan.caller(&step.name);
            if caller.is_none() && &*step.name != VERDICT {
                return Err(gone());
            }
            if generation == self.generation {
                self.closing = self.closing.take().or_else(|| step.detail.verdict.clone());
                self.unclosed = caller.filter(|lane| self.plan.flow() == Some(lane.task));
            }
            return Ok(());
        }
        let lane = self.plan.lane(&step.name).ok_or_else(gone)?;
        let is_undone = self.undone.get(&lane).is_some_and(|(_, last)| *last >= generation);
        if generation < self.generation && (step.kind != StepKind::Completed || is_undone) {
            return Ok(());
        }
        let shape = || Divergence::Shape { step: step.name.to_string() };
        let task = &mut self.tasks[lane.task.get()];
        let entry = match (&mut task.lanes, lane.item) {
            (Lanes::One(entry), None) => entry,
            (Lanes::Many(fan), Some(item)) => {
                let needed = fan.lanes.len().max(item as usize + 1);
                fan.lanes.resize(needed, Lane::NEW);
                fan.failed += u32::from(step.kind == StepKind::Failed);
                fan.cut += u32::from(step.kind == StepKind::Cancelled);
                &mut fan.lanes[item as usize]
            }
            // A `for_each` that was skipped has no instances.
            (Lanes::Many(_), None) if step.kind == StepKind::Skipped => {
                task.outcome = Some(StepKind::Skipped);
                task.skip = step.detail.skipped.as_deref().cloned();
                task.ended_at = Some(step.ended_at);
                return Ok(());
            }
            _ => return Err(shape()),
        };
        match step.kind {
            StepKind::Started => return Ok(()),
            StepKind::Retrying => {
                entry.spent = entry.spent.max(step.attempt);
                entry.phase = Phase::Backoff(step.detail.retry_at.unwrap_or(step.ended_at));
                return Ok(());
            }
            kind => {
                *entry = Lane { phase: Phase::Done(kind), spent: step.attempt };
                task.ended_at = task.ended_at.max(Some(step.ended_at));
            }
        }
        self.keep(lane, step.kind, &step.detail);
        if let (StepKind::Failed, Some(failure)) = (step.kind, &step.detail.failure) {
            self.note_failure(lane.task, step.name.to_string(), failure);
        }
        Ok(())
    }

    /// How often earlier generations undid each lane, and which was the last that did: what was undone counts as not run.
    fn undone_before(&self, steps: &[(u32, Step)]) -> BTreeMap<LaneId, (u32, u32)> {
        let mut undone = BTreeMap::new();
        for (generation, step) in steps {
            let lane = step.name.strip_suffix(UNDO).and_then(|name| self.plan.lane(name));
            if let Some(lane) =
                lane.filter(|_| step.kind == StepKind::Completed && *generation < self.generation)
            {
                let (times, last) = undone.entry(lane).or_insert((0, 0));
                (*times, *last) = (*times + 1, *generation.max(last));
            }
        }
        undone
    }

    /// In how many deaths in a row each undo was executing that was executing at the last, by the name of its record.
    #[must_use]
    pub const fn undo_deaths(&self) -> &BTreeMap<String, u32> {
        &self.undo_deaths
    }

    /// How often a lane was undone before it is done again.
    #[must_use]
    pub fn times_undone(&self, lane: LaneId) -> u32 {
        self.undone.get(&lane).map_or(0, |(times, _)| *times)
    }

    /// Finds out, from what is recorded, which tasks have ended and which are next.
    ///
    /// A task that an earlier generation completed holds its dependents back until what it waits for has
    /// ended again: they see the changes of all their ancestors, whoever is quicker.
    fn link(&mut self) {
        let plan = Arc::clone(&self.plan);
        for &at in plan.graph.topological() {
            self.link_instances(at);
            let task = &mut self.tasks[at.get()];
            if let Lanes::One(Lane { phase: Phase::Done(kind), .. }) = task.lanes {
                task.outcome = Some(kind);
            }
            if task.outcome.is_none() {
                continue;
            }
            self.left -= 1;
            if self.tasks[at.get()].waiting_for == 0 {
                self.tasks[at.get()].ready_at = self.dependencies_ended_at(at);
                for &dependent in plan.graph.dependents(at) {
                    self.tasks[dependent.get()].waiting_for -= 1;
                }
            }
        }
        let open = |at: &TaskIx| {
            let task = &self.tasks[at.get()];
            task.outcome.is_none() && task.waiting_for == 0
        };
        self.considered = plan.definition.indices().filter(open).collect();
    }

    /// Ends a `for_each` all of whose instances are recorded. One over nothing has no record of its own: it
    /// is asked for its rule again, which answers as it did.
    fn link_instances(&mut self, at: TaskIx) {
        let entry = &self.tasks[at.get()];
        let (Lanes::Many(fan), Some(for_each)) = (&entry.lanes, self.plan.definition.task(at).for_each)
        else {
            return;
        };
        if entry.outcome.is_some() {
            self.join_instances(at);
            return;
        }
        let over = self.outcome(for_each.over) == Some(StepKind::Completed);
        let all_ended = fan.lanes.len() == self.elements(for_each.over) as usize
            && fan.lanes.iter().all(|lane| lane.is_done());
        match fan.lanes.is_empty() {
            false if over && all_ended => {}
            true if all_ended && entry.waiting_for == 0 && self.skip_reason(at).is_none() => {
                self.tasks[at.get()].ended_at = Some(self.dependencies_ended_at(at));
            }
            _ => return,
        }
        let kind = self.join_instances(at);
        self.tasks[at.get()].outcome = Some(kind);
    }

    /// The steps that were executing when the last life ended, and in how many deaths in a row.
    ///
    /// After a recovery every start is recorded with the number of recoveries before it, so the records tell
    /// what was executing when a life ended. What counts are deaths in a row: a step that ended in between
    /// shows that the run can live, and the count begins again.
    fn deaths<'s>(&self, steps: &'s [(u32, Step)]) -> BTreeMap<&'s str, u32> {
        let Some(last) = self.epoch.checked_sub(1) else { return BTreeMap::new() };
        let mine =
            || steps.iter().filter(|(generation, _)| *generation == self.generation).map(|(_, step)| step);
        let ends = || mine().filter(|step| step.kind != StepKind::Started && &*step.name != VERSION);
        let ended: BTreeSet<(&str, u32)> = ends().map(|step| (&*step.name, step.attempt)).collect();
        let fresh_from = ends().map(|step| step.epoch).max().unwrap_or(0);
        let executing: BTreeSet<(&str, u32)> = mine()
            .filter(|step| step.kind == StepKind::Started && step.detail.call.is_step())
            .filter(|step| !ended.contains(&(&*step.name, step.attempt)))
            .map(|step| (&*step.name, step.epoch))
            .collect();
        let suspects = executing.iter().filter(|(_, life)| *life == last).map(|(name, _)| *name);
        let in_a_row = |name| {
            let lives = (fresh_from..=last).rev().take_while(|life| executing.contains(&(name, *life)));
            u32::try_from(lives.count()).unwrap_or(u32::MAX)
        };
        suspects.map(|name| (name, in_a_row(name))).filter(|(_, deaths)| *deaths > 0).collect()
    }
}

impl TaskRun {
    fn new(plan: &Plan, at: TaskIx, opened_at: Time) -> Self {
        let task = plan.definition.task(at);
        Self {
            waiting_for: u32::try_from(task.dependencies.len()).unwrap_or(u32::MAX),
            lanes: match task.for_each {
                None => Lanes::One(Lane::NEW),
                Some(_) => Lanes::Many(Box::<Fan>::default()),
            },
            outcome: None,
            ready_at: opened_at,
            ended_at: None,
            changes: None,
            failure: None,
            skip: None,
            items: None,
            sight: Sight::new(plan.graph.dependents(at).len()),
        }
    }
}

impl LaneId {
    /// The lane of a plain task.
    #[must_use]
    pub const fn of(task: TaskIx) -> Self {
        Self { task, item: None }
    }
}
