//! Schedules.

use axum::{Json, extract::State, http::StatusCode};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass::{Client, schedule::ScheduleStatus};

use super::{Answer, steering::Nothing};
use crate::{
    Problem,
    arrival::{self, NamePath, Sent, note, word},
    view::{ScheduleState, instant},
};

/// How many of the next times are shown.
const NEXT: usize = 5;

/// The longest id of a wish, in characters.
const LONGEST_ID: usize = 200;

/// All schedules, by name.
#[derive(Serialize, ToSchema)]
pub(crate) struct ScheduleList {
    schedules: Vec<Schedule>,
}

/// How a schedule stands.
#[derive(Serialize, ToSchema)]
pub(crate) struct Schedule {
    name: String,
    workflow: String,
    /// When it starts runs, in words.
    words: String,
    state: ScheduleState,
    /// Why it was paused; null if it is not.
    paused: Option<String>,
    /// How many runs it has started.
    runs: u64,
    /// The keys of its runs that have not ended.
    running: Vec<String>,
    last_run: Option<LastRun>,
    /// When the next run is started, if it is known.
    #[schema(format = DateTime)]
    next_run: Option<String>,
    /// Why it could not do what it was to do when it last tried.
    trouble: Option<String>,
}

/// The last run that a schedule started.
#[derive(Serialize, ToSchema)]
struct LastRun {
    key: String,
    #[schema(format = DateTime)]
    started_at: String,
    #[schema(format = DateTime)]
    ended_at: Option<String>,
    completed: bool,
}

impl From<ScheduleStatus> for Schedule {
    fn from(schedule: ScheduleStatus) -> Self {
        Self {
            name: schedule.name,
            workflow: schedule.workflow,
            words: schedule.words,
            state: schedule.status.into(),
            paused: schedule.paused,
            runs: schedule.runs,
            running: schedule.running,
            last_run: schedule.last_run.map(|last| LastRun {
                key: last.key,
                started_at: instant(last.fired_at),
                ended_at: last.ended_at.map(instant),
                completed: last.completed,
            }),
            next_run: schedule.next_run.map(instant),
            trouble: schedule.trouble,
        }
    }
}

/// A schedule, with what is next and what was.
#[derive(Serialize, ToSchema)]
pub(crate) struct ScheduleView {
    #[serde(flatten)]
    schedule: Schedule,
    /// The next times that it starts runs for.
    next_times: Vec<String>,
    /// What happened to it lately, oldest first.
    history: Vec<Happening>,
}

/// Something that happened to a schedule.
#[derive(Serialize, ToSchema)]
struct Happening {
    #[schema(format = DateTime)]
    at: String,
    /// What, as a sentence.
    words: String,
}

/// Lists all schedules, by name.
#[utoipa::path(
    get, path = "/api/v1/schedules", tag = "schedules", operation_id = "list_schedules",
    responses((status = 200, body = ScheduleList)),
)]
pub(crate) async fn list(State(client): State<Client>) -> Answer<ScheduleList> {
    let schedules = client.schedules().list().await?;
    Ok(Json(ScheduleList { schedules: schedules.into_iter().map(Into::into).collect() }))
}

/// Shows a schedule.
#[utoipa::path(
    get, path = "/api/v1/schedules/{name}", tag = "schedules", operation_id = "show_schedule",
    params(("name" = String, Path, description = "The schedule")),
    responses(
        (status = 200, body = ScheduleView),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn show(State(client): State<Client>, NamePath(name): NamePath) -> Answer<ScheduleView> {
    let handle = client.schedules().get(&name).await?;
    let history = handle.history().await?;
    let history =
        history.into_iter().map(|past| Happening { at: instant(past.at), words: past.what.to_string() });
    Ok(Json(ScheduleView {
        schedule: handle.status().await?.into(),
        next_times: handle.next(NEXT).await?.into_iter().map(instant).collect(),
        history: history.collect(),
    }))
}

/// Ends a schedule. Runs that are under way go on.
#[utoipa::path(
    delete, path = "/api/v1/schedules/{name}", tag = "schedules", operation_id = "remove_schedule",
    security(("key" = ["admin"])),
    params(("name" = String, Path, description = "The schedule")),
    responses((status = 204), (status = "4XX", body = Problem, content_type = "application/problem+json")),
)]
pub(crate) async fn remove(
    State(client): State<Client>,
    NamePath(name): NamePath,
) -> Result<StatusCode, Problem> {
    client.schedules().get(&name).await?.remove().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A wish for a run now.
#[derive(Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Wish {
    /// Makes a repeat harmless: the same id is one wish. At most 200 characters.
    id: Option<String>,
}

/// The run that a wish is for.
#[derive(Serialize, ToSchema)]
pub(crate) struct WishedRun {
    /// The key that the run has.
    key: String,
}

/// Has a run started now.
#[utoipa::path(
    post, path = "/api/v1/schedules/{name}/trigger", tag = "schedules", operation_id = "trigger_schedule",
    params(("name" = String, Path, description = "The schedule")), request_body = Wish,
    responses(
        (status = 202, body = WishedRun),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn trigger(
    State(client): State<Client>,
    NamePath(name): NamePath,
    Sent(Wish { id }): Sent<Wish>,
) -> Result<(StatusCode, Json<WishedRun>), Problem> {
    if let Some(id) = &id {
        word("the id", id)?;
        if id.is_empty() || id.chars().count() > LONGEST_ID {
            return Err(Problem::invalid(format!("the id must have 1 to {LONGEST_ID} characters")));
        }
    }
    let handle = client.schedules().get(&name).await?;
    let key = match id {
        Some(id) => handle.trigger_once(id).await?,
        None => handle.trigger().await?,
    };
    Ok((StatusCode::ACCEPTED, Json(WishedRun { key })))
}

/// Why something is paused.
#[derive(Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Note {
    /// In the words of whoever pauses it.
    pub(super) note: String,
}

/// Starts nothing more by itself.
#[utoipa::path(
    post, path = "/api/v1/schedules/{name}/pause", tag = "schedules", operation_id = "pause_schedule",
    params(("name" = String, Path, description = "The schedule")), request_body = Note,
    responses((status = 204), (status = "4XX", body = Problem, content_type = "application/problem+json")),
)]
pub(crate) async fn pause(
    State(client): State<Client>,
    NamePath(name): NamePath,
    Sent(why): Sent<Note>,
) -> Result<StatusCode, Problem> {
    note("the note", &why.note)?;
    client.schedules().get(&name).await?.pause(why.note).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Goes on.
#[utoipa::path(
    post, path = "/api/v1/schedules/{name}/resume", tag = "schedules", operation_id = "resume_schedule",
    params(("name" = String, Path, description = "The schedule")), request_body = Nothing,
    responses((status = 204), (status = "4XX", body = Problem, content_type = "application/problem+json")),
)]
pub(crate) async fn resume(
    State(client): State<Client>,
    NamePath(name): NamePath,
    Sent(Nothing {}): Sent<Nothing>,
) -> Result<StatusCode, Problem> {
    client.schedules().get(&name).await?.resume().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Forgets its failures, and goes on at once.
#[utoipa::path(
    post, path = "/api/v1/schedules/{name}/reset", tag = "schedules", operation_id = "reset_schedule",
    params(("name" = String, Path, description = "The schedule")), request_body = Nothing,
    responses((status = 204), (status = "4XX", body = Problem, content_type = "application/problem+json")),
)]
pub(crate) async fn reset(
    State(client): State<Client>,
    NamePath(name): NamePath,
    Sent(Nothing {}): Sent<Nothing>,
) -> Result<StatusCode, Problem> {
    client.schedules().get(&name).await?.reset().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A wish for the runs of past times.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewBackfill {
    /// From this instant on.
    #[schema(format = DateTime)]
    from: String,
    /// Before this instant.
    #[schema(format = DateTime)]
    to: String,
    /// Whether to say only which times there are.
    #[serde(default)]
    dry_run: bool,
}

/// The past times that runs are wished for.
#[derive(Serialize, ToSchema)]
pub(crate) struct BackfillTimes {
    times: Vec<String>,
    /// Whether they were only counted.
    dry_run: bool,
}

/// Has the runs of past times started. Times that have a run keep it.
#[utoipa::path(
    post, path = "/api/v1/schedules/{name}/backfill", tag = "schedules", operation_id = "backfill_schedule",
    params(("name" = String, Path, description = "The schedule")), request_body = NewBackfill,
    responses(
        (status = 200, body = BackfillTimes),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn backfill(
    State(client): State<Client>,
    NamePath(name): NamePath,
    Sent(NewBackfill { from, to, dry_run }): Sent<NewBackfill>,
) -> Answer<BackfillTimes> {
    let range = arrival::instant("`from`", &from)?..arrival::instant("`to`", &to)?;
    let wish = client.schedules().get(&name).await?.backfill(range);
    let times = if dry_run { wish.dry_run().await? } else { wish.await? };
    Ok(Json(BackfillTimes { times: times.into_iter().map(instant).collect(), dry_run }))
}
