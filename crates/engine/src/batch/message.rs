//! What comes to a batch through its run's inbox.

use bytes::{BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};
use windlass_core::batch::{Origin, Tell};
use windlass_store::{InboxRow, NewMessage};

use super::declaration::Declaration;
use crate::{
    Error,
    hub::Hub,
    order::{self, fresh_key},
};

/// The topic of items. Nothing waits for it: items stay where they are until they go.
pub(super) const ITEM: &str = "!item";
/// The topic that calls a batch to look at its items. It comes with them, and is taken in by whoever looks.
pub(super) const BELL: &str = "!bell";
/// The topic of what people and programs tell a batch.
pub(super) const TOLD: &str = "!batch";

/// How long that is what an item begins with.
const HEADER: usize = 16;

/// What somebody tells a batch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Message {
    /// It is declared again.
    Declare(Box<Declaration>),
    /// Anything else.
    Told(Tell),
}

/// The message that calls a batch.
pub(super) fn bell() -> NewMessage {
    NewMessage { topic: BELL.to_owned(), body: Bytes::new(), key: None }
}

/// The message that brings an item. One that has a key is known by that, and another by where it comes from.
pub(super) fn item(kept: &Bytes, key: Option<String>, origin: &mut dyn FnMut() -> Origin) -> NewMessage {
    let mut body = BytesMut::with_capacity(kept.len() + HEADER);
    match &key {
        Some(_) => body.put_bytes(0, HEADER),
        None => {
            let Origin { sender, number } = origin();
            body.put_u64(sender);
            body.put_u64(number);
        }
    }
    body.put_slice(kept);
    NewMessage { topic: ITEM.to_owned(), body: body.freeze(), key }
}

/// Where an item comes from, unless it has a key, and what was kept of it.
pub(super) fn read_item(body: &Bytes) -> Result<(Option<Origin>, Bytes), Error> {
    let (sender, number) = body
        .split_first_chunk::<8>()
        .and_then(|(sender, rest)| {
            Some((u64::from_be_bytes(*sender), u64::from_be_bytes(*rest.first_chunk()?)))
        })
        .ok_or_else(|| Error::Decode { what: "an item".to_owned(), why: "it is cut short".to_owned() })?;
    let origin = (number > 0).then_some(Origin { sender, number });
    Ok((origin, body.slice(HEADER..)))
}

impl Message {
    pub(super) fn encode(&self, hub: &Hub) -> Result<NewMessage, Error> {
        let what = "what a batch is told";
        let json = serde_json::to_vec(self)
            .map_err(|why| Error::Encode { what: what.to_owned(), why: why.to_string() })?;
        let body = hub.keep(format_args!("{what}"), json.into())?;
        Ok(NewMessage { topic: TOLD.to_owned(), body, key: Some(fresh_key()) })
    }

    pub(super) fn decode(hub: &Hub, row: &InboxRow) -> Result<Self, Error> {
        let what = "what a batch was told";
        let json = hub.read(what, row.body.clone())?;
        let decode = |why: serde_json::Error| Error::Decode { what: what.into(), why: why.to_string() };
        let message: Self = serde_json::from_slice(&json).map_err(decode)?;
        if let Self::Declare(declaration) = &message {
            declaration.check_format()?;
        }
        Ok(message)
    }
}

/// What wakes a batch beside its time, when it listens for items and when it does not.
pub(super) fn topics(listens: bool) -> Vec<String> {
    let topics: &[&str] = if listens { &TOPICS } else { &TOPICS[..2] };
    topics.iter().map(|topic| (*topic).to_owned()).collect()
}

/// All that may wake a batch beside its time.
pub(super) const TOPICS: [&str; 3] = [TOLD, order::TERMINATE, BELL];
