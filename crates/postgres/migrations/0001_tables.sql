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
