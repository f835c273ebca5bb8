//! Versions of workflows.

use rusqlite::{OptionalExtension, params};
use windlass_store::{DefinitionId, DefinitionRow, Versions};

use crate::{book::Book, column, error::Fault, name::Names};

const FIND: &str = "SELECT id FROM definition WHERE workflow = ?1 AND version = ?2";
const ADD: &str = "INSERT INTO definition (workflow, version, body) VALUES (?1, ?2, ?3) RETURNING id";
const READ: &str = "SELECT workflow, version, body FROM definition WHERE id = ?1";
const OF: &str = "SELECT id FROM definition WHERE workflow = ?1";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[FIND, READ, OF];

/// The number of a version, given out on first sight.
pub(crate) fn define(book: &mut Book, new: &DefinitionRow) -> Result<DefinitionId, Fault> {
    let Book { conn, names } = book;
    let workflow = names.number(conn, &new.workflow)?;
    let known = conn
        .prepare_cached(FIND)?
        .query_row(params![workflow, &*new.version], |row| row.get(0))
        .optional()?;
    let id = match known {
        Some(id) => id,
        None => conn
            .prepare_cached(ADD)?
            .query_row(params![workflow, &*new.version, &*new.body], |row| row.get(0))?,
    };
    Ok(DefinitionId(id))
}

/// The version with a number.
pub(crate) fn read(book: &mut Book, id: DefinitionId) -> Result<Option<DefinitionRow>, Fault> {
    let Book { conn, names } = book;
    let mut find = conn.prepare_cached(READ)?;
    let mut rows = find.query([id.0])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let workflow = names.text(conn, row.get(0)?)?;
    Ok(Some(DefinitionRow { workflow, version: row.get(1)?, body: column::bytes(row, 2)? }))
}

/// Versions with their numbers.
pub(crate) fn list(book: &mut Book, which: &Versions) -> Result<Vec<(DefinitionId, DefinitionRow)>, Fault> {
    let mut ids = Vec::new();
    match which {
        Versions::Newest => {
            for (_, workflow) in Names::in_order(&book.conn)? {
                ids.extend(of(book, workflow)?.first());
            }
        }
        Versions::Of { workflow, limit } => {
            if let Some(workflow) = book.names.find(&book.conn, workflow)? {
                ids = of(book, workflow)?;
                ids.truncate(*limit);
            }
        }
    }
    let rows = ids.into_iter().map(|id| Ok(read(book, id)?.map(|row| (id, row))));
    rows.filter_map(Result::transpose).collect()
}

/// The numbers of the versions of one workflow, newest first.
fn of(book: &Book, workflow: i64) -> Result<Vec<DefinitionId>, Fault> {
    let mut find = book.conn.prepare_cached(OF)?;
    let ids = find.query_map([workflow], |row| row.get(0).map(DefinitionId))?;
    let mut ids: Vec<_> = ids.collect::<Result<_, _>>()?;
    // The index has them by version: sorting these few is nothing to the reading of their bodies.
    ids.sort_unstable_by(|a, b| b.cmp(a));
    Ok(ids)
}
