-- What an application calls in a transaction of its own, from any language. Rolled back, it never happened.
--
-- What is meant to be called (start, send, cancel, run_by_key, version) has the rights of whoever made it, so that a role
-- needs no more than to call it. It therefore finds names only where it says, whatever the caller's search_path is, and
-- nobody may call it who was not told so. The rest are its parts.

-- The time of the call: the transaction of an application may have begun long ago.
CREATE FUNCTION {s}.moment() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT {s}.clock() + (extract(epoch FROM clock_timestamp() - transaction_timestamp()) * 1000000)::bigint
$$;

-- So much later than that; what is too far off becomes the latest there is.
CREATE FUNCTION {s}.later(moment bigint, span bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS
    $$ SELECT CASE WHEN span > 9223372036854775807 - moment THEN 9223372036854775807 ELSE moment + span END $$;

-- A span in microseconds, a month of it being 30 days. What is too long becomes the longest there is, and what is
-- negative becomes -1.
CREATE FUNCTION {s}.micros(option text, span interval) RETURNS bigint LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
    IF NOT isfinite(span) THEN
        RAISE EXCEPTION '`%` is infinite: leave it out, or name a span', option USING ERRCODE = 'WL003';
    END IF;
    RETURN greatest(least(extract(epoch FROM span) * 1000000, 9223372036854775807), -1)::bigint;
END $$;

-- JSON without the white space between its words, as programs write it.
CREATE FUNCTION {s}.compact(json text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN json ~ E'[ \t\n\r]'
        THEN regexp_replace(json, E'("(?:[^"\\\\]|\\\\.)*")|[ \t\n\r]+', E'\\1', 'g') ELSE json END
$$;

-- JSON as the store keeps it: its text, which every codec of the engine's has to be able to read.
CREATE FUNCTION {s}.payload(option text, json text) RETURNS bytea LANGUAGE plpgsql STABLE AS $$
DECLARE
    kept bytea  := convert_to(json::json::text, 'UTF8');
    size bigint := octet_length(kept);
    most bigint := pg_size_bytes(coalesce(nullif(current_setting('windlass.payload_limit', true), ''), '4 MB'));
BEGIN
    IF kept IS NULL THEN
        RAISE EXCEPTION '`%` is NULL, which is no JSON: write ''null''', option USING ERRCODE = 'WL003';
    END IF;
    IF size > most THEN
        RAISE EXCEPTION '`%` is % bytes, over the limit of %: keep large data elsewhere and pass a reference, or raise '
            '`windlass.payload_limit`', option, size, most
            USING ERRCODE = 'WL005', DETAIL = concat_ws(' ', option, size, most);
    END IF;
    RETURN kept;
END $$;

-- An id that sorts by time, as all ids of runs do.
CREATE FUNCTION {s}.new_id() RETURNS uuid LANGUAGE sql VOLATILE AS $$
    SELECT encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
        PLACING substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6),
        52, 1), 53, 1), 'hex')::uuid
$$;

-- Tells the processes that listen, when the transaction commits. PostgreSQL lets commits that tell something pass one at
-- a time, so it can be left out.
CREATE FUNCTION {s}.stir() RETURNS void LANGUAGE sql VOLATILE AS
    $$ SELECT pg_notify({channel}, 'sql') WHERE current_setting('windlass.notify', true) IS DISTINCT FROM 'off' $$;

-- What the transaction of an application says to runs, and which queues it declares. It is delivered when that commits, and the row deleted: so a run is
-- held up by nobody who takes his time, and others never see a row.
CREATE TABLE {s}.posted (
    no    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run   uuid   NOT NULL,
    topic text   COLLATE "C" NOT NULL,
    key   text   COLLATE "C",
    body  bytea  NOT NULL
);

-- Puts a message into the inbox of its run, and makes the run ready if it waits for that. Nothing comes of a message whose
-- key is known, or whose run has ended meanwhile. What a start says of its queue goes there.
CREATE FUNCTION {s}.deliver() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
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
    SELECT r.workflow, r.queue, r.priority, r.generation, r.queue_key INTO known FROM {s}.run AS r WHERE r.id = new.run FOR UPDATE;
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
    IF FOUND THEN
        INSERT INTO {s}.ready (queue, lane, workflow, priority, run)
        VALUES (known.queue, {s}.lane(known.queue_key), known.workflow, known.priority, new.run);
    END IF;
    PERFORM {s}.stir();
    RETURN NULL;
END $$;

CREATE CONSTRAINT TRIGGER deliver AFTER INSERT ON {s}.posted DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION {s}.deliver();

-- Answers whether a run can be told something, or was told it under the same key.
CREATE FUNCTION {s}.post(target uuid, topic text, body bytea, key text) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF EXISTS (SELECT FROM {s}.run AS r WHERE r.id = target AND starts_with(r.workflow, 'windlass.')) THEN
        RAISE EXCEPTION 'run % is the engine''s own: steer the schedule, trigger or batch that it keeps', target
            USING ERRCODE = 'WL003';
    END IF;
    IF EXISTS (SELECT FROM {s}.run AS r WHERE r.id = target AND NOT EXISTS (SELECT FROM {s}.ended AS e
        WHERE e.workflow = r.workflow AND e.run = r.id AND e.generation = r.generation)) THEN
        INSERT INTO {s}.posted (run, topic, key, body) VALUES (target, post.topic, post.key, post.body);
        RETURN true;
    END IF;
    RETURN EXISTS (SELECT FROM {s}.delivered AS d
        WHERE d.run = target AND d.topic = post.topic AND d.key = post.key);
END $$;

-- Does to the run that has a key what a start says. Answers that run if it will do; else the key is free. A run that has begun
-- is not locked: its engine would wait for whoever calls this. One that has not begun, and is put off, is: until the
-- transaction is over it does not begin, and whoever cancels it or sends it something waits, and with him what his engine
-- writes together with that. So whoever debounces in SQL should commit soon.
CREATE FUNCTION {s}.make_way(
    of_workflow text, of_key text, if_taken text, new_run uuid, new_digest bytea, new_input bytea, new_context bytea,
    now bigint, wait bigint
) RETURNS uuid LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    known   record;
    old     record;
    is_live boolean;
BEGIN
    SELECT k.run, k.until INTO known FROM {s}.key AS k
    WHERE k.workflow = of_workflow AND k.key = of_key AND (k.until IS NULL OR k.until > now) FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    SELECT r.queue, r.queue_key, r.priority, r.definition, r.generation INTO old FROM {s}.run AS r WHERE r.id = known.run;
    is_live := FOUND AND NOT EXISTS (SELECT FROM {s}.ended AS e
        WHERE e.workflow = of_workflow AND e.run = known.run AND e.generation = old.generation);
    IF if_taken = 'reject' AND (is_live OR known.until IS NOT NULL) THEN
        RAISE EXCEPTION 'the key `%` belongs to run %', of_key, known.run USING ERRCODE = 'WL002', DETAIL = known.run::text;
    ELSIF if_taken = 'replace' AND is_live THEN
        PERFORM {s}.post(known.run, '!cancel', convert_to('replaced by run ' || new_run, 'UTF8'), NULL);
    ELSIF if_taken = 'debounce' AND is_live AND old.definition IS NULL THEN
        -- First the run, then its place, as everybody does.
        SELECT r.definition INTO old.definition FROM {s}.run AS r WHERE r.id = known.run FOR UPDATE;
        -- The same transaction may have cancelled it.
        IF old.definition IS NULL AND NOT EXISTS (
            SELECT FROM {s}.inbox AS i WHERE i.run = known.run AND i.topic IN ('!cancel', '!terminate')
            UNION ALL
            SELECT FROM {s}.posted AS p WHERE p.run = known.run AND p.topic IN ('!cancel', '!terminate'))
        THEN
            DELETE FROM {s}.waiting AS w WHERE w.run = known.run AND w.state = 0;
            IF NOT FOUND THEN
                DELETE FROM {s}.ready AS a WHERE a.queue = old.queue AND a.lane = {s}.lane(old.queue_key)
                    AND a.workflow = of_workflow AND a.priority = old.priority AND a.run = known.run;
            END IF;
            IF FOUND THEN
                UPDATE {s}.run AS r SET input = new_input, context = new_context, opened_at = {s}.later(now, wait)
                WHERE r.id = known.run;
                UPDATE {s}.key AS k SET digest = new_digest WHERE k.workflow = of_workflow AND k.key = of_key;
                INSERT INTO {s}.waiting (run, workflow, state, until, topics)
                VALUES (known.run, of_workflow, 0, {s}.later(now, wait), '{}');
                RETURN known.run;
            END IF;
        END IF;
    END IF;
    DELETE FROM {s}.key AS k WHERE k.workflow = of_workflow AND k.key = of_key;
    RETURN NULL;
END $$;

-- Starts a run, and answers its id. The same key with the same input answers the run that has it, unless `if_taken` says
-- otherwise. An option that is NULL is as if it had been left out.
CREATE FUNCTION {s}.start(
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
        INSERT INTO {s}.ready (queue, lane, workflow, priority, run)
        VALUES (line, {s}.lane(start.queue_key), start.workflow, rank, new_run);
    END IF;
    PERFORM {s}.stir();
    RETURN new_run;
END $$;

-- The same for JSON that has a type. A literal that has none is text, so that nobody has to say which is meant.
CREATE FUNCTION {s}.start(
    workflow    text,
    input       json,
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
) RETURNS uuid LANGUAGE sql VOLATILE
RETURN {s}.start(workflow, input::text, key, queue, priority, delay, timeout, tags, context, key_for, or_existing, trace,
                 queue_key, if_taken);

CREATE FUNCTION {s}.start(
    workflow    text,
    input       jsonb,
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
) RETURNS uuid LANGUAGE sql VOLATILE
RETURN {s}.start(workflow, input::text, key, queue, priority, delay, timeout, tags, context, key_for, or_existing, trace,
                 queue_key, if_taken);

-- Sends a run an event. Answers whether it can get there, or did under the same key before: false when the run has ended,
-- or is not known.
CREATE FUNCTION {s}.send(run uuid, topic text, payload text DEFAULT 'null', key text DEFAULT NULL)
RETURNS boolean LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF coalesce(topic, '') = '' THEN
        RAISE EXCEPTION 'an event needs the name of a topic' USING ERRCODE = 'WL003';
    ELSIF starts_with(topic, '!') THEN
        RAISE EXCEPTION 'the topic `%` is the engine''s own: choose one that does not begin with `!`', topic
            USING ERRCODE = 'WL003';
    END IF;
    RETURN {s}.post(send.run, send.topic, {s}.payload('payload', send.payload), send.key);
END $$;

CREATE FUNCTION {s}.send(run uuid, topic text, payload json, key text DEFAULT NULL) RETURNS boolean LANGUAGE sql VOLATILE
RETURN {s}.send(run, topic, payload::text, key);

CREATE FUNCTION {s}.send(run uuid, topic text, payload jsonb, key text DEFAULT NULL) RETURNS boolean LANGUAGE sql VOLATILE
RETURN {s}.send(run, topic, payload::text, key);

-- Asks a run to stop. Answers whether it can still be asked: false when it has ended, or is not known.
CREATE FUNCTION {s}.cancel(run uuid, reason text DEFAULT '')
RETURNS boolean LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
    RETURN {s}.post(cancel.run, '!cancel', convert_to(coalesce(cancel.reason, ''), 'UTF8'), NULL);
END $$;

-- The run that was started under a key; NULL when there is none.
CREATE FUNCTION {s}.run_by_key(workflow text, key text)
RETURNS uuid LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
    RETURN (SELECT k.run FROM {s}.key AS k
        WHERE k.workflow = run_by_key.workflow AND k.key = run_by_key.key AND (k.until IS NULL OR k.until > {s}.moment()));
END $$;

-- The version of the schema, and so of these functions.
CREATE FUNCTION {s}.version()
RETURNS integer LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT max(m.version) FROM {s}.migration AS m);
END $$;

REVOKE ALL ON FUNCTION
    {s}.start(text, text, text, text, integer, interval, interval, text[], jsonb, interval, boolean, text,
              text, text),
    {s}.send(uuid, text, text, text), {s}.cancel(uuid, text), {s}.run_by_key(text, text), {s}.version()
FROM PUBLIC;
