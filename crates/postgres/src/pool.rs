//! The connections.

use std::{ops::Deref, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_postgres::{Config, NoTls};

use crate::{error::Fault, location::Location, session::Session};

/// Every statement of ours begins with few rows that it is given, or with the head of an index, and looks up the rest.
/// A planner that has seen the tables empty, or believes its estimates, reads whole tables instead.
const PLANS: &str = "\
    SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_hashjoin = off; \
    SET enable_mergejoin = off; SET enable_bitmapscan = off; SET jit = off";

/// A process that is frozen in a transaction holds its fence no longer than this, and nobody waits for ever for a lock.
const LIMITS: &str = "SET lock_timeout = '5s'; SET idle_in_transaction_session_timeout = '10s'";

/// The connections, made when they are needed. Used on the store's own runtime alone.
pub(crate) struct Pool {
    config: Config,
    schema: Arc<str>,
    idle: Mutex<Vec<Session>>,
    room: Arc<Semaphore>,
}

/// A connection for a while.
pub(crate) struct Lent {
    /// `None` once it was given back.
    session: Option<Session>,
    pool: Arc<Pool>,
    _room: OwnedSemaphorePermit,
}

impl Pool {
    pub(crate) fn new(location: &Location) -> Arc<Self> {
        Arc::new(Self {
            config: location.config.clone(),
            schema: Arc::from(location.schema.as_str()),
            idle: Mutex::default(),
            room: Arc::new(Semaphore::new(location.connections)),
        })
    }

    /// Waits for a connection.
    pub(crate) async fn lend(self: &Arc<Self>) -> Result<Lent, Fault> {
        let room = Arc::clone(&self.room).acquire_owned().await.expect("nobody closes it");
        let idle = std::iter::from_fn(|| self.idle.lock().pop()).find(|session| !session.is_closed());
        let session = match idle {
            Some(session) => session,
            None => self.connect().await?,
        };
        Ok(Lent { session: Some(session), pool: Arc::clone(self), _room: room })
    }

    async fn connect(&self) -> Result<Session, Fault> {
        let (client, connection) = self.config.connect(NoTls).await?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to PostgreSQL is lost");
            }
        });
        client.batch_execute(PLANS).await?;
        client.batch_execute(LIMITS).await?;
        Ok(Session::new(client, Arc::clone(&self.schema)))
    }
}

impl Deref for Lent {
    type Target = Session;

    fn deref(&self) -> &Session {
        self.session.as_ref().expect("it is given back when it is dropped")
    }
}

impl Lent {
    /// Gives it back, to be used again. One that is just dropped is not: who knows in what state it is.
    pub(crate) fn give_back(mut self) {
        if let Some(session) = self.session.take().filter(|session| !session.is_closed()) {
            self.pool.idle.lock().push(session);
        }
    }
}
