//! Steps with a transaction on PostgreSQL.

use std::{future::Future, pin::Pin, sync::Arc};

use bytes::Bytes;
use serde::Serialize;
use tokio::sync::oneshot;
use tracing::Instrument;
use windlass_core::Failure;
use windlass_postgres::{Isolation, Postgres, Transaction};
use windlass_store::{Along, Fate, Refusal, StoreError};

use super::{
    super::{
        Flow,
        step::{Raised, Step, encode},
    },
    Booking, bad_news,
};
use crate::{
    attempt::{
        guard,
        postgres::{AGAIN, begin, settle},
        within,
    },
    authoring::caught::TaskError,
    boxed::boxed,
    committer::Lost,
};

/// Steps of durable functions that write to the application's own tables, in the database of the store.
pub trait FlowExt {
    /// Does a step in a transaction: what it writes and its record are committed together, or not at all. So it takes
    /// effect exactly once.
    ///
    /// The body may borrow from the function around it. It runs again when its transaction could not be committed
    /// because of another one.
    ///
    /// `cx.transaction("book", |tx| async move { Ok(tx.execute("INSERT …", &[&amount]).await?) }).await?`
    fn transaction<'f, T, E, F, R>(&'f self, name: impl AsRef<str>, body: F) -> Step<'f, T>
    where
        F: FnOnce(Arc<Transaction>) -> R + Clone + Send + 'f,
        R: Future<Output = Result<T, E>> + Send + 'f,
        T: Serialize + Send + Sync + 'static,
        E: TaskError + Send + 'static,
    {
        self.transaction_at(Isolation::default(), name, body)
    }

    /// The same at another level of isolation.
    fn transaction_at<'f, T, E, F, R>(
        &'f self,
        isolation: Isolation,
        name: impl AsRef<str>,
        body: F,
    ) -> Step<'f, T>
    where
        F: FnOnce(Arc<Transaction>) -> R + Clone + Send + 'f,
        R: Future<Output = Result<T, E>> + Send + 'f,
        T: Serialize + Send + Sync + 'static,
        E: TaskError + Send + 'static;
}

impl FlowExt for Flow {
    fn transaction_at<'f, T, E, F, R>(
        &'f self,
        isolation: Isolation,
        name: impl AsRef<str>,
        body: F,
    ) -> Step<'f, T>
    where
        F: FnOnce(Arc<Transaction>) -> R + Clone + Send + 'f,
        R: Future<Output = Result<T, E>> + Send + 'f,
        T: Serialize + Send + Sync + 'static,
        E: TaskError + Send + 'static,
    {
        let scene = &self.scene;
        Step::in_transaction(scene, &self.within, name.as_ref(), move |call, cx| {
            let body = body.clone();
            let body = move |tx| -> Executing<'f> {
                let executing = body.clone()(tx);
                Box::pin(async move { encode(executing.await) })
            };
            Box::pin(attempt(Booking::new(scene, call, cx), isolation, body))
        })
    }
}

/// The body on its way to its result as JSON.
type Executing<'f> = Pin<Box<dyn Future<Output = Result<Bytes, Raised>> + Send + 'f>>;

/// What became of a body.
enum Executed {
    /// It has a result, and its transaction is open.
    Done(Bytes, Box<Transaction>),
    /// Its transaction is rolled back, and may go well when it is done again.
    Again(Raised),
    /// Its transaction is rolled back.
    Failed(Raised),
}

async fn attempt<'f>(
    booking: Booking,
    isolation: Isolation,
    mut body: impl FnMut(Arc<Transaction>) -> Executing<'f> + Send,
) -> Result<Bytes, Raised> {
    booking.on::<Postgres>("PostgreSQL")?;
    let (node, cx) = (Arc::clone(&booking.scene.cell().node), booking.cx.clone());
    let mut left = AGAIN;
    loop {
        let executed = Box::pin(execute(&booking, isolation, &mut body));
        // The time limits are for the body: what is being committed has happened.
        let why = match within(executed, &node, &cx).await? {
            Executed::Failed(raised) => return Err(raised),
            Executed::Again(raised) => raised,
            Executed::Done(json, transaction) => {
                booking.scene.records(booking.call);
                let (sender, news) = oneshot::channel();
                // Nobody can stop this any more.
                let commit = commit(booking.clone(), json, *transaction, sender);
                tokio::spawn(boxed(commit).in_current_span());
                match bad_news(news).await {
                    (failure, true) => failure.into(),
                    (failure, false) => return Err(failure.into()),
                }
            }
        };
        if left == 0 || cx.is_cancelled() {
            return Err(why);
        }
        left -= 1;
    }
}

/// Runs the body in a transaction.
async fn execute<'f>(
    booking: &Booking,
    isolation: Isolation,
    body: &mut (impl FnMut(Arc<Transaction>) -> Executing<'f> + Send),
) -> Result<Executed, Failure> {
    let node = &booking.scene.cell().node;
    let transaction = Arc::new(begin(node, &booking.cx, isolation).await?);
    let outcome = body(Arc::clone(&transaction)).await;
    let transaction = Arc::into_inner(transaction)
        .ok_or_else(|| Failure::permanent("the body has returned, and its transaction is still in use"))?;
    Ok(match outcome {
        Ok(json) => Executed::Done(json, Box::new(transaction)),
        Err(raised) if transaction.may_go_well_again() => Executed::Again(raised),
        Err(raised) => Executed::Failed(transaction.hung().map_or(raised, |why| Failure::new(why).into())),
    })
}

/// Commits what the body wrote together with its record. If nothing was committed, says why, and whether it may go well
/// again.
async fn commit(
    booking: Booking,
    json: Bytes,
    transaction: Transaction,
    news: oneshot::Sender<(Failure, bool)>,
) {
    let Some(alone) = Arc::clone(&booking.scene).alone().await else {
        return booking.scene.has_recorded(booking.call, false);
    };
    let (cell, call) = (booking.scene.cell(), booking.call);
    let subject = &cell.subject;
    let bad = match guard(|| booking.record(json)).and_then(|recorded| recorded) {
        Err(failure) => Some((failure, false)),
        Ok((step, booked)) => {
            let along = Along { node: subject.holder, run: subject.run, claim: subject.claim, step };
            let uncommitted = |why| Failure::new(format!("its transaction could not be committed: {why}"));
            match settle(&cell.node, transaction, along).await {
                Ok(Fate::Committed) => {
                    alone.recorded(booking.then(booked));
                    return booking.scene.has_recorded(call, false);
                }
                Ok(Fate::Again(why)) => Some((uncommitted(why).transient(), true)),
                Ok(Fate::RolledBack(why)) => Some((uncommitted(why), false)),
                lost => {
                    booking.lose(match lost {
                        Err(StoreError::Fenced) => Lost::Fenced,
                        Err(error) => Lost::Failed(error),
                        Ok(Fate::Unknown(why)) => Lost::Failed(StoreError::Unavailable(why)),
                        Ok(_) => Lost::Refused(Refusal::NotYours),
                    });
                    None
                }
            }
        }
    };
    drop(alone);
    booking.scene.has_recorded(call, bad.is_some());
    if let Some(bad) = bad {
        // A step that was dropped meanwhile does not want to know.
        drop(news.send(bad));
    }
}
