//! What a batch says to the server.
//!
//! Where much is written, lists are spread out by the select itself (`SELECT unnest(…), unnest(…)`): from a function in the
//! `FROM` the server would first gather all of them.

/// What is known of the holder of each run.
pub(super) const FACTS: &str = "\
    SELECT coalesce(r.tenure = u.tenure AND e.run IS NULL, false), coalesce(e.claim = u.claim, false), e.at \
    FROM unnest($1::uuid[], $2::bigint[], $3::bigint[]) WITH ORDINALITY AS u (run, claim, tenure, no) \
    LEFT JOIN LATERAL (SELECT * FROM {s}.run WHERE id = u.run OFFSET 0) AS r ON true \
    LEFT JOIN LATERAL (\
        SELECT * FROM {s}.ended WHERE workflow = r.workflow AND run = r.id AND generation = r.generation OFFSET 0) AS e ON true \
    ORDER BY u.no";
/// Records of runs that the node holds beyond doubt, and one record. Of what `write_…` does,
/// [`0001_tables.sql`](../../migrations/0001_tables.sql) says more; each is a whole transaction or a part of one.
pub(super) const WRITE_STEPS: &str =
    "SELECT {s}.write_steps($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)";
pub(super) const WRITE_STEP: &str =
    "SELECT {s}.write_step($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)";
/// Ends of runs that the node holds beyond doubt, and one end.
pub(super) const WRITE_ENDS: &str =
    "SELECT {s}.write_ends($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)";
pub(super) const WRITE_END: &str =
    "SELECT {s}.write_end($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)";
/// Runs without keys that begin, and one that does.
pub(super) const WRITE_STARTS: &str = "\
    SELECT time_is, busy_lines, list_no FROM {s}.write_starts($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, \
        $15, $16, $17, $18, $19, $20, $21, $22, $23)";
pub(super) const WRITE_START: &str = "\
    SELECT time_is, busy_lines, list_no FROM {s}.write_start($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, \
        $15, $16, $17, $18, $19, $20, $21, $22, $23)";
/// What was published goes in the order of keys, as everybody locks it. That comes before the inbox and the saved values go, so that
/// none comes after.
pub(super) const CHECKED_SPREAD: &str = "\
    WITH published AS MATERIALIZED (\
        SELECT run, step, attempt FROM {s}.spread WHERE run = ANY($1) ORDER BY run, step, attempt FOR UPDATE) \
    DELETE FROM {s}.spread AS s USING published AS p \
    WHERE s.run = p.run AND s.step = p.step AND s.attempt = p.attempt";
pub(super) const CHECKED_SAVED: &str = "DELETE FROM {s}.saved WHERE run = ANY($1)";
/// Records of runs that the node holds. One that is there already stays as it is.
pub(super) const STEPS: &str = "\
    INSERT INTO {s}.step (run, generation, name, attempt, started_in, epoch, kind, started_at, ended_at, output, detail) \
    SELECT u.run, u.generation, u.name, u.attempt, u.started_in, u.epoch, u.kind, u.started_at, u.ended_at, u.output, \
           u.detail \
    FROM unnest($1::uuid[], $2::bigint[], $3::int[], $4::text[], $5::int[], $6::int[], $7::int[], $8::smallint[], \
                $9::bigint[], $10::bigint[], $11::bytea[], $12::bytea[]) WITH ORDINALITY \
        AS u (run, tenure, generation, name, attempt, started_in, epoch, kind, started_at, ended_at, output, detail, no) \
    CROSS JOIN LATERAL (SELECT * FROM {s}.run WHERE id = u.run OFFSET 0) AS r \
    WHERE r.tenure = u.tenure AND NOT EXISTS (SELECT FROM {s}.ended AS e \
        WHERE e.workflow = r.workflow AND e.run = r.id AND e.generation = r.generation OFFSET 0) \
    ORDER BY u.no ON CONFLICT DO NOTHING";
pub(super) const ENDS: &str = "\
    WITH mine AS MATERIALIZED (\
        SELECT r.id FROM unnest($1::uuid[], $3::bigint[]) AS u (run, tenure) \
        CROSS JOIN LATERAL (SELECT * FROM {s}.run WHERE id = u.run OFFSET 0) AS r \
        WHERE r.tenure = u.tenure AND NOT EXISTS (SELECT FROM {s}.ended AS e \
            WHERE e.workflow = r.workflow AND e.run = r.id AND e.generation = r.generation OFFSET 0)), \
    freed AS (DELETE FROM {s}.slot WHERE run = ANY (ARRAY (SELECT id FROM mine))) \
    INSERT INTO {s}.ended (workflow, run, generation, state, at, claim, definition, output, failure) \
    SELECT r.workflow, r.id, r.generation, u.state, (SELECT {s}.clock()), u.claim, \
           CASE WHEN r.definition IS NULL THEN u.definition END, u.output, u.failure \
    FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::smallint[], $6::bytea[], $7::bytea[]) \
        AS u (run, claim, tenure, definition, state, output, failure) \
    CROSS JOIN LATERAL (SELECT * FROM {s}.run WHERE id = u.run OFFSET 0) AS r \
    WHERE r.tenure = u.tenure AND NOT EXISTS (SELECT FROM {s}.ended AS e \
        WHERE e.workflow = r.workflow AND e.run = r.id AND e.generation = r.generation OFFSET 0)";
/// What goes with an end that this claim has written.
pub(super) const CLEAR_INBOX: &str = "\
    WITH mine AS MATERIALIZED (\
        SELECT u.run FROM unnest($1::uuid[], $2::bigint[]) AS u (run, claim) \
        CROSS JOIN LATERAL (SELECT * FROM {s}.run WHERE id = u.run OFFSET 0) AS r \
        CROSS JOIN LATERAL (SELECT FROM {s}.ended \
            WHERE workflow = r.workflow AND run = r.id AND generation = r.generation AND claim = u.claim OFFSET 0) AS e), \
    published AS MATERIALIZED (\
        SELECT run, step, attempt FROM {s}.spread WHERE run = ANY (ARRAY (SELECT run FROM mine)) \
        ORDER BY run, step, attempt FOR UPDATE), \
    withdrawn AS (\
        DELETE FROM {s}.spread AS s USING published AS p \
        WHERE s.run = p.run AND s.step = p.step AND s.attempt = p.attempt) \
    DELETE FROM {s}.inbox WHERE run = ANY (ARRAY (SELECT run FROM mine))";
pub(super) const CLEAR_SAVED: &str = "\
    DELETE FROM {s}.saved WHERE run = ANY (ARRAY (\
        SELECT u.run FROM unnest($1::uuid[], $2::bigint[]) AS u (run, claim) \
        CROSS JOIN LATERAL (SELECT * FROM {s}.run WHERE id = u.run OFFSET 0) AS r \
        CROSS JOIN LATERAL (SELECT FROM {s}.ended \
            WHERE workflow = r.workflow AND run = r.id AND generation = r.generation AND claim = u.claim OFFSET 0) AS e))";
/// Keys of runs that begin. Of several with one key the first gets it, unless it stands for a run already; one that has
/// lapsed passes on. They are taken in their own order, so that two batches never wait for each other.
pub(super) const TAKE_KEYS: &str = "\
    INSERT INTO {s}.key AS k (workflow, key, run, digest, until) \
    SELECT DISTINCT ON (u.workflow, u.key) u.workflow, u.key, u.run, u.digest, \
           CASE WHEN u.life IS NOT NULL THEN {s}.after(u.life) END \
    FROM unnest($1::uuid[], $2::text[], $3::text[], $4::bytea[], $5::bigint[]) WITH ORDINALITY \
        AS u (run, workflow, key, digest, life, no) \
    WHERE NOT EXISTS (SELECT FROM {s}.run AS r WHERE r.id = u.run OFFSET 0) \
    ORDER BY u.workflow, u.key, u.no \
    ON CONFLICT (workflow, key) DO UPDATE SET run = excluded.run, digest = excluded.digest, until = excluded.until \
    WHERE k.until <= {s}.clock()";
/// Whom the keys belong to now, and whether a run of that id was there before.
pub(super) const KEYS: &str = "\
    SELECT k.run, k.digest, EXISTS (SELECT FROM {s}.run AS r WHERE r.id = u.run OFFSET 0) \
    FROM unnest($1::uuid[], $2::text[], $3::text[]) WITH ORDINALITY AS u (run, workflow, key, no) \
    LEFT JOIN LATERAL (SELECT * FROM {s}.key WHERE workflow = u.workflow AND key = u.key OFFSET 0) AS k ON true \
    ORDER BY u.no";
/// Queues in which runs that begin have keys. A queue that is declared has no run that is held from its start.
pub(super) const DECLARE: &str = "\
    INSERT INTO {s}.queue (name) \
    SELECT DISTINCT u.queue FROM unnest($1::text[], $2::uuid[], $3::text[], $4::text[]) AS u (queue, run, workflow, key) \
    WHERE NOT EXISTS (SELECT FROM {s}.run AS r WHERE r.id = u.run OFFSET 0) AND (u.key IS NULL OR EXISTS (\
        SELECT FROM {s}.key AS k WHERE k.workflow = u.workflow AND k.key = u.key AND k.run = u.run OFFSET 0)) \
    ORDER BY u.queue ON CONFLICT DO NOTHING";
/// Runs that begin. One that is wanted by the node is its own if nothing of the same line is ready.
pub(super) const STARTS: &str = "\
    WITH new AS MATERIALIZED (\
        SELECT u.*, u.claim IS NOT NULL AND u.delay = 0 AND NOT EXISTS (\
            SELECT FROM {s}.ready AS a WHERE a.queue = u.queue AND a.lane = '' AND a.workflow = u.workflow OFFSET 0) \
            AND NOT EXISTS (SELECT FROM {s}.queue AS d WHERE d.name = u.queue OFFSET 0) AS own \
        FROM unnest($1::uuid[], $2::text[], $3::text[], $4::smallint[], $5::bigint[], $6::bigint[], $7::bytea[], \
                    $8::bytea[], $9::text[], $10::text[], $11::uuid[], $12::text[], $13::bigint[], $14::bigint[], \
                    $16::uuid[], $17::text[], $18::text[]) \
            AS u (id, workflow, queue, priority, delay, timeout, input, context, key, tags, forked_from, trace, \
                  claim, definition, parent, parent_topic, queue_key) \
        WHERE u.key IS NULL OR (\
            EXISTS (SELECT FROM {s}.key AS k WHERE k.workflow = u.workflow AND k.key = u.key AND k.run = u.id OFFSET 0) \
            AND NOT EXISTS (SELECT FROM {s}.run AS r WHERE r.id = u.id OFFSET 0))), \
    started AS (\
        INSERT INTO {s}.run (id, workflow, queue, priority, generation, definition, opened_at, recoveries, \
                             created_at, timeout, input, context, key, tags, forked_from, trace, parent, parent_topic, \
                             queue_key) \
        SELECT id, workflow, queue, priority, 1, CASE WHEN own THEN definition END, {s}.after(delay), 0, \
               (SELECT {s}.clock()), timeout, input, context, key, tags, forked_from, trace, parent, parent_topic, \
               queue_key \
        FROM new), \
    ready AS (\
        INSERT INTO {s}.ready (queue, lane, workflow, priority, run, stops_at) \
        SELECT queue, {s}.lane(queue_key), workflow, priority, id, {s}.after(timeout) FROM new \
        WHERE delay = 0 AND NOT own), \
    waiting AS (\
        INSERT INTO {s}.waiting (run, workflow, state, until, topics) \
        SELECT id, workflow, 0, {s}.after(delay), '{}' FROM new WHERE delay > 0), \
    holding AS (\
        INSERT INTO {s}.holding (node, claims, runs) \
        SELECT $15, array_agg(claim), array_agg(id) FROM new WHERE own HAVING count(*) > 0 \
        RETURNING no) \
    SELECT id, CASE WHEN own THEN claim END, (SELECT no FROM holding) FROM new";
pub(super) const TAGS: &str = "\
    INSERT INTO {s}.tag (tag, run) \
    SELECT u.tag, u.run FROM unnest($1::text[], $2::uuid[]) AS u (tag, run) \
    WHERE EXISTS (SELECT FROM {s}.run AS r WHERE r.id = u.run OFFSET 0) \
    ON CONFLICT DO NOTHING";
/// Records that runs begin with.
pub(super) const GIVEN: &str = "\
    WITH noted AS (UPDATE {s}.run SET has_records = true WHERE id = ANY($1)) \
    INSERT INTO {s}.step (run, generation, name, attempt, started_in, epoch, kind, started_at, ended_at, output, detail) \
    SELECT u.run, u.generation, u.name, u.attempt, u.started_in, u.epoch, u.kind, u.started_at, u.ended_at, u.output, \
           u.detail \
    FROM unnest($1::uuid[], $2::int[], $3::text[], $4::int[], $5::int[], $6::int[], $7::smallint[], $8::bigint[], \
                $9::bigint[], $10::bytea[], $11::bytea[]) WITH ORDINALITY \
        AS u (run, generation, name, attempt, started_in, epoch, kind, started_at, ended_at, output, detail, no) \
    WHERE EXISTS (SELECT FROM {s}.run AS r WHERE r.id = u.run OFFSET 0) ORDER BY u.no ON CONFLICT DO NOTHING";
pub(super) const FORGET: &str = "DELETE FROM {s}.holding WHERE no = ANY($1)";
