-- Every name is qualified with the schema, which is written in place of {s}.

-- The time of the transaction, in microseconds since 1970: all that a batch writes carries the same.
CREATE FUNCTION {s}.clock() RETURNS bigint LANGUAGE sql STABLE AS
    $$ SELECT (extract(epoch FROM transaction_timestamp()) * 1000000)::bigint $$;

-- So much later than now; what is too far off becomes the latest there is.
CREATE FUNCTION {s}.after(span bigint) RETURNS bigint LANGUAGE sql STABLE AS
    $$ SELECT CASE WHEN span > 9223372036854775807 - {s}.clock() THEN 9223372036854775807 ELSE {s}.clock() + span END $$;

-- One row per boot of a process.
CREATE TABLE {s}.node (
    id           uuid    PRIMARY KEY,
    name         text,
    pid          bigint  NOT NULL,
    host         text    NOT NULL,
    version      text    NOT NULL,
    queues       text[]  NOT NULL,
    started_at   bigint  NOT NULL,
    heartbeat_at bigint  NOT NULL,
    stale_after  bigint  NOT NULL,
    dead         boolean NOT NULL DEFAULT false,
    running      bigint  NOT NULL DEFAULT 0,
    -- How many of each queue it ended of late, as JSON.
    ended        text    NOT NULL DEFAULT '{}'
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Refuses a node that was declared dead or is not known. It raises, so that a batch that is under way fails whole.
CREATE FUNCTION {s}.fence(node uuid) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM {s}.node AS n WHERE n.id = node AND NOT n.dead) THEN
        RAISE EXCEPTION 'node % was declared dead', node USING ERRCODE = 'WL001';
    END IF;
    RETURN {s}.clock();
END $$;

CREATE TABLE {s}.definition (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    workflow text   COLLATE "C" NOT NULL,
    version  text   COLLATE "C" NOT NULL,
    body     bytea  NOT NULL,
    UNIQUE (workflow, version)
);

-- A run: how it was started, and what it carries from one place to the next. It stands in exactly one place: ended
-- when it has a row in `ended` for its generation, else waiting when it has one in `waiting`, else ready when it has one
-- in `ready`, else held. No index names a column that changes.
--
-- `tenure` counts how often it was given up by whoever held it, so that each number is held once: a claim deletes from
-- `ready` and notes the number in `holding`, and changes nothing here. What a run carries is written when it is given up.
CREATE TABLE {s}.run (
    id          uuid     PRIMARY KEY,
    workflow    text     COLLATE "C" NOT NULL,
    queue       text     COLLATE "C" NOT NULL,
    priority    smallint NOT NULL,
    generation  integer  NOT NULL,
    tenure      bigint   NOT NULL DEFAULT 1,
    -- The version that has it. Of one that was claimed once and not given up since, `holding` or `ended` says it.
    definition  bigint,
    opened_at   bigint   NOT NULL,
    recoveries  integer  NOT NULL,
    created_at  bigint   NOT NULL,
    timeout     bigint,
    input       bytea    NOT NULL,
    context     bytea,
    key         text     COLLATE "C",
    tags        text,
    forked_from uuid,
    trace       text,
    -- True when it began with records.
    has_records boolean,
    -- What it is counted by within its queue.
    queue_key   text     COLLATE "C"
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

CREATE INDEX run_key ON {s}.run (key, id) WHERE key IS NOT NULL;

-- Empty, or `=` and the key of a run within its queue.
CREATE FUNCTION {s}.lane(queue_key text) RETURNS text LANGUAGE sql IMMUTABLE AS
    $$ SELECT coalesce('=' || queue_key, '') $$;

CREATE TABLE {s}.ready (
    queue    text     COLLATE "C" NOT NULL,
    lane     text     COLLATE "C" NOT NULL,
    workflow text     COLLATE "C" NOT NULL,
    priority smallint NOT NULL,
    run      uuid     NOT NULL,
    -- Whether it is not looked for until its key may have one more begin.
    resting  boolean  NOT NULL DEFAULT false,
    PRIMARY KEY (queue, lane, workflow, priority, run)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

-- The keys that have something for a workflow, whoever else has how many others.
CREATE INDEX ready_lanes ON {s}.ready (queue, workflow, lane) WHERE lane <> '' AND NOT resting;

-- Queues that were declared. Whoever takes from one locks its row, and passes over one that is locked. `cursor` is the lane
-- that had the last turn, and `counted` says whether the runs that were held before it was declared have their slots. One that was
-- removed has no limits, and is not shown.
CREATE TABLE {s}.queue (
    name        text    COLLATE "C" PRIMARY KEY,
    concurrency bigint,
    per_node    bigint,
    per_key     bigint,
    rate_count  bigint,
    rate_per    bigint,
    key_count   bigint,
    key_per     bigint,
    ageing      bigint,
    hold        boolean NOT NULL DEFAULT false,
    paused      boolean NOT NULL DEFAULT false,
    cursor      text    COLLATE "C",
    counted     boolean NOT NULL DEFAULT false,
    removed     boolean NOT NULL DEFAULT false
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- What of a declared queue is under way. A slot goes with the end of its run, or when that is given up. With a queue that
-- holds, it stays until the end, and `node` is NULL while nobody holds the run.
CREATE TABLE {s}.slot (
    queue text    COLLATE "C" NOT NULL,
    no    integer NOT NULL,
    lane  text    COLLATE "C" NOT NULL,
    run   uuid    NOT NULL UNIQUE,
    node  uuid,
    PRIMARY KEY (queue, no)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- How many runs of a queue with a rate were taken when, as far back as the rate looks: of all its lanes together where `lane`
-- is empty, and of each key.
CREATE TABLE {s}.begun (
    queue text   COLLATE "C" NOT NULL,
    lane  text   COLLATE "C" NOT NULL,
    at    bigint NOT NULL,
    count bigint NOT NULL,
    PRIMARY KEY (queue, lane, at)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Keys that are seen once are forgotten like others.
CREATE INDEX begun_keys ON {s}.begun (queue, at) WHERE lane <> '';

-- Keys of which some rows rest, by workflow: those in `ready`, or in `spread` if they are `tasks`. The rate of the key lets none
-- be taken before `until`; where that is zero, it may.
CREATE TABLE {s}.resting (
    queue    text    COLLATE "C" NOT NULL,
    tasks    boolean NOT NULL,
    workflow text    COLLATE "C" NOT NULL,
    lane     text    COLLATE "C" NOT NULL,
    until    bigint  NOT NULL,
    PRIMARY KEY (queue, tasks, workflow, lane)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE INDEX resting_until ON {s}.resting (queue, tasks, workflow, until, lane);

CREATE TABLE {s}.waiting (
    run        uuid     PRIMARY KEY,
    workflow   text     COLLATE "C" NOT NULL,
    state      smallint NOT NULL,
    until      bigint,
    topics     text[]   NOT NULL,
    reason     text,
    blocked_by bigint
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX waiting_due ON {s}.waiting (until) WHERE until IS NOT NULL;
-- Of blocked runs alone: an index in which `run` comes last would be taken for one that finds runs.
CREATE INDEX waiting_blocked ON {s}.waiting (workflow) WHERE state = 4;

-- Who holds runs: those that a node got in one transaction, each with its claim, its tenure and its version, as `listed`
-- reads them. It holds those of them whose tenure is still the run's; a row is deleted when none is left.
CREATE TABLE {s}.holding (
    no          bigint    GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    node        uuid      NOT NULL,
    claims      bigint[]  NOT NULL,
    runs        uuid[]    NOT NULL,
    tenures     bigint[],
    definitions bigint[]
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX holding_node ON {s}.holding (node);

-- One by one. A list of one claim or version stands for all; without tenures it is the first, and without versions each
-- run says its own.
CREATE VIEW {s}.listed AS
SELECT h.no, h.node, h.claims, h.runs, u.run, coalesce(u.claim, h.claims[1]) AS claim, coalesce(u.tenure, 1) AS tenure,
       coalesce(u.definition, h.definitions[1]) AS definition
FROM {s}.holding AS h
CROSS JOIN LATERAL unnest(h.runs, h.claims, h.tenures, h.definitions) AS u (run, claim, tenure, definition);

-- Ids are not worth compressing.
ALTER TABLE {s}.holding ALTER COLUMN claims SET STORAGE EXTERNAL, ALTER COLUMN runs SET STORAGE EXTERNAL,
    ALTER COLUMN tenures SET STORAGE EXTERNAL, ALTER COLUMN definitions SET STORAGE EXTERNAL;

-- The ends of runs, one for each generation. `claim` wrote it; NULL when nobody held the run. `definition` is the version
-- that had it, if the run does not say. A last step that only completed is kept in the row of the end; without an output
-- of its own it has the run's.
CREATE TABLE {s}.ended (
    workflow        text     COLLATE "C" NOT NULL,
    run             uuid     NOT NULL,
    generation      integer  NOT NULL,
    state           smallint NOT NULL,
    at              bigint   NOT NULL,
    claim           bigint,
    definition      bigint,
    output          bytea,
    failure         bytea,
    step_name       text     COLLATE "C",
    step_attempt    integer,
    step_epoch      integer,
    step_started_at bigint,
    step_ended_at   bigint,
    step_output     bytea,
    PRIMARY KEY (workflow, run, generation)
) WITH (autovacuum_vacuum_scale_factor = 0.02);

-- Completed runs are found by workflow; the others are few and asked for by name.
CREATE INDEX ended_otherwise ON {s}.ended (state, run) WHERE state <> 6;

-- The runs that nodes hold, by the rows of `holding`. The planner has no choice but to look each of them up.
CREATE VIEW {s}.held AS
SELECT l.no, l.node, l.claims, l.claim, l.run, r.tenure, r.workflow, r.queue, r.priority, r.generation,
       coalesce(r.definition, l.definition) AS definition
FROM {s}.listed AS l
CROSS JOIN LATERAL (SELECT * FROM {s}.run WHERE id = l.run AND tenure = l.tenure OFFSET 0) AS r
WHERE NOT EXISTS (SELECT FROM {s}.ended AS e
    WHERE e.workflow = r.workflow AND e.run = r.id AND e.generation = r.generation OFFSET 0);

-- `started_in` tells the starts of one attempt apart; it is -1 for all other kinds. `seq` is the order of recording: no
-- connection keeps numbers for itself, or steps that came by two of them would be read in another order.
CREATE TABLE {s}.step (
    run        uuid     NOT NULL,
    generation integer  NOT NULL,
    name       text     COLLATE "C" NOT NULL,
    attempt    integer  NOT NULL,
    started_in integer  NOT NULL,
    epoch      integer  NOT NULL,
    kind       smallint NOT NULL,
    seq        bigint   GENERATED ALWAYS AS IDENTITY,
    started_at bigint   NOT NULL,
    ended_at   bigint   NOT NULL,
    output     bytea,
    detail     bytea,
    PRIMARY KEY (run, generation, name, attempt, started_in)
) WITH (autovacuum_vacuum_scale_factor = 0.02);

CREATE TABLE {s}.inbox (
    seq   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run   uuid   NOT NULL,
    topic text   COLLATE "C" NOT NULL,
    key   text   COLLATE "C",
    body  bytea  NOT NULL,
    at    bigint NOT NULL
);

CREATE INDEX inbox_run ON {s}.inbox (run);
CREATE UNIQUE INDEX inbox_key ON {s}.inbox (run, topic, key) WHERE key IS NOT NULL;

-- Keys of messages that a run took in, so that they are not taken in twice.
CREATE TABLE {s}.delivered (
    run   uuid NOT NULL,
    topic text COLLATE "C" NOT NULL,
    key   text COLLATE "C" NOT NULL,
    PRIMARY KEY (run, topic, key)
) WITH (autovacuum_vacuum_scale_factor = 0.02);

CREATE TABLE {s}.saved (
    run   uuid  NOT NULL,
    step  text  COLLATE "C" NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (run, step)
);

-- `until` is when the key lapses; NULL is never.
CREATE TABLE {s}.key (
    workflow text   COLLATE "C" NOT NULL,
    key      text   COLLATE "C" NOT NULL,
    run      uuid   NOT NULL,
    digest   bytea  NOT NULL,
    until    bigint,
    PRIMARY KEY (workflow, key)
) WITH (autovacuum_vacuum_scale_factor = 0.02);

CREATE TABLE {s}.tag (
    tag text COLLATE "C" NOT NULL,
    run uuid NOT NULL,
    PRIMARY KEY (tag, run)
) WITH (autovacuum_vacuum_scale_factor = 0.02);

-- Small values that processes share. They are written often, and few.
CREATE TABLE {s}.cell (
    name    text   COLLATE "C" PRIMARY KEY,
    version bigint NOT NULL,
    body    bytea  NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- What a batch writes of one kind, of runs that its node holds beyond doubt, and of runs that begin. With a node it is a
-- transaction by itself, fenced, in one message each way: what nearly every batch is while little happens. Every statement in
-- here sees what was committed before it, and so the fence what was committed before its lock was given. Without a node it is
-- a part of a transaction that is fenced already, or that no node acts in. `empty` are rows of `holding` of which nothing is
-- left. All answer the time of the transaction.
--
-- Most batches of a quiet engine have one of a kind: these are written without lists, in half the time.
--
-- A list of one stands for all: most of what is written together differs in little but the runs. Lists are spread out by the
-- select itself: from a function in the `FROM` the server would first gather all of them.
CREATE FUNCTION {s}.enter(share bigint, node uuid, empty bigint[]) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    time_is bigint;
BEGIN
    IF node IS NULL THEN
        time_is := {s}.clock();
    ELSE
        PERFORM pg_catalog.pg_advisory_xact_lock_shared(share);
        -- At any other level the check would see what was before the lock.
        IF pg_catalog.current_setting('transaction_isolation') <> 'read committed' THEN
            RAISE EXCEPTION 'this session is %, and a node writes at read committed',
                pg_catalog.current_setting('transaction_isolation') USING ERRCODE = 'object_not_in_prerequisite_state';
        END IF;
        IF EXISTS (SELECT FROM {s}.node AS n WHERE n.id = enter.node AND NOT n.dead) THEN
            time_is := {s}.clock();
        ELSE
            time_is := {s}.fence(node);
        END IF;
    END IF;
    IF empty IS NOT NULL THEN
        DELETE FROM {s}.holding WHERE no = ANY (empty);
    END IF;
    RETURN time_is;
END $$;

-- What stands for all; NULL where each has its own.
CREATE FUNCTION {s}.sole(list anyarray) RETURNS anyelement LANGUAGE sql IMMUTABLE AS
    $$ SELECT CASE WHEN cardinality(list) = 1 THEN list[1] END $$;

-- Records. One that is there already fails the batch, which is then written with care.
CREATE FUNCTION {s}.write_steps(
    share bigint, node uuid, empty bigint[],
    runs uuid[], generations int[], names text[], attempts int[], starts_in int[], epochs int[], kinds smallint[],
    starts_at bigint[], ends_at bigint[], outputs bytea[], details bytea[]
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    time_is       bigint   := {s}.enter(share, node, empty);
    a_generation  int      := {s}.sole(generations);
    a_name        text     := {s}.sole(names);
    an_attempt    int      := {s}.sole(attempts);
    a_started_in  int      := {s}.sole(starts_in);
    an_epoch      int      := {s}.sole(epochs);
    a_kind        smallint := {s}.sole(kinds);
    an_output     bytea    := {s}.sole(outputs);
    a_detail      bytea    := {s}.sole(details);
BEGIN
    INSERT INTO {s}.step (run, generation, name, attempt, started_in, epoch, kind, started_at, ended_at, output, detail)
    SELECT u.run, coalesce(u.generation, a_generation), coalesce(u.name, a_name), coalesce(u.attempt, an_attempt),
           coalesce(u.started_in, a_started_in), coalesce(u.epoch, an_epoch), coalesce(u.kind, a_kind), u.started_at,
           u.ended_at, coalesce(u.output, an_output), coalesce(u.detail, a_detail)
    FROM (SELECT unnest(runs) AS run, unnest(generations) AS generation, unnest(names) AS name,
                 unnest(attempts) AS attempt, unnest(starts_in) AS started_in, unnest(epochs) AS epoch,
                 unnest(kinds) AS kind, unnest(starts_at) AS started_at, unnest(ends_at) AS ended_at,
                 unnest(outputs) AS output, unnest(details) AS detail) AS u;
    RETURN time_is;
END $$;

CREATE FUNCTION {s}.write_step(
    share bigint, node uuid, empty bigint[],
    a_run uuid, a_generation int, a_name text, an_attempt int, a_started_in int, an_epoch int, a_kind smallint,
    a_started_at bigint, an_ended_at bigint, an_output bytea, a_detail bytea
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    time_is bigint := {s}.enter(share, node, empty);
BEGIN
    INSERT INTO {s}.step (run, generation, name, attempt, started_in, epoch, kind, started_at, ended_at, output, detail)
    VALUES (a_run, a_generation, a_name, an_attempt, a_started_in, an_epoch, a_kind, a_started_at, an_ended_at, an_output,
            a_detail);
    RETURN time_is;
END $$;

-- Ends. A last step that only completed comes with them.
CREATE FUNCTION {s}.write_ends(
    share bigint, node uuid, empty bigint[],
    workflows text[], runs uuid[], generations int[], states smallint[], claims bigint[], definitions bigint[],
    outputs bytea[], failures bytea[], step_names text[], step_attempts int[], step_epochs int[],
    steps_started_at bigint[], steps_ended_at bigint[], step_outputs bytea[]
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    time_is        bigint   := {s}.enter(share, node, empty);
    a_workflow     text     := {s}.sole(workflows);
    a_generation   int      := {s}.sole(generations);
    a_state        smallint := {s}.sole(states);
    a_claim        bigint   := {s}.sole(claims);
    a_definition   bigint   := {s}.sole(definitions);
    an_output      bytea    := {s}.sole(outputs);
    a_failure      bytea    := {s}.sole(failures);
    a_step_name    text     := {s}.sole(step_names);
    a_step_attempt int      := {s}.sole(step_attempts);
    a_step_epoch   int      := {s}.sole(step_epochs);
    a_step_output  bytea    := {s}.sole(step_outputs);
BEGIN
    INSERT INTO {s}.ended (workflow, run, generation, state, at, claim, definition, output, failure, step_name,
                           step_attempt, step_epoch, step_started_at, step_ended_at, step_output)
    SELECT coalesce(u.workflow, a_workflow), u.run, coalesce(u.generation, a_generation), coalesce(u.state, a_state),
           time_is, coalesce(u.claim, a_claim), coalesce(u.definition, a_definition), coalesce(u.output, an_output),
           coalesce(u.failure, a_failure), coalesce(u.step_name, a_step_name), coalesce(u.step_attempt, a_step_attempt),
           coalesce(u.step_epoch, a_step_epoch), u.step_started_at, u.step_ended_at,
           coalesce(u.step_output, a_step_output)
    FROM (SELECT unnest(workflows) AS workflow, unnest(runs) AS run, unnest(generations) AS generation,
                 unnest(states) AS state, unnest(claims) AS claim, unnest(definitions) AS definition,
                 unnest(outputs) AS output, unnest(failures) AS failure, unnest(step_names) AS step_name,
                 unnest(step_attempts) AS step_attempt, unnest(step_epochs) AS step_epoch,
                 unnest(steps_started_at) AS step_started_at, unnest(steps_ended_at) AS step_ended_at,
                 unnest(step_outputs) AS step_output) AS u;
    -- After the end, as where ends are written with care: two who write the same would wait for each other. Only a queue that
    -- was declared has slots.
    IF EXISTS (SELECT FROM {s}.queue) THEN
        DELETE FROM {s}.slot WHERE run = ANY (runs);
    END IF;
    DELETE FROM {s}.inbox WHERE run = ANY (runs);
    RETURN time_is;
END $$;

CREATE FUNCTION {s}.write_end(
    share bigint, node uuid, empty bigint[],
    a_workflow text, a_run uuid, a_generation int, a_state smallint, a_claim bigint, a_definition bigint,
    an_output bytea, a_failure bytea, a_step_name text, a_step_attempt int, a_step_epoch int,
    a_step_started_at bigint, a_step_ended_at bigint, a_step_output bytea
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    time_is bigint := {s}.enter(share, node, empty);
BEGIN
    INSERT INTO {s}.ended (workflow, run, generation, state, at, claim, definition, output, failure, step_name,
                           step_attempt, step_epoch, step_started_at, step_ended_at, step_output)
    VALUES (a_workflow, a_run, a_generation, a_state, time_is, a_claim, a_definition, an_output, a_failure, a_step_name,
            a_step_attempt, a_step_epoch, a_step_started_at, a_step_ended_at, a_step_output);
    DELETE FROM {s}.slot WHERE run = a_run;
    DELETE FROM {s}.inbox WHERE run = a_run;
    RETURN time_is;
END $$;

-- Runs without keys that begin. One that is wanted by `holder` (that has a claim) is its own if nothing of the same line is
-- ready. Answers in which of the lines something is, and the row of `holding`.
CREATE FUNCTION {s}.write_starts(
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
    INSERT INTO {s}.ready (queue, lane, workflow, priority, run)
    SELECT coalesce(u.queue, a_queue), {s}.lane(u.queue_key), coalesce(u.workflow, a_workflow),
           coalesce(u.priority, a_priority), u.id
    FROM (SELECT unnest(ids) AS id, unnest(workflows) AS workflow, unnest(queues) AS queue, unnest(priorities) AS priority,
                 unnest(delays) AS delay, unnest(claims) AS claim, unnest(lines) AS line,
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

CREATE FUNCTION {s}.write_start(
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
        INSERT INTO {s}.ready (queue, lane, workflow, priority, run)
        VALUES (a_queue, {s}.lane(a_queue_key), a_workflow, a_priority, an_id);
    ELSE
        INSERT INTO {s}.holding (node, claims, runs) VALUES (holder, ARRAY[a_claim], ARRAY[an_id]) RETURNING no INTO list_no;
    END IF;
END $$;
