//! Executing one attempt of one task.

mod host;
mod limits;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;

use std::{
    any::Any,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
pub(crate) use host::Host;
pub(crate) use limits::Limits;
pub(crate) use limits::within;
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};
use tracing::{Instrument, Span};
use windlass_core::{Failure, LaneId, Time};

use crate::{
    Body, BoxFuture, Call, Code, Cx, Done,
    boxed::boxed,
    busy,
    committer::Lost,
    cx::Pulse,
    flow::{Attended, in_body},
    guest::Guest,
    node::Node,
    run_loop::{Mail, Recorded, RunCell},
    slots::Seat,
    watchdog::Watched,
};

/// How an attempt speaks with its run.
pub(crate) struct Link {
    pub(crate) host: Host,
    pub(crate) lane: LaneId,
    pub(crate) seat: Seat,
}

impl Link {
    /// Refuses what does not go together with a transaction.
    pub(crate) fn refuse_in_transaction(&self, what: &str, why: &str) -> Result<(), Failure> {
        match self.host.subject().code(self.lane.task).run.transaction() {
            None => Ok(()),
            Some(_) => Err(Failure::permanent(format!("`{what}` is not for a task with a `tx`: {why}"))),
        }
    }

    /// Keeps a value for the next attempt.
    pub(crate) async fn save(&self, step: Arc<str>, json: Bytes) -> Result<(), Failure> {
        self.refuse_in_transaction(
            "cx.save",
            "the value would be kept even if the transaction is rolled back; write it to a table of your own",
        )?;
        self.host.save(step, json).await
    }

    /// Waits without a slot, and lets the run know, so that it may be parked.
    pub(crate) async fn defer(&self, attempt: u32, every: Duration, pulse: &Pulse) -> Result<(), Failure> {
        self.refuse_in_transaction(
            "cx.defer_until",
            "the transaction would be open while it waits; wait in a task of its own",
        )?;
        let slots = self.host.slots();
        if let Host::Home(cell) = &self.host {
            cell.tell(Mail::Deferred(self.lane, attempt, cell.node.hub.clock.now() + every));
        }
        pulse
            .pause(async {
                self.seat.vacate(slots);
                sleep(every).await;
                self.seat.take(slots).await;
            })
            .await;
        if let Host::Home(cell) = &self.host {
            cell.tell(Mail::Undeferred(self.lane, attempt));
        }
        Ok(())
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.seat.vacate(self.host.slots());
    }
}

/// What became of an attempt when it began.
pub(crate) enum Begun {
    /// It never waited.
    Over(Over),
    /// It waits for something, and will tell its run when it is over.
    Waiting(JoinHandle<()>),
}

/// How an attempt ended, and when.
pub(crate) struct Over {
    pub(crate) started_at: Time,
    pub(crate) ended: Instant,
    pub(crate) outcome: Result<Done, Failure>,
}

/// Begins an attempt here and now, if there is a slot. Many never wait, and then need no task of their own; one
/// that does wait is asked again by the task that it gets.
///
/// Code that takes long before it first waits keeps others from this thread. So a task that was seen to do so gets
/// a task of its own for its next attempts.
pub(crate) fn begin(cell: &Arc<RunCell>, lane: LaneId, cx: &Cx, call: Call, now: Instant) -> Begun {
    let registered = &cell.subject.registered;
    let host = Host::Home(Arc::clone(cell));
    let span = span(&host, lane, cx);
    let mut job = Job::new(host, lane, cx, now);
    let body = match &cell.code(lane.task).run {
        Code::Async(body) => body,
        Code::Blocking(body) => {
            return spawn(&cell.node, boxed(job.block(Arc::clone(body), call)), span);
        }
        #[cfg(feature = "postgres")]
        Code::Postgres(isolation, body) => {
            return spawn(&cell.node, boxed(job.transact(*isolation, Arc::clone(body), call)), span);
        }
        #[cfg(feature = "sqlite")]
        Code::Sqlite(body) => return spawn(&cell.node, boxed(job.write(Arc::clone(body), call)), span),
    };
    let meter = registered.meters.task(lane.task);
    if meter.credit.is_distrusted() || !job.has_slot() {
        return spawn(&cell.node, job.wait(Arc::clone(body), call), span);
    }
    if !meter.credit.is_quick() {
        cell.node.make_way();
    }
    let entered = span.enter();
    let first = job.start(now).and_then(|held| {
        let _turn = cx.inner().pulse.begin_turn();
        let mut body = Guarded::new(|| body(call))?;
        match Pin::new(&mut body).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => outcome.map(Ok),
            Poll::Pending => Ok(Err((body, held))),
        }
    });
    drop(entered);
    let now = Instant::now();
    meter.credit.note_first_poll(now - job.began);
    match first {
        Ok(Err((body, held))) => spawn(&cell.node, job.go_on(body, held), span),
        Ok(Ok(done)) => Begun::Over(job.over(Ok(done), now)),
        Err(failure) => Begun::Over(job.over(Err(failure), now)),
    }
}

/// Begins a published attempt, in a task of its own.
pub(crate) fn begin_away(guest: &Arc<Guest>, lane: LaneId, cx: &Cx, code: &Code, call: Call) {
    let host = Host::Away(Arc::clone(guest));
    let span = span(&host, lane, cx);
    let job = Job::new(host, lane, cx, Instant::now());
    let work = match code {
        Code::Async(body) => boxed(job.wait(Arc::clone(body), call)),
        Code::Blocking(body) => boxed(job.block(Arc::clone(body), call)),
        #[cfg(any(feature = "postgres", feature = "sqlite"))]
        _ => return job.report(Err(Failure::permanent("a task with a `tx` is executed where its run is"))),
    };
    let task = guest.node.user.spawn(work.instrument(span));
    guest.begun(cx.clone(), task.abort_handle(), matches!(code, Code::Blocking(_)));
}

fn span(host: &Host, lane: LaneId, cx: &Cx) -> Span {
    let subject = host.subject();
    let span = || {
        tracing::info_span!(
            parent: None, "windlass.attempt",
            run = %subject.run, workflow = %subject.registered.plan.definition.name,
            task = %subject.task(lane.task).name, item = lane.item, attempt = cx.attempt(),
        )
    };
    #[cfg(feature = "logs")]
    let span = || crate::log_layer::near(&host.node().hub, span);
    // A layer of the program's may panic: that is no reason to lose the run.
    guard(span).unwrap_or_else(|_| Span::none())
}

fn spawn(node: &Node, work: impl Future<Output = ()> + Send + 'static, span: Span) -> Begun {
    Begun::Waiting(node.user.spawn(work.instrument(span)))
}

/// One attempt. Dropped before it could say how it ended, it says that it was cut off.
struct Job {
    host: Host,
    lane: LaneId,
    cx: Cx,
    began: Instant,
    reported: bool,
    /// Whether its record may be durable, or become so, before it can say how it ended.
    committing: bool,
}

impl Job {
    fn new(host: Host, lane: LaneId, cx: &Cx, now: Instant) -> Self {
        Self { host, lane, cx: cx.clone(), began: now, reported: false, committing: false }
    }

    /// The run of a task with a `tx`, which is never published: its record is written under its run's claim.
    #[cfg_attr(
        not(any(feature = "postgres", feature = "sqlite")),
        allow(dead_code, reason = "without a database there are no transactions")
    )]
    fn home(&self) -> &Arc<RunCell> {
        match &self.host {
            Host::Home(cell) => cell,
            Host::Away(_) => unreachable!("a task with a `tx` is not published"),
        }
    }

    fn seat(&self) -> Option<&Seat> {
        self.cx.inner().link().map(|link| &link.seat)
    }

    /// Takes a slot if one is free.
    fn has_slot(&self) -> bool {
        self.seat().is_none_or(|seat| seat.try_take(self.host.slots()))
    }

    /// The time has begun to count.
    fn start(&mut self, now: Instant) -> Result<Held, Failure> {
        self.began = now;
        let (node, cx) = (self.host.node(), &self.cx);
        cx.inner().pulse.start(self.began);
        let watched = node.watchdog.watch(cx, || self.started_at());
        let held = Held { cx: cx.clone(), _watched: watched, _busy: None };
        if let Some((_, after)) = cx.inner().limits.deadline.filter(|(at, _)| *at <= self.started_at()) {
            return Err(Failure::deadline_exceeded(after));
        }
        node.planned_failure(cx).map_or(Ok(held), Err)
    }

    fn started_at(&self) -> Time {
        self.host.node().hub.clock.at(self.began)
    }

    /// Waits for a slot, and goes through the whole attempt.
    async fn wait(mut self, body: Arc<dyn Fn(Call) -> BoxFuture + Send + Sync>, call: Call) {
        let Some(held) = self.take_slot().await else { return };
        match held.and_then(|held| Ok((Guarded::new(|| body(call))?, held))) {
            Ok((body, held)) => self.go_on(body, held).await,
            Err(failure) => self.report(Err(failure)),
        }
    }

    /// The same for code that blocks its thread.
    async fn block(mut self, body: Arc<dyn Fn(Call) -> Body + Send + Sync>, call: Call) {
        let Some(held) = self.take_slot().await else { return };
        let mut held = match held {
            Ok(held) => held,
            Err(failure) => return self.report(Err(failure)),
        };
        held._busy = Some(self.host.node().blocking.token());
        let work = self.host.node().user.spawn_blocking(move || {
            let outcome = guard(|| body(call)).and_then(|outcome| outcome);
            // The slot and the watch are given back by the code itself, however late it ends.
            drop(held);
            outcome
        });
        let closed = |_| Err(Failure::new("the blocking pool is shut down"));
        let work = async { work.await.unwrap_or_else(closed) };
        let outcome = within(Box::pin(work), self.host.node(), &self.cx).await;
        self.report(outcome);
    }

    /// Waits for a slot within the task's deadline. `None` when nothing may begin any more.
    async fn take_slot(&mut self) -> Option<Result<Held, Failure>> {
        let (node, slots, cx) = (self.host.node(), self.host.slots(), self.cx.clone());
        let seat = &cx.inner().link()?.seat;
        let seated = async {
            tokio::select! {
                biased;
                () = cx.cancelled() => false,
                () = cx.inner().call_off.wait() => false,
                () = seat.take(slots) => true,
            }
        };
        let seated = match cx.inner().limits.deadline {
            None => seated.await,
            Some((at, after)) => {
                let until = node.hub.clock.instant(at);
                let Ok(seated) = tokio::time::timeout_at(until, seated).await else {
                    self.began = Instant::now();
                    return Some(Err(Failure::deadline_exceeded(after)));
                };
                seated
            }
        };
        if !seated {
            // It never began, so it is cut off at once.
            self.began = Instant::now();
            cx.inner().stop.set();
            return None;
        }
        // It may have waited long for its slot.
        if !node.may_act(self.host.subject().holder) {
            return None;
        }
        Some(self.start(Instant::now()))
    }

    /// Goes on with a body that waits.
    async fn go_on(self, body: Guarded, held: Held) {
        let outcome = within(Attended::new(body, &self.cx), self.host.node(), &self.cx).await;
        drop(held);
        self.report(outcome);
    }

    fn report(self, outcome: Result<Done, Failure>) {
        let (host, lane) = (self.host.clone(), self.lane);
        let Over { started_at, outcome, .. } = self.over(outcome, Instant::now());
        host.ended(lane, started_at, outcome);
    }

    /// Says that the attempt has completed, and that its record is durable.
    #[cfg_attr(
        not(any(feature = "postgres", feature = "sqlite")),
        allow(dead_code, reason = "without a database there are no transactions")
    )]
    fn report_recorded(self, done: Done, record: Recorded) {
        let (cell, lane) = (Arc::clone(self.home()), self.lane);
        if let Ok(done) = self.over(Ok(done), Instant::now()).outcome {
            cell.deliver(Mail::Recorded { lane, done: Box::new(done), record });
        }
    }

    /// The run is not this node's any more, or nobody knows what became of its record: nothing may be said about it.
    #[cfg_attr(
        not(any(feature = "postgres", feature = "sqlite")),
        allow(dead_code, reason = "without a database there are no transactions")
    )]
    fn lose(mut self, why: Lost) {
        self.reported = true;
        if matches!(why, Lost::Fenced) {
            self.host.node().hub.identity.lose(Some(self.host.subject().holder));
        }
        self.home().tell(Mail::Committed(0, Err(Box::new(why))));
    }

    /// Measures and judges how the attempt ended.
    fn over(mut self, outcome: Result<Done, Failure>, ended: Instant) -> Over {
        self.reported = true;
        let subject = self.host.subject();
        let predicate = subject.code(self.lane.task).predicate.as_deref();
        let outcome = outcome.map_err(|failure| judge(failure, predicate));
        let meter = subject.registered.meters.task(self.lane.task);
        meter.attempt_ended(outcome.is_ok(), ended - self.began);
        Over { started_at: self.started_at(), ended, outcome }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if self.reported {
            return;
        }
        // What may be recorded already must not be recorded otherwise.
        let asked = self.cx.is_cancelled() && !self.committing;
        self.host.cut(self.lane, self.started_at(), asked);
    }
}

/// What code holds while it runs.
struct Held {
    cx: Cx,
    _watched: Option<Watched>,
    _busy: Option<busy::Token>,
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(link) = self.cx.inner().link() {
            link.seat.vacate(link.host.slots());
        }
    }
}

/// Lets the task's own predicate say whether a failure is worth another attempt.
pub(crate) fn judge(
    failure: Failure,
    predicate: Option<&(dyn Fn(&Failure) -> bool + Send + Sync)>,
) -> Failure {
    match predicate {
        // One that panics has not asked for another attempt.
        Some(predicate) if !guard(|| predicate(&failure)).unwrap_or(false) => Failure::permanent(failure),
        _ => failure,
    }
}

/// A body whose panic is a failure, also when it is dropped.
struct Guarded(Option<BoxFuture>);

impl Guarded {
    fn new(body: impl FnOnce() -> BoxFuture) -> Result<Self, Failure> {
        guard(|| in_body(body)).map(|body| Self(Some(body)))
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let body = self.0.take();
        if body.is_some() && guard(|| drop(body)).is_err() {
            tracing::error!("the code of an attempt panicked when it was dropped");
        }
    }
}

impl Future for Guarded {
    type Output = Result<Done, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(body) = &mut self.0 else { return Poll::Pending };
        guard(|| in_body(|| body.as_mut().poll(cx))).unwrap_or_else(|failure| Poll::Ready(Err(failure)))
    }
}

pub(crate) fn guard<T>(body: impl FnOnce() -> T) -> Result<T, Failure> {
    // Nothing of the body is used after its panic but what it shares with others, whose business that is.
    catch_unwind(AssertUnwindSafe(body)).map_err(|panic| Failure::panic(panic_message(&*panic)))
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "the task panicked".to_owned())
}
