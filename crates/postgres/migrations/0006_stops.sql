-- From when on a ready run has to stop, whatever its queue is told: 0 for at once, NULL for never.
ALTER TABLE {s}.ready ADD COLUMN stops_at bigint;

CREATE INDEX ready_stops ON {s}.ready (queue, workflow, stops_at, run) WHERE stops_at IS NOT NULL;

-- When a time limit is over that began at a moment; what is too far off becomes the latest there is.
CREATE FUNCTION {s}.over_at(moment bigint, span bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS
    $$ SELECT CASE WHEN span > 9223372036854775807 - moment THEN 9223372036854775807 ELSE moment + span END $$;

UPDATE {s}.ready AS a SET stops_at = CASE WHEN EXISTS (SELECT FROM {s}.inbox AS o WHERE o.run = r.id AND o.topic IN ('!cancel', '!terminate'))
      OR EXISTS (SELECT FROM {s}.step AS o
          WHERE o.run = r.id AND o.generation = r.generation AND o.name = '//verdict')
    THEN 0 ELSE {s}.over_at(r.opened_at, r.timeout) END
FROM {s}.run AS r WHERE r.id = a.run;

-- As before, but that what is made ready says when it has to stop.
CREATE OR REPLACE FUNCTION {s}.write_starts(
    share bigint, node uuid, empty bigint[], holder uuid,
    ids uuid[], workflows text[], queues text[], priorities smallint[], delays bigint[], timeouts bigint[], inputs bytea[],
    contexts bytea[], tag_lists text[], origins uuid[], traces text[], parents uuid[], parent_topics text[],
    queue_keys text[], claims bigint[], definitions bigint[], lines int[], line_queues text[], line_workflows text[],
    OUT time_is bigint, OUT busy_lines int[], OUT list_no bigint
) LANGUAGE plpgsql AS $$
DECLARE
    a_workflow   text     := {s}.sole(workflows);
    a_queue      text     := {s}.sole(queues);
    a_priority   smallint := {s}.sole(priorities);
    a_delay      bigint   := {s}.sole(delays);
    a_timeout    bigint   := {s}.sole(timeouts);
    an_input     bytea    := {s}.sole(inputs);
    a_context    bytea    := {s}.sole(contexts);
    a_tag_list   text     := {s}.sole(tag_lists);
    an_origin    uuid     := {s}.sole(origins);
    a_trace      text     := {s}.sole(traces);
    a_claim      bigint   := {s}.sole(claims);
    a_definition bigint   := {s}.sole(definitions);
    a_line       int      := {s}.sole(lines);
BEGIN
    time_is := {s}.enter(share, node, empty);
    busy_lines := ARRAY (
        SELECT l.no::int FROM unnest(line_queues, line_workflows) WITH ORDINALITY AS l (queue, workflow, no)
        WHERE EXISTS (SELECT FROM {s}.ready AS a
              WHERE a.queue = l.queue AND a.lane = '' AND a.workflow = l.workflow OFFSET 0)
           OR EXISTS (SELECT FROM {s}.queue AS d WHERE d.name = l.queue OFFSET 0));
    INSERT INTO {s}.run (id, workflow, queue, priority, generation, definition, opened_at, recoveries, created_at, timeout,
                         input, context, tags, forked_from, trace, parent, parent_topic, queue_key)
    SELECT u.id, coalesce(u.workflow, a_workflow), coalesce(u.queue, a_queue), coalesce(u.priority, a_priority), 1,
           CASE WHEN coalesce(u.line, a_line) <> ALL (busy_lines) THEN coalesce(u.definition, a_definition) END,
           CASE WHEN coalesce(u.delay, a_delay) > 0 THEN {s}.after(coalesce(u.delay, a_delay)) ELSE time_is END, 0, time_is,
           coalesce(u.timeout, a_timeout), coalesce(u.input, an_input), coalesce(u.context, a_context),
           coalesce(u.tags, a_tag_list), coalesce(u.forked_from, an_origin), coalesce(u.trace, a_trace), u.parent,
           u.parent_topic, u.queue_key
    FROM (SELECT unnest(ids) AS id, unnest(workflows) AS workflow, unnest(queues) AS queue, unnest(priorities) AS priority,
                 unnest(delays) AS delay, unnest(timeouts) AS timeout, unnest(inputs) AS input,
                 unnest(contexts) AS context, unnest(tag_lists) AS tags, unnest(origins) AS forked_from,
                 unnest(traces) AS trace, unnest(parents) AS parent, unnest(parent_topics) AS parent_topic,
                 unnest(queue_keys) AS queue_key, unnest(definitions) AS definition, unnest(lines) AS line) AS u;
    INSERT INTO {s}.ready (queue, lane, workflow, priority, run, stops_at)
    SELECT coalesce(u.queue, a_queue), {s}.lane(u.queue_key), coalesce(u.workflow, a_workflow),
           coalesce(u.priority, a_priority), u.id, {s}.over_at(time_is, coalesce(u.timeout, a_timeout))
    FROM (SELECT unnest(ids) AS id, unnest(workflows) AS workflow, unnest(queues) AS queue, unnest(priorities) AS priority,
                 unnest(delays) AS delay, unnest(timeouts) AS timeout, unnest(claims) AS claim, unnest(lines) AS line,
                 unnest(queue_keys) AS queue_key) AS u
    WHERE coalesce(u.delay, a_delay) = 0
      AND (coalesce(u.claim, a_claim) IS NULL OR coalesce(u.line, a_line) = ANY (busy_lines));
    IF 0 < ANY (delays) THEN
        INSERT INTO {s}.waiting (run, workflow, state, until, topics)
        SELECT u.id, coalesce(u.workflow, a_workflow), 0, {s}.after(coalesce(u.delay, a_delay)), '{}'
        FROM (SELECT unnest(ids) AS id, unnest(workflows) AS workflow, unnest(delays) AS delay) AS u
        WHERE coalesce(u.delay, a_delay) > 0;
    END IF;
    IF holder IS NOT NULL THEN
        INSERT INTO {s}.holding (node, claims, runs)
        SELECT holder, array_agg(coalesce(u.claim, a_claim)), array_agg(u.id)
        FROM (SELECT unnest(ids) AS id, unnest(claims) AS claim, unnest(lines) AS line) AS u
        WHERE coalesce(u.claim, a_claim) IS NOT NULL AND coalesce(u.line, a_line) <> ALL (busy_lines) HAVING count(*) > 0
        RETURNING no INTO list_no;
    END IF;
END $$;

CREATE OR REPLACE FUNCTION {s}.write_start(
    share bigint, node uuid, empty bigint[], holder uuid,
    an_id uuid, a_workflow text, a_queue text, a_priority smallint, a_delay bigint, a_timeout bigint, an_input bytea,
    a_context bytea, a_tag_list text, an_origin uuid, a_trace text, a_parent uuid, a_parent_topic text,
    a_queue_key text, a_claim bigint, a_definition bigint, a_line int, line_queue text, line_workflow text,
    OUT time_is bigint, OUT busy_lines int[], OUT list_no bigint
) LANGUAGE plpgsql AS $$
BEGIN
    time_is := {s}.enter(share, node, empty);
    IF EXISTS (SELECT FROM {s}.ready AS a WHERE a.queue = line_queue AND a.lane = '' AND a.workflow = line_workflow)
       OR EXISTS (SELECT FROM {s}.queue AS d WHERE d.name = line_queue) THEN
        busy_lines := ARRAY[a_line];
    ELSE
        busy_lines := '{}';
    END IF;
    INSERT INTO {s}.run (id, workflow, queue, priority, generation, definition, opened_at, recoveries, created_at, timeout,
                         input, context, tags, forked_from, trace, parent, parent_topic, queue_key)
    VALUES (an_id, a_workflow, a_queue, a_priority, 1, CASE WHEN busy_lines = '{}' THEN a_definition END,
            CASE WHEN a_delay > 0 THEN {s}.after(a_delay) ELSE time_is END, 0, time_is, a_timeout, an_input, a_context,
            a_tag_list, an_origin, a_trace, a_parent, a_parent_topic, a_queue_key);
    IF a_delay > 0 THEN
        INSERT INTO {s}.waiting (run, workflow, state, until, topics)
        VALUES (an_id, a_workflow, 0, {s}.after(a_delay), '{}');
    ELSIF a_claim IS NULL OR busy_lines <> '{}' THEN
        INSERT INTO {s}.ready (queue, lane, workflow, priority, run, stops_at)
        VALUES (a_queue, {s}.lane(a_queue_key), a_workflow, a_priority, an_id, {s}.over_at(time_is, a_timeout));
    ELSE
        INSERT INTO {s}.holding (node, claims, runs) VALUES (holder, ARRAY[a_claim], ARRAY[an_id]) RETURNING no INTO list_no;
    END IF;
END $$;

-- As before, and a run that is ready when it is told to stop says so.
CREATE OR REPLACE FUNCTION {s}.deliver() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    known record;
BEGIN
    -- Whoever may call functions could have this one called by a table of his own, whose columns and their types could be
    -- anything. So this comes before it looks at a row.
    IF tg_relid <> $windlass${s}.posted$windlass$::regclass THEN
        RAISE EXCEPTION 'only what was posted is delivered' USING ERRCODE = '42501';
    END IF;
    DELETE FROM {s}.posted AS p WHERE p.no = new.no;
    IF new.topic = '!queue' THEN
        INSERT INTO {s}.queue (name) VALUES (convert_from(new.body, 'UTF8')) ON CONFLICT DO NOTHING;
        RETURN NULL;
    END IF;
    -- Whoever moves the run is waited for, and waits.
    SELECT r.id, r.workflow, r.queue, r.priority, r.generation, r.queue_key, r.opened_at, r.timeout INTO known
    FROM {s}.run AS r WHERE r.id = new.run FOR UPDATE;
    IF NOT FOUND
        OR EXISTS (SELECT FROM {s}.ended AS e
            WHERE e.workflow = known.workflow AND e.run = new.run AND e.generation = known.generation)
        OR EXISTS (SELECT FROM {s}.inbox AS i WHERE i.run = new.run AND i.topic = new.topic AND i.key = new.key)
        OR EXISTS (SELECT FROM {s}.delivered AS d WHERE d.run = new.run AND d.topic = new.topic AND d.key = new.key)
    THEN
        RETURN NULL;
    END IF;
    INSERT INTO {s}.inbox (run, topic, key, body, at) VALUES (new.run, new.topic, new.key, new.body, {s}.moment());
    -- One that waits for its delay and is cancelled is woken too: it ends before any of its code begins.
    DELETE FROM {s}.waiting AS w
    WHERE w.run = new.run AND (w.topics @> ARRAY[new.topic] OR w.state = 0 AND new.topic = '!cancel');
    IF NOT FOUND AND new.topic IN ('!cancel', '!terminate') THEN
        -- Whoever is just taking it finds its order with it.
        DELETE FROM {s}.ready AS a WHERE a.ctid = ANY (ARRAY (
            SELECT b.ctid FROM {s}.ready AS b WHERE b.queue = known.queue AND b.lane = {s}.lane(known.queue_key)
                AND b.workflow = known.workflow AND b.priority = known.priority AND b.run = new.run
                FOR UPDATE SKIP LOCKED));
    END IF;
    IF FOUND THEN
        INSERT INTO {s}.ready (queue, lane, workflow, priority, run, stops_at)
        VALUES (known.queue, {s}.lane(known.queue_key), known.workflow, known.priority, new.run,
                CASE WHEN EXISTS (SELECT FROM {s}.inbox AS o WHERE o.run = known.id AND o.topic IN ('!cancel', '!terminate'))
                       OR EXISTS (SELECT FROM {s}.step AS o
                           WHERE o.run = known.id AND o.generation = known.generation AND o.name = '//verdict')
                     THEN 0 ELSE {s}.over_at(known.opened_at, known.timeout) END);
    END IF;
    PERFORM {s}.stir();
    RETURN NULL;
END $$;

-- As before, but that what is made ready says when it has to stop.
CREATE OR REPLACE FUNCTION {s}.start(
    workflow    text,
    input       text     DEFAULT 'null',
    key         text     DEFAULT NULL,
    queue       text     DEFAULT 'default',
    priority    integer  DEFAULT 5,
    delay       interval DEFAULT NULL,
    timeout     interval DEFAULT NULL,
    tags        text[]   DEFAULT NULL,
    context     jsonb    DEFAULT NULL,
    key_for     interval DEFAULT NULL,
    or_existing boolean  DEFAULT false,
    trace       text     DEFAULT NULL,
    queue_key   text     DEFAULT NULL,
    if_taken    text     DEFAULT NULL
) RETURNS uuid LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    new_run uuid     := {s}.new_id();
    now     bigint   := {s}.moment();
    line    text     := coalesce(start.queue, 'default');
    rank    integer  := coalesce(start.priority, 5);
    payload bytea    := {s}.payload('input', start.input);
    seed    bytea    := {s}.payload('context', {s}.compact(coalesce(start.context, '{}')::text));
    wait    bigint   := greatest({s}.micros('delay', start.delay), 0);
    most    bigint   := {s}.micros('timeout', start.timeout);
    life    bigint   := {s}.micros('key_for', start.key_for);
    words   text[]   := ARRAY(SELECT unnest(start.tags));
    looks   boolean  := coalesce(start.if_taken IN ('reject', 'replace', 'debounce'), false);
    digest  bytea;
    known   record;
    standing uuid;
BEGIN
    IF coalesce(start.workflow, '') = '' THEN
        RAISE EXCEPTION 'a run needs the name of a workflow' USING ERRCODE = 'WL003';
    ELSIF starts_with(start.workflow, 'windlass.') THEN
        RAISE EXCEPTION '`%` is the engine''s own, and not started by name', start.workflow USING ERRCODE = 'WL003';
    ELSIF line = '' THEN
        RAISE EXCEPTION 'a queue needs a name' USING ERRCODE = 'WL003';
    ELSIF line = 'windlass' THEN
        RAISE EXCEPTION 'the queue `%` is the engine''s own: choose another name', line USING ERRCODE = 'WL003';
    ELSIF rank NOT BETWEEN 0 AND 9 THEN
        RAISE EXCEPTION 'priority % does not exist: 0 is the most urgent, 9 the least', rank USING ERRCODE = 'WL003';
    ELSIF most <= 0 OR life <= 0 THEN
        RAISE EXCEPTION '`timeout` and `key_for` must be longer than nothing' USING ERRCODE = 'WL003';
    ELSIF jsonb_typeof(start.context) <> 'object' THEN
        RAISE EXCEPTION 'the context must be a JSON object, not %', start.context USING ERRCODE = 'WL003';
    ELSIF array_position(words, NULL) IS NOT NULL THEN
        RAISE EXCEPTION 'one of the tags is NULL' USING ERRCODE = 'WL003';
    ELSIF start.if_taken NOT IN ('existing', 'reject', 'replace', 'debounce') THEN
        RAISE EXCEPTION '`if_taken` is `%`, and not one of existing, reject, replace, debounce', start.if_taken
            USING ERRCODE = 'WL003';
    ELSIF start.if_taken IS NOT NULL AND start.key IS NULL THEN
        RAISE EXCEPTION '`if_taken` says what happens when a key is taken, and there is none' USING ERRCODE = 'WL003';
    END IF;
    IF start.key IS NOT NULL THEN
        digest := substring(sha256(convert_to({s}.compact(start.input), 'UTF8')) FROM 1 FOR 16);
        LOOP
            IF looks THEN
                standing := {s}.make_way(start.workflow, start.key, start.if_taken, new_run, digest, payload,
                                         nullif(seed, '{}'), now, wait);
                IF standing IS NOT NULL THEN
                    PERFORM {s}.stir();
                    RETURN standing;
                END IF;
            END IF;
            -- Whoever has just taken the key is waited for: rolled back, it did not.
            INSERT INTO {s}.key AS k (workflow, key, run, digest, until)
            VALUES (start.workflow, start.key, new_run, digest, {s}.later(now, life))
            ON CONFLICT ON CONSTRAINT key_pkey
            DO UPDATE SET run = excluded.run, digest = excluded.digest, until = excluded.until WHERE k.until <= now;
            EXIT WHEN FOUND;
            CONTINUE WHEN looks;
            SELECT k.run, k.digest INTO known FROM {s}.key AS k WHERE k.workflow = start.workflow AND k.key = start.key;
            IF known.digest <> digest AND start.or_existing IS NOT TRUE AND start.if_taken IS NULL THEN
                RAISE EXCEPTION 'the key `%` belongs to run %, which has another input: use another key, or ask for that '
                    'run with `or_existing => true`', start.key, known.run
                    USING ERRCODE = 'WL002', DETAIL = known.run::text;
            END IF;
            RETURN known.run;
        END LOOP;
    END IF;
    INSERT INTO {s}.run (id, workflow, queue, priority, generation, opened_at, recoveries, created_at, timeout, input,
                         context, key, tags, trace, queue_key)
    VALUES (new_run, start.workflow, line, rank, 1, {s}.later(now, wait), 0, now, most, payload,
            nullif(seed, '{}'), start.key, CASE WHEN cardinality(words) > 0 THEN array_to_json(words)::text END, start.trace,
            start.queue_key);
    -- The first key of a queue declares it, when this commits: an engine that declares the same would wait for it else.
    IF start.queue_key IS NOT NULL AND NOT EXISTS (SELECT FROM {s}.queue AS q WHERE q.name = line) THEN
        INSERT INTO {s}.posted (run, topic, body) VALUES (new_run, '!queue', convert_to(line, 'UTF8'));
    END IF;
    INSERT INTO {s}.tag (tag, run) SELECT DISTINCT word, new_run FROM unnest(words) AS u (word);
    IF wait > 0 THEN
        INSERT INTO {s}.waiting (run, workflow, state, until, topics)
        VALUES (new_run, start.workflow, 0, {s}.later(now, wait), '{}');
    ELSE
        INSERT INTO {s}.ready (queue, lane, workflow, priority, run, stops_at)
        VALUES (line, {s}.lane(start.queue_key), start.workflow, rank, new_run, {s}.over_at({s}.later(now, wait), most));
    END IF;
    PERFORM {s}.stir();
    RETURN new_run;
END $$;
