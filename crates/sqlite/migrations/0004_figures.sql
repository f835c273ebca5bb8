-- How many runs of a workflow came to a state in a minute, which `at` is the beginning of; of all time where it is zero.
CREATE TABLE tally (
    at       INTEGER NOT NULL,
    workflow INTEGER NOT NULL,
    state    INTEGER NOT NULL,
    count    INTEGER NOT NULL,
    PRIMARY KEY (at, workflow, state)
) STRICT, WITHOUT ROWID;

INSERT INTO tally (at, workflow, state, count) SELECT 0, workflow, state, count(*) FROM ended GROUP BY workflow, state;

-- What was logged while runs were executed.
CREATE TABLE log (
    seq     INTEGER PRIMARY KEY,
    run     BLOB    NOT NULL,
    at      INTEGER NOT NULL,
    level   INTEGER NOT NULL,
    task    TEXT    NOT NULL,
    attempt INTEGER NOT NULL,
    message TEXT    NOT NULL,
    fields  TEXT,
    dropped INTEGER NOT NULL
) STRICT;

CREATE INDEX log_run ON log (run);
