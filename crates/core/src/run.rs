//! The run state machine.
//!
//! A [`Run`] is told what happened and answers with what to do. It decides as soon as it hears of an
//! outcome, but it lets nothing start that builds on a record which is not durable yet: a start waits in the
//! gate until every record asked for before it is safe. So the last outcome and the run's end travel in one
//! commit, and a dependent never runs ahead of its upstream's result.

mod away;
mod close;
mod command;
mod fan;
mod lane;
mod outcome;
mod plan;
mod seed;
mod sight;
mod view;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap},
    sync::Arc,
    time::Duration,
};

pub use command::{Attempt, Command, Ended, Event, LaneId, Order, Rest, Verdict};
use fan::Fan;
use lane::{Lane, Phase};
pub use plan::Plan;
pub use seed::{Divergence, Seed};
use serde_json::{Map, Value};
use sight::Sight;
use smallvec::SmallVec;
pub use view::TaskView;

use crate::{
    Changes, Definition, Detail, Durability, Failure, OnFailure, Skip, Step, StepKind, TaskIx, Time,
};

/// One run of a graph, in memory.
#[derive(Debug)]
pub struct Run {
    plan: Arc<Plan>,
    generation: u32,
    epoch: u32,
    opened_at: Time,
    timeout: Option<Duration>,
    fan_limit: u32,
    context: Arc<Map<String, Value>>,
    tasks: Vec<TaskRun>,

    /// Tasks that have not ended.
    left: usize,
    /// Attempts that exist: running or deferred.
    alive: usize,
    /// Attempts among them that wait without a slot.
    deferred: usize,
    /// Attempts among them that are published.
    away: usize,
    /// For each task, whether its attempts are published.
    spread: Arc<[bool]>,
    /// Attempts that were published before the run was taken up, and have not been asked for yet.
    published: BTreeSet<(LaneId, u32)>,
    /// When published attempts are taken back, if they are still out.
    recalls: BinaryHeap<Reverse<(Time, LaneId, u32)>>,
    /// Tasks whose dependencies have all ended, to be considered.
    considered: SmallVec<[TaskIx; 4]>,
    /// Lanes that may start.
    ready: SmallVec<[LaneId; 2]>,
    /// Lanes that start when this many records are durable, in the order of that.
    gate: SmallVec<[(u64, LaneId); 2]>,
    /// Lanes that would abandon the run if they were executing at one more death, and have not been started since.
    suspects: BTreeSet<LaneId>,
    /// Suspects that wait for the node to start them alone.
    isolating: BTreeSet<LaneId>,
    /// Lanes that wait for their next attempt.
    backoffs: BinaryHeap<Reverse<(Time, LaneId)>>,
    /// Records asked for, and how many of them are durable.
    asked: u64,
    durable: u64,

    begun: bool,
    paused: bool,
    halted: bool,
    closing: Option<Box<Verdict>>,
    /// A durable function that has called something, and has to put things in order before the run may end otherwise
    /// than by its own result.
    unclosed: Option<LaneId>,
    ended: bool,
    /// In how many deaths in a row each undo was executing, by the name of its record.
    undo_deaths: BTreeMap<String, u32>,
    /// How often earlier generations undid a lane, and which was the last that did.
    undone: BTreeMap<LaneId, (u32, u32)>,
    failed: Vec<String>,
    first_failure: Option<Box<Failure>>,
    any_changes: bool,
    commands: Vec<Command>,
}

#[derive(Debug)]
struct TaskRun {
    /// Dependencies that have not ended.
    waiting_for: u32,
    lanes: Lanes,
    outcome: Option<StepKind>,
    /// When its dependencies had ended: what its deadline counts from.
    ready_at: Time,
    ended_at: Option<Time>,
    /// What it changed in the context, if anything.
    changes: Option<Box<Changes>>,
    failure: Option<Box<Failure>>,
    skip: Option<Skip>,
    /// How many elements its result has, where a `for_each` hands them out.
    items: Option<u32>,
    sight: Sight,
}

#[derive(Debug)]
enum Lanes {
    One(Lane),
    Many(Box<Fan>),
}

impl Run {
    /// Tells the run what happened. What it asks for is added to what it asked for before: see
    /// [`take_commands`](Self::take_commands).
    pub fn apply(&mut self, event: Event, now: Time) {
        if self.ended {
            return;
        }
        match event {
            Event::Begin => self.begun = true,
            Event::Ended { lane, started_at, ended, dice } => {
                self.attempt_ended(lane, started_at, ended, dice, now)
            }
            Event::Recorded(records) => self.durable += records,
            Event::Deferred { lane, until } => self.defer(lane, until),
            Event::Undeferred(lane) => self.undefer(lane),
            Event::Isolated(lane) => {
                if self.isolating.remove(&lane) {
                    self.wake(lane);
                }
            }
            Event::Order(order) => self.order(order),
            Event::Failing { lane, failure } => {
                let step = self.step_name(lane).to_string();
                self.close(Verdict::Failed { step, failure: Box::new(failure), also: Vec::new() });
            }
            Event::Halt => self.halted = true,
            Event::Tick => {}
        }
        if !self.ended {
            self.tick(now);
            self.settle(now);
        }
    }

    /// What the run asks for since this was last called.
    pub fn take_commands(&mut self) -> Vec<Command> {
        std::mem::take(&mut self.commands)
    }

    /// Takes back a list of commands that were carried out: its room is used again.
    pub fn reuse(&mut self, mut commands: Vec<Command>) {
        if self.commands.capacity() == 0 {
            commands.clear();
            self.commands = commands;
        }
    }

    /// When the run wants to hear a [`Event::Tick`], if nothing else happens.
    #[must_use]
    pub fn next_tick(&self) -> Option<Time> {
        let backoff = self.backoffs.peek().map(|Reverse((at, _))| *at).filter(|_| !self.is_held());
        let recall = self.recalls.peek().map(|Reverse((at, ..))| *at);
        let is_open = self.closing.is_none() && !self.ended;
        earliest(earliest(backoff, recall), self.deadline()).filter(|_| is_open)
    }

    /// What the run does when nothing of it executes.
    #[must_use]
    pub fn rest(&self) -> Rest {
        if self.ended || self.closing.is_some() || self.alive > self.deferred + self.away {
            return Rest::Busy;
        }
        if self.halted {
            return Rest::Halted;
        }
        if self.paused {
            return Rest::Paused(self.deadline());
        }
        if !self.ready.is_empty() || !self.gate.is_empty() || !self.isolating.is_empty() || !self.begun {
            return Rest::Busy;
        }
        let deferred = (self.deferred > 0).then(|| self.deferred_until()).flatten();
        Rest::Waiting(earliest(deferred, self.next_tick()))
    }

    /// When the run has taken too long.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.timeout.map(|timeout| self.opened_at + timeout)
    }

    /// When this generation might first run.
    #[must_use]
    pub const fn opened_at(&self) -> Time {
        self.opened_at
    }

    /// How many attempts exist.
    #[must_use]
    pub const fn alive(&self) -> usize {
        self.alive
    }

    /// The graph that this is a run of.
    #[must_use]
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    fn definition(&self) -> &Definition {
        &self.plan.definition
    }

    /// Whether nothing new may start.
    const fn is_held(&self) -> bool {
        self.paused || self.halted || self.closing.is_some() || !self.begun || self.ended
    }

    fn tick(&mut self, now: Time) {
        // A run that has nothing left to do is not late: it only has to be told so.
        let is_open = self.closing.is_none() && self.left > 0;
        if is_open && self.deadline().is_some_and(|deadline| deadline <= now) {
            let unfinished = self.unfinished();
            self.close(Verdict::TimedOut { after: self.timeout.unwrap_or_default(), unfinished });
        }
        while let Some(Reverse((at, lane, number))) = self.recalls.peek().copied() {
            if at > now {
                break;
            }
            self.recalls.pop();
            self.recall(lane, number);
        }
        while let Some(Reverse((at, lane))) = self.backoffs.peek().copied() {
            if at > now || self.is_held() {
                break;
            }
            self.backoffs.pop();
            self.wake(lane);
        }
    }

    fn settle(&mut self, now: Time) {
        let mut at = 0;
        // What is considered may add to the list.
        while let Some(&task) = self.considered.get(at) {
            at += 1;
            if self.closing.is_none() {
                self.consider(task, now);
            }
        }
        self.considered.clear();
        self.pump(now);
        self.finish();
    }

    /// Lets ready lanes through the gate.
    fn pump(&mut self, now: Time) {
        if self.is_held() {
            return;
        }
        let strict = self.definition().durability == Durability::Strict;
        for lane in std::mem::take(&mut self.ready) {
            // What is published counts its own deaths.
            let is_spread = self.is_spread(lane.task);
            if !is_spread && self.suspects.remove(&lane) {
                self.isolating.insert(lane);
                self.commands.push(Command::Isolate(lane));
                continue;
            }
            let mut after = if strict { self.asked } else { 0 };
            // A durable function records the starts of its own steps.
            if self.epoch > 0 && !is_spread && !self.definition().task(lane.task).flow {
                let attempt = self.lane(lane).spent + 1;
                self.record(lane, StepKind::Started, attempt, now, now, Detail::default());
                after = self.asked;
            }
            self.gate.push((after, lane));
        }
        let open = self.gate.iter().take_while(|(after, _)| *after <= self.durable).count();
        if open == 0 {
            return;
        }
        let mut gate = std::mem::take(&mut self.gate);
        gate.drain(..open).for_each(|(_, lane)| self.start(lane));
        self.gate = gate;
    }

    fn start(&mut self, lane: LaneId) {
        let deadline = self.task_deadline(lane.task);
        let entry = self.lane_mut(lane);
        let number = entry.spent + 1;
        let attempt = Attempt { lane, number, deadline, closing: false };
        if self.is_spread(lane.task) {
            self.send_away(lane);
            return self.commands.push(Command::Publish(attempt));
        }
        self.lane_mut(lane).phase = Phase::Running;
        self.alive += 1;
        self.commands.push(Command::Start(attempt));
    }

    fn task_deadline(&self, task: TaskIx) -> Option<Time> {
        self.definition().task(task).deadline.map(|limit| self.tasks[task.get()].ready_at + limit)
    }

    fn task_done(&mut self, task: TaskIx, kind: StepKind, at: Time) {
        let entry = &mut self.tasks[task.get()];
        if entry.outcome.is_some() {
            return;
        }
        entry.outcome = Some(kind);
        entry.ended_at = entry.ended_at.max(Some(at));
        self.left -= 1;
        self.release_dependents(task);
        if self.is_fatal(task) && self.definition().on_failure == OnFailure::FailFast {
            self.close(self.failure_verdict());
        }
    }

    /// Whether this task's failure is the run's.
    fn is_fatal(&self, task: TaskIx) -> bool {
        self.outcome(task) == Some(StepKind::Failed) && !self.definition().task(task).allow_failure
    }

    fn release_dependents(&mut self, task: TaskIx) {
        let plan = Arc::clone(&self.plan);
        for &dependent in plan.graph.dependents(task) {
            let waiting = &mut self.tasks[dependent.get()].waiting_for;
            *waiting -= 1;
            if *waiting == 0 {
                self.considered.push(dependent);
            }
        }
        if plan.graph.dependents(task).is_empty() {
            self.tasks[task.get()].sight.close();
        }
    }

    /// Decides what happens to a task whose dependencies have all ended.
    ///
    /// A rule is asked once. What it answers depends on recorded facts alone, so that two nodes that look
    /// at the same records can never disagree.
    fn consider(&mut self, task: TaskIx, now: Time) {
        self.tasks[task.get()].ready_at = self.dependencies_ended_at(task);
        if self.tasks[task.get()].outcome.is_some() {
            // Kept from an earlier generation, while something upstream of it was done again.
            return self.release_dependents(task);
        }
        if let Some(why) = self.skip_reason(task) {
            let lane = LaneId { task, item: None };
            let detail = Detail { skipped: Some(Box::new(why.clone())), ..Detail::default() };
            self.record(lane, StepKind::Skipped, 0, now, now, detail);
            self.tasks[task.get()].skip = Some(why);
            // Instances that an earlier generation completed have changed what they changed.
            self.join_instances(task);
            self.see_through(task);
            self.task_done(task, StepKind::Skipped, now);
            return;
        }
        match self.definition().task(task).for_each {
            None => self.queue(LaneId { task, item: None }),
            Some(for_each) => self.fan_out(task, self.elements(for_each.over)),
        }
    }

    /// Lets a lane have its next attempt, now or when its backoff is over.
    fn queue(&mut self, lane: LaneId) {
        if !self.published.is_empty() && self.published.remove(&(lane, self.lane(lane).spent + 1)) {
            return self.send_away(lane);
        }
        match self.lane(lane).phase {
            Phase::Backoff(at) => self.backoffs.push(Reverse((at, lane))),
            _ => self.wake(lane),
        }
    }

    fn wake(&mut self, lane: LaneId) {
        self.lane_mut(lane).phase = Phase::Ready;
        self.ready.push(lane);
    }

    fn defer(&mut self, lane: LaneId, until: Time) {
        let entry = self.lane_mut(lane);
        match entry.phase {
            Phase::Running => {
                entry.phase = Phase::Deferred(until);
                self.deferred += 1;
            }
            Phase::Deferred(_) => entry.phase = Phase::Deferred(until),
            _ => {}
        }
    }

    fn undefer(&mut self, lane: LaneId) {
        let entry = self.lane_mut(lane);
        if let Phase::Deferred(_) = entry.phase {
            entry.phase = Phase::Running;
            self.deferred -= 1;
        }
    }

    fn record(
        &mut self,
        lane: LaneId,
        kind: StepKind,
        attempt: u32,
        started_at: Time,
        ended_at: Time,
        detail: Detail,
    ) {
        self.asked += 1;
        let step = Step {
            name: self.step_name(lane),
            attempt,
            epoch: self.epoch,
            kind,
            started_at,
            ended_at,
            detail,
        };
        self.commands.push(Command::Record { lane, step });
    }

    /// The name under which a lane is recorded.
    #[must_use]
    pub fn step_name(&self, lane: LaneId) -> Arc<str> {
        let name = &self.definition().task(lane.task).name;
        match lane.item {
            None => Arc::clone(name),
            Some(item) => format!("{name}[{item}]").into(),
        }
    }

    fn lane(&self, id: LaneId) -> Lane {
        match (&self.tasks[id.task.get()].lanes, id.item) {
            (Lanes::One(lane), _) => *lane,
            (Lanes::Many(fan), item) => fan.lanes[item.unwrap_or(0) as usize],
        }
    }

    fn lane_mut(&mut self, id: LaneId) -> &mut Lane {
        match (&mut self.tasks[id.task.get()].lanes, id.item) {
            (Lanes::One(lane), _) => lane,
            (Lanes::Many(fan), item) => &mut fan.lanes[item.unwrap_or(0) as usize],
        }
    }

    fn lanes(&self) -> impl Iterator<Item = (LaneId, Lane)> + '_ {
        self.tasks.iter().enumerate().flat_map(|(at, task)| {
            let task_ix = TaskIx::from(at);
            let (one, many) = match &task.lanes {
                Lanes::One(lane) => (Some(*lane), &[][..]),
                Lanes::Many(fan) => (None, fan.lanes.as_slice()),
            };
            let one = one.map(|lane| (LaneId { task: task_ix, item: None }, lane));
            let many = many
                .iter()
                .zip(0..)
                .map(move |(lane, item)| (LaneId { task: task_ix, item: Some(item) }, *lane));
            one.into_iter().chain(many)
        })
    }

    fn deferred_until(&self) -> Option<Time> {
        self.lanes()
            .filter_map(|(_, lane)| match lane.phase {
                Phase::Deferred(until) => Some(until).filter(|until| *until < Time::MAX),
                _ => None,
            })
            .min()
    }
}

fn earliest(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, None) | (None, one) => one,
    }
}
