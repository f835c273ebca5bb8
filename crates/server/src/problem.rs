//! What goes wrong, as `application/problem+json`.

use axum::{
    http::{HeaderValue, StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use utoipa::ToSchema;
use windlass::Error;

/// Why a request was not carried out (RFC 9457).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Problem {
    /// Always `about:blank`: the code says what it is.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The HTTP status, in words.
    title: String,
    /// The HTTP status.
    status: u16,
    /// What it is, for programs. It never changes.
    code: &'static str,
    /// What it is, for people.
    detail: String,
}

impl Problem {
    /// A problem with this code, in these words.
    pub(crate) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        let title = status.canonical_reason().unwrap_or("Problem").to_owned();
        Self { kind: "about:blank", title, status: status.as_u16(), code, detail: detail.into() }
    }

    /// Something in the path, the query or a header is not what it has to be.
    pub(crate) fn malformed(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, detail)
    }

    /// The request can be read, and asks for what cannot be meant.
    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", detail)
    }

    /// Nothing of this name is there.
    pub(crate) fn unknown(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, code, detail)
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let (status, code) = (status(&error), error.code());
        let detail = match &error {
            Error::UnknownWorkflow { name, nearest } => {
                let hint = nearest.as_ref().map(|nearest| format!("; did you mean `{nearest}`?"));
                format!("no engine has brought workflow `{name}`{}", hint.unwrap_or_default())
            }
            // What a database says of itself is for the log, not for whoever can send a request.
            _ if status == StatusCode::SERVICE_UNAVAILABLE => {
                tracing::warn!(%error, "a request found the database out of reach");
                "the database cannot be used right now: try again".to_owned()
            }
            _ if status.is_server_error() => {
                tracing::error!(%error, "a request could not be carried out");
                "the request could not be carried out: the log of the server says why".to_owned()
            }
            _ => error.to_string(),
        };
        Self::new(status, code, detail)
    }
}

fn status(error: &Error) -> StatusCode {
    match error {
        Error::UnknownRun(_) | Error::UnknownSchedule { .. } | Error::UnknownTrigger { .. } => {
            StatusCode::NOT_FOUND
        }
        Error::AlreadyEnded { .. }
        | Error::NotRetryable { .. }
        | Error::NotDiscardable { .. }
        | Error::KeyTaken { .. } => StatusCode::CONFLICT,
        Error::PayloadTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        Error::UnknownWorkflow { .. }
        | Error::UnknownTask { .. }
        | Error::EventName { .. }
        | Error::Encode { .. }
        | Error::Schedule { .. }
        | Error::Invalid(_) => StatusCode::UNPROCESSABLE_ENTITY,
        Error::Unavailable(_) | Error::Stopped | Error::Unknown { .. } => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, axum::Json(self)).into_response();
        let problem = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(CONTENT_TYPE, problem);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_database_says_of_itself_stays_on_the_server() {
        for error in
            [Error::Store("no such table: run".into()), Error::Unavailable("/var/x is locked".into())]
        {
            let problem = Problem::from(error.clone());
            assert!(problem.status >= 500);
            assert_eq!(problem.code, error.code());
            assert!(!problem.detail.contains("table") && !problem.detail.contains("/var"), "{problem:?}");
        }
    }

    #[test]
    fn whoever_asks_for_an_unknown_workflow_is_told_the_nearest() {
        let error = Error::UnknownWorkflow { name: "elt".into(), nearest: Some("etl".into()) };
        let problem = Problem::from(error);
        assert_eq!((problem.status, problem.code), (422, "unknown_workflow"));
        assert!(problem.detail.ends_with("did you mean `etl`?"), "{problem:?}");
    }
}
