//! Small values that processes share.

use rusqlite::{Connection, OptionalExtension, params};
use windlass_core::NodeId;
use windlass_store::{Cell, Swapped};

use crate::{column, desk::Desk, error::Fault, node};

const READ: &str = "SELECT version, body FROM cell WHERE name = ?1";
const WRITE: &str = "\
    INSERT INTO cell (name, version, body) VALUES (?1, ?2, ?3) \
    ON CONFLICT (name) DO UPDATE SET version = excluded.version, body = excluded.body";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[READ, WRITE];

/// A cell, if it is there.
pub(crate) fn read(conn: &Connection, name: &str) -> rusqlite::Result<Option<Cell>> {
    let cell = |row: &rusqlite::Row<'_>| {
        Ok(Cell { version: row.get::<_, i64>(0)?.cast_unsigned(), body: column::bytes(row, 1)? })
    };
    conn.prepare_cached(READ)?.query_row([name], cell).optional()
}

/// Writes a cell if it has this version.
pub(crate) fn swap(
    desk: &mut Desk,
    node: Option<NodeId>,
    name: &str,
    version: u64,
    body: &[u8],
) -> Result<Swapped, Fault> {
    let at = desk.clock.now();
    if let Some(node) = node {
        node::check(desk, node)?;
    }
    let conn = &desk.book.conn;
    let now = read(conn, name)?;
    if now.as_ref().map_or(0, |cell| cell.version) != version {
        return Ok(Swapped::Changed { at, now });
    }
    conn.prepare_cached(WRITE)?.execute(params![name, (version + 1).cast_signed(), body])?;
    Ok(Swapped::Done { at })
}
