//! What is wrong, and what to do.

use axum::{Json, extract::State};
use serde::Serialize;
use utoipa::ToSchema;
use windlass::{Client, Error, RunState, Time, store::NodeRow};

use super::{Answer, nodes::NodeHealth};
use crate::{
    Problem,
    view::{ScheduleState, instant},
};

/// How many blocked runs are counted.
const COUNTED: usize = 100;

/// Whether all is well.
#[derive(Serialize, ToSchema)]
pub(crate) struct Health {
    /// Whether nothing is wrong.
    ok: bool,
    nodes: NodeCount,
    /// What is wrong and what to do, one sentence each.
    wrong: Vec<String>,
}

/// How many processes run an engine.
#[derive(Serialize, ToSchema)]
pub(super) struct NodeCount {
    pub(super) alive: usize,
    /// Those that have not been heard of for too long.
    pub(super) stale: usize,
    /// Those that were declared dead, and whose runs are being taken over.
    pub(super) dead: usize,
}

/// Says whether the database can be reached, and what is wrong in it, in words.
#[utoipa::path(
    get, path = "/api/v1/health", tag = "health", operation_id = "health",
    responses(
        (status = 200, body = Health, description = "The database was asked; `wrong` says what to look at"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "The database cannot be used"),
    ),
)]
pub(crate) async fn health(State(client): State<Client>) -> Answer<Health> {
    let (rows, now) = (client.nodes().await?, client.now());
    let nodes = count_nodes(&rows, now);
    let mut wrong = Vec::new();
    if nodes.alive == 0 {
        wrong.push("no process runs an engine on this database: start one".to_owned());
    }
    let silent = rows.iter().filter(|node| NodeHealth::of(node, now) != NodeHealth::Alive);
    wrong.extend(silent.map(silence));
    wrong.extend(blocked(&client).await?);
    wrong.extend(queues(&client).await?);
    wrong.extend(schedules(&client).await?);
    wrong.extend(triggers(&client).await?);
    Ok(Json(Health { ok: wrong.is_empty(), nodes, wrong }))
}

pub(super) fn count_nodes(rows: &[NodeRow], now: Time) -> NodeCount {
    let count = |health| rows.iter().filter(|node| NodeHealth::of(node, now) == health).count();
    NodeCount {
        alive: count(NodeHealth::Alive),
        stale: count(NodeHealth::Stale),
        dead: count(NodeHealth::Dead),
    }
}

fn silence(node: &NodeRow) -> String {
    let NodeRow { pid, host, heartbeat_at, .. } = node;
    let name = node.name.as_ref().map(|name| format!(" `{name}`")).unwrap_or_default();
    format!(
        "process{name} (pid {pid} on {host}) was last heard of at {}: its runs go to others once it counts as dead",
        instant(*heartbeat_at)
    )
}

async fn blocked(client: &Client) -> Result<Option<String>, Error> {
    let page = client.runs().state(RunState::Blocked).limit(COUNTED).page().await?;
    let more = if page.more { "more than " } else { "" };
    let count = page.runs.len();
    Ok((count > 0).then(|| {
        format!(
            "{more}{count} runs are blocked: start a process whose code can continue them, or cancel them; each run says why"
        )
    }))
}

async fn queues(client: &Client) -> Result<Vec<String>, Error> {
    let queues = client.queues().list().await?.into_iter().filter(|queue| queue.paused && queue.depth > 0);
    let told = queues.map(|queue| {
        format!(
            "queue `{}` is paused, and {} runs wait in it: resume it when they may begin",
            queue.name, queue.depth
        )
    });
    Ok(told.collect())
}

async fn schedules(client: &Client) -> Result<Vec<String>, Error> {
    let schedules = client.schedules().list().await?.into_iter();
    Ok(schedules.filter_map(|one| trouble("schedule", &one.name, one.trouble, one.status.into())).collect())
}

async fn triggers(client: &Client) -> Result<Vec<String>, Error> {
    let triggers = client.triggers().list().await?.into_iter();
    Ok(triggers.filter_map(|one| trouble("trigger", &one.name, one.trouble, one.status.into())).collect())
}

fn trouble(what: &str, name: &str, trouble: Option<String>, state: ScheduleState) -> Option<String> {
    match (trouble, state) {
        (Some(why), _) => Some(format!("{what} `{name}` could not do its work, and tries again: {why}")),
        (None, ScheduleState::Tripped { streak, last_error }) => Some(format!(
            "{what} `{name}` has stopped after {streak} failures in a row, the last of which was: {last_error}; reset it to go on"
        )),
        (None, _) => None,
    }
}
