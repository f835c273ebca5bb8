//! One run in memory: it hears what happened, and carries out what the core asks for.

mod away;
mod cell;
mod close;
mod dry;
mod execute;
mod keep;
mod leave;
mod log;
mod mail;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

pub(crate) use away::Recall;
pub(crate) use cell::{RunCell, SPELL, Subject};
use close::Ending;
pub(crate) use mail::{Described, Mail, Recorded};
use tokio::{
    sync::OwnedSemaphorePermit,
    task::{AbortHandle, JoinHandle},
    time::Instant,
};
use windlass_core::{
    Attempt, Command, Ended, Event, Failure, FailureKind, LaneId, Order, Run, Step, StepKind, Time, Verdict,
};
use windlass_store::{Act, InboxRow, OUTCOME, StepRow, StoreError, Unit};

use crate::{
    Cx, Done, Slot,
    boxed::boxed,
    committer::{Lost, Reply},
    flow::Scene,
    order,
    outputs::Outputs,
};

/// One run in memory. It acts when it is told something; see [`RunCell`].
pub(crate) struct RunLoop {
    run: Run,
    /// When it last looked at the clock: when it was told something, or an attempt ended.
    now: Instant,
    /// The store's time then.
    at: Time,
    /// Attempts that may start.
    starts: VecDeque<Attempt>,
    outputs: Outputs,
    saved: BTreeMap<Arc<str>, Slot>,
    /// Attempts that wait for something. Those that never do are over as soon as they begin.
    attempts: HashMap<LaneId, Live>,
    /// Suspects that execute alone.
    isolated: BTreeMap<LaneId, OwnedSemaphorePermit>,
    /// Inbox rows that were heard.
    heard: BTreeSet<i64>,
    /// Outcomes that came before the run has begun; `None` when it has.
    early: Option<Vec<InboxRow>>,
    /// When something last happened to the run.
    news: Instant,
    /// Until when it stays although all that it waits for is published.
    lingers: Option<Time>,
    /// What durable functions called, as recorded.
    calls: Vec<StepRow>,
    /// What tasks waited for that are between two attempts, or have ended.
    rooms: HashMap<LaneId, Arc<Scene>>,
    /// Tasks that have completed and can be undone, in the order in which they are recorded.
    undoable: Vec<LaneId>,
    /// Whether a person ends the run at once.
    is_terminated: bool,
    /// How the run ends as soon as things are in order, if they are being put in order.
    ending: Option<Box<Ending>>,
    /// Inbox rows whose effect is recorded with the next unit.
    consumed: Vec<i64>,
    /// The pause that holds the run; its row stays until the run is resumed.
    pause: Option<i64>,
    /// When the core wants to hear the time, and who will tell it.
    alarm: Option<(Time, AbortHandle)>,
    over: bool,
    /// Set when the run is not this node's any more.
    gone: bool,
}

/// An attempt that exists.
struct Live {
    cx: Cx,
    task: JoinHandle<()>,
    /// Whether dropping it would not stop its code.
    is_blocking: bool,
}

/// How many attempts begin, and how many records gather, before the run makes room for others.
const PORTION: usize = 128;

impl RunLoop {
    pub(crate) fn new(run: Run, outputs: Outputs, saved: BTreeMap<Arc<str>, Slot>) -> Self {
        let now = Instant::now();
        Self {
            run,
            now,
            at: Time(0),
            // Mostly there is one at a time.
            starts: VecDeque::with_capacity(1),
            outputs,
            saved,
            attempts: HashMap::new(),
            isolated: BTreeMap::new(),
            heard: BTreeSet::new(),
            early: Some(Vec::new()),
            news: now,
            lingers: None,
            calls: Vec::new(),
            rooms: HashMap::new(),
            undoable: Vec::new(),
            is_terminated: false,
            ending: None,
            consumed: Vec::new(),
            pause: None,
            alarm: None,
            over: false,
            gone: false,
        }
    }

    /// The same run, whose durable function left these records.
    pub(crate) fn with_calls(mut self, calls: Vec<StepRow>) -> Self {
        self.calls = calls;
        self
    }

    /// The same run, where these lanes have completed and can be undone.
    pub(crate) fn with_undoable(mut self, undoable: Vec<LaneId>) -> Self {
        self.undoable = undoable;
        self
    }

    pub(super) const fn is_over(&self) -> bool {
        self.over
    }

    fn begin(&mut self, cell: &Arc<RunCell>, inbox: Vec<InboxRow>) {
        if let Err(why) = self.furnish(cell) {
            return self.block(cell, why);
        }
        for row in inbox {
            self.hear(cell, row);
        }
        let mut early = self.early.take().unwrap_or_default();
        early.sort_by_key(|row| row.seq);
        // Nobody waits for an outcome before the run has begun, which comes after all orders.
        let (outcomes, orders): (Vec<_>, Vec<_>) = early.into_iter().partition(|row| row.topic == OUTCOME);
        for row in orders {
            self.take_in(cell, row);
        }
        // From here on the node tells its runs of such changes; this one may have been too late to hear.
        if !cell.node.is(cell.subject.holder) {
            self.vanish();
        } else if cell.node.stopping.is_cancelled() {
            self.apply(Event::Halt);
        }
        self.apply(Event::Begin);
        for row in outcomes {
            self.hear_outcome(cell, &row);
        }
    }

    /// Lets nothing begin any more: neither what the core asks for from now on, nor what it has asked for already.
    fn halt(&mut self) {
        self.apply(Event::Halt);
        let started_at = self.at;
        for attempt in std::mem::take(&mut self.starts) {
            let (lane, ended) = (attempt.lane, Ended::Cut);
            self.apply(Event::Ended { lane, started_at, ended, dice: 0.0 });
        }
        for live in self.attempts.values() {
            live.cx.inner().call_off.set();
        }
        self.scenes().for_each(|scene| scene.halt());
        if let Some(ending) = &self.ending {
            ending.halt();
        }
    }

    /// The durable functions that are alive, and the tasks that have waited.
    fn scenes(&self) -> impl Iterator<Item = Arc<Scene>> + '_ {
        self.attempts.values().filter_map(|live| live.cx.inner().scene().cloned())
    }

    fn apply(&mut self, event: Event) {
        self.run.apply(event, self.at);
    }

    /// Notes what the clock shows.
    fn set_now(&mut self, cell: &RunCell, now: Instant) {
        self.now = now;
        self.at = cell.node.hub.clock.at(now);
    }

    pub(super) fn take(&mut self, cell: &Arc<RunCell>, mail: Mail) {
        if self.over {
            return;
        }
        self.set_now(cell, Instant::now());
        if !matches!(mail, Mail::Inbox(_) | Mail::Tick | Mail::GoOn | Mail::Describe(_)) {
            self.news = self.now;
        }
        match mail {
            Mail::Committed(records, Ok(())) => self.apply(Event::Recorded(records)),
            Mail::Committed(_, Err(lost)) => self.lost(cell, &lost),
            Mail::Ended { lane, started_at, outcome } => {
                if let Some(live) = self.attempts.remove(&lane) {
                    self.keep(lane, &live.cx);
                }
                let is_function = cell.subject.task(lane.task).flow;
                if is_function && outcome.is_none() && self.run.closing().is_some() && !self.is_terminated {
                    // It was cut off before it could put things in order: whoever takes the run up goes on with that.
                    return self.surrender(cell);
                }
                self.attempt_ended(cell, lane, started_at, outcome.map(|outcome| *outcome));
            }
            Mail::Failing(lane, failure) => {
                self.apply(Event::Failing { lane, failure });
                // If it had a verdict already, nobody is told again.
                self.close_scenes();
            }
            Mail::Blocked(why) => self.block(cell, why),
            Mail::Surrender => self.surrender(cell),
            Mail::InOrder => {
                if let Some(ending) = self.ending.take() {
                    self.end(cell, ending.steps, ending.verdict);
                }
            }
            Mail::Recorded { lane, done, record } => {
                self.attempt_recorded(lane, *done, record);
                self.note_undoable(cell, lane);
            }
            Mail::Begin(inbox) => self.begin(cell, inbox),
            // What outlives its attempt does not speak for the next one.
            Mail::Deferred(lane, attempt, _) | Mail::Undeferred(lane, attempt)
                if self.attempts.get(&lane).is_none_or(|live| live.cx.attempt() != attempt) => {}
            Mail::Deferred(lane, _, until) => {
                // What waits kills nobody.
                self.isolated.remove(&lane);
                self.apply(Event::Deferred { lane, until });
            }
            Mail::Undeferred(lane, _) => self.apply(Event::Undeferred(lane)),
            // One that came too late is given back at once: others wait for it.
            Mail::Isolated(lane, isolation) if self.run.is_isolating(lane) => {
                self.isolated.insert(lane, isolation);
                self.apply(Event::Isolated(lane));
            }
            Mail::Isolated(..) => {}
            Mail::Inbox(row) => self.hear(cell, *row),
            Mail::Withdrawn { lanes, out, why } => self.withdrawn(lanes, &out, why),
            Mail::Tick => {
                self.alarm = None;
                self.apply(Event::Tick);
            }
            Mail::GoOn => {}
            Mail::Halt => self.halt(),
            Mail::GiveUp if let Some(ending) = &mut self.ending => ending.hand_over(cell),
            Mail::GiveUp => {
                self.halt();
                for live in self.attempts.values() {
                    live.cx.inner().stop.set();
                    // Nobody else may run what this process cannot stop running.
                    if !live.is_blocking {
                        live.task.abort();
                    }
                }
            }
            // Whoever asked may have gone away.
            Mail::Describe(asker) => drop(asker.send(self.describe())),
            Mail::Vanish => self.vanish(),
        }
    }

    /// Does everything that can be done now.
    pub(super) fn go_on(&mut self, cell: &Arc<RunCell>) {
        let mut room = PORTION;
        while !self.over {
            self.carry_out(cell);
            if self.starts.is_empty() || self.over {
                break;
            }
            if room == 0 {
                // Others on this thread have waited long enough.
                return cell.tell_later(Mail::GoOn);
            }
            if !cell.node.may_act_at(self.now, cell.subject.holder) {
                return self.lost(cell, &Lost::Fenced);
            }
            // Code that is slow to yield has to hear of the run's time limit too.
            self.set_alarm(cell);
            while room > 0
                && let Some(attempt) = self.starts.pop_front()
            {
                if !self.start(cell, attempt) {
                    // Something waits to be heard that stops all this.
                    return self.starts.push_front(attempt);
                }
                room -= 1;
            }
        }
        self.rest(cell);
        self.set_alarm(cell);
    }

    /// Has the core told when the time comes that it named.
    fn set_alarm(&mut self, cell: &Arc<RunCell>) {
        let next = [self.run.next_tick(), self.lingers].into_iter().flatten().min();
        let at = next.filter(|_| !self.over);
        if self.alarm.as_ref().map(|(set, _)| *set) == at {
            return;
        }
        if let Some((_, alarm)) = self.alarm.take() {
            alarm.abort();
        }
        self.alarm = at.map(|at| {
            let cell = Arc::clone(cell);
            let alarm = cell.node.user.clone().spawn(boxed(async move {
                let clock = &cell.node.hub.clock;
                tokio::time::sleep_until(clock.instant(at)).await;
                // The clock follows the store's, and may have been set back meanwhile.
                while clock.now() < at {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                cell.deliver(Mail::Tick);
            }));
            (at, alarm.abort_handle())
        });
    }

    /// A record was not written: the run is not ours any more, or cannot be recorded.
    fn lost(&mut self, cell: &RunCell, lost: &Lost) {
        let run = cell.subject.run;
        match lost {
            Lost::Fenced => tracing::debug!(%run, "the run is dropped: its node lost its lease"),
            Lost::Refused(why) => tracing::warn!(%run, %why, "the run is dropped: its record was refused"),
            Lost::Failed(why) => {
                tracing::error!(%run, %why, "the run is dropped, and goes on from its records with a later heartbeat: it cannot be recorded")
            }
        }
        self.vanish();
    }

    pub(super) fn vanish(&mut self) {
        self.over = true;
        self.gone = true;
    }

    fn attempt_ended(
        &mut self,
        cell: &RunCell,
        lane: LaneId,
        started_at: Time,
        outcome: Option<Result<Done, Failure>>,
    ) {
        if !self.isolated.is_empty() {
            self.isolated.remove(&lane);
        }
        let ended = match outcome {
            None => Ended::Cut,
            Some(Err(failure))
                if failure.kind == FailureKind::Cancelled
                    && (cell.subject.task(lane.task).flow || self.run.closing().is_some()) =>
            {
                Ended::Cut
            }
            Some(outcome) => match outcome.and_then(|done| self.complete(cell, lane, done)) {
                Ok(ended) => ended,
                Err(failure) => Ended::Failed(failure),
            },
        };
        if matches!(ended, Ended::Completed { .. }) {
            self.clear(cell, lane);
        }
        let dice = if matches!(ended, Ended::Failed(_)) { fastrand() } else { 0.0 };
        self.apply(Event::Ended { lane, started_at, ended, dice });
        self.note_undoable(cell, lane);
    }

    /// Takes in a result whose record is durable: whatever came meanwhile, it counts.
    fn attempt_recorded(&mut self, lane: LaneId, done: Done, record: Recorded) {
        if let Some(live) = self.attempts.remove(&lane) {
            self.keep(lane, &live.cx);
        }
        self.isolated.remove(&lane);
        let Recorded { started_at, ended_at: at, kept, items } = record;
        self.outputs.set(lane, done.output, kept);
        let ended = Ended::Recorded { changes: done.changes, items, at };
        self.apply(Event::Ended { lane, started_at, ended, dice: 0.0 });
    }

    /// Takes a result in, unless it cannot be kept.
    fn complete(&mut self, cell: &RunCell, lane: LaneId, done: Done) -> Result<Ended, Failure> {
        let (kept, items) = cell.keep(lane, &done)?;
        self.outputs.set(lane, done.output, kept);
        Ok(Ended::Completed { changes: done.changes, items })
    }

    fn describe(&self) -> Described {
        let plain = self.attempts.iter().filter(|(lane, _)| lane.item.is_none());
        let progress = plain.map(|(_, live)| (live.cx.step(), live.cx.inner().pulse.progress())).collect();
        Described { tasks: self.run.tasks(), progress }
    }

    fn hear(&mut self, cell: &Arc<RunCell>, row: InboxRow) {
        if !self.heard.insert(row.seq) {
            return;
        }
        self.news = self.now;
        match &mut self.early {
            // It has not begun, and does not know yet what its tasks waited for and what is undone.
            Some(early) => early.push(row),
            None => self.take_in(cell, row),
        }
    }

    fn take_in(&mut self, cell: &Arc<RunCell>, row: InboxRow) {
        if row.topic == OUTCOME {
            return self.hear_outcome(cell, &row);
        }
        let Some(order) = order::decode(&row) else {
            cell.mailbox().push(row);
            return self.scenes().for_each(|scene| scene.nudge());
        };
        match &order {
            Order::Pause => self.pause = Some(row.seq),
            Order::Resume => self.consumed.extend(self.pause.take().into_iter().chain([row.seq])),
            // These end the run, and the inbox with it.
            Order::Cancel { .. } => {}
            Order::Terminate { .. } if self.is_terminated => return,
            Order::Terminate { reason } => {
                self.is_terminated = true;
                if self.ending.is_some() {
                    let verdict = Verdict::Cancelled { reason: reason.clone() };
                    return self.stop_and_end(cell, Vec::new(), verdict);
                }
            }
        }
        let pauses = order == Order::Pause;
        self.apply(Event::Order(order));
        let is_paused = self.pause.is_some();
        cell.set_paused(is_paused);
        self.scenes().for_each(|scene| scene.pause(is_paused));
        if pauses {
            // What the core has asked for already is published first: else it would be published after all.
            self.carry_out(cell);
            self.withdraw_unbegun(cell);
        }
    }

    /// Carries out what the core asks for; what may start is set aside.
    fn carry_out(&mut self, cell: &Arc<RunCell>) {
        // What is stopped before it began ends here and now, and the core may ask for more because of that.
        while !self.over && self.carry_out_once(cell) {}
    }

    /// Answers whether the core asked for anything.
    fn carry_out_once(&mut self, cell: &Arc<RunCell>) -> bool {
        let mut commands = self.run.take_commands();
        if commands.is_empty() {
            self.run.reuse(commands);
            return false;
        }
        let records = commands.iter().filter(|command| matches!(command, Command::Record { .. })).count();
        let mut steps = Vec::with_capacity(records);
        let (mut published, mut late) = (Vec::new(), Vec::new());
        for command in commands.drain(..) {
            match command {
                Command::Record { lane, step } => {
                    self.log_failure(cell, lane, &step);
                    match self.row(cell, lane, step) {
                        Ok(row) => steps.push(row),
                        Err(why) => {
                            self.lost(cell, &Lost::Failed(StoreError::Broken(why)));
                            return true;
                        }
                    }
                }
                Command::Start(attempt) => self.starts.push_back(attempt),
                Command::Publish(attempt) => published.push(attempt),
                Command::Withdraw { attempt, after } => late.push((attempt, after)),
                Command::Isolate(lane) => isolate(cell, lane),
                Command::Stop(lane) => self.stop(cell, lane),
                Command::End(verdict) => {
                    self.close(cell, steps, verdict);
                    return true;
                }
            }
        }
        self.run.reuse(commands);
        if !steps.is_empty() {
            let consumed = std::mem::take(&mut self.consumed);
            let act = Act::Record { claim: cell.subject.claim, steps, consumed, forget: false };
            submit(cell, act, Reply::Recorded(Arc::clone(cell), records as u64));
        }
        if !published.is_empty() {
            self.publish(cell, &published);
        }
        for (attempt, after) in late {
            self.withdraw(cell, vec![(attempt.lane, attempt.number)], Recall::Late(after));
        }
        true
    }

    fn row(&self, cell: &RunCell, lane: LaneId, step: Step) -> Result<StepRow, String> {
        let output = (step.kind == StepKind::Completed).then(|| self.outputs.kept(lane)).flatten();
        let detail = cell.encode(&step.detail)?;
        Ok(StepRow {
            generation: cell.subject.generation,
            name: step.name,
            attempt: step.attempt,
            epoch: step.epoch,
            kind: step.kind,
            started_at: step.started_at,
            ended_at: step.ended_at,
            output,
            detail,
        })
    }
}

fn submit(cell: &RunCell, act: Act, reply: Reply) {
    let unit = Unit { run: cell.subject.run, act };
    cell.node.hub.committer.submit(cell.subject.holder, unit, reply);
}

/// Waits until no other suspect of this node executes.
fn isolate(cell: &Arc<RunCell>, lane: LaneId) {
    let cell = Arc::clone(cell);
    cell.node.user.clone().spawn(boxed(async move {
        // The semaphore is never closed. A run that is over needs no isolation, and gives it back.
        if let Ok(alone) = Arc::clone(&cell.node.isolation).acquire_owned().await {
            cell.deliver(Mail::Isolated(lane, alone));
        }
    }));
}

/// A uniform number in `[0, 1)` for jitter; nothing depends on its quality.
pub(crate) fn fastrand() -> f64 {
    (uuid::Uuid::now_v7().as_u64_pair().1 >> 11) as f64 % 9_007_199_254_740_992.0 / 9_007_199_254_740_992.0
}
