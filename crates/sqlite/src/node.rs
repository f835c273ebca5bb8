//! Processes that run an engine: joining, living, dying.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row, named_params, params};
use windlass_core::{NodeId, Time};
use windlass_store::{Death, Heartbeat, Joined, NewNode, NodeRow, Pulse, StoreError, Swept, host_name};

use crate::{
    book::Book, column, desk::Desk, error::Fault, held::Mirror, holding, inbox, queue::Queues,
    ready::ReadyRow, sheet::Sheet, spread,
};

/// Also says whether any queue was declared, which most programs never do.
const FENCE: &str =
    "SELECT no, dead, handle, EXISTS (SELECT 1 FROM queue WHERE no > 0) FROM node WHERE id = ?1";
const ADOPT: &str = "UPDATE node SET handle = ?2 WHERE no = ?1";
const ADD: &str = "\
    INSERT INTO node (id, name, pid, host, version, queues, started_at, heartbeat_at, stale_after, handle) \
    VALUES (:id, :name, :pid, :host, :version, :queues, :now, :now, :stale_after, :handle) RETURNING no";
const RENEW: &str = "UPDATE node SET heartbeat_at = ?2 WHERE no = ?1";
const BEAT: &str = "UPDATE node SET heartbeat_at = ?2, running = ?3, ended = ?4 WHERE no = ?1";
/// The same with the fence in it, for a node that acts through this handle. Answers whether there is anything to be read.
const BEAT_ALONE: &str = "\
    UPDATE node SET heartbeat_at = ?2, running = ?3, ended = ?5 WHERE id = ?1 AND dead = 0 AND handle = ?4 \
    RETURNING EXISTS (SELECT 1 FROM inbox), EXISTS (SELECT 1 FROM node AS n WHERE n.id <> ?1)";
const REMOVE: &str = "DELETE FROM node WHERE no = ?1";
const DEPOSE: &str = "UPDATE node SET dead = 1 WHERE name = ?1 AND dead = 0 RETURNING id";
const CONDEMN: &str = "UPDATE node SET dead = 1 WHERE id = ?1";
const JUDGE: &str = "SELECT dead, heartbeat_at, stale_after FROM node WHERE id = ?1";
const DEAD: &str = "SELECT no, id FROM node WHERE dead = 1 ORDER BY no";
const ALL: &str = "\
    SELECT id, name, pid, host, version, queues, started_at, heartbeat_at, stale_after, dead, running, ended \
    FROM node ORDER BY id";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[FENCE, ADOPT, ADD, RENEW, BEAT, REMOVE, CONDEMN, JUDGE];

/// Refuses a node that was declared dead or is not known, and hands out what this handle knows of its runs.
/// The caller gives that back to the desk when it has done its part.
pub(crate) fn fence(desk: &mut Desk, node: NodeId) -> Result<Mirror, Fault> {
    let conn = &desk.book.conn;
    let found: Option<(i64, bool, i64, bool)> = conn
        .prepare_cached(FENCE)?
        .query_row([node.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
        .optional()?;
    let known = desk.mirrors.remove(&node);
    let Some((no, false, handle, any_queue)) = found else {
        desk.let_go.push(node);
        return Err(StoreError::Fenced.into());
    };
    desk.nodes.insert(node);
    let mut mirror = if handle == desk.handle {
        known.map_or_else(|| Mirror::read(conn, no), Ok)?
    } else {
        conn.prepare_cached(ADOPT)?.execute([no, desk.handle])?;
        Mirror::read(conn, no)?
    };
    mirror.any_queue = any_queue;
    Ok(mirror)
}

/// Refuses a node that was declared dead or is not known. Answers its number.
pub(crate) fn check(desk: &mut Desk, node: NodeId) -> Result<i64, Fault> {
    let mirror = fence(desk, node)?;
    let no = mirror.no;
    desk.mirrors.insert(node, mirror);
    Ok(no)
}

/// Adds a node.
pub(crate) fn join(desk: &mut Desk, new: &NewNode) -> Result<Joined, Fault> {
    let now = desk.clock.now();
    if exists(&desk.book.conn, new.id)? {
        let no = check(desk, new.id)?;
        desk.book.conn.prepare_cached(RENEW)?.execute([no, now.0])?;
        return Ok(Joined { now, fenced: Vec::new() });
    }
    // The lock comes first: a row without a lock would look like a process that is gone.
    desk.hold(new.id)?;
    let Book { conn, names } = &mut desk.book;
    // A name without a number would have to be looked for with every look for work.
    for queue in &new.queues {
        names.number(conn, &Arc::from(queue.as_str()))?;
    }
    let mut fenced: Vec<NodeId> = match &new.name {
        None => Vec::new(),
        Some(name) => conn
            .prepare_cached(DEPOSE)?
            .query_map([name], |row| column::node_id(row, 0))?
            .collect::<Result<_, _>>()?,
    };
    fenced.sort();
    let no = conn.prepare_cached(ADD)?.query_row(
        named_params! {
            ":id": new.id.as_bytes(),
            ":name": new.name,
            ":pid": std::process::id(),
            ":host": host_name(),
            ":version": new.version,
            ":queues": serde_json::Value::from(new.queues.clone()).to_string(),
            ":now": now.0,
            ":stale_after": column::micros(new.stale_after),
            ":handle": desk.handle,
        },
        |row| row.get(0),
    )?;
    desk.mirrors.insert(new.id, Mirror::empty(no));
    desk.nodes.insert(new.id);
    // It may have been refused, or have left, earlier in the same transaction.
    desk.let_go.retain(|gone| *gone != new.id);
    Ok(Joined { now, fenced })
}

/// Says that a node lives, and looks around.
pub(crate) fn heartbeat(desk: &mut Desk, node: NodeId, pulse: &Pulse) -> Result<Heartbeat, Fault> {
    let no = check(desk, node)?;
    let (now, left) = (desk.clock.now(), left(desk));
    desk.book.conn.prepare_cached(BEAT)?.execute(params![no, now.0, pulse.running, ended(pulse)])?;
    Ok(look_around(desk, node, now, left, Around { mail: true, others: true })?)
}

/// The same with one statement that writes, and others only when there is something to be read. `None` when the fence
/// has to be asked why that does not work; nothing was done then.
pub(crate) fn beat_alone(desk: &mut Desk, node: NodeId, pulse: &Pulse) -> Result<Option<Heartbeat>, Fault> {
    let (now, left) = (desk.clock.now(), left(desk));
    let around = {
        let mut beat = desk.book.conn.prepare_cached(BEAT_ALONE)?;
        let mut rows =
            beat.query(params![node.as_bytes(), now.0, pulse.running, desk.handle, ended(pulse)])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let around = Around { mail: row.get(0)?, others: row.get(1)? };
        // It is committed, or has failed to be, when it has nothing more to say.
        rows.next()?;
        around
    };
    desk.nodes.insert(node);
    Ok(Some(look_around(desk, node, now, left, around)?))
}

/// What there may be around a node.
struct Around {
    mail: bool,
    others: bool,
}

/// The locks of processes that are gone. Whoever asks looks for their nodes only then: one that joined and died in
/// between would be taken for one that nobody knows.
fn left(desk: &Desk) -> Vec<NodeId> {
    desk.locks.as_ref().and_then(|locks| locks.gone().ok()).unwrap_or_default()
}

fn look_around(
    desk: &mut Desk,
    node: NodeId,
    now: Time,
    left: Vec<NodeId>,
    around: Around,
) -> rusqlite::Result<Heartbeat> {
    let conn = &desk.book.conn;
    let inbox = if around.mail { inbox::of_node(conn, node, None)? } else { Vec::new() };
    let mut others = if around.others { all(conn)? } else { Vec::new() };
    others.retain(|row| row.id != node);
    // A process that died before its node was known, or just after the node had left, leaves a lock for which
    // nobody asks, and of which the watchers would tell for ever.
    let is_unknown = |left: &NodeId| *left != node && others.iter().all(|row| row.id != *left);
    desk.let_go.extend(left.into_iter().filter(is_unknown));
    let gone = others.iter().filter(|row| !row.dead && desk.is_gone(row.id)).map(|row| row.id).collect();
    // No answer is lost between two threads of one process.
    Ok(Heartbeat { now, others, gone, inbox, strangers: Vec::new() })
}

/// Removes a node. What it holds becomes ready.
pub(crate) fn leave(desk: &mut Desk, node: NodeId) -> Result<(), Fault> {
    let no = check(desk, node)?;
    desk.mirrors.remove(&node);
    let Released { count, .. } = release(&desk.book.conn, no, usize::MAX, 0)?;
    let (tasks, _) = spread::free(&desk.book.conn, no, usize::MAX, 0)?;
    desk.book.conn.prepare_cached(REMOVE)?.execute([no])?;
    desk.let_go.push(node);
    if count + tasks > 0 {
        desk.stir(Some(node));
    }
    Ok(())
}

/// Declares a node dead if there is still reason to. Answers whether it is dead now.
pub(crate) fn declare_dead(
    desk: &mut Desk,
    judge: NodeId,
    condemned: NodeId,
    why: Death,
) -> Result<bool, Fault> {
    check(desk, judge)?;
    let now = desk.clock.now();
    let conn = &desk.book.conn;
    let row: Option<(bool, i64, i64)> = conn
        .prepare_cached(JUDGE)?
        .query_row([condemned.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let Some((dead, heartbeat_at, stale_after)) = row else { return Ok(true) };
    if dead {
        return Ok(true);
    }
    let is_due = match why {
        Death::Stale => now.since(Time(heartbeat_at)) > column::span(stale_after),
        Death::Gone => desk.is_gone(condemned),
    };
    if is_due {
        conn.prepare_cached(CONDEMN)?.execute([condemned.as_bytes()])?;
    }
    Ok(is_due)
}

/// Makes runs of dead nodes ready, and removes dead nodes that hold nothing.
pub(crate) fn sweep(desk: &mut Desk, judge: NodeId, limit: usize) -> Result<Swept, Fault> {
    check(desk, judge)?;
    let conn = &desk.book.conn;
    let dead: Vec<(i64, NodeId)> = conn
        .prepare_cached(DEAD)?
        .query_map([], |row| Ok((row.get(0)?, column::node_id(row, 1)?)))?
        .collect::<Result<_, _>>()?;
    let mut swept = Swept { released: 0, tasks: 0, more: false };
    for (no, id) in dead {
        let Released { count, more } = release(conn, no, limit - swept.released, 1)?;
        swept.released += count;
        let (tasks, more_tasks) = spread::free(conn, no, limit - swept.tasks, 1)?;
        swept.tasks += tasks;
        if more || more_tasks {
            swept.more = true;
        } else {
            conn.prepare_cached(REMOVE)?.execute([no])?;
            desk.mirrors.remove(&id);
            desk.let_go.push(id);
        }
    }
    if swept.released + swept.tasks > 0 {
        desk.stir(Some(judge));
    }
    Ok(swept)
}

/// Every node, by id.
pub(crate) fn all(conn: &Connection) -> rusqlite::Result<Vec<NodeRow>> {
    conn.prepare_cached(ALL)?.query_map([], node_row)?.collect()
}

fn exists(conn: &Connection, id: NodeId) -> rusqlite::Result<bool> {
    conn.prepare_cached(FENCE)?.exists([id.as_bytes()])
}

/// What became of the runs of a node.
struct Released {
    count: usize,
    /// Whether the node still holds something.
    more: bool,
}

/// Makes up to `limit` runs of a node ready.
fn release(conn: &Connection, no: i64, limit: usize, recoveries: u32) -> rusqlite::Result<Released> {
    let (mut sheet, mut queues) = (Sheet::new(conn), Queues::new(None));
    let mut released = Released { count: 0, more: false };
    for batch in holding::of_node(conn, no)? {
        let room = limit - released.count;
        for held in batch.held.iter().take(room) {
            let mut carried = held.entry.carried;
            carried.recoveries += recoveries;
            queues.vacate(conn, held.entry.run, held.core.queue)?;
            sheet.add(ReadyRow::of(conn, held.entry.run, held.core, carried)?);
        }
        released.count += batch.held.len().min(room);
        if batch.held.len() > room {
            released.more = true;
        } else {
            holding::remove(conn, batch.no)?;
        }
    }
    sheet.write()?;
    Ok(released)
}

fn node_row(row: &Row<'_>) -> rusqlite::Result<NodeRow> {
    Ok(NodeRow {
        id: column::node_id(row, 0)?,
        name: row.get(1)?,
        pid: row.get(2)?,
        host: row.get(3)?,
        version: row.get(4)?,
        queues: column::items(row, 5)?,
        started_at: Time(row.get(6)?),
        heartbeat_at: Time(row.get(7)?),
        stale_after: column::span(row.get(8)?),
        dead: row.get(9)?,
        running: row.get(10)?,
        ended: serde_json::from_str(row.get_ref(11)?.as_str()?).map_err(|error| {
            rusqlite::Error::FromSqlConversionFailure(11, rusqlite::types::Type::Text, Box::new(error))
        })?,
    })
}

/// As it is kept.
fn ended(pulse: &Pulse) -> String {
    serde_json::json!(pulse.ended).to_string()
}
