//! Finding runs.

use std::sync::Arc;

use tokio_postgres::{
    Row,
    types::{ToSql, Type},
};
use windlass_core::RunState;
use windlass_store::{Page, Query, RunSummary};

use crate::{
    column,
    error::Fault,
    image,
    session::{Session, qualified},
};

const KEY: &str =
    "SELECT run FROM {s}.key WHERE workflow = $1 AND key = $2 AND (until IS NULL OR until > {s}.clock())";

/// Who holds a run is looked for in lists, and only for those that are answered.
const COLUMNS: &str = "\
    SELECT p.id, p.workflow, p.queue, p.priority, p.key, p.tags, p.created_at, \
           p.generation, coalesce(p.definition, h.definition), p.opened_at, p.recoveries, h.node, h.claim, \
           p.end_state, p.at, p.output, p.failure, \
           p.wait_state, p.until, p.topics, p.reason, p.blocked_by \
    FROM (\
    SELECT r.id, r.workflow, r.queue, r.priority, r.key, r.tags, r.created_at, \
           r.generation, r.tenure, coalesce(r.definition, e.definition) AS definition, r.opened_at, r.recoveries, \
           e.state AS end_state, e.at, e.output, e.failure, \
           w.state AS wait_state, w.until, w.topics, w.reason, w.blocked_by \
    FROM {s}.run AS r \
    LEFT JOIN LATERAL (\
        SELECT * FROM {s}.ended WHERE workflow = r.workflow AND run = r.id AND generation = r.generation OFFSET 0) AS e ON true \
    LEFT JOIN LATERAL (SELECT * FROM {s}.waiting WHERE run = r.id OFFSET 0) AS w ON true \
    WHERE true";
/// The end of the same.
const HOLDERS: &str = "\
    ) AS p LEFT JOIN LATERAL (\
        SELECT l.node, l.claim, l.definition FROM {s}.listed AS l \
        WHERE p.end_state IS NULL AND p.wait_state IS NULL AND p.id = ANY(l.runs) \
          AND l.run = p.id AND l.tenure = p.tenure OFFSET 0) AS h ON true \
    ORDER BY p.id DESC";
/// The state that people see, as [`windlass_store::Standing::state`] has it.
const STATE: &str = "\
    CASE WHEN e.run IS NOT NULL THEN e.state WHEN w.run IS NOT NULL THEN w.state \
         WHEN NOT EXISTS (SELECT FROM {s}.ready AS a \
             WHERE a.queue = r.queue AND a.lane = {s}.lane(r.queue_key) AND a.workflow = r.workflow AND a.priority = r.priority AND a.run = r.id OFFSET 0) THEN 1 \
         WHEN r.definition IS NOT NULL THEN 2 ELSE 0 END";
/// Every run that has not ended, and some that have.
const OPEN: &str = "\
    r.id IN (SELECT run FROM {s}.ready UNION ALL SELECT run FROM {s}.waiting UNION ALL \
             SELECT unnest(runs) FROM {s}.holding)";

type Param<'p> = (&'p (dyn ToSql + Sync), Type);

/// A statement that gets longer with what is asked. Its words are ours; values travel apart.
struct Text<'p> {
    sql: String,
    schema: &'p str,
    params: Vec<Param<'p>>,
}

impl<'p> Text<'p> {
    fn narrow(&mut self, condition: &str, value: Option<Param<'p>>) {
        if let Some(value) = value {
            self.params.push(value);
            self.add(&condition.replace('?', &format!("${}", self.params.len())));
        }
    }

    fn add(&mut self, condition: &str) {
        self.sql.push_str(" AND ");
        self.sql.push_str(&qualified(condition, self.schema));
    }
}

/// The run that a key stands for.
pub(crate) async fn by_key(
    session: &Session,
    workflow: &str,
    key: &str,
) -> Result<Option<windlass_core::RunId>, Fault> {
    let rows = session.query(KEY, &[&workflow, &key]).await?;
    rows.first().map(|row| column::run_id(row, 0)).transpose()
}

/// Runs that fit a query, newest first.
pub(crate) async fn find(session: &Session, schema: &str, query: &Query) -> Result<Page, Fault> {
    let states: Vec<i16> = query.states.iter().map(|state| *state as i16).collect();
    let limit = i64::try_from(query.limit).unwrap_or(i64::MAX).saturating_add(1);
    let (workflow, queue) = (query.workflow.as_deref(), query.queue.as_deref());
    let without = query.without.as_deref();
    let (since, until) = (query.since.map(|time| time.0), query.until.map(|time| time.0));
    let after = query.after.map(column::run);

    let mut text = Text { sql: qualified(COLUMNS, schema), schema, params: Vec::new() };
    text.narrow("r.workflow = ?", workflow.as_ref().map(|value| (value as _, Type::TEXT)));
    text.narrow("NOT starts_with(r.workflow, ?)", without.as_ref().map(|value| (value as _, Type::TEXT)));
    text.narrow("r.queue = ?", queue.as_ref().map(|value| (value as _, Type::TEXT)));
    text.narrow("r.key = ?", query.key.as_ref().map(|value| (value as _, Type::TEXT)));
    let tag = query.tag.as_ref().map(|value| (value as _, Type::TEXT));
    text.narrow("r.id IN (SELECT run FROM {s}.tag WHERE tag = ?)", tag);
    text.narrow("r.created_at >= ?", since.as_ref().map(|value| (value as _, Type::INT8)));
    text.narrow("r.created_at < ?", until.as_ref().map(|value| (value as _, Type::INT8)));
    text.narrow("r.id < ?", after.as_ref().map(|value| (value as _, Type::UUID)));
    if !states.is_empty() {
        let wanted: Option<Param<'_>> = Some((&states, Type::INT2_ARRAY));
        text.narrow(&format!("{STATE} = ANY(?)"), wanted.clone());
        // These are few, and found without looking at every run.
        if query.states.iter().all(|state| !state.is_terminal()) {
            text.add(OPEN);
        } else if query.states.iter().all(|state| state.is_terminal() && *state != RunState::Completed) {
            text.narrow("r.id IN (SELECT run FROM {s}.ended WHERE state <> 6 AND state = ANY(?))", wanted);
        }
    }
    text.params.push((&limit, Type::INT8));
    let Text { mut sql, params, .. } = text;
    sql.push_str(&format!(" ORDER BY r.id DESC LIMIT ${}", params.len()));
    sql.push_str(&qualified(HOLDERS, schema));
    let rows = session.client().query_typed(&sql, &params).await?;
    let more = rows.len() > query.limit;
    let runs = rows.iter().take(query.limit).map(summary).collect::<Result<_, _>>()?;
    Ok(Page { runs, more })
}

fn summary(row: &Row) -> Result<RunSummary, Fault> {
    Ok(RunSummary {
        id: column::run_id(row, 0)?,
        workflow: Arc::from(row.try_get::<_, &str>(1)?),
        queue: Arc::from(row.try_get::<_, &str>(2)?),
        priority: column::priority(row, 3)?,
        key: row.try_get(4)?,
        tags: column::items(row, 5)?,
        created_at: column::time(row, 6)?,
        standing: image::standing(row, 7)?,
    })
}
