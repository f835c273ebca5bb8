//! Values that attempts keep for the next ones.

use rusqlite::{Connection, params};
use windlass_core::RunId;
use windlass_store::SavedRow;

use crate::column;

const KEEP: &str = "\
    INSERT INTO saved (run, step, value) VALUES (?1, ?2, ?3) \
    ON CONFLICT (run, step) DO UPDATE SET value = excluded.value";
const READ: &str = "SELECT step, value FROM saved WHERE run = ?1 ORDER BY step";
const ANY: &str = "SELECT EXISTS (SELECT 1 FROM saved)";
const CLEAR: &str = "DELETE FROM saved WHERE run = ?1";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[KEEP, READ, CLEAR];

/// Keeps a value over the one kept before.
pub(crate) fn keep(conn: &Connection, run: RunId, step: &str, value: &[u8]) -> rusqlite::Result<()> {
    conn.prepare_cached(KEEP)?.execute(params![run.as_bytes(), step, value])?;
    Ok(())
}

/// What a run's attempts saved, by the name of the step.
pub(crate) fn read(conn: &Connection, run: RunId) -> rusqlite::Result<Vec<SavedRow>> {
    let mut find = conn.prepare_cached(READ)?;
    find.query_map([run.as_bytes()], |row| Ok(SavedRow { step: row.get(0)?, value: column::bytes(row, 1)? }))?
        .collect()
}

/// Whether any run's attempts saved anything.
pub(crate) fn any(conn: &Connection) -> rusqlite::Result<bool> {
    conn.prepare_cached(ANY)?.query_row([], |row| row.get(0))
}

/// Throws away what a run's attempts saved.
pub(crate) fn clear(conn: &Connection, run: RunId) -> rusqlite::Result<()> {
    conn.prepare_cached(CLEAR)?.execute([run.as_bytes()])?;
    Ok(())
}
