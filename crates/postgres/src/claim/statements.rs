//! What a claim says to the server.

use crate::stops::stops_at;

/// Whoever moves a run out of `waiting` deletes its row there; what somebody else is moving is passed over.
pub(super) const DUE: &str = concat!(
    "\
    WITH due AS (\
        DELETE FROM {s}.waiting AS w WHERE w.run IN (\
            SELECT run FROM {s}.waiting WHERE until <= {s}.clock() ORDER BY until LIMIT $1 FOR UPDATE SKIP LOCKED) \
        RETURNING w.run) \
    INSERT INTO {s}.ready (queue, lane, workflow, priority, run, stops_at) \
    SELECT r.queue, {s}.lane(r.queue_key), r.workflow, r.priority, r.id, ",
    stops_at!("r"),
    " FROM due CROSS JOIN LATERAL (SELECT * FROM {s}.run WHERE id = due.run OFFSET 0) AS r"
);
/// When the next one is due, and which of the queues were declared.
pub(super) const NEXT_DUE: &str = "\
    SELECT (SELECT until FROM {s}.waiting WHERE until IS NOT NULL ORDER BY until LIMIT 1), \
           ARRAY (SELECT name FROM {s}.queue WHERE name = ANY ($1))";
/// Whoever waits for others locks runs first, in the order of ids, and only then what stands for their places.
pub(super) const UNBLOCK: &str = concat!(
    "\
    WITH blocked AS MATERIALIZED (\
        SELECT r.id FROM unnest($1::text[], $2::bigint[]) AS v (workflow, version) \
        JOIN {s}.waiting AS w ON w.workflow = v.workflow AND w.state = 4 AND w.blocked_by IS DISTINCT FROM v.version \
        JOIN {s}.run AS r ON r.id = w.run \
        ORDER BY r.id FOR UPDATE OF r), \
    freed AS (\
        DELETE FROM {s}.waiting AS w USING blocked WHERE w.run = blocked.id RETURNING w.run) \
    INSERT INTO {s}.ready (queue, lane, workflow, priority, run, stops_at) \
    SELECT r.queue, {s}.lane(r.queue_key), r.workflow, r.priority, r.id, ",
    stops_at!("r"),
    " FROM freed CROSS JOIN LATERAL (SELECT * FROM {s}.run WHERE id = freed.run OFFSET 0) AS r"
);
/// What somebody else is moving is passed over here, too: a claim waits for nobody.
pub(super) const FREE_OWN: &str = concat!(
    "\
    WITH own AS MATERIALIZED (\
        SELECT w.run FROM unnest($1::text[], $2::bigint[]) AS v (workflow, version) \
        JOIN {s}.waiting AS w ON w.workflow = v.workflow AND w.state = 4 AND w.blocked_by IS DISTINCT FROM v.version \
        JOIN {s}.run AS r ON r.id = w.run AND r.definition = v.version \
        FOR UPDATE OF w SKIP LOCKED), \
    freed AS (\
        DELETE FROM {s}.waiting AS w USING own WHERE w.run = own.run RETURNING w.run) \
    INSERT INTO {s}.ready (queue, lane, workflow, priority, run, stops_at) \
    SELECT r.queue, {s}.lane(r.queue_key), r.workflow, r.priority, r.id, ",
    stops_at!("r"),
    " FROM freed CROSS JOIN LATERAL (SELECT * FROM {s}.run WHERE id = freed.run OFFSET 0) AS r"
);
/// A claim that is sent again while the first sending is still under way waits for it, and finds what it took.
pub(super) const ALONE: &str = "SELECT pg_advisory_xact_lock($1)";
/// The runs that a node holds under a claim, the most urgent first.
pub(super) const MINE: &str = "\
    SELECT run, no, tenure, definition FROM {s}.held \
    WHERE node = $1 AND claims @> ARRAY[$2::bigint] AND claim = $2 ORDER BY priority, run";
/// Each queue and workflow is a line; the heads of all lines are weighed together. A row that is locked is being moved
/// by somebody else, so nobody ever waits here. Rows of `ready` never change, so that their place finds them again.
///
/// Whoever deletes from `ready` has the run. Its own row is neither locked nor changed: nobody changes it while it is
/// ready, so that it is as it was when its row in `ready` came. Whoever puts a run off takes that row away first.
///
/// Of a single line all is taken that was seen, if it is light enough; what is left out is ranked and weighed one by one.
///
/// Nothing is taken under a claim that the node holds runs under.
pub(super) const TAKE: &str = "\
    WITH line AS MATERIALIZED (\
        SELECT q.queue, q.room, v.workflow, v.version, coalesce(b.priority, 0::smallint) AS priority, \
               coalesce(b.run, '00000000-0000-0000-0000-000000000000'::uuid) AS run \
        FROM unnest($3::text[], $4::bigint[]) AS q (queue, room) \
        CROSS JOIN unnest($5::text[], $6::bigint[]) AS v (workflow, version) \
        LEFT JOIN unnest($9::text[], $10::text[], $11::smallint[], $12::uuid[]) AS b (queue, workflow, priority, run) \
            ON b.queue = q.queue AND b.workflow = v.workflow \
        WHERE q.room > 0 AND NOT EXISTS (SELECT FROM {s}.queue AS d WHERE d.name = q.queue) AND NOT EXISTS (\
            SELECT FROM {s}.held WHERE node = $1 AND claims @> ARRAY[$2::bigint] AND claim = $2)), \
    seen AS MATERIALIZED (\
        SELECT head.*, line.room, line.version, r.* FROM line CROSS JOIN LATERAL (\
            SELECT a.ctid AS entry, a.queue, a.priority, a.run FROM {s}.ready AS a \
            WHERE a.queue = line.queue AND a.lane = '' AND a.workflow = line.workflow \
              AND (a.priority, a.run) >= (line.priority, line.run) \
            ORDER BY a.priority, a.run LIMIT least(line.room, $7::bigint) FOR UPDATE SKIP LOCKED) AS head \
        CROSS JOIN LATERAL (\
            SELECT ctid AS place, tenure, octet_length(input) + coalesce(octet_length(context), 0) AS own, \
                   tenure = 1 AND has_records IS NULL AS is_new \
            FROM {s}.run WHERE id = head.run OFFSET 0) AS r), \
    light AS MATERIALIZED (\
        SELECT (SELECT count(*) FROM line) = 1 AND coalesce(sum(own), 0) \
            + coalesce((SELECT sum(octet_length(body)) FROM {s}.inbox WHERE run = ANY (ARRAY (SELECT run FROM seen))), 0) \
            + coalesce((SELECT sum(coalesce(octet_length(output), 0) + coalesce(octet_length(detail), 0)) FROM {s}.step \
                        WHERE run = ANY (ARRAY (SELECT run FROM seen WHERE NOT is_new))), 0) < $8::bigint AS yes \
        FROM seen), \
    ranked AS (\
        SELECT seen.*, row_number() OVER (PARTITION BY queue ORDER BY priority, run) AS rank \
        FROM seen WHERE NOT (SELECT yes FROM light)), \
    weighed AS (\
        SELECT ranked.*, sum(own \
            + CASE WHEN is_new THEN 0 ELSE \
                coalesce((SELECT sum(coalesce(octet_length(s.output), 0) + coalesce(octet_length(s.detail), 0)) \
                          FROM {s}.step AS s WHERE s.run = ranked.run), 0) END \
            + coalesce((SELECT sum(octet_length(i.body)) FROM {s}.inbox AS i WHERE i.run = ranked.run), 0)) \
            OVER (ORDER BY priority, run ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS sum \
        FROM ranked WHERE rank <= room), \
    picked AS MATERIALIZED (\
        SELECT entry, place, run, tenure, version FROM seen WHERE (SELECT yes FROM light) \
        UNION ALL (\
            SELECT entry, place, run, tenure, version FROM weighed WHERE sum IS NULL OR sum < $8::bigint \
            ORDER BY priority, run LIMIT $7::bigint)), \
    gone AS (\
        DELETE FROM {s}.ready WHERE ctid = ANY (ARRAY (SELECT entry FROM picked))), \
    added AS (\
        INSERT INTO {s}.holding (node, claims, runs, tenures, definitions) \
        SELECT $1, ARRAY[$2::bigint], array_agg(run), CASE WHEN max(tenure) > 1 THEN array_agg(tenure) END, \
               CASE WHEN min(version) = max(version) THEN ARRAY[min(version)] ELSE array_agg(version) END \
        FROM picked HAVING count(*) > 0 RETURNING no) \
    SELECT r.id, r.workflow, r.queue, r.priority, r.created_at, r.timeout, r.input, r.context, r.key, r.tags, \
           r.forked_from, r.trace, r.parent, r.parent_topic, r.queue_key, r.generation, r.definition, r.opened_at, r.recoveries, \
           r.tenure = 1 AND r.has_records IS NULL, (SELECT no FROM added), r.tenure \
    FROM {s}.run AS r WHERE r.ctid = ANY (ARRAY (SELECT place FROM picked))";
/// The limit keeps the planner from gathering all lines there are.
pub(super) const MORE: &str = "\
    SELECT EXISTS (\
        SELECT FROM unnest($1::text[]) AS q (queue) CROSS JOIN unnest($2::text[]) AS v (workflow) \
        LEFT JOIN unnest($3::text[], $4::text[], $5::smallint[], $6::uuid[]) AS b (queue, workflow, priority, run) \
            ON b.queue = q.queue AND b.workflow = v.workflow \
        CROSS JOIN LATERAL (\
            SELECT FROM {s}.ready AS a WHERE a.queue = q.queue AND a.lane = '' AND a.workflow = v.workflow \
              AND (a.priority, a.run) >= \
                  (coalesce(b.priority, 0::smallint), coalesce(b.run, '00000000-0000-0000-0000-000000000000'::uuid)) \
            LIMIT 1) AS head \
        WHERE NOT EXISTS (SELECT FROM {s}.queue AS d WHERE d.name = q.queue))";
/// Whatever a claim could find, in one statement, because it is asked again and again while there is nothing. What
/// somebody else is moving is seen, and left to the claim.
pub(super) const LOOK: &str = "\
    SELECT {s}.clock(), \
        (SELECT until FROM {s}.waiting WHERE until IS NOT NULL ORDER BY until LIMIT 1), \
        EXISTS (\
            SELECT FROM unnest($1::text[]) AS q (queue) CROSS JOIN unnest($2::text[]) AS v (workflow) \
            CROSS JOIN LATERAL (\
                SELECT FROM {s}.ready AS a WHERE a.queue = q.queue AND a.lane = '' AND a.workflow = v.workflow LIMIT 1) AS head \
            WHERE NOT EXISTS (SELECT FROM {s}.queue AS d WHERE d.name = q.queue)), \
        EXISTS (\
            SELECT FROM unnest($2::text[], $3::bigint[]) AS v (workflow, version) \
            JOIN {s}.waiting AS w ON w.workflow = v.workflow AND w.state = 4 AND w.blocked_by IS DISTINCT FROM v.version \
            JOIN {s}.run AS r ON r.id = w.run AND r.definition = v.version), \
        ARRAY (SELECT name FROM {s}.queue WHERE name = ANY ($4))";

/// The heads of the lines of some queues, the most urgent first, each with its weight.
pub(super) const LINES: &str = "\
    SELECT a.priority, a.run, a.queue, a.lane, a.workflow, (SELECT octet_length(r.input) + coalesce(octet_length(r.context), 0) FROM {s}.run AS r WHERE r.id = a.run) \
           + coalesce((SELECT sum(coalesce(octet_length(s.output), 0) + coalesce(octet_length(s.detail), 0)) \
                       FROM {s}.step AS s WHERE s.run = a.run), 0)::bigint \
           + coalesce((SELECT sum(octet_length(i.body)) FROM {s}.inbox AS i WHERE i.run = a.run), 0)::bigint, \
           0::bigint \
    FROM unnest($1::text[], $2::bigint[]) AS q (queue, room) CROSS JOIN unnest($3::text[]) AS v (workflow) \
    CROSS JOIN LATERAL (\
        SELECT * FROM {s}.ready AS a WHERE a.queue = q.queue AND a.lane = '' AND a.workflow = v.workflow \
        ORDER BY a.priority, a.run LIMIT q.room) AS a \
    ORDER BY a.priority, a.run";
/// The most urgent runs of some lanes of a queue, so many of each workflow.
pub(super) const HEADS: &str = "\
    SELECT a.priority, a.run, a.queue, a.lane, a.workflow, (SELECT octet_length(r.input) + coalesce(octet_length(r.context), 0) FROM {s}.run AS r WHERE r.id = a.run) \
           + coalesce((SELECT sum(coalesce(octet_length(s.output), 0) + coalesce(octet_length(s.detail), 0)) \
                       FROM {s}.step AS s WHERE s.run = a.run), 0)::bigint \
           + coalesce((SELECT sum(octet_length(i.body)) FROM {s}.inbox AS i WHERE i.run = a.run), 0)::bigint, \
           0::bigint \
    FROM unnest($2::text[]) AS l (lane) CROSS JOIN unnest($3::text[]) AS v (workflow) \
    CROSS JOIN LATERAL (\
        SELECT * FROM {s}.ready AS a WHERE a.queue = $1 AND a.lane = l.lane AND a.workflow = v.workflow \
        ORDER BY a.priority, a.run LIMIT $4) AS a \
    ORDER BY a.priority, a.run";
/// The same of each priority, for a queue in which they age.
pub(super) const HEADS_OF_EACH: &str = "\
    SELECT a.priority, a.run, a.queue, a.lane, a.workflow, (SELECT octet_length(r.input) + coalesce(octet_length(r.context), 0) FROM {s}.run AS r WHERE r.id = a.run) \
           + coalesce((SELECT sum(coalesce(octet_length(s.output), 0) + coalesce(octet_length(s.detail), 0)) \
                       FROM {s}.step AS s WHERE s.run = a.run), 0)::bigint \
           + coalesce((SELECT sum(octet_length(i.body)) FROM {s}.inbox AS i WHERE i.run = a.run), 0)::bigint, \
           (SELECT r.opened_at FROM {s}.run AS r WHERE r.id = a.run) \
    FROM unnest($2::text[]) AS l (lane) CROSS JOIN unnest($3::text[]) AS v (workflow) \
    CROSS JOIN generate_series(0, 9) AS p (priority) \
    CROSS JOIN LATERAL (\
        SELECT * FROM {s}.ready AS a WHERE a.queue = $1 AND a.lane = l.lane AND a.workflow = v.workflow \
          AND a.priority = p.priority::smallint ORDER BY a.run LIMIT $4) AS a \
    ORDER BY a.priority, a.run";
/// Those of some runs that are ready in a queue, the most urgent first.
pub(super) const BACK: &str = "\
    SELECT a.priority, a.run, a.queue, a.lane, a.workflow, (SELECT octet_length(r.input) + coalesce(octet_length(r.context), 0) FROM {s}.run AS r WHERE r.id = a.run) \
           + coalesce((SELECT sum(coalesce(octet_length(s.output), 0) + coalesce(octet_length(s.detail), 0)) \
                       FROM {s}.step AS s WHERE s.run = a.run), 0)::bigint \
           + coalesce((SELECT sum(octet_length(i.body)) FROM {s}.inbox AS i WHERE i.run = a.run), 0)::bigint, \
           r.opened_at \
    FROM unnest($1::uuid[]) AS u (run) CROSS JOIN LATERAL (SELECT * FROM {s}.run WHERE id = u.run AND queue = $3 OFFSET 0) AS r \
    CROSS JOIN LATERAL (\
        SELECT * FROM {s}.ready AS a WHERE a.queue = r.queue AND a.lane = {s}.lane(r.queue_key) AND a.workflow = r.workflow \
          AND a.priority = r.priority AND a.run = r.id OFFSET 0) AS a \
    WHERE a.workflow = ANY ($2) ORDER BY a.priority, a.run";
/// The runs of a queue that have to stop by a moment, the first that had to before the others; and after them, for each
/// workflow, when the next one has to, without naming it.
pub(super) const STOPPING: &str = "\
    (SELECT a.run, a.stops_at FROM unnest($2::text[]) AS v (workflow) CROSS JOIN LATERAL (\
        SELECT run, stops_at FROM {s}.ready WHERE queue = $1 AND workflow = v.workflow AND stops_at <= $3 \
        ORDER BY stops_at, run LIMIT $4) AS a ORDER BY a.stops_at, a.run LIMIT $4) \
    UNION ALL \
    SELECT NULL, a.stops_at FROM unnest($2::text[]) AS v (workflow) CROSS JOIN LATERAL (\
        SELECT stops_at FROM {s}.ready WHERE queue = $1 AND workflow = v.workflow AND stops_at > $3 \
        ORDER BY stops_at LIMIT 1) AS a";
/// Gives these to a node, but for what somebody else is moving, and for those that need a seat and have none: their queue
/// was declared just now.
pub(super) const TAKE_THESE: &str = "\
    WITH picked AS MATERIALIZED (\
        SELECT a.entry, u.run, u.version, r.tenure \
        FROM unnest($3::text[], $4::text[], $5::text[], $6::smallint[], $7::uuid[], $8::bigint[], $9::boolean[]) \
            AS u (queue, lane, workflow, priority, run, version, seated) \
        CROSS JOIN LATERAL (\
            SELECT a.ctid AS entry FROM {s}.ready AS a WHERE a.queue = u.queue AND a.lane = u.lane \
              AND a.workflow = u.workflow AND a.priority = u.priority AND a.run = u.run FOR UPDATE SKIP LOCKED) AS a \
        CROSS JOIN LATERAL (SELECT tenure FROM {s}.run WHERE id = u.run OFFSET 0) AS r \
        WHERE u.seated OR NOT EXISTS (SELECT FROM {s}.queue AS d WHERE d.name = u.queue)), \
    gone AS (\
        DELETE FROM {s}.ready WHERE ctid = ANY (ARRAY (SELECT entry FROM picked))), \
    added AS (\
        INSERT INTO {s}.holding (node, claims, runs, tenures, definitions) \
        SELECT $1, ARRAY[$2::bigint], array_agg(run), CASE WHEN max(tenure) > 1 THEN array_agg(tenure) END, \
               CASE WHEN min(version) = max(version) THEN ARRAY[min(version)] ELSE array_agg(version) END \
        FROM picked HAVING count(*) > 0 RETURNING no) \
    SELECT r.id, r.workflow, r.queue, r.priority, r.created_at, r.timeout, r.input, r.context, r.key, r.tags, \
           r.forked_from, r.trace, r.parent, r.parent_topic, r.queue_key, r.generation, r.definition, r.opened_at, r.recoveries, \
           r.tenure = 1 AND r.has_records IS NULL, (SELECT no FROM added), r.tenure \
    FROM {s}.run AS r WHERE r.id = ANY (ARRAY (SELECT run FROM picked))";
