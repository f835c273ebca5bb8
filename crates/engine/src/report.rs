//! How a published attempt ended, on its way through its run's inbox.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use windlass_core::{Changes, Failure, Time};
use windlass_store::{InboxRow, SpreadKey};

use crate::{Done, Error, Slot, hub::Hub};

/// How a published attempt ended.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) generation: u32,
    pub(crate) key: SpreadKey,
    pub(crate) started_at: Time,
    pub(crate) ending: Ending,
}

/// What became of it.
#[derive(Debug)]
pub(crate) enum Ending {
    Done(Done),
    Failed(Failure),
    /// So many nodes died of it.
    Killed(u32),
}

/// A report as it is written.
#[derive(Serialize, Deserialize)]
struct Written {
    generation: u32,
    step: Arc<str>,
    attempt: u32,
    started_at: Time,
    ending: WrittenEnding,
}

#[derive(Serialize, Deserialize)]
enum WrittenEnding {
    Done {
        output: Box<RawValue>,
        #[serde(default, skip_serializing_if = "Changes::is_empty")]
        changes: Changes,
    },
    Failed(Box<Failure>),
    Killed(u32),
}

impl Report {
    /// What the store keeps for it.
    pub(crate) fn encode(&self, hub: &Hub) -> Result<Bytes, Error> {
        let what = || format!("the outcome of `{}`", self.key.step);
        let unfit = |why: &dyn ToString| Error::Encode { what: what(), why: why.to_string() };
        let ending = match &self.ending {
            Ending::Done(Done { output, changes }) => {
                let (size, limit) = (output.bytes().len(), hub.payload_limit);
                if size > limit {
                    let what = format!("the result of `{}`", self.key.step);
                    return Err(Error::PayloadTooLarge { what, size, limit });
                }
                let output = serde_json::from_slice(output.bytes()).map_err(|error| unfit(&error))?;
                WrittenEnding::Done { output, changes: changes.clone() }
            }
            Ending::Failed(failure) => WrittenEnding::Failed(Box::new(failure.clone())),
            Ending::Killed(deaths) => WrittenEnding::Killed(*deaths),
        };
        let SpreadKey { step, attempt } = self.key.clone();
        let (generation, started_at) = (self.generation, self.started_at);
        let json = serde_json::to_vec(&Written { generation, step, attempt, started_at, ending });
        let json = json.map_err(|error| unfit(&error))?;
        hub.codec.encode(json.into()).map_err(|error| unfit(&error))
    }

    pub(crate) fn decode(hub: &Hub, row: &InboxRow) -> Result<Self, Error> {
        let what = "the outcome of a published attempt";
        let json = hub.read(what, row.body.clone())?;
        let written: Written = serde_json::from_slice(&json)
            .map_err(|why| Error::Decode { what: what.to_owned(), why: why.to_string() })?;
        let ending = match written.ending {
            WrittenEnding::Done { output, changes } => {
                let output = Slot::from_bytes(Bytes::copy_from_slice(output.get().as_bytes()));
                Ending::Done(Done { output, changes })
            }
            WrittenEnding::Failed(failure) => Ending::Failed(*failure),
            WrittenEnding::Killed(deaths) => Ending::Killed(deaths),
        };
        let key = SpreadKey { step: written.step, attempt: written.attempt };
        Ok(Self { generation: written.generation, key, started_at: written.started_at, ending })
    }
}
