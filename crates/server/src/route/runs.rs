//! Finding runs, looking at them, and starting them.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Query, State, rejection::QueryRejection},
    http::StatusCode,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use windlass::{Client, Error, Start};

use super::Answer;
use crate::{
    Problem,
    arrival::{RunPath, Sent, span, word},
    deed::Deed,
    filter::Listing,
    redaction::Redaction,
    view::{Count, RunLine, RunView, instant},
};

/// Some of the runs that fit, newest first.
#[derive(Serialize, ToSchema)]
pub(crate) struct RunPage {
    runs: Vec<RunLine>,
    /// What to give as `after` for the next page; null on the last. Runs that are started meanwhile do not shift it. A page may
    /// have fewer runs than were asked for, or none, although another follows: where few of many runs fit, the search goes on
    /// there.
    #[schema(format = Uuid)]
    next: Option<String>,
}

/// Lists runs, newest first.
#[utoipa::path(
    get, path = "/api/v1/runs", tag = "runs", operation_id = "list_runs",
    params(
        ("workflow" = Option<String>, Query, description = "Only runs of this workflow"),
        ("state" = Option<Vec<crate::view::State>>, Query, description = "Only runs in this state; repeat it for several"),
        ("queue" = Option<String>, Query, description = "Only runs of this queue"),
        ("tag" = Option<String>, Query, description = "Only runs with this tag"),
        ("key" = Option<String>, Query, description = "Only runs that were started under this key"),
        ("since" = Option<String>, Query, format = DateTime, description = "Only runs created at this time or after it"),
        ("until" = Option<String>, Query, format = DateTime, description = "Only runs created before this time"),
        ("after" = Option<String>, Query, format = Uuid, description = "The page after the one that ended with this run"),
        ("limit" = Option<u16>, Query, minimum = 1, maximum = 500, description = "How many at most; 100 by default"),
    ),
    responses(
        (status = 200, body = RunPage),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn list(
    State(client): State<Client>,
    query: Result<Query<Vec<(String, String)>>, QueryRejection>,
) -> Answer<RunPage> {
    let Query(query) = query.map_err(|why| Problem::malformed("malformed_query", why.body_text()))?;
    let page = Listing::read(query)?.runs(&client)?.portion().await?;
    let next = page.next.map(|next| next.to_string());
    Ok(Json(RunPage { runs: page.runs.into_iter().map(Into::into).collect(), next }))
}

/// How many runs fit, by state.
#[derive(Serialize, ToSchema)]
pub(crate) struct RunCounts {
    /// Every state that is asked for, also those in which there are none.
    counts: Vec<Count>,
}

/// Counts runs by state, in no more time when there are millions: then it estimates.
#[utoipa::path(
    get, path = "/api/v1/runs/counts", tag = "runs", operation_id = "count_runs",
    params(
        ("workflow" = Option<String>, Query, description = "Only runs of this workflow"),
        ("state" = Option<Vec<crate::view::State>>, Query, description = "Only runs in this state; repeat it for several"),
        ("queue" = Option<String>, Query, description = "Only runs of this queue"),
        ("tag" = Option<String>, Query, description = "Only runs with this tag"),
        ("key" = Option<String>, Query, description = "Only runs that were started under this key"),
        ("since" = Option<String>, Query, format = DateTime, description = "Only runs created at this time or after it"),
        ("until" = Option<String>, Query, format = DateTime, description = "Only runs created before this time"),
    ),
    responses(
        (status = 200, body = RunCounts),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn counts(
    State(client): State<Client>,
    query: Result<Query<Vec<(String, String)>>, QueryRejection>,
) -> Answer<RunCounts> {
    let Query(query) = query.map_err(|why| Problem::malformed("malformed_query", why.body_text()))?;
    let counts = Listing::read(query)?.filter()?.runs(&client)?.counts().await?;
    Ok(Json(RunCounts { counts: counts.into_iter().map(Into::into).collect() }))
}

/// Says where a run stands, with the graph of what it follows.
#[utoipa::path(
    get, path = "/api/v1/runs/{id}", tag = "runs", operation_id = "show_run",
    params(("id" = String, Path, format = Uuid, description = "The run")),
    responses(
        (status = 200, body = RunView),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn show(
    State(client): State<Client>,
    State(redaction): State<Arc<Redaction>>,
    RunPath(run): RunPath,
) -> Answer<RunView> {
    let mut status = client.find_run(run).await?.status().await?;
    status.published.values_mut().for_each(|value| *value = redaction.shown(value.take()));
    Ok(Json(status.into()))
}

/// Gives everything that is recorded of a run, with its input, its results and its errors.
#[utoipa::path(
    get, path = "/api/v1/runs/{id}/document", tag = "runs", operation_id = "export_run",
    params(("id" = String, Path, format = Uuid, description = "The run")),
    responses(
        (status = 200, body = Value),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn document(
    State(client): State<Client>,
    State(redaction): State<Arc<Redaction>>,
    RunPath(run): RunPath,
) -> Answer<Value> {
    Ok(Json(redaction.document(client.find_run(run).await?.export().await?)))
}

/// The events that a run has not received yet, oldest first.
#[derive(Serialize, ToSchema)]
pub(crate) struct PendingEvents {
    events: Vec<PendingEvent>,
}

/// An event that was sent to a run, and not received yet.
#[derive(Serialize, ToSchema)]
pub(crate) struct PendingEvent {
    name: String,
    payload: Value,
    #[schema(format = DateTime)]
    sent_at: String,
}

/// Lists the events that were sent to a run and not received yet.
#[utoipa::path(
    get, path = "/api/v1/runs/{id}/events", tag = "runs", operation_id = "pending_events",
    params(("id" = String, Path, format = Uuid, description = "The run")),
    responses(
        (status = 200, body = PendingEvents),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn events(
    State(client): State<Client>,
    State(redaction): State<Arc<Redaction>>,
    RunPath(run): RunPath,
) -> Answer<PendingEvents> {
    let pending = client.find_run(run).await?.pending_events().await?;
    let events = pending.into_iter().map(|event| PendingEvent {
        name: event.name,
        payload: redaction.shown(event.payload),
        sent_at: instant(event.at),
    });
    Ok(Json(PendingEvents { events: events.collect() }))
}

/// A run to be started.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewRun {
    /// The workflow's name.
    workflow: String,
    /// What it gets. Null by default.
    #[serde(default)]
    input: Value,
    /// Stands for the run within its workflow: started again under the same key, it is the same run.
    key: Option<String>,
    /// `default` by default.
    queue: Option<String>,
    /// What it is counted by within its queue.
    queue_key: Option<String>,
    /// From 0, the most urgent, to 9. 5 by default.
    #[schema(minimum = 0, maximum = 9)]
    priority: Option<u8>,
    /// How many seconds to wait before it may begin.
    delay: Option<f64>,
    /// What its context starts with.
    #[schema(value_type = Option<Object>)]
    context: Option<Map<String, Value>>,
    /// Words to find it by.
    #[serde(default)]
    tags: Vec<String>,
    /// The most seconds that it may take. The workflow's by default.
    timeout: Option<f64>,
}

/// A run that was started.
#[derive(Serialize, ToSchema)]
pub(crate) struct StartedRun {
    #[schema(format = Uuid)]
    pub(crate) id: String,
    pub(crate) workflow: String,
}

/// Starts a run of a workflow that some engine has brought to this database. It is durable when this is answered.
#[utoipa::path(
    post, path = "/api/v1/runs", tag = "runs", operation_id = "start_run",
    request_body = NewRun,
    responses(
        (status = 201, body = StartedRun, description = "The run, or the one that has the key already"),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn start(
    State(client): State<Client>,
    deed: Deed,
    Sent(new): Sent<NewRun>,
) -> Result<(StatusCode, Json<StartedRun>), Problem> {
    word("the workflow", &new.workflow)?;
    deed.on(&*new.workflow);
    // A run of a workflow that is misspelt would wait for ever.
    client.workflows().get(&new.workflow).await?;
    let run = new.start(&client)?.await.map_err(not_here)?;
    deed.on(format!("{} {}", run.workflow(), run.id()));
    let started = StartedRun { id: run.id().to_string(), workflow: run.workflow().to_owned() };
    Ok((StatusCode::CREATED, Json(started)))
}

/// An engine starts only what it has itself, though the database knows of more.
pub(super) fn not_here(error: Error) -> Problem {
    match error {
        Error::UnknownWorkflow { name, .. } => Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "unknown_workflow",
            format!(
                "the engine of this process has no workflow `{name}`: ask a process that has it, or an API over a `Client`"
            ),
        ),
        other => other.into(),
    }
}

/// The most tags that a run is started with.
const MOST_TAGS: usize = 100;

impl NewRun {
    fn start(self, client: &Client) -> Result<Start<Value>, Problem> {
        let words = [("the key", &self.key), ("the queue", &self.queue), ("the queue key", &self.queue_key)];
        words.iter().try_for_each(|(what, text)| text.iter().try_for_each(|text| word(what, text)))?;
        self.tags.iter().try_for_each(|tag| word("a tag", tag))?;
        if self.tags.len() > MOST_TAGS {
            return Err(Problem::invalid(format!(
                "{} tags are too many: {MOST_TAGS} are allowed",
                self.tags.len()
            )));
        }
        let delay = self.delay.map(|delay| span("the delay", delay)).transpose()?;
        let timeout = self.timeout.map(|timeout| span("the timeout", timeout)).transpose()?;
        let mut start = client.start_by_name(&self.workflow, self.input);
        start = self.key.into_iter().fold(start, Start::key);
        start = self.queue.into_iter().fold(start, Start::queue);
        start = self.queue_key.into_iter().fold(start, Start::queue_key);
        start = self.priority.into_iter().fold(start, Start::priority);
        start = delay.into_iter().fold(start, Start::delay);
        start = self.context.map(Value::Object).into_iter().fold(start, Start::context);
        start = timeout.into_iter().fold(start, Start::timeout);
        Ok(self.tags.into_iter().fold(start, Start::tag))
    }
}
