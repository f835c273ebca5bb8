//! Outcomes of published attempts.

use std::collections::HashSet;

use tokio_postgres::{Row, types::ToSql};
use uuid::Uuid;
use windlass_core::{ClaimId, RunId};
use windlass_store::{OUTCOME, SpreadKey};

use crate::{column, error::Fault, stops::stops_at};

/// An outcome commits with the deletion of its row, if the committing node holds that under its claim. An end takes along
/// what is published, so that a row that is there belongs to a run that has not ended. A run that waits for an outcome is
/// ready. Whoever asks has locked the runs, and then the rows.
pub(super) const DELIVER: &str = concat!(
    "\
    WITH gone AS (\
        DELETE FROM {s}.spread AS s \
        USING (SELECT DISTINCT ON (v.run, v.step, v.attempt, v.claim) v.* \
            FROM unnest($1::uuid[], $2::text[], $3::int[], $4::bigint[], $5::bytea[]) WITH ORDINALITY \
                AS v (run, step, attempt, claim, outcome, no) \
            ORDER BY v.run, v.step, v.attempt, v.claim, v.no) AS u \
        WHERE s.run = u.run AND s.step = u.step AND s.attempt = u.attempt AND s.node = $6 AND s.claim = u.claim \
        RETURNING s.run, s.generation || '/' || s.attempt || '/' || s.step AS key, u.outcome, u.no), \
    sent AS (\
        INSERT INTO {s}.inbox (run, topic, key, body, at) \
        SELECT run, $7, key, outcome, (SELECT {s}.clock()) FROM gone ORDER BY no), \
    woken AS (\
        DELETE FROM {s}.waiting WHERE ctid = ANY (ARRAY (\
            SELECT w.place FROM (SELECT DISTINCT run FROM gone) AS g CROSS JOIN LATERAL (\
                SELECT ctid AS place, topics FROM {s}.waiting WHERE run = g.run OFFSET 0) AS w \
            WHERE w.topics @> ARRAY[$7::text])) \
        RETURNING run), \
    made_ready AS (\
        INSERT INTO {s}.ready (queue, lane, workflow, priority, run, stops_at) \
        SELECT r.queue, {s}.lane(r.queue_key), r.workflow, r.priority, r.id, ",
    stops_at!("r"),
    " FROM woken CROSS JOIN LATERAL (SELECT * FROM {s}.run WHERE id = woken.run OFFSET 0) AS r) \
    SELECT no FROM gone"
);

/// Outcomes of attempts that a node holds, in the order in which they came.
#[derive(Default)]
pub(super) struct Outcomes<'a> {
    pub(super) run: Vec<Uuid>,
    step: Vec<&'a str>,
    attempt: Vec<i32>,
    claim: Vec<i64>,
    outcome: Vec<&'a [u8]>,
}

impl<'a> Outcomes<'a> {
    pub(super) fn add(&mut self, run: RunId, claim: ClaimId, task: &'a SpreadKey, outcome: &'a [u8]) {
        self.run.push(column::run(run));
        self.step.push(&task.step);
        self.attempt.push(column::count(task.attempt));
        self.claim.push(column::claim(claim));
        self.outcome.push(outcome);
    }

    /// For the lock on the rows.
    pub(super) fn keys(&self) -> [&(dyn ToSql + Sync); 3] {
        [&self.run, &self.step, &self.attempt]
    }

    /// For [`DELIVER`].
    pub(super) fn columns<'p>(&'p self, node: &'p Option<Uuid>) -> [&'p (dyn ToSql + Sync); 7] {
        [&self.run, &self.step, &self.attempt, &self.claim, &self.outcome, node, &OUTCOME]
    }

    /// Which of them were delivered, in order.
    pub(super) fn delivered(&self, rows: &[Row]) -> Result<Vec<bool>, Fault> {
        let numbers: HashSet<i64> = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
        Ok((1..=self.run.len()).map(|no| numbers.contains(&(no as i64))).collect())
    }
}
