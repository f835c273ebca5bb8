//! How runs were started.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, named_params};
use windlass_core::{RunId, Time};
use windlass_store::{NewRun, Parent, RunRow};

use crate::{
    column,
    name::Names,
    pen::Pen,
    sheet::{Blank, Insert, Row},
};

/// A run that is there already is left as it is.
pub(crate) static ADD: Insert = Insert::new(
    "INSERT OR IGNORE INTO run",
    &["id", "workflow", "queue", "priority", "created_at", "input"],
    &[
        "timeout",
        "context",
        "key",
        "tags",
        "forked_from",
        "trace",
        "steps",
        "parent",
        "parent_topic",
        "queue_key",
    ],
);
const CORE: &str = "\
    SELECT workflow, queue, priority, created_at, parent IS NOT NULL, queue_key IS NOT NULL, timeout \
    FROM run WHERE id = ?1";
const CHANGE: &str = "UPDATE run SET input = ?2, context = ?3 WHERE id = ?1";
const LANE: &str = "SELECT queue_key FROM run WHERE id = ?1";
const PARENT: &str = "SELECT parent, parent_topic FROM run WHERE id = ?1";
pub(crate) const READ: &str = "\
    SELECT id, workflow, queue, priority, created_at, input, timeout, context, key, tags, forked_from, trace, steps, \
           parent, parent_topic, queue_key FROM run WHERE id = ?1";
const TAG: &str = "INSERT INTO tag (tag, run) VALUES (:tag, :run) ON CONFLICT DO NOTHING";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[CHANGE, CORE, LANE, PARENT, READ, TAG];

/// What a run's places are found by. It never changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Core {
    pub(crate) workflow: i64,
    pub(crate) queue: i64,
    pub(crate) priority: u8,
    pub(crate) created_at: Time,
    /// Whether another run is told when it ends.
    pub(crate) has_parent: bool,
    /// Whether it has a key within its queue.
    pub(crate) has_lane: bool,
    /// The longest that it may take, in microseconds.
    pub(crate) timeout: Option<i64>,
}

impl Core {
    /// From seven columns in the order of the fields.
    pub(crate) fn read(row: &rusqlite::Row<'_>, first: usize) -> rusqlite::Result<Self> {
        Ok(Self {
            workflow: row.get(first)?,
            queue: row.get(first + 1)?,
            priority: row.get(first + 2)?,
            created_at: Time(row.get(first + 3)?),
            has_parent: row.get(first + 4)?,
            has_lane: row.get(first + 5)?,
            timeout: row.get(first + 6)?,
        })
    }
}

/// A run to be added.
pub(crate) struct NewRunRow<'u> {
    pub(crate) id: RunId,
    pub(crate) core: Core,
    pub(crate) new: &'u NewRun,
}

impl<'u> Row<'u> for NewRunRow<'u> {
    const INSERT: &'static Insert = &ADD;

    fn fill(&self, blank: &mut Blank<'_, '_, 'u>) -> rusqlite::Result<()> {
        let Self { id, core, new } = self;
        blank.copied(id.as_bytes())?;
        blank.integer(core.workflow)?;
        blank.integer(core.queue)?;
        blank.integer(i64::from(core.priority))?;
        blank.integer(core.created_at.0)?;
        blank.bytes(&*new.input)
    }

    fn is_rare(&self) -> bool {
        let NewRun { timeout, context, key, tags, forked_from, trace, steps, parent, queue_key, .. } =
            self.new;
        let is_plain = timeout.is_none() && context.is_none() && key.is_none() && tags.is_empty();
        let is_first = forked_from.is_none() && trace.is_none() && steps.is_empty() && parent.is_none();
        !is_plain || !is_first || queue_key.is_some()
    }

    fn fill_rare(&self, blank: &mut Blank<'_, '_, 'u>) -> rusqlite::Result<()> {
        let Self { new, .. } = self;
        blank.integer(new.timeout.map(column::micros))?;
        blank.bytes(new.context.as_deref())?;
        blank.text(new.key.as_ref().map(|key| &*key.key))?;
        blank.copied_text(column::list(&new.tags).as_deref())?;
        blank.bytes(new.forked_from.as_ref().map(|run| &run.as_bytes()[..]))?;
        blank.text(new.trace.as_deref())?;
        blank.integer((!new.steps.is_empty()).then_some(1))?;
        blank.bytes(new.parent.as_ref().map(|parent| &parent.run.as_bytes()[..]))?;
        blank.text(new.parent.as_ref().map(|parent| &*parent.topic))?;
        blank.text(new.queue_key.as_deref())
    }
}

/// Adds the tags of a run, for search.
pub(crate) fn add_tags(conn: &Connection, id: RunId, tags: &[String]) -> rusqlite::Result<()> {
    if tags.is_empty() {
        return Ok(());
    }
    let mut add = conn.prepare_cached(TAG)?;
    for tag in tags {
        add.execute(named_params! { ":tag": tag, ":run": id.as_bytes() })?;
    }
    Ok(())
}

/// What a run's places are found by, if there is such a run.
pub(crate) fn core(conn: &Connection, id: RunId) -> rusqlite::Result<Option<Core>> {
    let mut find = conn.prepare_cached(CORE)?;
    find.query_row([id.as_bytes()], |row| Core::read(row, 0)).optional()
}

/// Gives a run that has not begun another input.
pub(crate) fn change(
    conn: &Connection,
    id: RunId,
    input: &[u8],
    context: Option<&[u8]>,
) -> rusqlite::Result<()> {
    conn.prepare_cached(CHANGE)?.execute(rusqlite::params![id.as_bytes(), input, context])?;
    Ok(())
}

/// The lane that a run waits in.
pub(crate) fn lane(conn: &Connection, id: RunId) -> rusqlite::Result<String> {
    let mut find = conn.prepare_cached(LANE)?;
    find.query_row([id.as_bytes()], |row| {
        Ok(windlass_store::lane(row.get::<_, Option<String>>(0)?.as_deref()))
    })
}

/// The run that is told when this one ends.
pub(crate) fn parent(conn: &Connection, id: RunId) -> rusqlite::Result<Option<Parent>> {
    conn.prepare_cached(PARENT)?.query_row([id.as_bytes()], |row| parent_of(row, 0))
}

/// A parent from two columns.
fn parent_of(row: &rusqlite::Row<'_>, first: usize) -> rusqlite::Result<Option<Parent>> {
    let Some(run) = row.get::<_, Option<[u8; 16]>>(first)?.map(RunId::from_bytes) else { return Ok(None) };
    Ok(Some(Parent { run, topic: row.get(first + 1)? }))
}

/// A run as its start describes it.
pub(crate) struct Started {
    pub(crate) core: Core,
    pub(crate) row: RunRow,
    /// Whether it started with records.
    pub(crate) has_steps: bool,
}

/// A run as its start describes it, if there is such a run.
pub(crate) fn read(pen: &mut Pen<'_>, names: &mut Names, id: RunId) -> rusqlite::Result<Option<Started>> {
    let conn = pen.conn();
    let mut rows = pen.ready()?.query([id.as_bytes()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let parent = parent_of(row, 13)?;
    let queue_key = row.get::<_, Option<String>>(15)?.map(Arc::from);
    let core = Core {
        workflow: row.get(1)?,
        queue: row.get(2)?,
        priority: row.get(3)?,
        created_at: Time(row.get(4)?),
        has_parent: parent.is_some(),
        has_lane: queue_key.is_some(),
        timeout: row.get(6)?,
    };
    let row_of_run = RunRow {
        id,
        workflow: names.text(conn, core.workflow)?,
        queue: names.text(conn, core.queue)?,
        queue_key,
        priority: core.priority,
        created_at: core.created_at,
        timeout: core.timeout.map(column::span),
        input: column::bytes(row, 5)?,
        context: column::maybe_bytes(row, 7)?,
        key: row.get(8)?,
        tags: column::items(row, 9)?,
        forked_from: row.get::<_, Option<[u8; 16]>>(10)?.map(RunId::from_bytes),
        trace: row.get(11)?,
        parent,
    };
    let has_steps = row.get::<_, Option<bool>>(12)?.unwrap_or(false);
    Ok(Some(Started { core, row: row_of_run, has_steps }))
}
