//! Counts statements, for the measurement of what an idle process costs.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rusqlite::{
    Connection,
    trace::{TraceEvent, TraceEventCodes},
};

static WANTED: AtomicBool = AtomicBool::new(false);
static COUNT: AtomicU64 = AtomicU64::new(0);

/// Begins to count the statements of all files that this process opens from now on.
pub fn begin() {
    WANTED.store(true, Ordering::Relaxed);
}

/// How many statements were executed, but for the look at whether others have committed.
#[must_use]
pub fn so_far() -> u64 {
    COUNT.load(Ordering::Relaxed)
}

/// Counts the statements of a connection, if that is wanted.
pub(crate) fn listen(conn: &mut Connection) {
    if WANTED.load(Ordering::Relaxed) {
        // The two ends of the driver's range answer in different types, so that a test sees to it that this works.
        answered(conn.trace_v2(TraceEventCodes::SQLITE_TRACE_STMT, Some(heard as fn(TraceEvent<'_>))));
    }
}

fn answered<T>(_: T) {}

fn heard(event: TraceEvent<'_>) {
    // What begins with two dashes is a part of a statement that was heard already.
    if let TraceEvent::Stmt(_, sql) = event
        && sql != crate::connection::VERSION
        && !sql.starts_with("--")
    {
        COUNT.fetch_add(1, Ordering::Relaxed);
    }
}
