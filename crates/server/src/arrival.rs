//! What comes in with a request, checked where it comes in.

use std::time::Duration;

use axum::{
    body::Bytes,
    extract::{FromRequest, FromRequestParts, RawPathParams, Request},
    http::{StatusCode, request::Parts},
};
use serde::de::DeserializeOwned;
use windlass::{RunId, Time, jiff::Timestamp};

use crate::Problem;

/// How large a body may be: the largest payload that an engine keeps by default, and room for what stands around it.
pub(crate) const BODY_LIMIT: usize = (4 << 20) + (64 << 10);

/// The longest name, key or tag, in bytes. Databases find things by them, and have limits of their own beyond.
const LONGEST: usize = 500;

/// The longest reason or note, in bytes.
const LONGEST_NOTE: usize = 1_000;

/// The longest span that a request may name.
const LONGEST_SPAN: Duration = Duration::from_secs(100 * 366 * 86_400);

/// The run that the path names.
pub(crate) struct RunPath(pub(crate) RunId);

/// The workflow, queue, schedule or trigger that the path names.
pub(crate) struct NamePath(pub(crate) String);

/// The body, read as JSON. None at all is an empty object.
pub(crate) struct Sent<T>(pub(crate) T);

/// The body as it is.
pub(crate) struct Whole(pub(crate) Bytes);

impl<S: Send + Sync> FromRequestParts<S> for RunPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        run_id(&segment(parts, state, "id").await?).map(Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for NamePath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let name = segment(parts, state, "name").await?;
        word("the name in the path", &name)?;
        Ok(Self(name))
    }
}

/// Whoever mounts the router may have parameters in the path before ours, even of the same name, so that it is the last of
/// this name.
async fn segment<S: Send + Sync>(parts: &mut Parts, state: &S, name: &str) -> Result<String, Problem> {
    let malformed = || Problem::malformed("malformed_path", "the path is not UTF-8");
    let all = RawPathParams::from_request_parts(parts, state).await.map_err(|_| malformed())?;
    let found = all.iter().filter(|(key, _)| *key == name).last().map(|(_, value)| value.to_owned());
    found.ok_or_else(malformed)
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Sent<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let Whole(body) = Whole::from_request(request, state).await?;
        let json = if body.is_empty() { b"{}" } else { &*body };
        let sent = serde_json::from_slice(json);
        sent.map(Self).map_err(|why| Problem::malformed("malformed_body", format!("the body: {why}")))
    }
}

impl<S: Send + Sync> FromRequest<S> for Whole {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let body = Bytes::from_request(request, state).await.map_err(|why| match why.status() {
            StatusCode::PAYLOAD_TOO_LARGE => {
                let detail = format!("the body is larger than {BODY_LIMIT} bytes");
                Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", detail)
            }
            _ => Problem::malformed("malformed_body", "the body did not arrive whole"),
        })?;
        Ok(Self(body))
    }
}

/// The run with an id that somebody wrote.
pub(crate) fn run_id(text: &str) -> Result<RunId, Problem> {
    text.parse().map_err(|_| {
        Problem::malformed("malformed_id", format!("`{}` is not the id of a run", text.escape_debug()))
    })
}

/// An instant that somebody wrote.
pub(crate) fn instant(what: &str, text: &str) -> Result<Time, Problem> {
    let at: Result<Timestamp, _> = text.parse();
    at.map(Time::from).map_err(|_| {
        let text = text.escape_debug();
        Problem::malformed(
            "malformed_time",
            format!("{what} is `{text}`, and not a time as `2026-03-01T12:30:00Z`"),
        )
    })
}

/// A number of seconds as a span of time.
pub(crate) fn span(what: &str, seconds: f64) -> Result<Duration, Problem> {
    let span = Duration::try_from_secs_f64(seconds).ok().filter(|span| *span <= LONGEST_SPAN);
    span.ok_or_else(|| {
        Problem::invalid(format!("{what} is {seconds} seconds: it must lie between 0 and a hundred years"))
    })
}

/// Refuses a name, key or tag that no store keeps.
pub(crate) fn word(what: &str, text: &str) -> Result<(), Problem> {
    within(what, text, LONGEST)
}

/// Refuses a reason or note that is too long.
pub(crate) fn note(what: &str, text: &str) -> Result<(), Problem> {
    within(what, text, LONGEST_NOTE)
}

fn within(what: &str, text: &str, longest: usize) -> Result<(), Problem> {
    if text.len() > longest {
        return Err(Problem::invalid(format!("{what} has {} bytes: {longest} are allowed", text.len())));
    }
    match text.contains('\0') {
        true => Err(Problem::invalid(format!("{what} has a character in it that no database keeps: U+0000"))),
        false => Ok(()),
    }
}
