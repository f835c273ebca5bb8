//! Keys, for those who may give them to others.

use std::sync::Arc;

use axum::{Json, extract::State, http::StatusCode};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass::Client;

use super::Answer;
use crate::{
    KeyInfo, Keys, Problem, Role,
    arrival::{NamePath, Sent, span},
    deed::Deed,
    door::Door,
    view::instant,
};

/// All keys, by name.
#[derive(Serialize, ToSchema)]
pub(crate) struct KeyList {
    keys: Vec<Key>,
}

/// What is known of a key.
#[derive(Serialize, ToSchema)]
pub(crate) struct Key {
    name: String,
    role: Role,
    #[schema(format = DateTime)]
    created_at: String,
    /// From when on it opens nothing.
    #[schema(format = DateTime)]
    expires_at: Option<String>,
    /// The hour in which it was used last.
    #[schema(format = DateTime)]
    last_used: Option<String>,
}

impl From<KeyInfo> for Key {
    fn from(key: KeyInfo) -> Self {
        Self {
            name: key.name,
            role: key.role,
            created_at: instant(key.created_at),
            expires_at: key.expires_at.map(instant),
            last_used: key.last_used.map(instant),
        }
    }
}

/// Lists all keys, also those that have expired.
#[utoipa::path(
    get, path = "/api/v1/keys", tag = "keys", operation_id = "list_keys", security(("key" = ["admin"])),
    responses(
        (status = 200, body = KeyList),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn list(State(client): State<Client>) -> Answer<KeyList> {
    let keys = Keys::new(&client).list().await?;
    Ok(Json(KeyList { keys: keys.into_iter().map(Into::into).collect() }))
}

/// A key to be made.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewKey {
    /// What it is called: 1 to 100 letters, digits, `.`, `-`, `_` or `@`.
    name: String,
    role: Role,
    /// After how many seconds it expires. Never by default.
    expires_in: Option<f64>,
}

/// A key that was made.
#[derive(Serialize, ToSchema)]
pub(crate) struct MadeKey {
    /// The key itself. It is not shown again.
    key: String,
    #[serde(flatten)]
    info: Key,
}

/// Makes a key. It is shown this once.
#[utoipa::path(
    post, path = "/api/v1/keys", tag = "keys", operation_id = "create_key", security(("key" = ["admin"])),
    request_body = NewKey,
    responses(
        (status = 201, body = MadeKey),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn create(
    State(client): State<Client>,
    State(door): State<Arc<Door>>,
    deed: Deed,
    Sent(new): Sent<NewKey>,
) -> Result<(StatusCode, Json<MadeKey>), Problem> {
    let lives = new.expires_in.map(|seconds| span("`expires_in`", seconds)).transpose()?;
    deed.on(format!("{} ({})", new.name.escape_debug(), new.role));
    let made = Keys::new(&client).create(&new.name, new.role, lives).await?;
    door.forget().await;
    Ok((StatusCode::CREATED, Json(MadeKey { key: made.key, info: made.info.into() })))
}

/// Revokes a key. After two seconds it opens nothing anywhere, and whoever is logged in with it is logged out.
#[utoipa::path(
    delete, path = "/api/v1/keys/{name}", tag = "keys", operation_id = "revoke_key", security(("key" = ["admin"])),
    params(("name" = String, Path, description = "The key's name")),
    responses((status = 204), (status = "4XX", body = Problem, content_type = "application/problem+json")),
)]
pub(crate) async fn revoke(
    State(client): State<Client>,
    State(door): State<Arc<Door>>,
    NamePath(name): NamePath,
) -> Result<StatusCode, Problem> {
    Keys::new(&client).revoke(&name).await?;
    door.forget().await;
    Ok(StatusCode::NO_CONTENT)
}
