//! What was logged while runs were executed.

use std::sync::Arc;

use windlass_core::{RunId, Time};

/// A line that was logged while an attempt was executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// The run.
    pub run: RunId,
    /// When, by the clock of whoever logged it.
    pub at: Time,
    /// How bad it is: 1 is an error, 5 a trace.
    pub level: u8,
    /// The task, with the element's place in a `for_each`; of a durable function, the step.
    pub task: Arc<str>,
    /// Which attempt.
    pub attempt: u32,
    /// What was said.
    pub message: String,
    /// The fields beside it, as JSON.
    pub fields: Option<String>,
    /// How many lines before this one, of the same attempt or of a run that has as many as are kept, were left out.
    pub dropped: u32,
}

impl LogLine {
    /// How many lines are kept of a run.
    pub const MOST: usize = 2_000;
}
