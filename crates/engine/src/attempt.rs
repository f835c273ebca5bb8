//! Executing one attempt of one task.

use std::{
    any::Any,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use tokio::{sync::mpsc::UnboundedSender, sync::oneshot, time::sleep};
use tokio_util::task::task_tracker::TaskTrackerToken;
use windlass_core::{ClaimId, Failure, LaneId, NodeId, RunId, Time};
use windlass_store::{Act, Unit};

use crate::{
    Call, Code, Cx, Done, committer::Lost, cx::Pulse, metric, node::Node, run_loop::Mail, slots::Seat,
    watchdog::Watched,
};

/// One attempt, ready to be executed.
pub(crate) struct Job {
    pub(crate) node: Arc<Node>,
    pub(crate) mailbox: UnboundedSender<Mail>,
    pub(crate) lane: LaneId,
    pub(crate) code: Code,
    pub(crate) predicate: Option<crate::Predicate>,
    pub(crate) call: Call,
    pub(crate) cx: Cx,
    pub(crate) seat: Arc<Seat>,
    pub(crate) limits: Limits,
}

/// How long an attempt may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) timeout: Option<Duration>,
    pub(crate) beat_timeout: Option<Duration>,
    /// When its task has taken too long, with all its attempts, and how long that is.
    pub(crate) deadline: Option<(Time, Duration)>,
}

impl Limits {
    fn is_none(&self) -> bool {
        self.timeout.is_none() && self.beat_timeout.is_none() && self.deadline.is_none()
    }
}

/// How an attempt speaks with its run.
pub(crate) struct Link {
    pub(crate) node: Arc<Node>,
    pub(crate) holder: NodeId,
    pub(crate) run: RunId,
    pub(crate) claim: ClaimId,
    pub(crate) lane: LaneId,
    pub(crate) mailbox: UnboundedSender<Mail>,
    pub(crate) seat: Arc<Seat>,
}

impl Link {
    /// Keeps a value for the next attempt.
    pub(crate) async fn save(&self, step: Arc<str>, json: Bytes) -> Result<(), Failure> {
        let value = self.node.hub.keep(format_args!("what `{step}` saves"), json).map_err(Failure::from)?;
        let (sender, fate) = oneshot::channel();
        let act = Act::Save { claim: self.claim, step, value };
        // An attempt that was dropped meanwhile does not want to know.
        let reply = Box::new(move |fate| drop(sender.send(fate)));
        self.node.hub.committer.submit(self.holder, Unit { run: self.run, act }, reply);
        match fate.await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(Lost::Refused(why))) => Err(Failure::new(format!("the value was not saved: {why}"))),
            Ok(Err(Lost::Failed(why))) => Err(Failure::new(format!("the value was not saved: {why}"))),
            Ok(Err(Lost::Fenced)) | Err(_) => {
                Err(Failure::new("the value was not saved: the node lost its lease"))
            }
        }
    }

    /// Waits without a slot, and lets the run know, so that it may be parked.
    pub(crate) async fn defer(&self, every: Duration, pulse: &Pulse) {
        let until = self.node.hub.clock.now() + every;
        // A run that is over has no use for this.
        self.mailbox.send(Mail::Deferred(self.lane, until)).ok();
        pulse
            .pause(async {
                self.seat.vacate();
                sleep(every).await;
                self.seat.take().await;
            })
            .await;
        self.mailbox.send(Mail::Undeferred(self.lane)).ok();
    }
}

impl Job {
    pub(crate) async fn run(self) {
        let mut report = Report::new(&self);
        let clock = &self.node.hub.clock;
        match self.limits.deadline {
            None => self.seat.take().await,
            Some((at, after)) => {
                if tokio::time::timeout_at(clock.instant(at), self.seat.take()).await.is_err() {
                    report.started_at = clock.now();
                    return report.send(Err(Failure::deadline_exceeded(after)));
                }
            }
        }
        // It may have waited long for its slot.
        if self.cx.inner().link.as_ref().is_some_and(|link| !self.node.may_act(link.holder)) {
            return;
        }
        report.started_at = clock.now();
        let began = tokio::time::Instant::now();
        let (node, cx) = (Arc::clone(&self.node), self.cx.clone());
        let predicate = self.predicate.clone();
        let outcome = self.execute().await;
        let outcome = outcome.map_err(|failure| judge(failure, predicate.as_deref()));
        node.note_attempt(&cx, &outcome, began.elapsed());
        report.send(outcome);
    }

    async fn execute(self) -> Result<Done, Failure> {
        if let Some(failure) = self.node.planned_failure(&self.cx) {
            return Err(failure);
        }
        let watched = self.node.watchdog.watch(&self.cx, &self.limits, self.node.hub.clock.now());
        match self.code {
            Code::Async(body) => {
                let body = Guarded(match guard(|| body(self.call)) {
                    Ok(future) => future,
                    Err(failure) => return Err(failure),
                });
                let _held = Held { seat: self.seat, _watched: watched, _busy: None };
                within(body, &self.node, &self.cx, self.limits).await
            }
            Code::Blocking(body) => {
                let call = self.call;
                // The slot and the watch are given back by the code itself, however late it ends.
                let held =
                    Held { seat: self.seat, _watched: watched, _busy: Some(self.node.blocking.token()) };
                let work = self.node.user.spawn_blocking(move || {
                    let outcome = guard(|| body(call)).and_then(|outcome| outcome);
                    drop(held);
                    outcome
                });
                let closed = |_| Err(Failure::new("the blocking pool is shut down"));
                let work = async { work.await.unwrap_or_else(closed) };
                within(Box::pin(work), &self.node, &self.cx, self.limits).await
            }
        }
    }
}

/// What code holds while it runs.
struct Held {
    seat: Arc<Seat>,
    _watched: Option<Watched>,
    _busy: Option<TaskTrackerToken>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.seat.vacate();
    }
}

/// Lets the task's own predicate say whether a failure is worth another attempt.
fn judge(failure: Failure, predicate: Option<&(dyn Fn(&Failure) -> bool + Send + Sync)>) -> Failure {
    match predicate {
        Some(predicate) if !predicate(&failure) => Failure::permanent(failure),
        _ => failure,
    }
}

/// Waits for an attempt, but not beyond its limits.
async fn within<F>(mut body: F, node: &Node, cx: &Cx, limits: Limits) -> Result<Done, Failure>
where
    F: Future<Output = Result<Done, Failure>> + Unpin,
{
    if limits.is_none() {
        return body.await;
    }
    let pulse = &cx.inner().pulse;
    loop {
        let wait = match next_check(&limits, pulse, node.hub.clock.now()) {
            Ok(wait) => wait,
            Err(failure) => {
                cx.inner().stop.set();
                return Err(failure);
            }
        };
        tokio::select! {
            biased;
            outcome = &mut body => return outcome,
            () = sleep(wait) => {}
        }
    }
}

/// How long until a limit may be passed, or the failure when one is.
fn next_check(limits: &Limits, pulse: &Pulse, now: Time) -> Result<Duration, Failure> {
    /// While an attempt is deferred, its limits stand still; look again after a while.
    const LATER: Duration = Duration::from_secs(1);
    let mut wait = Duration::MAX;
    if let Some(limit) = limits.timeout {
        match pulse.worked() {
            Some(worked) if worked >= limit => return Err(Failure::timed_out(limit)),
            worked => wait = wait.min(worked.map_or(LATER, |worked| limit - worked)),
        }
    }
    if let Some(limit) = limits.beat_timeout {
        match pulse.quiet() {
            Some(quiet) if quiet >= limit => return Err(Failure::beat_lost(limit)),
            quiet => wait = wait.min(quiet.map_or(LATER, |quiet| limit - quiet)),
        }
    }
    if let Some((at, after)) = limits.deadline {
        if at <= now {
            return Err(Failure::deadline_exceeded(after));
        }
        wait = wait.min(at.since(now));
    }
    // Timers have a resolution of a millisecond, and waking early would only mean asking again.
    Ok(wait.saturating_add(Duration::from_micros(500)))
}

/// Sends the outcome of an attempt to its run; dropped unsent, it says that the attempt was cut off.
struct Report {
    mailbox: UnboundedSender<Mail>,
    lane: LaneId,
    started_at: Time,
    sent: bool,
}

impl Report {
    fn new(job: &Job) -> Self {
        let started_at = job.node.hub.clock.now();
        Self { mailbox: job.mailbox.clone(), lane: job.lane, started_at, sent: false }
    }

    fn send(mut self, outcome: Result<Done, Failure>) {
        self.sent = true;
        // A run that is over has no use for the outcome.
        self.mailbox
            .send(Mail::Ended {
                lane: self.lane,
                started_at: self.started_at,
                outcome: Some(Box::new(outcome)),
            })
            .ok();
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        if !self.sent {
            self.mailbox
                .send(Mail::Ended { lane: self.lane, started_at: self.started_at, outcome: None })
                .ok();
        }
    }
}

/// A body whose panic is a failure.
struct Guarded(Pin<Box<dyn Future<Output = Result<Done, Failure>> + Send>>);

impl Future for Guarded {
    type Output = Result<Done, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        guard(|| self.0.as_mut().poll(cx)).unwrap_or_else(|failure| Poll::Ready(Err(failure)))
    }
}

fn guard<T>(body: impl FnOnce() -> T) -> Result<T, Failure> {
    // Nothing of the body is used after its panic but what it shares with others, whose business that is.
    catch_unwind(AssertUnwindSafe(body)).map_err(|panic| Failure::panic(panic_message(&*panic)))
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "the task panicked".to_owned())
}

impl Node {
    fn note_attempt(&self, cx: &Cx, outcome: &Result<Done, Failure>, took: Duration) {
        let inner = cx.inner();
        let name = if outcome.is_ok() { "completed" } else { "failed" };
        metric::attempt_ended(&inner.workflow, &inner.task, name, took.as_secs_f64());
    }
}
