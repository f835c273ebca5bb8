//! A connection to a database: opening it, its settings, and which SQLite may be trusted with it.

use std::{path::Path, time::Duration};

use rusqlite::{Connection, OpenFlags, config::DbConfig};

use crate::error::{OpenError, failed};

/// The first version of SQLite that does not lose committed data when two connections write checkpoints at once.
const OLDEST_SQLITE: i32 = 3_051_003;
/// How long a statement waits for a program that knows nothing of our turnstile.
pub const BUSY: Duration = Duration::from_secs(5);
/// After how many pages in the log they are moved to the database: enough that a page which changes often is
/// moved once for many changes.
pub const CHECKPOINT_PAGES: i32 = 4_000;
/// How much of the log is kept on disk when it is empty, in bytes.
const LOG_KEPT: i64 = 64 << 20;
/// How much memory the writer's pages may take, in KiB. Runs are written at the newest end of each table, so what has
/// to be at hand is that and the inner pages, which are few. More is not better: a commit that split a page has
/// SQLite walk through the whole cache. With half of this, steps of runs that began long ago cost more.
const WRITER_CACHE: i32 = 16 << 10;
/// The same for each reader.
const READER_CACHE: i32 = 8 << 10;

/// Answers another number when others have committed.
pub const VERSION: &str = "PRAGMA data_version";

/// When a commit counts as written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Synchronous {
    /// When the disk has it. What was acknowledged survives a crash of the process, of the machine, and a power
    /// cut. This is the default.
    #[default]
    Full,
    /// When the operating system has it. What was acknowledged survives a crash of the process. A power cut or a
    /// crash of the machine can take the last commits, those since the last checkpoint, with it: runs that were
    /// acknowledged are then gone, and steps that were recorded run again. The file is never damaged.
    Normal,
}

/// How the writer's connection is set up.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// When a commit counts as written.
    pub synchronous: Synchronous,
    /// How large the file may grow.
    pub max_pages: Option<u32>,
    /// Whether the file is made when it is not there.
    pub makes: bool,
}

/// Refuses an SQLite that can lose data.
///
/// # Errors
///
/// When it is one.
pub fn check_sqlite() -> Result<(), OpenError> {
    check_version(rusqlite::version_number(), rusqlite::version())
}

fn check_version(number: i32, name: &str) -> Result<(), OpenError> {
    if number < OLDEST_SQLITE { Err(OpenError::OldSqlite { found: name.to_owned() }) } else { Ok(()) }
}

/// Opens a connection with the flags that all have, and more.
///
/// # Errors
///
/// When SQLite cannot open the file.
pub fn connect(path: &Path, more: OpenFlags) -> Result<Connection, OpenError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | more;
    #[cfg_attr(not(feature = "counting"), expect(unused_mut, reason = "only counting changes it"))]
    let mut conn = Connection::open_with_flags(path, flags).map_err(|error| failed(path, &error))?;
    #[cfg(feature = "counting")]
    crate::counting::listen(&mut conn);
    conn.busy_timeout(BUSY).map_err(|error| failed(path, &error))?;
    Ok(conn)
}

/// Opens a connection that only reads.
///
/// # Errors
///
/// When SQLite cannot open the file.
pub fn open_reader(path: &Path) -> Result<Connection, OpenError> {
    let conn = connect(path, OpenFlags::empty())?;
    let set_up = || {
        keep_plans(&conn)?;
        conn.pragma_update(None, "cache_size", -READER_CACHE)?;
        conn.pragma_update(None, "query_only", true)
    };
    set_up().map_err(|error| failed(path, &error))?;
    Ok(conn)
}

/// Sets the writer's connection up.
///
/// # Errors
///
/// When SQLite cannot use the file.
pub fn set_up(conn: &Connection, setup: Setup) -> rusqlite::Result<()> {
    keep_plans(conn)?;
    let synchronous = match setup.synchronous {
        Synchronous::Full => "FULL",
        Synchronous::Normal => "NORMAL",
    };
    // A new file gets its first page by way of a journal of the older kind. Were that to come back after a power cut, it would
    // undo the file: with this its end is on disk, too.
    conn.pragma_update(None, "synchronous", "EXTRA")?;
    conn.pragma_update(None, "journal_mode", "WAL")?;
    conn.pragma_update(None, "synchronous", synchronous)?;
    conn.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    conn.pragma_update(None, "journal_size_limit", LOG_KEPT)?;
    conn.pragma_update(None, "cache_size", -WRITER_CACHE)?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    if let Some(pages) = setup.max_pages {
        conn.pragma_update(None, "max_page_count", pages)?;
    }
    Ok(())
}

/// Keeps SQLite from making a new plan whenever other values are bound, which costs more than the statement.
fn keep_plans(conn: &Connection) -> rusqlite::Result<()> {
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(|_| ())
}

/// A file system without shared memory silently refuses the log that everything here stands on.
///
/// # Errors
///
/// When it did.
pub fn check_log(conn: &Connection, path: &Path) -> Result<(), OpenError> {
    let mode: String = conn
        .pragma_query_value(None, "journal_mode", |row| row.get(0))
        .map_err(|error| failed(path, &error))?;
    if mode == "wal" {
        return Ok(());
    }
    let reason =
        format!("its file system allows no write-ahead log (SQLite keeps `{mode}`): put it on a local disk");
    Err(OpenError::Unavailable { file: path.to_owned(), reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_sqlite_that_can_lose_data_is_refused() {
        let error = check_version(3_051_002, "3.51.2").unwrap_err().to_string();
        assert!(error.contains("3.51.2") && error.contains("3.51.3 or later"), "{error}");
        check_version(3_051_003, "3.51.3").unwrap();
    }
}
