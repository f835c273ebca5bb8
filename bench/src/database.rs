//! The database of a measurement, seen from outside: what was written is counted here and nowhere else.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

use crate::{Result, ground::Ground};

/// How long a count may take to become what it must be.
const PATIENCE: Duration = Duration::from_secs(600);

/// A SQLite file of its own in a fresh directory.
pub(crate) struct Database {
    directory: TempDir,
}

impl Database {
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

    /// How many runs have ended.
    pub(crate) fn ended(&self) -> Result<u64> {
        self.count("SELECT count(*) FROM ended")
    }

    /// How many runs wait to be claimed.
    pub(crate) fn ready(&self) -> Result<u64> {
        self.count("SELECT count(*) FROM ready")
    }

    /// How many runs wait for a time or an event.
    pub(crate) fn waiting(&self) -> Result<u64> {
        self.count("SELECT count(*) FROM waiting")
    }

    /// How many runs are held by a node: those that are in no other place.
    pub(crate) fn held(&self) -> Result<u64> {
        self.count(
            "SELECT (SELECT count(*) FROM run) - (SELECT count(*) FROM ended) \
             - (SELECT count(*) FROM ready) - (SELECT count(*) FROM waiting)",
        )
    }

    /// Answers when so many runs have ended. Counting takes time, so a caller waits for a sign of the end first.
    pub(crate) async fn until_ended(&self, runs: u64) -> Result<()> {
        let reader = self.reader()?;
        let begin = Instant::now();
        loop {
            let ended = counted(&reader, "SELECT count(*) FROM ended")?;
            if ended == runs {
                return Ok(());
            }
            if ended > runs || begin.elapsed() > PATIENCE {
                return Err(format!("{ended} runs have ended, but there are {runs}").into());
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
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

    fn reader(&self) -> Result<Connection> {
        open(&self.path(), OpenFlags::SQLITE_OPEN_READ_ONLY)
    }

    fn count(&self, sql: &str) -> Result<u64> {
        counted(&self.reader()?, sql)
    }
}

fn counted(reader: &Connection, sql: &str) -> Result<u64> {
    let count: i64 = reader.query_row(sql, [], |row| row.get(0))?;
    Ok(u64::try_from(count)?)
}

fn open(path: &Path, flags: OpenFlags) -> Result<Connection> {
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        .map_err(|error| format!("{}: {error}", path.display()))?;
    connection.busy_timeout(Duration::from_secs(30))?;
    Ok(connection)
}
