//! A transaction for the application, in which the record of a step is written along.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::mpsc,
    time::{Instant, timeout},
};
use tokio_postgres::{
    Error, Row, Statement, ToStatement,
    error::{Severity, SqlState},
    types::{ToSql, Type},
};

use windlass_store::StoreError;

use crate::{control, error::Fault, pool::Lent, postgres::Shared};

/// How long to wait for a transaction to be rolled back before the statement that holds it up is cancelled.
const ROLLBACK: Duration = Duration::from_secs(1);

/// Whoever says nothing for this long in an open transaction is taken for hung, and the server ends it.
const IDLE: Duration = Duration::from_secs(60);

/// How long the server may take to begin one.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a connection is left with, whatever a body did to its session. Prepared statements stay: the driver counts on
/// its own.
const TIDY: &str = "\
    ROLLBACK; CLOSE ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ALL; UNLISTEN *; \
    SELECT pg_advisory_unlock_all(); DISCARD TEMP; DISCARD SEQUENCES";

/// How much transactions that run at the same time see of each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Isolation {
    /// Each statement sees what was committed before it began.
    #[default]
    ReadCommitted,
    /// All statements see what was committed before the first of them began; a write to what was changed since then
    /// is a serialisation failure.
    RepeatableRead,
    /// As if transactions ran one after the other; what cannot be arranged so is a serialisation failure.
    Serializable,
}

impl Isolation {
    pub(crate) const fn begin(self) -> &'static str {
        match self {
            Self::ReadCommitted => "BEGIN ISOLATION LEVEL READ COMMITTED",
            Self::RepeatableRead => "BEGIN ISOLATION LEVEL REPEATABLE READ",
            Self::Serializable => "BEGIN ISOLATION LEVEL SERIALIZABLE",
        }
    }
}

/// An open transaction, in which a task writes to the application's own tables: they must be in the database of the
/// store.
///
/// A task asks for it with a parameter `tx: &windlass::postgres::Transaction`. When its body returns a result, Windlass
/// writes the record of the step into the same transaction and commits it. In every other case it is rolled back.
///
/// Statements are sent as with the driver's own client, and fail with its errors. Whatever ends or begins a transaction
/// is refused; `SAVEPOINT` and `ROLLBACK TO` are not.
pub struct Transaction {
    /// `None` once it is over.
    lent: Option<Lent>,
    pub(crate) isolation: Isolation,
    pub(crate) shared: Arc<Shared>,
    runtime: Handle,
    /// Keeps the thread of the store.
    alive: mpsc::Sender<()>,
    /// Whether a statement failed because of another transaction, or of the server.
    conflict: AtomicBool,
    /// Whether the server ended it because it said nothing.
    idle: AtomicBool,
    /// When a statement was last answered.
    heard: Mutex<Instant>,
}

impl Transaction {
    pub(crate) async fn begin(
        lent: Lent,
        isolation: Isolation,
        shared: Arc<Shared>,
        runtime: Handle,
        alive: mpsc::Sender<()>,
    ) -> Result<Self, Fault> {
        let (begin, idle) = (isolation.begin(), IDLE.as_secs());
        let words = format!("{begin}; SET LOCAL idle_in_transaction_session_timeout = '{idle}s'");
        // A connection on which this fails is not used again.
        let begun = timeout(PATIENCE, lent.client().batch_execute(&words)).await;
        begun.map_err(|_| StoreError::Unavailable(format!("{}: no transaction begins", shared.place)))??;
        let (conflict, idle) = (AtomicBool::new(false), AtomicBool::new(false));
        let (lent, heard) = (Some(lent), Mutex::new(Instant::now()));
        Ok(Self { lent, isolation, shared, runtime, alive, conflict, idle, heard })
    }

    /// Prepares a statement, to be used several times within this transaction.
    ///
    /// # Errors
    ///
    /// The driver's.
    pub async fn prepare(&self, sql: &str) -> Result<Statement, Error> {
        self.note(self.session().client().prepare(&control::refused(sql)).await)
    }

    /// Sends a statement, and gives the rows that it answers.
    ///
    /// # Errors
    ///
    /// The driver's.
    pub async fn query<S: Sql + ?Sized>(
        &self,
        statement: &S,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Error> {
        let client = self.session().client();
        self.note(match statement.text() {
            Some(sql) => client.query(&*control::refused(sql), params).await,
            None => client.query(statement, params).await,
        })
    }

    /// The same, for a statement that answers exactly one row.
    ///
    /// # Errors
    ///
    /// The driver's, also when there is another number of rows.
    pub async fn query_one<S: Sql + ?Sized>(
        &self,
        statement: &S,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Row, Error> {
        let client = self.session().client();
        self.note(match statement.text() {
            Some(sql) => client.query_one(&*control::refused(sql), params).await,
            None => client.query_one(statement, params).await,
        })
    }

    /// The same, for a statement that answers one row or none.
    ///
    /// # Errors
    ///
    /// The driver's, also when there are more rows.
    pub async fn query_opt<S: Sql + ?Sized>(
        &self,
        statement: &S,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>, Error> {
        let client = self.session().client();
        self.note(match statement.text() {
            Some(sql) => client.query_opt(&*control::refused(sql), params).await,
            None => client.query_opt(statement, params).await,
        })
    }

    /// Sends a statement with the types of its parameters, in one round trip and without preparing it: behind a pooler in
    /// transaction mode, use this one.
    ///
    /// # Errors
    ///
    /// The driver's.
    pub async fn query_typed(
        &self,
        sql: &str,
        params: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<Row>, Error> {
        self.note(self.session().client().query_typed(&control::refused(sql), params).await)
    }

    /// Sends a statement, and gives the number of rows that it changed.
    ///
    /// # Errors
    ///
    /// The driver's.
    pub async fn execute<S: Sql + ?Sized>(
        &self,
        statement: &S,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, Error> {
        let client = self.session().client();
        self.note(match statement.text() {
            Some(sql) => client.execute(&*control::refused(sql), params).await,
            None => client.execute(statement, params).await,
        })
    }

    /// As [`query_typed`](Self::query_typed), and gives the number of rows that were changed.
    ///
    /// # Errors
    ///
    /// The driver's.
    pub async fn execute_typed(
        &self,
        sql: &str,
        params: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<u64, Error> {
        self.note(self.session().client().execute_typed(&control::refused(sql), params).await)
    }

    /// Whether its failure was none of its own: another transaction came in between, or the connection is lost. Nothing
    /// of it was or will be committed, and it may go well when it is done again.
    #[doc(hidden)]
    #[must_use]
    pub fn may_go_well_again(&self) -> bool {
        self.conflict.load(Ordering::Relaxed) || (self.session().is_closed() && self.hung().is_none())
    }

    /// Why the server ended it, if the body took too long between two statements.
    #[doc(hidden)]
    #[must_use]
    pub fn hung(&self) -> Option<String> {
        let was_silent = self.session().is_closed() && self.heard.lock().elapsed() >= IDLE;
        (was_silent || self.idle.load(Ordering::Relaxed)).then(|| {
            format!(
                "its transaction was ended by the server, because it was idle for {} s: do what takes long in a task of \
                 its own",
                IDLE.as_secs()
            )
        })
    }

    /// Where the connection lives.
    pub(crate) fn thread(&self) -> (Handle, mpsc::Sender<()>) {
        (self.runtime.clone(), self.alive.clone())
    }

    pub(crate) fn session(&self) -> &Lent {
        self.lent.as_ref().expect("it is there until the transaction is over")
    }

    /// Notes who is to blame for a failure.
    pub(crate) fn note<T>(&self, answer: Result<T, Error>) -> Result<T, Error> {
        match answer.as_ref().err() {
            Some(error) if error.code() == Some(&SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT) => {
                self.idle.store(true, Ordering::Relaxed);
            }
            Some(error) if is_conflict(error) || is_fatal(error) => {
                self.conflict.store(true, Ordering::Relaxed)
            }
            // Its connection may be gone.
            Some(error) if error.as_db_error().is_none() => {}
            _ => *self.heard.lock() = Instant::now(),
        }
        answer
    }
}

/// Whether a statement failed only because of another transaction.
fn is_conflict(error: &Error) -> bool {
    let conflicts = [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED];
    error.code().is_some_and(|code| conflicts.contains(code))
}

/// Whether the server hung up with it.
fn is_fatal(error: &Error) -> bool {
    let severity = error.as_db_error().and_then(|error| error.parsed_severity());
    matches!(severity, Some(Severity::Fatal | Severity::Panic))
}

impl Drop for Transaction {
    /// Rolls back what was not committed, and gives the connection back.
    fn drop(&mut self) {
        let Some(lent) = self.lent.take() else { return };
        let alive = self.alive.clone();
        self.runtime.spawn(async move {
            tidy(lent).await;
            drop(alive);
        });
    }
}

/// Ends the transaction, if there is still one, and gives the connection back. One that cannot be tidied is not used
/// again; its place is free when the server has let go of what it held.
async fn tidy(lent: Lent) {
    if is_tidied(&lent).await {
        lent.give_back();
    }
}

async fn is_tidied(lent: &Lent) -> bool {
    let tidied = lent.client().batch_execute(TIDY);
    tokio::pin!(tidied);
    if let Ok(done) = timeout(ROLLBACK, tidied.as_mut()).await {
        return done.is_ok();
    }
    // A statement is under way whose answer nobody waits for any more.
    if let Ok(Err(error)) = timeout(ROLLBACK, lent.cancel()).await {
        tracing::debug!(%error, "a statement could not be cancelled");
    }
    // The cancellation may come late, and must not hit anybody else.
    timeout(ROLLBACK, tidied).await.ok();
    false
}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction").field("store", &self.shared.place).finish_non_exhaustive()
    }
}

/// What can be sent: text, or a statement that was prepared.
pub trait Sql: ToStatement {
    /// The text, where it is one.
    #[doc(hidden)]
    fn text(&self) -> Option<&str>;
}

impl Sql for str {
    fn text(&self) -> Option<&str> {
        Some(self)
    }
}

impl Sql for String {
    fn text(&self) -> Option<&str> {
        Some(self)
    }
}

impl Sql for Statement {
    fn text(&self) -> Option<&str> {
        None
    }
}
