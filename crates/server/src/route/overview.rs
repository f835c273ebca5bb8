//! How the database does as a whole.

use axum::{Json, extract::State};
use serde::Serialize;
use utoipa::ToSchema;
use windlass::{Client, Minute};

use super::{
    Answer,
    health::{NodeCount, count_nodes},
};
use crate::view::{Count, instant};

/// How the database does as a whole.
#[derive(Serialize, ToSchema)]
pub(crate) struct Overview {
    /// How many runs there are, by state.
    states: Vec<Count>,
    series: Series,
    /// Every queue in which runs wait or are under way, by name, whether or not it was declared.
    queues: Vec<QueueLoad>,
    /// How many seconds late the run is that should have gone on first of those that wait for a time; 0 when none is late.
    lateness_s: f64,
    nodes: NodeCount,
}

/// The last hour, minute by minute.
#[derive(Serialize, ToSchema)]
struct Series {
    /// How many seconds each point stands for.
    step_s: u64,
    /// The oldest first. The last has not passed yet.
    points: Vec<Point>,
}

/// What happened in a minute.
#[derive(Serialize, ToSchema)]
struct Point {
    /// When it began.
    #[schema(format = DateTime)]
    at: String,
    /// How many runs began.
    started: u64,
    /// How many runs completed.
    completed: u64,
    /// How many runs failed or were abandoned.
    failed: u64,
}

impl From<Minute> for Point {
    fn from(minute: Minute) -> Self {
        let Minute { at, started, completed, failed } = minute;
        Self { at: instant(at), started, completed, failed }
    }
}

/// What is in a queue.
#[derive(Serialize, ToSchema)]
struct QueueLoad {
    name: String,
    /// How many of its runs could begin, or go on, but for limits and room.
    waiting: u64,
    /// How many of its runs are under way.
    running: u64,
    /// For how many seconds the one of those that wait could have begun that was started first.
    oldest_s: Option<f64>,
}

impl From<windlass::QueueLoad> for QueueLoad {
    fn from(queue: windlass::QueueLoad) -> Self {
        Self {
            name: queue.name.to_string(),
            waiting: queue.waiting,
            running: queue.running,
            oldest_s: queue.oldest.map(|oldest| oldest.as_secs_f64()),
        }
    }
}

/// Says how the database does as a whole: how many runs there are, what happened in the last hour, and what waits.
#[utoipa::path(
    get, path = "/api/v1/overview", tag = "overview", operation_id = "overview",
    responses((status = 200, body = Overview)),
)]
pub(crate) async fn overview(State(client): State<Client>) -> Answer<Overview> {
    let overview = client.overview().await?;
    let nodes = client.nodes().await?;
    Ok(Json(Overview {
        states: overview.states.into_iter().map(Into::into).collect(),
        series: Series {
            step_s: Minute::SPAN.as_secs(),
            points: overview.series.into_iter().map(Into::into).collect(),
        },
        queues: overview.queues.into_iter().map(Into::into).collect(),
        lateness_s: overview.lateness.as_secs_f64(),
        nodes: count_nodes(&nodes, client.now()),
    }))
}
