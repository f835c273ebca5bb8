//! One durable function in memory: what it called, and what became of that.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
    task::{Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;
use windlass_core::{
    CallKind, Detail, Divergence, Failure, Journal, Kept, LaneId, Retry, StepKind, Time, Verdict,
    format_duration,
};
use windlass_store::{Act, InboxRow, StepRow, Unit};

use super::{INHERITED, child::Child, undo::Undo, waker};
use crate::{
    Cx, Error, Slot,
    attempt::Host,
    committer::{Fate, Reply},
    run_loop::{Mail, RunCell},
    take_up,
};

/// The call whose record says what a round of the function begins with.
const CONTINUE: &str = "/continue";

/// One durable function in memory, shared by its code, whoever drives it, and its run.
pub(crate) struct Scene {
    pub(super) cell: Arc<RunCell>,
    pub(super) lane: LaneId,
    pub(super) attempt: u32,
    /// What records of its calls begin with: nothing for a function that is the whole run, else the lane's name.
    prefix: Arc<str>,
    /// When this generation might first run.
    opened_at: Time,
    state: Mutex<State>,
}

pub(super) struct State {
    pub(super) journal: Journal,
    /// What is recorded of calls that the function has not heard of yet; in a laboratory, of all calls.
    outcomes: HashMap<Arc<str>, Outcome>,
    /// Whether the function is run again from its top after every step, to see whether it does the same.
    pub(super) rehearses: bool,
    /// Calls that the function has not heard of yet, by the number of the call.
    pub(super) open: BTreeMap<u64, Call>,
    /// Those of them that somebody has to look after: they have a time, or wait for a message.
    pub(super) waits: BTreeSet<u64>,
    numbers: HashMap<Arc<str>, u64>,
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
    tried: HashMap<Arc<str>, (u32, Option<Time>)>,
    saved: BTreeMap<Arc<str>, Slot>,
    /// Undos of completed steps, in the order in which the steps were recorded.
    pub(super) undos: Vec<(Arc<str>, Bytes, Undo)>,
    /// Calls that another run made, from which this one was forked: it does not undo them.
    inherited: HashSet<Arc<str>>,
    /// How often earlier generations undid a step.
    redone: HashMap<Arc<str>, u32>,
    /// Undos that have ended.
    pub(super) undone: HashMap<Arc<str>, StepKind>,
    /// Whether the record of the verdict is there.
    pub(super) verdict_kept: bool,
    /// Records on their way to the store.
    in_flight: usize,
    driver: Option<Waker>,
    pub(super) is_paused: bool,
    pub(super) is_halted: bool,
    pub(super) closing: Option<Verdict>,
    /// What the function waits for, when it waits without a slot.
    topics: Vec<String>,
    /// Until when the function waits, if all that it does is to wait.
    rests: Option<Time>,
    /// Whether the run wanted to leave while the function did something.
    was_asked_to_leave: bool,
    /// Children whose start is recorded.
    begun: HashSet<Arc<str>>,
    /// Patches that are recorded.
    patches: HashMap<Arc<str>, bool>,
}

/// How a call ended.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    /// With this value, as JSON.
    Value(Bytes),
    /// With nothing: a time has come.
    Nothing,
    /// It failed for good.
    Failed(Failure),
}

/// A call that the function has not heard of yet.
pub(super) struct Call {
    pub(super) id: Arc<str>,
    pub(super) kind: CallKind,
    pub(super) status: Status,
    pub(super) waker: Option<Waker>,
    /// When it ends, or goes on, by itself.
    pub(super) due: Option<Time>,
    /// The topic of the inbox that it waits for.
    pub(super) topic: Option<Arc<str>>,
    /// Whether its future is gone.
    dropped: bool,
    undo: Option<Undo>,
    /// What its code knows of itself, while it runs.
    pub(super) cx: Option<Cx>,
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
    /// Somebody waits for it.
    Tell(tokio::sync::oneshot::Sender<()>),
}

/// What a step may do.
pub(super) enum Turn {
    /// It has ended.
    Ended(Outcome),
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
        attempt: u32,
        prefix: Arc<str>,
        opened_at: Time,
        records: &[StepRow],
        saved: &BTreeMap<Arc<str>, Slot>,
    ) -> Result<Self, Error> {
        let generation = cell.subject.generation;
        let mut kept = Vec::new();
        let mut state = State {
            journal: Journal::new(cell.subject.run, 0, opened_at, Vec::new()),
            outcomes: HashMap::new(),
            rehearses: cell.node.options.rehearse,
            open: BTreeMap::new(),
            waits: BTreeSet::new(),
            numbers: HashMap::new(),
            next: 0,
            children: BTreeMap::new(),
            round: 0,
            input: None,
            next_input: None,
            began_at: opened_at,
            tried: HashMap::new(),
            saved: saved.clone(),
            undos: Vec::new(),
            inherited: HashSet::new(),
            redone: HashMap::new(),
            undone: HashMap::new(),
            verdict_kept: false,
            in_flight: 0,
            driver: None,
            is_paused: false,
            is_halted: false,
            closing: None,
            topics: Vec::new(),
            rests: None,
            was_asked_to_leave: false,
            begun: HashSet::new(),
            patches: HashMap::new(),
        };
        let mine = |row: &&StepRow| row.name.strip_prefix(&*prefix).is_some_and(|rest| rest.starts_with('/'));
        // What was undone counts as not run, whichever generation undid it: that may be a later one than did it.
        let mut undone: HashMap<&str, u32> = HashMap::new();
        for row in records.iter().filter(mine).filter(|row| row.kind == StepKind::Completed) {
            if let Some(step) = row.name.strip_suffix("/undo") {
                let last = undone.entry(step).or_default();
                *last = row.generation.max(*last);
            }
        }
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
                state.verdict_kept |= !is_old;
                continue;
            }
            let step = take_up::step(&cell.node.hub, row)?;
            let Detail { call, failure, retry_at, .. } = step.detail;
            let outcome = match row.kind {
                StepKind::Completed
                    if is_old && undone.get(&*row.name).is_some_and(|last| *last >= row.generation) =>
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
                    Outcome::Failed(failure.map_or_else(|| Failure::new("it failed"), |it| *it))
                }
                StepKind::Retrying => {
                    state.tried.insert(id, (row.attempt, retry_at));
                    continue;
                }
                StepKind::Started if call == CallKind::Child && !is_old => {
                    state.begun.insert(id);
                    continue;
                }
                StepKind::Skipped | StepKind::Cancelled | StepKind::Started => continue,
            };
            if row.generation == INHERITED {
                state.inherited.insert(Arc::clone(&id));
            }
            kept.push(Kept { name: Arc::clone(&id), kind: call, at: row.ended_at, is_old });
            state.outcomes.insert(id, outcome);
        }
        state.journal = Journal::new(cell.subject.run, state.round, state.began_at.max(opened_at), kept);
        Ok(Self { cell: Arc::clone(cell), lane, attempt, prefix, opened_at, state: Mutex::new(state) })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(super) fn now(&self) -> Time {
        self.cell.node.hub.clock.now()
    }

    /// The name of the record of a call.
    pub(super) fn record_name(&self, id: &str) -> Arc<str> {
        format!("{}/{id}", self.prefix).into()
    }

    pub(crate) fn saved(&self, id: &str) -> Option<Slot> {
        let state = self.state.lock();
        // Most steps save nothing, and need no name for it.
        if state.saved.is_empty() { None } else { state.saved.get(&*self.record_name(id)).cloned() }
    }

    /// How often a step was undone before it is done again.
    pub(crate) fn times_undone(&self, id: &str) -> u32 {
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

    /// Forgets what the function called, which is run again from its top.
    pub(super) fn rewind(&self) {
        let mut state = self.state.lock();
        let kept = state.journal.kept().to_vec();
        let began_at = state.began_at.max(self.opened_at);
        state.journal = Journal::new(self.cell.subject.run, state.round, began_at, kept);
        state.children.clear();
        state.open.clear();
        state.waits.clear();
        state.numbers.clear();
        state.undos.clear();
    }

    /// What the function begins with, if that is not the run's input.
    pub(crate) fn input(&self) -> Option<Slot> {
        self.state.lock().input.clone()
    }

    pub(super) fn continue_with(&self, input: Slot) {
        self.state.lock().next_input = Some(input);
        self.nudge();
    }

    /// What the next round begins with, if this one is over.
    pub(super) fn next_input(&self) -> Option<Slot> {
        self.state.lock().next_input.clone()
    }

    /// Records that the next round begins, and forgets this one.
    pub(super) async fn begin_round(self: &Arc<Self>, input: Slot) {
        self.drained().await;
        let (hub, now) = (&self.cell.node.hub, self.now());
        let kept = match hub.keep(format_args!("what the next round begins with"), input.bytes().clone()) {
            Ok(kept) => kept,
            Err(error) => {
                self.cell.break_off(error.to_string());
                return std::future::pending().await;
            }
        };
        let round = self.state.lock().round + 1;
        let row = self.row(CONTINUE, round, StepKind::Completed, now, now, Some(kept), None);
        self.forget_and_write(row).await;
        self.enter_round(round, now, input);
    }

    fn enter_round(&self, round: u32, now: Time, input: Slot) {
        let mut state = self.state.lock();
        (state.round, state.began_at, state.input, state.next_input) = (round, now, Some(input), None);
        state.outcomes.clear();
        state.tried.clear();
        state.patches.clear();
        state.begun.clear();
        state.inherited.clear();
        state.journal = Journal::new(self.cell.subject.run, round, now, Vec::new());
        drop(state);
        self.rewind();
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
    pub(crate) fn let_go(&self) -> Option<Time> {
        let mut state = self.state.lock();
        let until = state.rests.filter(|_| state.is_quiet() && !state.is_busy());
        state.is_halted |= until.is_some();
        state.was_asked_to_leave |= until.is_none();
        until
    }

    /// Nothing new may begin: the node wants to give the run up.
    pub(crate) fn halt(&self) {
        self.state.lock().is_halted = true;
        self.nudge();
    }

    /// The run's verdict stands: things are to be put in order.
    pub(crate) fn close(&self, verdict: &Verdict) {
        self.state.lock().closing.get_or_insert_with(|| verdict.clone());
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

    /// Notes a call.
    pub(super) fn call(&self, name: &str, kind: CallKind, topic: Option<Arc<str>>) -> Result<u64, Failure> {
        if let Some(outer) = waker::current_step() {
            return Err(Failure::permanent(format!(
                "`{name}` is called inside the step `{outer}`: a step is one piece of work, and calls nothing durable itself"
            )));
        }
        let mut state = self.state.lock();
        let id = state.journal.call(name, kind).map_err(|misuse| Failure::permanent(misuse.to_string()))?;
        let number = state.next;
        state.next += 1;
        let (status, due) = match state.tried.get(&id) {
            Some((_, at)) => (Status::Backoff, *at),
            // It was started, or is about to be: that is recorded once, however often the function is run again.
            None if state.begun.contains(&id) => (Status::Started, None),
            None => (Status::Waiting, None),
        };
        state.numbers.insert(Arc::clone(&id), number);
        if due.is_some() || topic.is_some() {
            state.waits.insert(number);
        }
        let call = Call { id, kind, status, waker: None, due, topic, dropped: false, undo: None, cx: None };
        state.open.insert(number, call);
        Ok(number)
    }

    pub(super) fn set_due(&self, number: u64, after: Duration) {
        let mut state = self.state.lock();
        let due = state.journal.now() + after;
        state.wait_until(number, due);
    }

    pub(super) fn set_due_at(&self, number: u64, due: Time) {
        self.state.lock().wait_until(number, due);
    }

    pub(super) fn set_undo(&self, number: u64, undo: Undo) {
        if let Some(call) = self.state.lock().open.get_mut(&number) {
            call.undo = Some(undo);
        }
    }

    /// The future of a call is gone. What is recorded of it, or about to be, still counts.
    pub(super) fn forget(&self, number: u64) {
        let mut state = self.state.lock();
        let Some(call) = state.open.get_mut(&number) else { return };
        call.dropped = true;
        call.waker = None;
        let is_over = matches!(call.status, Status::Ended(_));
        let comes = matches!(call.status, Status::Recording);
        let id = Arc::clone(&call.id);
        if is_over || (!comes && !state.journal.has(&id)) {
            state.close(number, &id);
        }
    }

    /// Sets where a call stands, and lets the driver look.
    pub(super) fn set_status(&self, number: u64, status: Status) {
        if let Some(call) = self.state.lock().open.get_mut(&number) {
            call.status = status;
        }
        self.nudge();
    }

    /// How a wait ended, if the function may know.
    pub(super) fn ended(self: &Arc<Self>, number: u64, waker: &Waker) -> Option<Outcome> {
        match self.turn(number, waker) {
            Turn::Ended(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// What a call may do now.
    pub(super) fn turn(self: &Arc<Self>, number: u64, waker: &Waker) -> Turn {
        let mut state = self.state.lock();
        let may_begin = state.journal.is_live() && state.may_begin();
        let Some(call) = state.open.get_mut(&number) else { return Turn::Wait };
        if let Status::Ended(outcome) = &call.status {
            let outcome = outcome.clone();
            let id = Arc::clone(&call.id);
            state.close(number, &id);
            return Turn::Ended(outcome);
        }
        if call.waker.as_ref().is_none_or(|known| !known.will_wake(waker)) {
            call.waker = Some(waker.clone());
        }
        let id = Arc::clone(&call.id);
        match call.status {
            Status::Running => Turn::Running,
            Status::Waiting | Status::Started if call.kind == CallKind::Step && may_begin => {
                let first = matches!(call.status, Status::Waiting);
                let attempt = state.tried.get(&id).map_or(0, |(spent, _)| *spent) + 1;
                let recovered = self.cell.subject.epoch > 0;
                if let Some(call) = state.open.get_mut(&number) {
                    call.status = if first && recovered { Status::Starting } else { Status::Running };
                }
                if first && recovered {
                    // If it kills its process again, the records have to say so.
                    let now = self.now();
                    let row = self.row(&id, attempt, StepKind::Started, now, now, None, None);
                    drop(state);
                    self.record(row, Vec::new(), Then::Started(id));
                    return Turn::Wait;
                }
                Turn::Begin(id, attempt)
            }
            _ => Turn::Wait,
        }
    }

    #[allow(clippy::too_many_arguments, reason = "it is what a record is")]
    pub(super) fn row(
        &self,
        id: &str,
        attempt: u32,
        kind: StepKind,
        started_at: Time,
        ended_at: Time,
        output: Option<Bytes>,
        detail: Option<Bytes>,
    ) -> StepRow {
        let subject = &self.cell.subject;
        StepRow {
            generation: subject.generation,
            name: self.record_name(id),
            attempt,
            epoch: subject.epoch,
            kind,
            started_at,
            ended_at,
            output,
            detail,
        }
    }

    /// Has a record written, and says what follows from it.
    pub(super) fn record(self: &Arc<Self>, row: StepRow, consumed: Vec<i64>, then: Then) {
        self.write_record(row, consumed, false, then);
    }

    /// The same, in place of all that is recorded if `forget` says so.
    pub(super) fn write_record(self: &Arc<Self>, row: StepRow, consumed: Vec<i64>, forget: bool, then: Then) {
        let subject = &self.cell.subject;
        self.state.lock().in_flight += 1;
        let act = Act::Record { claim: subject.claim, steps: vec![row], consumed, forget };
        let scene = Arc::clone(self);
        let reply = move |fate: Fate, thread| match fate {
            Ok(_) => scene.recorded(then),
            Err(lost) => scene.cell.hand(Mail::Committed(0, Err(Box::new(lost))), thread),
        };
        let unit = Unit { run: subject.run, act };
        self.cell.node.hub.committer.submit(subject.holder, unit, Reply::Then(Box::new(reply)));
    }

    /// Records that a wait has ended: by itself, or with what came.
    pub(super) fn end_wait(
        self: &Arc<Self>,
        id: &Arc<str>,
        kind: CallKind,
        now: Time,
        row: Option<InboxRow>,
    ) {
        let hub = &self.cell.node.hub;
        let detail = match self.cell.encode(&Detail { call: kind, ..Detail::default() }) {
            Ok(detail) => detail,
            Err(why) => return self.cell.break_off(why),
        };
        let consumed = row.as_ref().map(|row| row.seq).into_iter().collect();
        let (output, outcome) =
            match row.map(|row| (hub.read(format_args!("the event `{id}`"), row.body.clone()), row.body)) {
                None => (None, Outcome::Nothing),
                Some((Ok(json), body)) => (Some(body), Outcome::Value(json)),
                // Whoever decodes it says what is wrong with it.
                Some((Err(_), body)) => (Some(body.clone()), Outcome::Value(body)),
            };
        let record = self.row(id, 1, StepKind::Completed, now, now, output, detail);
        self.record(record, consumed, Then::Ended(Arc::clone(id), kind, now, outcome));
    }

    /// Records that a patch is on. What the function calls next is recorded after it.
    pub(super) fn keep_patch(self: &Arc<Self>, name: &str) {
        let now = self.now();
        match self.cell.encode(&Detail { call: CallKind::Patch, ..Detail::default() }) {
            Ok(detail) => {
                let (sender, _) = tokio::sync::oneshot::channel();
                let row = self.row(&format!("{name}/patch"), 1, StepKind::Completed, now, now, None, detail);
                self.record(row, Vec::new(), Then::Tell(sender));
            }
            Err(why) => self.cell.break_off(why),
        }
    }

    /// Keeps a value for people to see, unless that was done when the function was run before.
    pub(super) fn publish<T: Serialize>(self: &Arc<Self>, key: &str, value: &T) -> Result<(), Failure> {
        windlass_core::check_call_name(key).map_err(|misuse| Failure::permanent(misuse.to_string()))?;
        let (hub, subject) = (&self.cell.node.hub, &self.cell.subject);
        let json = serde_json::to_vec(value).map_err(|error| Failure::encode(format!("`{key}`"), error))?;
        let value =
            hub.keep(format_args!("what is published as `{key}`"), json.into()).map_err(Failure::from)?;
        if self.state.lock().journal.is_behind() {
            return Ok(());
        }
        let act = Act::Save { claim: subject.claim, step: self.record_name(&format!("/{key}")), value };
        let cell = Arc::clone(&self.cell);
        let reply = move |fate: Fate, thread| {
            if let Err(lost) = fate {
                cell.hand(Mail::Committed(0, Err(Box::new(lost))), thread);
            }
        };
        hub.committer.submit(subject.holder, Unit { run: subject.run, act }, Reply::Then(Box::new(reply)));
        Ok(())
    }

    /// How many attempts of a call are recorded as failed, and when the next is due.
    pub(super) fn tried(&self, id: &str) -> (u32, Option<Time>) {
        self.state.lock().tried.get(id).copied().unwrap_or_default()
    }

    /// Waits until the node wants to give the run up. Polled by the driver, who is told of that.
    pub(super) async fn halted(&self) {
        std::future::poll_fn(|_| match self.state.lock().is_halted {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }

    /// Waits until no record is on its way any more. Polled by the driver, who is told of that.
    pub(super) async fn drained(&self) {
        std::future::poll_fn(|_| match self.state.lock().in_flight {
            0 => Poll::Ready(()),
            _ => Poll::Pending,
        })
        .await;
    }

    pub(super) fn log_failure(
        &self,
        id: &str,
        attempt: u32,
        retry: &Retry,
        failure: &Failure,
        delay: Option<Duration>,
    ) {
        let subject = &self.cell.subject;
        let (run, key, attempts) = (subject.run, subject.key.as_deref(), retry.attempts);
        let workflow = &subject.registered.plan.definition.name;
        match delay.map(format_duration) {
            Some(delay) => tracing::warn!(
                %run, %workflow, key, step = id, attempt, attempts, %failure, delay,
                "{id} failed, attempt {attempt} of {attempts}: {failure}; trying again in {delay}"
            ),
            None => tracing::warn!(
                %run, %workflow, key, step = id, attempt, attempts, %failure,
                "{id} failed for good, attempt {attempt} of {attempts}: {failure}"
            ),
        }
    }

    fn recorded(&self, then: Then) {
        let mut state = self.state.lock();
        state.in_flight -= 1;
        let woken = match then {
            Then::Ended(id, kind, at, outcome) => {
                state.outcomes.insert(Arc::clone(&id), outcome);
                state.journal.record(id, kind, at);
                None
            }
            Then::Backoff(id, spent, at) => {
                state.tried.insert(Arc::clone(&id), (spent, Some(at)));
                let number = state.numbers.get(&id).copied();
                number.and_then(|number| {
                    let call = state.wait_until(number, at)?;
                    call.status = Status::Backoff;
                    call.waker.clone()
                })
            }
            Then::Started(id) => {
                let call = state.call_mut(&id);
                let (woken, kind) = call.map_or((None, None), |call| {
                    call.status = Status::Started;
                    (call.waker.clone(), Some(call.kind))
                });
                if kind == Some(CallKind::Child) {
                    state.begun.insert(id);
                }
                woken
            }
            // Whoever asked may have gone away.
            Then::Tell(asker) => {
                let _ = asker.send(());
                None
            }
        };
        let driver = state.driver.clone();
        drop(state);
        waker::ours(|| woken.into_iter().chain(driver).for_each(Waker::wake));
    }
}

impl std::fmt::Debug for Scene {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scene").field("run", &self.cell.subject.run).finish_non_exhaustive()
    }
}

impl State {
    /// Whether a step may begin, once everything recorded has been heard.
    pub(super) const fn may_begin(&self) -> bool {
        !self.is_paused && !self.is_halted && self.closing.is_none()
    }

    pub(super) fn call_mut(&mut self, id: &str) -> Option<&mut Call> {
        let number = self.numbers.get(id)?;
        self.open.get_mut(number)
    }

    /// Sets when a call ends, or goes on, by itself.
    fn wait_until(&mut self, number: u64, due: Time) -> Option<&mut Call> {
        let call = self.open.get_mut(&number)?;
        call.due = Some(due);
        self.waits.insert(number);
        Some(call)
    }

    /// Forgets a call.
    fn close(&mut self, number: u64, id: &str) {
        self.open.remove(&number);
        self.waits.remove(&number);
        self.numbers.remove(id);
    }

    /// The calls that somebody has to look after.
    pub(super) fn attended(&self) -> impl Iterator<Item = &Call> {
        self.waits.iter().filter_map(|number| self.open.get(number))
    }

    /// Lets the function hear of the next thing that is recorded. Answers whether there was one, and whom to wake.
    pub(super) fn hear(&mut self) -> Result<Option<Option<Waker>>, Divergence> {
        let Some(id) = self.journal.hear()? else { return Ok(None) };
        let outcome = match self.rehearses {
            true => self.outcomes.get(&id).cloned(),
            false => self.outcomes.remove(&id),
        };
        let outcome = outcome.unwrap_or(Outcome::Nothing);
        let Some(&number) = self.numbers.get(&id) else { return Ok(Some(None)) };
        let Some(call) = self.open.get_mut(&number) else { return Ok(Some(None)) };
        let undo = call.undo.take().filter(|_| !self.inherited.contains(&id));
        if let (Some(undo), Outcome::Value(value)) = (undo, &outcome) {
            self.undos.push((Arc::clone(&id), value.clone(), undo));
        }
        let woken = call.waker.take();
        self.children.remove(&number);
        match call.dropped {
            true => self.close(number, &id),
            false => call.status = Status::Ended(outcome),
        }
        Ok(Some(woken))
    }

    /// Notes that the end of a wait is being recorded.
    pub(super) fn end_wait(&mut self, number: u64) -> Option<(Arc<str>, CallKind)> {
        let call = self.open.get_mut(&number)?;
        call.status = Status::Recording;
        Some((Arc::clone(&call.id), call.kind))
    }

    /// Asks the code of running steps to stop. Answers whether there is any.
    pub(super) fn stop_running(&self) -> bool {
        let running = self.open.values().filter(|call| matches!(call.status, Status::Running));
        running.inspect(|call| call.cx.iter().for_each(|cx| cx.inner().stop.set())).count() > 0
    }

    /// Whether everything asked for is recorded and heard.
    pub(super) fn is_quiet(&self) -> bool {
        self.in_flight == 0 && !self.journal.is_behind()
    }

    /// Whether code of a step is running or about to, or a record is on its way.
    pub(super) fn is_busy(&self) -> bool {
        self.in_flight > 0
            || self.open.values().any(|call| match call.status {
                Status::Running | Status::Starting | Status::Recording => true,
                // What was about to begin when that was forbidden is not waited for.
                Status::Started => self.may_begin(),
                _ => false,
            })
    }

    /// Everybody who may begin now.
    pub(super) fn waiting(&self) -> Vec<Waker> {
        self.open.values().filter_map(|call| call.waker.clone()).collect()
    }

    /// Notes what the function waits for, and until when if it does nothing else. Answers whether the run has to be told
    /// again: it wanted to leave when it could not.
    pub(super) fn set_rest(&mut self, topics: Vec<String>, until: Option<Time>) -> bool {
        (self.topics, self.rests) = (topics, until);
        std::mem::take(&mut self.was_asked_to_leave)
    }

    /// Whether a patch is on for this run. The second answer says whether that has to be recorded.
    pub(super) fn patch(&mut self, name: &str) -> (bool, bool) {
        if let Some(on) = self.patches.get(name) {
            return (*on, false);
        }
        // What is still to be heard was recorded by code that did not ask.
        let on = !self.journal.is_behind();
        self.patches.insert(name.into(), on);
        (on, on)
    }
}
