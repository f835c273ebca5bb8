//! What a claim says to the server.

/// Whoever moves a run out of `waiting` deletes its row there; what somebody else is moving is passed over.
pub(super) const DUE: &str = "\
    WITH due AS (\
        DELETE FROM {s}.waiting AS w WHERE w.run IN (\
            SELECT run FROM {s}.waiting WHERE until <= {s}.clock() ORDER BY until LIMIT $1 FOR UPDATE SKIP LOCKED) \
        RETURNING w.run) \
    INSERT INTO {s}.ready (queue, workflow, priority, run) \
    SELECT r.queue, r.workflow, r.priority, r.id \
    FROM due CROSS JOIN LATERAL (SELECT * FROM {s}.run WHERE id = due.run OFFSET 0) AS r";
pub(super) const NEXT_DUE: &str =
    "SELECT until FROM {s}.waiting WHERE until IS NOT NULL ORDER BY until LIMIT 1";
/// Whoever waits for others locks runs first, in the order of ids, and only then what stands for their places.
pub(super) const UNBLOCK: &str = "\
    WITH blocked AS MATERIALIZED (\
        SELECT r.id FROM unnest($1::text[], $2::bigint[]) AS v (workflow, version) \
        JOIN {s}.waiting AS w ON w.workflow = v.workflow AND w.state = 4 AND w.blocked_by IS DISTINCT FROM v.version \
        JOIN {s}.run AS r ON r.id = w.run \
        ORDER BY r.id FOR UPDATE OF r), \
    freed AS (\
        DELETE FROM {s}.waiting AS w USING blocked WHERE w.run = blocked.id RETURNING w.run) \
    INSERT INTO {s}.ready (queue, workflow, priority, run) \
    SELECT r.queue, r.workflow, r.priority, r.id \
    FROM freed CROSS JOIN LATERAL (SELECT * FROM {s}.run WHERE id = freed.run OFFSET 0) AS r";
/// What somebody else is moving is passed over here, too: a claim waits for nobody.
pub(super) const FREE_OWN: &str = "\
    WITH own AS MATERIALIZED (\
        SELECT w.run FROM unnest($1::text[], $2::bigint[]) AS v (workflow, version) \
        JOIN {s}.waiting AS w ON w.workflow = v.workflow AND w.state = 4 AND w.blocked_by IS DISTINCT FROM v.version \
        JOIN {s}.run AS r ON r.id = w.run AND r.definition = v.version \
        FOR UPDATE OF w SKIP LOCKED), \
    freed AS (\
        DELETE FROM {s}.waiting AS w USING own WHERE w.run = own.run RETURNING w.run) \
    INSERT INTO {s}.ready (queue, workflow, priority, run) \
    SELECT r.queue, r.workflow, r.priority, r.id \
    FROM freed CROSS JOIN LATERAL (SELECT * FROM {s}.run WHERE id = freed.run OFFSET 0) AS r";
/// A claim that is sent again while the first sending is still under way waits for it, and finds what it took.
pub(super) const ALONE: &str = "SELECT pg_advisory_xact_lock($1)";
/// The runs that a node holds under a claim, the most urgent first.
pub(super) const MINE: &str = "\
    SELECT r.id, h.no FROM {s}.holding AS h CROSS JOIN LATERAL unnest(h.runs) AS u (run) \
    CROSS JOIN LATERAL (SELECT * FROM {s}.run WHERE id = u.run OFFSET 0) AS r \
    WHERE h.node = $1 AND h.claims @> ARRAY[$2::bigint] AND r.node = $1 AND r.claim = $2 \
      AND NOT EXISTS (SELECT FROM {s}.ended AS e \
          WHERE e.workflow = r.workflow AND e.run = r.id AND e.generation = r.generation OFFSET 0) \
    ORDER BY r.priority, r.id, h.no";
/// Each queue and workflow is a line; the heads of all lines are weighed together. A row that is locked is being moved
/// by somebody else, so nobody ever waits here. Rows of `ready` never change, so that their place finds them again.
///
/// Nothing is taken under a claim that the node holds runs under.
pub(super) const TAKE: &str = "\
    WITH line AS (\
        SELECT q.queue, q.room, v.workflow, v.version, coalesce(b.priority, 0::smallint) AS priority, \
               coalesce(b.run, '00000000-0000-0000-0000-000000000000'::uuid) AS run \
        FROM unnest($3::text[], $4::bigint[]) AS q (queue, room) \
        CROSS JOIN unnest($5::text[], $6::bigint[]) AS v (workflow, version) \
        LEFT JOIN unnest($9::text[], $10::text[], $11::smallint[], $12::uuid[]) AS b (queue, workflow, priority, run) \
            ON b.queue = q.queue AND b.workflow = v.workflow \
        WHERE q.room > 0 AND NOT EXISTS (\
            SELECT FROM {s}.holding AS h CROSS JOIN LATERAL unnest(h.runs) AS u (run) \
            CROSS JOIN LATERAL (SELECT * FROM {s}.run WHERE id = u.run OFFSET 0) AS r \
            WHERE h.node = $1 AND h.claims @> ARRAY[$2::bigint] AND r.node = $1 AND r.claim = $2 \
              AND NOT EXISTS (SELECT FROM {s}.ended AS e \
                  WHERE e.workflow = r.workflow AND e.run = r.id AND e.generation = r.generation OFFSET 0))), \
    seen AS MATERIALIZED (\
        SELECT head.*, line.room, line.version FROM line CROSS JOIN LATERAL (\
            SELECT a.ctid AS entry, a.queue, a.priority, a.run, \
                   octet_length(r.input) + coalesce(octet_length(r.context), 0) AS own, \
                   r.definition IS NULL AND r.has_records IS NULL AS is_new \
            FROM {s}.ready AS a JOIN {s}.run AS r ON r.id = a.run \
            WHERE a.queue = line.queue AND a.workflow = line.workflow \
              AND (a.priority, a.run) >= (line.priority, line.run) \
            ORDER BY a.priority, a.run LIMIT least(line.room, $7::bigint) FOR UPDATE OF a, r SKIP LOCKED) AS head), \
    ranked AS (\
        SELECT seen.*, row_number() OVER (PARTITION BY queue ORDER BY priority, run) AS place, \
            own + CASE WHEN is_new THEN 0 ELSE \
                    coalesce((SELECT sum(coalesce(octet_length(s.output), 0) + coalesce(octet_length(s.detail), 0)) \
                              FROM {s}.step AS s WHERE s.run = seen.run), 0) END \
                + coalesce((SELECT sum(octet_length(i.body)) FROM {s}.inbox AS i WHERE i.run = seen.run), 0) AS bytes \
        FROM seen), \
    weighed AS (\
        SELECT ranked.*, sum(bytes) OVER (ORDER BY priority, run ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS sum \
        FROM ranked WHERE place <= room), \
    picked AS MATERIALIZED (\
        SELECT * FROM weighed WHERE sum IS NULL OR sum < $8::bigint ORDER BY priority, run LIMIT $7::bigint), \
    gone AS (\
        DELETE FROM {s}.ready WHERE ctid = ANY (ARRAY (SELECT entry FROM picked))), \
    listed AS (\
        INSERT INTO {s}.holding (node, claims, runs) \
        SELECT $1, ARRAY[$2::bigint], array_agg(run) FROM picked HAVING count(*) > 0 RETURNING no) \
    UPDATE {s}.run AS r SET node = $1, claim = $2, definition = coalesce(r.definition, p.version) \
    FROM picked AS p WHERE r.id = p.run \
    RETURNING r.id, r.workflow, r.queue, r.priority, r.created_at, r.timeout, r.input, r.context, r.key, r.tags, \
              r.forked_from, r.trace, r.parent, r.parent_topic, r.generation, r.definition, r.opened_at, r.recoveries, \
              p.is_new, (SELECT no FROM listed)";
/// The limit keeps the planner from gathering all lines there are.
pub(super) const MORE: &str = "\
    SELECT EXISTS (\
        SELECT FROM unnest($1::text[]) AS q (queue) CROSS JOIN unnest($2::text[]) AS v (workflow) \
        LEFT JOIN unnest($3::text[], $4::text[], $5::smallint[], $6::uuid[]) AS b (queue, workflow, priority, run) \
            ON b.queue = q.queue AND b.workflow = v.workflow \
        CROSS JOIN LATERAL (\
            SELECT FROM {s}.ready AS a WHERE a.queue = q.queue AND a.workflow = v.workflow \
              AND (a.priority, a.run) >= \
                  (coalesce(b.priority, 0::smallint), coalesce(b.run, '00000000-0000-0000-0000-000000000000'::uuid)) \
            LIMIT 1) AS head)";
/// Whatever a claim could find, in one statement, because it is asked again and again while there is nothing. What
/// somebody else is moving is seen, and left to the claim.
pub(super) const LOOK: &str = "\
    SELECT {s}.clock(), \
        (SELECT until FROM {s}.waiting WHERE until IS NOT NULL ORDER BY until LIMIT 1), \
        EXISTS (\
            SELECT FROM unnest($1::text[]) AS q (queue) CROSS JOIN unnest($2::text[]) AS v (workflow) \
            CROSS JOIN LATERAL (\
                SELECT FROM {s}.ready AS a WHERE a.queue = q.queue AND a.workflow = v.workflow LIMIT 1) AS head), \
        EXISTS (\
            SELECT FROM unnest($2::text[], $3::bigint[]) AS v (workflow, version) \
            JOIN {s}.waiting AS w ON w.workflow = v.workflow AND w.state = 4 AND w.blocked_by IS DISTINCT FROM v.version \
            JOIN {s}.run AS r ON r.id = w.run AND r.definition = v.version)";
