//! Runs that wait for a time or an inbox row.

use rusqlite::{Connection, OptionalExtension, Row, params};
use windlass_core::{RunId, RunState, Time};
use windlass_store::{DefinitionId, Wait};

use crate::{column, pen::Pen, place::Carried, run::Core};

pub(crate) const ADD: &str = "\
    INSERT INTO waiting \
    (run, workflow, state, until, generation, definition, opened_at, recoveries, topics, reason, blocked_by) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
pub(crate) const REMOVE: &str = "DELETE FROM waiting WHERE run = ?1";
const READ: &str = "\
    SELECT generation, definition, opened_at, recoveries, state, until, topics, reason, blocked_by \
    FROM waiting WHERE run = ?1";
const DUE: &str = "\
    SELECT w.run, w.generation, w.definition, w.opened_at, w.recoveries, \
           r.workflow, r.queue, r.priority, r.created_at, r.parent IS NOT NULL, r.queue_key IS NOT NULL, r.timeout \
    FROM waiting AS w CROSS JOIN run AS r ON r.id = w.run \
    WHERE w.until <= ?1 ORDER BY w.until LIMIT ?2";
pub(crate) const NEXT: &str = "SELECT until FROM waiting WHERE until IS NOT NULL ORDER BY until LIMIT 1";
const BLOCKED: &str = "\
    SELECT w.run, w.generation, w.definition, w.opened_at, w.recoveries, \
           r.workflow, r.queue, r.priority, r.created_at, r.parent IS NOT NULL, r.queue_key IS NOT NULL, r.timeout \
    FROM waiting AS w CROSS JOIN run AS r ON r.id = w.run \
    WHERE w.workflow = ?1 AND w.state = ?2 AND w.blocked_by IS NOT ?3";
/// The runs of one workflow and state before a given one, newest first.
pub(crate) const BACKWARDS: &str = "\
    SELECT run FROM waiting WHERE workflow = ?1 AND state = ?2 AND run < ?3 ORDER BY run DESC LIMIT ?4";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[ADD, REMOVE, READ, DUE, NEXT, BLOCKED, BACKWARDS];

/// A waiting run on its way to being ready.
pub(crate) struct Waiter {
    pub(crate) run: RunId,
    pub(crate) core: Core,
    pub(crate) carried: Carried,
}

/// Lets a run wait. It must stand nowhere else.
pub(crate) fn add(
    pen: &mut Pen<'_>,
    run: RunId,
    core: &Core,
    carried: &Carried,
    wait: &Wait,
) -> rusqlite::Result<()> {
    pen.write(params![
        run.as_bytes(),
        core.workflow,
        wait.state as u8,
        wait.until.map(|until| until.0),
        carried.generation,
        carried.definition,
        carried.opened_at,
        carried.recoveries,
        column::list(&wait.topics),
        wait.reason,
        wait.blocked_by.map(|definition| definition.0),
    ])?;
    Ok(())
}

/// Takes a run out of here.
pub(crate) fn remove(pen: &mut Pen<'_>, run: RunId) -> rusqlite::Result<()> {
    pen.write([run.as_bytes()])?;
    Ok(())
}

/// A run's row, if it is here.
pub(crate) fn read(conn: &Connection, run: RunId) -> rusqlite::Result<Option<(Carried, Wait)>> {
    let mut find = conn.prepare_cached(READ)?;
    find.query_row([run.as_bytes()], |row| {
        let wait = Wait {
            state: column::run_state(row, 4)?,
            until: row.get::<_, Option<i64>>(5)?.map(Time),
            topics: column::items(row, 6)?,
            reason: row.get(7)?,
            blocked_by: row.get::<_, Option<i64>>(8)?.map(DefinitionId),
        };
        Ok((Carried::read(row, 0)?, wait))
    })
    .optional()
}

/// Runs whose time has come, at most `limit`.
pub(crate) fn due(conn: &Connection, now: Time, limit: usize) -> rusqlite::Result<Vec<Waiter>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    conn.prepare_cached(DUE)?.query_map([now.0, limit], waiter)?.collect()
}

/// When the next run is due.
pub(crate) fn next_due(conn: &Connection) -> rusqlite::Result<Option<Time>> {
    conn.prepare_cached(NEXT)?.query_row([], |row| row.get(0).map(Time)).optional()
}

/// Runs of a workflow that are blocked, and not by this version of it.
pub(crate) fn blocked(
    conn: &Connection,
    workflow: i64,
    version: DefinitionId,
) -> rusqlite::Result<Vec<Waiter>> {
    let state = RunState::Blocked as u8;
    conn.prepare_cached(BLOCKED)?.query_map(params![workflow, state, version.0], waiter)?.collect()
}

fn waiter(row: &Row<'_>) -> rusqlite::Result<Waiter> {
    Ok(Waiter { run: column::run_id(row, 0)?, carried: Carried::read(row, 1)?, core: Core::read(row, 5)? })
}
