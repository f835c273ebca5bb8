//! What is true of the tables at all times.

use crate::database::Database;

/// What must never be found, and how to look for it.
const NEVER: [(&str, &str); 17] = [
    (
        "a run that is in no place",
        "SELECT id FROM places WHERE NOT ended AND NOT waits AND NOT held AND NOT ready",
    ),
    ("a ready run that has ended", "SELECT id FROM places WHERE ended AND ready"),
    ("a ready run that is held", "SELECT id FROM places WHERE held AND ready"),
    ("a run that waits and has ended", "SELECT id FROM places WHERE ended AND waits"),
    ("a run that waits and is held", "SELECT id FROM places WHERE held AND waits"),
    ("a run that waits and is ready", "SELECT id FROM places WHERE ready AND waits"),
    (
        "a run that waits for what lies in its inbox",
        "SELECT w.run FROM {s}.waiting AS w JOIN {s}.inbox AS i ON i.run = w.run WHERE i.topic = ANY(w.topics)",
    ),
    (
        "an end of a generation that has not come, or none of one that is over",
        "SELECT r.id FROM {s}.run AS r WHERE (SELECT count(*) FROM {s}.ended AS e WHERE e.run = r.id) \
         <> r.generation - 1 + (SELECT count(*) FROM {s}.ended AS e WHERE e.run = r.id AND e.generation = r.generation)",
    ),
    (
        "a published attempt of a run that has ended",
        "SELECT p.id FROM places AS p JOIN {s}.spread AS s ON s.run = p.id WHERE ended",
    ),
    (
        "a published attempt that has an outcome",
        "SELECT s.run FROM {s}.spread AS s JOIN {s}.inbox AS i ON i.run = s.run AND i.topic = '!outcome' \
         WHERE i.key = s.generation || '/' || s.attempt || '/' || s.step",
    ),
    (
        "more slots in use than the limit of a queue",
        "SELECT q.name FROM {s}.queue AS q WHERE (SELECT count(*) FROM {s}.slot AS s WHERE s.queue = q.name) > q.concurrency",
    ),
    (
        "more slots in use than the limit of a key",
        "SELECT s.lane FROM {s}.slot AS s JOIN {s}.queue AS q ON q.name = s.queue WHERE s.lane <> '' \
         GROUP BY q.name, s.lane, q.per_key HAVING count(*) > q.per_key",
    ),
    (
        "a slot without a holder",
        "SELECT s.run FROM {s}.slot AS s JOIN {s}.queue AS q ON q.name = s.queue \
         WHERE NOT q.hold AND NOT EXISTS (SELECT FROM {s}.held AS h WHERE h.run = s.run AND h.node = s.node)",
    ),
    (
        "a slot of a run that has ended",
        "SELECT p.id FROM places AS p JOIN {s}.slot AS s ON s.run = p.id WHERE ended",
    ),
    (
        "a run of a declared queue that is held without a slot",
        "SELECT r.id FROM {s}.run AS r JOIN {s}.held AS h ON h.run = r.id JOIN {s}.queue AS q ON q.name = r.queue \
         WHERE q.counted AND NOT EXISTS (SELECT FROM {s}.slot AS s WHERE s.run = r.id)",
    ),
    ("a run that is held twice", "SELECT run FROM {s}.held GROUP BY run HAVING count(*) > 1"),
    (
        "a run that was held under a tenure which it has not reached",
        "SELECT r.id FROM {s}.run AS r JOIN (SELECT unnest(runs) AS run, unnest(tenures) AS tenure FROM {s}.holding) AS h \
         ON h.run = r.id WHERE h.tenure > r.tenure",
    ),
];

const PLACES: &str = "\
    WITH mark AS (SELECT r.*, EXISTS (SELECT FROM {s}.ended AS e WHERE e.run = r.id AND e.generation = r.generation) \
        AS ended FROM {s}.run AS r), \
    places AS (SELECT m.*, EXISTS (SELECT FROM {s}.held AS h WHERE h.run = m.id) AS held, \
        EXISTS (SELECT FROM {s}.waiting AS w WHERE w.run = m.id) AS waits, \
        EXISTS (SELECT FROM {s}.ready AS a WHERE a.run = m.id) AS ready FROM mark AS m)";

/// Looks for what must not be.
pub async fn check(database: &Database) -> Result<(), String> {
    let looks: Vec<_> = NEVER
        .iter()
        .map(|(what, how)| format!("SELECT '{what}' AS what, x.*::text FROM ({how}) AS x"))
        .collect();
    let sql = format!("{PLACES} {}", looks.join(" UNION ALL ")).replace("{s}", &database.schema);
    let found = database.client.query(&sql, &[]).await.unwrap();
    match found.first() {
        Some(row) => Err(format!("{}: {}", row.get::<_, String>(0), row.get::<_, String>(1))),
        None => Ok(()),
    }
}
