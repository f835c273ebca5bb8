//! A SQLite file.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

use crate::{Result, ground::Ground};

/// A SQLite file of its own in a fresh directory.
pub(crate) struct Sqlite {
    directory: TempDir,
}

impl Sqlite {
    /// A place for a database that is not there yet.
    pub(crate) fn new(ground: &Ground) -> Result<Self> {
        Ok(Self { directory: ground.directory()? })
    }

    /// What an engine opens.
    pub(crate) fn url(&self) -> String {
        format!("sqlite://{}", self.path().display())
    }

    /// The file.
    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("windlass.db")
    }

    /// How large the file is once everything that was committed is in it.
    pub(crate) fn bytes(&self) -> Result<u64> {
        let connection = self.writer()?;
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(fs::metadata(self.path())?.len())
    }

    /// A connection that may write, for what is put there by hand.
    pub(crate) fn writer(&self) -> Result<Connection> {
        open(&self.path(), OpenFlags::SQLITE_OPEN_READ_WRITE)
    }

    /// The number that a query answers.
    pub(crate) fn count(&self, sql: &str) -> Result<u64> {
        let reader = open(&self.path(), OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let count: i64 = reader.query_row(sql, [], |row| row.get(0))?;
        Ok(u64::try_from(count)?)
    }
}

fn open(path: &Path, flags: OpenFlags) -> Result<Connection> {
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        .map_err(|error| format!("{}: {error}", path.display()))?;
    connection.busy_timeout(Duration::from_secs(30))?;
    Ok(connection)
}
