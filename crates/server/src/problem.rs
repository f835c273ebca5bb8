//! What goes wrong, as `application/problem+json`.

use std::time::Duration;

use axum::{
    http::{
        HeaderValue, StatusCode,
        header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE},
    },
    response::{IntoResponse, Response},
};
use serde::Serialize;
use utoipa::ToSchema;
use windlass::Error;

use crate::{keys::KeyError, ring::Wrong};

/// The code of a problem, beside its answer.
#[derive(Clone)]
pub(crate) struct Code(pub(crate) &'static str);

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
    /// In how many seconds it may be otherwise.
    #[serde(skip)]
    retry_after: Option<u64>,
}

impl Problem {
    /// A problem with this code, in these words.
    pub(crate) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        let title = status.canonical_reason().unwrap_or("Problem").to_owned();
        Self {
            kind: "about:blank",
            title,
            status: status.as_u16(),
            code,
            detail: detail.into(),
            retry_after: None,
        }
    }

    /// Something in the path, the query or a header is not what it has to be.
    pub(crate) fn malformed(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, detail)
    }

    /// The request can be read, and asks for what cannot be meant.
    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", detail)
    }

    /// Nobody knows who asks.
    pub(crate) fn not_logged_in() -> Self {
        let detail = "a key is needed: send it as `Authorization: Bearer …`, or log in";
        Self::new(StatusCode::UNAUTHORIZED, "not_logged_in", detail)
    }

    /// The key that was shown opens nothing.
    pub(crate) fn wrong_key(wrong: Wrong) -> Self {
        match wrong {
            Wrong::Unknown => {
                Self::new(StatusCode::UNAUTHORIZED, "wrong_key", "no key is like this one, or it was revoked")
            }
            Wrong::Expired => {
                Self::new(StatusCode::UNAUTHORIZED, "expired_key", "the key has expired: ask for a new one")
            }
        }
    }

    /// Not a wrong key, but one of yesterday, if this is about a key.
    pub(crate) fn or_logged_out(self) -> Self {
        if matches!(self.status, 401 | 429) { Self::not_logged_in() } else { self }
    }

    /// Not a wrong key, but a wrong signature, if this is about a key.
    pub(crate) fn or_wrong_signature(self) -> Self {
        match self.status {
            401 => {
                let detail = "there is no such hook, or it is not signed with a secret of it";
                Self::new(StatusCode::UNAUTHORIZED, "wrong_signature", detail)
            }
            _ => self,
        }
    }

    /// May be otherwise after so long.
    pub(crate) fn retry_after(self, wait: Duration) -> Self {
        Self { retry_after: Some(wait.as_secs() + 1), ..self }
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
            // Why is for the log: it may show some of the payload.
            Error::Decode { what, .. } => {
                tracing::error!(%error, "a payload could not be read");
                format!(
                    "{what} cannot be read here: it may be encrypted with a key that this program was not given, or written \
                     by another codec; the log of the server says more"
                )
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

impl From<KeyError> for Problem {
    fn from(error: KeyError) -> Self {
        let detail = error.to_string();
        match error {
            KeyError::Engine(error) => error.into(),
            KeyError::Taken(_) => Self::new(StatusCode::CONFLICT, "key_name_taken", detail),
            KeyError::TooMany => Self::new(StatusCode::CONFLICT, "too_many_keys", detail),
            KeyError::Unknown(_) => Self::unknown("unknown_key", detail),
            KeyError::Name(_) => Self::invalid(detail),
        }
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
        let (retry_after, code) = (self.retry_after, Code(self.code));
        let mut response = (status, axum::Json(self)).into_response();
        response.extensions_mut().insert(code);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = retry_after {
            headers.insert(RETRY_AFTER, seconds.into());
        }
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
