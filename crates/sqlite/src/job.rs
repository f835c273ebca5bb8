//! Work on its way to a thread that has a connection, and its answer on the way back.

use tokio::sync::oneshot;
use windlass_store::StoreError;

use crate::error::Fault;

/// A piece of work for a thread that owns a `D`.
///
/// It may be done more than once: when a transaction that it shared with others is rolled back, it is done
/// again in one of its own.
pub(crate) trait Job<D>: Send {
    /// Does the work and keeps the result. An error is a failed statement: the transaction must be rolled back.
    fn attempt(&mut self, desk: &mut D) -> Result<(), rusqlite::Error>;

    /// Answers with the result, or with what became of the transaction.
    fn answer(self: Box<Self>, fate: Result<(), StoreError>);
}

struct Ask<T, F> {
    work: F,
    result: Option<Result<T, StoreError>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<D, T, F> Job<D> for Ask<T, F>
where
    T: Send,
    F: FnMut(&mut D) -> Result<T, Fault> + Send,
{
    fn attempt(&mut self, desk: &mut D) -> Result<(), rusqlite::Error> {
        self.result = Some(match (self.work)(desk) {
            Ok(value) => Ok(value),
            Err(Fault::Refused(error)) => Err(error),
            Err(Fault::Sql(error)) => return Err(error),
        });
        Ok(())
    }

    fn answer(self: Box<Self>, fate: Result<(), StoreError>) {
        let Self { work, result, reply } = *self;
        // Whoever asked may want back what the work shares with it.
        drop(work);
        let result = match (fate, result) {
            (Ok(()), Some(result)) => result,
            (Ok(()), None) => Err(StoreError::Closed),
            (Err(error), _) => Err(error),
        };
        // The asker may have stopped listening; the work is done all the same.
        drop(reply.send(result));
    }
}

/// Wraps work so that it can travel, with the place where its answer will arrive.
pub(crate) fn ask<D, T, F>(work: F) -> (Box<dyn Job<D>>, oneshot::Receiver<Result<T, StoreError>>)
where
    T: Send + 'static,
    F: FnMut(&mut D) -> Result<T, Fault> + Send + 'static,
{
    let (reply, answer) = oneshot::channel();
    (Box::new(Ask { work, result: None, reply }), answer)
}
