//! How workflows have done of late.

use axum::{
    Json,
    extract::{Query, State, rejection::QueryRejection},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass::{Client, GridRun, TaskPast};

use super::{Answer, workflows::unknown};
use crate::{
    Problem,
    arrival::NamePath,
    view::{self, Stage, instant},
};

/// How many runs a grid has if nobody says so, and at most.
const ROWS: usize = 50;
const MOST_ROWS: usize = 200;

/// How the latest runs of a workflow that have ended have done.
#[derive(Serialize, ToSchema)]
pub(crate) struct Statistics {
    workflow: String,
    /// How many runs were looked at: the latest, and not all.
    runs: usize,
    /// How many of them failed or were abandoned.
    failed: usize,
    /// The share of them that failed, from 0 to 1; null when there are none.
    failure_share: Option<f64>,
    /// How long those took that completed; null when there are none.
    duration: Option<Spread>,
    /// Each task, or what a durable function called.
    tasks: Vec<TaskStatistics>,
}

/// How a task has done in these runs.
#[derive(Serialize, ToSchema)]
struct TaskStatistics {
    name: String,
    /// In how many runs it executed.
    runs: usize,
    /// In how many of them it failed.
    failed: usize,
    /// In how many of them it needed more than one attempt.
    retried: usize,
    failure_share: Option<f64>,
    /// How long it took where it completed, from its first attempt to the end of its last.
    duration: Option<Spread>,
}

/// How many seconds half of them took at most, nine in ten, and ninety-nine in a hundred.
#[derive(Serialize, ToSchema)]
struct Spread {
    p50: f64,
    p90: f64,
    p99: f64,
}

impl From<windlass::Spread> for Spread {
    fn from(spread: windlass::Spread) -> Self {
        let [p50, p90, p99] = [spread.p50, spread.p90, spread.p99].map(|span| span.as_secs_f64());
        Self { p50, p90, p99 }
    }
}

fn share(failed: usize, of: usize) -> Option<f64> {
    (of > 0).then(|| failed as f64 / of as f64)
}

/// Says how the latest runs of a workflow that have ended have done: how many failed, and how long they and their tasks took.
#[utoipa::path(
    get, path = "/api/v1/workflows/{name}/statistics", tag = "workflows", operation_id = "workflow_statistics",
    params(("name" = String, Path, description = "The workflow")),
    responses(
        (status = 200, body = Statistics),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn statistics(
    State(client): State<Client>,
    NamePath(workflow): NamePath,
) -> Answer<Statistics> {
    let statistics = client.workflows().statistics(&workflow).await.map_err(unknown)?;
    let tasks = statistics.tasks.into_iter().map(|task| TaskStatistics {
        name: task.task.to_string(),
        runs: task.runs,
        failed: task.failed,
        retried: task.retried,
        failure_share: share(task.failed, task.runs),
        duration: task.duration.map(Into::into),
    });
    Ok(Json(Statistics {
        workflow,
        runs: statistics.runs,
        failed: statistics.failed,
        failure_share: share(statistics.failed, statistics.runs),
        duration: statistics.duration.map(Into::into),
        tasks: tasks.collect(),
    }))
}

/// The latest runs of a workflow by its tasks.
#[derive(Serialize, ToSchema)]
pub(crate) struct Grid {
    workflow: String,
    tasks: Vec<GridTask>,
    /// Newest first.
    runs: Vec<Row>,
}

/// A task, or what a durable function called.
#[derive(Serialize, ToSchema)]
struct GridTask {
    name: String,
    /// Whether it needed more than one attempt in any of these runs, or completed in some and failed in others.
    flaky: bool,
}

/// A run in the grid.
#[derive(Serialize, ToSchema)]
struct Row {
    #[schema(format = Uuid)]
    id: String,
    state: view::State,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    ended_at: Option<String>,
    /// What became of the tasks, in their order; null for one of which nothing is recorded.
    cells: Vec<Option<GridCell>>,
}

/// What became of a task in a run.
#[derive(Serialize, ToSchema)]
struct GridCell {
    state: Stage,
    /// How many attempts it needed; of the elements of a `for_each`, the one that needed most.
    attempts: u32,
    /// How many seconds lie between its first attempt and the end of its last.
    duration: f64,
    #[schema(format = DateTime)]
    started_at: String,
}

impl From<TaskPast> for GridCell {
    fn from(past: TaskPast) -> Self {
        Self {
            state: past.state.into(),
            attempts: past.attempts,
            duration: past.took().as_secs_f64(),
            started_at: instant(past.started_at),
        }
    }
}

impl From<GridRun> for Row {
    fn from(run: GridRun) -> Self {
        Self {
            id: run.id.to_string(),
            state: run.state.into(),
            created_at: instant(run.created_at),
            ended_at: run.ended_at.map(instant),
            cells: run.cells.into_iter().map(|cell| cell.map(Into::into)).collect(),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Size {
    limit: Option<usize>,
}

/// Shows the latest runs of a workflow by its tasks, and marks those that fail now and then.
#[utoipa::path(
    get, path = "/api/v1/workflows/{name}/grid", tag = "workflows", operation_id = "workflow_grid",
    params(
        ("name" = String, Path, description = "The workflow"),
        ("limit" = Option<u16>, Query, minimum = 1, maximum = 200, description = "How many runs at most; 50 by default"),
    ),
    responses(
        (status = 200, body = Grid),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn grid(
    State(client): State<Client>,
    NamePath(workflow): NamePath,
    query: Result<Query<Size>, QueryRejection>,
) -> Answer<Grid> {
    let Query(Size { limit }) =
        query.map_err(|why| Problem::malformed("malformed_query", why.body_text()))?;
    let limit = limit.unwrap_or(ROWS);
    if !(1..=MOST_ROWS).contains(&limit) {
        let detail = format!("`limit` must be a number from 1 to {MOST_ROWS}");
        return Err(Problem::malformed("malformed_range", detail));
    }
    let grid = client.workflows().grid(&workflow, limit).await.map_err(unknown)?;
    let task = |task: windlass::GridTask| GridTask { name: task.name.to_string(), flaky: task.flaky };
    Ok(Json(Grid {
        workflow,
        tasks: grid.tasks.into_iter().map(task).collect(),
        runs: grid.runs.into_iter().map(Into::into).collect(),
    }))
}
