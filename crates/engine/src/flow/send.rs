//! Sending events to runs.

use std::{future::IntoFuture, pin::Pin};

use bytes::Bytes;
use serde::Serialize;
use windlass_core::RunId;
use windlass_store::{Act, NewMessage, Refusal, RunImage};

use super::Pending;
use crate::{
    Client, Error,
    hub::Hub,
    order::{fresh_key, is_fresh},
};

/// An event on its way to a run. It is durable when this future is ready.
#[must_use = "nothing is sent before this is awaited"]
pub struct Sending {
    client: Client,
    run: RunId,
    event: String,
    payload: Result<Bytes, Error>,
    key: Option<String>,
}

impl Sending {
    pub(crate) fn new<T: Serialize>(
        client: Client,
        run: RunId,
        event: impl Into<String>,
        payload: &T,
    ) -> Self {
        let event = event.into();
        let what = || format!("the event `{event}`");
        let encoded = serde_json::to_vec(payload).map(Bytes::from);
        let encoded = encoded.map_err(|why| Error::Encode { what: what(), why: why.to_string() });
        let payload = encoded.and_then(|json| client.hub().keep(format_args!("{}", what()), json));
        Self { client, run, event, payload, key: None }
    }

    /// Makes a repeat harmless: the same key to the same run and event is received once, however often it is sent.
    /// It does not begin with `!`. Default: every sending is an event of its own.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    async fn send(self) -> Result<(), Error> {
        let Self { client, run, event, payload, key } = self;
        if event.is_empty() || event.starts_with(['!', '>']) {
            return Err(Error::EventName { name: event });
        }
        if key.as_deref().is_some_and(is_fresh) {
            return Err(Error::Invalid(format!("the key of the event `{event}` cannot begin with `!`")));
        }
        client.refuse_own(run).await?;
        let key = key.unwrap_or_else(fresh_key);
        let message = NewMessage { topic: event, body: payload?, key: Some(key) };
        match client.hub().committer.write(run, Act::Send(message)).await? {
            Ok(_) => {
                client.nudge_about(run).await;
                Ok(())
            }
            Err(Refusal::Ended(state)) => Err(Error::AlreadyEnded { run, state }),
            Err(refusal) => Err(Error::refused(run, refusal)),
        }
    }
}

impl IntoFuture for Sending {
    type Output = Result<(), Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

impl std::fmt::Debug for Sending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sending").field("run", &self.run).field("event", &self.event).finish_non_exhaustive()
    }
}

/// The events that were sent to a run and not received yet, oldest first.
pub(crate) fn pending(hub: &Hub, image: RunImage) -> Result<Vec<Pending>, Error> {
    let events = image.inbox.into_iter().filter(|row| !row.topic.starts_with(['!', '>']));
    let pending = events.map(|row| {
        let what = format!("the event `{}`", row.topic);
        let json = hub.read(&what, row.body)?;
        let payload =
            serde_json::from_slice(&json).map_err(|why| Error::Decode { what, why: why.to_string() })?;
        Ok(Pending { name: row.topic, payload, at: row.at })
    });
    pending.collect()
}
