//! What runs have logged.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use windlass_core::Time;
use windlass_store::LogLine;

use crate::{
    Codec, Error, Run,
    hex::{from_hex, to_hex},
};

/// What the message of a line begins with that was encoded, with its fields: stores keep lines as text.
const SEALED: &str = "windlass:sealed:";

/// A line that was logged while an attempt was executed.
#[derive(Clone, Debug, PartialEq)]
pub struct LoggedLine {
    /// When, by the clock of the process that logged it.
    pub at: Time,
    /// `ERROR`, `WARN`, `INFO`, `DEBUG` or `TRACE`.
    pub level: &'static str,
    /// The task, with the element's place in a `for_each`; of a durable function, the step.
    pub task: Arc<str>,
    /// Which attempt of the task.
    pub attempt: u32,
    /// What was said.
    pub message: String,
    /// The fields beside it.
    pub fields: Map<String, Value>,
    /// How many lines were left out: before this one, of an attempt that logged much; after it, where a run has as many as
    /// are kept.
    pub dropped: u32,
}

impl<O> Run<O> {
    /// What its tasks and steps have logged through `tracing`, where the program keeps it: see the feature `logs`, and
    /// `windlass::log_layer()`. Nothing for a run that is not there.
    ///
    /// # Errors
    ///
    /// When the store cannot be asked, or a line cannot be read.
    pub async fn logs(&self) -> Result<Vec<LoggedLine>, Error> {
        let hub = self.client().hub();
        let lines = hub.store.log(self.id()).await?;
        let read = |line: LogLine| {
            let line = unseal(&*hub.codec, line);
            let fields = line.fields.map_or(Ok(Map::new()), |json| serde_json::from_str(&json));
            Ok(LoggedLine {
                at: line.at,
                level: level(line.level),
                task: line.task,
                attempt: line.attempt,
                message: line.message,
                fields: fields.map_err(|why| Error::Decode {
                    what: format!("a line that run {} logged", self.id()),
                    why: why.to_string(),
                })?,
                dropped: line.dropped,
            })
        };
        lines.into_iter().map(read).collect()
    }
}

/// A line as the store keeps it, where the codec hides what tasks log.
#[allow(dead_code, reason = "without the layer nobody keeps lines")]
pub(crate) fn seal(codec: &dyn Codec, line: LogLine) -> LogLine {
    if !codec.hides() {
        return line;
    }
    let said = json!({"message": line.message, "fields": line.fields});
    let message = match codec.encode(said.to_string().into()) {
        Ok(sealed) => format!("{SEALED}{}", to_hex(&sealed)),
        Err(why) => format!("(a line that could not be encoded: {why})"),
    };
    LogLine { message, fields: None, ..line }
}

/// The line that was logged. One that cannot be read says why, and stands in nobody's way.
fn unseal(codec: &dyn Codec, line: LogLine) -> LogLine {
    let Some(sealed) = line.message.strip_prefix(SEALED).and_then(from_hex) else { return line };
    let said = codec.decode(sealed.into()).map_err(|why| why.to_string());
    let said = said.and_then(|json| serde_json::from_slice::<Value>(&json).map_err(|why| why.to_string()));
    let (message, fields) = match said {
        Ok(said) => (
            said["message"].as_str().unwrap_or_default().to_owned(),
            said["fields"].as_str().map(str::to_owned),
        ),
        Err(why) => (format!("(a line that cannot be read: {why})"), None),
    };
    LogLine { message, fields, ..line }
}

const fn level(number: u8) -> &'static str {
    match number {
        0 | 1 => "ERROR",
        2 => "WARN",
        3 => "INFO",
        4 => "DEBUG",
        _ => "TRACE",
    }
}
