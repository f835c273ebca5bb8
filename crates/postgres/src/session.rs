//! One connection, and transactions on it.

use std::{collections::HashMap, sync::Arc};

use hmac_sha256::Hash;
use parking_lot::Mutex;
use tokio_postgres::{Client, Row, types::ToSql};
use uuid::Uuid;
use windlass_core::{NodeId, Time};

use crate::{column, connector::Way, error::Fault, hook::Hook, statement::Statement};

/// Names its isolation, whatever the database's default is: what is read after a lock was taken must be what is there
/// then.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";
const BEGIN_READING: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
const COMMIT: &str = "COMMIT";
const ROLLBACK: &str = "ROLLBACK";

const SHARE: &str = "SELECT pg_advisory_xact_lock_shared($1)";
/// The function raises. It is asked only when there is reason to, because calling it takes longer than looking.
const FENCE: &str = "\
    SELECT CASE WHEN EXISTS (SELECT FROM {s}.node WHERE id = $1 AND NOT dead) THEN {s}.clock() ELSE {s}.fence($1) END";
const CLOCK: &str = "SELECT {s}.clock()";

pub(crate) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// A connection, and the statements that were prepared on it.
pub(crate) struct Session {
    client: Client,
    schema: Arc<str>,
    way: Way,
    /// What transactions begin with that write, and those that only read.
    begin: String,
    begin_reading: String,
    statements: Mutex<HashMap<&'static str, Statement>>,
    hook: Hook,
}

impl Session {
    /// `settings` are what every transaction has to set for itself: nothing, on a connection of our own.
    pub(crate) fn new(client: Client, schema: Arc<str>, way: Way, settings: &str, hook: Hook) -> Self {
        let begin = |begin: &str| [begin, settings].join("; ").trim_end_matches("; ").to_owned();
        let (begin, begin_reading) = (begin(BEGIN), begin(BEGIN_READING));
        Self { client, schema, way, begin, begin_reading, statements: Mutex::default(), hook }
    }

    pub(crate) const fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn schema(&self) -> &str {
        &self.schema
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// A statement, prepared once. Statements that travel together are prepared before the first of them is sent.
    pub(crate) async fn statement(&self, sql: &'static str) -> Result<Statement, Fault> {
        let known = self.statements.lock().get(sql).cloned();
        if let Some(statement) = known {
            return Ok(statement);
        }
        let text = qualified(sql, &self.schema);
        let statement = match self.way {
            Way::Own => Statement::Named(self.client.prepare(&text).await?),
            Way::Shared => Statement::unnamed(text),
        };
        self.statements.lock().insert(sql, statement.clone());
        Ok(statement)
    }

    pub(crate) async fn query(&self, sql: &'static str, params: Params<'_>) -> Result<Vec<Row>, Fault> {
        self.statement(sql).await?.query(&self.client, params).await
    }

    pub(crate) async fn one(&self, sql: &'static str, params: Params<'_>) -> Result<Row, Fault> {
        self.statement(sql).await?.one(&self.client, params).await
    }

    pub(crate) async fn execute(&self, sql: &'static str, params: Params<'_>) -> Result<u64, Fault> {
        self.statement(sql).await?.execute(&self.client, params).await
    }

    /// The number of the lock that stands for a node's life, or for whatever else is named so.
    pub(crate) fn lock_of(&self, what: &[u8]) -> i64 {
        let mut hash = Hash::new();
        hash.update(self.schema.as_bytes());
        hash.update([0]);
        hash.update(what);
        let digest = hash.finalize();
        i64::from_be_bytes(digest[..8].try_into().expect("a digest has more than eight bytes"))
    }

    /// What begins a transaction, in which this node acts if there is one.
    ///
    /// The lock and the check are two statements: one would check what was there before the lock was given.
    pub(crate) async fn opening(&self, node: Option<NodeId>) -> Result<Opening<'_>, Fault> {
        Ok(match node {
            None => Opening::Clients { session: self, clock: self.statement(CLOCK).await? },
            Some(node) => Opening::Nodes {
                session: self,
                share: self.statement(SHARE).await?,
                fence: self.statement(FENCE).await?,
                lock: self.lock_of(node.as_bytes()),
                id: column::node(node),
            },
        })
    }

    /// Begins a transaction.
    pub(crate) async fn begin(&self) -> Result<(), Fault> {
        Ok(self.client.batch_execute(&self.begin).await?)
    }

    /// Makes what was done true.
    pub(crate) async fn commit(&self) -> Result<(), Fault> {
        Ok(self.commit_plainly().await?)
    }

    /// The same, for those who look at the error themselves.
    pub(crate) async fn commit_plainly(&self) -> Result<(), tokio_postgres::Error> {
        self.hook.around(self.client.batch_execute(COMMIT)).await
    }

    /// Fails if a node was declared dead or is not known. Whoever asks holds the lock that stands for its life.
    pub(crate) async fn check(&self, node: NodeId) -> Result<(), Fault> {
        self.execute(FENCE, &[&column::node(node)]).await?;
        Ok(())
    }

    /// Does something in a transaction in which this node acts, if there is one. What fails leaves nothing.
    pub(crate) async fn transact<T>(
        &self,
        node: Option<NodeId>,
        work: impl AsyncFnOnce(Time) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let opening = self.opening(node).await?;
        let done = match opening.send().await {
            Ok(now) => work(now).await,
            Err(fault) => Err(fault),
        };
        match done {
            Ok(value) => {
                self.commit().await?;
                Ok(value)
            }
            Err(fault) => {
                self.roll_back().await;
                Err(fault)
            }
        }
    }

    /// Sends a statement that is a transaction by itself, and names the node that acts in it. On a connection that others
    /// use too, what each transaction has to set for itself needs one around it, and that is fenced as any other.
    pub(crate) async fn alone(
        &self,
        node: NodeId,
        sql: &'static str,
        params: Params<'_>,
    ) -> Result<Vec<Row>, Fault> {
        match self.way {
            Way::Own => self.query(sql, params).await,
            Way::Shared => self.transact(Some(node), async |_| self.query(sql, params).await).await,
        }
    }

    /// Whether a batch may be one statement that is a transaction by itself: on a connection that others use too, what each
    /// transaction has to set for itself needs one around it.
    pub(crate) const fn commits_by_statements(&self) -> bool {
        matches!(self.way, Way::Own) && !self.hook.in_parts
    }

    /// Sends a statement that is a transaction by itself, and has the fence in it if a node acts.
    pub(crate) async fn commit_by(&self, sql: &'static str, params: Params<'_>) -> Result<Row, Fault> {
        let statement = self.statement(sql).await?;
        self.hook.around(statement.one(&self.client, params)).await
    }

    /// Reads several things as they are at one instant.
    pub(crate) async fn look<T>(&self, work: impl AsyncFnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
        self.begin_reading().await?;
        let seen = work().await;
        self.client.batch_execute(COMMIT).await?;
        seen
    }

    /// Begins a transaction that sees everything as it is at one instant.
    pub(crate) async fn begin_reading(&self) -> Result<(), Fault> {
        Ok(self.client.batch_execute(&self.begin_reading).await?)
    }

    /// A connection on which even that fails is not used again: see [`Pool`](crate::pool::Pool).
    pub(crate) async fn roll_back(&self) {
        if let Err(error) = self.client.batch_execute(ROLLBACK).await {
            tracing::debug!(%error, "a transaction could not be rolled back");
        }
    }
}

/// What begins a transaction, ready to be sent.
pub(crate) enum Opening<'s> {
    Clients { session: &'s Session, clock: Statement },
    Nodes { session: &'s Session, share: Statement, fence: Statement, lock: i64, id: Uuid },
}

impl Opening<'_> {
    /// Sends it, at once when it is first polled. Answers the transaction's time.
    pub(crate) async fn send(&self) -> Result<Time, Fault> {
        match self {
            Self::Clients { session, clock } => {
                let (begun, now) = tokio::join!(session.begin(), clock.one(&session.client, &[]));
                begun?;
                column::time(&now?, 0)
            }
            Self::Nodes { session, share, fence, lock, id } => {
                let client = &session.client;
                let (lock, id): ([&(dyn ToSql + Sync); 1], [&(dyn ToSql + Sync); 1]) = ([lock], [id]);
                let (begun, shared, now) =
                    tokio::join!(session.begin(), share.execute(client, &lock), fence.one(client, &id),);
                begun?;
                shared?;
                column::time(&now?, 0)
            }
        }
    }
}

/// A statement with the name of the schema, and of its channel, in their places.
pub(crate) fn qualified(sql: &str, schema: &str) -> String {
    let text = sql.replace("{s}", &quoted(schema));
    if text.contains("{channel}") {
        return text.replace("{channel}", &format!("'{}'", channel(schema).replace('\'', "''")));
    }
    text
}

/// Where the users of a schema tell each other that something happened.
pub(crate) fn channel(schema: &str) -> String {
    format!("windlass:{schema}")
}

/// A name as SQL writes it.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
