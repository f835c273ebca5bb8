//! What the holders of runs take in and give up.

use tokio_postgres::types::ToSql;
use uuid::Uuid;
use windlass_core::RunId;
use windlass_store::Wait;

use crate::{column, stops::stops_at, tenure::Tenure};

/// Taken in the order of ids, so that two batches never wait for each other.
pub(crate) const LOCK: &str = "SELECT FROM {s}.run WHERE id = ANY($1) ORDER BY id FOR UPDATE";
/// Deletes what held runs have taken in, and keeps the keys.
pub(super) const CONSUME: &str = "\
    WITH gone AS (\
        DELETE FROM {s}.inbox AS i \
        USING unnest($1::uuid[], $2::bigint[], $3::bigint[]) AS u (run, tenure, seq), {s}.run AS r \
        WHERE i.seq = u.seq AND i.run = u.run AND r.id = u.run AND r.tenure = u.tenure \
          AND NOT EXISTS (SELECT FROM {s}.ended AS e \
              WHERE e.workflow = r.workflow AND e.run = r.id AND e.generation = r.generation OFFSET 0) \
        RETURNING i.run, i.topic, i.key) \
    INSERT INTO {s}.delivered (run, topic, key) SELECT run, topic, key FROM gone WHERE key IS NOT NULL AND NOT starts_with(topic, '>') \
    ON CONFLICT DO NOTHING";
/// Gives held runs up. One without a state is ready at once, and so is one for which the time or a message has come:
/// whoever sends to a run waits for the lock on it, so nothing comes in between.
pub(super) const GIVE_UP: &str = concat!(
    "\
    WITH gone AS (\
        UPDATE {s}.run AS r SET tenure = r.tenure + 1, definition = coalesce(r.definition, u.definition) \
        FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::smallint[], $5::bigint[], $6::text[], $7::text[], \
                    $8::bigint[]) \
            AS u (run, tenure, definition, state, until, topics, reason, blocked_by) \
        WHERE r.id = u.run AND r.tenure = u.tenure AND NOT EXISTS (SELECT FROM {s}.ended AS e \
            WHERE e.workflow = r.workflow AND e.run = r.id AND e.generation = r.generation OFFSET 0) \
        RETURNING r.id, r.queue, r.queue_key, r.workflow, r.priority, r.generation, r.opened_at, r.timeout, u.state, u.until, u.reason, u.blocked_by, \
                  ARRAY (SELECT json_array_elements_text(u.topics::json)) AS topics), \
    seen AS MATERIALIZED (\
        SELECT gone.*, state IS NULL OR coalesce(until <= {s}.clock(), false) \
            OR EXISTS (SELECT FROM {s}.inbox AS i WHERE i.run = gone.id AND i.topic = ANY(gone.topics) OFFSET 0) AS is_ready \
        FROM gone), \
    vacated AS (\
        DELETE FROM {s}.slot AS s WHERE s.run = ANY (ARRAY (SELECT id FROM gone)) \
          AND NOT EXISTS (SELECT FROM {s}.queue AS q WHERE q.name = s.queue AND q.hold)), \
    kept AS (\
        UPDATE {s}.slot AS s SET node = NULL WHERE s.run = ANY (ARRAY (SELECT id FROM gone)) \
          AND EXISTS (SELECT FROM {s}.queue AS q WHERE q.name = s.queue AND q.hold)), \
    parked AS (\
        INSERT INTO {s}.waiting (run, workflow, state, until, topics, reason, blocked_by) \
        SELECT id, workflow, state, until, topics, reason, blocked_by FROM seen WHERE NOT is_ready) \
    INSERT INTO {s}.ready (queue, lane, workflow, priority, run, stops_at) \
    SELECT queue, {s}.lane(queue_key), workflow, priority, id, ",
    stops_at!("seen"),
    " FROM seen WHERE is_ready"
);

/// Inbox rows that held runs have taken in.
#[derive(Default)]
pub(super) struct Consumed {
    run: Vec<Uuid>,
    tenure: Vec<i64>,
    seq: Vec<i64>,
}

impl Consumed {
    pub(super) fn add(&mut self, run: RunId, tenure: Tenure, rows: &[i64]) {
        for seq in rows {
            self.run.push(column::run(run));
            self.tenure.push(tenure.no);
            self.seq.push(*seq);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.run.is_empty()
    }

    /// For [`CONSUME`].
    pub(super) fn columns(&self) -> [&(dyn ToSql + Sync); 3] {
        [&self.run, &self.tenure, &self.seq]
    }
}

/// Held runs that are given up, each until its wait is over.
#[derive(Default)]
pub(super) struct Leaves<'a> {
    pub(super) run: Vec<Uuid>,
    tenure: Vec<i64>,
    definition: Vec<Option<i64>>,
    state: Vec<Option<i16>>,
    until: Vec<Option<i64>>,
    /// As JSON: lists in a list would have to be of one length.
    topics: Vec<String>,
    reason: Vec<Option<&'a str>>,
    blocked_by: Vec<Option<i64>>,
}

impl<'a> Leaves<'a> {
    /// Without a wait, anyone may claim the run at once.
    pub(super) fn add(&mut self, run: RunId, tenure: Tenure, wait: Option<&'a Wait>) {
        let topics = wait.map_or(&[][..], |wait| &wait.topics);
        self.run.push(column::run(run));
        self.tenure.push(tenure.no);
        self.definition.push(tenure.definition);
        self.state.push(wait.map(|wait| wait.state as i16));
        self.until.push(wait.and_then(|wait| wait.until).map(|until| until.0));
        self.topics.push(serde_json::Value::from(topics).to_string());
        self.reason.push(wait.and_then(|wait| wait.reason.as_deref()));
        self.blocked_by.push(wait.and_then(|wait| wait.blocked_by).map(|version| version.0));
    }

    /// For [`GIVE_UP`].
    pub(super) fn columns(&self) -> [&(dyn ToSql + Sync); 8] {
        [
            &self.run,
            &self.tenure,
            &self.definition,
            &self.state,
            &self.until,
            &self.topics,
            &self.reason,
            &self.blocked_by,
        ]
    }
}
