//! What a schedule is told through its run's inbox.

use serde::{Deserialize, Serialize};
use windlass_core::{RunId, Time};
use windlass_store::{InboxRow, NewMessage};

use super::declaration::Declaration;
use crate::{Error, hub::Hub, keeping::check_format, order::fresh_key};

/// The topic of what people and programs tell a schedule.
pub(crate) const TOLD: &str = "!schedule";
/// The topic under which it hears that one of its runs has ended.
pub(crate) const ENDED: &str = ">ended";

/// What somebody tells a schedule.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Message {
    /// It is declared again.
    Declare(Box<Declaration>),
    Trigger {
        id: String,
    },
    Pause {
        note: String,
    },
    Resume,
    Reset,
    Remove,
    Backfill {
        from: Time,
        to: Time,
    },
    /// A run that it wanted to start was there already, under the same key.
    Existed {
        key: String,
    },
    /// A run that it wanted to start cannot be started.
    Refused {
        key: String,
        why: String,
    },
}

/// What has come to a schedule.
#[derive(Clone, Debug)]
pub(crate) enum Heard {
    /// Somebody told it something.
    Told(Message),
    /// This run has ended.
    Ended(RunId),
    /// Nothing that it understands.
    Noise,
}

impl Message {
    /// Whether it means something else when it is heard again later. What is said of one run does not, and is said too
    /// often to remember each time.
    fn is_order(&self) -> bool {
        !matches!(self, Self::Trigger { .. } | Self::Existed { .. } | Self::Refused { .. })
    }

    pub(crate) fn encode(&self, hub: &Hub) -> Result<NewMessage, Error> {
        let what = "what a schedule is told";
        let json = serde_json::to_vec(self)
            .map_err(|why| Error::Encode { what: what.to_owned(), why: why.to_string() })?;
        let body = hub.keep(format_args!("{what}"), json.into())?;
        Ok(NewMessage { topic: TOLD.to_owned(), body, key: self.is_order().then(fresh_key) })
    }
}

impl Heard {
    pub(crate) fn decode(hub: &Hub, row: &InboxRow) -> Result<Self, Error> {
        match row.topic.as_str() {
            TOLD => {
                let what = "what a schedule was told";
                let json = hub.read(what, row.body.clone())?;
                let decode =
                    |why: serde_json::Error| Error::Decode { what: what.into(), why: why.to_string() };
                let message = serde_json::from_slice(&json).map_err(decode)?;
                if let Message::Declare(declaration) = &message {
                    check_format(what, declaration.format)?;
                }
                Ok(Self::Told(message))
            }
            ENDED => {
                let text = String::from_utf8_lossy(&row.body);
                Ok(text.parse().map_or(Self::Noise, Self::Ended))
            }
            _ => Ok(Self::Noise),
        }
    }
}
