//! The API, and who may use it.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{DefaultBodyLimit, FromRef},
    middleware,
};
use windlass::Client;

use crate::{
    arrival::BODY_LIMIT,
    audit::Audit,
    deed::{Recorder, record},
    door::{Demand, Door, admit},
    guard::guard,
    limits::{Limits, Settings, limit},
    redaction::Redaction,
    route::{self, live::Live},
    shared::{Shared, share},
};

/// The API over a client: who may use it, and how much of it.
///
/// ```
/// use windlass::prelude::*;
/// use windlass_server::Api;
///
/// # #[tokio::main]
/// # async fn main() -> Result<()> {
/// let engine = Engine::open("sqlite::memory:").launch().await?;
/// let api = Api::new(engine.client()).keys().router();
/// let app: axum::Router = axum::Router::new().nest("/windlass", api);
/// # drop(app);
/// # engine.stop().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is answered before it is a router that is served"]
pub struct Api {
    pub(crate) client: Client,
    demand: Demand,
    redaction: Redaction,
    limits: Settings,
}

/// What every request is answered with.
#[derive(Clone)]
pub(crate) struct Desk {
    client: Client,
    door: Arc<Door>,
    audit: Arc<Audit>,
    redaction: Arc<Redaction>,
    live: Arc<Live>,
}

/// The API over a client, to be mounted under any path of an [`axum::Router`].
///
/// Whoever can reach it can see and change everything: decide who that is before a request comes to it, or have
/// [keys](Api::keys) asked for. Requests that change something are refused when the page of another site may have sent them.
pub fn router(client: Client) -> Router {
    Api::new(client).router()
}

impl Api {
    /// The API over a client, for everybody who can reach it.
    pub fn new(client: Client) -> Self {
        Self { client, demand: Demand::Nothing, redaction: Redaction::default(), limits: Settings::default() }
    }

    /// Has every request show a [key](crate::Keys), or the cookie of a browser that is logged in with one. Requests of which the
    /// program says whose they are ([`Caller`](crate::Caller)) need none.
    pub fn keys(self) -> Self {
        Self { demand: Demand::Keys, ..self }
    }

    /// Hides more fields of payloads and of log lines than those whose names end with `password`, `secret`, `token` and the like: those whose
    /// names end with one of these, in whatever case, and with or without `_` and `-`.
    pub fn redact<N: AsRef<str>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.redaction.add(names);
        self
    }

    /// Shows no payloads at all: no inputs, results, contexts, events, published values, no records of errors, and of log lines
    /// no fields.
    pub fn hide_payloads(mut self) -> Self {
        self.redaction.all();
        self
    }

    /// How long a request may take. Bulk actions take as long as they take, and streams count until they begin. Default: 30
    /// seconds.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.limits.timeout = timeout;
        self
    }

    /// How many requests may be under way at once. Streams count until they begin. Default: 512.
    pub fn concurrency(mut self, requests: usize) -> Self {
        self.limits.concurrent = requests;
        self
    }

    /// How many requests may come with one key in a second, and twice as many at once. Where nobody is asked who they are,
    /// nothing is counted. Default: 200.
    pub fn rate(mut self, per_second: u32) -> Self {
        self.limits.per_second = per_second;
        self
    }

    /// As [`keys`](Self::keys), but only while there are some.
    pub(crate) fn keys_if_any(self) -> Self {
        let demand = if self.demand == Demand::Nothing { Demand::KeysIfAny } else { self.demand };
        Self { demand, ..self }
    }

    /// All of it, to be mounted under any path.
    pub fn router(self) -> Router {
        let client = self.client;
        let (door, audit) = (Door::new(client.clone(), self.demand), Audit::new(client.clone()));
        let live = Arc::new(Live::new(client.clone()));
        let recorder = Recorder { client: client.clone(), audit: Arc::clone(&audit) };
        route::router()
            .layer(DefaultBodyLimit::max(BODY_LIMIT))
            .layer(middleware::from_fn_with_state(Limits::new(self.limits), limit))
            .layer(middleware::from_fn_with_state(Shared::new(Arc::clone(&live)), share))
            .layer(middleware::from_fn_with_state(recorder, record))
            .layer(middleware::from_fn_with_state(Arc::clone(&door), admit))
            .layer(middleware::from_fn(guard))
            .with_state(Desk { client, door, audit, redaction: Arc::new(self.redaction), live })
    }
}

impl FromRef<Desk> for Client {
    fn from_ref(desk: &Desk) -> Self {
        desk.client.clone()
    }
}

impl FromRef<Desk> for Arc<Door> {
    fn from_ref(desk: &Desk) -> Self {
        Arc::clone(&desk.door)
    }
}

impl FromRef<Desk> for Arc<Audit> {
    fn from_ref(desk: &Desk) -> Self {
        Arc::clone(&desk.audit)
    }
}

impl FromRef<Desk> for Arc<Redaction> {
    fn from_ref(desk: &Desk) -> Self {
        Arc::clone(&desk.redaction)
    }
}

impl FromRef<Desk> for Arc<Live> {
    fn from_ref(desk: &Desk) -> Self {
        Arc::clone(&desk.live)
    }
}
