-- From when on a ready run has to stop, whatever its queue is told: 0 for at once, NULL for never.
ALTER TABLE ready ADD COLUMN stops_at INTEGER;

CREATE INDEX ready_stops ON ready (queue, workflow, stops_at, run) WHERE stops_at IS NOT NULL;

-- How a run ends, once that is settled.
CREATE INDEX step_verdict ON step (run, generation) WHERE name = '//verdict';

-- Whether the runs have their slots that were held before the queue was declared.
ALTER TABLE queue ADD COLUMN counted INTEGER NOT NULL DEFAULT 0;

UPDATE queue SET counted = 1;

UPDATE ready SET stops_at = CASE
    WHEN EXISTS (SELECT 1 FROM inbox AS i WHERE i.run = ready.run AND i.topic IN ('!cancel', '!terminate'))
      OR EXISTS (SELECT 1 FROM step AS s
          WHERE s.run = ready.run AND s.generation = ready.generation AND s.name = '//verdict') THEN 0
    ELSE (SELECT min(coalesce(ready.opened_at, r.created_at), 9223372036854775807 - r.timeout) + r.timeout
          FROM run AS r WHERE r.id = ready.run AND r.timeout IS NOT NULL) END;
