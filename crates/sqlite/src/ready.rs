//! Runs that may be claimed.

use rusqlite::{Connection, OptionalExtension, params};
use windlass_core::{RunId, Time};
use windlass_store::STOPS;

use crate::{
    column,
    pen::Pen,
    place::Carried,
    run::{self, Core},
    sheet::{Blank, Insert, Row},
};

pub(crate) static ADD: Insert = Insert::new(
    "INSERT OR FAIL INTO ready",
    &["queue", "lane", "workflow", "priority", "run", "generation", "recoveries"],
    &["definition", "opened_at", "stops_at"],
);
pub(crate) const REMOVE: &str =
    "DELETE FROM ready WHERE queue = ?1 AND lane = '' AND workflow = ?2 AND priority = ?3 AND run = ?4";
/// The same in any lane.
pub(crate) const REMOVE_FROM: &str =
    "DELETE FROM ready WHERE queue = ?1 AND lane = ?5 AND workflow = ?2 AND priority = ?3 AND run = ?4";
const REMOVE_UP_TO: &str =
    "DELETE FROM ready WHERE queue = ?1 AND lane = '' AND workflow = ?2 AND (priority, run) <= (?3, ?4)";
const READ: &str = "\
    SELECT generation, definition, opened_at, recoveries FROM ready \
    WHERE queue = ?1 AND lane = ?5 AND workflow = ?2 AND priority = ?3 AND run = ?4";
/// A declared queue counts as one in which something is ready.
const ANY: &str = "\
    SELECT EXISTS (SELECT 1 FROM ready WHERE queue = ?1 AND lane = '' AND workflow = ?2) \
        OR EXISTS (SELECT 1 FROM queue WHERE no = ?1)";
pub(crate) const FIRST: &str = "\
    SELECT priority, run, generation, definition, opened_at, recoveries FROM ready \
    WHERE queue = ?1 AND lane = ?6 AND workflow = ?2 AND (priority, run) > (?3, ?4) ORDER BY priority, run LIMIT ?5";
/// The same of one priority.
pub(crate) const FIRST_OF: &str = "\
    SELECT priority, run, generation, definition, opened_at, recoveries FROM ready \
    WHERE queue = ?1 AND lane = ?6 AND workflow = ?2 AND priority = ?3 AND run > ?4 ORDER BY run LIMIT ?5";
/// The next priority of which there is something.
pub(crate) const NEXT_PRIORITY: &str = "\
    SELECT priority FROM ready WHERE queue = ?1 AND lane = ?2 AND workflow = ?3 AND priority > ?4 ORDER BY priority LIMIT 1";
/// Whether a run was told to stop, or how it ends is recorded.
const IS_SETTLED: &str = "\
    SELECT EXISTS (SELECT 1 FROM inbox WHERE run = ?1 AND topic IN (?3, ?4)) \
        OR EXISTS (SELECT 1 FROM step WHERE run = ?1 AND generation = ?2 AND name = '//verdict')";
const STOP: &str = "\
    UPDATE ready SET stops_at = 0 WHERE queue = ?1 AND lane = ?5 AND workflow = ?2 AND priority = ?3 AND run = ?4";
/// The runs of a queue and workflow that have to stop by now, the first that had to before the others.
const STOPPING: &str = "\
    SELECT stops_at, run FROM ready WHERE queue = ?1 AND workflow = ?2 AND stops_at <= ?3 ORDER BY stops_at, run LIMIT ?4";
/// When the next of them has to.
const NEXT_STOP: &str = "\
    SELECT stops_at FROM ready WHERE queue = ?1 AND workflow = ?2 AND stops_at > ?3 ORDER BY stops_at LIMIT 1";
/// The runs without keys of one queue, workflow and priority before a given one, newest first.
pub(crate) const BACKWARDS: &str = "\
    SELECT run FROM ready WHERE queue = ?1 AND lane = '' AND workflow = ?2 AND priority = ?3 AND run < ?4 \
    ORDER BY run DESC LIMIT ?5";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[
    REMOVE,
    REMOVE_FROM,
    REMOVE_UP_TO,
    READ,
    ANY,
    FIRST,
    FIRST_OF,
    NEXT_PRIORITY,
    BACKWARDS,
    IS_SETTLED,
    STOP,
    STOPPING,
    NEXT_STOP,
];

/// A run to be made ready. It must stand nowhere else.
pub(crate) struct ReadyRow {
    pub(crate) run: RunId,
    pub(crate) core: Core,
    pub(crate) carried: Carried,
    /// As the run says it, unless that has no key.
    pub(crate) lane: Option<String>,
    /// From when on it has to stop.
    pub(crate) stops_at: Option<i64>,
}

impl ReadyRow {
    /// A run whose own row, and all that came to it, is written.
    pub(crate) fn of(conn: &Connection, run: RunId, core: Core, carried: Carried) -> rusqlite::Result<Self> {
        let lane = if core.has_lane { Some(run::lane(conn, run)?) } else { None };
        let is_settled = conn
            .prepare_cached(IS_SETTLED)?
            .query_row(params![run.as_bytes(), carried.generation, STOPS[0], STOPS[1]], |row| row.get(0))?;
        let stops_at = if is_settled { Some(0) } else { carried.over_at(&core) };
        Ok(Self { run, core, carried, lane, stops_at })
    }
}

impl<'u> Row<'u> for ReadyRow {
    const INSERT: &'static Insert = &ADD;

    fn fill(&self, blank: &mut Blank<'_, '_, 'u>) -> rusqlite::Result<()> {
        let Self { run, core, carried, lane, .. } = self;
        blank.integer(core.queue)?;
        match lane {
            None => blank.text(Some("")),
            Some(lane) => blank.copied_text(Some(lane)),
        }?;
        blank.integer(core.workflow)?;
        blank.integer(i64::from(core.priority))?;
        blank.copied(run.as_bytes())?;
        blank.integer(i64::from(carried.generation))?;
        blank.integer(i64::from(carried.recoveries))
    }

    fn is_rare(&self) -> bool {
        self.carried.definition.is_some() || self.carried.opened_at.is_some() || self.stops_at.is_some()
    }

    fn fill_rare(&self, blank: &mut Blank<'_, '_, 'u>) -> rusqlite::Result<()> {
        blank.integer(self.carried.definition)?;
        blank.integer(self.carried.opened_at)?;
        blank.integer(self.stops_at)
    }
}

/// Takes a run out of here.
pub(crate) fn remove(pen: &mut Pen<'_>, run: RunId, core: &Core) -> rusqlite::Result<()> {
    let Core { queue, workflow, priority, .. } = *core;
    if core.has_lane {
        let conn = pen.conn();
        return remove_from(conn, queue, &run::lane(conn, run)?, workflow, priority, run);
    }
    pen.write(params![queue, workflow, priority, run.as_bytes()])?;
    Ok(())
}

/// Takes a run out of its lane.
pub(crate) fn remove_from(
    conn: &Connection,
    queue: i64,
    lane: &str,
    workflow: i64,
    priority: u8,
    run: RunId,
) -> rusqlite::Result<()> {
    conn.prepare_cached(REMOVE_FROM)?.execute(params![queue, workflow, priority, run.as_bytes(), lane])?;
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
    let lane = if core.has_lane { run::lane(conn, run)? } else { String::new() };
    let mut find = conn.prepare_cached(READ)?;
    find.query_row(params![core.queue, core.workflow, core.priority, run.as_bytes(), lane], |row| {
        Carried::read(row, 0)
    })
    .optional()
}

/// Whether a run of this workflow is ready in this queue, or the queue was declared.
pub(crate) fn any(conn: &Connection, queue: i64, workflow: i64) -> rusqlite::Result<bool> {
    conn.prepare_cached(ANY)?.query_row([queue, workflow], |row| row.get(0))
}

/// The priorities of which there is something in a lane.
pub(crate) fn priorities(
    conn: &Connection,
    queue: i64,
    lane: &str,
    workflow: i64,
) -> rusqlite::Result<Vec<u8>> {
    let mut next = conn.prepare_cached(NEXT_PRIORITY)?;
    let mut priorities: Vec<u8> = Vec::new();
    loop {
        let last = priorities.last().map_or(-1, |last| i64::from(*last));
        let found = next.query_row(params![queue, lane, workflow, last], |row| row.get(0)).optional()?;
        let Some(found) = found else { return Ok(priorities) };
        priorities.push(found);
    }
}

/// Has a ready run stop at once.
pub(crate) fn stop(conn: &Connection, run: RunId, core: &Core) -> rusqlite::Result<()> {
    let lane = if core.has_lane { run::lane(conn, run)? } else { String::new() };
    let Core { queue, workflow, priority, .. } = *core;
    conn.prepare_cached(STOP)?.execute(params![queue, workflow, priority, run.as_bytes(), lane])?;
    Ok(())
}

/// So many of the runs of a queue and workflow that have to stop by now, and since when.
pub(crate) fn stopping(
    conn: &Connection,
    queue: i64,
    workflow: i64,
    now: Time,
    most: usize,
) -> rusqlite::Result<Vec<(i64, RunId)>> {
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let mut find = conn.prepare_cached(STOPPING)?;
    find.query_map(params![queue, workflow, now.0, most], |row| Ok((row.get(0)?, column::run_id(row, 1)?)))?
        .collect()
}

/// When the next run of a queue and workflow has to stop.
pub(crate) fn next_stop(
    conn: &Connection,
    queue: i64,
    workflow: i64,
    now: Time,
) -> rusqlite::Result<Option<Time>> {
    let mut find = conn.prepare_cached(NEXT_STOP)?;
    find.query_row([queue, workflow, now.0], |row| row.get(0).map(Time)).optional()
}
