//! Runs that other programs start by sending something, signed.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    body::Bytes,
    extract::State,
    http::{Extensions, HeaderMap, StatusCode},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use windlass::Client;

use super::{Answer, runs::StartedRun};
use crate::{
    KeyError, Problem,
    arrival::{NamePath, Sent, Whole, span, word},
    deed::Deed,
    door::Door,
    hooks::{self, Hooks, Signed, WINDOW},
    view::instant,
};

/// For how long the secrets before count when nothing is said.
const OVERLAP: Duration = Duration::from_secs(86_400);

/// The longest id of what is sent.
const LONGEST_ID: usize = 200;

/// All hooks, by name.
#[derive(Serialize, ToSchema)]
pub(crate) struct HookList {
    hooks: Vec<Hook>,
}

/// A way for another program to start a run.
#[derive(Serialize, ToSchema)]
pub(crate) struct Hook {
    name: String,
    /// The workflow that it starts.
    workflow: String,
    #[schema(format = DateTime)]
    created_at: String,
}

impl From<hooks::Hook> for Hook {
    fn from(hook: hooks::Hook) -> Self {
        Self { name: hook.name, workflow: hook.workflow, created_at: instant(hook.created_at) }
    }
}

/// Lists all hooks.
#[utoipa::path(
    get, path = "/api/v1/hooks", tag = "hooks", operation_id = "list_hooks", security(("key" = ["admin"])),
    responses(
        (status = 200, body = HookList),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn list(State(client): State<Client>) -> Answer<HookList> {
    let hooks = Hooks::new(&client).list().await?;
    Ok(Json(HookList { hooks: hooks.into_iter().map(Into::into).collect() }))
}

/// A hook to be made.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewHook {
    /// What it is called: 1 to 100 letters, digits, `.`, `-`, `_` or `@`.
    name: String,
    /// The workflow that it starts.
    workflow: String,
}

/// What a sender signs with.
#[derive(Serialize, ToSchema)]
pub(crate) struct HookSecret {
    /// It is not shown again.
    secret: String,
}

/// Makes a hook, and shows its secret this once.
#[utoipa::path(
    post, path = "/api/v1/hooks", tag = "hooks", operation_id = "create_hook", security(("key" = ["admin"])),
    request_body = NewHook,
    responses(
        (status = 201, body = HookSecret),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn create(
    State(client): State<Client>,
    State(door): State<Arc<Door>>,
    deed: Deed,
    Sent(new): Sent<NewHook>,
) -> Result<(StatusCode, Json<HookSecret>), Problem> {
    word("the workflow", &new.workflow)?;
    client.workflows().get(&new.workflow).await?;
    let secret = Hooks::new(&client).create(&new.name, &new.workflow).await.map_err(of_hook)?;
    deed.on(format!("{} ({})", new.name, new.workflow));
    door.forget().await;
    Ok((StatusCode::CREATED, Json(HookSecret { secret })))
}

/// A secret to be replaced.
#[derive(Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Rotation {
    /// For how many seconds the secrets before count. A day by default; none with 0.
    overlap: Option<f64>,
}

/// Makes a new secret for a hook, and shows it this once.
#[utoipa::path(
    post, path = "/api/v1/hooks/{name}/rotate", tag = "hooks", operation_id = "rotate_hook",
    security(("key" = ["admin"])),
    params(("name" = String, Path, description = "The hook")), request_body = Rotation,
    responses(
        (status = 200, body = HookSecret),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn rotate(
    State(client): State<Client>,
    State(door): State<Arc<Door>>,
    NamePath(name): NamePath,
    Sent(Rotation { overlap }): Sent<Rotation>,
) -> Answer<HookSecret> {
    let overlap = overlap.map_or(Ok(OVERLAP), |seconds| span("`overlap`", seconds))?;
    let secret = Hooks::new(&client).rotate(&name, overlap).await.map_err(of_hook)?;
    door.forget().await;
    Ok(Json(HookSecret { secret }))
}

/// Forgets a hook. Runs that it started go on.
#[utoipa::path(
    delete, path = "/api/v1/hooks/{name}", tag = "hooks", operation_id = "remove_hook", security(("key" = ["admin"])),
    params(("name" = String, Path, description = "The hook")),
    responses((status = 204), (status = "4XX", body = Problem, content_type = "application/problem+json")),
)]
pub(crate) async fn remove(
    State(client): State<Client>,
    State(door): State<Arc<Door>>,
    NamePath(name): NamePath,
) -> Result<StatusCode, Problem> {
    Hooks::new(&client).remove(&name).await.map_err(of_hook)?;
    door.forget().await;
    Ok(StatusCode::NO_CONTENT)
}

/// Starts a run with the body as its input, if it is signed with a secret of the hook. The same `webhook-id` is the same run.
#[utoipa::path(
    post, path = "/api/v1/hooks/{name}", tag = "hooks", operation_id = "call_hook", security(()),
    params(
        ("name" = String, Path, description = "The hook"),
        ("webhook-id" = String, Header, description = "What the sender calls it; at most 200 characters"),
        ("webhook-timestamp" = String, Header, description = "Seconds since 1970, at most five minutes from now"),
        ("webhook-signature" = String, Header, description = "`v1,` and the HMAC-SHA256 of id, timestamp and body in base64"),
    ),
    request_body = Value,
    responses(
        (status = 202, body = StartedRun),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn call(
    State(client): State<Client>,
    State(door): State<Arc<Door>>,
    NamePath(name): NamePath,
    headers: HeaderMap,
    extensions: Extensions,
    deed: Deed,
    Whole(body): Whole,
) -> Result<(StatusCode, Json<StartedRun>), Problem> {
    let signed = signed(&headers, &body)?;
    let workflow = door.hook(&name, &signed, &extensions).await?;
    deed.by(format!("hook {name}"));
    in_time(signed.at, &client)?;
    let input: Value = serde_json::from_slice(&body)
        .map_err(|why| Problem::malformed("malformed_body", format!("the body: {why}")))?;
    client.workflows().get(&workflow).await?;
    let key = format!("hook:{name}:{}", signed.id);
    let start = client.start_by_name(&workflow, input).key(key).or_existing();
    let run = start.await.map_err(super::runs::not_here)?;
    deed.on(format!("{} {}", run.workflow(), run.id()));
    let started = StartedRun { id: run.id().to_string(), workflow: run.workflow().to_owned() };
    Ok((StatusCode::ACCEPTED, Json(started)))
}

fn signed<'a>(headers: &'a HeaderMap, body: &'a Bytes) -> Result<Signed<'a>, Problem> {
    let said = |name: &str| {
        let value = headers.get(name).and_then(|value| value.to_str().ok()).filter(|value| !value.is_empty());
        value.ok_or_else(|| {
            Problem::malformed("malformed_signature", format!("the header `{name}` is needed"))
        })
    };
    let id = said("webhook-id")?;
    if id.len() > LONGEST_ID {
        let detail = format!("`webhook-id` must have at most {LONGEST_ID} characters");
        return Err(Problem::malformed("malformed_signature", detail));
    }
    Ok(Signed { id, at: said("webhook-timestamp")?, body, signatures: said("webhook-signature")? })
}

/// Refuses what was signed long ago: somebody may have kept it.
fn in_time(at: &str, client: &Client) -> Result<(), Problem> {
    let malformed =
        |_| Problem::malformed("malformed_signature", "`webhook-timestamp` is not a number of seconds");
    let (at, now): (i64, i64) = (at.parse().map_err(malformed)?, client.now().0 / 1_000_000);
    match now.abs_diff(at) <= WINDOW.as_secs() {
        true => Ok(()),
        false => {
            let detail =
                "it was signed more than five minutes ago, or will be: sign it anew when it is sent again";
            Err(Problem::new(StatusCode::UNAUTHORIZED, "out_of_time", detail))
        }
    }
}

fn of_hook(error: KeyError) -> Problem {
    match error {
        KeyError::Taken(name) => {
            Problem::new(StatusCode::CONFLICT, "hook_name_taken", format!("there is a hook `{name}` already"))
        }
        KeyError::Unknown(name) => {
            Problem::unknown("unknown_hook", format!("there is no hook `{}`", name.escape_debug()))
        }
        KeyError::TooMany => {
            Problem::new(StatusCode::CONFLICT, "too_many_hooks", "no more hooks can be made: remove some")
        }
        other => other.into(),
    }
}
