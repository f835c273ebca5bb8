//! Messages to runs.

use tokio_postgres::{Row, types::ToSql};
use uuid::Uuid;
use windlass_core::RunId;
use windlass_store::{NewMessage, Refusal};

use crate::{column, error::Fault, stops::stops_at};

/// Whoever asks has locked the runs. A repeat is known by its key, also of one that is sent along; what came while a run ended lies in an inbox that is
/// gone. A run that waits for the topic is ready. Rows of `waiting` never change, so that their place finds them again.
///
/// One that is ready when it is told to stop says so from then on: its row in `ready` goes, and another comes, unless somebody
/// is just taking it, who finds its order with it.
pub(super) const SEND: &str = concat!(
    "\
    WITH found AS MATERIALIZED (\
        SELECT u.*, r.id IS NOT NULL AS exists, e.state, u.key IS NOT NULL AND (\
            e.state IS NULL AND EXISTS (SELECT FROM {s}.inbox AS i \
                WHERE i.run = u.run AND i.topic = u.topic AND i.key = u.key OFFSET 0) \
            OR EXISTS (SELECT FROM {s}.delivered AS d \
                WHERE d.run = u.run AND d.topic = u.topic AND d.key = u.key OFFSET 0)) AS is_known \
        FROM unnest($1::uuid[], $2::text[], $3::text[], $4::bytea[]) WITH ORDINALITY AS u (run, topic, key, body, no) \
        LEFT JOIN LATERAL (SELECT * FROM {s}.run WHERE id = u.run OFFSET 0) AS r ON true \
        LEFT JOIN LATERAL (SELECT * FROM {s}.ended \
            WHERE workflow = r.workflow AND run = r.id AND generation = r.generation OFFSET 0) AS e ON true), \
    fresh AS MATERIALIZED (\
        SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY run, topic, key ORDER BY no) AS nth FROM found) AS f \
        WHERE exists AND state IS NULL AND NOT is_known AND (key IS NULL OR nth = 1)), \
    sent AS (\
        INSERT INTO {s}.inbox (run, topic, key, body, at) \
        SELECT run, topic, key, body, (SELECT {s}.clock()) FROM fresh ORDER BY no), \
    woken AS (\
        DELETE FROM {s}.waiting WHERE ctid = ANY (ARRAY (\
            SELECT w.place FROM fresh AS f CROSS JOIN LATERAL (\
                SELECT ctid AS place, topics FROM {s}.waiting WHERE run = f.run OFFSET 0) AS w \
            WHERE w.topics @> ARRAY[f.topic])) \
        RETURNING run), \
    told AS MATERIALIZED (\
        SELECT DISTINCT run FROM fresh WHERE topic IN ('!cancel', '!terminate')), \
    stopped AS (\
        DELETE FROM {s}.ready WHERE ctid = ANY (ARRAY (\
            SELECT a.entry FROM told CROSS JOIN LATERAL (SELECT * FROM {s}.run WHERE id = told.run OFFSET 0) AS r \
            CROSS JOIN LATERAL (\
                SELECT ctid AS entry FROM {s}.ready WHERE queue = r.queue AND lane = {s}.lane(r.queue_key) \
                  AND workflow = r.workflow AND priority = r.priority AND run = r.id FOR UPDATE SKIP LOCKED) AS a)) \
        RETURNING run), \
    made_ready AS (\
        INSERT INTO {s}.ready (queue, lane, workflow, priority, run, stops_at) \
        SELECT r.queue, {s}.lane(r.queue_key), r.workflow, r.priority, r.id, \
               CASE WHEN EXISTS (SELECT FROM told WHERE told.run = r.id) THEN 0 ELSE ",
    stops_at!("r"),
    " END \
        FROM (SELECT run FROM woken UNION ALL SELECT run FROM stopped) AS w \
        CROSS JOIN LATERAL (SELECT * FROM {s}.run WHERE id = w.run OFFSET 0) AS r) \
    SELECT exists, state, is_known FROM found ORDER BY no"
);

/// Messages, in the order in which they come.
#[derive(Default)]
pub(super) struct Messages<'a> {
    pub(super) run: Vec<Uuid>,
    topic: Vec<&'a str>,
    key: Vec<Option<&'a str>>,
    body: Vec<&'a [u8]>,
}

impl<'a> Messages<'a> {
    pub(super) fn add(&mut self, run: RunId, message: &'a NewMessage) {
        self.run.push(column::run(run));
        self.topic.push(&message.topic);
        self.key.push(message.key.as_deref());
        self.body.push(&message.body);
    }

    /// For [`SEND`].
    pub(super) fn columns(&self) -> [&(dyn ToSql + Sync); 4] {
        [&self.run, &self.topic, &self.key, &self.body]
    }
}

/// What became of a message.
pub(super) fn fate(row: &Row) -> Result<Result<(), Refusal>, Fault> {
    let (exists, state, is_known): (bool, Option<i16>, bool) =
        (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    Ok(match state {
        _ if !exists => Err(Refusal::Unknown),
        Some(_) if !is_known => Err(Refusal::Ended(column::run_state(row, 1)?)),
        _ => Ok(()),
    })
}
