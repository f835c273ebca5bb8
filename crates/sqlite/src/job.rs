//! Work on its way to a thread that has a connection, and its answer on the way back.

use tokio::sync::oneshot;
use windlass_store::StoreError;

use crate::error::{Fault, Uncommitted};

/// A piece of work for a thread that owns a `D`.
///
/// It may be done more than once: when a transaction that it shared with others is rolled back, it is done
/// again in one of its own.
pub(crate) trait Job<D>: Send {
    /// Does the work and keeps the result. An error is a failed statement: the transaction must be rolled back.
    fn attempt(&mut self, desk: &mut D) -> Result<(), rusqlite::Error>;

    /// Whether there is a shorter way, without a transaction.
    fn has_shortcut(&self) -> bool;

    /// Does the work in that way. Answers whether that was possible; otherwise nothing was done.
    fn take_shortcut(&mut self, desk: &mut D) -> Result<bool, rusqlite::Error>;

    /// Answers with the result, or with what became of the transaction.
    fn answer(self: Box<Self>, fate: Result<(), Uncommitted>);
}

/// Work on its way, and the place where its answer will arrive.
pub(crate) type Asked<D, T> = (Box<dyn Job<D>>, oneshot::Receiver<Result<T, StoreError>>);

struct Ask<T, F, S> {
    work: F,
    shortcut: Option<S>,
    /// What is answered when the transaction cannot be committed because of what the work itself wrote.
    refused: Option<fn(String) -> T>,
    result: Option<Result<T, StoreError>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<D, T, F, S> Job<D> for Ask<T, F, S>
where
    T: Send,
    F: FnMut(&mut D) -> Result<T, Fault> + Send,
    S: FnMut(&mut D) -> Result<Option<T>, Fault> + Send,
{
    fn attempt(&mut self, desk: &mut D) -> Result<(), rusqlite::Error> {
        self.result = kept((self.work)(desk).map(Some))?;
        Ok(())
    }

    fn has_shortcut(&self) -> bool {
        self.shortcut.is_some()
    }

    fn take_shortcut(&mut self, desk: &mut D) -> Result<bool, rusqlite::Error> {
        let Some(shortcut) = &mut self.shortcut else { return Ok(false) };
        self.result = kept(shortcut(desk))?;
        Ok(self.result.is_some())
    }

    fn answer(self: Box<Self>, fate: Result<(), Uncommitted>) {
        let Self { work, shortcut, refused, result, reply } = *self;
        // Whoever asked may want back what the work shares with it.
        drop((work, shortcut));
        let result = match (fate, result) {
            (Ok(()), Some(result)) => result,
            (Ok(()), None) => Err(StoreError::Closed),
            (Err(Uncommitted::Store(error)), _) => Err(error),
            (Err(Uncommitted::Foreign(why)), _) => match refused {
                Some(refused) => Ok(refused(why)),
                None => Err(StoreError::Broken(why)),
            },
        };
        // The asker may have stopped listening; the work is done all the same.
        drop(reply.send(result));
    }
}

/// A result that is an answer, if there is one yet.
fn kept<T>(done: Result<Option<T>, Fault>) -> Result<Option<Result<T, StoreError>>, rusqlite::Error> {
    match done {
        Ok(value) => Ok(value.map(Ok)),
        Err(Fault::Refused(error)) => Ok(Some(Err(error))),
        Err(Fault::Sql(error)) => Err(error),
    }
}

/// Wraps work so that it can travel.
pub(crate) fn ask<D: 'static, T, F>(work: F) -> Asked<D, T>
where
    T: Send + 'static,
    F: FnMut(&mut D) -> Result<T, Fault> + Send + 'static,
{
    wrap(work, None::<fn(&mut D) -> Result<Option<T>, Fault>>, None)
}

/// The same for work that writes to the application's own tables: it says what to answer when that cannot be committed.
pub(crate) fn ask_for_application<D: 'static, T, F>(work: F, refused: fn(String) -> T) -> Asked<D, T>
where
    T: Send + 'static,
    F: FnMut(&mut D) -> Result<T, Fault> + Send + 'static,
{
    wrap(work, None::<fn(&mut D) -> Result<Option<T>, Fault>>, Some(refused))
}

/// Wraps work that can mostly be done in a shorter way: by one statement, which is a transaction by itself. The
/// shortcut answers `None`, and has done nothing, when it cannot.
pub(crate) fn ask_shortly<D, T, F, S>(shortcut: S, work: F) -> Asked<D, T>
where
    T: Send + 'static,
    F: FnMut(&mut D) -> Result<T, Fault> + Send + 'static,
    S: FnMut(&mut D) -> Result<Option<T>, Fault> + Send + 'static,
{
    wrap(work, Some(shortcut), None)
}

fn wrap<D, T, F, S>(work: F, shortcut: Option<S>, refused: Option<fn(String) -> T>) -> Asked<D, T>
where
    T: Send + 'static,
    F: FnMut(&mut D) -> Result<T, Fault> + Send + 'static,
    S: FnMut(&mut D) -> Result<Option<T>, Fault> + Send + 'static,
{
    let (reply, answer) = oneshot::channel();
    (Box::new(Ask { work, shortcut, refused, result: None, reply }), answer)
}
