//! Opening a file, and refusing what cannot be trusted with runs.

use std::{
    io,
    path::{Path, PathBuf},
    sync::mpsc::{RecvTimeoutError, channel},
};

use rusqlite::{Connection, MAIN_DB, OpenFlags};
use windlass_sqlite_file::connection::{check_log, check_sqlite, connect, set_up};
pub(crate) use windlass_sqlite_file::{
    connection::{BUSY, CHECKPOINT_PAGES, Setup, VERSION, open_reader},
    error::failed,
};

use crate::{
    OpenError,
    clock::Clock,
    locks::Locks,
    migration, mount,
    turnstile::{Turn, Turnstile},
    watcher::{PATIENCE, name_holder},
};

/// A database that may be used.
pub(crate) struct Opened {
    pub(crate) conn: Connection,
    pub(crate) locks: Locks,
    pub(crate) path: PathBuf,
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
