//! Triggers.

use axum::{Json, extract::State, http::StatusCode};
use serde::Serialize;
use utoipa::ToSchema;
use windlass::{Client, trigger::TriggerStatus};

use super::{Answer, schedules::Note, steering::Nothing};
use crate::{
    Problem,
    arrival::{NamePath, Sent, note},
    view::{ScheduleState, instant},
};

/// All triggers that engines were given, by name.
#[derive(Serialize, ToSchema)]
pub(crate) struct TriggerList {
    triggers: Vec<Trigger>,
}

/// How a trigger stands.
#[derive(Serialize, ToSchema)]
pub(crate) struct Trigger {
    name: String,
    workflow: String,
    /// When it is asked, in words.
    words: String,
    state: ScheduleState,
    /// Why it was paused; null if it is not.
    paused: Option<String>,
    /// How many runs it has started.
    fired: u64,
    #[schema(format = DateTime)]
    last_fired: Option<String>,
    /// How many of its runs are under way that keep others with the same key from being started.
    running: usize,
    /// When it is asked next, if it is known.
    #[schema(format = DateTime)]
    next: Option<String>,
    /// Why the engine could not ask it when it last tried.
    trouble: Option<String>,
}

impl From<TriggerStatus> for Trigger {
    fn from(trigger: TriggerStatus) -> Self {
        Self {
            name: trigger.name,
            workflow: trigger.workflow,
            words: trigger.words,
            state: trigger.status.into(),
            paused: trigger.paused,
            fired: trigger.fired,
            last_fired: trigger.last_fired.map(instant),
            running: trigger.running,
            next: trigger.next.map(instant),
            trouble: trigger.trouble,
        }
    }
}

/// Lists all triggers that engines were given, by name.
#[utoipa::path(
    get, path = "/api/v1/triggers", tag = "triggers", operation_id = "list_triggers",
    responses((status = 200, body = TriggerList)),
)]
pub(crate) async fn list(State(client): State<Client>) -> Answer<TriggerList> {
    let triggers = client.triggers().list().await?;
    Ok(Json(TriggerList { triggers: triggers.into_iter().map(Into::into).collect() }))
}

/// Shows a trigger.
#[utoipa::path(
    get, path = "/api/v1/triggers/{name}", tag = "triggers", operation_id = "show_trigger",
    params(("name" = String, Path, description = "The trigger")),
    responses(
        (status = 200, body = Trigger),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn show(State(client): State<Client>, NamePath(name): NamePath) -> Answer<Trigger> {
    Ok(Json(client.triggers().get(&name).await?.status().await?.into()))
}

/// Has a trigger asked now, out of its turn.
#[utoipa::path(
    post, path = "/api/v1/triggers/{name}/ask", tag = "triggers", operation_id = "ask_trigger",
    params(("name" = String, Path, description = "The trigger")), request_body = Nothing,
    responses((status = 202), (status = "4XX", body = Problem, content_type = "application/problem+json")),
)]
pub(crate) async fn ask(
    State(client): State<Client>,
    NamePath(name): NamePath,
    Sent(Nothing {}): Sent<Nothing>,
) -> Result<StatusCode, Problem> {
    client.triggers().get(&name).await?.ask().await?;
    Ok(StatusCode::ACCEPTED)
}

/// Asks a trigger no more.
#[utoipa::path(
    post, path = "/api/v1/triggers/{name}/pause", tag = "triggers", operation_id = "pause_trigger",
    params(("name" = String, Path, description = "The trigger")), request_body = Note,
    responses((status = 204), (status = "4XX", body = Problem, content_type = "application/problem+json")),
)]
pub(crate) async fn pause(
    State(client): State<Client>,
    NamePath(name): NamePath,
    Sent(why): Sent<Note>,
) -> Result<StatusCode, Problem> {
    note("the note", &why.note)?;
    client.triggers().get(&name).await?.pause(why.note).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Asks a trigger again.
#[utoipa::path(
    post, path = "/api/v1/triggers/{name}/resume", tag = "triggers", operation_id = "resume_trigger",
    params(("name" = String, Path, description = "The trigger")), request_body = Nothing,
    responses((status = 204), (status = "4XX", body = Problem, content_type = "application/problem+json")),
)]
pub(crate) async fn resume(
    State(client): State<Client>,
    NamePath(name): NamePath,
    Sent(Nothing {}): Sent<Nothing>,
) -> Result<StatusCode, Problem> {
    client.triggers().get(&name).await?.resume().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Forgets a trigger's failures, and goes on at once.
#[utoipa::path(
    post, path = "/api/v1/triggers/{name}/reset", tag = "triggers", operation_id = "reset_trigger",
    params(("name" = String, Path, description = "The trigger")), request_body = Nothing,
    responses((status = 204), (status = "4XX", body = Problem, content_type = "application/problem+json")),
)]
pub(crate) async fn reset(
    State(client): State<Client>,
    NamePath(name): NamePath,
    Sent(Nothing {}): Sent<Nothing>,
) -> Result<StatusCode, Problem> {
    client.triggers().get(&name).await?.reset().await?;
    Ok(StatusCode::NO_CONTENT)
}
