//! What runs have logged.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;
use windlass::{Client, LoggedLine};

use super::Answer;
use crate::{Problem, arrival::RunPath, redaction::Redaction, view::instant};

/// What the tasks and steps of a run have logged.
#[derive(Serialize, ToSchema)]
pub(crate) struct Logs {
    /// In the order in which they came.
    lines: Vec<Line>,
}

/// A line that was logged while an attempt was executed.
#[derive(Serialize, ToSchema)]
struct Line {
    #[schema(format = DateTime)]
    at: String,
    /// `ERROR`, `WARN`, `INFO`, `DEBUG` or `TRACE`.
    level: &'static str,
    /// The task, with the element's place in a `for_each`; of a durable function, the step.
    task: String,
    /// Which attempt of the task.
    attempt: u32,
    message: String,
    /// The fields beside the message.
    #[schema(value_type = Object)]
    fields: Map<String, Value>,
    /// How many lines were left out: before this one, of an attempt that logged much; after it, where a run has as many as
    /// are kept.
    dropped: u32,
}

impl From<LoggedLine> for Line {
    fn from(line: LoggedLine) -> Self {
        Self {
            at: instant(line.at),
            level: line.level,
            task: line.task.to_string(),
            attempt: line.attempt,
            message: line.message,
            fields: line.fields,
            dropped: line.dropped,
        }
    }
}

/// Gives what the tasks and steps of a run have logged, where their program keeps it.
#[utoipa::path(
    get, path = "/api/v1/runs/{id}/logs", tag = "runs", operation_id = "run_logs",
    params(("id" = String, Path, format = Uuid, description = "The run")),
    responses(
        (status = 200, body = Logs),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn logs(
    State(client): State<Client>,
    State(redaction): State<Arc<Redaction>>,
    RunPath(run): RunPath,
) -> Answer<Logs> {
    let mut lines = client.find_run(run).await?.logs().await?;
    lines.iter_mut().for_each(|line| redaction.fields(&mut line.fields));
    Ok(Json(Logs { lines: lines.into_iter().map(Into::into).collect() }))
}
