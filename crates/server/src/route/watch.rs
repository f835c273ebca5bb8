//! What happens to a run, as it happens.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use axum::{
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{
        IntoResponse, Response, Sse,
        sse::{Event, KeepAlive},
    },
};
use futures_core::Stream;
use serde::Serialize;
use utoipa::ToSchema;
use windlass::{Client, Run, RunId, Time, Update, Watch};

use crate::{
    Problem,
    arrival::RunPath,
    view::{self, Failure, Outcome, Verdict, instant},
};

/// What the id of the last event begins with. The time of the end follows.
const END: &str = "end.";

/// What a run is now: the data of the event `state`.
#[derive(Serialize, ToSchema)]
pub(crate) struct StateUpdate {
    state: view::State,
}

/// A step that was recorded: the data of the event `step`.
#[derive(Serialize, ToSchema)]
pub(crate) struct StepUpdate {
    /// The task's name, with the element's place in a `for_each`; or that of what a durable function called.
    name: String,
    /// Which attempt; zero for a task that was skipped.
    attempt: u32,
    outcome: Outcome,
    #[schema(format = DateTime)]
    started_at: String,
    #[schema(format = DateTime)]
    ended_at: String,
    failure: Option<Failure>,
}

/// How a run ended: the data of the event `ended`. Nothing follows.
#[derive(Serialize, ToSchema)]
pub(crate) struct EndUpdate {
    state: view::State,
    #[schema(format = DateTime)]
    ended_at: String,
    verdict: Option<Verdict>,
}

/// Follows a run from its beginning to its end, as server-sent events: `state`, `step` and `ended`, and `problem` when it
/// can be followed no longer.
///
/// Whoever is cut off sends the id of the last event again, and gets what came after it. (The state is said again.)
#[utoipa::path(
    get, path = "/api/v1/runs/{id}/watch", tag = "runs", operation_id = "watch_run",
    params(
        ("id" = String, Path, format = Uuid, description = "The run"),
        ("last-event-id" = Option<String>, Header, description = "The id of the last event that was seen"),
    ),
    responses(
        (status = 200, description = "Events", content(
            (StateUpdate = "text/event-stream"), (StepUpdate = "text/event-stream"), (EndUpdate = "text/event-stream"),
        )),
        (status = 204, description = "The end was seen, and nothing has happened since: ask no more"),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn watch(
    State(client): State<Client>,
    RunPath(run): RunPath,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let run = client.find_run(run).await?;
    let updates = match last_seen(&headers)? {
        Seen::Nothing => run.watch(),
        Seen::Step(mark) => run.watch_after(mark),
        Seen::End(at) if run.status().await?.ended_at == Some(at) => {
            return Ok(StatusCode::NO_CONTENT.into_response());
        }
        // It was opened again.
        Seen::End(_) => run.watch(),
    };
    Ok(Sse::new(Events::new(&run, updates)).keep_alive(KeepAlive::default()).into_response())
}

/// What a watcher has seen before.
enum Seen {
    Nothing,
    Step(windlass::Mark),
    End(Time),
}

fn last_seen(headers: &HeaderMap) -> Result<Seen, Problem> {
    let Some(id) = headers.get("last-event-id").filter(|id| !id.is_empty()) else { return Ok(Seen::Nothing) };
    let malformed = || Problem::malformed("malformed_id", "`last-event-id` is not the id of an event");
    let id = id.to_str().map_err(|_| malformed())?;
    match id.strip_prefix(END) {
        Some(at) => at.parse().map(|at| Seen::End(Time(at))).map_err(|_| malformed()),
        None => id.parse().map(Seen::Step).map_err(|_| malformed()),
    }
}

/// The updates of a run as events.
struct Events {
    run: RunId,
    workflow: String,
    updates: Watch,
}

impl Events {
    fn new<O>(run: &Run<O>, updates: Watch) -> Self {
        Self { run: run.id(), workflow: run.workflow().to_owned(), updates }
    }

    fn event(&self, update: Update) -> Event {
        match update {
            Update::Step { mark, name, attempt, kind, started_at, at, failure } => {
                let step = StepUpdate {
                    name: name.to_string(),
                    attempt,
                    outcome: kind.into(),
                    started_at: instant(started_at),
                    ended_at: instant(at),
                    failure: failure.map(Into::into),
                };
                named("step", &step).id(mark.to_string())
            }
            Update::Ended { state, at, verdict } => {
                let verdict = verdict.map(|verdict| Verdict::new(self.run, &self.workflow, verdict));
                let end = EndUpdate { state: state.into(), ended_at: instant(at), verdict };
                named("ended", &end).id(format!("{END}{}", at.0))
            }
            Update::State(state) => named("state", &StateUpdate { state: state.into() }),
            // A kind that is newer than this server.
            _ => Event::default().comment("something else happened"),
        }
    }
}

impl Stream for Events {
    type Item = Result<Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let update = Pin::new(&mut self.updates).poll_next(cx);
        update.map(|update| {
            let event = match update? {
                Ok(update) => self.event(update),
                Err(error) => named("problem", &Problem::from(error)),
            };
            Some(Ok(event))
        })
    }
}

fn named(name: &str, data: &impl Serialize) -> Event {
    // JSON is written without line breaks, which an event could not carry.
    Event::default().event(name).data(serde_json::to_string(data).expect("the server's own types are JSON"))
}
