-- What an application calls in a transaction of its own, from any language. Rolled back, it never happened.

-- An id that sorts by time, as all ids of runs do.
CREATE FUNCTION {s}.new_id() RETURNS uuid LANGUAGE sql VOLATILE AS $$
    SELECT encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
        PLACING substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6),
        52, 1), 53, 1), 'hex')::uuid
$$;

-- Tells the processes that listen, when the transaction commits.
CREATE FUNCTION {s}.stir() RETURNS void LANGUAGE sql VOLATILE AS
    $$ SELECT pg_notify({channel}, 'sql') $$;

-- Starts a run, and answers its id. The same key with the same input answers the run that has it.
CREATE FUNCTION {s}.start(
    workflow text,
    input    json     DEFAULT 'null',
    key      text     DEFAULT NULL,
    queue    text     DEFAULT 'default',
    priority integer  DEFAULT 5,
    delay    interval DEFAULT '0',
    timeout  interval DEFAULT NULL,
    tags     text[]   DEFAULT '{}'
) RETURNS uuid LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    new_run uuid   := {s}.new_id();
    payload bytea  := convert_to(input::text, 'UTF8');
    hash    bytea  := substring(sha256(convert_to(input::text, 'UTF8')) FROM 1 FOR 16);
    wait    bigint := greatest(extract(epoch FROM delay) * 1000000, 0)::bigint;
    known   record;
BEGIN
    IF workflow IS NULL OR workflow = '' THEN
        RAISE EXCEPTION 'a run needs the name of a workflow' USING ERRCODE = 'WL003';
    END IF;
    IF priority NOT BETWEEN 0 AND 9 THEN
        RAISE EXCEPTION 'priority % does not exist: 0 is the most urgent, 9 the least', priority USING ERRCODE = 'WL003';
    END IF;
    IF input IS NULL THEN
        RAISE EXCEPTION 'the input is NULL, which is no JSON: write ''null''' USING ERRCODE = 'WL003';
    END IF;
    IF start.key IS NOT NULL THEN
        INSERT INTO {s}.key AS k (workflow, key, run, digest, until) VALUES (start.workflow, start.key, new_run, hash, NULL)
        ON CONFLICT ON CONSTRAINT key_pkey
        DO UPDATE SET run = excluded.run, digest = excluded.digest, until = excluded.until WHERE k.until <= {s}.clock();
        IF NOT FOUND THEN
            SELECT k.run, k.digest INTO known FROM {s}.key AS k WHERE k.workflow = start.workflow AND k.key = start.key;
            IF known.digest <> hash THEN
                RAISE EXCEPTION 'the key `%` belongs to run %, which has another input', start.key, known.run
                    USING ERRCODE = 'WL002';
            END IF;
            RETURN known.run;
        END IF;
    END IF;
    INSERT INTO {s}.run (id, workflow, queue, priority, generation, opened_at, recoveries, created_at, timeout, input, key, tags)
    VALUES (new_run, start.workflow, start.queue, start.priority, 1, {s}.after(wait), 0, {s}.clock(),
            (extract(epoch FROM start.timeout) * 1000000)::bigint, payload, start.key,
            CASE WHEN cardinality(start.tags) > 0 THEN array_to_json(start.tags)::text END);
    INSERT INTO {s}.tag (tag, run) SELECT DISTINCT tag, new_run FROM unnest(start.tags) AS u (tag);
    IF wait > 0 THEN
        INSERT INTO {s}.waiting (run, workflow, state, until, topics) VALUES (new_run, start.workflow, 0, {s}.after(wait), '{}');
    ELSE
        INSERT INTO {s}.ready (queue, workflow, priority, run) VALUES (start.queue, start.workflow, start.priority, new_run);
    END IF;
    PERFORM {s}.stir();
    RETURN new_run;
END $$;

-- Asks a run to stop. Answers whether it could still be asked: false when it has ended, or is not known.
CREATE FUNCTION {s}.cancel(run uuid, reason text DEFAULT '') RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    known record;
BEGIN
    SELECT r.* INTO known FROM {s}.run AS r WHERE r.id = cancel.run FOR UPDATE;
    IF NOT FOUND OR EXISTS (SELECT FROM {s}.ended AS e
        WHERE e.workflow = known.workflow AND e.run = known.id AND e.generation = known.generation) THEN
        RETURN false;
    END IF;
    INSERT INTO {s}.inbox (run, topic, body, at)
    VALUES (cancel.run, '!cancel', convert_to(coalesce(cancel.reason, ''), 'UTF8'), {s}.clock());
    -- One that waits for its delay is woken too: it ends before any of its code begins.
    DELETE FROM {s}.waiting AS w WHERE w.run = cancel.run AND (w.state = 0 OR w.topics @> ARRAY['!cancel']);
    IF FOUND THEN
        INSERT INTO {s}.ready (queue, workflow, priority, run)
        VALUES (known.queue, known.workflow, known.priority, known.id);
    END IF;
    PERFORM {s}.stir();
    RETURN true;
END $$;
