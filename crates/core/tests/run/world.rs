//! An engine in a box: it carries out what a run asks for, in virtual time, and can die at any moment.
//!
//! Whatever the run asks for is checked on the way, so every test that uses it tests these promises too.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use serde_json::{Map, Value};
use windlass_core::{
    Attempt, Changes, Command, Definition, Draft, Ended, Event, Failure, LaneId, Order, Plan, Rest, Run,
    Seed, Step, StepKind, TaskIx, TaskState, TaskView, Time, Verdict,
};

use crate::{model::Lineage, watch};

/// What a run is made from, beside its records.
#[derive(Clone, Debug)]
pub struct Setup {
    pub definition: Definition,
    pub context: Map<String, Value>,
    pub fan_limit: u32,
    pub max_recoveries: u32,
}

impl Setup {
    pub fn new(definition: Definition) -> Self {
        Self { definition, context: Map::new(), fan_limit: 100, max_recoveries: u32::MAX }
    }
}

/// An attempt that executes.
#[derive(Clone, Debug)]
pub struct Live {
    pub number: u32,
    pub started_at: Time,
    pub deadline: Option<Time>,
    pub stopped: bool,
    pub deferred: bool,
    /// What it sees of the context.
    pub context: Arc<Map<String, Value>>,
}

/// What was asked of the store and is not safe yet.
#[derive(Clone, Debug)]
pub enum Flight {
    Record(Step),
    End(Verdict),
}

/// A run with its engine and its store.
pub struct World {
    pub setup: Setup,
    pub plan: Arc<Plan>,
    pub lineage: Lineage,
    pub run: Run,
    pub now: Time,
    pub opened_at: Time,
    pub generation: u32,
    pub recoveries: u32,
    /// What survives a crash.
    pub durable: Vec<(u32, Step)>,
    pub inbox: Vec<Order>,
    pub end: Option<Verdict>,
    /// What does not.
    pub flights: VecDeque<Flight>,
    pub live: BTreeMap<LaneId, Live>,
    pub halted: bool,
    /// Steps that were executing when the last process died, and lanes that wait for leave to start, or have it.
    pub suspects: BTreeSet<String>,
    pub isolating: BTreeSet<LaneId>,
    pub isolated: BTreeSet<LaneId>,
    /// Whether leave is given only when a test says so.
    pub slow_to_isolate: bool,
    pub states: Vec<TaskState>,
    /// How many deaths in a row each step was executing in, by the records alone.
    pub deaths: BTreeMap<String, u32>,
    /// The steps that were started, in this order, over all lives.
    pub started: Vec<String>,
}

impl World {
    pub fn new(setup: Setup) -> Self {
        let plan = Arc::new(Plan::new(Arc::new(setup.definition.clone())));
        let opened_at = Time(1_000_000_000);
        let seed = seed(&setup, &plan, 1, 0, opened_at, Vec::new());
        let mut world = Self {
            run: Run::new(seed).expect("a run without records fits its plan"),
            states: vec![TaskState::NotStarted; setup.definition.tasks.len()],
            lineage: Lineage::of(&setup.definition),
            setup,
            plan,
            now: opened_at,
            opened_at,
            generation: 1,
            recoveries: 0,
            durable: Vec::new(),
            inbox: Vec::new(),
            end: None,
            flights: VecDeque::new(),
            live: BTreeMap::new(),
            halted: false,
            suspects: BTreeSet::new(),
            isolating: BTreeSet::new(),
            isolated: BTreeSet::new(),
            slow_to_isolate: false,
            deaths: BTreeMap::new(),
            started: Vec::new(),
        };
        world.apply(Event::Begin);
        world
    }

    /// A run of this draft whose orders came before any node took it up.
    pub fn with_orders(draft: Draft, orders: &[Order]) -> Self {
        let mut world = Self::idle(draft);
        world.inbox = orders.to_vec();
        world.take_up();
        world
    }

    /// A run of this draft that has begun.
    pub fn of(draft: Draft) -> Self {
        Self::new(Setup::new(draft.check().expect("the draft is sound")))
    }

    fn idle(draft: Draft) -> Self {
        let mut world = Self::of(draft);
        world.live.clear();
        world.flights.clear();
        world.started.clear();
        world
    }

    /// Makes the run anew from what is durable.
    pub fn rebuild(&mut self) {
        let steps = self.durable.clone();
        let seed = seed(&self.setup, &self.plan, self.generation, self.recoveries, self.opened_at, steps);
        self.run = Run::new(seed).expect("a run fits its own records");
    }

    /// Another process takes the run up.
    pub fn take_up(&mut self) {
        self.rebuild();
        self.flights.clear();
        self.live.clear();
        self.halted = false;
        self.isolating.clear();
        self.isolated.clear();
        watch::suspect(self);
        self.states = self.run.tasks().iter().map(|task| task.state).collect();
        for order in self.inbox.clone() {
            self.apply(Event::Order(order));
        }
        self.apply(Event::Begin);
    }

    /// The process dies, and another takes the run over.
    pub fn crash(&mut self) {
        watch::count_deaths(self);
        self.recoveries += 1;
        self.take_up();
        watch::poison(self);
    }

    /// The node gives the run up in good order, and another takes it up. Nothing may be executing.
    pub fn change_hands(&mut self) {
        assert_ne!(self.run.rest(), Rest::Busy, "a run that is busy is not given up");
        self.commit_all();
        if self.end.is_none() {
            self.take_up();
        }
    }

    /// A person retries the run.
    pub fn retry(&mut self) {
        assert!(self.end.take().is_some(), "only a run that has ended is retried");
        self.generation += 1;
        self.recoveries = 0;
        self.deaths.clear();
        self.opened_at = self.now;
        self.inbox.clear();
        self.take_up();
    }

    pub fn apply(&mut self, event: Event) {
        if self.end.is_some() {
            return;
        }
        self.run.apply(event, self.now);
        for command in self.run.take_commands() {
            watch::command(self, &command);
            match command {
                Command::Record { step, .. } => self.flights.push_back(Flight::Record(step)),
                Command::Start(attempt) => self.start(attempt),
                Command::Isolate(lane) => drop(self.isolating.insert(lane)),
                Command::Stop(lane) => self.live.get_mut(&lane).expect("it executes").stopped = true,
                Command::End(verdict) => self.flights.push_back(Flight::End(verdict)),
                Command::Publish(_) | Command::Withdraw { .. } => panic!("nothing is spread here"),
            }
        }
        watch::states(self);
        if !self.slow_to_isolate {
            self.isolate_all();
        }
    }

    /// The node lets the suspects start.
    pub fn isolate_all(&mut self) {
        while let Some(lane) = self.isolating.pop_first() {
            self.isolated.insert(lane);
            self.apply(Event::Isolated(lane));
        }
    }

    fn start(&mut self, attempt: Attempt) {
        let context = self.run.context_for(attempt.lane.task);
        watch::context(self, attempt.lane, &context);
        let live = Live {
            number: attempt.number,
            started_at: self.now,
            deadline: attempt.deadline,
            stopped: false,
            deferred: false,
            context,
        };
        self.started.push(self.name_of(attempt.lane));
        self.live.insert(attempt.lane, live);
    }

    /// The store makes the next `count` records safe.
    pub fn commit(&mut self, count: usize) {
        let mut records = 0;
        for _ in 0..count {
            match self.flights.pop_front() {
                Some(Flight::Record(step)) => {
                    records += 1;
                    self.keep(step);
                }
                Some(Flight::End(verdict)) => {
                    assert!(self.end.replace(verdict).is_none(), "a run ends once");
                    assert!(self.flights.is_empty(), "nothing follows the end");
                    self.live.clear();
                    return;
                }
                None => break,
            }
        }
        self.apply(Event::Recorded(records));
    }

    /// Like a store: what is recorded already is not recorded again.
    fn keep(&mut self, step: Step) {
        let key = |step: &Step| {
            let started_in = (step.kind == StepKind::Started).then_some(step.epoch);
            (Arc::clone(&step.name), step.attempt, started_in)
        };
        let new = key(&step);
        if !self.durable.iter().any(|(generation, old)| *generation == self.generation && key(old) == new) {
            self.durable.push((self.generation, step));
        }
    }

    pub fn commit_all(&mut self) {
        while !self.flights.is_empty() && self.end.is_none() {
            self.commit(self.flights.len());
        }
    }

    pub fn finish(&mut self, lane: LaneId, ended: Ended) {
        let live = self.live.remove(&lane).expect("only what executes can end");
        self.apply(Event::Ended { lane, started_at: live.started_at, ended, dice: 0.5 });
    }

    pub fn order(&mut self, order: Order) {
        match &order {
            // A resumed run has no use for the pause any more.
            Order::Resume => self.inbox.retain(|old| *old != Order::Pause),
            other => self.inbox.push(other.clone()),
        }
        self.apply(Event::Order(order));
    }

    pub fn halt(&mut self) {
        self.halted = true;
        self.apply(Event::Halt);
    }

    pub fn defer(&mut self, lane: LaneId, until: Time) {
        self.live.get_mut(&lane).expect("only what executes can wait").deferred = true;
        self.apply(Event::Deferred { lane, until });
    }

    pub fn undefer(&mut self, lane: LaneId) {
        self.live.get_mut(&lane).expect("only what waits can go on").deferred = false;
        self.apply(Event::Undeferred(lane));
    }

    /// Time passes, and the run hears of it.
    pub fn pass(&mut self, span: Duration) {
        self.now = self.now + span;
        self.apply(Event::Tick);
    }

    pub fn is_paused(&self) -> bool {
        let last = self.inbox.iter().rfind(|order| matches!(order, Order::Pause | Order::Resume));
        last == Some(&Order::Pause)
    }

    pub fn verdict_of_person(&self) -> Option<&Order> {
        self.inbox.iter().find(|order| matches!(order, Order::Cancel { .. } | Order::Terminate { .. }))
    }

    /// Every record of this run, durable or not, with its generation.
    pub fn records(&self) -> impl Iterator<Item = (u32, &Step)> {
        let flying = self.flights.iter().filter_map(|flight| match flight {
            Flight::Record(step) => Some((self.generation, step)),
            Flight::End(_) => None,
        });
        self.durable.iter().map(|(generation, step)| (*generation, step)).chain(flying)
    }

    pub fn name_of(&self, lane: LaneId) -> String {
        let name = &self.setup.definition.task(lane.task).name;
        lane.item.map_or_else(|| name.to_string(), |item| format!("{name}[{item}]"))
    }

    pub fn task(&self, name: &str) -> TaskIx {
        self.setup.definition.find(name).unwrap_or_else(|| panic!("there is no task `{name}`"))
    }

    fn lane(&self, step: &str) -> LaneId {
        self.plan.lane(step).unwrap_or_else(|| panic!("there is no step `{step}`"))
    }

    // What follows speaks in names and commits at once, for the tests that tell a story.

    pub fn end_with(&mut self, step: &str, ended: Ended) {
        self.finish(self.lane(step), ended);
        self.commit_all();
    }

    pub fn complete(&mut self, step: &str) {
        self.end_with(step, Ended::Completed { changes: Changes::default(), items: None });
    }

    pub fn complete_with_items(&mut self, step: &str, items: u32) {
        self.end_with(step, Ended::Completed { changes: Changes::default(), items: Some(items) });
    }

    /// Completes a step that set these keys; a null removes the key.
    pub fn complete_with(&mut self, step: &str, written: Value) {
        let Value::Object(written) = written else { panic!("changes are an object") };
        let mut changes = Changes::default();
        for (key, value) in written {
            match value {
                Value::Null => drop(changes.removed.insert(key)),
                value => drop(changes.set.insert(key, value)),
            }
        }
        self.end_with(step, Ended::Completed { changes, items: None });
    }

    pub fn fail(&mut self, step: &str) {
        self.end_with(step, Ended::Failed(Failure::new(format!("{step} broke"))));
    }

    /// The steps that execute.
    pub fn running(&self) -> Vec<String> {
        self.live.keys().map(|lane| self.name_of(*lane)).collect()
    }

    /// What a step that executes sees of the context.
    pub fn sees(&self, step: &str) -> Value {
        Value::Object((*self.live[&self.lane(step)].context).clone())
    }

    pub fn view(&self, task: &str) -> TaskView {
        self.run.tasks().swap_remove(self.task(task).get())
    }

    pub fn state(&self, task: &str) -> TaskState {
        self.view(task).state
    }

    pub fn verdict(&self) -> &Verdict {
        self.end.as_ref().unwrap_or_else(|| panic!("the run has not ended: {:?} execute", self.running()))
    }
}

fn seed(
    setup: &Setup,
    plan: &Arc<Plan>,
    generation: u32,
    recoveries: u32,
    opened_at: Time,
    steps: Vec<(u32, Step)>,
) -> Seed {
    Seed {
        plan: Arc::clone(plan),
        generation,
        recoveries,
        max_recoveries: setup.max_recoveries,
        opened_at,
        timeout: setup.definition.timeout,
        fan_limit: setup.fan_limit,
        spread: Default::default(),
        published: Vec::new(),
        context: setup.context.clone(),
        steps,
    }
}
