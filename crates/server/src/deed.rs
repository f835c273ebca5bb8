//! What a request does, told to the record of changes.

use std::sync::{Arc, Mutex, PoisonError};

use axum::{
    extract::{FromRequestParts, RawPathParams, Request, State},
    http::request::Parts,
    middleware::Next,
    response::Response,
};
use windlass::Client;

use crate::{
    Caller, Problem,
    audit::{Audit, Line},
    caller::Origin,
    problem::Code,
    way::Way,
};

/// What a request does. Those who answer it may know more than its path says.
#[derive(Clone, Default)]
pub(crate) struct Deed(Arc<Mutex<Told>>);

#[derive(Default)]
struct Told {
    who: Option<String>,
    on: Option<String>,
}

impl Deed {
    /// It is done to this.
    pub(crate) fn on(&self, what: impl Into<String>) {
        self.told().on = Some(what.into());
    }

    /// It is done by somebody who showed it in a way of their own.
    pub(crate) fn by(&self, who: impl Into<String>) {
        self.told().who = Some(who.into());
    }

    fn told(&self) -> std::sync::MutexGuard<'_, Told> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Sync> FromRequestParts<S> for Deed {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Ok(parts.extensions.get().cloned().unwrap_or_default())
    }
}

/// What is needed to record.
#[derive(Clone)]
pub(crate) struct Recorder {
    pub(crate) client: Client,
    pub(crate) audit: Arc<Audit>,
}

/// Records a change that somebody made or wanted to make, before it is answered. What strangers try is not recorded: they
/// could fill the record.
pub(crate) async fn record(State(recorder): State<Recorder>, mut request: Request, next: Next) -> Response {
    let Some(way) = Way::of(&request).filter(|_| !request.method().is_safe()) else {
        return next.run(request).await;
    };
    let deed = Deed::default();
    request.extensions_mut().insert(deed.clone());
    let (caller, origin) = (request.extensions().get::<Caller>().cloned(), Origin::of(request.extensions()));
    let (mut parts, body) = request.into_parts();
    let named = match RawPathParams::from_request_parts(&mut parts, &()).await {
        Ok(all) => all.iter().last().map(|(_, value)| value.chars().take(200).collect::<String>()),
        Err(_) => None,
    };
    let response = next.run(Request::from_parts(parts, body)).await;
    let Told { who, on } = std::mem::take(&mut *deed.told());
    if caller.is_none() && who.is_none() {
        return response;
    }
    let line = Line {
        at: recorder.client.now(),
        from: caller.as_ref().and_then(|caller| caller.place.clone()).or_else(|| origin.words()),
        who: who.or_else(|| caller.and_then(|caller| caller.who)),
        what: way.id.clone(),
        on: on.or(named),
        status: response.status().as_u16(),
        problem: response.extensions().get::<Code>().map(|Code(code)| (*code).to_owned()),
    };
    if let Err(error) = recorder.audit.add(line.clone()).await {
        tracing::error!(?line, %error, "a change could not be recorded");
    }
    response
}
