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
use crate::{Call, Cx, OnSqlite, boxed::boxed, committer::Lost, run_loop::RunCell};

/// How many times a body is executed again at once because its transaction could not be committed, before that is a
/// failed attempt.
const AGAIN: u32 = 5;

/// A body that takes longer than this is reported: nobody else can write meanwhile.
const SLOW: Duration = Duration::from_millis(100);

/// How long to wait before the store is asked again, at first and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// Why a body has no result.
#[derive(Debug)]
pub(crate) enum Missed {
    /// It was asked to stop before it began.
    Stopped,
    /// It failed.
    Failed(Failure),
}

/// Work for the thread that writes: a body, and the record of what it made.
pub(crate) struct Writing {
    cell: Arc<RunCell>,
    cx: Cx,
    work: Work,
    /// How many times the body was executed.
    executed: AtomicU32,
    /// When the body that executes began.
    began: Mutex<Option<Instant>>,
}

/// Executes the body and gives its record. Values of the user's are to be dropped by whoever made this, not by the
/// thread that writes.
type Work = Box<dyn Fn(&Transaction<'_>) -> Result<StepRow, Failure> + Send + Sync>;

impl Job {
    /// Goes through the whole attempt, on the thread that writes.
    pub(super) async fn write(mut self, body: OnSqlite, call: Call) {
        let Some(held) = self.take_slot().await else { return };
        match held {
            // Nobody can stop this any more: what is committed has happened, whatever comes meanwhile.
            Ok(held) => drop(tokio::spawn(boxed(self.hand_in(body, call, held)).in_current_span())),
            Err(failure) => self.report(Err(failure)),
        }
    }

    async fn hand_in(mut self, body: OnSqlite, call: Call, held: Held) {
        let kept = Arc::new(Mutex::new(None));
        let (lane, started_at, done) = (self.lane, self.started_at(), Arc::clone(&kept));
        let (cell, cx) = (Arc::clone(self.home()), self.cx.clone());
        let work = move |tx: &Transaction<'_>| {
            let made = guard(|| body(call.clone(), tx)).and_then(|made| made)?;
            let (along, record) =
                guard(|| cell.record(&cx, lane, &made, started_at)).and_then(|record| record)?;
            let before = done.lock().replace((made, record));
            guard(|| drop(before))?;
            Ok(along.step)
        };
        let writing = Writing::new(self.home(), &self.cx, Box::new(work));
        self.committing = true;
        let transacted = writing.settle().await;
        self.committing = false;
        drop(held);
        match transacted {
            Ok(Transacted::Committed) => match kept.lock().take() {
                Some((done, record)) => self.report_recorded(done, record),
                None => self.lose(Lost::Failed(StoreError::Broken("a result was committed and lost".into()))),
            },
            Ok(Transacted::Undone(Missed::Failed(failure))) => self.report(Err(failure)),
            Ok(Transacted::Refused(why)) => self.report(Err(refused(&why))),
            // Dropped, it says that it was cut off.
            Ok(Transacted::Undone(Missed::Stopped)) => drop(self),
            Ok(Transacted::NotYours) => self.lose(Lost::Refused(Refusal::NotYours)),
            Ok(Transacted::Before) => self.lose(committed_before()),
            Err(StoreError::Fenced) => self.lose(Lost::Fenced),
            Err(error) if error.is_temporary() => self.report(Err(uncommitted(&error))),
            Err(error) => self.lose(Lost::Failed(error)),
        }
    }
}

impl Writing {
    pub(crate) fn new(cell: &Arc<RunCell>, cx: &Cx, work: Work) -> Arc<Self> {
        let (executed, began) = (AtomicU32::new(0), Mutex::default());
        Arc::new(Self { cell: Arc::clone(cell), cx: cx.clone(), work, executed, began })
    }

    /// Has it done, again while the store is out of reach.
    pub(crate) async fn settle(self: &Arc<Self>) -> Result<Transacted<Missed>, StoreError> {
        let (node, (mut pause, most)) = (&self.cell.node, PAUSES);
        loop {
            let error = match self.watched(self.ask()?).await {
                Err(error) if error.is_temporary() && self.executed.load(Ordering::Relaxed) <= AGAIN => error,
                known => return known,
            };
            tracing::warn!(step = %self.cx.step(), %error, "a transaction could not be committed; trying again");
            if let Err(missed) = self.may_begin() {
                return Ok(Transacted::Undone(missed));
            }
            if !node.is(self.cell.subject.holder) {
                return Err(StoreError::Fenced);
            }
            tokio::select! {
                () = sleep(pause) => {}
                () = node.hub.closed.cancelled() => return Err(StoreError::Closed),
            }
            pause = (pause * 2).min(most);
        }
    }

    /// Hands the work to the thread that writes.
    fn ask(self: &Arc<Self>) -> Result<Answer<'static, Transacted<Missed>>, StoreError> {
        let store = self.cell.node.hub.store.itself().and_then(|store| store.downcast_ref::<Sqlite>());
        let store =
            store.ok_or_else(|| StoreError::Broken("the engine's store is not on SQLite".to_owned()))?;
        let subject = &self.cell.subject;
        let holder = Holder { node: subject.holder, run: subject.run, claim: subject.claim };
        let (writing, span) = (Arc::clone(self), tracing::Span::current());
        Ok(store.transact(holder, move |tx: &Transaction<'_>| -> Result<StepRow, Missed> {
            let _entered = span.enter();
            writing.may_begin()?;
            let row = writing.execute(tx).map_err(Missed::Failed)?;
            // One that took too long has failed, and leaves nothing.
            check(&writing.cell.node, &writing.cx).map_err(Missed::Failed)?;
            Ok(row)
        }))
    }

    /// Waits for the answer, and says so when a body does not end.
    async fn watched<T>(&self, answer: Answer<'static, T>) -> Result<T, StoreError> {
        tokio::pin!(answer);
        loop {
            if let Ok(answer) = timeout(SLOW * 10, answer.as_mut()).await {
                return answer;
            }
            if let Some(began) = *self.began.lock() {
                let (run, step, held_for) = (self.cx.run_id(), self.cx.step(), began.elapsed());
                tracing::error!(
                    %run, workflow = self.cx.workflow(), %step, ?held_for,
                    "{step} has the database for itself and does not end: no process can write meanwhile"
                );
            }
        }
    }

    fn execute(&self, tx: &Transaction<'_>) -> Result<StepRow, Failure> {
        self.executed.fetch_add(1, Ordering::Relaxed);
        let began = Instant::now();
        *self.began.lock() = Some(began);
        let outcome = (self.work)(tx);
        *self.began.lock() = None;
        if began.elapsed() > SLOW {
            let (run, step, took) = (self.cx.run_id(), self.cx.step(), began.elapsed());
            tracing::warn!(
                %run, workflow = self.cx.workflow(), %step, ?took,
                "{step} was slow in its transaction: no process could write meanwhile; do what takes long outside of it"
            );
        }
        outcome
    }

    /// Whether the body may begin.
    fn may_begin(&self) -> Result<(), Missed> {
        if self.cx.is_cancelled() {
            return Err(Missed::Stopped);
        }
        check(&self.cell.node, &self.cx).map_err(Missed::Failed)
    }
}

/// The body was executed again after a transaction that was committed and seemed not to be. What counts is in the records,
/// and the run goes on from there.
pub(crate) fn committed_before() -> Lost {
    let why =
        "its record was committed although the database answered with an error; it goes on from its records";
    Lost::Failed(StoreError::Unavailable(why.to_owned()))
}

/// The failure of an attempt whose transaction could not be committed, though it may be some time.
pub(crate) fn uncommitted(why: &impl std::fmt::Display) -> Failure {
    refused(why).transient()
}

/// The failure of an attempt whose transaction cannot be committed, because of what it wrote.
pub(crate) fn refused(why: &impl std::fmt::Display) -> Failure {
    Failure::new(format!("its transaction could not be committed: {why}"))
}
