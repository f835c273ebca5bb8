//! Runs that have ended: listing them, and forgetting them.

use std::{sync::Arc, time::Instant};

use rusqlite::{Connection, params};
use windlass_core::{RunId, Time};
use windlass_store::{Aged, AgedRun, Discard, Keyed, Refusal};

use crate::{
    book::Book,
    column,
    desk::Desk,
    ended,
    error::Fault,
    inbox,
    name::Names,
    node,
    remains::{self, Spell},
    run::{self, Core},
    saved, spread,
};

const AGED: &str = "\
    SELECT run, generation, state, at FROM ended WHERE workflow = ?1 AND run > ?2 AND run < ?3 ORDER BY run LIMIT ?4";
/// Whether the key of a run was given a life that is not over.
const LIVE_KEY: &str = "\
    SELECT EXISTS (SELECT 1 FROM key WHERE workflow = ?2 AND key = (SELECT key FROM run WHERE id = ?1) \
        AND run = ?1 AND ?3 < until)";
const NAMES: &str = "SELECT key, tags FROM run WHERE id = ?1";
const FREE_KEY: &str = "DELETE FROM key WHERE workflow = ?1 AND key = ?2 AND run = ?3";
const UNTAG: &str = "DELETE FROM tag WHERE tag = ?1 AND run = ?2";
const REMOVE: &str = "DELETE FROM run WHERE id = ?1";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[AGED, LIVE_KEY, NAMES, FREE_KEY, UNTAG, REMOVE];

/// Runs that stand ended.
pub(crate) fn aged(book: &Book, request: &Aged) -> Result<Vec<AgedRun>, Fault> {
    let conn = &book.conn;
    let mut aged = Vec::new();
    for (name, workflow) in Names::in_order(conn)? {
        let left = request.limit - aged.len();
        let after = match &request.after {
            Some((last, _)) if name < *last => continue,
            Some((last, run)) if name == *last => &run.as_bytes()[..],
            _ => &[],
        };
        if left == 0 {
            break;
        }
        let limit = i64::try_from(left).unwrap_or(i64::MAX);
        let mut read = conn.prepare_cached(AGED)?;
        let rows = read.query_map(params![workflow, after, request.before.as_bytes(), limit], |row| {
            Ok(AgedRun {
                workflow: Arc::clone(&name),
                run: column::run_id(row, 0)?,
                generation: row.get(1)?,
                state: column::run_state(row, 2)?,
                at: Time(row.get(3)?),
            })
        })?;
        aged.extend(rows.collect::<Result<Vec<_>, _>>()?);
    }
    Ok(aged)
}

/// Forgets runs that stand ended in these generations.
pub(crate) fn discard(desk: &mut Desk, request: &Discard) -> Result<Vec<Result<(), Refusal>>, Fault> {
    let (spell, now) = (Spell { began: Instant::now(), within: request.within }, desk.clock.now());
    if let Some(node) = request.node {
        node::check(desk, node)?;
    }
    let conn = &desk.book.conn;
    let mut answers = Vec::with_capacity(request.runs.len());
    let any_remains = remains::any(conn)?;
    for (run, generation) in &request.runs {
        if !answers.is_empty() && spell.is_over() {
            answers.push(Err(Refusal::Busy));
        } else if any_remains && remains::has(conn, *run)? {
            let is_all = remains::go_on(conn, *run, spell)?;
            answers.push(if is_all { Ok(()) } else { Err(Refusal::Unfinished) });
        } else {
            answers.push(match judge(conn, *run, *generation, request.keyed, now)? {
                Ok(core) if remove(conn, *run, &core, spell)? => Ok(()),
                Ok(_) => Err(Refusal::Unfinished),
                Err(refusal) => Err(refusal),
            });
        }
    }
    if any_remains && !spell.is_over() {
        // Whoever began with these may have died since.
        remains::go_on_with_all(conn, spell)?;
    }
    Ok(answers)
}

/// Whether a run may go.
fn judge(
    conn: &Connection,
    id: RunId,
    generation: u32,
    keyed: Keyed,
    now: Time,
) -> rusqlite::Result<Result<Core, Refusal>> {
    let Some(core) = run::core(conn, id)? else { return Ok(Err(Refusal::Unknown)) };
    match ended::read(conn, id, &core)? {
        Some(row) if row.carried.generation == generation => {}
        _ => return Ok(Err(Refusal::Open)),
    }
    if core.has_parent
        && let Some(parent) = run::parent(conn, id)?
    {
        let message = parent.message(id, generation);
        let key = message.key.as_deref().unwrap_or_default();
        if inbox::holds(conn, parent.run, &message.topic, key)? {
            return Ok(Err(Refusal::Awaited));
        }
    }
    let mut live_key = conn.prepare_cached(LIVE_KEY)?;
    let lives = |row: &rusqlite::Row<'_>| row.get(0);
    if keyed == Keyed::Stays && live_key.query_row(params![id.as_bytes(), core.workflow, now.0], lives)? {
        return Ok(Err(Refusal::Keyed));
    }
    Ok(Ok(core))
}

/// Removes a run for all who look, and what belongs to it as far as there is time. Answers whether all is gone.
fn remove(conn: &Connection, id: RunId, core: &Core, spell: Spell) -> rusqlite::Result<bool> {
    let run = id.as_bytes();
    let (key, tags): (Option<String>, Vec<String>) =
        conn.prepare_cached(NAMES)?.query_row([run], |row| Ok((row.get(0)?, column::items(row, 1)?)))?;
    if let Some(key) = key {
        conn.prepare_cached(FREE_KEY)?.execute(params![core.workflow, key, run])?;
    }
    for tag in tags {
        conn.prepare_cached(UNTAG)?.execute(params![tag, run])?;
    }
    inbox::clear(conn, id)?;
    saved::clear(conn, id)?;
    spread::clear(conn, id)?;
    ended::remove(conn, id, core)?;
    conn.prepare_cached(REMOVE)?.execute([run])?;
    remains::clear(conn, id, spell)
}
