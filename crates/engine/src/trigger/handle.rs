//! Asking after triggers.

use std::sync::Arc;

use serde::Serialize;
use windlass_core::{RunId, Time, nearest, schedule::Status};
use windlass_store::{Act, Place, Query, RunImage};

use super::{
    keeper::{KEY, PREFIX, TAG},
    ledger::Ledger,
};
use crate::{
    Client, Error,
    schedule::{Message, checked_note, readable, trouble},
};

/// The triggers of a database: all that an engine was ever given.
#[derive(Clone, Debug)]
pub struct Triggers {
    client: Client,
}

/// A trigger. Whatever it is told holds at once for whoever asks after it, in any process.
#[derive(Clone, Debug)]
pub struct TriggerHandle {
    client: Client,
    name: String,
    run: RunId,
}

/// How a trigger stands.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TriggerStatus {
    /// Its name.
    pub name: String,
    /// The workflow whose runs it starts.
    pub workflow: String,
    /// When it is asked, in words.
    pub words: String,
    /// What it does, in a word. A failure is one of the trigger itself: those of its runs are their own.
    pub status: Status,
    /// Why it was paused, if it is.
    pub paused: Option<String>,
    /// How many runs it has started.
    pub fired: u64,
    /// When it last started one.
    pub last_fired: Option<Time>,
    /// How many of its runs are under way that keep others with the same key from being started, when it was last asked.
    pub running: usize,
    /// When it is asked next, if it is known.
    pub next: Option<Time>,
    /// Why the engine could not ask it when it last tried, if it could not: a codec that failed, a message of a newer
    /// program. It tries again by itself, within five minutes.
    pub trouble: Option<String>,
}

impl Triggers {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// The trigger of this name.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownTrigger`] when no engine ever had it, or the store cannot be asked.
    pub async fn get(&self, name: &str) -> Result<TriggerHandle, Error> {
        let workflow = Arc::from(format!("{PREFIX}{name}"));
        match self.client.hub().store.by_key(workflow, KEY.to_owned()).await? {
            Some(run) => Ok(TriggerHandle { client: self.client.clone(), name: name.to_owned(), run }),
            None => {
                let names: Vec<String> = self.runs().await?.into_iter().map(|(_, name)| name).collect();
                let nearest = nearest(name, names.iter().map(String::as_str)).map(str::to_owned);
                Err(Error::UnknownTrigger { name: name.to_owned(), nearest })
            }
        }
    }

    /// How all triggers stand, by name. One that cannot be read is left out.
    ///
    /// # Errors
    ///
    /// When the store cannot be asked.
    pub async fn list(&self) -> Result<Vec<TriggerStatus>, Error> {
        let mut found = Vec::new();
        for (run, name) in self.runs().await? {
            let handle = TriggerHandle { client: self.client.clone(), name, run };
            match handle.status().await {
                Ok(status) => found.push(status),
                // Whoever asks for this one hears why.
                Err(error @ (Error::Decode { .. } | Error::Newer { .. })) => {
                    tracing::warn!(%run, %error, "a trigger cannot be read, and is left out of the list");
                }
                Err(error) => return Err(error),
            }
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    async fn runs(&self) -> Result<Vec<(RunId, String)>, Error> {
        let mut query = Query { tag: Some(TAG.to_owned()), ..Query::default() };
        let mut runs = Vec::new();
        loop {
            let page = self.client.hub().store.find(query.clone()).await?;
            query.after = page.runs.last().map(|last| last.id);
            let own = page
                .runs
                .iter()
                .filter_map(|run| Some((run.id, run.workflow.strip_prefix(PREFIX)?.to_owned())));
            runs.extend(own);
            if !page.more {
                return Ok(runs);
            }
        }
    }
}

impl TriggerHandle {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Has it asked now, out of its turn. It passes through a back-off, but not through a trip.
    ///
    /// # Errors
    ///
    /// When the store cannot be asked.
    pub async fn ask(&self) -> Result<(), Error> {
        self.tell(&Message::Trigger { id: RunId::new().to_string() }).await
    }

    /// Asks it no more, until it is resumed. The note says why, to whoever looks at it.
    ///
    /// # Errors
    ///
    /// When the store cannot be asked.
    pub async fn pause(&self, note: impl Into<String>) -> Result<(), Error> {
        self.tell(&Message::Pause { note: checked_note(note.into())? }).await
    }

    /// Goes on.
    ///
    /// # Errors
    ///
    /// When the store cannot be asked.
    pub async fn resume(&self) -> Result<(), Error> {
        self.tell(&Message::Resume).await
    }

    /// Forgets its failures, and goes on at once: out of a back-off, and after a trip.
    ///
    /// # Errors
    ///
    /// When the store cannot be asked.
    pub async fn reset(&self) -> Result<(), Error> {
        self.tell(&Message::Reset).await
    }

    /// How it stands.
    ///
    /// # Errors
    ///
    /// When the store cannot be asked.
    pub async fn status(&self) -> Result<TriggerStatus, Error> {
        let hub = self.client.hub();
        let image = hub.store.load(self.run).await?.ok_or(Error::UnknownRun(self.run))?;
        let mut ledger = Ledger::read(hub, &image)?;
        let is_told = !image.inbox.is_empty();
        for (_, _, heard) in readable(hub, &image.inbox) {
            ledger.hear(heard, hub.clock.now());
        }
        let Ledger { schedule, state, live, fired, last_fired, .. } = ledger;
        Ok(TriggerStatus {
            name: self.name.clone(),
            workflow: schedule.workflow().to_owned(),
            words: schedule.in_words(),
            status: state.status(),
            paused: state.paused().map(str::to_owned),
            fired,
            last_fired,
            running: live.len(),
            next: if is_told { state.wake() } else { next(&image) },
            trouble: trouble(&image),
        })
    }

    async fn tell(&self, message: &Message) -> Result<(), Error> {
        let message = message.encode(self.client.hub())?;
        match self.client.hub().committer.write(self.run, Act::Send(message)).await? {
            Ok(_) => {
                self.client.nudge().await;
                Ok(())
            }
            Err(refusal) => Err(Error::refused(self.run, refusal)),
        }
    }
}

/// What its run waits for is written each time, and where it stands is not.
fn next(image: &RunImage) -> Option<Time> {
    match &image.standing.place {
        Place::Waiting(wait) => wait.until,
        _ => None,
    }
}
