//! The graph of a workflow, to be drawn.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass::{Definition, to_json};

/// The graph of a workflow: its tasks, or the states of a machine, and what leads from one to another.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Graph {
    nodes: Vec<GraphNode>,
    edges: Vec<Edge>,
}

/// A task, or a state of a machine.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = GraphNode)]
struct GraphNode {
    name: String,
    kind: NodeKind,
    /// How many tasks stand before it on the longest way to it; zero for a state.
    level: usize,
    /// When it runs, in words, unless it is as soon as all that it needs has completed.
    rule: Option<String>,
    /// Whose elements it runs once for each of.
    for_each: Option<String>,
    /// How many attempts it has.
    attempts: Option<u32>,
    /// Whether it gives the run's output, or ends the machine.
    is_output: bool,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum NodeKind {
    Task,
    State,
}

/// What leads from one node to another.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
struct Edge {
    from: String,
    to: String,
    /// The rule that names the first, in words.
    rule: Option<String>,
}

impl Graph {
    pub(crate) fn of(definition: &Definition) -> Self {
        match &definition.chart {
            Some(chart) => Self {
                nodes: chart
                    .states
                    .iter()
                    .map(|state| GraphNode::state(&state.name, state.is_terminal))
                    .collect(),
                edges: chart
                    .states
                    .iter()
                    .flat_map(|state| state.to.iter().map(|to| Edge::plain(&state.name, to)))
                    .collect(),
            },
            None => Self::of_tasks(definition),
        }
    }

    fn of_tasks(definition: &Definition) -> Self {
        let drawn: Drawn = serde_json::from_value(to_json(definition)).expect("the engine draws tasks so");
        let output = drawn.output;
        let node = |task: DrawnTask| GraphNode {
            is_output: output.as_deref() == Some(&task.name),
            name: task.name,
            kind: NodeKind::Task,
            level: task.level,
            rule: task.rule,
            for_each: task.for_each.map(|each| each.over),
            attempts: Some(task.attempts),
        };
        Self { nodes: drawn.tasks.into_iter().map(node).collect(), edges: drawn.edges }
    }
}

impl GraphNode {
    fn state(name: &str, is_output: bool) -> Self {
        let name = name.to_owned();
        Self { name, kind: NodeKind::State, level: 0, rule: None, for_each: None, attempts: None, is_output }
    }
}

impl Edge {
    fn plain(from: &str, to: &str) -> Self {
        Self { from: from.to_owned(), to: to.to_owned(), rule: None }
    }
}

/// A workflow as the engine draws it for programs.
#[derive(Deserialize)]
struct Drawn {
    output: Option<String>,
    tasks: Vec<DrawnTask>,
    edges: Vec<Edge>,
}

#[derive(Deserialize)]
struct DrawnTask {
    name: String,
    level: usize,
    rule: Option<String>,
    for_each: Option<DrawnEach>,
    attempts: u32,
}

#[derive(Deserialize)]
struct DrawnEach {
    over: String,
}
