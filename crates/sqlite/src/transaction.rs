//! A transaction for the application, in which the record of a step is written along.

use rusqlite::{Connection, Params, Row, ffi};
use windlass_core::{ClaimId, NodeId, RunId};
use windlass_store::{Comments, StepRow, words};

use crate::{desk::Desk, error::Fault, node, step::StepSheet};

const SAVE: &str = "SAVEPOINT windlass_task";
const KEEP: &str = "RELEASE windlass_task";
const UNDO: &str = "ROLLBACK TO windlass_task; RELEASE windlass_task";

/// An open write transaction, in which a task writes to the application's own tables in the file of the store.
///
/// A task asks for it with a parameter `tx: &windlass::sqlite::Transaction`; it is a plain `fn`, and runs on the thread
/// that writes. When its body returns a result, Windlass writes the record of the step into the same transaction and
/// commits it. In every other case what it wrote is undone.
///
/// Nobody else can write to the file meanwhile, in any process: be quick, and wait for nothing.
///
/// Statements are those of `rusqlite`, and fail with its errors. Whatever ends or begins a transaction, or changes the
/// connection, is refused; `SAVEPOINT` and `ROLLBACK TO` are not.
pub struct Transaction<'c> {
    conn: &'c Connection,
}

impl Transaction<'_> {
    /// Does a statement, and gives the number of rows that it changed.
    ///
    /// # Errors
    ///
    /// The driver's.
    pub fn execute<P: Params>(&self, sql: &str, params: P) -> rusqlite::Result<usize> {
        self.conn()?.execute(allowed(sql)?, params)
    }

    /// Does a statement, and reads the first row that it answers.
    ///
    /// # Errors
    ///
    /// The driver's, also when there is no row.
    pub fn query_row<T, P, F>(&self, sql: &str, params: P, read: F) -> rusqlite::Result<T>
    where
        P: Params,
        F: FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    {
        self.conn()?.query_row(allowed(sql)?, params, read)
    }

    /// Does a statement, and reads every row that it answers.
    ///
    /// # Errors
    ///
    /// The driver's.
    pub fn query<T, P, F>(&self, sql: &str, params: P, read: F) -> rusqlite::Result<Vec<T>>
    where
        P: Params,
        F: FnMut(&Row<'_>) -> rusqlite::Result<T>,
    {
        self.conn()?.prepare(allowed(sql)?)?.query_map(params, read)?.collect()
    }

    /// The number of the row that was added last.
    #[must_use]
    pub fn last_insert_rowid(&self) -> i64 {
        self.conn.last_insert_rowid()
    }

    /// The connection, as long as the transaction is open: a full disk, or `OR ROLLBACK`, ends it, and what is done
    /// after that would be committed by itself.
    fn conn(&self) -> rusqlite::Result<&Connection> {
        if self.conn.is_autocommit() {
            let text = "the task's transaction was rolled back because of an earlier statement".to_owned();
            return Err(failure(ffi::SQLITE_ABORT, text));
        }
        Ok(self.conn)
    }
}

impl std::fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction").finish_non_exhaustive()
    }
}

/// The statement, unless a task must not do it. Only the first statement of a text is done, so its words tell.
fn allowed(sql: &str) -> rusqlite::Result<&str> {
    let mut words = words(sql, Comments::DoNotNest).map(str::to_uppercase);
    let first = words.next().unwrap_or_default();
    let is_refused = match first.as_str() {
        "COMMIT" | "END" | "BEGIN" | "PRAGMA" | "ATTACH" | "DETACH" => true,
        "ROLLBACK" => !words.take(2).any(|word| word == "TO"),
        _ => false,
    };
    if !is_refused {
        return Ok(sql);
    }
    Err(failure(
        ffi::SQLITE_AUTH,
        format!(
            "a task cannot do {first}: its transaction is committed by Windlass together with the record of the step when \
             the body returns Ok, and undone when it returns Err"
        ),
    ))
}

fn failure(code: i32, text: String) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(ffi::Error::new(code), Some(text))
}

/// Who does a step of which run.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Holder {
    /// The node that acts.
    pub node: NodeId,
    /// The run.
    pub run: RunId,
    /// The claim that the node holds it under.
    pub claim: ClaimId,
}

/// What became of a task's transaction.
#[doc(hidden)]
#[derive(Debug)]
pub enum Transacted<E> {
    /// What the task wrote is committed with its record.
    Committed,
    /// Nothing was written: the task says why.
    Undone(E),
    /// Nothing was written: the node does not hold the run under that claim any more.
    NotYours,
    /// Nothing was written now: the record is there already, with what the task wrote then. An earlier transaction was
    /// committed although the answer to that was an error.
    Before,
    /// Nothing was written: what the task wrote cannot be committed.
    Refused(String),
}

/// Does a task's own work, and records it.
pub(crate) fn transact<E>(
    desk: &mut Desk,
    holder: Holder,
    work: &mut impl FnMut(&Transaction<'_>) -> Result<StepRow, E>,
) -> Result<Transacted<E>, Fault> {
    let Holder { node, run, claim } = holder;
    let mut mirror = node::fence(desk, node)?;
    let conn = &desk.book.conn;
    let done = match mirror.get(run, claim) {
        None => Transacted::NotYours,
        Some(held) => {
            conn.execute_batch(SAVE)?;
            let done = work(&Transaction { conn });
            if conn.is_autocommit() {
                // Whatever else was to be committed with it has to be done again.
                let text = "a statement of a task had SQLite roll everything back".to_owned();
                return Err(failure(ffi::SQLITE_ABORT, text).into());
            }
            let done = match done {
                Err(why) => Transacted::Undone(why),
                Ok(step) => {
                    let mut sheet = StepSheet::new(conn);
                    let records = held.records(&mut sheet, run)?;
                    if records.admits(&mut sheet, run, &step)? {
                        records.record(&mut sheet, run, &step);
                        sheet.write()?;
                        Transacted::Committed
                    } else {
                        Transacted::Before
                    }
                }
            };
            conn.execute_batch(if matches!(done, Transacted::Committed) { KEEP } else { UNDO })?;
            done
        }
    };
    desk.mirrors.insert(node, mirror);
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_a_transaction_or_changes_the_connection_is_refused_and_savepoints_are_not() {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch("BEGIN").unwrap();
        let transaction = Transaction { conn: &conn };
        for sql in
            ["COMMIT", "; end", "/* /* */ rollback", "BEGIN", "PRAGMA synchronous = off", "attach 'x' as x"]
        {
            let error = transaction.execute(sql, []).unwrap_err().to_string();
            assert!(error.contains("a task cannot do"), "{sql}: {error}");
        }
        for sql in ["SAVEPOINT a", "ROLLBACK TO a", "rollback transaction to savepoint a", "RELEASE a"] {
            transaction.execute(sql, []).unwrap();
        }
    }

    #[test]
    fn nothing_is_done_after_a_statement_that_rolled_everything_back() {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch("CREATE TABLE t (x UNIQUE); BEGIN; INSERT INTO t VALUES (1)").unwrap();
        let transaction = Transaction { conn: &conn };
        transaction.execute("INSERT OR ROLLBACK INTO t VALUES (1)", []).unwrap_err();
        let error = transaction.execute("INSERT INTO t VALUES (2)", []).unwrap_err();
        assert_eq!(error.sqlite_error_code(), Some(rusqlite::ErrorCode::OperationAborted));
        assert_eq!(conn.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, u32>(0)).unwrap(), 0);
    }
}
