//! What a request does, told to the record of changes.

use std::sync::{Arc, Mutex, PoisonError};

use axum::{
    extract::{FromRequestParts, RawPathParams, Request, State},
    http::{StatusCode, request::Parts},
    middleware::Next,
    response::Response,
};
use tokio::runtime::Handle;
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

/// Records a change that somebody made or wanted to make, before it is answered. What strangers try, and
/// what there is no room for, is not recorded: it could fill the record.
pub(crate) async fn record(State(recorder): State<Recorder>, mut request: Request, next: Next) -> Response {
    let Some(way) = Way::of(&request).filter(|_| !request.method().is_safe()) else {
        return next.run(request).await;
    };
    let deed = Deed::default();
    request.extensions_mut().insert(deed.clone());
    let (mut parts, body) = request.into_parts();
    if way.is_named
        && let Ok(all) = RawPathParams::from_request_parts(&mut parts, &()).await
        && let Some((_, value)) = all.iter().last()
    {
        deed.on(value.chars().take(200).collect::<String>());
    }
    let (caller, origin) = (parts.extensions.get::<Caller>(), Origin::of(&parts.extensions));
    let line = Line {
        at: recorder.client.now(),
        who: caller.and_then(|caller| caller.who.clone()),
        from: caller.and_then(|caller| caller.place.clone()).or_else(|| origin.words()),
        what: way.id.clone(),
        on: None,
        status: 0,
        problem: Some("broken_off".to_owned()),
    };
    let mut change = Change { recorder, deed, is_known: caller.is_some(), line: Some(line) };
    let response = next.run(Request::from_parts(parts, body)).await;
    let is_turned_away = response.status() == StatusCode::TOO_MANY_REQUESTS;
    if let Some(line) = change.told().filter(|_| !is_turned_away) {
        let problem = response.extensions().get::<Code>().map(|Code(code)| (*code).to_owned());
        change.recorder.write(Line { status: response.status().as_u16(), problem, ..line }).await;
    }
    response
}

impl Recorder {
    async fn write(&self, line: Line) {
        if let Err(error) = self.audit.add(line.clone()).await {
            tracing::error!(?line, %error, "a change could not be recorded");
        }
    }
}

/// A change that is under way. When the connection breaks off, nobody asks on; what was done by then is done, and recorded.
struct Change {
    recorder: Recorder,
    deed: Deed,
    /// Whether the door knows who it is.
    is_known: bool,
    line: Option<Line>,
}

impl Change {
    /// The line for it, once, if anybody knows whose it is.
    fn told(&mut self) -> Option<Line> {
        let (line, Told { who, on }) = (self.line.take()?, std::mem::take(&mut *self.deed.told()));
        (self.is_known || who.is_some()).then(|| Line { who: who.or(line.who), on, ..line })
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        if let Some(line) = self.told()
            && let Ok(runtime) = Handle::try_current()
        {
            let recorder = self.recorder.clone();
            runtime.spawn(async move { recorder.write(line).await });
        }
    }
}
