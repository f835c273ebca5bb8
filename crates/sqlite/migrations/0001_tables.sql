-- Names that rows refer to by a small number: workflows and queues.
CREATE TABLE name (
    no   INTEGER PRIMARY KEY,
    text TEXT NOT NULL UNIQUE
) STRICT;

-- One row per boot of a process. `handle` is the opened store that last acted for the node: what a handle
-- remembers about the node's runs is only true while it is this one. `ended` is how many of each queue it ended of late.
CREATE TABLE node (
    no           INTEGER PRIMARY KEY,
    id           BLOB    NOT NULL UNIQUE,
    name         TEXT,
    pid          INTEGER NOT NULL,
    host         TEXT    NOT NULL,
    version      TEXT    NOT NULL,
    queues       TEXT    NOT NULL,
    started_at   INTEGER NOT NULL,
    heartbeat_at INTEGER NOT NULL,
    stale_after  INTEGER NOT NULL,
    dead         INTEGER NOT NULL DEFAULT 0,
    running      INTEGER NOT NULL DEFAULT 0,
    ended        TEXT    NOT NULL DEFAULT '{}',
    handle       INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE definition (
    id       INTEGER PRIMARY KEY,
    workflow INTEGER NOT NULL,
    version  TEXT    NOT NULL,
    body     BLOB    NOT NULL,
    UNIQUE (workflow, version)
) STRICT;

-- How a run was started. Never updated once it has begun: where a run stands is a row in exactly one of
-- ready, waiting and ended, or in none of them and listed in holding. `steps` is 1 when it started with records.
CREATE TABLE run (
    id          BLOB    PRIMARY KEY,
    workflow    INTEGER NOT NULL,
    queue       INTEGER NOT NULL,
    queue_key   TEXT,
    priority    INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    input       BLOB    NOT NULL,
    timeout     INTEGER,
    context     BLOB,
    key         TEXT,
    tags        TEXT,
    forked_from BLOB,
    trace       TEXT,
    steps       INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX run_key ON run (key, id) WHERE key IS NOT NULL;

-- In every place, `opened_at` is NULL when it is the run's `created_at`. `lane` is empty, or `=` and the run's key within
-- its queue; `resting` is 1 for a run that is not looked for until its key may have one more begin.
CREATE TABLE ready (
    queue      INTEGER NOT NULL,
    lane       TEXT    NOT NULL,
    workflow   INTEGER NOT NULL,
    priority   INTEGER NOT NULL,
    run        BLOB    NOT NULL,
    generation INTEGER NOT NULL,
    definition INTEGER,
    opened_at  INTEGER,
    recoveries INTEGER NOT NULL,
    resting    INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (queue, lane, workflow, priority, run)
) STRICT, WITHOUT ROWID;

-- There may be as many lanes as customers, so that a listing reads across them.
CREATE INDEX ready_keyed ON ready (run) WHERE lane <> '';

-- The keys that have something for a workflow, whoever else has how many others.
CREATE INDEX ready_lanes ON ready (queue, workflow, lane) WHERE lane <> '' AND resting = 0;

-- Queues that were declared. `cursor` is the lane that had the last turn. One that was removed has no limits, and is not shown.
CREATE TABLE queue (
    no      INTEGER PRIMARY KEY,
    limits  TEXT    NOT NULL DEFAULT '{}',
    paused  INTEGER NOT NULL DEFAULT 0,
    removed INTEGER NOT NULL DEFAULT 0,
    cursor  TEXT
) STRICT;

-- What of a declared queue is under way. A slot goes with the end of its run, or when that is given up. With a queue that
-- holds, it stays until the end, and `node` is NULL while nobody holds the run.
CREATE TABLE slot (
    queue INTEGER NOT NULL,
    no    INTEGER NOT NULL,
    lane  TEXT    NOT NULL,
    run   BLOB    NOT NULL UNIQUE,
    node  INTEGER,
    PRIMARY KEY (queue, no)
) STRICT, WITHOUT ROWID;

-- How many runs of a queue with a rate were taken when, as far back as the rate looks: of all its lanes together where `lane`
-- is empty, and of each key.
CREATE TABLE begun (
    queue INTEGER NOT NULL,
    lane  TEXT    NOT NULL,
    at    INTEGER NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (queue, lane, at)
) STRICT, WITHOUT ROWID;

-- Keys that are seen once are forgotten like others.
CREATE INDEX begun_keys ON begun (queue, at) WHERE lane <> '';

-- Keys of which some rows rest, by workflow: those in `ready`, or in `spread` where `tasks` is 1. The rate of the key lets none be
-- taken before `until`; where that is zero, it may.
CREATE TABLE resting (
    queue    INTEGER NOT NULL,
    tasks    INTEGER NOT NULL,
    workflow INTEGER NOT NULL,
    lane     TEXT    NOT NULL,
    until    INTEGER NOT NULL,
    PRIMARY KEY (queue, tasks, workflow, lane)
) STRICT, WITHOUT ROWID;

CREATE INDEX resting_until ON resting (queue, tasks, workflow, until);

CREATE TABLE waiting (
    run        BLOB    PRIMARY KEY,
    workflow   INTEGER NOT NULL,
    state      INTEGER NOT NULL,
    until      INTEGER,
    generation INTEGER NOT NULL,
    definition INTEGER,
    opened_at  INTEGER,
    recoveries INTEGER NOT NULL,
    topics     TEXT,
    reason     TEXT,
    blocked_by INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX waiting_due  ON waiting (until) WHERE until IS NOT NULL;
CREATE INDEX waiting_list ON waiting (workflow, state, run);

-- What nodes hold: one row for all the runs that a node got in one transaction, deleted when the last of them has
-- gone. A listed run is held when it is in none of the other three tables; the newest row that lists it is right.
-- A new row has a higher number than every other; that of a deleted row may come again, since nobody refers to it.
CREATE TABLE holding (
    batch INTEGER PRIMARY KEY,
    node  INTEGER NOT NULL,
    runs  BLOB    NOT NULL
) STRICT;

-- The standing end of a run, with the last step of its last act folded in (`step_*`, NULL when there was none or it
-- is a row of its own). Such a step completed, in this generation and after as many recoveries. Its output is the
-- run's when `step_output` is NULL.
CREATE TABLE ended (
    workflow        INTEGER NOT NULL,
    run             BLOB    NOT NULL,
    generation      INTEGER NOT NULL,
    state           INTEGER NOT NULL,
    at              INTEGER NOT NULL,
    definition      INTEGER,
    opened_at       INTEGER,
    recoveries      INTEGER NOT NULL,
    claim           INTEGER,
    output          BLOB,
    failure         BLOB,
    step_name       TEXT,
    step_attempt    INTEGER,
    step_started_at INTEGER,
    step_took       INTEGER,
    step_output     BLOB,
    PRIMARY KEY (workflow, run)
) STRICT, WITHOUT ROWID;

-- Completed runs are found by workflow; the others are few and asked for by name.
CREATE INDEX ended_otherwise ON ended (workflow, state, run) WHERE state <> 6;

-- The ends of generations that were reopened.
CREATE TABLE past_end (
    run        BLOB    NOT NULL,
    generation INTEGER NOT NULL,
    state      INTEGER NOT NULL,
    at         INTEGER NOT NULL,
    output     BLOB,
    failure    BLOB,
    PRIMARY KEY (run, generation)
) STRICT, WITHOUT ROWID;

-- `seq` is the order of recording within the run.
CREATE TABLE step (
    run        BLOB    NOT NULL,
    seq        INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    name       TEXT    NOT NULL,
    attempt    INTEGER NOT NULL,
    epoch      INTEGER NOT NULL,
    kind       INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    took       INTEGER NOT NULL,
    output     BLOB,
    detail     BLOB,
    PRIMARY KEY (run, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE inbox (
    seq   INTEGER PRIMARY KEY AUTOINCREMENT,
    run   BLOB    NOT NULL,
    topic TEXT    NOT NULL,
    key   TEXT,
    body  BLOB    NOT NULL,
    at    INTEGER NOT NULL
) STRICT;

CREATE INDEX inbox_run ON inbox (run);
CREATE UNIQUE INDEX inbox_key ON inbox (run, topic, key) WHERE key IS NOT NULL;

-- Keys of messages that a run took in, so that they are not taken in twice.
CREATE TABLE delivered (
    run   BLOB NOT NULL,
    topic TEXT NOT NULL,
    key   TEXT NOT NULL,
    PRIMARY KEY (run, topic, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE saved (
    run   BLOB NOT NULL,
    step  TEXT NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (run, step)
) STRICT, WITHOUT ROWID;

-- `until` is when the key lapses; NULL is never.
CREATE TABLE key (
    workflow INTEGER NOT NULL,
    key      TEXT    NOT NULL,
    run      BLOB    NOT NULL,
    digest   BLOB    NOT NULL,
    until    INTEGER,
    PRIMARY KEY (workflow, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE tag (
    tag TEXT NOT NULL,
    run BLOB NOT NULL,
    PRIMARY KEY (tag, run)
) STRICT, WITHOUT ROWID;

-- Small values that processes share.
CREATE TABLE cell (
    name    TEXT    PRIMARY KEY,
    version INTEGER NOT NULL,
    body    BLOB    NOT NULL
) STRICT, WITHOUT ROWID;
