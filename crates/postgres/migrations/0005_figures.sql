-- How many runs of a workflow came to a state in a minute, which `at` is the beginning of; of all time where it is zero.
CREATE TABLE {s}.tally (
    at       bigint   NOT NULL,
    workflow text     COLLATE "C" NOT NULL,
    state    smallint NOT NULL,
    count    bigint   NOT NULL,
    PRIMARY KEY (at, workflow, state)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

INSERT INTO {s}.tally (at, workflow, state, count)
SELECT 0, workflow, state, count(*) FROM {s}.ended GROUP BY workflow, state;

-- What was logged while runs were executed.
CREATE TABLE {s}.log (
    seq     bigint   GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run     uuid     NOT NULL,
    at      bigint   NOT NULL,
    level   smallint NOT NULL,
    task    text     COLLATE "C" NOT NULL,
    attempt integer  NOT NULL,
    message text     NOT NULL,
    fields  text,
    dropped bigint   NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02);

CREATE INDEX log_run ON {s}.log (run, seq);
