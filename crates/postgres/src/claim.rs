//! Handing out runs.

use std::sync::Arc;

use tokio_postgres::types::ToSql;
use uuid::Uuid;
use windlass_core::{NodeId, Time};
use windlass_store::{Claim, Claimed, DefinitionId};

use crate::{column, error::Fault, image, session::Session};

/// How many due runs one claim makes ready at most.
const DUE_AT_ONCE: i64 = 10_000;

/// Whoever moves a run out of `waiting` deletes its row there; what somebody else is moving is passed over.
const DUE: &str = "\
    WITH due AS (\
        DELETE FROM {s}.waiting AS w WHERE w.run IN (\
            SELECT run FROM {s}.waiting WHERE until <= {s}.clock() ORDER BY until LIMIT $1 FOR UPDATE SKIP LOCKED) \
        RETURNING w.run) \
    INSERT INTO {s}.ready (queue, workflow, priority, run) \
    SELECT r.queue, r.workflow, r.priority, r.id FROM due JOIN {s}.run AS r ON r.id = due.run";
const NEXT_DUE: &str = "SELECT until FROM {s}.waiting WHERE until IS NOT NULL ORDER BY until LIMIT 1";
/// Whoever waits for others locks runs first, in the order of ids, and only then what stands for their places.
const UNBLOCK: &str = "\
    WITH blocked AS MATERIALIZED (\
        SELECT r.id FROM unnest($1::text[], $2::bigint[]) AS v (workflow, version) \
        JOIN {s}.waiting AS w ON w.workflow = v.workflow AND w.state = 4 AND w.blocked_by IS DISTINCT FROM v.version \
        JOIN {s}.run AS r ON r.id = w.run \
        ORDER BY r.id FOR UPDATE OF r), \
    freed AS (\
        DELETE FROM {s}.waiting AS w USING blocked WHERE w.run = blocked.id RETURNING w.run) \
    INSERT INTO {s}.ready (queue, workflow, priority, run) \
    SELECT r.queue, r.workflow, r.priority, r.id FROM freed JOIN {s}.run AS r ON r.id = freed.run";
/// What somebody else is moving is passed over here, too: a claim waits for nobody.
const FREE_OWN: &str = "\
    WITH own AS MATERIALIZED (\
        SELECT w.run FROM unnest($1::text[], $2::bigint[]) AS v (workflow, version) \
        JOIN {s}.waiting AS w ON w.workflow = v.workflow AND w.state = 4 AND w.blocked_by IS DISTINCT FROM v.version \
        JOIN {s}.run AS r ON r.id = w.run AND r.definition = v.version \
        FOR UPDATE OF w SKIP LOCKED), \
    freed AS (\
        DELETE FROM {s}.waiting AS w USING own WHERE w.run = own.run RETURNING w.run) \
    INSERT INTO {s}.ready (queue, workflow, priority, run) \
    SELECT r.queue, r.workflow, r.priority, r.id FROM freed JOIN {s}.run AS r ON r.id = freed.run";
/// A claim that is sent again while the first sending is still under way waits for it, and finds what it took.
const ALONE: &str = "SELECT pg_advisory_xact_lock($1)";
/// The runs that a node holds under a claim, the most urgent first.
const MINE: &str = "\
    SELECT r.id, h.no FROM {s}.holding AS h CROSS JOIN LATERAL unnest(h.runs) AS u (run) JOIN {s}.run AS r ON r.id = u.run \
    WHERE h.node = $1 AND h.claims @> ARRAY[$2::bigint] AND r.node = $1 AND r.claim = $2 \
      AND NOT EXISTS (SELECT FROM {s}.ended AS e \
          WHERE e.workflow = r.workflow AND e.run = r.id AND e.generation = r.generation) \
    ORDER BY r.priority, r.id, h.no";
/// Each queue and workflow is a line; the heads of all lines are weighed together. A row that is locked is being moved
/// by somebody else, so nobody ever waits here.
const TAKE: &str = "\
    WITH line AS (\
        SELECT q.queue, q.room, v.workflow, v.version \
        FROM unnest($3::text[], $4::bigint[]) AS q (queue, room) \
        CROSS JOIN unnest($5::text[], $6::bigint[]) AS v (workflow, version) WHERE q.room > 0), \
    seen AS MATERIALIZED (\
        SELECT head.*, line.room, line.version FROM line CROSS JOIN LATERAL (\
            SELECT a.queue, a.workflow, a.priority, a.run, \
                   octet_length(r.input) + coalesce(octet_length(r.context), 0) AS own, r.definition \
            FROM {s}.ready AS a JOIN {s}.run AS r ON r.id = a.run \
            WHERE a.queue = line.queue AND a.workflow = line.workflow \
            ORDER BY a.priority, a.run LIMIT least(line.room, $7::bigint) FOR UPDATE OF a, r SKIP LOCKED) AS head), \
    ranked AS (\
        SELECT seen.*, row_number() OVER (PARTITION BY queue ORDER BY priority, run) AS place, \
            own + coalesce((SELECT sum(coalesce(octet_length(s.output), 0) + coalesce(octet_length(s.detail), 0)) \
                            FROM {s}.step AS s WHERE s.run = seen.run), 0) \
                + coalesce((SELECT sum(octet_length(i.body)) FROM {s}.inbox AS i WHERE i.run = seen.run), 0) AS bytes \
        FROM seen), \
    weighed AS (\
        SELECT ranked.*, sum(bytes) OVER (ORDER BY priority, run ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS sum \
        FROM ranked WHERE place <= room), \
    picked AS (\
        SELECT * FROM weighed WHERE sum IS NULL OR sum < $8::bigint ORDER BY priority, run LIMIT $7::bigint), \
    gone AS (\
        DELETE FROM {s}.ready AS a USING picked AS p \
        WHERE a.queue = p.queue AND a.workflow = p.workflow AND a.priority = p.priority AND a.run = p.run), \
    took AS (\
        UPDATE {s}.run AS r SET node = $1, claim = $2, definition = coalesce(r.definition, p.version) \
        FROM picked AS p WHERE r.id = p.run RETURNING r.id) \
    INSERT INTO {s}.holding (node, claims, runs) \
    SELECT $1, ARRAY[$2::bigint], array_agg(id) FROM took HAVING count(*) > 0";
/// The limit keeps the planner from gathering all lines there are.
const MORE: &str = "\
    SELECT EXISTS (\
        SELECT FROM unnest($1::text[]) AS q (queue) CROSS JOIN unnest($2::text[]) AS v (workflow) \
        CROSS JOIN LATERAL (\
            SELECT FROM {s}.ready AS a WHERE a.queue = q.queue AND a.workflow = v.workflow LIMIT 1) AS head)";

/// What a claim did, and what others may want to know of it.
pub(crate) struct Taken {
    pub(crate) claimed: Claimed,
    /// The rows of `holding`, and which run came with which.
    pub(crate) rows: Vec<(Uuid, i64)>,
}

/// Makes due runs ready, and takes what a node has room for.
pub(crate) async fn claim(session: &Session, request: &Claim) -> Result<Taken, Fault> {
    let take = async |now: Time| {
        let lock = session.lock_of(&request.claim.0.to_be_bytes());
        let (lock, limit): ([&(dyn ToSql + Sync); 1], [&(dyn ToSql + Sync); 1]) = ([&lock], [&DUE_AT_ONCE]);
        // They travel together.
        for sql in [ALONE, DUE] {
            session.statement(sql).await?;
        }
        let (alone, due) = tokio::join!(session.execute(ALONE, &lock), session.execute(DUE, &limit));
        alone?;
        let due = due?;
        let (workflows, versions) = columns(&request.workflows);
        if request.free_own {
            session.execute(FREE_OWN, &[&workflows, &versions]).await?;
        }
        let mut rows = mine(session, request).await?;
        if rows.is_empty() && request.room > 0 {
            let (node, claim) = (column::node(request.node), column::claim(request.claim));
            let (queues, rooms): (Vec<&str>, Vec<i64>) =
                request.queues.iter().map(|(queue, room)| (&**queue, large(*room))).unzip();
            let (room, bytes) = (large(request.room), large(request.bytes));
            session
                .execute(TAKE, &[&node, &claim, &queues, &rooms, &workflows, &versions, &room, &bytes])
                .await?;
            rows = mine(session, request).await?;
        }
        let runs: Vec<Uuid> = rows.iter().map(|(run, _)| *run).collect();
        let runs = image::load(session, &runs).await?;
        let next_due = session.query(NEXT_DUE, &[]).await?;
        let next_due = next_due.first().map(|row| column::time(row, 0)).transpose()?;
        let open: Vec<&str> =
            request.queues.iter().filter(|(_, room)| *room > 0).map(|(queue, _)| &**queue).collect();
        let more = request.room > 0 && session.one(MORE, &[&open, &workflows]).await?.try_get(0)?;
        let more = more || due >= DUE_AT_ONCE.cast_unsigned();
        Ok(Taken { claimed: Claimed { now, runs, next_due, more }, rows })
    };
    session.transact(Some(request.node), take).await
}

/// Makes runs ready that another version may continue.
pub(crate) async fn unblock(
    session: &Session,
    node: NodeId,
    workflows: &[(Arc<str>, DefinitionId)],
) -> Result<usize, Fault> {
    let (workflows, versions) = columns(workflows);
    let freed = session
        .transact(Some(node), async |_| session.execute(UNBLOCK, &[&workflows, &versions]).await)
        .await?;
    Ok(usize::try_from(freed).unwrap_or(usize::MAX))
}

async fn mine(session: &Session, request: &Claim) -> Result<Vec<(Uuid, i64)>, Fault> {
    let (node, claim) = (column::node(request.node), column::claim(request.claim));
    let mut rows: Vec<(Uuid, i64)> = Vec::new();
    for row in session.query(MINE, &[&node, &claim]).await? {
        let (run, no) = (row.try_get(0)?, row.try_get(1)?);
        // One that was given up and claimed again under the same id is listed twice; the newest row is right.
        match rows.last_mut() {
            Some(last) if last.0 == run => last.1 = no,
            _ => rows.push((run, no)),
        }
    }
    Ok(rows)
}

fn columns(workflows: &[(Arc<str>, DefinitionId)]) -> (Vec<&str>, Vec<i64>) {
    workflows.iter().map(|(workflow, version)| (&**workflow, version.0)).unzip()
}

fn large(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
