//! Steering one run.

use axum::{Json, extract::State, http::StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use windlass::{Cancelled, Client};

use super::{Answer, runs::StartedRun};
use crate::{
    Problem,
    arrival::{RunPath, Sent, note, word},
    view,
};

/// Why something is done.
#[derive(Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Reason {
    /// In the words of whoever does it.
    reason: String,
}

/// No more needs to be said.
#[derive(Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Nothing {}

/// What became of the wish to end a run.
#[derive(Serialize, ToSchema)]
pub(crate) struct Ending {
    outcome: EndingOutcome,
    /// How the run stands, if it had ended.
    state: Option<view::State>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum EndingOutcome {
    /// The run will end as cancelled, unless it ends by itself first.
    Requested,
    /// It had ended already.
    AlreadyEnded,
}

impl From<Cancelled> for Ending {
    fn from(cancelled: Cancelled) -> Self {
        match cancelled {
            Cancelled::Requested | Cancelled::Blocked => {
                Self { outcome: EndingOutcome::Requested, state: None }
            }
            Cancelled::AlreadyEnded(state) => {
                Self { outcome: EndingOutcome::AlreadyEnded, state: Some(state.into()) }
            }
        }
    }
}

/// Cancels a run: its attempts may tidy up, and what it has done is undone if it says how.
#[utoipa::path(
    post, path = "/api/v1/runs/{id}/cancel", tag = "runs", operation_id = "cancel_run",
    params(("id" = String, Path, format = Uuid, description = "The run")), request_body = Reason,
    responses(
        (status = 200, body = Ending),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn cancel(
    State(client): State<Client>,
    RunPath(run): RunPath,
    Sent(why): Sent<Reason>,
) -> Answer<Ending> {
    note("the reason", &why.reason)?;
    Ok(Json(client.find_run(run).await?.cancel(why.reason).await?.into()))
}

/// Ends a run at once, without asking its code.
#[utoipa::path(
    post, path = "/api/v1/runs/{id}/terminate", tag = "runs", operation_id = "terminate_run",
    params(("id" = String, Path, format = Uuid, description = "The run")), request_body = Reason,
    responses(
        (status = 200, body = Ending),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn terminate(
    State(client): State<Client>,
    RunPath(run): RunPath,
    Sent(why): Sent<Reason>,
) -> Answer<Ending> {
    note("the reason", &why.reason)?;
    Ok(Json(client.find_run(run).await?.terminate(why.reason).await?.into()))
}

/// Holds a run at the next boundary.
#[utoipa::path(
    post, path = "/api/v1/runs/{id}/pause", tag = "runs", operation_id = "pause_run",
    params(("id" = String, Path, format = Uuid, description = "The run")), request_body = Nothing,
    responses((status = 204), (status = "4XX", body = Problem, content_type = "application/problem+json")),
)]
pub(crate) async fn pause(
    State(client): State<Client>,
    RunPath(run): RunPath,
    Sent(Nothing {}): Sent<Nothing>,
) -> Result<StatusCode, Problem> {
    client.find_run(run).await?.pause().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Lets a paused run go on.
#[utoipa::path(
    post, path = "/api/v1/runs/{id}/resume", tag = "runs", operation_id = "resume_run",
    params(("id" = String, Path, format = Uuid, description = "The run")), request_body = Nothing,
    responses((status = 204), (status = "4XX", body = Problem, content_type = "application/problem+json")),
)]
pub(crate) async fn resume(
    State(client): State<Client>,
    RunPath(run): RunPath,
    Sent(Nothing {}): Sent<Nothing>,
) -> Result<StatusCode, Problem> {
    client.find_run(run).await?.resume().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Opens a failed, cancelled or abandoned run again: what has completed is kept, the rest runs again.
#[utoipa::path(
    post, path = "/api/v1/runs/{id}/retry", tag = "runs", operation_id = "retry_run",
    params(("id" = String, Path, format = Uuid, description = "The run")), request_body = Nothing,
    responses((status = 204), (status = "4XX", body = Problem, content_type = "application/problem+json")),
)]
pub(crate) async fn retry(
    State(client): State<Client>,
    RunPath(run): RunPath,
    Sent(Nothing {}): Sent<Nothing>,
) -> Result<StatusCode, Problem> {
    client.find_run(run).await?.retry().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Where a new run begins that keeps what came before.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fork {
    /// The task, or the step of a durable function, that runs again with everything after it.
    task: String,
}

/// Starts a new run with a copy of what a task depends on.
#[utoipa::path(
    post, path = "/api/v1/runs/{id}/fork", tag = "runs", operation_id = "fork_run",
    params(("id" = String, Path, format = Uuid, description = "The run")), request_body = Fork,
    responses(
        (status = 201, body = StartedRun),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn fork(
    State(client): State<Client>,
    RunPath(run): RunPath,
    Sent(Fork { task }): Sent<Fork>,
) -> Result<(StatusCode, Json<StartedRun>), Problem> {
    word("the task", &task)?;
    let forked = client.find_run(run).await?.fork_from(&task).await?;
    let started = StartedRun { id: forked.id().to_string(), workflow: forked.workflow().to_owned() };
    Ok((StatusCode::CREATED, Json(started)))
}

/// Forgets a run that has ended, for ever.
#[utoipa::path(
    post, path = "/api/v1/runs/{id}/discard", tag = "runs", operation_id = "discard_run", security(("key" = ["admin"])),
    params(("id" = String, Path, format = Uuid, description = "The run")), request_body = Reason,
    responses((status = 204), (status = "4XX", body = Problem, content_type = "application/problem+json")),
)]
pub(crate) async fn discard(
    State(client): State<Client>,
    RunPath(run): RunPath,
    Sent(why): Sent<Reason>,
) -> Result<StatusCode, Problem> {
    note("the reason", &why.reason)?;
    client.find_run(run).await?.discard(why.reason).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// An event for a run.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewEvent {
    /// Its name.
    name: String,
    /// What it carries. Null by default.
    #[serde(default)]
    payload: Value,
    /// Makes a repeat harmless: the same key to the same run and event is received once.
    key: Option<String>,
}

/// Sends a run an event. It is durable when this is answered.
#[utoipa::path(
    post, path = "/api/v1/runs/{id}/events", tag = "runs", operation_id = "send_event",
    params(("id" = String, Path, format = Uuid, description = "The run")), request_body = NewEvent,
    responses((status = 204), (status = "4XX", body = Problem, content_type = "application/problem+json")),
)]
pub(crate) async fn send(
    State(client): State<Client>,
    RunPath(run): RunPath,
    Sent(event): Sent<NewEvent>,
) -> Result<StatusCode, Problem> {
    word("the name", &event.name)?;
    event.key.iter().try_for_each(|key| word("the key", key))?;
    let sending = client.find_run(run).await?.send_by_name(event.name, &event.payload);
    match event.key {
        Some(key) => sending.key(key).await?,
        None => sending.await?,
    }
    Ok(StatusCode::NO_CONTENT)
}
