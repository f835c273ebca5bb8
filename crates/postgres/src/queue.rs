//! Queues that were declared, and who has their slots.

use std::{collections::HashSet, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio_postgres::{Row, types::ToSql};
use uuid::Uuid;
use windlass_core::{NodeId, Time};
use windlass_store::{
    Act, Claim, Load, QueueChange, QueueChanged, QueueLimits, QueueRow, QueueState, Rate, TakenSlot,
    TakenTask, Unit,
};

use crate::{column, error::Fault, session::Session};

const CREATE: &str = "INSERT INTO {s}.queue (name) VALUES ($1) ON CONFLICT DO NOTHING";
const EXISTS: &str = "SELECT EXISTS (SELECT FROM {s}.queue WHERE name = $1)";
const LOCK: &str = "\
    SELECT name, concurrency, per_node, per_key, rate_count, rate_per, hold, paused, cursor, {s}.moment(), removed, counted \
    FROM {s}.queue WHERE name = $1 FOR UPDATE";
const CHANGE: &str = "\
    UPDATE {s}.queue SET concurrency = $2, per_node = $3, per_key = $4, rate_count = $5, rate_per = $6, hold = $7, \
        paused = $8, removed = $9, counted = true WHERE name = $1";
/// Whatever a node does begins with a lock on its own name, shared. So whoever has all of them to himself has every
/// transaction behind him that began before the queue could be seen, and the next ones see it.
const NODES: &str = "SELECT id FROM {s}.node WHERE NOT dead ORDER BY id";
const EXCLUDE: &str = "SELECT pg_advisory_xact_lock($1)";
const FREE_IDLE: &str = "DELETE FROM {s}.slot WHERE queue = $1 AND node IS NULL";
/// Runs of a queue that are held and have no slot.
const COUNT_HELD: &str = "\
    SELECT h.run, {s}.lane(r.queue_key), h.node FROM {s}.held AS h \
    CROSS JOIN LATERAL (SELECT * FROM {s}.run WHERE id = h.run OFFSET 0) AS r \
    WHERE h.queue = $1 AND NOT EXISTS (SELECT FROM {s}.slot AS s WHERE s.run = h.run OFFSET 0) ORDER BY h.run";
const ALL: &str = "\
    SELECT q.name, q.concurrency, q.per_node, q.per_key, q.rate_count, q.rate_per, q.hold, q.paused, q.cursor, \
           {s}.moment(), q.removed, a.depth, (SELECT r.created_at FROM {s}.run AS r WHERE r.id = a.oldest), \
           (SELECT count(*) FROM {s}.slot AS s WHERE s.queue = q.name) + t.others \
    FROM {s}.queue AS q CROSS JOIN LATERAL (\
        SELECT (SELECT count(*) FROM {s}.ready WHERE queue = q.name) AS depth, \
               (SELECT run FROM {s}.ready WHERE queue = q.name ORDER BY run LIMIT 1) AS oldest) AS a \
    CROSS JOIN LATERAL (\
        SELECT count(*) - count(DISTINCT t.run) FILTER (WHERE EXISTS (\
            SELECT FROM {s}.slot AS s WHERE s.run = t.run AND s.queue = q.name)) AS others \
        FROM {s}.node AS n CROSS JOIN LATERAL (\
            SELECT run FROM {s}.spread WHERE node = n.id AND queue = q.name OFFSET 0) AS t) AS t \
    WHERE NOT q.removed AND ($1::text IS NULL OR q.name = $1) ORDER BY q.name";
/// The declared ones among some queues.
const DECLARED: &str = "\
    SELECT name, concurrency, per_node, per_key, rate_count, rate_per, hold, paused, cursor, {s}.moment(), removed \
    FROM {s}.queue WHERE name = ANY ($1) ORDER BY name";
/// The same of those that nobody else takes from just now, so that nobody does until the transaction is over.
const TURN: &str = "\
    SELECT name, concurrency, per_node, per_key, rate_count, rate_per, hold, paused, cursor, {s}.moment(), removed \
    FROM {s}.queue WHERE name = ANY ($1) ORDER BY name FOR UPDATE SKIP LOCKED";
const SLOTS: &str =
    "SELECT no, lane, node IS NOT DISTINCT FROM $2, run, node IS NULL FROM {s}.slot WHERE queue = $1";
/// Attempts that nodes execute.
const TASKS: &str = "\
    SELECT t.run, t.lane, n.id IS NOT DISTINCT FROM $2 FROM {s}.node AS n CROSS JOIN LATERAL (\
        SELECT run, lane FROM {s}.spread WHERE node = n.id AND queue = $1 OFFSET 0) AS t";
const BEGUN: &str = "SELECT at, count FROM {s}.begun WHERE queue = $1 ORDER BY at";
/// One that has a slot already, since it was given up a moment ago in a queue that holds, keeps that.
const TAKE: &str = "\
    INSERT INTO {s}.slot (queue, no, lane, run, node) \
    SELECT $1, unnest($2::int[]), unnest($3::text[]), unnest($4::uuid[]), unnest($5::uuid[]) \
    ON CONFLICT (run) DO UPDATE SET node = excluded.node";
const RETAKE: &str = "UPDATE {s}.slot SET node = $2 WHERE run = ANY ($1)";
const CURSOR: &str = "UPDATE {s}.queue SET cursor = $2 WHERE name = $1";
const FORGET: &str = "DELETE FROM {s}.begun WHERE queue = $1 AND at <= $2";
const BEGIN: &str = "\
    INSERT INTO {s}.begun AS b (queue, at, count) VALUES ($1, $2, $3) \
    ON CONFLICT (queue, at) DO UPDATE SET count = b.count + excluded.count";

/// The queues of which a handle knows that they were declared. One that was stays so.
///
/// A claim that meets one it does not know of leaves it out, and finds out about it.
#[derive(Debug, Default)]
pub(crate) struct Declared(Mutex<HashSet<String>>);

impl Declared {
    /// Whether a claim asks for one of them.
    pub(crate) fn has(&self, request: &Claim) -> bool {
        let known = self.0.lock();
        !known.is_empty() && request.queues.iter().any(|(queue, _)| known.contains(&**queue))
    }

    /// Notes some. Answers whether there are any.
    pub(crate) fn learn(&self, names: Vec<String>) -> bool {
        let any = !names.is_empty();
        if any {
            self.0.lock().extend(names);
        }
        any
    }

    /// Notes those that a batch declares.
    pub(crate) fn learn_from(&self, units: &[Unit]) {
        for unit in units {
            if let Act::Start(new) = &unit.act
                && new.queue_key.is_some()
            {
                self.0.lock().insert(String::from(&*new.queue));
            }
        }
    }
}

/// A declared queue.
pub(crate) struct Queue {
    pub(crate) name: String,
    pub(crate) state: QueueState,
    /// When it was read. A transaction may have begun long before it got the queue, and a rate counts from then.
    pub(crate) at: Time,
}

/// What of a queue is under way, as a node sees it.
pub(crate) struct Seats {
    pub(crate) load: Load,
    /// Runs that have a slot while nobody holds them.
    pub(crate) idle: Vec<Uuid>,
}

/// A slot to be given to a run.
pub(crate) struct NewSlot {
    pub(crate) run: Uuid,
    pub(crate) lane: String,
    pub(crate) node: Uuid,
}

/// Changes what a queue is told.
///
/// One that is new is declared first, for all to see: then whoever does not see it can be waited for.
pub(crate) async fn change(
    session: &Session,
    name: &str,
    change: QueueChange,
) -> Result<QueueChanged, Fault> {
    // What changes nothing when there is no such queue declares none.
    let is_lasting = QueueState::change(None, change).is_some();
    if !is_lasting && !session.one(EXISTS, &[&name]).await?.try_get::<_, bool>(0)? {
        return Ok(QueueChanged::Unchanged);
    }
    let created = session.transact(None, async |_| Ok(session.execute(CREATE, &[&name]).await? > 0)).await?;
    let work = async |now: Time| {
        let row = session.one(LOCK, &[&name]).await?;
        let Queue { state: before, .. } = queue(&row)?;
        let Some((state, changed)) = QueueState::change((!created).then_some(&before), change) else {
            return Ok(QueueChanged::Unchanged);
        };
        write(session, name, &state).await?;
        if !state.limits.hold {
            session.execute(FREE_IDLE, &[&name]).await?;
        }
        if !row.try_get::<_, bool>(11)? {
            count_held(session, name, &state, now).await?;
        }
        Ok(changed)
    };
    session.transact(None, work).await
}

/// Gives slots to the runs that were held before the queue was declared.
async fn count_held(session: &Session, name: &str, state: &QueueState, now: Time) -> Result<(), Fault> {
    for row in session.query(NODES, &[]).await? {
        let node = column::node_id(&row, 0)?;
        session.execute(EXCLUDE, &[&session.lock_of(node.as_bytes())]).await?;
    }
    let held = session.query(COUNT_HELD, &[&name]).await?;
    let slot = |row: &Row| {
        Ok::<_, Fault>(NewSlot { run: row.try_get(0)?, lane: row.try_get(1)?, node: row.try_get(2)? })
    };
    let held = held.iter().map(slot).collect::<Result<Vec<_>, _>>()?;
    let seats = seats(session, name, state, None, now).await?;
    take(session, name, &seats.load, held).await
}

async fn write(session: &Session, name: &str, state: &QueueState) -> Result<(), Fault> {
    let QueueLimits { concurrency, per_node, per_key, rate, hold } = state.limits;
    let [concurrency, per_node, per_key, count] =
        [concurrency, per_node, per_key, rate.map(|rate| rate.count)].map(|limit| limit.map(i64::from));
    let per = rate.map(|rate| column::micros(rate.per));
    let params: [&(dyn ToSql + Sync); 9] =
        [&name, &concurrency, &per_node, &per_key, &count, &per, &hold, &state.paused, &state.removed];
    session.execute(CHANGE, &params).await?;
    Ok(())
}

/// The queues that were declared, by name.
pub(crate) async fn all(session: &Session, only: Option<&str>) -> Result<Vec<QueueRow>, Fault> {
    let show = |row: &Row| {
        let Queue { name, state, .. } = queue(row)?;
        let number = |at: usize| row.try_get::<_, i64>(at).map(i64::cast_unsigned);
        Ok(QueueRow {
            limits: state.limits,
            paused: state.paused,
            depth: number(11)?,
            oldest: row.try_get::<_, Option<i64>>(12)?.map(Time),
            running: number(13)?,
            ..QueueRow::new(Arc::from(name))
        })
    };
    session.query(ALL, &[&only]).await?.iter().map(show).collect()
}

/// Prepares what travels together.
pub(crate) async fn prepare(session: &Session) -> Result<(), Fault> {
    for sql in [DECLARED, TURN, SLOTS, TASKS, BEGUN, TAKE, CURSOR, FORGET, BEGIN] {
        session.statement(sql).await?;
    }
    Ok(())
}

/// The declared ones among these queues.
pub(crate) async fn declared(session: &Session, names: &[&str]) -> Result<Vec<Queue>, Fault> {
    session.query(DECLARED, &[&names]).await?.iter().map(queue).collect()
}

/// The same of those that nobody else takes from just now.
pub(crate) async fn turn(session: &Session, names: &[&str]) -> Result<Vec<Queue>, Fault> {
    session.query(TURN, &[&names]).await?.iter().map(queue).collect()
}

fn queue(row: &Row) -> Result<Queue, Fault> {
    let limit = |at: usize| -> Result<Option<u32>, Fault> {
        let limit: Option<i64> = row.try_get(at)?;
        limit.map(|limit| u32::try_from(limit).map_err(|_| Fault::unreadable(row, at))).transpose()
    };
    let per = row.try_get::<_, Option<i64>>(5)?.map(|per| Duration::from_micros(per.cast_unsigned()));
    let rate = limit(4)?.zip(per).map(|(count, per)| Rate { count, per });
    let limits = QueueLimits {
        concurrency: limit(1)?,
        per_node: limit(2)?,
        per_key: limit(3)?,
        rate,
        hold: row.try_get(6)?,
    };
    let (paused, cursor, removed) = (row.try_get(7)?, row.try_get(8)?, row.try_get(10)?);
    let state = QueueState { limits, paused, cursor, removed };
    Ok(Queue { name: row.try_get(0)?, state, at: column::time(row, 9)? })
}

/// Takes slots from runs that nobody holds, in a queue that does not hold: somebody may have parked one while that was
/// changed.
pub(crate) async fn tidy(session: &Session, queue: &Queue) -> Result<(), Fault> {
    session.execute(FREE_IDLE, &[&queue.name]).await?;
    Ok(())
}

/// What of a queue is under way.
pub(crate) async fn seats(
    session: &Session,
    name: &str,
    state: &QueueState,
    node: Option<NodeId>,
    now: Time,
) -> Result<Seats, Fault> {
    let node = node.map(column::node);
    let (mut slots, mut idle) = (Vec::new(), Vec::new());
    let (asked, of_queue): ([&(dyn ToSql + Sync); 2], [&(dyn ToSql + Sync); 1]) = ([&name, &node], [&name]);
    let (taken, busy, late) =
        tokio::join!(session.query(SLOTS, &asked), session.query(TASKS, &asked), async {
            match state.limits.rate {
                Some(_) => session.query(BEGUN, &of_queue).await,
                None => Ok(Vec::new()),
            }
        });
    for row in taken? {
        let is_mine = node.is_some() && row.try_get(2)?;
        let (no, run, lane) = (column::number(&row, 0)?, column::run_id(&row, 3)?, row.try_get(1)?);
        slots.push(TakenSlot { no, run, lane, is_mine });
        if row.try_get(4)? {
            idle.push(row.try_get(3)?);
        }
    }
    let mut tasks = Vec::new();
    for row in busy? {
        let is_mine = node.is_some() && row.try_get(2)?;
        tasks.push(TakenTask { run: column::run_id(&row, 0)?, lane: row.try_get(1)?, is_mine });
    }
    let mut begun = Vec::new();
    for row in late? {
        let count = u32::try_from(row.try_get::<_, i64>(1)?).unwrap_or(u32::MAX);
        begun.push((column::time(&row, 0)?, count));
    }
    Ok(Seats { load: Load::new(&state.limits, now, slots, tasks, &begun), idle })
}

/// Gives slots to runs, with the lowest numbers that are free.
pub(crate) async fn take(session: &Session, name: &str, load: &Load, new: Vec<NewSlot>) -> Result<(), Fault> {
    if new.is_empty() {
        return Ok(());
    }
    let numbers: Vec<i32> = load.free_numbers().take(new.len()).map(column::count).collect();
    let (mut lanes, mut runs, mut nodes) = (Vec::new(), Vec::new(), Vec::new());
    for NewSlot { run, lane, node } in new {
        lanes.push(lane);
        runs.push(run);
        nodes.push(node);
    }
    session.execute(TAKE, &[&name, &numbers, &lanes, &runs, &nodes]).await?;
    Ok(())
}

/// Notes that a node has runs again that have kept their slots.
pub(crate) async fn retake(session: &Session, runs: &[Uuid], node: NodeId) -> Result<(), Fault> {
    if !runs.is_empty() {
        session.execute(RETAKE, &[&runs, &column::node(node)]).await?;
    }
    Ok(())
}

/// Notes whose turn it was last, and that so many were taken.
pub(crate) async fn note(session: &Session, queue: &Queue, lane: &str, count: usize) -> Result<(), Fault> {
    let turn: [&(dyn ToSql + Sync); 2] = [&queue.name, &lane];
    let Some(rate) = queue.state.limits.rate else {
        session.execute(CURSOR, &turn).await?;
        return Ok(());
    };
    let past = queue.at.0.saturating_sub(column::micros(rate.per));
    let noted = rate.noted(queue.at).0;
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let past: [&(dyn ToSql + Sync); 2] = [&queue.name, &past];
    let begun: [&(dyn ToSql + Sync); 3] = [&queue.name, &noted, &count];
    let (noted, forgotten, begun) = tokio::join!(
        session.execute(CURSOR, &turn),
        session.execute(FORGET, &past),
        session.execute(BEGIN, &begun),
    );
    noted?;
    forgotten?;
    begun?;
    Ok(())
}
