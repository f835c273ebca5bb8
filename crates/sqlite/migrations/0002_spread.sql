-- Attempts that any node may execute. One that a node holds has that node's number and the claim. A row goes with the
-- outcome of its attempt, when it is withdrawn, or with its run's end. `lane` is that of the run. A row that a node holds is
-- what counts against the limits of its queue, if that was declared. `resting` is that of `ready`.
CREATE TABLE spread (
    run        BLOB    NOT NULL,
    step       TEXT    NOT NULL,
    attempt    INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    workflow   INTEGER NOT NULL,
    definition INTEGER NOT NULL,
    queue      INTEGER NOT NULL,
    lane       TEXT    NOT NULL,
    priority   INTEGER NOT NULL,
    at         INTEGER NOT NULL,
    deaths     INTEGER NOT NULL DEFAULT 0,
    node       INTEGER,
    claim      INTEGER,
    resting    INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (run, step, attempt)
) STRICT, WITHOUT ROWID;

CREATE INDEX spread_free ON spread (queue, lane, workflow, definition, priority, run, step, attempt) WHERE node IS NULL;
CREATE INDEX spread_lanes ON spread (queue, workflow, definition, lane) WHERE node IS NULL AND lane <> '' AND resting = 0;
CREATE INDEX spread_held ON spread (node, queue) WHERE node IS NOT NULL;
