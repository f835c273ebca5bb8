//! What a batch starts, and when, as somebody declared it.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use windlass_core::batch::Gathering;
use windlass_store::NewRun;

use crate::{
    Error, Slot,
    hub::Hub,
    keeping::check_format,
    schedule::StartSettings,
    start::{Settings, new_run},
};

/// A batch, and how its runs are started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Declaration {
    /// What a program has to know to read it.
    pub(super) format: u32,
    pub(super) name: String,
    pub(super) workflow: String,
    pub(super) gathering: Gathering,
    #[serde(default)]
    pub(super) start: StartSettings,
}

impl Declaration {
    pub(super) fn check_format(&self) -> Result<(), Error> {
        check_format("what a batch was told", self.format)
    }

    /// What is different in another declaration of the same batch, in words.
    pub(super) fn difference(&self, other: &Self) -> Vec<String> {
        let mut found = self.gathering.difference(&other.gathering);
        if self.workflow != other.workflow {
            found.push(format!("the workflow was `{}`, and is `{}`", self.workflow, other.workflow));
        }
        found.extend(self.start.difference(&other.start));
        found
    }

    /// The run that gets these items, each of which is JSON.
    pub(super) fn new_run(&self, hub: &Hub, items: &[&Bytes]) -> Result<NewRun, Error> {
        let StartSettings { queue, priority, timeout, tags, .. } = self.start.clone();
        let queue = queue.map(Into::into);
        let settings = Settings { queue, priority, timeout, tags, ..Settings::default() };
        let nothing = Slot::from_bytes(Bytes::from_static(b"[]"));
        let new = new_run(hub, &Arc::from(self.workflow.as_str()), None, &nothing, &settings)?;
        // Each item was let in when it came: a limit that was lowered since does not keep it from going.
        let input = hub.codec.encode(array(items).into());
        let encode = |why: crate::CodecError| Error::Encode { what: "a batch".into(), why: why.to_string() };
        Ok(NewRun { input: input.map_err(encode)?, ..new })
    }
}

/// A JSON array of what is JSON already.
fn array(items: &[&Bytes]) -> Vec<u8> {
    let length: usize = items.iter().map(|item| item.len() + 1).sum();
    let mut json = Vec::with_capacity(length + 1);
    for (at, item) in items.iter().enumerate() {
        json.push(if at == 0 { b'[' } else { b',' });
        json.extend_from_slice(item);
    }
    json.push(b']');
    json
}
