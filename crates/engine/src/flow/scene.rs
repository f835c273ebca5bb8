//! One durable function in memory: what it called, and what became of that.

#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod alone;
mod calls;
mod records;
mod round;
mod state;
mod task;

use std::{
    collections::{BTreeMap, BTreeSet, HashSet, VecDeque},
    sync::{Arc, OnceLock, atomic::AtomicBool},
    task::Waker,
};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use windlass_core::{
    ByName, CallKind, Detail, Divergence, Failure, Journal, Kept, LaneId, StepKind, Time, VERDICT, Verdict,
    joined,
};
use windlass_store::{StepRow, Unit};

use super::{
    INHERITED,
    child::Child,
    dry::Replayed,
    undo::Undo,
    visit::{LookBack, Undone, is_passing, mark_past},
    waker::{self, FunctionWakers},
};
use crate::{Cx, Error, Slot, attempt::Host, committer::Reply, run_loop::RunCell, take_up};

/// The call whose record says what a round of the function begins with.
pub(super) const CONTINUE: &str = "/continue";

/// One durable function in memory, shared by its code, whoever drives it, and its run.
pub(crate) struct Scene {
    pub(super) cell: Arc<RunCell>,
    pub(super) lane: LaneId,
    /// What records of its calls begin with: nothing for a function that is the whole run, else the lane's name.
    prefix: Arc<str>,
    /// Whether this is a task of a graph. Its code may take another path each time, and its next attempt goes on with
    /// what is recorded here.
    is_task: bool,
    /// When this generation might first run.
    opened_at: Time,
    /// Held while a record is handed in, so that they are numbered in the order in which they are written.
    line: Mutex<Line>,
    /// Called when a record is taken in, and when whoever was alone is done.
    moved: Notify,
    /// Whether a record was not written, so that none after it is either.
    is_lost: AtomicBool,
    wakers: OnceLock<FunctionWakers>,
    state: Mutex<State>,
}

/// Records on their way to the committer.
#[derive(Default)]
struct Line {
    /// Whether somebody writes a record in a transaction of its own: what comes meanwhile waits.
    is_held: bool,
    behind: Vec<(Unit, Reply)>,
}

pub(super) struct State {
    pub(super) journal: Journal,
    /// What is recorded of calls that the function has not heard of yet, or may ask for again.
    pub(super) outcomes: ByName<Outcome>,
    /// Whether the function is run again from its top after every step, to see whether it does the same.
    pub(super) rehearses: bool,
    /// Whether outcomes are kept for the next attempt of a task.
    keeps: bool,
    /// Calls that the function has not heard of yet, by the number of the call.
    pub(super) open: BTreeMap<u64, Box<Call>>,
    /// Those of them that somebody has to look after: they have a time, or wait for a message.
    pub(super) waits: BTreeSet<u64>,
    pub(super) numbers: ByName<u64>,
    /// Room for the next call.
    spare: Option<Box<Call>>,
    next: u64,
    /// Children that the function has called and not heard of, by the number of the call.
    pub(super) children: BTreeMap<u64, Child>,
    /// Which round of the function this is, and what it begins with: the run's input, or what the last round left.
    round: u32,
    input: Option<Slot>,
    /// What the next round begins with, when this one has said so.
    next_input: Option<Slot>,
    began_at: Time,
    /// What earlier attempts of a step came to, as recorded.
    pub(super) tried: ByName<(u32, Option<Time>)>,
    /// Which attempt of a step was its last, where it failed for good: a state machine may make it once more.
    pub(super) failed: ByName<u32>,
    saved: BTreeMap<Arc<str>, Slot>,
    /// Undos of completed steps, in the order in which the steps were recorded.
    pub(super) undos: Vec<(Arc<str>, Bytes, Undo)>,
    /// Calls that another run made, from which this one was forked: it does not undo them.
    inherited: HashSet<Arc<str>>,
    /// How often earlier generations undid a step.
    redone: ByName<u32>,
    /// In how many deaths in a row each undo was executing, by the name of its record.
    undo_deaths: BTreeMap<String, u32>,
    /// Undos that have ended.
    pub(super) undone: ByName<StepKind>,
    /// Whether the record of the verdict is there.
    pub(super) verdict_kept: bool,
    /// Records on their way to the store.
    in_flight: usize,
    /// How many records were taken in that are durable, and those that come after them: several threads say what is
    /// durable, and the function has to hear of it in the order of recording.
    taken_in: u64,
    under_way: VecDeque<UnderWay>,
    /// How many wait for [`Scene::moved`].
    awaiting: usize,
    driver: Option<Waker>,
    pub(super) is_paused: bool,
    pub(super) is_halted: bool,
    /// Whether the run is about to be given up, since all that it does is to wait.
    is_let_go: bool,
    pub(super) closing: Option<Box<Verdict>>,
    /// What the function waits for, when it waits without a slot.
    topics: Vec<String>,
    /// Until when the function waits, if all that it does is to wait.
    rests: Option<Time>,
    /// Whether the run wanted to leave while the function did something.
    was_asked_to_leave: bool,
    /// Children whose start is recorded, and whether each is to be left alone.
    begun: ByName<bool>,
    /// When waits of a task end, as recorded.
    dues: ByName<Time>,
    /// Whether a task is asked to stop: its waits end.
    is_stopped: bool,
    /// Patches that are recorded.
    patches: ByName<bool>,
    /// A record that the function's code cannot read.
    pub(super) misfit: Option<Box<Divergence>>,
    /// What a replay that does nothing came to.
    pub(super) replayed: Option<Box<Replayed>>,
    /// Visits of states that are over, and whose code was not run: only their record was read.
    pub(super) passed: Vec<LookBack>,
    /// The visit that is being looked back at, when the run does not complete.
    pub(super) looking_back: Option<Arc<str>>,
    /// The call by which a visit of a state ends, or is made once more.
    pub(super) turning: Option<u64>,
    /// What the present visit of a state has heard of, in case it is made once more; none outside of state machines.
    pub(super) heard: Option<Vec<Arc<str>>>,
}

/// A record on its way.
struct UnderWay {
    then: Option<Then>,
    is_durable: bool,
}

/// How a call ended.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    /// With this value, as JSON.
    Value(Bytes),
    /// With nothing: a time has come.
    Nothing,
    /// It failed for good.
    Failed(Box<Failure>),
}

/// A call that the function has not heard of yet.
pub(super) struct Call {
    pub(super) id: Arc<str>,
    pub(super) kind: CallKind,
    pub(super) status: Status,
    /// How it ended, as recorded, when the function has not heard of it and nobody else will want to know.
    outcome: Option<Outcome>,
    pub(super) waker: Option<Waker>,
    /// When it ends, or goes on, by itself.
    pub(super) due: Option<Time>,
    /// The topic of the inbox that it waits for.
    pub(super) topic: Option<Arc<str>>,
    /// Whether its future is gone.
    dropped: bool,
    /// Whether the code may be waiting for something else: then this is no reason to park it.
    is_aside: bool,
    undo: Option<Box<Undo>>,
    /// What its code knows of itself, while it runs.
    pub(super) cx: Option<Cx>,
    /// Whether its time has to be recorded before it counts.
    pub(super) is_unkept: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Status {
    /// It may begin.
    Waiting,
    /// Its start is being recorded.
    Starting,
    /// Its start is recorded.
    Started,
    /// Its code is running, or it is on its way.
    Running,
    /// It is somebody else's business, who will send word.
    Away,
    /// An attempt failed, and the next has its time.
    Backoff,
    /// Its end is being recorded.
    Recording,
    /// The function may hear how it ended.
    Ended(Outcome),
}

/// What follows from a record.
pub(super) enum Then {
    /// A call has ended.
    Ended(Arc<str>, CallKind, Time, Outcome),
    /// An attempt failed, and the next is due at this time.
    Backoff(Arc<str>, u32, Time),
    /// An attempt may start.
    Started(Arc<str>),
    /// A child may be started; whether it is to be left alone.
    Begun(Arc<str>, bool),
    /// A wait of a task ends at this time.
    Promised(Arc<str>, Time),
    /// Somebody waits for it.
    Tell(tokio::sync::oneshot::Sender<()>),
}

/// What a step may do.
pub(super) enum Turn {
    /// It has ended.
    Ended(Arc<str>, Outcome),
    /// It has to wait.
    Wait,
    /// It may begin this attempt.
    Begin(Arc<str>, u32),
    /// It goes on.
    Running,
}

impl Scene {
    /// A function whose calls left these records, in order.
    pub(crate) fn new(
        cell: &Arc<RunCell>,
        lane: LaneId,
        prefix: Arc<str>,
        opened_at: Time,
        records: &[StepRow],
        saved: &BTreeMap<Arc<str>, Slot>,
    ) -> Result<Self, Error> {
        let generation = cell.subject.generation;
        let mut kept = Vec::new();
        let mut state = State {
            journal: Journal::new(cell.subject.run, 0, opened_at, Vec::new()),
            outcomes: ByName::default(),
            rehearses: cell.node.options.rehearse,
            keeps: false,
            open: BTreeMap::new(),
            waits: BTreeSet::new(),
            numbers: ByName::default(),
            spare: None,
            next: 0,
            children: BTreeMap::new(),
            round: 0,
            input: None,
            next_input: None,
            began_at: opened_at,
            tried: ByName::default(),
            failed: ByName::default(),
            saved: saved.clone(),
            undos: Vec::new(),
            inherited: HashSet::new(),
            redone: ByName::default(),
            undo_deaths: BTreeMap::new(),
            undone: ByName::default(),
            verdict_kept: false,
            in_flight: 0,
            taken_in: 0,
            under_way: VecDeque::new(),
            awaiting: 0,
            driver: None,
            is_paused: false,
            is_halted: false,
            is_let_go: false,
            closing: None,
            topics: Vec::new(),
            rests: None,
            was_asked_to_leave: false,
            begun: ByName::default(),
            dues: ByName::default(),
            is_stopped: false,
            patches: ByName::default(),
            misfit: None,
            replayed: None,
            passed: Vec::new(),
            looking_back: None,
            turning: None,
            heard: None,
        };
        let mine = |row: &&StepRow| row.name.strip_prefix(&*prefix).is_some_and(|rest| rest.starts_with('/'));
        // What was undone counts as not run, whichever generation undid it: that may be a later one than did it.
        let mut undone = Undone::of(records.iter().filter(mine), prefix.len() + 1);
        for row in records.iter().filter(mine) {
            let is_old = row.generation < generation;
            let id: Arc<str> = row.name[prefix.len() + 1..].into();
            if let Some(step) = id.strip_suffix("/undo") {
                match row.kind {
                    StepKind::Completed if is_old => *state.redone.entry(step.into()).or_default() += 1,
                    _ if is_old => {}
                    StepKind::Retrying => {
                        let retry_at = take_up::step(&cell.node.hub, row)?.detail.retry_at;
                        state.tried.insert(id, (row.attempt, retry_at));
                    }
                    StepKind::Started => {}
                    kind => drop(state.undone.insert(step.into(), kind)),
                }
                continue;
            }
            if let Some(patch) = id.strip_suffix("/patch") {
                state.patches.insert(patch.into(), true);
                continue;
            }
            if *id == *CONTINUE {
                let what = "what the last round left";
                let kept = row.output.clone().unwrap_or_else(|| "null".into());
                state.input = Some(Slot::from_bytes(cell.node.hub.read(what, kept)?));
                (state.round, state.began_at) = (row.attempt, row.ended_at);
                continue;
            }
            if id.starts_with('/') {
                state.verdict_kept |= !is_old && &*row.name == VERDICT;
                continue;
            }
            let step = take_up::step(&cell.node.hub, row)?;
            let Detail { call, failure, retry_at, left, .. } = step.detail;
            let outcome = match row.kind {
                StepKind::Completed
                    if is_old && (is_passing(&id) || undone.has(&id, call, row.generation)) =>
                {
                    continue;
                }
                StepKind::Completed => match &row.output {
                    Some(kept) => Outcome::Value(
                        cell.node.hub.read(format_args!("the result of `{id}`"), kept.clone())?,
                    ),
                    None => Outcome::Nothing,
                },
                // Of earlier generations only completed work counts.
                _ if is_old && row.generation != INHERITED => continue,
                StepKind::Failed => {
                    state.note_failed(&id, row.attempt);
                    Outcome::Failed(failure.unwrap_or_else(|| Box::new(Failure::new("it failed"))))
                }
                StepKind::Retrying => {
                    if call == CallKind::Visit {
                        state.void_attempt(&id, &mut kept);
                    }
                    state.tried.insert(id, (row.attempt, retry_at));
                    continue;
                }
                StepKind::Started if call == CallKind::Child && !is_old => {
                    state.begun.insert(id, left);
                    continue;
                }
                StepKind::Started if !is_old => {
                    // The first counts: it may have been recorded again by whoever did not know of it.
                    if let Some(due) = retry_at {
                        state.dues.entry(id).or_insert(due);
                    }
                    continue;
                }
                StepKind::Skipped | StepKind::Cancelled | StepKind::Started => continue,
            };
            if row.generation == INHERITED {
                state.inherited.insert(Arc::clone(&id));
            }
            kept.push(Kept { name: Arc::clone(&id), kind: call, at: row.ended_at, is_old, is_past: false });
            state.outcomes.insert(id, outcome);
        }
        mark_past(&mut kept);
        state.journal = Journal::new(cell.subject.run, state.round, state.began_at.max(opened_at), kept);
        Ok(Self {
            cell: Arc::clone(cell),
            lane,
            prefix,
            is_task: false,
            opened_at,
            line: Mutex::default(),
            moved: Notify::new(),
            is_lost: AtomicBool::new(false),
            wakers: OnceLock::new(),
            state: Mutex::new(state),
        })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// How the function is woken; the next attempt of a task has other wakers.
    pub(super) fn wakers(&self) -> Option<&FunctionWakers> {
        self.wakers.get()
    }

    pub(super) fn set_wakers(&self, function: &Waker) {
        self.wakers.get_or_init(|| FunctionWakers::new(function));
    }

    pub(super) fn now(&self) -> Time {
        self.cell.node.hub.clock.now()
    }

    /// The name of the record of a call.
    pub(super) fn record_name(&self, id: &str) -> Arc<str> {
        joined(&self.prefix, '/', id)
    }

    /// What records of its calls begin with.
    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(crate) fn saved(&self, id: &str) -> Option<Slot> {
        let state = self.state.lock();
        // Most steps save nothing, and need no name for it.
        if state.saved.is_empty() { None } else { state.saved.get(&*self.record_name(id)).cloned() }
    }

    /// Notes in how many deaths in a row each undo was executing.
    pub(crate) fn note_undo_deaths(&self, deaths: &BTreeMap<String, u32>) {
        self.state.lock().undo_deaths.clone_from(deaths);
    }

    /// In how many deaths in a row this undo was executing.
    pub(super) fn undo_deaths(&self, record: &str) -> u32 {
        let name = self.record_name(record);
        self.state.lock().undo_deaths.get(&*name).copied().unwrap_or(0)
    }

    /// How often a step was undone before it is done again.
    pub(crate) fn times_undone(&self, id: &str) -> u32 {
        // A task is undone as a whole.
        let id = if self.is_task { "" } else { id };
        self.state.lock().redone.get(id).copied().unwrap_or(0)
    }

    /// Keeps a value for the next attempt of a step.
    pub(crate) async fn save(&self, id: &str, json: Bytes) -> Result<(), Failure> {
        let record = self.record_name(id);
        Host::Home(Arc::clone(&self.cell)).save(Arc::clone(&record), json.clone()).await?;
        self.state.lock().saved.insert(record, Slot::from_bytes(json));
        Ok(())
    }

    pub(crate) const fn cell(&self) -> &Arc<RunCell> {
        &self.cell
    }

    /// Tells the function's driver that there is something to do.
    pub(crate) fn nudge(&self) {
        let driver = self.state.lock().driver.clone();
        if let Some(driver) = driver {
            driver.wake();
        }
    }

    /// A person pauses the run, or lets it go on.
    pub(crate) fn pause(&self, paused: bool) {
        let mut state = self.state.lock();
        let was_paused = std::mem::replace(&mut state.is_paused, paused);
        // What it waits for is something else from here on.
        state.rests = None;
        // Calls that might not begin meanwhile ask again.
        let waiting = if was_paused && !paused { state.waiting() } else { Vec::new() };
        drop(state);
        waker::ours(|| waiting.into_iter().for_each(Waker::wake));
        self.nudge();
    }

    /// Lets nothing more begin, so that the run can be given up, and answers until when the function waits. If it does
    /// something that its run has not heard of yet, the answer is `None`, and its driver says when that is over.
    pub(crate) fn let_go(&self, is_deferred: bool) -> Option<Time> {
        let mut state = self.state.lock();
        // A task that waits for nothing here has told its run itself that it does nothing, and still does.
        let idle = (self.is_task && is_deferred && state.open.is_empty()).then_some(Time::MAX);
        let until = state.rests.or(idle).filter(|_| state.is_quiet() && !state.is_busy());
        state.is_let_go = until.is_some();
        state.was_asked_to_leave |= until.is_none();
        until
    }

    /// The run stays after all: another task of it went on.
    pub(crate) fn stay(&self) {
        self.state.lock().is_let_go = false;
        self.nudge();
    }

    /// Nothing new may begin: the node wants to give the run up.
    pub(crate) fn halt(&self) {
        self.state.lock().is_halted = true;
        self.nudge();
    }

    /// The run's verdict stands: things are to be put in order.
    pub(crate) fn close(&self, verdict: &Verdict) {
        self.state.lock().closing.get_or_insert_with(|| Box::new(verdict.clone()));
        self.nudge();
    }

    /// The topics of the inbox that the function waits for.
    pub(crate) fn topics(&self) -> Vec<String> {
        self.state.lock().topics.clone()
    }

    pub(super) fn set_driver(&self, waker: &Waker) {
        let mut state = self.state.lock();
        state.rests = None;
        if state.driver.as_ref().is_none_or(|known| !known.will_wake(waker)) {
            state.driver = Some(waker.clone());
        }
    }
}

impl std::fmt::Debug for Scene {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scene").field("run", &self.cell.subject.run).finish_non_exhaustive()
    }
}
