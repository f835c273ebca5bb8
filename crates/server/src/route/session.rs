//! Logging in and out with a browser.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    extract::{OriginalUri, State},
    http::{
        Extensions, HeaderMap, HeaderName, StatusCode, Uri,
        header::{ORIGIN, SET_COOKIE},
    },
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Answer;
use crate::{
    Problem, Role,
    arrival::Sent,
    caller::Caller,
    deed::Deed,
    door::{COOKIE, Door, csrf},
};

/// Whom a request counts as.
#[derive(Serialize, ToSchema)]
pub(crate) struct Session {
    /// The name of the key, or of the user that the program knows. Null where nobody is asked.
    who: Option<String>,
    role: Role,
}

impl From<Caller> for Session {
    fn from(caller: Caller) -> Self {
        Self { who: caller.who, role: caller.role }
    }
}

/// A key to log in with.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogIn {
    key: String,
}

type WithCookie<T> = Result<([(HeaderName, String); 1], T), Problem>;

/// Says who asks, and what they may do.
#[utoipa::path(
    get, path = "/api/v1/session", tag = "session", operation_id = "show_session", security(()),
    responses(
        (status = 200, body = Session),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn show(
    State(door): State<Arc<Door>>,
    headers: HeaderMap,
    extensions: Extensions,
) -> Answer<Session> {
    Ok(Json(door.caller(&headers, &extensions).await?.into()))
}

/// Logs a browser in: it gets a cookie that scripts cannot read, for twelve hours or as long as the key lives.
#[utoipa::path(
    post, path = "/api/v1/session", tag = "session", operation_id = "log_in", security(()),
    request_body = LogIn,
    responses(
        (status = 200, body = Session),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn log_in(
    State(door): State<Arc<Door>>,
    OriginalUri(uri): OriginalUri,
    headers: HeaderMap,
    extensions: Extensions,
    deed: Deed,
    Sent(sent): Sent<LogIn>,
) -> WithCookie<Json<Session>> {
    let (caller, token, lives) = door.log_in(&sent.key, &extensions).await?;
    deed.by(caller.who.clone().unwrap_or_default());
    Ok(([(SET_COOKIE, cookie(&token, lives, &uri, &headers))], Json(caller.into())))
}

/// Logs a browser out: its cookie opens nothing more.
#[utoipa::path(
    delete, path = "/api/v1/session", tag = "session", operation_id = "log_out", security(()),
    responses((status = 204), (status = "4XX", body = Problem, content_type = "application/problem+json")),
)]
pub(crate) async fn log_out(
    State(door): State<Arc<Door>>,
    OriginalUri(uri): OriginalUri,
    headers: HeaderMap,
) -> WithCookie<StatusCode> {
    csrf(&headers)?;
    door.log_out(&headers).await?;
    Ok(([(SET_COOKIE, cookie("", Duration::ZERO, &uri, &headers))], StatusCode::NO_CONTENT))
}

fn cookie(token: &str, lives: Duration, uri: &Uri, headers: &HeaderMap) -> String {
    let (mount, age) = (mount(uri.path()), lives.as_secs());
    let secure = if is_https(headers) { "; Secure" } else { "" };
    format!("{COOKIE}={token}; Path={mount}; Max-Age={age}; HttpOnly; SameSite=Strict{secure}")
}

/// Where the API is mounted, by the path of this request.
fn mount(path: &str) -> &str {
    match path.strip_suffix("/api/v1/session") {
        Some(mount) if !mount.is_empty() && !mount.contains([';', ',']) => mount,
        _ => "/",
    }
}

/// Whether the browser speaks to us, or to whoever stands before us, in secret.
fn is_https(headers: &HeaderMap) -> bool {
    let begins = |name: &str| {
        headers.get(name).is_some_and(|value| value.as_bytes().to_ascii_lowercase().starts_with(b"https"))
    };
    begins(ORIGIN.as_str()) || begins("x-forwarded-proto")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_goes_to_where_the_api_is_mounted_and_nowhere_else() {
        let said = |uri: &'static str, headers: &[(&'static str, &str)]| {
            let pairs =
                headers.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
            cookie("t", Duration::from_secs(9), &Uri::from_static(uri), &pairs.collect())
        };
        assert_eq!(
            said("/api/v1/session", &[("origin", "http://localhost")]),
            "windlass_session=t; Path=/; Max-Age=9; HttpOnly; SameSite=Strict"
        );
        let secure = "windlass_session=t; Path=/ops/windlass; Max-Age=9; HttpOnly; SameSite=Strict; Secure";
        assert_eq!(said("/ops/windlass/api/v1/session", &[("origin", "https://a.example")]), secure);
        assert_eq!(said("/ops/windlass/api/v1/session", &[("x-forwarded-proto", "https")]), secure);
        assert!(said("/a;b/api/v1/session", &[]).contains("Path=/;"));
    }
}
