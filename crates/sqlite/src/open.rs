//! Opening a file, and refusing what cannot be trusted with runs.

use std::{
    io,
    path::{Path, PathBuf},
    sync::mpsc::{RecvTimeoutError, channel},
    time::Duration,
};

use rusqlite::{Connection, ErrorCode, MAIN_DB, OpenFlags, config::DbConfig};

use crate::{
    OpenError, Synchronous,
    clock::Clock,
    locks::Locks,
    migration, mount,
    turnstile::{Turn, Turnstile},
    watcher::{PATIENCE, name_holder},
};

/// The first version of SQLite that does not lose committed data when two connections write checkpoints at once.
const OLDEST_SQLITE: i32 = 3_051_003;
/// How long a statement waits for a program that knows nothing of our turnstile.
pub(crate) const BUSY: Duration = Duration::from_secs(5);
/// After how many pages in the log they are moved to the database: enough that a page which changes often is
/// moved once for many changes.
pub(crate) const CHECKPOINT_PAGES: i32 = 4_000;
/// How much of the log is kept on disk when it is empty, in bytes.
const LOG_KEPT: i64 = 64 << 20;
/// How much memory the writer's pages may take, in KiB. Runs are written at the newest end of each table, so what has
/// to be at hand is that and the inner pages, which are few. More is not better: a commit that split a page has
/// SQLite walk through the whole cache. With half of this, steps of runs that began long ago cost more.
const WRITER_CACHE: i32 = 16 << 10;
/// The same for each reader.
const READER_CACHE: i32 = 8 << 10;

/// How the writer's connection is set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) synchronous: Synchronous,
    pub(crate) max_pages: Option<u32>,
    /// Whether the file is made when it is not there.
    pub(crate) makes: bool,
}

/// A database that may be used.
pub(crate) struct Opened {
    pub(crate) conn: Connection,
    pub(crate) locks: Locks,
    pub(crate) path: PathBuf,
}

/// Refuses an SQLite that can lose data.
pub(crate) fn check_sqlite() -> Result<(), OpenError> {
    check_version(rusqlite::version_number(), rusqlite::version())
}

fn check_version(number: i32, name: &str) -> Result<(), OpenError> {
    if number < OLDEST_SQLITE { Err(OpenError::OldSqlite { found: name.to_owned() }) } else { Ok(()) }
}

/// Opens a file for writing, and makes it when it is not there, if that is wanted.
pub(crate) fn open_file(path: &Path, setup: Setup, clock: &Clock) -> Result<Opened, OpenError> {
    check_sqlite()?;
    let path = resolve(path)?;
    if let Some(kind) = mount::remote_kind(&path) {
        return Err(OpenError::Network { file: path, kind });
    }
    if path.is_dir() {
        return Err(OpenError::Unavailable {
            file: path,
            reason: "it is a directory: name a file in it".into(),
        });
    }
    refuse_missing(&path, setup)?;
    let locks = Locks::open(&path).map_err(|error| no_locks(&path, &error))?;
    // Making the file, its tables and its log is done by one process while the others wait.
    let turn = first_turn(&locks.turnstile, &path).map_err(|error| no_locks(&path, &error))?;
    // It may have been removed meanwhile.
    refuse_missing(&path, setup)?;
    let conn = connect(&path, OpenFlags::SQLITE_OPEN_CREATE)?;
    if conn.is_readonly(MAIN_DB).map_err(|error| failed(&path, &error))? {
        let reason = "the file or its file system allows reading alone".to_owned();
        return Err(OpenError::ReadOnly { file: path, reason });
    }
    migration::refuse_others(&conn, &path)?;
    set_up(&conn, setup).map_err(|error| failed(&path, &error))?;
    check_log(&conn, &path)?;
    migration::migrate(&conn, &path, clock)?;
    drop(turn);
    Ok(Opened { conn, locks, path })
}

fn refuse_missing(path: &Path, setup: Setup) -> Result<(), OpenError> {
    if setup.makes || path.exists() { Ok(()) } else { Err(OpenError::Missing { file: path.to_owned() }) }
}

/// Waits for the turn of this process, and says so when it does not come.
fn first_turn<'a>(turnstile: &'a Turnstile, path: &Path) -> io::Result<Turn<'a>> {
    std::thread::scope(|scope| {
        let (taken, waiting) = channel::<()>();
        scope.spawn(move || {
            if waiting.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                let holder = turnstile.holder().unwrap_or_default();
                name_holder(&path.display().to_string(), holder, PATIENCE);
            }
        });
        let turn = turnstile.pass();
        drop(taken);
        turn
    })
}

/// Opens a database that lives as long as its connection.
pub(crate) fn open_memory(setup: Setup, clock: &Clock) -> Result<Connection, OpenError> {
    check_sqlite()?;
    let name = Path::new(":memory:");
    let conn = Connection::open_in_memory().map_err(|error| failed(name, &error))?;
    set_up(&conn, setup).map_err(|error| failed(name, &error))?;
    migration::migrate(&conn, name, clock)?;
    Ok(conn)
}

/// Opens a connection that only reads.
pub(crate) fn open_reader(path: &Path) -> Result<Connection, OpenError> {
    let conn = connect(path, OpenFlags::empty())?;
    let set_up = || {
        keep_plans(&conn)?;
        conn.pragma_update(None, "cache_size", -READER_CACHE)?;
        conn.pragma_update(None, "query_only", true)
    };
    set_up().map_err(|error| failed(path, &error))?;
    Ok(conn)
}

/// Says why a file cannot be opened.
pub(crate) fn failed(file: &Path, error: &rusqlite::Error) -> OpenError {
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

/// The file's one true name, so that all who open it find the same locks.
fn resolve(path: &Path) -> Result<PathBuf, OpenError> {
    if let Ok(known) = path.canonicalize() {
        return Ok(known);
    }
    let file = path.to_owned();
    let Some(name) = path.file_name() else {
        return Err(OpenError::Unavailable { file, reason: "it names no file".into() });
    };
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match parent.canonicalize() {
        Ok(parent) => Ok(parent.join(name)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(OpenError::NoDirectory { file, directory: parent.to_owned() })
        }
        Err(error) => Err(OpenError::Unavailable { file, reason: error.to_string() }),
    }
}

fn connect(path: &Path, more: OpenFlags) -> Result<Connection, OpenError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | more;
    #[cfg_attr(not(feature = "counting"), expect(unused_mut, reason = "only counting changes it"))]
    let mut conn = Connection::open_with_flags(path, flags).map_err(|error| failed(path, &error))?;
    #[cfg(feature = "counting")]
    crate::counting::listen(&mut conn);
    conn.busy_timeout(BUSY).map_err(|error| failed(path, &error))?;
    Ok(conn)
}

/// Keeps SQLite from making a new plan whenever other values are bound, which costs more than the statement.
fn keep_plans(conn: &Connection) -> rusqlite::Result<()> {
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(|_| ())
}

fn set_up(conn: &Connection, setup: Setup) -> rusqlite::Result<()> {
    keep_plans(conn)?;
    let synchronous = match setup.synchronous {
        Synchronous::Full => "FULL",
        Synchronous::Normal => "NORMAL",
    };
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

/// A file system without shared memory silently refuses the log that everything here stands on.
fn check_log(conn: &Connection, path: &Path) -> Result<(), OpenError> {
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

pub(crate) fn no_locks(file: &Path, error: &io::Error) -> OpenError {
    let file = file.to_owned();
    let reason = format!("the directory {} cannot be used: {error}", Locks::directory(&file).display());
    match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            OpenError::ReadOnly { file, reason }
        }
        _ => OpenError::Unavailable { file, reason },
    }
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
