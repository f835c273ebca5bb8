//! The connections.

use std::{
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::sleep,
};

use crate::{
    connector::{Connected, Connector, Way},
    error::Fault,
    hook::Hook,
    location::Location,
    session::Session,
};

/// Every statement of ours begins with few rows that it is given, or with the head of an index, and looks up the rest.
/// A planner that has seen the tables empty, or believes its estimates, reads whole tables instead.
const PLANS: &str = "\
    SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_hashjoin = off; \
    SET enable_mergejoin = off; SET enable_bitmapscan = off; SET enable_material = off; SET jit = off";

/// A process that is frozen in a transaction holds its fence no longer than this, and nobody waits for ever for a lock.
const LIMITS: &str = "SET lock_timeout = '5s'; SET idle_in_transaction_session_timeout = '10s'";

/// A statement that is a transaction by itself sees what others commit while it waits for them, whatever the database's
/// default is.
const ISOLATION: &str = "SET default_transaction_isolation = 'read committed'";

/// After how long a full server is asked for another connection, while there are others of ours.
const AGAIN: Duration = Duration::from_secs(1);

/// The connections, made when they are needed. Used on the store's own runtime alone.
pub(crate) struct Pool {
    connector: Arc<Connector>,
    schema: Arc<str>,
    idle: Mutex<Vec<Session>>,
    room: Arc<Semaphore>,
    /// How much of the room there is, and how much of it is not used because the server is full.
    size: usize,
    aside: AtomicUsize,
    /// What each is told first.
    setup: &'static [&'static str],
    hook: Hook,
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
        Self::of(location, location.connections, &[PLANS, LIMITS, ISOLATION])
    }

    /// Connections for the transactions of tasks, whose statements are planned as those of any application.
    pub(crate) fn for_tasks(location: &Location) -> Arc<Self> {
        Self::of(location, location.transactions, &[])
    }

    fn of(location: &Location, size: usize, setup: &'static [&'static str]) -> Arc<Self> {
        Arc::new(Self {
            connector: Arc::clone(&location.connector),
            schema: Arc::from(location.schema.as_str()),
            idle: Mutex::default(),
            room: Arc::new(Semaphore::new(size)),
            size,
            aside: AtomicUsize::new(0),
            setup,
            hook: location.hook.clone(),
        })
    }

    /// Waits for a connection. When the server is full, one that is in use will do as soon as it is given back: a
    /// process with fewer connections than it may have is slower, but keeps its lease.
    pub(crate) async fn lend(self: &Arc<Self>) -> Result<Lent, Fault> {
        loop {
            let room = Arc::clone(&self.room).acquire_owned().await.expect("nobody closes it");
            let idle = std::iter::from_fn(|| self.idle.lock().pop()).find(|session| !session.is_closed());
            let session = match idle {
                Some(session) => session,
                None => match self.connect().await {
                    Err(fault) if fault.is_full() && self.has_others() => {
                        self.set_aside(room);
                        continue;
                    }
                    connected => connected?,
                },
            };
            return Ok(Lent { session: Some(session), pool: Arc::clone(self), _room: room });
        }
    }

    /// Whoever comes next gets a new connection.
    pub(crate) fn distrust(&self) {
        self.idle.lock().clear();
    }

    /// Whether anybody else has a connection, or has just given one back.
    fn has_others(&self) -> bool {
        let unused = self.room.available_permits() + self.aside.load(Ordering::Relaxed);
        unused + 1 < self.size || !self.idle.lock().is_empty()
    }

    /// Makes the pool smaller for a while.
    fn set_aside(self: &Arc<Self>, room: OwnedSemaphorePermit) {
        room.forget();
        self.aside.fetch_add(1, Ordering::Relaxed);
        let pool = Arc::clone(self);
        tokio::spawn(async move {
            sleep(AGAIN).await;
            pool.aside.fetch_sub(1, Ordering::Relaxed);
            pool.room.add_permits(1);
        });
    }

    async fn connect(&self) -> Result<Session, Fault> {
        let Connected { client, mut wire, way } = self.connector.connect().await?;
        tokio::spawn(async move {
            if let Err(error) = wire.carry().await {
                tracing::debug!(%error, "a connection to PostgreSQL is lost");
            }
        });
        let settings = self.setup.join("; ");
        let each_time = match way {
            Way::Own => {
                client.batch_execute(&settings).await.map_err(Fault::Unreached)?;
                String::new()
            }
            Way::Shared => settings.replace("SET ", "SET LOCAL "),
        };
        Ok(Session::new(client, Arc::clone(&self.schema), way, &each_time, self.hook.clone()))
    }
}

impl Deref for Lent {
    type Target = Session;

    fn deref(&self) -> &Session {
        self.session.as_ref().expect("it is given back when it is dropped")
    }
}

impl Lent {
    /// Asks the server to give up what it does for this connection.
    pub(crate) async fn cancel(&self) -> Result<(), tokio_postgres::Error> {
        self.pool.connector.cancel(self.client()).await
    }

    /// Gives it back, to be used again. One that is just dropped is not: who knows in what state it is.
    pub(crate) fn give_back(mut self) {
        if let Some(session) = self.session.take().filter(|session| !session.is_closed()) {
            self.pool.idle.lock().push(session);
        }
    }
}
