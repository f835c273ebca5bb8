//! What the parents of runs hear that end together.

use tokio_postgres::types::ToSql;
use uuid::Uuid;
use windlass_core::RunId;

use crate::{column, stops::stops_at, tenure::Tenure};

/// Asked just before the ends are written, of the same runs: of those that the node still holds. Whoever asks has locked
/// the parents, none of whom does anything else in the batch. A parent that has ended, or is not there, is passed over; one
/// that waits for its child is ready. A run ends once in a generation, so none of this was said before.
pub(super) const TELL: &str = concat!(
    "\
    WITH fresh AS MATERIALIZED (\
        SELECT p.id AS run, c.parent_topic AS topic, c.id || '/' || c.generation AS key, \
               convert_to(c.id::text, 'UTF8') AS body, u.no \
        FROM unnest($1::uuid[], $2::bigint[]) WITH ORDINALITY AS u (run, tenure, no) \
        CROSS JOIN LATERAL (SELECT * FROM {s}.run WHERE id = u.run OFFSET 0) AS c \
        CROSS JOIN LATERAL (SELECT * FROM {s}.run WHERE id = c.parent OFFSET 0) AS p \
        WHERE c.tenure = u.tenure AND NOT EXISTS (SELECT FROM {s}.ended AS e \
                WHERE e.workflow = c.workflow AND e.run = c.id AND e.generation = c.generation OFFSET 0) \
          AND NOT EXISTS (SELECT FROM {s}.ended AS e \
                WHERE e.workflow = p.workflow AND e.run = p.id AND e.generation = p.generation OFFSET 0)), \
    sent AS (\
        INSERT INTO {s}.inbox (run, topic, key, body, at) \
        SELECT run, topic, key, body, (SELECT {s}.clock()) FROM fresh ORDER BY no), \
    woken AS (\
        DELETE FROM {s}.waiting WHERE ctid = ANY (ARRAY (\
            SELECT w.place FROM fresh AS f CROSS JOIN LATERAL (\
                SELECT ctid AS place, topics FROM {s}.waiting WHERE run = f.run OFFSET 0) AS w \
            WHERE w.topics @> ARRAY[f.topic])) \
        RETURNING run) \
    INSERT INTO {s}.ready (queue, lane, workflow, priority, run, stops_at) \
    SELECT r.queue, {s}.lane(r.queue_key), r.workflow, r.priority, r.id, ",
    stops_at!("r"),
    " FROM woken CROSS JOIN LATERAL (SELECT * FROM {s}.run WHERE id = woken.run OFFSET 0) AS r"
);

/// Held runs that end and have parents, in the order in which they end.
#[derive(Default)]
pub(super) struct Children {
    run: Vec<Uuid>,
    tenure: Vec<i64>,
    pub(super) parent: Vec<Uuid>,
}

impl Children {
    pub(super) fn add(&mut self, run: RunId, tenure: Tenure, parent: RunId) {
        self.run.push(column::run(run));
        self.tenure.push(tenure.no);
        self.parent.push(column::run(parent));
    }

    /// For [`TELL`].
    pub(super) fn columns(&self) -> [&(dyn ToSql + Sync); 2] {
        [&self.run, &self.tenure]
    }
}
