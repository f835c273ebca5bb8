//! Processes that run an engine: joining, living, dying.

use tokio_postgres::Row;
use uuid::Uuid;
use windlass_core::{ClaimId, NodeId, RunId};
use windlass_store::{
    Death, Heartbeat, InboxRow, Joined, NewNode, NodeRow, Pulse, StoreError, Swept, host_name,
};

use crate::{column, error::Fault, image, session::Session, spread, stops::stops_at};

const EXCLUDE: &str = "SELECT pg_advisory_xact_lock($1)";
const EXISTS: &str = "SELECT EXISTS (SELECT FROM {s}.node WHERE id = $1)";
const ADD: &str = "\
    INSERT INTO {s}.node (id, name, pid, host, version, queues, started_at, heartbeat_at, stale_after) \
    VALUES ($1, $2, $3, $4, $5, $6, {s}.clock(), {s}.clock(), $7)";
const RENEW: &str = "UPDATE {s}.node SET heartbeat_at = {s}.clock() WHERE id = $1";
/// All of a heartbeat: the node's own row, with what it holds and whether something lies in the inboxes of that, and the
/// rows of the others. The fence is in it: whoever condemns the node writes to the same row, so one of the two waits for the
/// other, and then sees what that did. All that a node holds is a stranger to it, as far as the tables know.
const BEAT: &str = "\
    WITH beat AS (\
        UPDATE {s}.node SET heartbeat_at = {s}.clock(), running = $2, ended = $3 WHERE id = $1 AND NOT dead RETURNING *) \
    SELECT b.id, b.name, b.pid, b.host, b.version, b.queues, b.started_at, b.heartbeat_at, b.stale_after, b.dead, \
           b.running, b.ended, held.runs, held.claims, coalesce(held.has_mail, false) \
    FROM beat AS b CROSS JOIN (\
        SELECT array_agg(h.run) AS runs, array_agg(h.claim) AS claims, \
               bool_or(EXISTS (SELECT FROM {s}.inbox AS i WHERE i.run = h.run OFFSET 0)) AS has_mail \
        FROM {s}.held AS h WHERE h.node = $1) AS held \
    UNION ALL \
    SELECT id, name, pid, host, version, queues, started_at, heartbeat_at, stale_after, dead, running, ended, NULL, NULL, false \
    FROM {s}.node WHERE id <> $1 ORDER BY 1";
const NAMESAKES: &str = "SELECT id FROM {s}.node WHERE name = $1 AND NOT dead ORDER BY id";
const CONDEMN: &str = "UPDATE {s}.node SET dead = true WHERE id = $1 AND NOT dead";
/// The same if it is stale even now: a heartbeat waits for nobody but whoever writes to its row.
const CONDEMN_STALE: &str = "\
    UPDATE {s}.node SET dead = true WHERE id = $1 AND NOT dead AND {s}.clock() - heartbeat_at > stale_after";
const JUDGE: &str = "SELECT dead, {s}.clock() - heartbeat_at > stale_after FROM {s}.node WHERE id = $1";
const REMOVE: &str = "DELETE FROM {s}.node WHERE id = $1";
const FORGET: &str = "DELETE FROM {s}.holding WHERE node = $1";
const ALL: &str = "\
    SELECT id, name, pid, host, version, queues, started_at, heartbeat_at, stale_after, dead, running, ended \
    FROM {s}.node ORDER BY id";
const INBOX: &str = "\
    SELECT i.seq, i.run, i.topic, i.body, i.at FROM {s}.held AS h \
    CROSS JOIN LATERAL (SELECT * FROM {s}.inbox WHERE run = h.run OFFSET 0) AS i \
    WHERE h.node = $1 ORDER BY i.seq";
/// The same of some runs: those that nothing has come for are not looked for in the lists.
const INBOX_OF: &str = "\
    SELECT i.seq, i.run, i.topic, i.body, i.at FROM unnest($2::uuid[]) AS u (run) \
    CROSS JOIN LATERAL (SELECT * FROM {s}.inbox WHERE run = u.run OFFSET 0) AS i \
    CROSS JOIN LATERAL (SELECT * FROM {s}.run WHERE id = i.run OFFSET 0) AS r \
    WHERE EXISTS (SELECT FROM {s}.listed AS l \
            WHERE l.node = $1 AND i.run = ANY(l.runs) AND l.run = i.run AND l.tenure = r.tenure OFFSET 0) \
      AND NOT EXISTS (SELECT FROM {s}.ended AS e \
            WHERE e.workflow = r.workflow AND e.run = r.id AND e.generation = r.generation OFFSET 0) \
    ORDER BY i.seq";
/// Runs that some nodes have, locked in the order of ids over all of them. Whoever gave one up meanwhile has raised its
/// tenure.
const RELEASE: &str = concat!(
    "\
    WITH mine AS MATERIALIZED (\
        SELECT r.id, u.definition \
        FROM (SELECT run, tenure, definition FROM {s}.listed WHERE node = ANY($1) ORDER BY run) AS u \
        CROSS JOIN LATERAL (\
            SELECT r.id FROM {s}.run AS r WHERE r.id = u.run AND r.tenure = u.tenure \
              AND NOT EXISTS (SELECT FROM {s}.ended AS e \
                  WHERE e.workflow = r.workflow AND e.run = r.id AND e.generation = r.generation OFFSET 0) \
            FOR UPDATE) AS r \
        LIMIT $2), \
    freed AS (\
        UPDATE {s}.run AS r SET tenure = r.tenure + 1, recoveries = r.recoveries + $3, \
            definition = coalesce(r.definition, mine.definition) \
        FROM mine WHERE r.id = mine.id RETURNING r.queue, r.queue_key, r.workflow, r.priority, r.id, r.generation, \
            r.opened_at, r.timeout), \
    vacated AS (\
        DELETE FROM {s}.slot AS s WHERE s.run = ANY (ARRAY (SELECT id FROM freed)) \
          AND NOT EXISTS (SELECT FROM {s}.queue AS q WHERE q.name = s.queue AND q.hold)), \
    kept AS (\
        UPDATE {s}.slot AS s SET node = NULL WHERE s.run = ANY (ARRAY (SELECT id FROM freed)) \
          AND EXISTS (SELECT FROM {s}.queue AS q WHERE q.name = s.queue AND q.hold)) \
    INSERT INTO {s}.ready (queue, lane, workflow, priority, run, stops_at) \
    SELECT queue, {s}.lane(queue_key), workflow, priority, id, ",
    stops_at!("freed"),
    " FROM freed"
);
const HELD: &str = "SELECT EXISTS (SELECT FROM {s}.held WHERE node = $1)";
const DEAD: &str = "SELECT id FROM {s}.node WHERE dead ORDER BY id FOR UPDATE SKIP LOCKED";
/// Whoever holds a lock that stands for a node: it is frozen in a transaction, or its connection is gone and the server
/// does not know. A stranger who took the lock cannot be ended, and must not keep the others from it.
const HOLDERS: &str = "\
    SELECT pg_terminate_backend(l.pid) FROM pg_catalog.pg_locks AS l \
    JOIN pg_catalog.pg_stat_activity AS a ON a.pid = l.pid AND pg_has_role(a.usesysid, 'USAGE') \
    WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 AND l.pid <> pg_backend_pid() \
      AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database()) \
      AND (l.classid::bigint << 32 | l.objid::bigint) = $1";

/// Adds a node.
pub(crate) async fn join(session: &Session, new: &NewNode) -> Result<Joined, Fault> {
    let id = column::node(new.id);
    let add = async |now| {
        // A repeat waits for the first sending, which may still be under way.
        exclude(session, new.id).await?;
        let mut fenced = Vec::new();
        if session.one(EXISTS, &[&id]).await?.try_get(0)? {
            session.check(new.id).await?;
            session.execute(RENEW, &[&id]).await?;
            return Ok(Joined { now, fenced });
        }
        if let Some(name) = &new.name {
            // Two that join under one name at once take turns.
            session.execute(EXCLUDE, &[&session.lock_of(name.as_bytes())]).await?;
            for row in session.query(NAMESAKES, &[name]).await? {
                let namesake = column::node_id(&row, 0)?;
                exclude(session, namesake).await?;
                if session.execute(CONDEMN, &[&column::node(namesake)]).await? > 0 {
                    fenced.push(namesake);
                }
            }
        }
        let (pid, stale_after) = (i64::from(std::process::id()), column::micros(new.stale_after));
        session
            .execute(ADD, &[&id, &new.name, &pid, &host_name(), &new.version, &new.queues, &stale_after])
            .await?;
        Ok(Joined { now, fenced })
    };
    session.transact(None, add).await
}

/// Says that a node lives, and looks around.
pub(crate) async fn heartbeat(session: &Session, node: NodeId, pulse: &Pulse) -> Result<Heartbeat, Fault> {
    let id = column::node(node);
    let ended = serde_json::json!(pulse.ended).to_string();
    let rows = session.alone(node, BEAT, &[&id, &i64::from(pulse.running), &ended]).await?;
    let (own, others): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row.get::<_, Uuid>(0) == id);
    let own = own.first().ok_or(StoreError::Fenced)?;
    let (runs, claims): (Option<Vec<Uuid>>, Option<Vec<i64>>) = (own.try_get(12)?, own.try_get(13)?);
    let holds = runs.into_iter().flatten().zip(claims.into_iter().flatten());
    let holds =
        holds.map(|(run, claim)| (RunId::from_bytes(run.into_bytes()), ClaimId(claim.cast_unsigned())));
    Ok(Heartbeat {
        now: column::time(own, 7)?,
        others: others.into_iter().map(node_row).collect::<Result<_, _>>()?,
        gone: Vec::new(),
        inbox: if own.try_get(14)? { inbox(session, node, None).await? } else { Vec::new() },
        strangers: holds.collect(),
    })
}

/// Removes a node. What it still holds becomes ready.
pub(crate) async fn leave(session: &Session, node: NodeId) -> Result<u64, Fault> {
    let leave = async |_| {
        let id = column::node(node);
        // Its own batches that are still under way come first, or fail. The lock is not shared before: two that leave
        // at once would wait for each other.
        exclude(session, node).await?;
        session.check(node).await?;
        let released = session.execute(RELEASE, &[&vec![id], &i64::MAX, &0_i32]).await?;
        spread::free(session, &[id], i64::MAX, 0).await?;
        session.execute(FORGET, &[&id]).await?;
        session.execute(REMOVE, &[&id]).await?;
        Ok(released)
    };
    session.transact(None, leave).await
}

/// Declares a node dead if there is reason to.
pub(crate) async fn declare_dead(
    session: &Session,
    judge: NodeId,
    condemned: NodeId,
    why: Death,
) -> Result<bool, Fault> {
    let declare = async |_| {
        // One that lives is left alone: nothing of it is held up, and nobody takes it for frozen.
        if let Some(dead) = is_settled(session, condemned, why).await? {
            return Ok(dead);
        }
        exclude(session, condemned).await?;
        if let Some(dead) = is_settled(session, condemned, why).await? {
            return Ok(dead);
        }
        Ok(session.execute(CONDEMN_STALE, &[&column::node(condemned)]).await? > 0)
    };
    session.transact(Some(judge), declare).await
}

/// Whether a node is dead, if there is nothing to declare.
async fn is_settled(session: &Session, node: NodeId, why: Death) -> Result<Option<bool>, Fault> {
    let rows = session.query(JUDGE, &[&column::node(node)]).await?;
    let Some(row) = rows.first() else { return Ok(Some(true)) };
    let (dead, stale): (bool, bool) = (row.try_get(0)?, row.try_get(1)?);
    // Another machine's process cannot be proven to be gone.
    let is_settled = dead || !stale || why == Death::Gone;
    Ok(is_settled.then_some(dead))
}

/// Ends whoever holds what stands for this node's life for longer than a transaction takes.
pub(crate) async fn evict(session: &Session, condemned: NodeId) -> Result<usize, Fault> {
    Ok(session.query(HOLDERS, &[&session.lock_of(condemned.as_bytes())]).await?.len())
}

/// Does the same to the living nodes whose name a new one has.
pub(crate) async fn evict_namesakes(session: &Session, new: &NewNode) -> Result<usize, Fault> {
    let mut ended = 0;
    for row in session.query(NAMESAKES, &[&new.name]).await? {
        let namesake = column::node_id(&row, 0)?;
        if namesake != new.id {
            ended += evict(session, namesake).await?;
        }
    }
    Ok(ended)
}

/// Makes runs of dead nodes ready, and removes the nodes of which nothing is left.
pub(crate) async fn sweep(session: &Session, judge: NodeId, limit: usize) -> Result<Swept, Fault> {
    let sweep = async |_| {
        let dead = session.query(DEAD, &[]).await?;
        let dead = dead.iter().map(|row| row.try_get(0)).collect::<Result<Vec<Uuid>, _>>()?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let released = session.execute(RELEASE, &[&dead, &limit, &1_i32]).await?;
        let tasks = spread::free(session, &dead, limit, 1).await?;
        let released = usize::try_from(released).unwrap_or(usize::MAX);
        let mut swept = Swept { released, tasks, more: false };
        for id in dead {
            if session.one(HELD, &[&id]).await?.try_get(0)? || spread::holds(session, id).await? {
                swept.more = true;
                continue;
            }
            session.execute(FORGET, &[&id]).await?;
            session.execute(REMOVE, &[&id]).await?;
        }
        Ok(swept)
    };
    session.transact(Some(judge), sweep).await
}

/// What lies in the inboxes of the runs that a node holds, or only of those among these.
pub(crate) async fn inbox(
    session: &Session,
    node: NodeId,
    only: Option<&[RunId]>,
) -> Result<Vec<InboxRow>, Fault> {
    let node = column::node(node);
    let rows = match only {
        None => session.query(INBOX, &[&node]).await?,
        Some(only) => {
            let mut only: Vec<Uuid> = only.iter().map(|run| column::run(*run)).collect();
            only.sort_unstable();
            only.dedup();
            session.query(INBOX_OF, &[&node, &only]).await?
        }
    };
    rows.iter().map(image::inbox_row).collect()
}

/// Every node by id.
pub(crate) async fn all(session: &Session) -> Result<Vec<NodeRow>, Fault> {
    session.query(ALL, &[]).await?.iter().map(node_row).collect()
}

/// Waits until no transaction of a node is under way, and lets none begin.
async fn exclude(session: &Session, node: NodeId) -> Result<(), Fault> {
    session.client().batch_execute("SET LOCAL lock_timeout = '1s'").await?;
    session.execute(EXCLUDE, &[&session.lock_of(node.as_bytes())]).await?;
    session.client().batch_execute("SET LOCAL lock_timeout = '5s'").await?;
    Ok(())
}

fn node_row(row: &Row) -> Result<NodeRow, Fault> {
    let (pid, running): (i64, i64) = (row.try_get(2)?, row.try_get(10)?);
    Ok(NodeRow {
        id: column::node_id(row, 0)?,
        name: row.try_get(1)?,
        pid: u32::try_from(pid).map_err(|_| Fault::unreadable(row, 2))?,
        host: row.try_get(3)?,
        version: row.try_get(4)?,
        queues: row.try_get(5)?,
        started_at: column::time(row, 6)?,
        heartbeat_at: column::time(row, 7)?,
        stale_after: column::span(row.try_get(8)?),
        dead: row.try_get(9)?,
        running: u32::try_from(running).map_err(|_| Fault::unreadable(row, 10))?,
        ended: serde_json::from_str(row.try_get(11)?).map_err(|_| Fault::unreadable(row, 11))?,
    })
}
