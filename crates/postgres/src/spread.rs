//! Attempts that any node may execute.
//!
//! Whoever waits for others locks runs first, then rows of this table in the order of their keys, so that nobody
//! waits in a circle. A claim waits for nobody.

use std::{collections::HashSet, sync::Arc};

use tokio_postgres::Row;
use uuid::Uuid;
use windlass_core::{ClaimId, NodeId, RunId};
use windlass_store::{
    Act, DefinitionId, NewSpread, OUTCOME, Reach, SpreadClaim, SpreadClaimed, SpreadKey, SpreadRow, Unit,
    Written,
};

use crate::{column, error::Fault, session::Session, single::Single, task_turn::TaskOffer};

/// One that is there already only takes the version; one that has an outcome is left alone. A key declares the queue.
const PUBLISH: &str = "\
    WITH declared AS (\
        INSERT INTO {s}.queue (name) \
        SELECT DISTINCT u.queue FROM {s}.run AS r CROSS JOIN unnest($5::text[]) AS u (queue) \
        WHERE r.id = $1 AND r.queue_key IS NOT NULL ORDER BY u.queue ON CONFLICT DO NOTHING) \
    INSERT INTO {s}.spread (run, step, attempt, generation, workflow, definition, queue, lane, priority, at) \
    SELECT DISTINCT ON (u.step, u.attempt) \
           r.id, u.step, u.attempt, r.generation, r.workflow, $2, u.queue, {s}.lane(r.queue_key), r.priority, {s}.clock() \
    FROM unnest($3::text[], $4::int[], $5::text[]) WITH ORDINALITY AS u (step, attempt, queue, no) \
    JOIN {s}.run AS r ON r.id = $1 \
    WHERE NOT EXISTS (SELECT FROM {s}.inbox AS i \
              WHERE i.run = r.id AND i.topic = $6 AND i.key = r.generation || '/' || u.attempt || '/' || u.step OFFSET 0) \
      AND NOT EXISTS (SELECT FROM {s}.delivered AS d \
              WHERE d.run = r.id AND d.topic = $6 AND d.key = r.generation || '/' || u.attempt || '/' || u.step OFFSET 0) \
    ORDER BY u.step, u.attempt, u.no \
    ON CONFLICT (run, step, attempt) DO UPDATE SET definition = excluded.definition";
pub(crate) const LOCK: &str = "\
    SELECT FROM {s}.spread AS s \
    JOIN unnest($1::uuid[], $2::text[], $3::int[]) AS u (run, step, attempt) \
      ON s.run = u.run AND s.step = u.step AND s.attempt = u.attempt \
    ORDER BY s.run, s.step, s.attempt FOR UPDATE OF s";
const WITHDRAW: &str = "\
    DELETE FROM {s}.spread AS s USING unnest($2::text[], $3::int[]) AS u (step, attempt) \
    WHERE s.run = $1 AND s.step = u.step AND s.attempt = u.attempt AND ($4 OR s.node IS NULL)";
/// Of which an outcome is there, or may still come.
const OUT: &str = "\
    SELECT u.no FROM unnest($2::text[], $3::int[]) WITH ORDINALITY AS u (step, attempt, no) \
    JOIN {s}.run AS r ON r.id = $1 \
    WHERE EXISTS (SELECT FROM {s}.spread AS s WHERE s.run = r.id AND s.step = u.step AND s.attempt = u.attempt OFFSET 0) \
       OR EXISTS (SELECT FROM {s}.inbox AS i \
              WHERE i.run = r.id AND i.topic = $4 AND i.key = r.generation || '/' || u.attempt || '/' || u.step OFFSET 0) \
       OR EXISTS (SELECT FROM {s}.delivered AS d \
              WHERE d.run = r.id AND d.topic = $4 AND d.key = r.generation || '/' || u.attempt || '/' || u.step OFFSET 0) \
    ORDER BY u.no";
const SAVE: &str = "\
    INSERT INTO {s}.saved (run, step, value) \
    SELECT run, step, $6 FROM {s}.spread WHERE run = $1 AND step = $2 AND attempt = $3 AND node = $4 AND claim = $5 \
    ON CONFLICT (run, step) DO UPDATE SET value = excluded.value";
const CLEAR: &str = "\
    WITH published AS MATERIALIZED (\
        SELECT step, attempt FROM {s}.spread WHERE run = $1 ORDER BY step, attempt FOR UPDATE) \
    DELETE FROM {s}.spread AS s USING published AS p WHERE s.run = $1 AND s.step = p.step AND s.attempt = p.attempt";
/// What runs have published, by run, step and attempt.
pub(crate) const OF_RUNS: &str = "\
    SELECT run, step, attempt, generation, workflow, definition, queue, lane, priority, at, deaths, node, claim \
    FROM {s}.spread WHERE run = ANY($1) ORDER BY run, step, attempt";
const OF_NODE: &str = "\
    SELECT run, step, attempt, generation, workflow, definition, queue, lane, priority, at, deaths, node, claim \
    FROM {s}.spread WHERE node = $1 ORDER BY priority, run, step, attempt";
const FREE: &str = "\
    WITH mine AS MATERIALIZED (\
        SELECT run, step, attempt FROM {s}.spread WHERE node = ANY($1) \
        ORDER BY run, step, attempt LIMIT $2 FOR UPDATE) \
    UPDATE {s}.spread AS s SET node = NULL, claim = NULL, deaths = s.deaths + $3 \
    FROM mine WHERE s.run = mine.run AND s.step = mine.step AND s.attempt = mine.attempt";
const HELD: &str = "SELECT EXISTS (SELECT FROM {s}.spread WHERE node = $1)";
/// A claim that is sent again while the first sending is still under way waits for it, and finds what it took.
const ALONE: &str = "SELECT pg_advisory_xact_lock($1)";
/// Of each queue and version as many as the claim could take, those that nearly killed too often apart from the others.
const CANDIDATES: &str = "\
    SELECT head.* \
    FROM unnest($1::text[], $2::bigint[]) AS q (queue, room) \
    CROSS JOIN unnest($3::text[], $4::bigint[]) AS v (workflow, version) \
    CROSS JOIN (VALUES (false, $5::bigint), (true, $6::bigint)) AS k (suspect, most) \
    CROSS JOIN LATERAL (\
        SELECT s.run, s.step, s.attempt, s.generation, s.workflow, s.definition, s.queue, s.lane, s.priority, s.at, \
               s.deaths, s.node, s.claim \
        FROM {s}.spread AS s \
        WHERE s.node IS NULL AND s.queue = q.queue AND s.lane = '' AND s.workflow = v.workflow \
          AND s.definition = v.version AND (s.deaths >= $7) = k.suspect \
        ORDER BY s.priority, s.run, s.step, s.attempt LIMIT least(q.room, k.most) FOR UPDATE SKIP LOCKED) AS head";
/// Takes these, but for what somebody else is moving, and for those of queues that were declared just now.
const TAKE: &str = "\
    WITH free AS MATERIALIZED (\
        SELECT s.run, s.step, s.attempt FROM unnest($3::uuid[], $4::text[], $5::int[]) AS u (run, step, attempt) \
        CROSS JOIN LATERAL (\
            SELECT * FROM {s}.spread AS s WHERE s.run = u.run AND s.step = u.step AND s.attempt = u.attempt \
              AND s.node IS NULL FOR UPDATE SKIP LOCKED) AS s \
        WHERE s.queue = ANY ($6) OR NOT EXISTS (SELECT FROM {s}.queue AS d WHERE d.name = s.queue)) \
    UPDATE {s}.spread AS s SET node = $1, claim = $2, resting = false FROM free \
    WHERE s.run = free.run AND s.step = free.step AND s.attempt = free.attempt RETURNING s.run, s.step, s.attempt";
/// Whether a claim could find anything, or has found it before, and whether a queue of it was declared. A node that was declared dead is refused.
const LOOK: &str = "\
    SELECT CASE WHEN EXISTS (SELECT FROM {s}.node WHERE id = $1 AND NOT dead) THEN {s}.clock() ELSE {s}.fence($1) END, \
        EXISTS (SELECT FROM {s}.spread WHERE node = $1 AND claim = $2) \
        OR EXISTS (\
            SELECT FROM unnest($3::text[]) AS q (queue) \
            CROSS JOIN unnest($4::text[], $5::bigint[]) AS v (workflow, version) \
            CROSS JOIN LATERAL (\
                SELECT FROM {s}.spread AS s \
                WHERE s.node IS NULL AND s.queue = q.queue AND s.lane = '' AND s.workflow = v.workflow \
                  AND s.definition = v.version LIMIT 1) AS head) \
        OR EXISTS (\
            SELECT FROM {s}.queue AS d CROSS JOIN LATERAL (\
                SELECT FROM {s}.spread AS s WHERE s.node IS NULL AND s.queue = d.name LIMIT 1) AS head \
            WHERE d.name = ANY ($3)), \
        EXISTS (SELECT FROM {s}.queue AS d WHERE d.name = ANY ($3))";
const MORE: &str = "\
    SELECT EXISTS (\
        SELECT FROM unnest($1::text[], $2::bigint[]) AS q (queue, room) \
        CROSS JOIN unnest($3::text[], $4::bigint[]) AS v (workflow, version) \
        CROSS JOIN LATERAL (\
            SELECT FROM {s}.spread AS s \
            WHERE s.node IS NULL AND s.queue = q.queue AND s.lane = '' AND s.workflow = v.workflow \
              AND s.definition = v.version AND ($5 OR s.deaths < $6) LIMIT 1) AS head \
        WHERE q.room > 0)";

/// What a node holds, by urgency.
pub(crate) async fn of_node(session: &Session, node: NodeId) -> Result<Vec<SpreadRow>, Fault> {
    session.query(OF_NODE, &[&column::node(node)]).await?.iter().map(spread_row).collect()
}

/// Frees up to `limit` of what these nodes hold. Answers how many.
pub(crate) async fn free(session: &Session, nodes: &[Uuid], limit: i64, deaths: i32) -> Result<usize, Fault> {
    let freed = session.execute(FREE, &[&nodes, &limit, &deaths]).await?;
    Ok(usize::try_from(freed).unwrap_or(usize::MAX))
}

/// Whether a node holds any.
pub(crate) async fn holds(session: &Session, node: Uuid) -> Result<bool, Fault> {
    Ok(session.one(HELD, &[&node]).await?.try_get(0)?)
}

/// Throws away what a run has published.
pub(crate) async fn clear(session: &Session, run: RunId) -> Result<(), Fault> {
    session.execute(CLEAR, &[&column::run(run)]).await?;
    Ok(())
}

/// Locks the rows that these units speak of. Whoever asks has locked their runs.
pub(crate) async fn lock(session: &Session, units: &[&Unit]) -> Result<(), Fault> {
    let (mut runs, mut steps, mut attempts): (Vec<Uuid>, Vec<&str>, Vec<i32>) = Default::default();
    let mut add = |run: RunId, key| {
        let SpreadKey { step, attempt }: &SpreadKey = key;
        runs.push(column::run(run));
        steps.push(step);
        attempts.push(column::count(*attempt));
    };
    for Unit { run, act } in units {
        match act {
            Act::Deliver { task, .. } | Act::SaveSpread { task, .. } => add(*run, task),
            Act::Withdraw { tasks, .. } => tasks.iter().for_each(|task| add(*run, task)),
            Act::Publish { tasks, .. } => tasks.iter().for_each(|task| add(*run, &task.key)),
            _ => {}
        }
    }
    if !runs.is_empty() {
        session.execute(LOCK, &[&runs, &steps, &attempts]).await?;
    }
    Ok(())
}

/// Takes attempts that nobody holds. Mostly there are none, and then one look is enough: it sees what is free also while
/// somebody else is taking it.
pub(crate) async fn claim(session: &Session, request: &SpreadClaim) -> Result<SpreadClaimed, Fault> {
    let (node, claim) = (column::node(request.node), column::claim(request.claim));
    let (queues, _, workflows, versions) = lines(request);
    let looked = session.one(LOOK, &[&node, &claim, &queues, &workflows, &versions]).await?;
    if !looked.try_get::<_, bool>(1)? {
        return Ok(SpreadClaimed::nothing(column::time(&looked, 0)?));
    }
    let limited: bool = looked.try_get(2)?;
    let take = async |now| {
        session.execute(ALONE, &[&session.lock_of(&request.claim.0.to_be_bytes())]).await?;
        let holder = Some((request.node, request.claim));
        let mut tasks = of_node(session, request.node).await?;
        tasks.retain(|row| row.holder == holder);
        let (mut more, mut next, is_repeat) = (false, None, !tasks.is_empty());
        if limited {
            let mut offer = TaskOffer::new(session, request, request.room).await?;
            if !is_repeat {
                let streams = std::mem::take(&mut offer.streams);
                let chosen = request.choose(streams, |row| offer.urgency(row));
                tasks = seize(session, request, &chosen, &offer.in_turn()).await?;
                offer.note(session, &tasks).await?;
                more = tasks.len() < chosen.len();
            }
            let left = TaskOffer::new(session, request, 1).await?;
            more = request.room > 0 && (more || left.passed || left.any());
            next = left.next;
        } else {
            if !is_repeat && request.room > 0 {
                let candidates = candidates(session, request).await?.into();
                let chosen = request.choose(vec![candidates], |row| row.priority);
                tasks = seize(session, request, &chosen, &[]).await?;
            }
            more = request.room > 0 && self::more(session, request).await?;
        }
        tasks.iter_mut().for_each(|row| row.holder = holder);
        tasks.sort_by(SpreadRow::by_urgency);
        Ok(SpreadClaimed { now, tasks, more, next, limited })
    };
    session.transact(Some(request.node), take).await
}

/// Takes what was chosen. Answers what was had, in the same order: somebody else may be moving one.
async fn seize(
    session: &Session,
    request: &SpreadClaim,
    chosen: &[SpreadRow],
    in_turn: &[&str],
) -> Result<Vec<SpreadRow>, Fault> {
    if chosen.is_empty() {
        return Ok(Vec::new());
    }
    let (node, claim) = (column::node(request.node), column::claim(request.claim));
    let (runs, steps, attempts) = columns(chosen.iter().map(|row| (row.run, &row.key)));
    let taken = session.query(TAKE, &[&node, &claim, &runs, &steps, &attempts, &in_turn]).await?;
    let mut had = HashSet::new();
    for row in &taken {
        let key = SpreadKey { step: Arc::from(row.try_get::<_, &str>(1)?), attempt: column::number(row, 2)? };
        had.insert((column::run_id(row, 0)?, key));
    }
    Ok(chosen.iter().filter(|row| had.contains(&(row.run, row.key.clone()))).cloned().collect())
}

/// The most urgent attempts of queues that were not declared.
pub(crate) async fn candidates(session: &Session, request: &SpreadClaim) -> Result<Vec<SpreadRow>, Fault> {
    let (queues, rooms, workflows, versions) = lines(request);
    let (most, suspects) = (large(request.room), large(request.suspects.min(request.room)));
    let from = column::count(request.suspect_after);
    let asked =
        session.query(CANDIDATES, &[&queues, &rooms, &workflows, &versions, &most, &suspects, &from]).await?;
    let mut rows = asked.iter().map(spread_row).collect::<Result<Vec<_>, _>>()?;
    rows.sort_by(SpreadRow::by_urgency);
    Ok(rows)
}

async fn more(session: &Session, request: &SpreadClaim) -> Result<bool, Fault> {
    let (queues, rooms, workflows, versions) = lines(request);
    let (too, from) = (request.suspects > 0, column::count(request.suspect_after));
    Ok(session.one(MORE, &[&queues, &rooms, &workflows, &versions, &too, &from]).await?.try_get(0)?)
}

pub(crate) fn lines(request: &SpreadClaim) -> (Vec<&str>, Vec<i64>, Vec<&str>, Vec<i64>) {
    let (queues, rooms) = request.queues.iter().map(|(queue, room)| (&**queue, large(*room))).unzip();
    let (workflows, versions) = request.workflows.iter().map(|(name, id)| (&**name, id.0)).unzip();
    (queues, rooms, workflows, versions)
}

fn columns<'a>(keys: impl Iterator<Item = (RunId, &'a SpreadKey)>) -> (Vec<Uuid>, Vec<&'a str>, Vec<i32>) {
    let (mut runs, mut steps, mut attempts) = (Vec::new(), Vec::new(), Vec::new());
    for (run, key) in keys {
        runs.push(column::run(run));
        steps.push(&*key.step);
        attempts.push(column::count(key.attempt));
    }
    (runs, steps, attempts)
}

pub(crate) fn large(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(crate) fn spread_row(row: &Row) -> Result<SpreadRow, Fault> {
    let holder = match row.try_get::<_, Option<Uuid>>(11)? {
        Some(_) => Some((column::node_id(row, 11)?, column::claim_id(row, 12)?)),
        None => None,
    };
    Ok(SpreadRow {
        run: column::run_id(row, 0)?,
        key: SpreadKey { step: Arc::from(row.try_get::<_, &str>(1)?), attempt: column::number(row, 2)? },
        generation: column::number(row, 3)?,
        workflow: Arc::from(row.try_get::<_, &str>(4)?),
        definition: DefinitionId(row.try_get(5)?),
        queue: Arc::from(row.try_get::<_, &str>(6)?),
        lane: Arc::from(row.try_get::<_, &str>(7)?),
        priority: column::priority(row, 8)?,
        at: column::time(row, 9)?,
        deaths: column::number(row, 10)?,
        holder,
    })
}

impl Single<'_> {
    /// Publishes attempts of a run that its holder names.
    pub(crate) async fn publish(
        &mut self,
        run: RunId,
        definition: DefinitionId,
        tasks: &[NewSpread],
    ) -> Result<(), Fault> {
        let (_, steps, attempts) = columns(tasks.iter().map(|task| (run, &task.key)));
        let queues: Vec<&str> = tasks.iter().map(|task| &*task.queue).collect();
        self.changes.news.tasks = true;
        let (id, version) = (column::run(run), definition.0);
        self.session.execute(PUBLISH, &[&id, &version, &steps, &attempts, &queues, &OUTCOME]).await?;
        Ok(())
    }

    /// Takes back attempts of a run that its holder names.
    pub(crate) async fn withdraw(
        &mut self,
        run: RunId,
        tasks: &[SpreadKey],
        reach: Reach,
    ) -> Result<Written, Fault> {
        let id = column::run(run);
        let (_, steps, attempts) = columns(tasks.iter().map(|task| (run, task)));
        self.changes.news.tasks = true;
        self.session.execute(WITHDRAW, &[&id, &steps, &attempts, &(reach == Reach::All)]).await?;
        let mut out = Vec::new();
        for row in self.session.query(OUT, &[&id, &steps, &attempts, &OUTCOME]).await? {
            let place = usize::try_from(row.try_get::<_, i64>(0)?).unwrap_or(0);
            out.extend(tasks.get(place - 1).cloned());
        }
        Ok(Written::Withdrawn { at: self.now, out })
    }

    /// Keeps a value for the next attempt, if the committing node holds this one under this claim.
    pub(crate) async fn save_spread(
        &mut self,
        run: RunId,
        claim: ClaimId,
        task: &SpreadKey,
        value: &[u8],
    ) -> Result<Written, Fault> {
        let (id, node) = (column::run(run), self.node.map(column::node));
        let (claim, attempt) = (column::claim(claim), column::count(task.attempt));
        let asked: crate::session::Params<'_> = &[&id, &&*task.step, &attempt, &node, &claim, &value];
        let saved = self.session.execute(SAVE, asked).await?;
        Ok(if saved == 0 { Written::TooLate } else { Written::Done { at: self.now } })
    }
}
