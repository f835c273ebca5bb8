//! Queues that were declared, and who has their slots.

use std::{collections::HashMap, sync::Arc};

use rusqlite::{Connection, OptionalExtension, params};
use windlass_core::{RunId, Time};
use windlass_store::{
    Load, QueueChange, QueueChanged, QueueLimits, QueueRow, QueueState, Rate, TakenSlot, TakenTask,
};

use crate::{book::Book, column, desk::Desk, error::Fault, holding, lanes, place, run};

const ANY: &str = "SELECT EXISTS (SELECT 1 FROM queue)";
const READ: &str = "SELECT limits, paused, cursor, removed FROM queue WHERE no = ?1";
const DECLARE: &str = "INSERT INTO queue (no) VALUES (?1) ON CONFLICT DO NOTHING";
const CHANGE: &str = "\
    INSERT INTO queue (no, limits, paused, removed) VALUES (?1, ?2, ?3, ?4) \
    ON CONFLICT (no) DO UPDATE SET limits = excluded.limits, paused = excluded.paused, removed = excluded.removed";
/// Changes something the first time.
const COUNT: &str = "UPDATE queue SET counted = 1 WHERE no = ?1 AND counted = 0";
const ALL: &str = "SELECT q.no, n.text FROM queue AS q JOIN name AS n ON n.no = q.no ORDER BY n.text";
/// What stands beside `min` is of the same row.
const DEPTH: &str = "SELECT count(*), min(run), opened_at FROM ready WHERE queue = ?1";
const CREATED_AT: &str = "SELECT created_at FROM run WHERE id = ?1";
const TURN: &str = "UPDATE queue SET cursor = ?2 WHERE no = ?1";
const SLOTS: &str = "SELECT no, run, lane, node FROM slot WHERE queue = ?1";
/// Attempts that nodes execute.
const TASKS: &str = "\
    SELECT s.run, s.lane, s.node FROM node AS n CROSS JOIN spread AS s ON s.node = n.no AND s.queue = ?1";
const IDLE: &str = "SELECT run FROM slot WHERE queue = ?1 AND node IS NULL";
const HAS_SLOT: &str = "SELECT EXISTS (SELECT 1 FROM slot WHERE run = ?1)";
const TAKE: &str = "INSERT INTO slot (queue, no, lane, run, node) VALUES (?1, ?2, ?3, ?4, ?5)";
const RETAKE: &str = "UPDATE slot SET node = ?2 WHERE run = ?1";
const FREE: &str = "DELETE FROM slot WHERE run = ?1";
const FREE_IDLE: &str = "DELETE FROM slot WHERE queue = ?1 AND node IS NULL";
const BEGUN: &str = "SELECT at, count FROM begun WHERE queue = ?1 AND lane = ?2 ORDER BY at";
const BEGIN: &str = "\
    INSERT INTO begun (queue, lane, at, count) VALUES (?1, ?2, ?3, ?4) \
    ON CONFLICT (queue, lane, at) DO UPDATE SET count = count + excluded.count";
const FORGET: &str = "DELETE FROM begun WHERE queue = ?1 AND lane = '' AND at <= ?2";
/// What was begun of any key, the oldest first.
const OLD: &str =
    "SELECT lane, at FROM begun WHERE queue = ?1 AND lane <> '' AND at <= ?2 ORDER BY at LIMIT ?3";
const FORGET_KEY: &str = "DELETE FROM begun WHERE queue = ?1 AND lane = ?2 AND at = ?3";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[
    READ, DECLARE, CHANGE, COUNT, DEPTH, CREATED_AT, TURN, SLOTS, TASKS, IDLE, HAS_SLOT, TAKE, RETAKE, FREE,
    FREE_IDLE, BEGUN, BEGIN, FORGET, OLD, FORGET_KEY,
];

/// How much of what was begun of keys is forgotten at once: more than a claim notes.
const FORGET_AT_ONCE: i64 = 4_000;

/// What a transaction knows of the queues that were declared, so that whoever has none asks for nothing.
pub(crate) struct Queues {
    /// Whether there is any; `None` until it is asked.
    any: Option<bool>,
    /// Whether a queue holds, if it was declared.
    known: HashMap<i64, Option<bool>>,
}

impl Queues {
    pub(crate) fn new(any: Option<bool>) -> Self {
        Self { any, known: HashMap::new() }
    }

    /// Declares a queue. Answers whether it may not have been declared before.
    pub(crate) fn declare(&mut self, conn: &Connection, queue: i64) -> rusqlite::Result<bool> {
        if matches!(self.known.get(&queue), Some(Some(_))) {
            return Ok(false);
        }
        conn.prepare_cached(DECLARE)?.execute([queue])?;
        self.any = Some(true);
        self.known.remove(&queue);
        self.holds(conn, queue)?;
        Ok(true)
    }

    /// Gives back the slot of a run, if it may have one.
    pub(crate) fn free(&mut self, conn: &Connection, run: RunId, queue: i64) -> rusqlite::Result<()> {
        if self.holds(conn, queue)?.is_some() {
            conn.prepare_cached(FREE)?.execute([run.as_bytes()])?;
        }
        Ok(())
    }

    /// Gives back the slot of a run that nobody holds any more, unless its queue holds.
    pub(crate) fn vacate(&mut self, conn: &Connection, run: RunId, queue: i64) -> rusqlite::Result<()> {
        match self.holds(conn, queue)? {
            None => {}
            Some(false) => self.free(conn, run, queue)?,
            Some(true) => {
                conn.prepare_cached(RETAKE)?.execute(params![run.as_bytes(), None::<i64>])?;
            }
        }
        Ok(())
    }

    /// Whether a queue holds; `None` when it was not declared.
    fn holds(&mut self, conn: &Connection, queue: i64) -> rusqlite::Result<Option<bool>> {
        let any = match self.any {
            Some(any) => any,
            None => *self.any.insert(self::any(conn)?),
        };
        if !any {
            return Ok(None);
        }
        if let Some(known) = self.known.get(&queue) {
            return Ok(*known);
        }
        let holds = read(conn, queue)?.map(|state| state.limits.hold);
        self.known.insert(queue, holds);
        Ok(holds)
    }
}

/// Whether any queue was declared.
pub(crate) fn any(conn: &Connection) -> rusqlite::Result<bool> {
    conn.prepare_cached(ANY)?.query_row([], |row| row.get(0))
}

/// What a queue was told, if it was declared.
pub(crate) fn read(conn: &Connection, queue: i64) -> rusqlite::Result<Option<QueueState>> {
    let mut find = conn.prepare_cached(READ)?;
    find.query_row([queue], |row| {
        let limits = serde_json::from_str::<QueueLimits>(row.get_ref(0)?.as_str()?);
        let limits = limits.map_err(|error| {
            rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, Box::new(error))
        })?;
        Ok(QueueState { limits, paused: row.get(1)?, cursor: row.get(2)?, removed: row.get(3)? })
    })
    .optional()
}

/// Changes what a queue is told.
pub(crate) fn change(desk: &mut Desk, name: &Arc<str>, change: QueueChange) -> Result<QueueChanged, Fault> {
    let Book { conn, names } = &mut desk.book;
    let queue = names.number(conn, name)?;
    let before = read(conn, queue)?;
    let Some((state, changed)) = QueueState::change(before.as_ref(), change) else {
        return Ok(QueueChanged::Unchanged);
    };
    let limits = serde_json::json!(state.limits).to_string();
    conn.prepare_cached(CHANGE)?.execute(params![queue, limits, state.paused, state.removed])?;
    if !state.limits.hold {
        conn.prepare_cached(FREE_IDLE)?.execute([queue])?;
    }
    let (old, new) = (before.and_then(|before| before.limits.key_rate), state.limits.key_rate);
    if old != new {
        lanes::wake_all(conn, queue)?;
        let until = Rate::forgotten(old, new, desk.clock.now());
        if let Some(until) = until {
            while forget_keys(conn, queue, until)? {}
        }
    }
    if conn.prepare_cached(COUNT)?.execute([queue])? > 0 {
        count_held(conn, queue)?;
    }
    desk.stir(None);
    Ok(changed)
}

/// Gives a slot to each run of the queue that is held and has none.
fn count_held(conn: &Connection, queue: i64) -> rusqlite::Result<()> {
    let mut listed: Vec<_> = holding::newest(conn)?.into_iter().collect();
    listed.sort_unstable_by_key(|(run, _)| *run);
    let load = Load::new(&QueueLimits::default(), Time(0), slots(conn, queue, -1)?, [], &[]);
    let mut numbers = load.free_numbers();
    for (run, (node, _)) in listed {
        let core = run::core(conn, run)?.filter(|core| core.queue == queue);
        let Some(core) = core else { continue };
        let has_slot: bool = conn.prepare_cached(HAS_SLOT)?.query_row([run.as_bytes()], |row| row.get(0))?;
        if has_slot || place::is_elsewhere(conn, run, &core)? {
            continue;
        }
        let Some(no) = numbers.next() else { continue };
        take(conn, queue, no, &run::lane(conn, run)?, run, node)?;
    }
    Ok(())
}

/// The queues that were declared, by name.
pub(crate) fn all(book: &mut Book, only: Option<&Arc<str>>) -> Result<Vec<QueueRow>, Fault> {
    let conn = &book.conn;
    let named: Vec<(i64, Arc<str>)> = conn
        .prepare_cached(ALL)?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let mut rows = Vec::new();
    for (no, name) in named.into_iter().filter(|(_, name)| only.is_none_or(|only| only == name)) {
        let Some(state) = read(conn, no)?.filter(|state| !state.removed) else { continue };
        let (depth, oldest, opened_at): (i64, Option<[u8; 16]>, Option<i64>) =
            conn.prepare_cached(DEPTH)?.query_row([no], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let mut created = conn.prepare_cached(CREATED_AT)?;
        let created = |run: [u8; 16]| created.query_row([run], |row| row.get(0));
        let oldest = match opened_at {
            Some(opened_at) => Some(Time(opened_at)),
            None => oldest.map(created).transpose()?.map(Time),
        };
        let running = load(conn, no, &state, -1, Time(0))?.under_way() as u64;
        let (QueueState { limits, paused, .. }, depth) = (state, depth.cast_unsigned());
        rows.push(QueueRow { limits, paused, depth, oldest, running, ..QueueRow::new(name) });
    }
    Ok(rows)
}

/// The slots of a queue that are taken, as a node sees them.
fn slots(conn: &Connection, queue: i64, node: i64) -> rusqlite::Result<Vec<TakenSlot>> {
    let mut find = conn.prepare_cached(SLOTS)?;
    let slot = |row: &rusqlite::Row<'_>| {
        let is_mine = row.get::<_, Option<i64>>(3)? == Some(node);
        Ok(TakenSlot { no: row.get(0)?, run: column::run_id(row, 1)?, lane: row.get(2)?, is_mine })
    };
    find.query_map([queue], slot)?.collect()
}

/// What of a queue is under way, as a node sees it.
pub(crate) fn load(
    conn: &Connection,
    queue: i64,
    state: &QueueState,
    node: i64,
    now: Time,
) -> rusqlite::Result<Load> {
    let task = |row: &rusqlite::Row<'_>| {
        let is_mine = row.get::<_, i64>(2)? == node;
        Ok(TakenTask { run: column::run_id(row, 0)?, lane: row.get(1)?, is_mine })
    };
    let tasks =
        conn.prepare_cached(TASKS)?.query_map([queue], task)?.collect::<rusqlite::Result<Vec<_>>>()?;
    let begun = if state.limits.rate.is_some() { begun(conn, queue, "")? } else { Vec::new() };
    Ok(Load::new(&state.limits, now, slots(conn, queue, node)?, tasks, &begun))
}

/// The runs of a queue that have a slot while nobody holds them.
pub(crate) fn idle(conn: &Connection, queue: i64) -> rusqlite::Result<Vec<RunId>> {
    conn.prepare_cached(IDLE)?.query_map([queue], |row| column::run_id(row, 0))?.collect()
}

/// How many runs of a key were taken when; of the whole queue where the lane is empty.
pub(crate) fn begun(conn: &Connection, queue: i64, lane: &str) -> rusqlite::Result<Vec<(Time, u32)>> {
    let mut find = conn.prepare_cached(BEGUN)?;
    find.query_map(params![queue, lane], |row| Ok((Time(row.get(0)?), row.get(1)?)))?.collect()
}

/// Notes that one run of each of these lanes is taken now, as far as a rate asks, and which lane had the last turn.
pub(crate) fn begin(
    conn: &Connection,
    queue: i64,
    limits: &QueueLimits,
    now: Time,
    lanes: &[&str],
) -> rusqlite::Result<()> {
    let Some(last) = lanes.last() else { return Ok(()) };
    conn.prepare_cached(TURN)?.execute(params![queue, last])?;
    let mut begin = conn.prepare_cached(BEGIN)?;
    if let Some(rate) = limits.rate {
        conn.prepare_cached(FORGET)?.execute([queue, rate.past(now).0])?;
        begin.execute(params![queue, "", rate.noted(now).0, lanes.len() as i64])?;
    }
    if let Some(rate) = limits.key_rate {
        for lane in lanes.iter().filter(|lane| !lane.is_empty()) {
            begin.execute(params![queue, lane, rate.noted(now).0, 1])?;
        }
    }
    Ok(())
}

/// Forgets some of what was begun of keys until then. Answers whether there may be more.
pub(crate) fn forget_keys(conn: &Connection, queue: i64, until: Time) -> rusqlite::Result<bool> {
    let mut old = conn.prepare_cached(OLD)?;
    let old = old.query_map([queue, until.0, FORGET_AT_ONCE], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let old = old.collect::<rusqlite::Result<Vec<(String, i64)>>>()?;
    let mut forget = conn.prepare_cached(FORGET_KEY)?;
    for (lane, at) in &old {
        forget.execute(params![queue, lane, at])?;
    }
    Ok(old.len() as i64 == FORGET_AT_ONCE)
}

/// Gives a run a slot.
pub(crate) fn take(
    conn: &Connection,
    queue: i64,
    no: u32,
    lane: &str,
    run: RunId,
    node: i64,
) -> rusqlite::Result<()> {
    conn.prepare_cached(TAKE)?.execute(params![queue, no, lane, run.as_bytes(), node])?;
    Ok(())
}

/// Notes who has the slot of a run now.
pub(crate) fn retake(conn: &Connection, run: RunId, node: i64) -> rusqlite::Result<()> {
    conn.prepare_cached(RETAKE)?.execute(params![run.as_bytes(), node])?;
    Ok(())
}
