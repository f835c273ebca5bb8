//! How a transaction of a task ends: with the record of its step, or not at all.
//!
//! The fence is taken last, so that a body which takes long holds up nobody. Everything that a takeover waits for is
//! locked before the commit is sent: so when the commit is not answered, whoever gets these locks next knows that it is
//! over, and the record says how.

use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::{
    Error,
    error::{Severity, SqlState},
    types::{ToSql, Type},
};
use windlass_core::StepKind;
use windlass_store::{Along, Fate, StoreError};

use crate::{
    Isolation, Transaction, column,
    error::{Fault, describe},
    postgres::spawn,
    session::{Session, qualified},
};

/// How long the server may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// From here on nobody waits for a body: a process that is frozen now holds the fence no longer than this.
const LIMITS: &str = "SET LOCAL lock_timeout = '5s'; SET LOCAL idle_in_transaction_session_timeout = '5s'";
const SHARE: &str = "SELECT pg_catalog.pg_advisory_xact_lock_shared($1)";
const FENCE: &str = "SELECT {s}.fence($1)";
/// Whoever takes the run over, or opens it again, changes this row, and waits for the lock. Above READ COMMITTED a row
/// that was changed since the transaction began is a serialisation failure.
const HOLD: &str = "\
    SELECT FROM {s}.run AS r WHERE r.id = $1 AND r.tenure = coalesce($4, (\
        SELECT max(tenure) FROM {s}.listed WHERE node = $2 AND run = $1 AND claim = $3)) AND NOT EXISTS (\
        SELECT FROM {s}.ended AS e WHERE e.workflow = r.workflow AND e.run = r.id AND e.generation = r.generation OFFSET 0) \
    FOR SHARE OF r";
/// A record that is there already fails the transaction: whatever the task wrote is there too.
const RECORD: &str = "\
    INSERT INTO {s}.step (run, generation, name, attempt, started_in, epoch, kind, started_at, ended_at, output, detail) \
    VALUES ($1, $2, $3, $4, -1, $5, $6, $7, $8, $9, $10)";
const LOCK: &str = "SELECT FROM {s}.run WHERE id = $1 FOR UPDATE";
const IS_RECORDED: &str = "\
    SELECT EXISTS (SELECT FROM {s}.step \
    WHERE run = $1 AND generation = $2 AND name = $3 AND attempt = $4 AND kind = $5)";

impl Transaction {
    /// Writes the record along, and commits. Dropping the answer withdraws nothing.
    #[doc(hidden)]
    pub fn settle(self, along: Along) -> impl Future<Output = Result<Fate, StoreError>> {
        let (runtime, alive) = self.thread();
        let answer = spawn(&runtime, &alive, async move { settle(self, &along).await });
        async move { answer.await.unwrap_or(Err(StoreError::Closed)) }
    }
}

async fn settle(transaction: Transaction, along: &Along) -> Result<Fate, StoreError> {
    // As long as the commit is not sent, it is not going to be.
    match timeout(PATIENCE, write(&transaction, along)).await {
        Ok(Ok(true)) => {}
        Ok(Ok(false)) => return Ok(Fate::NotYours),
        Ok(Err(error)) => return judge(&transaction, error),
        Err(_) => return Ok(Fate::Again("the server has not answered for 30 s".to_owned())),
    }
    if transaction.isolation != Isolation::ReadCommitted {
        match timeout(PATIENCE, look_again(&transaction, along)).await {
            Ok(Ok(())) => {}
            Ok(Err(fault)) => return refused(fault.tell(&transaction.shared.place)),
            Err(_) => return Ok(Fate::Again("the server has not answered for 30 s".to_owned())),
        }
    }
    let Ok(committed) = timeout(PATIENCE, transaction.session().commit_plainly()).await else {
        return Ok(Fate::Unknown("the commit was not answered for 30 s".to_owned()));
    };
    match committed {
        Ok(()) => Ok(Fate::Committed),
        // The server itself says that it did not commit.
        Err(error) if is_plain(&error) => judge(&transaction, error),
        Err(error) => Ok(Fate::Unknown(describe(&error))),
    }
}

/// A parameter with its type, so that its statement need not be prepared.
type Value<'a> = (&'a (dyn ToSql + Sync), Type);

/// Locks what a takeover needs, and writes the record. Answers whether the run is held.
async fn write(transaction: &Transaction, along: &Along) -> Result<bool, Error> {
    let session = transaction.session();
    let (client, Along { run, step, .. }) = (session.client(), along);
    let sql = |text: &str| qualified(text, session.schema());
    let (share, fence, hold, record) = (SHARE.to_owned(), sql(FENCE), sql(HOLD), sql(RECORD));
    let lock = session.lock_of(along.node.as_bytes());
    let (run, node, claim) = (column::run(*run), column::node(along.node), column::claim(along.claim));
    let (generation, attempt, epoch) =
        (column::count(step.generation), column::count(step.attempt), column::count(step.epoch));
    let (name, kind) = (&*step.name, step.kind as i16);
    let (output, detail) = (step.output.as_deref(), step.detail.as_deref());
    let values: [Value<'_>; 10] = [
        (&run, Type::UUID),
        (&generation, Type::INT4),
        (&name, Type::TEXT),
        (&attempt, Type::INT4),
        (&epoch, Type::INT4),
        (&kind, Type::INT2),
        (&step.started_at.0, Type::INT8),
        (&step.ended_at.0, Type::INT8),
        (&output, Type::BYTEA),
        (&detail, Type::BYTEA),
    ];
    let (lock, alive): ([Value<'_>; 1], [Value<'_>; 1]) = ([(&lock, Type::INT8)], [(&node, Type::UUID)]);
    let tenure = transaction.shared.tenure(along);
    let held: [Value<'_>; 4] =
        [(&run, Type::UUID), (&node, Type::UUID), (&claim, Type::INT8), (&tenure, Type::INT8)];
    // They travel together, in this order; the lock and the checks are statements of their own.
    let (limited, shared, fenced, held, recorded) = tokio::join!(
        client.batch_execute(LIMITS),
        client.execute_typed(&share, &lock),
        client.execute_typed(&fence, &alive),
        client.query_typed(&hold, &held),
        client.execute_typed(&record, &values),
    );
    limited?;
    shared?;
    fenced?;
    let held = held?;
    if held.is_empty() {
        return Ok(false);
    }
    match recorded {
        // Whoever wrote it knew more than this node does.
        Err(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => Ok(false),
        recorded => recorded.map(|_| true),
    }
}

/// Why nothing was committed.
fn judge(transaction: &Transaction, error: Error) -> Result<Fate, StoreError> {
    let text = describe(&error);
    let failed_before = error.code() == Some(&SqlState::IN_FAILED_SQL_TRANSACTION);
    let Err(error) = transaction.note::<()>(Err(error)) else { unreachable!("it was an error") };
    if transaction.may_go_well_again() || !is_plain(&error) {
        return Ok(Fate::Again(text));
    }
    if failed_before {
        return Ok(Fate::RolledBack(
            "a statement of its transaction had failed, and the body went on: return the error, or go back to a savepoint"
                .to_owned(),
        ));
    }
    refused(Fault::from(error).tell(&transaction.shared.place))
}

fn refused(why: StoreError) -> Result<Fate, StoreError> {
    match why {
        StoreError::Fenced => Err(StoreError::Fenced),
        StoreError::Unavailable(why) => Ok(Fate::Again(why)),
        why => Ok(Fate::RolledBack(why.to_string())),
    }
}

/// Above READ COMMITTED a transaction sees the fence as it was when it began. It holds the lock by now, so nobody can be
/// declared dead any more: what another connection sees is true until the end.
async fn look_again(transaction: &Transaction, along: &Along) -> Result<(), Fault> {
    let session = transaction.shared.pool.lend().await?;
    session.check(along.node).await?;
    session.give_back();
    Ok(())
}

/// Whether the server itself said what failed, and goes on.
fn is_plain(error: &Error) -> bool {
    error.as_db_error().is_some_and(|error| error.parsed_severity() == Some(Severity::Error))
}

/// Finds out what became of a transaction whose commit was not answered. Its locks are waited for.
pub(crate) async fn fate(session: &Session, along: &Along) -> Result<Fate, Fault> {
    let Along { node, run, step, .. } = along;
    let run = column::run(*run);
    let (generation, attempt) = (column::count(step.generation), column::count(step.attempt));
    let completed = StepKind::Completed as i16;
    session
        .transact(Some(*node), async |_| {
            session.execute(LOCK, &[&run]).await?;
            let recorded =
                session.one(IS_RECORDED, &[&run, &generation, &&*step.name, &attempt, &completed]).await?;
            Ok(match recorded.try_get(0)? {
                true => Fate::Committed,
                false => Fate::Again("its commit did not arrive".to_owned()),
            })
        })
        .await
}
