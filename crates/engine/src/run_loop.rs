//! One run in memory: it hears what happened, and carries out what the core asks for.

mod log;

use std::{
    collections::HashMap,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::Waker,
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    sync::{
        OwnedSemaphorePermit,
        mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
        oneshot,
    },
    task::JoinHandle,
};
use tracing::Instrument;
use windlass_core::{
    Attempt, ClaimId, Command, Context, Ended, Event, Failure, LaneId, NodeId, Order, Rest, Run, RunState,
    Seed, Step, StepKind, TaskIx, TaskView, Time, Verdict,
};
use windlass_store::{Act, End, InboxRow, NewEnd, StepRow, Unit, Wait};

use crate::{
    Call, Code, Cx, Dependency, Done, Item, Slot,
    attempt::{Job, Limits, Link},
    committer::{Fate, Lost},
    cx::{Inner, StopSignal},
    metric,
    node::{Node, Registered},
    order,
    outputs::Outputs,
    slots::Seat,
};

/// What a run loop is told.
pub(crate) enum Mail {
    /// An attempt is over; without an outcome when it was cut off.
    Ended { lane: LaneId, started_at: Time, outcome: Option<Box<Result<Done, Failure>>> },
    /// Records are durable, or not to be.
    Committed { records: u64, fate: Result<(), Box<Lost>> },
    /// An attempt waits without a slot.
    Deferred(LaneId, Time),
    /// A deferred attempt goes on.
    Undeferred(LaneId),
    /// Something came from outside.
    Inbox(Box<InboxRow>),
    /// Start nothing new; give the run up when nothing executes.
    Halt,
    /// Stop what executes, and give the run up.
    GiveUp,
    /// A suspect may start, and keeps others from starting until its attempt has ended.
    Isolated(LaneId, OwnedSemaphorePermit),
    /// Say where the tasks stand.
    Describe(oneshot::Sender<Described>),
    /// The run is not this node's any more: drop it without a word.
    Vanish,
}

/// Where the tasks of a run stand, and how far those that execute say they have come.
pub(crate) struct Described {
    pub(crate) tasks: Vec<TaskView>,
    pub(crate) progress: HashMap<Arc<str>, f64>,
}

/// What a run is, beside where it stands.
pub(crate) struct Subject {
    pub(crate) run: windlass_core::RunId,
    pub(crate) claim: ClaimId,
    pub(crate) holder: NodeId,
    pub(crate) generation: u32,
    pub(crate) queue: Arc<str>,
    pub(crate) key: Option<String>,
    pub(crate) input: Slot,
    pub(crate) registered: Arc<Registered>,
}

/// One run in memory.
///
/// Woken by its mailbox and by the next time that the core names.
pub(crate) struct RunLoop {
    node: Arc<Node>,
    subject: Subject,
    run: Run,
    /// What the core asks for, and the room that it was asked in before.
    commands: Vec<Command>,
    outputs: Outputs,
    saved: HashMap<Arc<str>, Slot>,
    attempts: HashMap<LaneId, Live>,
    /// Suspects that execute alone.
    isolated: HashMap<LaneId, OwnedSemaphorePermit>,
    mailbox: UnboundedReceiver<Mail>,
    sender: UnboundedSender<Mail>,
    /// Inbox rows that were heard.
    heard: Vec<i64>,
    /// Inbox rows whose effect is recorded with the next unit.
    consumed: Vec<i64>,
    /// The pause that holds the run; its row stays until the run is resumed.
    pause: Option<i64>,
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

/// How many mails are taken before the commands are carried out.
const MAILS: usize = 1024;

impl RunLoop {
    pub(crate) fn new(node: Arc<Node>, subject: Subject, run: Run, outputs: Outputs) -> Self {
        let (sender, mailbox) = unbounded_channel();
        node.hold(subject.run, subject.claim, sender.clone());
        Self {
            node,
            subject,
            run,
            commands: Vec::new(),
            outputs,
            saved: HashMap::new(),
            attempts: HashMap::new(),
            isolated: HashMap::new(),
            mailbox,
            sender,
            heard: Vec::new(),
            consumed: Vec::new(),
            pause: None,
            over: false,
            gone: false,
        }
    }

    /// A run that has just been started here: it has no records.
    pub(crate) fn fresh(node: Arc<Node>, subject: Subject, seed: Seed) -> Option<Self> {
        let tasks = seed.plan.definition.tasks.len();
        match Run::new(seed) {
            Ok(run) => Some(Self::new(node, subject, run, Outputs::new(tasks))),
            // Only records can disagree with a plan.
            Err(divergence) => {
                tracing::error!(run = %subject.run, %divergence, "a new run does not fit its own plan");
                None
            }
        }
    }

    pub(crate) fn with_saved(mut self, saved: HashMap<Arc<str>, Slot>) -> Self {
        self.saved = saved;
        self
    }

    /// Hears what came before the run was taken up.
    pub(crate) fn hear_all(&mut self, inbox: Vec<InboxRow>) {
        for row in inbox {
            self.hear(row);
        }
    }

    pub(crate) async fn run(mut self) {
        // From here on the node tells its runs of such changes; this one may have been too late to hear.
        if self.node.id() != Some(self.subject.holder) {
            self.vanish();
        } else if self.node.stopping.is_cancelled() {
            self.apply(Event::Halt);
        }
        self.apply(Event::Begin);
        while !self.over {
            self.carry_out();
            self.rest();
            if self.over {
                break;
            }
            let mail = match self.run.next_tick() {
                None => self.mailbox.recv().await,
                Some(at) => {
                    let at = self.node.hub.clock.instant(at);
                    tokio::select! {
                        biased;
                        mail = self.mailbox.recv() => mail,
                        () = tokio::time::sleep_until(at) => {
                            self.apply(Event::Tick);
                            continue;
                        }
                    }
                }
            };
            // The loop holds a sender itself, so the mailbox never closes.
            let Some(mail) = mail else { break };
            self.take(mail);
            for _ in 0..MAILS {
                match self.mailbox.try_recv() {
                    Ok(mail) if !self.over => self.take(mail),
                    _ => break,
                }
            }
        }
        self.drop_attempts().await;
        if self.gone {
            // Only now is nothing of it left here.
            self.node.release(self.subject.run, self.subject.claim);
        }
    }

    fn apply(&mut self, event: Event) {
        self.run.apply(event, self.node.hub.clock.now());
    }

    fn take(&mut self, mail: Mail) {
        match mail {
            Mail::Ended { lane, started_at, outcome } => {
                self.attempt_ended(lane, started_at, outcome.map(|outcome| *outcome));
            }
            Mail::Committed { records, fate: Ok(_) } => self.apply(Event::Recorded(records)),
            Mail::Committed { fate: Err(lost), .. } => self.lost(&lost),
            Mail::Deferred(lane, until) => {
                // What waits kills nobody.
                self.isolated.remove(&lane);
                self.apply(Event::Deferred { lane, until });
            }
            Mail::Undeferred(lane) => self.apply(Event::Undeferred(lane)),
            Mail::Isolated(lane, isolation) => {
                self.isolated.insert(lane, isolation);
                self.apply(Event::Isolated(lane));
            }
            Mail::Inbox(row) => self.hear(*row),
            Mail::Halt => self.apply(Event::Halt),
            Mail::GiveUp => {
                self.apply(Event::Halt);
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

    /// A record was not written: the run is not ours any more, or cannot be recorded.
    fn lost(&mut self, lost: &Lost) {
        let run = self.subject.run;
        match lost {
            Lost::Fenced => tracing::debug!(%run, "the run is dropped: its node lost its lease"),
            Lost::Refused(why) => tracing::warn!(%run, %why, "the run is dropped: its record was refused"),
            Lost::Failed(why) => tracing::error!(%run, %why, "the run is dropped: it cannot be recorded"),
        }
        self.vanish();
    }

    fn vanish(&mut self) {
        self.over = true;
        self.gone = true;
    }

    fn attempt_ended(&mut self, lane: LaneId, started_at: Time, outcome: Option<Result<Done, Failure>>) {
        self.isolated.remove(&lane);
        if let Some(live) = self.attempts.remove(&lane)
            && let Some(saved) = live.cx.inner().saved.lock().take()
        {
            self.saved.insert(live.cx.step(), saved);
        }
        let ended = match outcome {
            None => Ended::Cut,
            Some(outcome) => match outcome.and_then(|done| self.complete(lane, done)) {
                Ok(ended) => ended,
                Err(failure) => Ended::Failed(failure),
            },
        };
        let dice = if matches!(ended, Ended::Failed(_)) { fastrand() } else { 0.0 };
        self.apply(Event::Ended { lane, started_at, ended, dice });
    }

    /// Takes a result in, unless it cannot be kept.
    fn complete(&mut self, lane: LaneId, done: Done) -> Result<Ended, Failure> {
        let plan = self.run.plan();
        let name = &plan.definition.task(lane.task).name;
        let kept = self.node.hub.keep(format_args!("the result of `{name}`"), done.output.bytes().clone());
        let kept = kept.map_err(|error| Failure::permanent(Failure::from(error)))?;
        let items = if plan.hands_out(lane) { Some(count_items(name, done.output.bytes())?) } else { None };
        self.outputs.set(lane, done.output, kept);
        Ok(Ended::Completed { changes: done.changes, items })
    }

    fn describe(&self) -> Described {
        let plain = self.attempts.iter().filter(|(lane, _)| lane.item.is_none());
        let progress = plain.map(|(_, live)| (live.cx.step(), live.cx.inner().pulse.progress())).collect();
        Described { tasks: self.run.tasks(), progress }
    }

    fn hear(&mut self, row: InboxRow) {
        if self.heard.contains(&row.seq) {
            return;
        }
        self.heard.push(row.seq);
        let Some(order) = order::decode(&row) else {
            tracing::warn!(run = %self.subject.run, topic = row.topic, "an inbox row of an unknown kind is left alone");
            return;
        };
        match order {
            Order::Pause => self.pause = Some(row.seq),
            Order::Resume => self.consumed.extend(self.pause.take().into_iter().chain([row.seq])),
            // These end the run, and the inbox with it.
            Order::Cancel { .. } | Order::Terminate { .. } => {}
        }
        self.apply(Event::Order(order));
    }

    fn carry_out(&mut self) {
        let mut steps = Vec::new();
        let mut commands = std::mem::take(&mut self.commands);
        self.run.swap_commands(&mut commands);
        // Several attempts that start together are for several threads.
        let starts = commands.iter().filter(|command| matches!(command, Command::Start(_))).count();
        let alone = starts == 1 && self.attempts.is_empty();
        for command in commands.drain(..) {
            match command {
                Command::Record { lane, step } => {
                    self.log_failure(lane, &step);
                    match self.row(lane, step) {
                        Ok(row) => steps.push(row),
                        Err(why) => return self.lost(&Lost::Failed(windlass_store::StoreError::Broken(why))),
                    }
                }
                Command::Start(_) if !self.node.may_act(self.subject.holder) => {
                    return self.lost(&Lost::Fenced);
                }
                Command::Start(attempt) => self.start(attempt, alone),
                Command::Isolate(lane) => self.isolate(lane),
                Command::Stop(lane) => self.stop(lane),
                Command::End(verdict) => return self.end(steps, verdict),
            }
        }
        self.commands = commands;
        if !steps.is_empty() {
            let records = steps.len() as u64;
            let consumed = std::mem::take(&mut self.consumed);
            let sender = self.sender.clone();
            let act = Act::Record { claim: self.subject.claim, steps, consumed };
            // A loop that is over has no use for the answer.
            self.submit(act, move |fate| {
                let fate = fate.map(drop).map_err(Box::new);
                drop(sender.send(Mail::Committed { records, fate }));
            });
        }
    }

    fn submit(&self, act: Act, reply: impl FnOnce(Fate) + Send + 'static) {
        let unit = Unit { run: self.subject.run, act };
        self.node.hub.committer.submit(self.subject.holder, unit, Box::new(reply));
    }

    fn row(&self, lane: LaneId, step: Step) -> Result<StepRow, String> {
        let output = (step.kind == StepKind::Completed).then(|| self.outputs.kept(lane)).flatten();
        let detail = match step.detail.is_empty() {
            true => None,
            false => {
                let json = serde_json::to_vec(&step.detail).map_err(|error| error.to_string())?;
                Some(self.node.hub.codec.encode(json.into()).map_err(|error| error.to_string())?)
            }
        };
        Ok(StepRow {
            generation: self.subject.generation,
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

    fn start(&mut self, attempt: Attempt, alone: bool) {
        let lane = attempt.lane;
        let code = &self.subject.registered.workflow.code()[lane.task.get()];
        let plan = Arc::clone(self.run.plan());
        let task = plan.definition.task(lane.task);
        let queue = task.queue.as_ref().unwrap_or(&self.subject.queue);
        let seat = Arc::new(Seat::new(self.node.slots.of(queue)));
        let cx = Cx::new(Inner {
            run: self.subject.run,
            generation: self.subject.generation,
            workflow: Arc::clone(&plan.definition.name),
            task: Arc::clone(&task.name),
            item: lane.item,
            attempt: attempt.number,
            stop: StopSignal::default(),
            pulse: Default::default(),
            saved: parking_lot::Mutex::new(None),
            link: Some(Link {
                node: Arc::clone(&self.node),
                holder: self.subject.holder,
                run: self.subject.run,
                claim: self.subject.claim,
                lane,
                mailbox: self.sender.clone(),
                seat: Arc::clone(&seat),
            }),
        });
        if !self.saved.is_empty() {
            *cx.inner().saved.lock() = self.saved.get(&cx.step()).cloned();
        }
        let is_blocking = matches!(code.run, Code::Blocking(_));
        let job = Job {
            node: Arc::clone(&self.node),
            mailbox: self.sender.clone(),
            lane,
            code: code.run.clone(),
            predicate: code.predicate.clone(),
            call: self.call(lane, cx.clone()),
            cx: cx.clone(),
            seat,
            limits: Limits {
                timeout: task.timeout,
                beat_timeout: task.beat_timeout,
                deadline: attempt.deadline.zip(task.deadline),
            },
        };
        let span = tracing::info_span!(
            "windlass.attempt",
            run = %self.subject.run, workflow = %plan.definition.name, task = %task.name, item = lane.item,
            attempt = attempt.number,
        );
        let mut work = Box::pin(job.run().instrument(span));
        if alone && !is_blocking && is_done_at_once(work.as_mut()) {
            return;
        }
        let task = self.node.work.spawn_on(work, &self.node.user);
        self.attempts.insert(lane, Live { cx, task, is_blocking });
    }

    fn call(&mut self, lane: LaneId, cx: Cx) -> Call {
        let plan = Arc::clone(self.run.plan());
        let task = plan.definition.task(lane.task);
        let dependencies = task.dependencies.iter().map(|&at| self.dependency(at)).collect();
        let item = task.for_each.zip(lane.item).and_then(|(for_each, index)| {
            let source = self.result_of(for_each.over)?;
            Some(Item { source, index: index as usize })
        });
        Call {
            input: self.subject.input.clone(),
            dependencies,
            item,
            context: Context::new(self.run.context_for(lane.task)),
            resources: Arc::clone(&self.node.resources),
            cx,
        }
    }

    fn dependency(&mut self, at: TaskIx) -> Dependency {
        match self.run.outcome(at) {
            Some(StepKind::Completed) => match self.result_of(at) {
                Some(slot) => Dependency::Completed(slot),
                None => Dependency::Failed(Failure::permanent("its result is missing from the record")),
            },
            Some(StepKind::Skipped) => match self.run.skip(at) {
                Some(skip) => Dependency::Skipped(skip.clone()),
                None => Dependency::Skipped(windlass_core::Skip::Rule),
            },
            Some(StepKind::Failed) => match self.run.failure(at) {
                Some(failure) => Dependency::Failed(failure.clone()),
                None => Dependency::Failed(Failure::new("the task failed")),
            },
            _ => Dependency::Cancelled,
        }
    }

    /// The result of a completed task: an array of all instances' results, for a `for_each`.
    fn result_of(&mut self, task: TaskIx) -> Option<Slot> {
        self.outputs.result(task, &self.run)
    }

    /// Waits until no other suspect of this node executes.
    fn isolate(&self, lane: LaneId) {
        let (isolation, sender) = (Arc::clone(&self.node.isolation), self.sender.clone());
        self.node.user.spawn(async move {
            // The semaphore is never closed. A run that is over needs no isolation, and gives it back.
            if let Ok(alone) = isolation.acquire_owned().await {
                sender.send(Mail::Isolated(lane, alone)).ok();
            }
        });
    }

    fn stop(&mut self, lane: LaneId) {
        let Some(live) = self.attempts.get(&lane) else { return };
        live.cx.inner().stop.set();
        let (abort, grace) = (live.task.abort_handle(), self.node.options.cancel_grace);
        self.node.user.spawn(async move {
            tokio::time::sleep(grace).await;
            abort.abort();
        });
    }

    fn end(&mut self, steps: Vec<StepRow>, verdict: Verdict) {
        self.over = true;
        let state = verdict.state();
        let output = match (&verdict, self.run.plan().definition.output) {
            (Verdict::Completed, Some(task)) => self.run_output(task),
            _ => Ok(None),
        };
        let failure = match &verdict {
            Verdict::Completed => Ok(None),
            verdict => self.encode_verdict(verdict).map(Some),
        };
        let (output, failure) = match (output, failure) {
            (Ok(output), Ok(failure)) => (output, failure),
            (Err(why), _) | (_, Err(why)) => {
                return self.lost(&Lost::Failed(windlass_store::StoreError::Broken(why)));
            }
        };
        self.log_end(&verdict);
        let end = NewEnd { state, output: output.clone(), failure: failure.clone() };
        let act = Act::End { claim: self.subject.claim, steps, end };
        let node = Arc::clone(&self.node);
        let (run, claim) = (self.subject.run, self.subject.claim);
        let workflow = Arc::clone(&self.run.plan().definition.name);
        self.submit(act, move |fate| {
            // First the room, then the word: whoever waits for this end may start the next run at once.
            node.release(run, claim);
            match fate {
                Ok(written) => {
                    metric::run_ended(&workflow, state_label(state));
                    let at = match written {
                        windlass_store::Written::Done { at } => at,
                        _ => node.hub.clock.now(),
                    };
                    node.hub.ended(run, || End { state, at, output, failure });
                }
                Err(Lost::Refused(why)) => {
                    tracing::warn!(%run, %why, "the run's end was refused: it is another node's");
                }
                Err(Lost::Fenced) => {
                    tracing::debug!(%run, "the run's end was not written: the node lost its lease")
                }
                Err(Lost::Failed(why)) => tracing::error!(%run, %why, "the run's end could not be written"),
            }
        });
    }

    fn run_output(&mut self, task: TaskIx) -> Result<Option<Bytes>, String> {
        if self.run.outcome(task) != Some(StepKind::Completed) {
            return Ok(None);
        }
        let lane = LaneId::of(task);
        if let Some(kept) = self.outputs.kept(lane) {
            return Ok(Some(kept));
        }
        let Some(slot) = self.result_of(task) else { return Ok(None) };
        self.node.hub.codec.encode(slot.bytes().clone()).map(Some).map_err(|error| error.to_string())
    }

    fn encode_verdict(&self, verdict: &Verdict) -> Result<Bytes, String> {
        let json = serde_json::to_vec(verdict).map_err(|error| error.to_string())?;
        self.node.hub.codec.encode(json.into()).map_err(|error| error.to_string())
    }

    /// Gives the run up when nothing of it executes and nothing will for a while.
    fn rest(&mut self) {
        if self.over {
            return;
        }
        let topics = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let wait = match self.run.rest() {
            Rest::Busy => return,
            Rest::Halted => return self.give_up(Act::Release { claim: self.subject.claim }, None),
            Rest::Waiting(Some(until)) if !self.is_far(until) => return,
            Rest::Waiting(until) => Wait {
                state: RunState::Suspended,
                until,
                topics: topics(&[order::CANCEL, order::PAUSE, order::TERMINATE]),
                reason: Some("waiting for a retry or a deferred task".to_owned()),
                blocked_by: None,
            },
            Rest::Paused(until) => Wait {
                state: RunState::Paused,
                until,
                topics: topics(&[order::CANCEL, order::RESUME, order::TERMINATE]),
                reason: Some("paused by a person".to_owned()),
                blocked_by: None,
            },
        };
        self.park(wait);
    }

    fn is_far(&self, until: Time) -> bool {
        until.since(self.node.hub.clock.now()) > self.node.options.park_after
    }

    pub(crate) fn park(&mut self, wait: Wait) {
        let until = wait.until;
        let consumed = std::mem::take(&mut self.consumed);
        self.give_up(Act::Park { claim: self.subject.claim, steps: Vec::new(), consumed, wait }, until);
    }

    fn give_up(&mut self, act: Act, until: Option<Time>) {
        self.over = true;
        let node = Arc::clone(&self.node);
        let (run, claim) = (self.subject.run, self.subject.claim);
        self.submit(act, move |fate| {
            if let Err(Lost::Refused(why)) = &fate {
                tracing::debug!(%run, %why, "the run was not ours to give up");
            }
            node.release(run, claim);
            if fate.is_ok() {
                // What came while the run was being parked has made it ready.
                node.due(until);
                node.claim.notify_one();
            }
        });
    }

    /// Drops what still executes, and waits until it is gone.
    async fn drop_attempts(&mut self) {
        for (_, live) in self.attempts.drain() {
            live.cx.inner().stop.set();
            live.task.abort();
            // Its end says nothing new: it was aborted, or had just ended.
            live.task.await.ok();
        }
    }
}

/// Waiting longer than this between two looks costs nothing.
pub(crate) const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// Begins an attempt here and now. Many never wait, and then need no task of their own; one that does wait is asked
/// again by the task that it gets.
fn is_done_at_once(work: Pin<&mut impl Future<Output = ()>>) -> bool {
    let mut nobody = std::task::Context::from_waker(Waker::noop());
    // A panic outside the body's own guard ends the attempt: its report says so when it is dropped.
    catch_unwind(AssertUnwindSafe(|| work.poll(&mut nobody).is_ready())).unwrap_or(true)
}

fn count_items(task: &str, json: &[u8]) -> Result<u32, Failure> {
    let items: Vec<serde::de::IgnoredAny> = serde_json::from_slice(json).map_err(|error| {
        Failure::permanent(format!(
            "the result of `{task}` is handed out by a for_each, but is not an array: {error}"
        ))
    })?;
    u32::try_from(items.len())
        .map_err(|_| Failure::permanent(format!("the result of `{task}` has too many elements")))
}

/// A uniform number in `[0, 1)` for jitter; nothing depends on its quality.
fn fastrand() -> f64 {
    (uuid::Uuid::now_v7().as_u64_pair().1 >> 11) as f64 % 9_007_199_254_740_992.0 / 9_007_199_254_740_992.0
}

fn state_label(state: RunState) -> &'static str {
    match state {
        RunState::Completed => "completed",
        RunState::Failed => "failed",
        RunState::Cancelled => "cancelled",
        _ => "abandoned",
    }
}
