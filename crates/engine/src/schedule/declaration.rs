//! What a schedule starts, and when, as somebody declared it.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};
use windlass_core::{
    RunId, format_duration,
    schedule::{Firing, Schedule},
};
use windlass_store::{NewRun, Parent};

use super::{CONTEXT, Fired, message::ENDED};
use crate::{
    Error, Slot,
    hub::Hub,
    keeping::first_format,
    start::{Settings, new_run},
};

/// How long a key is kept that is to be used once, and the record of its run with it.
pub(crate) const EVER: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// A schedule, and what its runs are started with.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Declaration {
    /// What a program has to know to read it.
    #[serde(default = "first_format")]
    pub(super) format: u32,
    pub(super) schedule: Schedule,
    pub(super) input: Box<RawValue>,
    #[serde(default)]
    pub(super) start: StartSettings,
}

/// What a start may say beside workflow and input.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct StartSettings {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) queue: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) priority: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) timeout: Option<Duration>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tags: Vec<String>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(super) context: Map<String, Value>,
}

impl Declaration {
    /// What is different in another declaration of the same schedule, in words.
    pub(super) fn difference(&self, other: &Self) -> Vec<String> {
        let mut found = self.schedule.difference(&other.schedule);
        found.extend(self.start.difference(&other.start));
        found
    }

    /// The run of a firing.
    pub(super) fn new_run(&self, hub: &Hub, schedule: RunId, firing: &Firing) -> Result<NewRun, Error> {
        let StartSettings { queue, priority, timeout, tags, context } = self.start.clone();
        let mut context = context;
        context.insert(CONTEXT.to_owned(), Fired::of(&self.schedule, firing).to_json()?);
        let settings = Settings {
            key: Some(firing.key.clone()),
            key_life: is_somebodys_wish(&self.schedule, firing).then_some(EVER),
            // Whatever run has the key, it stands for this time.
            or_existing: true,
            queue: queue.map(Into::into),
            priority,
            timeout,
            tags,
            context: Some(Value::Object(context)),
            ..Settings::default()
        };
        let input = Slot::from_bytes(Bytes::copy_from_slice(self.input.get().as_bytes()));
        let new = new_run(hub, &firing.workflow.as_str().into(), None, &input, &settings)?;
        Ok(NewRun { parent: Some(Parent { run: schedule, topic: ENDED.to_owned() }), ..new })
    }
}

/// Whether it is a wish whose id somebody chose, and may tell again. An id of ours is told once, and a time that has passed
/// does not come again: their keys go with their runs.
fn is_somebodys_wish(schedule: &Schedule, firing: &Firing) -> bool {
    let wish = firing.key.strip_prefix(schedule.name()).and_then(|rest| rest.strip_prefix('!'));
    wish.is_some_and(|id| id.parse::<RunId>().is_err())
}

impl StartSettings {
    /// What is different in others, in words.
    pub(crate) fn difference(&self, other: &Self) -> Vec<String> {
        let (was, is) = (self.shown(), other.shown());
        let different = was.into_iter().zip(is).filter(|(was, is)| was != is);
        different.map(|((what, was), (_, is))| format!("the {what} was {was}, and is {is}")).collect()
    }

    /// Each setting with its value in words.
    fn shown(&self) -> [(&'static str, String); 5] {
        let none = || "the default".to_owned();
        [
            ("queue", self.queue.clone().unwrap_or_else(none)),
            ("priority", self.priority.map_or_else(none, |priority| priority.to_string())),
            ("time-out of the runs", self.timeout.map_or_else(none, format_duration)),
            ("list of tags", format!("[{}]", self.tags.join(", "))),
            ("context", Value::Object(self.context.clone()).to_string()),
        ]
    }

    /// Everything that is wrong with it.
    pub(crate) fn problems(&self, schedule: &str) -> Vec<String> {
        let mut problems = Vec::new();
        if let Some(priority) = self.priority.filter(|priority| *priority > 9) {
            problems.push(format!(
                "the priority of `{schedule}` cannot be used: {priority} does not exist, 0 is the most urgent and 9 the least"
            ));
        }
        if self.context.contains_key(CONTEXT) {
            problems.push(format!(
                "the context of `{schedule}` cannot have `{CONTEXT}`: that is where runs find what started them"
            ));
        }
        problems
    }
}
