-- Attempts that any node may execute. One that a node holds has that node and its claim. A row goes with the outcome
-- of its attempt, when it is withdrawn, or with its run's end. Rows live for as long as an attempt takes, so that the
-- indexes are small although a claim changes what they name. `lane` is that of the run. A row that a node holds is what
-- counts against the limits of its queue, if that was declared. `resting` is that of `ready`.
CREATE TABLE {s}.spread (
    run        uuid     NOT NULL,
    step       text     COLLATE "C" NOT NULL,
    attempt    integer  NOT NULL,
    generation integer  NOT NULL,
    workflow   text     COLLATE "C" NOT NULL,
    definition bigint   NOT NULL,
    queue      text     COLLATE "C" NOT NULL,
    lane       text     COLLATE "C" NOT NULL,
    priority   smallint NOT NULL,
    at         bigint   NOT NULL,
    deaths     integer  NOT NULL DEFAULT 0,
    node       uuid,
    claim      bigint,
    resting    boolean  NOT NULL DEFAULT false,
    PRIMARY KEY (run, step, attempt)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX spread_free ON {s}.spread (queue, lane, workflow, definition, priority, run, step, attempt) WHERE node IS NULL;
CREATE INDEX spread_lanes ON {s}.spread (queue, workflow, definition, lane) WHERE node IS NULL AND lane <> '' AND NOT resting;
CREATE INDEX spread_held ON {s}.spread (node, queue) WHERE node IS NOT NULL;
