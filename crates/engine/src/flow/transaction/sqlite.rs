//! Steps with a transaction on SQLite.

use std::sync::Arc;

use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::oneshot;
use tracing::Instrument;
use windlass_core::{Failure, FailureKind};
use windlass_sqlite::{Sqlite, Transacted, Transaction};
use windlass_store::{Refusal, StepRow, StoreError};

use super::{
    super::{
        Flow,
        step::{Attempt, Raised, Step},
    },
    Booked, Booking, bad_news,
};
use crate::{
    Slot,
    attempt::{
        guard,
        sqlite::{Missed, Writing, committed_before, refused, uncommitted},
    },
    authoring::caught::TaskError,
    boxed::boxed,
    committer::Lost,
};

/// Steps of durable functions that write to the application's own tables, in the file of the store.
pub trait FlowExt {
    /// Does a step in a transaction: what it writes and its record are committed together, or not at all. So it takes
    /// effect exactly once.
    ///
    /// The body runs on the thread that writes, and nobody else can write to the file meanwhile, in any process: be
    /// quick, and wait for nothing. It may run again when its transaction could not be committed.
    ///
    /// `cx.transaction("book", move |tx| Ok(tx.execute("INSERT INTO booking VALUES (?1)", [amount])?)).await?`
    fn transaction<T, E, F>(&self, name: impl AsRef<str>, body: F) -> Step<'_, T>
    where
        F: FnOnce(&Transaction<'_>) -> Result<T, E> + Clone + Send + Sync + 'static,
        T: Serialize + Send + Sync + 'static,
        E: TaskError + Send + 'static;
}

impl FlowExt for Flow {
    fn transaction<T, E, F>(&self, name: impl AsRef<str>, body: F) -> Step<'_, T>
    where
        F: FnOnce(&Transaction<'_>) -> Result<T, E> + Clone + Send + Sync + 'static,
        T: Serialize + Send + Sync + 'static,
        E: TaskError + Send + 'static,
    {
        let scene = &self.scene;
        Step::in_transaction(scene, &self.within, name.as_ref(), move |call, cx| {
            attempt(Booking::new(scene, call, cx), body.clone())
        })
    }
}

fn attempt<'f, T, E, F>(booking: Booking, body: F) -> Attempt<'f>
where
    F: FnOnce(&Transaction<'_>) -> Result<T, E> + Clone + Send + Sync + 'static,
    T: Serialize + Send + Sync + 'static,
    E: TaskError + Send + 'static,
{
    if let Err(failure) = booking.on::<Sqlite>("SQLite") {
        return Box::pin(async { Err(failure.into()) });
    }
    booking.scene.records(booking.call);
    let (sender, news) = oneshot::channel();
    // Nobody can stop this any more: what is committed has happened, whatever comes meanwhile.
    tokio::spawn(boxed(write(booking, body, sender)).in_current_span());
    Box::pin(async move { Err(bad_news(news).await) })
}

async fn write<T, E, F>(booking: Booking, body: F, news: oneshot::Sender<Raised>)
where
    F: FnOnce(&Transaction<'_>) -> Result<T, E> + Clone + Send + Sync + 'static,
    T: Serialize + Send + Sync + 'static,
    E: TaskError + Send + 'static,
{
    let Some(alone) = Arc::clone(&booking.scene).alone().await else {
        return booking.scene.has_recorded(booking.call, false);
    };
    // What came of the body last. The user's values are dropped here, and not by the thread that writes.
    let outcome: Arc<Mutex<Option<Result<Booked, Raised>>>> = Arc::default();
    let (kept, booker) = (Arc::clone(&outcome), booking.clone());
    let work = move |tx: &Transaction<'_>| -> Result<StepRow, Failure> {
        // Whatever the user's code does, values and codecs included, it must not end the thread that writes.
        guard(|| {
            let made = body.clone()(tx).map_err(Raised::new);
            let made = made.map(|value| booker.record(Slot::new(value)?.bytes().clone()));
            let (booked, row) = match made {
                Ok(recorded) => recorded.map(|(row, booked)| (Ok(booked), Ok(row)))?,
                Err(raised) => (Err(raised), Err(Failure::new("the body of the step failed"))),
            };
            *kept.lock() = Some(booked);
            row
        })
        .and_then(|row| row)
    };
    let writing = Writing::new(booking.scene.cell(), &booking.cx, Box::new(work));
    let transacted = writing.settle().await;
    let outcome = outcome.lock().take();
    let raised = match (transacted, outcome) {
        (Ok(Transacted::Committed), Some(Ok(booked))) => {
            alone.recorded(booking.then(booked));
            return booking.scene.has_recorded(booking.call, false);
        }
        (Ok(Transacted::Undone(Missed::Failed(_))), Some(Err(raised))) => Some(raised),
        (Ok(Transacted::Undone(Missed::Failed(failure))), _) => Some(failure.into()),
        (Ok(Transacted::Undone(Missed::Stopped)), _) => Some(stopped().into()),
        (Ok(Transacted::Refused(why)), _) => Some(refused(&why).into()),
        (Err(error), _) if error.is_temporary() => Some(uncommitted(&error).into()),
        (known, _) => {
            booking.lose(match known {
                Err(StoreError::Fenced) => Lost::Fenced,
                Err(error) => Lost::Failed(error),
                Ok(Transacted::NotYours) => Lost::Refused(Refusal::NotYours),
                Ok(Transacted::Before) => committed_before(),
                Ok(_) => Lost::Failed(StoreError::Broken("a result was committed and lost".into())),
            });
            None
        }
    };
    drop(alone);
    booking.scene.has_recorded(booking.call, raised.is_some());
    if let Some(raised) = raised {
        // A step that was dropped meanwhile does not want to know.
        drop(news.send(raised));
    }
}

/// What a step failed with that was asked to stop before it began.
fn stopped() -> Failure {
    Failure { kind: FailureKind::Cancelled, ..Failure::permanent("it was stopped before it began") }
}
