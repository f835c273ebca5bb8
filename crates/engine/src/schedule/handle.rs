//! Asking things of a schedule.

use windlass_core::{RunId, Time, schedule::Slot};
use windlass_store::{Act, Refusal};

use super::{
    Backfill, Happening, ScheduleStatus,
    happening::checked_note,
    message::Message,
    schedules::{View, live},
};
use crate::{Client, Error};

/// A schedule. Whatever it is told holds at once for whoever asks after it, in any process; whichever engine has the
/// schedule next acts on it.
///
/// Every method fails with [`Error::UnknownSchedule`] once the schedule was removed, and when the store cannot be asked.
#[derive(Clone, Debug)]
pub struct ScheduleHandle {
    client: Client,
    name: String,
}

impl ScheduleHandle {
    pub(super) fn new(client: Client, name: &str) -> Self {
        Self { client, name: name.to_owned() }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Has a run started now. It passes through a back-off, but not through a trip; while a run is under way, the overlap
    /// says what becomes of it. Answers with the key that the run has.
    ///
    /// # Errors
    ///
    /// See [`ScheduleHandle`].
    pub async fn trigger(&self) -> Result<String, Error> {
        // Ids of runs are never the same.
        self.trigger_once(RunId::new().to_string()).await
    }

    /// The same for a wish that has an id, of at most 200 characters: told twice, it is one wish, for ten years. The record
    /// of its run is kept as long, whatever the retention says.
    ///
    /// # Errors
    ///
    /// See [`ScheduleHandle`].
    pub async fn trigger_once(&self, id: impl Into<String>) -> Result<String, Error> {
        let id = id.into();
        let key = Slot::Wish(id.clone()).key(&self.name);
        self.tell(Message::Trigger { id }).await.map(|()| key)
    }

    /// Starts nothing more by itself, until it is resumed: only what somebody [triggers](Self::trigger). The note says why,
    /// to whoever looks at it, in at most 1,000 characters.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when the note is too long. See also [`ScheduleHandle`].
    pub async fn pause(&self, note: impl Into<String>) -> Result<(), Error> {
        self.tell(Message::Pause { note: checked_note(note.into())? }).await
    }

    /// Goes on. Times that passed meanwhile were missed, and are made up for as the schedule says.
    ///
    /// # Errors
    ///
    /// See [`ScheduleHandle`].
    pub async fn resume(&self) -> Result<(), Error> {
        self.tell(Message::Resume).await
    }

    /// Forgets its failures, and goes on at once: out of a back-off, and after a trip.
    ///
    /// # Errors
    ///
    /// See [`ScheduleHandle`].
    pub async fn reset(&self) -> Result<(), Error> {
        self.tell(Message::Reset).await
    }

    /// Ends the schedule. Runs that are under way go on.
    ///
    /// # Errors
    ///
    /// See [`ScheduleHandle`].
    pub async fn remove(&self) -> Result<(), Error> {
        self.tell(Message::Remove).await
    }

    /// Has the runs of past times started, from one instant until before another. Times that have a run keep the one they
    /// have.
    pub fn backfill(&self, range: std::ops::Range<impl Into<Time>>) -> Backfill {
        Backfill::new(self.clone(), range.start.into(), range.end.into())
    }

    /// How it stands.
    ///
    /// # Errors
    ///
    /// See [`ScheduleHandle`].
    pub async fn status(&self) -> Result<ScheduleStatus, Error> {
        Ok(ScheduleStatus::of(&self.view().await?))
    }

    /// What happened to it lately, oldest first: about the last hundred things.
    ///
    /// # Errors
    ///
    /// See [`ScheduleHandle`].
    pub async fn history(&self) -> Result<Vec<Happening>, Error> {
        let mut past = self.view().await?.ledger.past;
        past.drain(..past.len().saturating_sub(100));
        Ok(past)
    }

    /// The next times that it starts runs for, without jitter: as many as asked for, or fewer when it ends before.
    ///
    /// # Errors
    ///
    /// See [`ScheduleHandle`].
    pub async fn next(&self, count: usize) -> Result<Vec<Time>, Error> {
        let ledger = self.view().await?.ledger;
        Ok(ledger.state.next_times(&ledger.declaration.schedule, count))
    }

    /// When it starts runs, in words: `every weekday at 09:00 in Europe/Berlin`.
    ///
    /// # Errors
    ///
    /// See [`ScheduleHandle`].
    pub async fn in_words(&self) -> Result<String, Error> {
        Ok(self.view().await?.ledger.declaration.schedule.in_words())
    }

    /// What it is, as data.
    ///
    /// # Errors
    ///
    /// See [`ScheduleHandle`].
    pub async fn definition(&self) -> Result<windlass_core::schedule::Schedule, Error> {
        Ok(self.view().await?.ledger.declaration.schedule)
    }

    pub(super) async fn view(&self) -> Result<View, Error> {
        live(&self.client, &self.name).await?.ok_or_else(|| self.unknown())
    }

    fn unknown(&self) -> Error {
        Error::UnknownSchedule { name: self.name.clone(), nearest: None }
    }

    pub(super) async fn tell(&self, message: Message) -> Result<(), Error> {
        // It may have been removed, and what a removed one is told is nobody's.
        let run = self.view().await?.run;
        let message = message.encode(self.client.hub())?;
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
