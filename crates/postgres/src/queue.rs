//! Queues that were declared, and who has their slots.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio_postgres::{Row, types::ToSql};
use uuid::Uuid;
use windlass_core::{NodeId, Time};
use windlass_store::{
    Act, Claim, Load, QueueChange, QueueChanged, QueueLimits, QueueRow, QueueState, Rate, TakenSlot,
    TakenTask, Unit,
};

use crate::{column, error::Fault, lanes, session::Session};

const CREATE: &str = "INSERT INTO {s}.queue (name) VALUES ($1) ON CONFLICT DO NOTHING";
const EXISTS: &str = "SELECT EXISTS (SELECT FROM {s}.queue WHERE name = $1)";
const LOCK: &str = "\
    SELECT name, concurrency, per_node, per_key, rate_count, rate_per, hold, paused, cursor, {s}.moment(), removed, \
           key_count, key_per, ageing, counted \
    FROM {s}.queue WHERE name = $1 FOR UPDATE";
const CHANGE: &str = "\
    UPDATE {s}.queue SET concurrency = $2, per_node = $3, per_key = $4, rate_count = $5, rate_per = $6, hold = $7, \
        paused = $8, removed = $9, key_count = $10, key_per = $11, ageing = $12, counted = true WHERE name = $1";
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
           {s}.moment(), q.removed, q.key_count, q.key_per, q.ageing, a.depth, (SELECT r.opened_at FROM {s}.run AS r WHERE r.id = a.oldest), \
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
    SELECT name, concurrency, per_node, per_key, rate_count, rate_per, hold, paused, cursor, {s}.moment(), removed, \
           key_count, key_per, ageing, EXISTS (SELECT FROM {s}.resting AS s WHERE s.queue = name) \
    FROM {s}.queue WHERE name = ANY ($1) ORDER BY name";
/// The same of those that nobody else takes from just now, so that nobody does until the transaction is over.
const TURN: &str = "\
    SELECT name, concurrency, per_node, per_key, rate_count, rate_per, hold, paused, cursor, {s}.moment(), removed, \
           key_count, key_per, ageing, EXISTS (SELECT FROM {s}.resting AS s WHERE s.queue = name) \
    FROM {s}.queue WHERE name = ANY ($1) ORDER BY name FOR UPDATE SKIP LOCKED";
const SLOTS: &str =
    "SELECT no, lane, node IS NOT DISTINCT FROM $2, run, node IS NULL FROM {s}.slot WHERE queue = $1";
/// Attempts that nodes execute.
const TASKS: &str = "\
    SELECT t.run, t.lane, n.id IS NOT DISTINCT FROM $2 FROM {s}.node AS n CROSS JOIN LATERAL (\
        SELECT run, lane FROM {s}.spread WHERE node = n.id AND queue = $1 OFFSET 0) AS t";
const BEGUN: &str =
    "SELECT lane, at, count FROM {s}.begun WHERE queue = $1 AND lane = ANY ($2) ORDER BY lane, at";
/// One that has a slot already, since it was given up a moment ago in a queue that holds, keeps that.
const TAKE: &str = "\
    INSERT INTO {s}.slot (queue, no, lane, run, node) \
    SELECT $1, unnest($2::int[]), unnest($3::text[]), unnest($4::uuid[]), unnest($5::uuid[]) \
    ON CONFLICT (run) DO UPDATE SET node = excluded.node";
const RETAKE: &str = "UPDATE {s}.slot SET node = $2 WHERE run = ANY ($1)";
const CURSOR: &str = "UPDATE {s}.queue SET cursor = $2 WHERE name = $1";
const FORGET: &str = "DELETE FROM {s}.begun WHERE queue = $1 AND lane = '' AND at <= $2";
/// The oldest of what was begun of any key: more than a claim notes, and nobody else writes here meanwhile.
const FORGET_KEYS: &str = "\
    DELETE FROM {s}.begun WHERE ctid = ANY (ARRAY (\
        SELECT ctid FROM {s}.begun WHERE queue = $1 AND lane <> '' AND at <= $2 ORDER BY at LIMIT $3))";
const FORGET_AT_ONCE: i64 = 4_000;
const BEGIN: &str = "\
    INSERT INTO {s}.begun AS b (queue, lane, at, count) \
    SELECT $1, unnest($2::text[]), unnest($3::bigint[]), unnest($4::bigint[]) \
    ON CONFLICT (queue, lane, at) DO UPDATE SET count = b.count + excluded.count";

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
    /// Whether some of its keys rest, or did.
    pub(crate) rests: bool,
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
        let Queue { state: before, at, .. } = queue(&row)?;
        let Some((state, changed)) = QueueState::change((!created).then_some(&before), change) else {
            return Ok(QueueChanged::Unchanged);
        };
        write(session, name, &state).await?;
        if !state.limits.hold {
            session.execute(FREE_IDLE, &[&name]).await?;
        }
        let (old, new) = (before.limits.key_rate, state.limits.key_rate);
        if old != new {
            lanes::wake_all(session, name).await?;
            if let Some(until) = Rate::forgotten(old, new, at) {
                while forget_keys(session, name, until).await? {}
            }
        }
        if !row.try_get::<_, bool>(14)? {
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
    let QueueLimits { concurrency, per_node, per_key, rate, key_rate, ageing, hold } = state.limits;
    let [concurrency, per_node, per_key] = [concurrency, per_node, per_key].map(|limit| limit.map(i64::from));
    let [count, key_count] = [rate, key_rate].map(|rate| rate.map(|rate| i64::from(rate.count)));
    let [per, key_per] = [rate, key_rate].map(|rate| rate.map(|rate| column::micros(rate.per)));
    let (ageing, QueueState { paused, removed, .. }) = (ageing.map(column::micros), state);
    let params: [&(dyn ToSql + Sync); 12] = [
        &name,
        &concurrency,
        &per_node,
        &per_key,
        &count,
        &per,
        &hold,
        paused,
        removed,
        &key_count,
        &key_per,
        &ageing,
    ];
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
            depth: number(14)?,
            oldest: row.try_get::<_, Option<i64>>(15)?.map(Time),
            running: number(16)?,
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
    session.query(DECLARED, &[&names]).await?.iter().map(in_line).collect()
}

/// The same of those that nobody else takes from just now.
pub(crate) async fn turn(session: &Session, names: &[&str]) -> Result<Vec<Queue>, Fault> {
    session.query(TURN, &[&names]).await?.iter().map(in_line).collect()
}

fn in_line(row: &Row) -> Result<Queue, Fault> {
    Ok(Queue { rests: row.try_get(14)?, ..queue(row)? })
}

fn queue(row: &Row) -> Result<Queue, Fault> {
    let limit = |at: usize| -> Result<Option<u32>, Fault> {
        let limit: Option<i64> = row.try_get(at)?;
        limit.map(|limit| u32::try_from(limit).map_err(|_| Fault::unreadable(row, at))).transpose()
    };
    let span = |at: usize| -> Result<Option<Duration>, Fault> {
        Ok(row.try_get::<_, Option<i64>>(at)?.map(|span| Duration::from_micros(span.cast_unsigned())))
    };
    let rate = |at: usize| -> Result<Option<Rate>, Fault> {
        Ok(limit(at)?.zip(span(at + 1)?).map(|(count, per)| Rate { count, per }))
    };
    let limits = QueueLimits {
        concurrency: limit(1)?,
        per_node: limit(2)?,
        per_key: limit(3)?,
        rate: rate(4)?,
        key_rate: rate(11)?,
        ageing: span(13)?,
        hold: row.try_get(6)?,
    };
    let (paused, cursor, removed) = (row.try_get(7)?, row.try_get(8)?, row.try_get(10)?);
    let state = QueueState { limits, paused, cursor, removed };
    Ok(Queue { name: row.try_get(0)?, state, at: column::time(row, 9)?, rests: false })
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
    let asked: [&(dyn ToSql + Sync); 2] = [&name, &node];
    let all = [String::new()];
    let (taken, busy, late) =
        tokio::join!(session.query(SLOTS, &asked), session.query(TASKS, &asked), async {
            match state.limits.rate {
                Some(_) => begun(session, name, &all).await,
                None => Ok(HashMap::new()),
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
    let begun = late?.remove("").unwrap_or_default();
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

/// How many runs of some keys were taken when; of the whole queue where the lane is empty.
pub(crate) async fn begun(
    session: &Session,
    name: &str,
    lanes: &[String],
) -> Result<HashMap<String, Vec<(Time, u32)>>, Fault> {
    let mut begun: HashMap<String, Vec<(Time, u32)>> = HashMap::new();
    for row in session.query(BEGUN, &[&name, &lanes]).await? {
        let count = u32::try_from(row.try_get::<_, i64>(2)?).unwrap_or(u32::MAX);
        begun.entry(row.try_get(0)?).or_default().push((column::time(&row, 1)?, count));
    }
    Ok(begun)
}

/// Forgets some of what was begun of keys until then. Answers whether there may be more.
pub(crate) async fn forget_keys(session: &Session, name: &str, until: Time) -> Result<bool, Fault> {
    let forgotten = session.execute(FORGET_KEYS, &[&name, &until.0, &FORGET_AT_ONCE]).await?;
    Ok(forgotten >= FORGET_AT_ONCE.cast_unsigned())
}

/// Notes that one of each of these lanes was taken, in this order, as far as a rate asks, and whose turn it was last.
pub(crate) async fn note(session: &Session, queue: &Queue, lanes: &[&str]) -> Result<(), Fault> {
    let Some(last) = lanes.last() else { return Ok(()) };
    let turn: [&(dyn ToSql + Sync); 2] = [&queue.name, last];
    let QueueLimits { rate, key_rate, .. } = queue.state.limits;
    let mut counts: HashMap<(&str, i64), i64> = HashMap::new();
    for lane in lanes {
        if let Some(rate) = rate {
            *counts.entry(("", rate.noted(queue.at).0)).or_default() += 1;
        }
        if let Some(rate) = key_rate.filter(|_| !lane.is_empty()) {
            *counts.entry((lane, rate.noted(queue.at).0)).or_default() += 1;
        }
    }
    let (mut of, mut at, mut count) = (Vec::new(), Vec::new(), Vec::new());
    for ((lane, noted), taken) in counts {
        of.push(lane);
        at.push(noted);
        count.push(taken);
    }
    let old = rate.map(|rate| rate.past(queue.at).0);
    let old: [&(dyn ToSql + Sync); 2] = [&queue.name, &old];
    let begun: [&(dyn ToSql + Sync); 4] = [&queue.name, &of, &at, &count];
    let (noted, forgotten, begun) = tokio::join!(
        session.execute(CURSOR, &turn),
        async { if rate.is_some() { session.execute(FORGET, &old).await } else { Ok(0) } },
        async { if of.is_empty() { Ok(0) } else { session.execute(BEGIN, &begun).await } },
    );
    noted?;
    forgotten?;
    begun?;
    Ok(())
}
