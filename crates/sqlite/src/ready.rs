//! Runs that may be claimed.

use rusqlite::{Connection, OptionalExtension, params};
use windlass_core::RunId;

use crate::{
    pen::Pen,
    place::Carried,
    run::Core,
    sheet::{Blank, Insert, Row},
};

pub(crate) static ADD: Insert = Insert::new(
    "INSERT OR FAIL INTO ready (queue, workflow, priority, run, generation, definition, opened_at, recoveries) \
     VALUES",
    8,
);
pub(crate) const REMOVE: &str =
    "DELETE FROM ready WHERE queue = ?1 AND workflow = ?2 AND priority = ?3 AND run = ?4";
const REMOVE_UP_TO: &str =
    "DELETE FROM ready WHERE queue = ?1 AND workflow = ?2 AND (priority, run) <= (?3, ?4)";
const READ: &str = "\
    SELECT generation, definition, opened_at, recoveries FROM ready \
    WHERE queue = ?1 AND workflow = ?2 AND priority = ?3 AND run = ?4";
const ANY: &str = "SELECT EXISTS (SELECT 1 FROM ready WHERE queue = ?1 AND workflow = ?2)";
pub(crate) const FIRST: &str = "\
    SELECT priority, run, generation, definition, opened_at, recoveries FROM ready \
    WHERE queue = ?1 AND workflow = ?2 AND (priority, run) > (?3, ?4) ORDER BY priority, run LIMIT ?5";
/// The runs of one queue, workflow and priority before a given one, newest first.
pub(crate) const BACKWARDS: &str = "\
    SELECT run FROM ready WHERE queue = ?1 AND workflow = ?2 AND priority = ?3 AND run < ?4 \
    ORDER BY run DESC LIMIT ?5";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[REMOVE, REMOVE_UP_TO, READ, ANY, FIRST, BACKWARDS];

/// A run to be made ready. It must stand nowhere else.
pub(crate) struct ReadyRow {
    pub(crate) run: RunId,
    pub(crate) core: Core,
    pub(crate) carried: Carried,
}

impl<'u> Row<'u> for ReadyRow {
    const INSERT: &'static Insert = &ADD;

    fn fill(&self, blank: &mut Blank<'_, '_, 'u>) -> rusqlite::Result<()> {
        let Self { run, core, carried } = self;
        blank.integer(core.queue)?;
        blank.integer(core.workflow)?;
        blank.integer(i64::from(core.priority))?;
        blank.copied(run.as_bytes())?;
        blank.integer(i64::from(carried.generation))?;
        blank.integer(carried.definition)?;
        blank.integer(carried.opened_at)?;
        blank.integer(i64::from(carried.recoveries))
    }
}

/// Takes a run out of here.
pub(crate) fn remove(pen: &mut Pen<'_>, run: RunId, core: &Core) -> rusqlite::Result<()> {
    pen.write(params![core.queue, core.workflow, core.priority, run.as_bytes()])?;
    Ok(())
}

/// Takes all runs of a line out of here, up to one of them.
pub(crate) fn remove_up_to(
    conn: &Connection,
    queue: i64,
    workflow: i64,
    priority: u8,
    run: RunId,
) -> rusqlite::Result<()> {
    conn.prepare_cached(REMOVE_UP_TO)?.execute(params![queue, workflow, priority, run.as_bytes()])?;
    Ok(())
}

/// A run's row, if it is here.
pub(crate) fn read(conn: &Connection, run: RunId, core: &Core) -> rusqlite::Result<Option<Carried>> {
    let mut find = conn.prepare_cached(READ)?;
    find.query_row(params![core.queue, core.workflow, core.priority, run.as_bytes()], |row| {
        Carried::read(row, 0)
    })
    .optional()
}

/// Whether a run of this workflow is ready in this queue.
pub(crate) fn any(conn: &Connection, queue: i64, workflow: i64) -> rusqlite::Result<bool> {
    conn.prepare_cached(ANY)?.query_row([queue, workflow], |row| row.get(0))
}
