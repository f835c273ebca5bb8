//! Counts, for people. Whatever there is much of is counted no further than it is asked for.

use std::{collections::BTreeMap, sync::Arc};

use rusqlite::{Connection, OptionalExtension, params};
use windlass_core::{RunId, RunState, Time};
use windlass_store::{Backlog, Count, Query, QueueBacklog, StepRow, Tally};

use crate::{book::Book, column, desk::Desk, ended, error::Fault, find, holding, place, run, step, waiting};

/// Rows of ended runs are wide. Those of the others are narrow, so that more of them are read in the same time.
const NARROW: usize = 10;

const ENDED: &str =
    "SELECT state, count(*) FROM (SELECT state FROM ended WHERE workflow = ?1 LIMIT ?2) GROUP BY state";
const OTHERWISE: &str = "\
    SELECT count(*) FROM (SELECT 1 FROM ended WHERE workflow = ?1 AND state = ?2 AND state <> 6 LIMIT ?3)";
const WAITING: &str =
    "SELECT state, count(*) FROM (SELECT state FROM waiting WHERE workflow = ?1 LIMIT ?2) GROUP BY state";
const READY: &str = "\
    SELECT workflow, definition IS NOT NULL, count(*) \
    FROM (SELECT workflow, definition FROM ready LIMIT ?1) GROUP BY 1, 2";
const READY_QUEUES: &str = "SELECT queue, count(*) FROM (SELECT queue FROM ready LIMIT ?1) GROUP BY queue";
const OLDEST: &str = "\
    SELECT a.queue, min(coalesce(a.opened_at, r.created_at)) \
    FROM (SELECT queue, run, opened_at FROM ready LIMIT ?1) AS a CROSS JOIN run AS r ON r.id = a.run GROUP BY a.queue";
const ADD: &str = "\
    INSERT INTO tally (at, workflow, state, count) VALUES (?1, ?2, ?3, ?4) \
    ON CONFLICT (at, workflow, state) DO UPDATE SET count = count + excluded.count";
const FORGET: &str = "DELETE FROM tally WHERE at > 0 AND at < ?1";
const SINCE: &str = "SELECT at, workflow, state, count FROM tally WHERE at >= ?1 AND at <= ?2";
const OUTLINE: &str = "\
    SELECT generation, name, attempt, epoch, kind, started_at, took FROM step WHERE run = ?1 ORDER BY seq LIMIT ?2";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[OTHERWISE, ADD, FORGET, SINCE, OUTLINE];

fn rows(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// What was seen of each state, and whether that is all.
struct Seen([(u64, bool); 10]);

impl Seen {
    fn add(&mut self, state: RunState, count: u64) {
        self.0[state as usize].0 += count;
    }

    fn cut(&mut self, states: &[RunState]) {
        for state in states {
            self.0[*state as usize].1 = false;
        }
    }
}

/// How many runs fit a query, by state.
pub(crate) fn count(book: &mut Book, query: Query, look: usize) -> Result<Vec<Count>, Fault> {
    let is_described = query.queue.is_some() || query.tag.is_some() || query.key.is_some();
    let mut seen = Seen([(0, true); 10]);
    if is_described || query.since.is_some() || query.until.is_some() {
        let page = find::find(book, &Query { after: None, limit: look, look, ..query.clone() })?;
        for run in page.runs {
            seen.add(run.standing.state(), 1);
        }
        if page.more {
            seen.cut(&RunState::ALL);
        }
    } else {
        count_places(book, &query, look, &mut seen)?;
    }
    let wanted = |state: &RunState| query.states.is_empty() || query.states.contains(state);
    let count = |state: RunState| {
        let (count, whole) = seen.0[state as usize];
        Count { state, count, whole }
    };
    Ok(RunState::ALL.into_iter().filter(wanted).map(count).collect())
}

/// Counts runs by the places in which they stand, which tell their workflows.
fn count_places(book: &mut Book, query: &Query, look: usize, seen: &mut Seen) -> Result<(), Fault> {
    let Book { conn, names } = book;
    let mut workflows = Vec::new();
    match &query.workflow {
        Some(workflow) => workflows.extend(names.find(conn, workflow)?),
        None => workflows = crate::name::Names::all(conn)?,
    }
    if let Some(beginning) = &query.without {
        let mut kept = Vec::new();
        for workflow in workflows {
            if !names.text(conn, workflow)?.starts_with(&**beginning) {
                kept.push(workflow);
            }
        }
        workflows = kept;
    }
    let by_state = |sql: &str, workflow: i64, limit: usize| {
        let mut find = conn.prepare_cached(sql)?;
        let found = find.query_map(params![workflow, rows(limit)], |row| {
            Ok((column::run_state(row, 0)?, row.get::<_, i64>(1)?.cast_unsigned()))
        })?;
        found.collect::<rusqlite::Result<Vec<_>>>()
    };
    let (mut left_ended, mut left_waiting) = (look, look.saturating_mul(NARROW));
    for &workflow in &workflows {
        let found = by_state(ENDED, workflow, left_ended.saturating_add(1))?;
        let total = found.iter().map(|(_, count)| *count).sum::<u64>() as usize;
        if total <= left_ended {
            found.into_iter().for_each(|(state, count)| seen.add(state, count));
        } else {
            seen.cut(&[RunState::Completed]);
            let completed = found.iter().filter(|(state, _)| *state == RunState::Completed);
            completed.for_each(|(state, count)| seen.add(*state, *count - 1));
            for state in [RunState::Failed, RunState::Cancelled, RunState::Abandoned] {
                let mut find = conn.prepare_cached(OTHERWISE)?;
                let limit = rows(look.saturating_add(1));
                let count: i64 = find.query_row(params![workflow, state as u8, limit], |row| row.get(0))?;
                seen.add(state, count.min(rows(look)).cast_unsigned());
                if count == limit {
                    seen.cut(&[state]);
                }
            }
        }
        left_ended = left_ended.saturating_sub(total);
        let found = by_state(WAITING, workflow, left_waiting.saturating_add(1))?;
        let total = found.iter().map(|(_, count)| *count).sum::<u64>() as usize;
        found.into_iter().for_each(|(state, count)| seen.add(state, count));
        if total > left_waiting {
            seen.cut(&find::WAITING);
        }
        left_waiting = left_waiting.saturating_sub(total);
    }
    let limit = rows(look.saturating_mul(NARROW).saturating_add(1));
    let mut ready = conn.prepare_cached(READY)?;
    let mut all = 0;
    for row in ready.query_map([limit], |row| Ok((row.get(0)?, row.get(1)?, row.get::<_, i64>(2)?)))? {
        let (workflow, has_begun, count): (i64, bool, i64) = row?;
        all += count;
        if workflows.contains(&workflow) {
            let state = if has_begun { RunState::Suspended } else { RunState::Pending };
            seen.add(state, count.cast_unsigned());
        }
    }
    if all == limit {
        seen.cut(&[RunState::Pending, RunState::Suspended]);
    }
    let (held, whole) = held(conn, look)?;
    seen.add(RunState::Running, held.iter().filter(|core| workflows.contains(&core.workflow)).count() as u64);
    if !whole {
        seen.cut(&[RunState::Running]);
    }
    Ok(())
}

/// The runs that nodes hold, and whether these are all.
fn held(conn: &Connection, look: usize) -> rusqlite::Result<(Vec<run::Core>, bool)> {
    let listed = holding::newest(conn)?;
    let mut held = Vec::new();
    for run in listed.keys().take(look) {
        if let Some(core) = run::core(conn, *run)?
            && !place::is_elsewhere(conn, *run, &core)?
        {
            held.push(core);
        }
    }
    Ok((held, listed.len() <= look))
}

/// What waits to be claimed and what is held, of every queue.
pub(crate) fn backlog(book: &mut Book, look: usize) -> Result<Backlog, Fault> {
    let Book { conn, names } = book;
    let mut queues: BTreeMap<i64, QueueBacklog> = BTreeMap::new();
    let mut queue = |no: i64, change: &mut dyn FnMut(&mut QueueBacklog)| {
        let name = names.text(conn, no)?;
        change(queues.entry(no).or_insert_with(|| QueueBacklog::new(name)));
        Ok::<_, rusqlite::Error>(())
    };
    let pair = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
    let narrow = rows(look.saturating_mul(NARROW).saturating_mul(NARROW));
    for row in conn.prepare_cached(READY_QUEUES)?.query_map([narrow], pair)? {
        let (no, count) = row?;
        queue(no, &mut |queue| queue.ready = count.cast_unsigned())?;
    }
    for row in conn.prepare_cached(OLDEST)?.query_map([rows(look)], pair)? {
        let (no, at) = row?;
        queue(no, &mut |queue| queue.oldest = Some(Time(at)))?;
    }
    for core in held(conn, look)?.0 {
        queue(core.queue, &mut |queue| queue.held += 1)?;
    }
    let due = conn.prepare_cached(waiting::NEXT)?.query_row([], |row| row.get(0)).optional()?;
    let mut queues: Vec<_> = queues.into_values().collect();
    queues.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Backlog { queues, due: due.map(Time) })
}

/// The recorded steps of runs, without what they carry.
pub(crate) fn outlines(
    book: &Book,
    runs: &[RunId],
    limit: usize,
) -> Result<Vec<(RunId, Vec<StepRow>)>, Fault> {
    let (conn, mut left) = (&book.conn, limit);
    let mut outlines = Vec::new();
    for id in runs {
        let Some(core) = run::core(conn, *id)? else { continue };
        let mut read = conn.prepare_cached(OUTLINE)?;
        let found = read.query_map(params![id.as_bytes(), rows(left)], outline)?;
        let mut steps = found.collect::<rusqlite::Result<Vec<_>>>()?;
        if steps.len() < left
            && let Some(folded) = ended::folded_step(conn, *id, &core)?
        {
            steps.push(folded);
        }
        left -= steps.len();
        outlines.push((*id, steps));
    }
    Ok(outlines)
}

fn outline(row: &rusqlite::Row<'_>) -> rusqlite::Result<StepRow> {
    let started_at = Time(row.get(5)?);
    Ok(StepRow {
        generation: row.get(0)?,
        name: row.get(1)?,
        attempt: row.get(2)?,
        epoch: row.get(3)?,
        kind: column::step_kind(row, 4)?,
        started_at,
        ended_at: step::ended_at(started_at, row.get(6)?),
        output: None,
        detail: None,
    })
}

/// Adds to what was counted.
pub(crate) fn tally(desk: &mut Desk, add: &[Tally]) -> Result<(), Fault> {
    let now = desk.clock.now();
    let Book { conn, names } = &mut desk.book;
    for Tally { workflow, state, at, count } in add {
        let workflow = names.number(conn, workflow)?;
        let minute = (*count > 0).then_some(at.0);
        for at in minute.into_iter().chain([Tally::EVER.0]) {
            conn.prepare_cached(ADD)?.execute(params![at, workflow, *state as u8, count])?;
        }
    }
    let first = now.0 - Tally::MINUTES as i64 * 60_000_000;
    conn.prepare_cached(FORGET)?.execute([first])?;
    Ok(())
}

/// What was counted from a minute on, or of all time.
pub(crate) fn tallies(book: &mut Book, since: Time) -> Result<Vec<Tally>, Fault> {
    let Book { conn, names } = book;
    let until = if since == Tally::EVER { since } else { Time::MAX };
    let mut read = conn.prepare_cached(SINCE)?;
    let found = read.query_map([since.0, until.0], |row| {
        Ok((Time(row.get(0)?), row.get::<_, i64>(1)?, column::run_state(row, 2)?, row.get(3)?))
    })?;
    let mut tallies = Vec::new();
    for row in found {
        let (at, workflow, state, count) = row?;
        let workflow: Arc<str> = names.text(conn, workflow)?;
        tallies.push(Tally { workflow, state, at, count });
    }
    Ok(tallies)
}
