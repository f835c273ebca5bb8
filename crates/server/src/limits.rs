//! How much may be asked.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{
    body::{Body, BodyDataStream, Bytes, HttpBody},
    extract::{Request, State},
    http::StatusCode,
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures_core::Stream;
use tokio::sync::Semaphore;

use crate::{Caller, Problem, bucket::Buckets, way::Way};

/// How much may be asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// How long a request may take.
    pub(crate) timeout: Duration,
    /// How many may be under way.
    pub(crate) concurrent: usize,
    /// How many each caller may make in a second.
    pub(crate) per_second: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(30), concurrent: 512, per_second: 200 }
    }
}

/// What is left of what may be asked.
pub(crate) struct Limits {
    timeout: Duration,
    room: Semaphore,
    /// By who asks. Where nobody is asked who they are, nothing can be told apart.
    callers: Buckets<String>,
}

impl Limits {
    pub(crate) fn new(settings: Settings) -> Arc<Self> {
        let Settings { timeout, concurrent, per_second } = settings;
        Arc::new(Self {
            timeout,
            room: Semaphore::new(concurrent.clamp(1, Semaphore::MAX_PERMITS)),
            // Pages ask for much at once.
            callers: Buckets::new(per_second.max(1).saturating_mul(2), f64::from(per_second.max(1))),
        })
    }
}

/// Carries a request out if there is room for it and its caller has not asked for too much, for as long as it may take.
///
/// A stream counts until it begins.
pub(crate) async fn limit(State(limits): State<Arc<Limits>>, request: Request, next: Next) -> Response {
    match carry_out(&limits, request, next).await {
        Ok(response) => response,
        Err(problem) => problem.into_response(),
    }
}

async fn carry_out(limits: &Limits, request: Request, next: Next) -> Result<Response, Problem> {
    let caller = request.extensions().get::<Caller>().and_then(|caller| caller.who.clone());
    if let Some(who) = caller {
        limits.callers.take(who).map_err(|wait| {
            let detail = "too many requests come with this key: wait before the next one";
            Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_requests", detail).retry_after(wait)
        })?;
    }
    let _room = limits.room.try_acquire().map_err(|_| {
        let detail = "too many requests are under way: try again";
        Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_busy", detail).retry_after(Duration::ZERO)
    })?;
    // What is done to many runs takes as long as it takes.
    if Way::of(&request).is_some_and(|way| way.id == "bulk") {
        return Ok(next.run(request).await);
    }
    let (request, arrival) = Arrival::of(request);
    tokio::time::timeout(limits.timeout, next.run(request)).await.map_err(|_| {
        if !arrival.is_whole() {
            let detail = format!("the body did not come within {:?}: nothing was done", limits.timeout);
            return Problem::new(StatusCode::REQUEST_TIMEOUT, "slow_body", detail);
        }
        let detail = format!(
            "the request took longer than {:?}: what it changes may be changed or not",
            limits.timeout
        );
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "timed_out", detail)
    })
}

/// Whether a body has come as a whole.
struct Arrival(Arc<AtomicBool>);

impl Arrival {
    fn of(request: Request) -> (Request, Self) {
        let is_whole = Arc::new(AtomicBool::new(request.body().is_end_stream()));
        if is_whole.load(Ordering::Relaxed) {
            return (request, Self(is_whole));
        }
        let noted = Arc::clone(&is_whole);
        let request =
            request.map(|body| Body::from_stream(Coming { body: body.into_data_stream(), is_whole: noted }));
        (request, Self(is_whole))
    }

    fn is_whole(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A body that notes when its end has come.
struct Coming {
    body: BodyDataStream,
    is_whole: Arc<AtomicBool>,
}

impl Stream for Coming {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let part = ready!(Pin::new(&mut self.body).poll_next(cx));
        if part.is_none() {
            self.is_whole.store(true, Ordering::Relaxed);
        }
        Poll::Ready(part)
    }
}
