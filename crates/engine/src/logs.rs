//! What runs have logged.

use std::sync::Arc;

use serde_json::{Map, Value};
use windlass_core::Time;

use crate::{Error, Run};

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
        let lines = self.client().hub().store.log(self.id()).await?;
        let read = |line: windlass_store::LogLine| {
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

const fn level(number: u8) -> &'static str {
    match number {
        0 | 1 => "ERROR",
        2 => "WARN",
        3 => "INFO",
        4 => "DEBUG",
        _ => "TRACE",
    }
}
