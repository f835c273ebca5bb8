//! What workflows there are.

use axum::{
    Json,
    extract::{Query, State, rejection::QueryRejection},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use windlass::{Client, Error, KnownWorkflow};

use super::Answer;
use crate::{
    Problem,
    arrival::{NamePath, word},
    view::Graph,
};

/// How many versions of a workflow are shown.
const SHOWN: usize = 100;

/// The workflows that engines have brought to the database.
#[derive(Serialize, ToSchema)]
pub(crate) struct WorkflowList {
    workflows: Vec<WorkflowLine>,
}

/// A workflow, in the version that came last.
#[derive(Serialize, ToSchema)]
pub(crate) struct WorkflowLine {
    name: String,
    version: String,
    description: Option<String>,
    /// How many tasks it has.
    tasks: usize,
}

impl From<KnownWorkflow> for WorkflowLine {
    fn from(known: KnownWorkflow) -> Self {
        Self {
            name: known.name().to_owned(),
            version: known.version().to_owned(),
            description: known.definition.description.clone(),
            tasks: known.definition.tasks.len(),
        }
    }
}

/// Lists the workflows that engines have brought to this database, by name.
#[utoipa::path(
    get, path = "/api/v1/workflows", tag = "workflows", operation_id = "list_workflows",
    responses((status = 200, body = WorkflowList)),
)]
pub(crate) async fn list(State(client): State<Client>) -> Answer<WorkflowList> {
    let known = client.workflows().list().await?;
    Ok(Json(WorkflowList { workflows: known.into_iter().map(Into::into).collect() }))
}

/// A workflow, with the graph of one version.
#[derive(Serialize, ToSchema)]
pub(crate) struct WorkflowView {
    name: String,
    /// The version that is shown.
    version: String,
    description: Option<String>,
    /// The last hundred versions that there were, newest first.
    versions: Vec<Version>,
    graph: Graph,
    /// The graph for Mermaid.
    mermaid: String,
    /// The graph for Graphviz.
    dot: String,
    /// What the input of its runs looks like, as a JSON schema; null if nobody has said so. Nothing is checked against it.
    input_schema: Option<Value>,
}

/// A version of a workflow.
#[derive(Serialize, ToSchema)]
pub(crate) struct Version {
    /// Greater for a version that came later.
    id: i64,
    version: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Which {
    version: Option<String>,
}

/// Shows a workflow: its versions, and the graph of the newest or of the one that is asked for.
#[utoipa::path(
    get, path = "/api/v1/workflows/{name}", tag = "workflows", operation_id = "show_workflow",
    params(
        ("name" = String, Path, description = "The workflow"),
        ("version" = Option<String>, Query, description = "The version; the newest by default"),
    ),
    responses(
        (status = 200, body = WorkflowView),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn show(
    State(client): State<Client>,
    NamePath(name): NamePath,
    query: Result<Query<Which>, QueryRejection>,
) -> Answer<WorkflowView> {
    let Query(Which { version }) =
        query.map_err(|why| Problem::malformed("malformed_query", why.body_text()))?;
    version.iter().try_for_each(|version| word("the version", version))?;
    let mut known = client.workflows().versions(&name, SHOWN).await?;
    if known.is_empty() {
        known.push(client.workflows().get(&name).await.map_err(unknown)?);
    }
    let asked = |one: &&KnownWorkflow| version.as_deref().is_none_or(|version| one.version() == version);
    let shown = known.iter().find(asked).ok_or_else(|| {
        let version = version.as_deref().unwrap_or_default().escape_debug();
        Problem::unknown("unknown_version", format!("workflow `{name}` has no version `{version}`"))
    })?;
    let version = |one: &KnownWorkflow| Version { id: one.id.0, version: one.version().to_owned() };
    let input_schema = client.workflows().input_schema(&name).await?;
    Ok(Json(WorkflowView {
        input_schema,
        version: shown.version().to_owned(),
        description: shown.definition.description.clone(),
        graph: Graph::of(&shown.definition),
        mermaid: shown.to_mermaid(),
        dot: shown.to_dot(),
        versions: known.iter().map(version).collect(),
        name,
    }))
}

/// That there is no workflow of this name, and which one may be meant.
pub(super) fn unknown(error: Error) -> Problem {
    let Error::UnknownWorkflow { name, nearest } = error else { return error.into() };
    let hint = nearest.map(|nearest| format!("; did you mean `{nearest}`?")).unwrap_or_default();
    let detail = format!("no engine has brought workflow `{}`{hint}", name.escape_debug());
    Problem::unknown("unknown_workflow", detail)
}
