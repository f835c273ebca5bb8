//! What was changed, by whom.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Query, State, rejection::QueryRejection},
};
use serde::Serialize;
use utoipa::ToSchema;

use super::Answer;
use crate::{
    Problem,
    audit::{Audit, Line, Place},
    filter::{once, page},
    view::instant,
};

/// Some of the changes, newest first.
#[derive(Serialize, ToSchema)]
pub(crate) struct ChangePage {
    changes: Vec<Change>,
    /// What to give as `after` for the page that follows; null on the last.
    next: Option<String>,
}

/// A change that somebody made, or wanted to make.
#[derive(Serialize, ToSchema)]
pub(crate) struct Change {
    #[schema(format = DateTime)]
    at: String,
    /// The name of a key, or of a user that the program knows. Null where nobody is asked.
    who: Option<String>,
    /// The address that it came from, if it is known.
    from: Option<String>,
    /// The `operationId` of what was asked.
    what: String,
    /// What it was done to.
    on: Option<String>,
    /// What it was answered with; zero when the connection broke off.
    status: u16,
    /// The code of the problem that there was; `broken_off` when nobody waited for the answer.
    problem: Option<String>,
}

impl From<Line> for Change {
    fn from(line: Line) -> Self {
        let Line { at, who, from, what, on, status, problem } = line;
        Self { at: instant(at), who, from, what, on, status, problem }
    }
}

/// Lists what was changed through this API and the command line, newest first: the last 65,000 changes at least.
#[utoipa::path(
    get, path = "/api/v1/audit", tag = "audit", operation_id = "list_changes", security(("key" = ["admin"])),
    params(
        ("after" = Option<String>, Query, description = "The `next` of the page before"),
        ("limit" = Option<u16>, Query, minimum = 1, maximum = 500, description = "How many at most; 100 by default"),
    ),
    responses(
        (status = 200, body = ChangePage),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn list(
    State(audit): State<Arc<Audit>>,
    query: Result<Query<Vec<(String, String)>>, QueryRejection>,
) -> Answer<ChangePage> {
    let Query(query) = query.map_err(|why| Problem::malformed("malformed_query", why.body_text()))?;
    let (mut after, mut limit) = (None, None);
    for (name, value) in query {
        match &*name {
            "after" => once(&name, &mut after, place(&value)?)?,
            "limit" => once(&name, &mut limit, page(&value)?)?,
            _ => {
                let detail = format!("`{}` is unknown: there are after and limit", name.escape_debug());
                return Err(Problem::malformed("malformed_query", detail));
            }
        }
    }
    let limit = limit.unwrap_or(100);
    let mut found = audit.list(after, limit + 1).await?;
    let more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().filter(|_| more).map(|(Place(place), _)| place.to_string());
    Ok(Json(ChangePage { changes: found.into_iter().map(|(_, line)| line.into()).collect(), next }))
}

fn place(text: &str) -> Result<Place, Problem> {
    let malformed = |_| Problem::malformed("malformed_id", "`after` is not the `next` of a page");
    text.parse().map(Place).map_err(malformed)
}
