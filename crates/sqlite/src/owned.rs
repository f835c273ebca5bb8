//! Runs that a node holds.

use rusqlite::{Connection, OptionalExtension, Row, params};
use windlass_core::{ClaimId, RunId, Time};

use crate::{
    column,
    pen::Pen,
    place::{Carried, Spot},
    run::Core,
};

pub(crate) const ADD: &str = "\
    INSERT INTO owned (node, run, claim, generation, definition, opened_at, recoveries) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
pub(crate) const REMOVE: &str = "DELETE FROM owned WHERE node = ?1 AND run = ?2";
const READ: &str = "\
    SELECT o.run, o.claim, o.generation, o.definition, o.opened_at, o.recoveries, \
           r.workflow, r.queue, r.priority, r.created_at \
    FROM owned AS o CROSS JOIN run AS r ON r.id = o.run WHERE o.node = ?1 AND o.run = ?2";
const FIND: &str = "\
    SELECT o.generation, o.definition, o.opened_at, o.recoveries, n.id, o.claim \
    FROM node AS n CROSS JOIN owned AS o ON o.node = n.no WHERE o.run = ?1";
const OF_NODE: &str = "\
    SELECT o.run, o.claim, o.generation, o.definition, o.opened_at, o.recoveries, \
           r.workflow, r.queue, r.priority, r.created_at \
    FROM owned AS o CROSS JOIN run AS r ON r.id = o.run WHERE o.node = ?1 LIMIT ?2";
const OF_CLAIM: &str = "\
    SELECT o.run FROM owned AS o CROSS JOIN run AS r ON r.id = o.run \
    WHERE o.node = ?1 AND o.claim = ?2 ORDER BY r.priority, o.run";
const ANY: &str = "SELECT EXISTS (SELECT 1 FROM owned WHERE node = ?1)";
/// Every run that is held, before a given one. There are as many as are running.
pub(crate) const BACKWARDS: &str = "SELECT o.run FROM node AS n CROSS JOIN owned AS o ON o.node = n.no WHERE o.run < ?1 ORDER BY o.run DESC LIMIT ?2";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[ADD, REMOVE, READ, FIND, OF_NODE, ANY];

/// A run as its holder holds it.
pub(crate) struct OwnedRow {
    pub(crate) run: RunId,
    pub(crate) claim: ClaimId,
    pub(crate) carried: Carried,
    pub(crate) core: Core,
}

/// Gives a run to a node. It must stand nowhere else.
pub(crate) fn add(
    pen: &mut Pen<'_>,
    node: i64,
    run: RunId,
    claim: ClaimId,
    carried: &Carried,
) -> rusqlite::Result<()> {
    pen.write(params![
        node,
        run.as_bytes(),
        column::claim(claim),
        carried.generation,
        carried.definition,
        carried.opened_at,
        carried.recoveries,
    ])?;
    Ok(())
}

/// Takes a run from a node.
pub(crate) fn remove(pen: &mut Pen<'_>, node: i64, run: RunId) -> rusqlite::Result<()> {
    pen.write(params![node, run.as_bytes()])?;
    Ok(())
}

/// A run that a node holds.
pub(crate) fn read(conn: &Connection, node: i64, run: RunId) -> rusqlite::Result<Option<OwnedRow>> {
    conn.prepare_cached(READ)?.query_row(params![node, run.as_bytes()], owned_row).optional()
}

/// Where a run stands, if any node holds it. There are few nodes.
pub(crate) fn find(conn: &Connection, run: RunId) -> rusqlite::Result<Option<Spot>> {
    let mut find = conn.prepare_cached(FIND)?;
    find.query_row([run.as_bytes()], |row| {
        let carried = Carried::read(row, 0)?;
        Ok(Spot::Owned { carried, node: column::node_id(row, 4)?, claim: column::claim_id(row, 5)? })
    })
    .optional()
}

/// Runs that a node holds, at most `limit`.
pub(crate) fn of_node(conn: &Connection, node: i64, limit: usize) -> rusqlite::Result<Vec<OwnedRow>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    conn.prepare_cached(OF_NODE)?.query_map([node, limit], owned_row)?.collect()
}

/// Runs that a node holds under one claim, the most urgent first.
pub(crate) fn of_claim(conn: &Connection, node: i64, claim: ClaimId) -> rusqlite::Result<Vec<RunId>> {
    let mut find = conn.prepare_cached(OF_CLAIM)?;
    find.query_map([node, column::claim(claim)], |row| column::run_id(row, 0))?.collect()
}

/// Whether a node holds anything.
pub(crate) fn any(conn: &Connection, node: i64) -> rusqlite::Result<bool> {
    conn.prepare_cached(ANY)?.query_row([node], |row| row.get(0))
}

fn owned_row(row: &Row<'_>) -> rusqlite::Result<OwnedRow> {
    Ok(OwnedRow {
        run: column::run_id(row, 0)?,
        claim: column::claim_id(row, 1)?,
        carried: Carried::read(row, 2)?,
        core: Core {
            workflow: row.get(6)?,
            queue: row.get(7)?,
            priority: row.get(8)?,
            created_at: Time(row.get(9)?),
        },
    })
}
