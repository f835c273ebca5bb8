//! What can go wrong, said for people.

use std::path::PathBuf;

use rusqlite::ErrorCode;
use windlass_store::StoreError;

/// Why a database could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The URL cannot be understood.
    #[error("`{url}` cannot be opened: {reason}")]
    Url {
        /// The URL as it was given.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The directory of the file is not there.
    #[error("{} cannot be opened: the directory {} does not exist: make it first", file.display(), directory.display())]
    NoDirectory {
        /// The database.
        file: PathBuf,
        /// The directory that is missing.
        directory: PathBuf,
    },
    /// The file is not there, and was not to be made.
    #[error("{} is not there: it was removed, or never made", file.display())]
    Missing {
        /// The database.
        file: PathBuf,
    },
    /// The file is on a network file system.
    #[error(
        "{} is on a network file system ({kind}), where SQLite can lose data: put it on a local disk, or use \
         PostgreSQL",
        file.display()
    )]
    Network {
        /// The database.
        file: PathBuf,
        /// The kind of file system.
        kind: String,
    },
    /// The file, or the file system it is on, cannot be written.
    #[error("{} cannot be written: {reason}: allow writing to the file and its directory", file.display())]
    ReadOnly {
        /// The database.
        file: PathBuf,
        /// What shows it.
        reason: String,
    },
    /// The file is a database of another program.
    #[error("{} belongs to another program (application id {found}): choose another file", file.display())]
    Foreign {
        /// The database.
        file: PathBuf,
        /// The application id in the file.
        found: i32,
    },
    /// The file is not a database, or is damaged.
    #[error("{} is damaged or is not a database ({reason}): restore it from a backup, or choose another file", file.display())]
    Corrupt {
        /// The database.
        file: PathBuf,
        /// What SQLite says.
        reason: String,
    },
    /// The database was made by a newer version of Windlass.
    #[error(
        "{}: the database is at schema {found}, this program knows {known}: upgrade the program, or open it with a \
         copy from before the upgrade",
        file.display()
    )]
    Newer {
        /// The database.
        file: PathBuf,
        /// The schema that the database is at.
        found: u32,
        /// The newest schema that this program knows.
        known: u32,
    },
    /// The tables were not made by the migration that the database says made them.
    #[error(
        "{}: migration {version} (`{name}`) is not the one that this program has: the database was made by a changed \
         program; open it with that program, or restore a backup",
        file.display()
    )]
    Changed {
        /// The database.
        file: PathBuf,
        /// The migration that differs.
        version: u32,
        /// Its name in the database.
        name: String,
    },
    /// The program was built with an SQLite that can lose data.
    #[error(
        "this program was built with SQLite {found}, and Windlass needs 3.51.3 or later: older versions can lose \
         committed data when two connections write checkpoints at once; update the `libsqlite3-sys` crate"
    )]
    OldSqlite {
        /// The version of SQLite.
        found: String,
    },
    /// Something else is wrong with the file or its directory right now.
    #[error("{} cannot be opened: {reason}", file.display())]
    Unavailable {
        /// The database.
        file: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

/// Why a piece of work was not done.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The work itself says no, and has written nothing.
    Refused(StoreError),
    /// A statement failed: whatever its transaction wrote must go.
    Sql(rusqlite::Error),
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
