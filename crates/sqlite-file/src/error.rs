//! Why a database cannot be opened, said for people.

use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

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

/// Says why a file cannot be opened.
pub fn failed(file: &Path, error: &rusqlite::Error) -> OpenError {
    let (file, reason) = (file.to_owned(), error.to_string());
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => OpenError::Corrupt { file, reason },
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => OpenError::ReadOnly { file, reason },
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => OpenError::Unavailable {
            file,
            reason: format!("it is locked by another program ({reason}): close whatever else writes to it"),
        },
        Some(ErrorCode::DiskFull) => OpenError::Unavailable {
            file,
            reason: format!("there is no room left ({reason}): make room on its disk"),
        },
        // What is in the file does not fit what it says it is.
        None => OpenError::Corrupt { file, reason },
        Some(_) => OpenError::Unavailable { file, reason },
    }
}
