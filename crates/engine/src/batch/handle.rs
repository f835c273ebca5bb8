//! Adding to a batch, and asking things of it.

use std::{fmt, marker::PhantomData, sync::Arc, time::Duration};

use parking_lot::Mutex;
use serde::Serialize;
use tokio::time::Instant;
use windlass_core::{
    RunId,
    batch::{Leftover, Tell},
};
use windlass_store::{Act, Refusal};

use super::{
    Adding, AddingMany, BatchStatus,
    batches::{View, live},
    message::Message,
};
use crate::{Client, Error, schedule::checked_note};

/// For how long somebody who adds items does not look whether the batch was removed. Items that come meanwhile are not
/// lost: they are in a run like others.
const TRUSTED: Duration = Duration::from_secs(5);

/// A batch, for whoever adds items to it. It is cheap to clone, and made to be kept.
///
/// Whatever it is told holds at once for whoever asks after it, in any process; whichever engine has the batch next acts on
/// it. Every method fails with [`Error::UnknownBatch`] once the batch was removed, and when the store cannot be asked.
pub struct Batch<T> {
    client: Client,
    name: Arc<str>,
    /// Where items go, and when somebody last looked, unless it has to be looked again.
    known: Arc<Mutex<(Address, Option<Instant>)>>,
    item: PhantomData<fn(T)>,
}

/// Where the items of a batch go.
#[derive(Clone, Copy)]
pub(super) struct Address {
    /// The run that keeps it.
    pub(super) run: RunId,
    /// How many times what waited was thrown away: keys from before are no keys any more.
    pub(super) discards: u64,
}

impl Address {
    pub(super) fn of(view: &View) -> Self {
        Self { run: view.run, discards: view.decision.basket.discards }
    }
}

impl<T> Clone for Batch<T> {
    fn clone(&self) -> Self {
        let (client, name, known) = (self.client.clone(), Arc::clone(&self.name), Arc::clone(&self.known));
        Self { client, name, known, item: PhantomData }
    }
}

impl<T> fmt::Debug for Batch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<T: Serialize + Send + Sync + 'static> Batch<T> {
    /// Adds an item. It is durable when the returned future is ready, and then in exactly one run, whatever happens.
    pub fn add(&self, item: T) -> Adding<T> {
        Adding::new(self.clone(), item)
    }

    /// Adds many items, in this order and in few transactions.
    pub fn add_many(&self, items: impl IntoIterator<Item = T>) -> AddingMany<T> {
        AddingMany::new(self.clone(), items.into_iter().collect())
    }
}

impl<T> Batch<T> {
    pub(super) fn new(client: Client, name: &str, address: Address) -> Self {
        let known = Arc::new(Mutex::new((address, Some(Instant::now()))));
        Self { client, name: name.into(), known, item: PhantomData }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Has a run started with what waits now, however little that is; also while it is paused.
    ///
    /// # Errors
    ///
    /// See [`Batch`].
    pub async fn flush(&self) -> Result<(), Error> {
        self.tell(Tell::Flush).await
    }

    /// Starts nothing more until it is resumed, but what is [flushed](Self::flush). Items are taken as before, and wait.
    /// The note says why, to whoever looks at it, in at most 1,000 characters.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when the note is too long. See also [`Batch`].
    pub async fn pause(&self, note: impl Into<String>) -> Result<(), Error> {
        self.tell(Tell::Pause { note: checked_note(note.into())? }).await
    }

    /// Goes on, with what has come meanwhile.
    ///
    /// # Errors
    ///
    /// See [`Batch`].
    pub async fn resume(&self) -> Result<(), Error> {
        self.tell(Tell::Resume).await
    }

    /// Ends the batch. `leftover` says what becomes of the items that wait. Nobody can add any more: another process that
    /// has looked less than five seconds ago still may, and those items are in a run like others.
    ///
    /// # Errors
    ///
    /// See [`Batch`].
    pub async fn remove(&self, leftover: Leftover) -> Result<(), Error> {
        self.tell(Tell::Remove(leftover)).await?;
        // This handle asks before it adds again.
        self.known.lock().1 = None;
        Ok(())
    }

    /// How it stands.
    ///
    /// # Errors
    ///
    /// See [`Batch`].
    pub async fn status(&self) -> Result<BatchStatus, Error> {
        Ok(BatchStatus::of(self.view().await?))
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Where its items go.
    pub(super) async fn address(&self) -> Result<Address, Error> {
        let (address, looked) = *self.known.lock();
        if looked.is_some_and(|looked| looked.elapsed() < TRUSTED) {
            return Ok(address);
        }
        // What it says is as old as the question.
        let asked = Instant::now();
        let address = Address::of(&self.view().await?);
        *self.known.lock() = (address, Some(asked));
        Ok(address)
    }

    async fn view(&self) -> Result<View, Error> {
        live(&self.client, &self.name).await?.ok_or_else(|| self.unknown())
    }

    pub(super) fn unknown(&self) -> Error {
        Error::UnknownBatch { name: self.name.to_string(), nearest: None }
    }

    async fn tell(&self, tell: Tell) -> Result<(), Error> {
        let run = self.view().await?.run;
        let message = Message::Told(tell).encode(self.client.hub())?;
        match self.client.hub().committer.write(run, Act::Send(message)).await? {
            Ok(_) => {
                self.client.nudge().await;
                Ok(())
            }
            Err(Refusal::Ended(_) | Refusal::Unknown) => Err(self.unknown()),
            Err(refusal) => Err(Error::refused(run, refusal)),
        }
    }
}
