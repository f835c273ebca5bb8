//! The API, and who may use it.

use std::sync::Arc;

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
    route,
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
}

/// What every request is answered with.
#[derive(Clone)]
pub(crate) struct Desk {
    client: Client,
    door: Arc<Door>,
    audit: Arc<Audit>,
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
        Self { client, demand: Demand::Nothing }
    }

    /// Has every request show a [key](crate::Keys), or the cookie of a browser that is logged in with one. Requests of which the
    /// program says whose they are ([`Caller`](crate::Caller)) need none.
    pub fn keys(self) -> Self {
        Self { demand: Demand::Keys, ..self }
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
        let recorder = Recorder { client: client.clone(), audit: Arc::clone(&audit) };
        route::router()
            .layer(DefaultBodyLimit::max(BODY_LIMIT))
            .layer(middleware::from_fn_with_state(recorder, record))
            .layer(middleware::from_fn_with_state(Arc::clone(&door), admit))
            .layer(middleware::from_fn(guard))
            .with_state(Desk { client, door, audit })
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
