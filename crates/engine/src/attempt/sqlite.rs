//! Executing one attempt of a task with a transaction on SQLite.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout};
use tracing::Instrument;
use windlass_core::Failure;
use windlass_sqlite::{Holder, Sqlite, Transacted, Transaction};
use windlass_store::{Answer, Refusal, StepRow, StoreError};

use super::{Held, Job, guard, limits::check};
use crate::{Call, Cx, Done, OnSqlite, boxed::boxed, committer::Lost, run_loop::Recorded};

/// How many times a body is executed again at once because its transaction could not be committed, before that is a
/// failed attempt.
const AGAIN: u32 = 5;

/// A body that takes longer than this is reported: nobody else can write meanwhile.
const SLOW: Duration = Duration::from_millis(100);

/// How long to wait before the store is asked again, at first and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// Why a body has no result.
#[derive(Debug)]
enum Missed {
    /// It was asked to stop before it began.
    Stopped,
    /// It failed.
    Failed(Failure),
}

/// What the thread that writes and the attempt share. Values of the user's are dropped by the attempt.
struct Work {
    body: OnSqlite,
    call: Call,
    done: Mutex<Option<(Done, Recorded)>>,
    /// How many times the body was executed.
    executed: AtomicU32,
    /// When the body that executes began.
    began: Mutex<Option<Instant>>,
}

impl Job {
    /// Goes through the whole attempt, on the thread that writes.
    pub(super) async fn write(mut self, body: OnSqlite, call: Call) {
        let Some(held) = self.take_slot().await else { return };
        let held = match held {
            Ok(held) => held,
            Err(failure) => return self.report(Err(failure)),
        };
        let (done, executed, began) = (Mutex::default(), AtomicU32::new(0), Mutex::default());
        let work = Arc::new(Work { body, call, done, executed, began });
        // Nobody can stop this any more: what is committed has happened, whatever comes meanwhile.
        tokio::spawn(boxed(self.hand_in(work, held)).in_current_span());
    }

    async fn hand_in(mut self, work: Arc<Work>, held: Held) {
        self.committing = true;
        let transacted = self.transacted(&work).await;
        self.committing = false;
        drop(held);
        match transacted {
            Ok(Transacted::Committed) => match work.done.lock().take() {
                Some((done, record)) => self.report_recorded(done, record),
                None => self.lose(Lost::Failed(StoreError::Broken("a result was committed and lost".into()))),
            },
            Ok(Transacted::Undone(Missed::Failed(failure))) => self.report(Err(failure)),
            // Dropped, it says that it was cut off.
            Ok(Transacted::Undone(Missed::Stopped)) => drop(self),
            Ok(Transacted::NotYours) => self.lose(Lost::Refused(Refusal::NotYours)),
            Err(StoreError::Fenced) => self.lose(Lost::Fenced),
            Err(error) if error.is_temporary() => {
                let why = format!("its transaction could not be committed: {error}");
                self.report(Err(Failure::new(why).transient()));
            }
            Err(error) => self.lose(Lost::Failed(error)),
        }
    }

    /// Has it done, again while the store is out of reach.
    async fn transacted(&self, work: &Arc<Work>) -> Result<Transacted<Missed>, StoreError> {
        let (cell, (mut pause, most)) = (self.home(), PAUSES);
        loop {
            let error = match self.watched(work, self.ask(work)?).await {
                Err(error) if error.is_temporary() && work.executed.load(Ordering::Relaxed) <= AGAIN => error,
                known => return known,
            };
            tracing::warn!(step = %self.cx.step(), %error, "a transaction could not be committed; trying again");
            if let Err(missed) = may_begin(&self.cx, &cell.node) {
                return Ok(Transacted::Undone(missed));
            }
            if !cell.node.is(cell.subject.holder) {
                return Err(StoreError::Fenced);
            }
            tokio::select! {
                () = sleep(pause) => {}
                () = cell.node.hub.closed.cancelled() => return Err(StoreError::Closed),
            }
            pause = (pause * 2).min(most);
        }
    }

    /// Hands the work to the thread that writes.
    fn ask(&self, work: &Arc<Work>) -> Result<Answer<'static, Transacted<Missed>>, StoreError> {
        let store = self.host.node().hub.store.itself().and_then(|store| store.downcast_ref::<Sqlite>());
        let store =
            store.ok_or_else(|| StoreError::Broken("the engine's store is not on SQLite".to_owned()))?;
        let subject = self.host.subject();
        let holder = Holder { node: subject.holder, run: subject.run, claim: subject.claim };
        let (cell, lane, cx, started_at) =
            (Arc::clone(self.home()), self.lane, self.cx.clone(), self.started_at());
        let (work, span) = (Arc::clone(work), tracing::Span::current());
        Ok(store.transact(holder, move |tx: &Transaction<'_>| -> Result<StepRow, Missed> {
            let _entered = span.enter();
            may_begin(&cx, &cell.node)?;
            let done = work.execute(tx, &cx)?;
            // One that took too long has failed, and leaves nothing.
            check(&cell.node, &cx).map_err(Missed::Failed)?;
            let record = guard(|| cell.record(&cx, lane, &done, started_at)).and_then(|record| record);
            let (along, record) = record.map_err(Missed::Failed)?;
            let before = work.done.lock().replace((done, record));
            guard(|| drop(before)).map_err(Missed::Failed)?;
            Ok(along.step)
        }))
    }

    /// Waits for the answer, and says so when a body does not end.
    async fn watched<T>(&self, work: &Work, answer: Answer<'static, T>) -> Result<T, StoreError> {
        tokio::pin!(answer);
        loop {
            if let Ok(answer) = timeout(SLOW * 10, answer.as_mut()).await {
                return answer;
            }
            if let Some(began) = *work.began.lock() {
                let (run, step, held_for) = (self.cx.run_id(), self.cx.step(), began.elapsed());
                tracing::error!(
                    %run, workflow = self.cx.workflow(), %step, ?held_for,
                    "{step} has the database for itself and does not end: no process can write meanwhile"
                );
            }
        }
    }
}

impl Work {
    fn execute(&self, tx: &Transaction<'_>, cx: &Cx) -> Result<Done, Missed> {
        self.executed.fetch_add(1, Ordering::Relaxed);
        let began = Instant::now();
        *self.began.lock() = Some(began);
        let outcome = guard(|| (self.body)(self.call.clone(), tx)).and_then(|outcome| outcome);
        *self.began.lock() = None;
        if began.elapsed() > SLOW {
            let (run, step, took) = (cx.run_id(), cx.step(), began.elapsed());
            tracing::warn!(
                %run, workflow = cx.workflow(), %step, ?took,
                "{step} was slow in its transaction: no process could write meanwhile; do what takes long in a task without \
                 `tx`"
            );
        }
        outcome.map_err(Missed::Failed)
    }
}

/// Whether the body may begin.
fn may_begin(cx: &Cx, node: &crate::node::Node) -> Result<(), Missed> {
    if cx.is_cancelled() {
        return Err(Missed::Stopped);
    }
    check(node, cx).map_err(Missed::Failed)
}
