//! Queues that were declared.

use axum::{Json, extract::State, http::StatusCode};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass::{Client, QueueChanged, QueueSetup, QueueStatus};

use super::{Answer, steering::Nothing};
use crate::{
    Problem,
    arrival::{NamePath, Sent, span},
};

/// The queues that were declared, by name.
#[derive(Serialize, ToSchema)]
pub(crate) struct QueueList {
    queues: Vec<Queue>,
}

/// A queue that was declared, and what is in it.
#[derive(Serialize, ToSchema)]
pub(crate) struct Queue {
    name: String,
    limits: Limits,
    /// Whether nothing of it begins.
    paused: bool,
    /// How many of its runs could begin, or go on, but for limits and room.
    depth: u64,
    /// For how many seconds the one of them that was started first could have begun.
    oldest: Option<f64>,
    /// How many of its runs are under way.
    running: u64,
    /// How many of its runs ended, and of its spread tasks were executed, in the last minute.
    ended_per_minute: u64,
}

/// How much of a queue may be under way, over all processes. What is not given is not limited.
#[derive(Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Limits {
    /// How many of its runs at once.
    #[schema(minimum = 1)]
    concurrency: Option<u32>,
    /// How many of them in one process.
    #[schema(minimum = 1)]
    per_node: Option<u32>,
    /// How many of them with the same queue key.
    #[schema(minimum = 1)]
    per_key: Option<u32>,
    /// How many may begin in a span of time.
    rate: Option<Rate>,
    /// How many with the same queue key may begin in a span of time.
    key_rate: Option<Rate>,
    /// After how many seconds of waiting a run is more urgent by one step of priority.
    ageing: Option<f64>,
    /// Whether a run that began counts until it ends, also while it is parked.
    hold: bool,
}

/// So many in any span of this length.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Rate {
    #[schema(minimum = 1)]
    count: u32,
    /// In seconds.
    per: f64,
}

impl From<windlass::Rate> for Rate {
    fn from(rate: windlass::Rate) -> Self {
        Self { count: rate.count, per: rate.per.as_secs_f64() }
    }
}

impl From<QueueStatus> for Queue {
    fn from(queue: QueueStatus) -> Self {
        let limits = queue.limits;
        Self {
            name: queue.name.to_string(),
            limits: Limits {
                concurrency: limits.concurrency,
                per_node: limits.per_node,
                per_key: limits.per_key,
                rate: limits.rate.map(Into::into),
                key_rate: limits.key_rate.map(Into::into),
                ageing: limits.ageing.map(|step| step.as_secs_f64()),
                hold: limits.hold,
            },
            paused: queue.paused,
            depth: queue.depth,
            oldest: queue.oldest.map(|oldest| oldest.as_secs_f64()),
            running: queue.running,
            ended_per_minute: queue.ended_per_minute,
        }
    }
}

impl Limits {
    fn setup(self, client: &Client, name: String) -> Result<QueueSetup, Problem> {
        let mut setup = client.queue(name);
        setup = self.concurrency.into_iter().fold(setup, QueueSetup::concurrency);
        setup = self.per_node.into_iter().fold(setup, QueueSetup::per_node);
        setup = self.per_key.into_iter().fold(setup, QueueSetup::per_key);
        if let Some(Rate { count, per }) = self.rate {
            setup = setup.rate(count, span("the span of the rate", per)?);
        }
        if let Some(Rate { count, per }) = self.key_rate {
            setup = setup.key_rate(count, span("the span of the rate of keys", per)?);
        }
        if let Some(step) = self.ageing {
            setup = setup.ageing(span("the ageing", step)?);
        }
        Ok(if self.hold { setup.hold() } else { setup })
    }
}

/// What a change of a queue did.
#[derive(Serialize, ToSchema)]
pub(crate) struct QueueChange {
    outcome: QueueOutcome,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum QueueOutcome {
    Created,
    Unchanged,
    Updated,
}

impl From<QueueChanged> for QueueChange {
    fn from(changed: QueueChanged) -> Self {
        let outcome = match changed {
            QueueChanged::Created => QueueOutcome::Created,
            QueueChanged::Unchanged => QueueOutcome::Unchanged,
            QueueChanged::Updated => QueueOutcome::Updated,
        };
        Self { outcome }
    }
}

fn unknown(name: &str) -> Problem {
    let detail =
        format!("no queue `{}` was declared: it has no limits, and is not paused", name.escape_debug());
    Problem::unknown("unknown_queue", detail)
}

/// Lists the queues that were declared. Others have no limits.
#[utoipa::path(
    get, path = "/api/v1/queues", tag = "queues", operation_id = "list_queues",
    responses((status = 200, body = QueueList)),
)]
pub(crate) async fn list(State(client): State<Client>) -> Answer<QueueList> {
    let queues = client.queues().list().await?;
    Ok(Json(QueueList { queues: queues.into_iter().map(Into::into).collect() }))
}

/// Shows a queue that was declared.
#[utoipa::path(
    get, path = "/api/v1/queues/{name}", tag = "queues", operation_id = "show_queue",
    params(("name" = String, Path, description = "The queue")),
    responses(
        (status = 200, body = Queue),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn show(State(client): State<Client>, NamePath(name): NamePath) -> Answer<Queue> {
    let queue = client.queues().get(name.as_str()).await?;
    queue.map(|queue| Json(queue.into())).ok_or_else(|| unknown(&name))
}

/// Sets all limits of a queue, and declares it if it was not. A limit that is not given is none.
#[utoipa::path(
    put, path = "/api/v1/queues/{name}", tag = "queues", operation_id = "declare_queue", security(("key" = ["admin"])),
    params(("name" = String, Path, description = "The queue")), request_body = Limits,
    responses(
        (status = 200, body = QueueChange),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn declare(
    State(client): State<Client>,
    NamePath(name): NamePath,
    Sent(limits): Sent<Limits>,
) -> Answer<QueueChange> {
    Ok(Json(limits.setup(&client, name)?.await?.into()))
}

/// Takes back all that was said of a queue: it has no limits, and is not paused.
#[utoipa::path(
    delete, path = "/api/v1/queues/{name}", tag = "queues", operation_id = "remove_queue", security(("key" = ["admin"])),
    params(("name" = String, Path, description = "The queue")),
    responses((status = 204), (status = "4XX", body = Problem, content_type = "application/problem+json")),
)]
pub(crate) async fn remove(
    State(client): State<Client>,
    NamePath(name): NamePath,
) -> Result<StatusCode, Problem> {
    match client.queues().remove(name.as_str()).await? {
        QueueChanged::Unchanged => Err(unknown(&name)),
        _ => Ok(StatusCode::NO_CONTENT),
    }
}

/// Lets nothing of a queue begin. What has begun goes on.
#[utoipa::path(
    post, path = "/api/v1/queues/{name}/pause", tag = "queues", operation_id = "pause_queue",
    params(("name" = String, Path, description = "The queue")), request_body = Nothing,
    responses(
        (status = 200, body = QueueChange),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn pause(
    State(client): State<Client>,
    NamePath(name): NamePath,
    Sent(Nothing {}): Sent<Nothing>,
) -> Answer<QueueChange> {
    Ok(Json(client.queues().pause(name).await?.into()))
}

/// Lets the runs of a paused queue begin again.
#[utoipa::path(
    post, path = "/api/v1/queues/{name}/resume", tag = "queues", operation_id = "resume_queue",
    params(("name" = String, Path, description = "The queue")), request_body = Nothing,
    responses(
        (status = 200, body = QueueChange),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn resume(
    State(client): State<Client>,
    NamePath(name): NamePath,
    Sent(Nothing {}): Sent<Nothing>,
) -> Answer<QueueChange> {
    Ok(Json(client.queues().resume(name).await?.into()))
}
