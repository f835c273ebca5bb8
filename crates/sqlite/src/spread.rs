//! Attempts that any node may execute.

use rusqlite::{Connection, OptionalExtension, Row, params};
use windlass_core::{ClaimId, NodeId, RunId, Time};
use windlass_store::{
    DefinitionId, NewMessage, NewSpread, OUTCOME, Reach, SpreadClaim, SpreadClaimed, SpreadKey, SpreadRow,
    StoreError, Written,
};

use crate::{
    book::Book,
    column,
    commit::{Batch, Stop},
    desk::Desk,
    error::Fault,
    held::Held,
    holding, inbox,
    name::Names,
    node, run, saved,
    task_turn::TaskOffer,
};

/// One that is there already only takes the version.
const ADD: &str = "\
    INSERT INTO spread (run, step, attempt, generation, workflow, definition, queue, lane, priority, at) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) \
    ON CONFLICT (run, step, attempt) DO UPDATE SET definition = excluded.definition";
const EXISTS: &str = "SELECT EXISTS (SELECT 1 FROM spread WHERE run = ?1 AND step = ?2 AND attempt = ?3)";
const WITHDRAW: &str =
    "DELETE FROM spread WHERE run = ?1 AND step = ?2 AND attempt = ?3 AND (?4 OR node IS NULL)";
const CLEAR: &str = "DELETE FROM spread WHERE run = ?1";
const GENERATION: &str = "\
    SELECT generation FROM spread WHERE run = ?1 AND step = ?2 AND attempt = ?3 AND node = ?4 AND claim = ?5";
const TAKE: &str = "UPDATE spread SET node = ?4, claim = ?5, resting = 0 WHERE run = ?1 AND step = ?2 AND attempt = ?3 AND node IS NULL";
const FREE: &str = "\
    UPDATE spread SET node = NULL, claim = NULL, deaths = deaths + ?4 WHERE run = ?1 AND step = ?2 AND attempt = ?3";
const ANY: &str = "SELECT EXISTS (SELECT 1 FROM spread)";
/// Nothing is claimed where nothing is free, and nothing is claimed again where nothing is held.
const ANY_FOR: &str = "\
    SELECT EXISTS (SELECT 1 FROM spread WHERE node IS NULL) \
        OR EXISTS (SELECT 1 FROM spread AS s WHERE s.node = n.no AND s.claim = ?2) \
    FROM node AS n WHERE n.id = ?1 AND n.dead = 0";
const OF_RUN: &str = "\
    SELECT run, step, attempt, generation, workflow, definition, queue, lane, priority, at, deaths, node, claim \
    FROM spread WHERE run = ?1 ORDER BY step, attempt";
const OF_NODE: &str = "\
    SELECT run, step, attempt, generation, workflow, definition, queue, lane, priority, at, deaths, node, claim \
    FROM spread WHERE node = ?1";
/// Those of one lane and version that nobody holds, with fewer deaths than some, or with as many or more.
const FREE_ONES: &str = "\
    SELECT run, step, attempt, generation, workflow, definition, queue, lane, priority, at, deaths, node, claim \
    FROM spread WHERE node IS NULL AND queue = ?1 AND lane = ?2 AND workflow = ?3 AND definition = ?4 \
      AND (deaths >= ?5) = ?6 ORDER BY priority, run, step, attempt LIMIT ?7";
/// The same of one priority.
const FREE_ONES_OF: &str = "\
    SELECT run, step, attempt, generation, workflow, definition, queue, lane, priority, at, deaths, node, claim \
    FROM spread WHERE node IS NULL AND queue = ?1 AND lane = ?2 AND workflow = ?3 AND definition = ?4 \
      AND (deaths >= ?5) = ?6 AND priority = ?8 ORDER BY run, step, attempt LIMIT ?7";
/// The next priority of which there is something.
const NEXT_PRIORITY: &str = "\
    SELECT priority FROM spread WHERE node IS NULL AND queue = ?1 AND lane = ?2 AND workflow = ?3 AND definition = ?4 \
      AND priority > ?5 ORDER BY priority LIMIT 1";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[
    ADD,
    EXISTS,
    WITHDRAW,
    CLEAR,
    GENERATION,
    TAKE,
    FREE,
    OF_RUN,
    OF_NODE,
    FREE_ONES,
    FREE_ONES_OF,
    NEXT_PRIORITY,
];

/// Whether anything is published at all.
pub(crate) fn any(conn: &Connection) -> rusqlite::Result<bool> {
    conn.prepare_cached(ANY)?.query_row([], |row| row.get(0))
}

/// What a run has published, by step and attempt.
pub(crate) fn of_run(conn: &Connection, names: &mut Names, run: RunId) -> rusqlite::Result<Vec<SpreadRow>> {
    let mut find = conn.prepare_cached(OF_RUN)?;
    let rows = find.query_map([run.as_bytes()], Found::read)?.collect::<rusqlite::Result<Vec<_>>>()?;
    rows.into_iter().map(|row| row.show(conn, names)).collect()
}

/// What a node holds, by urgency.
pub(crate) fn of_node(book: &mut Book, node: NodeId) -> Result<Vec<SpreadRow>, Fault> {
    match holding::node_number(&book.conn, node)? {
        Some(no) => Ok(held(book, no)?),
        None => Ok(Vec::new()),
    }
}

/// Throws away what a run has published.
pub(crate) fn clear(conn: &Connection, run: RunId) -> rusqlite::Result<()> {
    conn.prepare_cached(CLEAR)?.execute([run.as_bytes()])?;
    Ok(())
}

/// Frees up to `limit` of what a node holds. Answers how many, and whether it still holds some.
pub(crate) fn free(
    conn: &Connection,
    node: i64,
    limit: usize,
    deaths: u32,
) -> rusqlite::Result<(usize, bool)> {
    let rows = {
        let mut find = conn.prepare_cached(OF_NODE)?;
        find.query_map([node], Found::read)?.collect::<rusqlite::Result<Vec<_>>>()?
    };
    let mut free = conn.prepare_cached(FREE)?;
    for row in rows.iter().take(limit) {
        free.execute(params![row.run.as_bytes(), row.key.step, row.key.attempt, deaths])?;
    }
    Ok((rows.len().min(limit), rows.len() > limit))
}

/// Whether a claim could find anything, asked without the right to write. A node that was declared dead is refused.
pub(crate) fn is_any_for(book: &Book, request: &SpreadClaim) -> Result<bool, Fault> {
    let mut ask = book.conn.prepare_cached(ANY_FOR)?;
    let asked = params![request.node.as_bytes(), column::claim(request.claim)];
    let is_any = ask.query_row(asked, |row| row.get(0)).optional()?;
    is_any.ok_or(Fault::Refused(StoreError::Fenced))
}

/// Takes attempts that nobody holds.
pub(crate) fn claim(desk: &mut Desk, request: &SpreadClaim) -> Result<SpreadClaimed, Fault> {
    let no = node::check(desk, request.node)?;
    let (now, book) = (desk.clock.now(), &mut desk.book);
    let holder = Some((request.node, request.claim));
    let mut tasks = held(book, no)?;
    tasks.retain(|row| row.holder == holder);
    if tasks.is_empty() {
        let mut offer = TaskOffer::new(book, no, now, request, request.room)?;
        let streams = std::mem::take(&mut offer.streams);
        tasks = request.choose(streams, |row| offer.urgency(now, row));
        offer.note(&book.conn, now, &tasks)?;
        let mut take = book.conn.prepare_cached(TAKE)?;
        for row in &mut tasks {
            let claim = column::claim(request.claim);
            take.execute(params![row.run.as_bytes(), row.key.step, row.key.attempt, no, claim])?;
            row.holder = holder;
        }
        tasks.sort_by(SpreadRow::by_urgency);
    }
    let left = TaskOffer::new(book, no, now, request, 1)?;
    let (more, next, limited) = (request.room > 0 && left.any(), left.next, left.is_limited());
    Ok(SpreadClaimed { now, tasks, more, next, limited })
}

/// Attempts of one version in one lane of a queue, those that nearly killed too often apart from the others.
pub(crate) struct Line<'a> {
    pub(crate) queue: i64,
    pub(crate) lane: &'a str,
    pub(crate) workflow: i64,
    pub(crate) version: DefinitionId,
    pub(crate) suspects: bool,
}

impl Line<'_> {
    /// The most urgent of those that nobody holds.
    pub(crate) fn heads(
        &self,
        conn: &Connection,
        suspect_after: u32,
        most: usize,
    ) -> rusqlite::Result<Vec<Found>> {
        let Self { queue, lane, workflow, version, suspects } = self;
        let limit = i64::try_from(most).unwrap_or(i64::MAX);
        let asked = params![queue, lane, workflow, version.0, suspect_after, suspects, limit];
        conn.prepare_cached(FREE_ONES)?.query_map(asked, Found::read)?.collect()
    }

    /// The same of each priority, for a queue in which they age.
    pub(crate) fn heads_of_each(
        &self,
        conn: &Connection,
        suspect_after: u32,
        most: usize,
    ) -> rusqlite::Result<Vec<Vec<Found>>> {
        let Self { queue, lane, workflow, version, suspects } = self;
        let limit = i64::try_from(most).unwrap_or(i64::MAX);
        let (mut heads, mut priority) = (Vec::new(), -1_i64);
        let mut find = conn.prepare_cached(FREE_ONES_OF)?;
        let mut next = conn.prepare_cached(NEXT_PRIORITY)?;
        while let Some(found) = next
            .query_row(params![queue, lane, workflow, version.0, priority], |row| row.get(0))
            .optional()?
        {
            priority = found;
            let asked = params![queue, lane, workflow, version.0, suspect_after, suspects, limit, priority];
            heads.push(find.query_map(asked, Found::read)?.collect::<rusqlite::Result<Vec<_>>>()?);
        }
        Ok(heads)
    }
}

/// What a claim may choose from in queues that were not declared, by urgency: of each line as many as it could take.
pub(crate) fn candidates(
    book: &mut Book,
    request: &SpreadClaim,
    queues: &[(i64, usize)],
) -> rusqlite::Result<Vec<SpreadRow>> {
    let Book { conn, names } = book;
    let mut found = Vec::new();
    for (queue, room) in queues {
        for (workflow, version) in &request.workflows {
            let Some(workflow) = names.find(conn, workflow)? else { continue };
            for (suspects, most) in [(false, request.room), (true, request.suspects.min(request.room))] {
                let line = Line { queue: *queue, lane: "", workflow, version: *version, suspects };
                found.extend(line.heads(conn, request.suspect_after, most.min(*room))?);
            }
        }
    }
    let mut rows =
        found.into_iter().map(|row| row.show(conn, names)).collect::<rusqlite::Result<Vec<_>>>()?;
    rows.sort_by(SpreadRow::by_urgency);
    Ok(rows)
}

fn held(book: &mut Book, no: i64) -> rusqlite::Result<Vec<SpreadRow>> {
    let Book { conn, names } = book;
    let mut find = conn.prepare_cached(OF_NODE)?;
    let rows = find.query_map([no], Found::read)?.collect::<rusqlite::Result<Vec<_>>>()?;
    let mut rows = rows.into_iter().map(|row| row.show(conn, names)).collect::<rusqlite::Result<Vec<_>>>()?;
    rows.sort_by(SpreadRow::by_urgency);
    Ok(rows)
}

/// A row, with numbers for names.
pub(crate) struct Found {
    run: RunId,
    key: SpreadKey,
    generation: u32,
    workflow: i64,
    definition: i64,
    queue: i64,
    lane: std::sync::Arc<str>,
    priority: u8,
    at: Time,
    deaths: u32,
    holder: Option<(i64, ClaimId)>,
}

impl Found {
    pub(crate) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let claim = row.get::<_, Option<i64>>(12)?.map(|claim| ClaimId(claim.cast_unsigned()));
        Ok(Self {
            run: column::run_id(row, 0)?,
            key: SpreadKey { step: row.get(1)?, attempt: row.get(2)? },
            generation: row.get(3)?,
            workflow: row.get(4)?,
            definition: row.get(5)?,
            queue: row.get(6)?,
            lane: row.get(7)?,
            priority: row.get(8)?,
            at: Time(row.get(9)?),
            deaths: row.get(10)?,
            holder: row.get::<_, Option<i64>>(11)?.zip(claim),
        })
    }

    pub(crate) fn show(self, conn: &Connection, names: &mut Names) -> rusqlite::Result<SpreadRow> {
        let holder = match self.holder {
            Some((node, claim)) => Some((holding::node_id(conn, node)?, claim)),
            None => None,
        };
        Ok(SpreadRow {
            run: self.run,
            key: self.key,
            generation: self.generation,
            workflow: names.text(conn, self.workflow)?,
            definition: DefinitionId(self.definition),
            queue: names.text(conn, self.queue)?,
            lane: self.lane,
            priority: self.priority,
            at: self.at,
            deaths: self.deaths,
            holder,
        })
    }
}

impl Batch<'_> {
    /// Publishes attempts of a run that its holder names.
    pub(crate) fn publish(
        &mut self,
        run: RunId,
        held: &Published,
        definition: DefinitionId,
        tasks: &[NewSpread],
    ) -> rusqlite::Result<()> {
        let lane = if held.has_lane { run::lane(self.conn, run)? } else { String::new() };
        for NewSpread { key, queue } in tasks {
            let queue = self.names.number(self.conn, queue)?;
            if held.has_lane {
                self.declare(queue)?;
            }
            if self.has_outcome(run, held.generation, key)? {
                continue;
            }
            self.conn.prepare_cached(ADD)?.execute(params![
                run.as_bytes(),
                key.step,
                key.attempt,
                held.generation,
                held.workflow,
                definition.0,
                queue,
                lane,
                held.priority,
                self.now.0,
            ])?;
        }
        self.stirred = true;
        Ok(())
    }

    /// Takes back attempts of a run that its holder names.
    pub(crate) fn withdraw(
        &mut self,
        run: RunId,
        generation: u32,
        tasks: &[SpreadKey],
        reach: Reach,
    ) -> rusqlite::Result<Written> {
        let mut out = Vec::new();
        for key in tasks {
            let named = params![run.as_bytes(), key.step, key.attempt, reach == Reach::All];
            self.conn.prepare_cached(WITHDRAW)?.execute(named)?;
        }
        for key in tasks {
            let named = params![run.as_bytes(), key.step, key.attempt];
            let is_there: bool = self.conn.prepare_cached(EXISTS)?.query_row(named, |row| row.get(0))?;
            if is_there || self.has_outcome(run, generation, key)? {
                out.push(key.clone());
            }
        }
        self.stirred = true;
        Ok(Written::Withdrawn { at: self.now, out })
    }

    /// Adds the outcome of an attempt to the inbox of its run, if the committing node holds it under this claim.
    pub(crate) fn deliver(
        &mut self,
        run: RunId,
        claim: ClaimId,
        task: &SpreadKey,
        outcome: &bytes::Bytes,
    ) -> Result<Written, Stop> {
        let Some(generation) = self.holds_task(run, claim, task)? else { return Ok(Written::TooLate) };
        let named = params![run.as_bytes(), task.step, task.attempt, true];
        self.conn.prepare_cached(WITHDRAW)?.execute(named)?;
        let key = Some(task.message_key(generation));
        self.send(run, &NewMessage { topic: OUTCOME.to_owned(), body: outcome.clone(), key })?;
        Ok(Written::Done { at: self.now })
    }

    /// Keeps a value for the next attempt, if the committing node holds this one under this claim.
    pub(crate) fn save_spread(
        &mut self,
        run: RunId,
        claim: ClaimId,
        task: &SpreadKey,
        value: &[u8],
    ) -> rusqlite::Result<Written> {
        if self.holds_task(run, claim, task)?.is_none() {
            return Ok(Written::TooLate);
        }
        saved::keep(self.conn, run, &task.step, value)?;
        Ok(Written::Done { at: self.now })
    }

    /// The generation of an attempt that the committing node holds under this claim.
    fn holds_task(&self, run: RunId, claim: ClaimId, task: &SpreadKey) -> rusqlite::Result<Option<u32>> {
        let Some(mirror) = self.mirror.as_deref() else { return Ok(None) };
        let named = params![run.as_bytes(), task.step, task.attempt, mirror.no, column::claim(claim)];
        self.conn.prepare_cached(GENERATION)?.query_row(named, |row| row.get(0)).optional()
    }

    fn has_outcome(&self, run: RunId, generation: u32, key: &SpreadKey) -> rusqlite::Result<bool> {
        inbox::knows(self.conn, run, OUTCOME, &key.message_key(generation))
    }
}

/// What a run's own row says of all that it publishes.
pub(crate) struct Published {
    generation: u32,
    workflow: i64,
    priority: u8,
    has_lane: bool,
}

impl Published {
    pub(crate) const fn of(held: &Held) -> Self {
        Self {
            generation: held.carried.generation,
            workflow: held.core.workflow,
            priority: held.core.priority,
            has_lane: held.core.has_lane,
        }
    }
}
