//! Who is let in.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::{Body, BodyDataStream, Bytes},
    extract::{Request, State},
    http::{
        Extensions, HeaderMap, StatusCode,
        header::{AUTHORIZATION, CONTENT_TYPE, COOKIE as COOKIES},
    },
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures_core::Stream;
use tokio::time::Instant;
use windlass::{Client, Error, Time};

use crate::{
    Problem,
    bucket::Buckets,
    caller::{By, Caller, Origin},
    hooks::Signed,
    ring::{KeptKey, Ring, Session, Wrong, last_used},
    secret::{self, Digest},
    way::needs,
};

/// The cookie of a browser that is logged in.
pub(crate) const COOKIE: &str = "windlass_session";

/// The header that a page of another site cannot send.
const CSRF: &str = "x-windlass-csrf";

/// For how long what was read of the keys is believed, and so for how long at most a revoked one opens.
const BELIEVED: Duration = Duration::from_secs(2);

/// How long a browser stays logged in.
pub(crate) const SESSION: Duration = Duration::from_secs(12 * 3600);

/// How many wrong keys may come from one place at once, and how many a second after that.
const WRONG: (u32, f64) = (10, 0.2);

/// Whose request is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    /// Everybody's: the program has decided who comes here.
    Nothing,
    /// That of whoever has a key, as soon as there is one.
    KeysIfAny,
    /// That of whoever has a key.
    Keys,
}

/// Lets in who has a key.
pub(crate) struct Door {
    client: Client,
    demand: Demand,
    known: tokio::sync::Mutex<Option<(Instant, Arc<Ring>)>>,
    wrong: Buckets<Origin>,
    /// The last hour for which the use of a key was noted.
    noted: Mutex<HashMap<String, i64>>,
}

impl Door {
    pub(crate) fn new(client: Client, demand: Demand) -> Arc<Self> {
        let (known, noted) = (tokio::sync::Mutex::default(), Mutex::default());
        Arc::new(Self { client, demand, known, wrong: Buckets::new(WRONG.0, WRONG.1), noted })
    }

    /// Who asks.
    pub(crate) async fn caller(
        &self,
        headers: &HeaderMap,
        extensions: &Extensions,
    ) -> Result<Caller, Problem> {
        if let Some(caller) = extensions.get::<Caller>() {
            return Ok(caller.clone());
        }
        if !self.demands().await? {
            return Ok(Caller::anybody());
        }
        let origin = Origin::of(extensions).network();
        match bearer(headers) {
            Some(key) => {
                let digest = Digest::of(key);
                let find = |ring: &Ring, now| ring.key(digest, now).cloned();
                let key = self.find(origin, find).await?;
                Ok(self.welcome(key, By::Key(digest)).await)
            }
            None => {
                let shown: Vec<Digest> = cookies(headers).map(Digest::of).collect();
                if shown.is_empty() {
                    return Err(Problem::not_logged_in());
                }
                let find = |ring: &Ring, now| {
                    let found =
                        shown.iter().find_map(|digest| Some((*digest, ring.session(*digest, now)?.clone())));
                    found.ok_or(Wrong::Unknown)
                };
                // Somebody was logged in, and is no longer: that is no wrong key.
                let (digest, key) = self.find(origin, find).await.map_err(Problem::or_logged_out)?;
                Ok(self.welcome(key, By::Session(digest)).await)
            }
        }
    }

    /// Opens a session for whoever has this key. Answers with what its cookie is to say, and for how long.
    pub(crate) async fn log_in(
        &self,
        key: &str,
        extensions: &Extensions,
    ) -> Result<(Caller, String, Duration), Problem> {
        let (digest, origin) = (Digest::of(key), Origin::of(extensions).network());
        let key = self.find(origin, |ring, now| ring.key(digest, now).cloned()).await?;
        let (token, now) = (secret::random(), self.client.now());
        let expires_at = key.expires_at.unwrap_or(Time::MAX).min(now + SESSION);
        let session = Session { digest: Digest::of(&token), key: key.name.clone(), expires_at };
        let open = |ring: &mut Ring| {
            ring.open(session.clone(), now);
            Ok::<_, Error>(())
        };
        Ring::of(&self.client).change(open).await?;
        self.forget().await;
        let caller = self.welcome(key, By::Session(session.digest)).await;
        Ok((caller, token, expires_at.since(now)))
    }

    /// The workflow that a hook starts, if its sender has signed the request.
    pub(crate) async fn hook(
        &self,
        name: &str,
        signed: &Signed<'_>,
        extensions: &Extensions,
    ) -> Result<String, Problem> {
        let find = |ring: &Ring, now| {
            let hook = ring.hooks.iter().find(|hook| hook.name == name).ok_or(Wrong::Unknown)?;
            hook.check(signed, now).map(|()| hook.workflow.clone())
        };
        let found = self.find(Origin::of(extensions).network(), find).await;
        found.map_err(Problem::or_wrong_signature)
    }

    /// Ends the sessions that these headers belong to.
    pub(crate) async fn log_out(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let shown: Vec<Digest> = cookies(headers).map(Digest::of).collect();
        if shown.is_empty() {
            return Ok(());
        }
        let close = |ring: &mut Ring| {
            shown.iter().for_each(|digest| ring.close(*digest));
            Ok::<_, Error>(())
        };
        Ring::of(&self.client).change(close).await?;
        self.forget().await;
        Ok(())
    }

    /// Whether anybody is asked for a key.
    pub(crate) async fn demands(&self) -> Result<bool, Problem> {
        Ok(match self.demand {
            Demand::Nothing => false,
            Demand::Keys => true,
            Demand::KeysIfAny => !self.ring(BELIEVED).await?.keys.is_empty(),
        })
    }

    /// Has the keys read anew when they are needed next.
    pub(crate) async fn forget(&self) {
        *self.known.lock().await = None;
    }

    /// What is known of the keys, not older than this. Whoever comes meanwhile waits for the one who asks.
    async fn ring(&self, age: Duration) -> Result<Arc<Ring>, Error> {
        let mut known = self.known.lock().await;
        if let Some((at, ring)) = &*known
            && at.elapsed() < age
        {
            return Ok(Arc::clone(ring));
        }
        let at = Instant::now();
        let ring = Arc::new(Ring::of(&self.client).get().await?);
        *known = Some((at, Arc::clone(&ring)));
        Ok(ring)
    }

    /// Finds a key. One that is not known yet may just have been made; but wrong ones from the same place are looked up only
    /// so often, which keeps nobody out who has the right one.
    async fn find<T>(
        &self,
        origin: Origin,
        find: impl Fn(&Ring, Time) -> Result<T, Wrong>,
    ) -> Result<T, Problem> {
        let now = self.client.now();
        if let Ok(found) = find(&*self.ring(BELIEVED).await?, now) {
            return Ok(found);
        }
        self.wrong.take(origin).map_err(|wait| {
            let detail = "too many wrong keys came from this address: wait before the next one";
            Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_attempts", detail).retry_after(wait)
        })?;
        find(&*self.ring(Duration::ZERO).await?, now).map_err(Problem::wrong_key)
    }

    /// Notes that the key was used, once in an hour.
    async fn welcome(&self, key: KeptKey, by: By) -> Caller {
        const HOUR: i64 = 3_600_000_000;
        let hour = self.client.now().0.div_euclid(HOUR);
        let noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner).insert(key.name.clone(), hour);
        if noted != Some(hour) {
            let name = key.name.clone();
            let note = |used: &mut std::collections::BTreeMap<String, Time>| {
                used.insert(name.clone(), Time(hour * HOUR));
                Ok::<_, Error>(())
            };
            if let Err(error) = last_used(&self.client).change(note).await {
                tracing::warn!(key = key.name, %error, "that a key was used could not be noted");
            }
        }
        Caller { who: Some(key.name), role: key.role, by, place: None }
    }

    /// Whether whoever was let in still would be. While the database cannot be asked, what was known last counts.
    async fn still_open(&self, by: By) -> bool {
        let Ok(ring) = self.ring(BELIEVED).await else { return true };
        let now = self.client.now();
        match by {
            By::Program => true,
            By::Key(digest) => ring.key(digest, now).is_ok(),
            By::Session(digest) => ring.session(digest, now).is_some(),
        }
    }
}

/// Lets a request through if whoever sent it may do what it asks for.
pub(crate) async fn admit(State(door): State<Arc<Door>>, mut request: Request, next: Next) -> Response {
    let Some(role) = needs(&request) else { return next.run(request).await };
    let caller = match door.caller(request.headers(), request.extensions()).await {
        Ok(caller) => caller,
        Err(problem) => return problem.into_response(),
    };
    let is_look = request.method().is_safe();
    let allowed = caller.must_be(role).and_then(|()| match caller.by {
        By::Session(_) if !is_look => csrf(request.headers()),
        _ => Ok(()),
    });
    if let Err(problem) = allowed {
        return problem.into_response();
    }
    let by = caller.by;
    request.extensions_mut().insert(caller);
    let response = next.run(request).await;
    match by {
        By::Program => response,
        by if is_stream(&response) => response.map(|body| WhileOpen::body(body, door, by)),
        _ => response,
    }
}

/// Refuses what a page of another site may have sent with our cookie.
pub(crate) fn csrf(headers: &HeaderMap) -> Result<(), Problem> {
    match headers.get(CSRF).is_some_and(|value| value == "1") {
        true => Ok(()),
        false => {
            let detail = format!("a change by whoever is logged in by cookie needs the header `{CSRF}: 1`");
            Err(Problem::new(StatusCode::FORBIDDEN, "csrf", detail))
        }
    }
}

/// The key that is shown. Others that stand before us may have a scheme of their own in this header.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let said = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, key) = said.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
}

/// What our cookies say. A browser sends one for each path that it was set for.
fn cookies(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let said = headers.get_all(COOKIES).into_iter().filter_map(|value| value.to_str().ok());
    let pairs = said.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(|(name, _)| *name == COOKIE).map(|(_, token)| token).take(8)
}

fn is_stream(response: &Response) -> bool {
    response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

/// A stream that ends when whoever asked for it would be let in no more.
struct WhileOpen {
    body: BodyDataStream,
    shut: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl WhileOpen {
    fn body(body: Body, door: Arc<Door>, by: By) -> Body {
        let shut = Box::pin(async move {
            while door.still_open(by).await {
                tokio::time::sleep(BELIEVED).await;
            }
        });
        Body::from_stream(Self { body: body.into_data_stream(), shut })
    }
}

impl Stream for WhileOpen {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.shut.as_mut().poll(cx).is_ready() {
            return Poll::Ready(None);
        }
        Pin::new(&mut self.body).poll_next(cx)
    }
}
