//! The processes that run engines.

use axum::{Json, extract::State};
use serde::Serialize;
use utoipa::ToSchema;
use windlass::{Client, Time, store::NodeRow};

use super::Answer;
use crate::view::instant;

/// The processes that run an engine on the database.
#[derive(Serialize, ToSchema)]
pub(crate) struct NodeList {
    nodes: Vec<Node>,
}

/// A process that runs an engine.
#[derive(Serialize, ToSchema)]
pub(crate) struct Node {
    #[schema(format = Uuid)]
    id: String,
    name: Option<String>,
    pid: u32,
    host: String,
    /// The version of its program, as it says.
    version: String,
    /// The queues it serves.
    queues: Vec<String>,
    health: NodeHealth,
    /// How many runs it held when it last said so.
    running: u32,
    #[schema(format = DateTime)]
    started_at: String,
    #[schema(format = DateTime)]
    heartbeat_at: String,
    /// After how many seconds without a heartbeat it may be declared dead.
    stale_after: f64,
}

/// Whether a process lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum NodeHealth {
    /// It said so lately.
    Alive,
    /// It has not said so for too long.
    Stale,
    /// Others declared it dead, and its runs are taken over.
    Dead,
}

impl NodeHealth {
    pub(super) fn of(node: &NodeRow, now: Time) -> Self {
        match node.dead {
            true => Self::Dead,
            false if now.since(node.heartbeat_at) > node.stale_after => Self::Stale,
            false => Self::Alive,
        }
    }
}

/// Lists the processes that run an engine on this database.
#[utoipa::path(
    get, path = "/api/v1/nodes", tag = "nodes", operation_id = "list_nodes",
    responses((status = 200, body = NodeList)),
)]
pub(crate) async fn list(State(client): State<Client>) -> Answer<NodeList> {
    let (nodes, now) = (client.nodes().await?, client.now());
    let shown = nodes.into_iter().map(|node| Node {
        health: NodeHealth::of(&node, now),
        id: node.id.to_string(),
        name: node.name,
        pid: node.pid,
        host: node.host,
        version: node.version,
        queues: node.queues,
        running: node.running,
        started_at: instant(node.started_at),
        heartbeat_at: instant(node.heartbeat_at),
        stale_after: node.stale_after.as_secs_f64(),
    });
    Ok(Json(NodeList { nodes: shown.collect() }))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use windlass::NodeId;

    use super::*;

    #[test]
    fn a_process_is_alive_until_it_was_silent_for_too_long() {
        let node = NodeRow {
            id: NodeId::new(),
            name: None,
            pid: 1,
            host: "here".into(),
            version: "1".into(),
            queues: Vec::new(),
            started_at: Time(0),
            heartbeat_at: Time(5_000_000),
            stale_after: Duration::from_secs(30),
            dead: false,
            running: 0,
            ended: Default::default(),
        };
        assert_eq!(NodeHealth::of(&node, Time(35_000_000)), NodeHealth::Alive);
        assert_eq!(NodeHealth::of(&node, Time(35_000_001)), NodeHealth::Stale);
        // A clock that is behind has not heard of it late.
        assert_eq!(NodeHealth::of(&node, Time(0)), NodeHealth::Alive);
        assert_eq!(NodeHealth::of(&NodeRow { dead: true, ..node }, Time(0)), NodeHealth::Dead);
    }
}
