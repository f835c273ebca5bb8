//! What can go wrong, said for people.

use rusqlite::{ErrorCode, ffi};
use windlass_store::StoreError;

/// Why a piece of work was not done.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The work itself says no, and has written nothing.
    Refused(StoreError),
    /// A statement failed: whatever its transaction wrote must go.
    Sql(rusqlite::Error),
}

/// Why a transaction was not committed. Nothing of it is there.
#[derive(Clone, Debug)]
pub(crate) enum Uncommitted {
    /// Because of the store.
    Store(StoreError),
    /// Because of what a task wrote to the application's own tables.
    Foreign(String),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

/// Whether a reference between rows leads nowhere. Windlass has none, so it is one between the application's own. One
/// that is deferred is looked at when the transaction is committed, with whatever else is in it.
pub(crate) fn is_foreign(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|error| error.extended_code == ffi::SQLITE_CONSTRAINT_FOREIGNKEY)
}

/// Says what a failed transaction means for whoever asked.
pub(crate) fn explain(error: &rusqlite::Error, file: &str) -> Uncommitted {
    match is_foreign(error) {
        true => Uncommitted::Foreign(error.to_string()),
        false => Uncommitted::Store(describe(error, file)),
    }
}

/// Says what a failed statement means for whoever asked.
pub(crate) fn describe(error: &rusqlite::Error, file: &str) -> StoreError {
    let Some(code) = error.sqlite_error_code() else {
        return StoreError::Broken(format!("{file} holds something that this program cannot read: {error}"));
    };
    match code {
        ErrorCode::DiskFull => StoreError::Unavailable(format!(
            "there is no room left for {file}: make room on its disk; nothing that was acknowledged is lost, and \
             what waits is written once there is room ({error})"
        )),
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => StoreError::Unavailable(format!(
            "{file} is locked by another program: close whatever else writes to it ({error})"
        )),
        ErrorCode::SystemIoFailure
        | ErrorCode::CannotOpen
        | ErrorCode::OutOfMemory
        | ErrorCode::OperationInterrupted
        | ErrorCode::OperationAborted
        | ErrorCode::SchemaChanged
        | ErrorCode::FileLockingProtocolFailed => {
            StoreError::Unavailable(format!("{file} cannot be used right now: {error}"))
        }
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied => StoreError::Broken(format!(
            "{file} cannot be written any more: allow writing to the file and its directory ({error})"
        )),
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => StoreError::Broken(format!(
            "{file} is damaged: stop the program, and restore the file from a backup ({error})"
        )),
        _ => StoreError::Broken(format!("{file}: SQLite refused a statement: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    #[test]
    fn a_file_that_cannot_be_written_any_more_is_named_with_the_way_out() {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch("CREATE TABLE t (x); PRAGMA query_only = ON").unwrap();
        let error = describe(&conn.execute("INSERT INTO t VALUES (1)", []).unwrap_err(), "app.db");
        let text = error.to_string();
        assert!(matches!(error, StoreError::Broken(_)), "waiting does not help: {error:?}");
        assert!(text.contains("app.db cannot be written any more: allow writing to the file"), "{text}");
    }
}
