//! Finding runs.

use std::{collections::HashMap, sync::Arc};

use tokio_postgres::{
    Row,
    types::{ToSql, Type},
};
use uuid::Uuid;
use windlass_core::{RunId, RunState};
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
           w.state AS wait_state, w.until, w.topics, w.reason, w.blocked_by";
/// Where a run stands, as far as one row says so.
const PLACES: &str = " \
    LEFT JOIN LATERAL (\
        SELECT * FROM {s}.ended WHERE workflow = r.workflow AND run = r.id AND generation = r.generation OFFSET 0) AS e ON true \
    LEFT JOIN LATERAL (SELECT * FROM {s}.waiting WHERE run = r.id OFFSET 0) AS w ON true \
    WHERE true";
const RUNS: &str = " FROM {s}.run AS r";
/// The same for some that are named: the planner has no choice but to look each of them up.
const NAMED: &str = ") AS c CROSS JOIN LATERAL (SELECT * FROM {s}.run WHERE id = c.id OFFSET 0) AS r";
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
/// How few there are that have not ended, if there are no more than this.
const FEW_OPEN: &str = "\
    SELECT (SELECT count(*) FROM (SELECT FROM {s}.ready LIMIT $1) AS a) \
         + (SELECT count(*) FROM (SELECT FROM {s}.waiting LIMIT $1) AS w)";
/// The run that comes after so many before a given one, in the listing of all, of a tag, of a workflow's ends, or of those
/// that ended otherwise than completed.
const NTH: &str = "SELECT id FROM {s}.run WHERE id < $1 ORDER BY id DESC OFFSET $2 LIMIT 1";
const NTH_TAGGED: &str =
    "SELECT run FROM {s}.tag WHERE run < $1 AND tag = $3 ORDER BY run DESC OFFSET $2 LIMIT 1";
const NTH_ENDED: &str = "\
    SELECT run FROM {s}.ended WHERE run < $1 AND workflow = $3 ORDER BY run DESC OFFSET $2 LIMIT 1";
const NTH_OTHERWISE: &str = "\
    SELECT n.run FROM unnest($3::smallint[]) AS u (state) CROSS JOIN LATERAL (\
        SELECT run FROM {s}.ended WHERE run < $1 AND state = u.state AND state <> 6 ORDER BY run DESC OFFSET $2 LIMIT 1) AS n \
    ORDER BY n.run DESC LIMIT 1";

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
            let condition = self.filled(condition, value);
            self.sql.push_str(" AND ");
            self.push(&condition);
        }
    }

    /// Words with a value in its place.
    fn filled(&mut self, words: &str, value: Param<'p>) -> String {
        self.params.push(value);
        words.replace('?', &format!("${}", self.params.len()))
    }

    fn push(&mut self, words: &str) {
        self.sql.push_str(&qualified(words, self.schema));
    }
}

/// From where runs are taken that may fit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    /// All of them, newest first.
    Runs,
    Tag,
    /// Those that have not ended, and some that have.
    Open,
    /// Those that ended otherwise than completed.
    Otherwise,
    /// Those of a workflow that have ended, and those that have not.
    Workflow,
}

/// What is asked, as the server reads it.
struct Asked<'q> {
    query: &'q Query,
    workflow: Option<&'q str>,
    queue: Option<&'q str>,
    without: Option<&'q str>,
    states: Vec<i16>,
    since: Option<i64>,
    until: Option<i64>,
    after: Uuid,
    source: Source,
    /// The last run that is looked at, if not all are.
    floor: Option<Uuid>,
}

impl<'q> Asked<'q> {
    async fn new(session: &Session, query: &'q Query) -> Result<Self, Fault> {
        let mut asked = Self {
            query,
            workflow: query.workflow.as_deref(),
            queue: query.queue.as_deref(),
            without: query.without.as_deref(),
            states: query.states.iter().map(|state| *state as i16).collect(),
            since: query.since.map(|time| time.0),
            until: query.until.map(|time| time.0),
            after: query.after.map_or(Uuid::max(), column::run),
            source: Source::Runs,
            floor: None,
        };
        let only = |fits: fn(RunState) -> bool| {
            !query.states.is_empty() && query.states.iter().all(|state| fits(*state))
        };
        let is_open = only(|state| !state.is_terminal());
        let is_otherwise = only(|state| state.is_terminal() && state != RunState::Completed);
        let is_bounded = query.look < usize::MAX;
        asked.source = if query.key.is_some() {
            Source::Runs
        } else if query.tag.is_some() {
            Source::Tag
        } else if is_otherwise {
            Source::Otherwise
        } else if is_bounded && !(is_open || query.workflow.is_some())
            || is_bounded && !few_open(session, query.look).await?
        {
            Source::Runs
        } else if is_open {
            Source::Open
        } else if is_bounded {
            Source::Workflow
        } else {
            Source::Runs
        };
        if is_bounded {
            asked.floor = asked.nth(session).await?;
        }
        Ok(asked)
    }

    /// The last run that is looked at before the search is given up for now.
    async fn nth(&self, session: &Session) -> Result<Option<Uuid>, Fault> {
        let last = i64::try_from(self.query.look.saturating_sub(1)).unwrap_or(i64::MAX);
        let rows = match self.source {
            _ if self.query.key.is_some() => return Ok(None),
            Source::Open => return Ok(None),
            Source::Runs => session.query(NTH, &[&self.after, &last]).await?,
            Source::Tag => session.query(NTH_TAGGED, &[&self.after, &last, &self.query.tag]).await?,
            Source::Otherwise => session.query(NTH_OTHERWISE, &[&self.after, &last, &self.states]).await?,
            Source::Workflow => session.query(NTH_ENDED, &[&self.after, &last, &self.workflow]).await?,
        };
        Ok(rows.first().map(|row| row.try_get(0)).transpose()?)
    }

    /// What follows the columns: the runs that fit. Answers what they are in order by.
    fn rest<'p>(&'p self, text: &mut Text<'p>) -> &'static str {
        let query = self.query;
        let bounds = |text: &mut Text<'p>| {
            text.narrow("run < ?", Some((&self.after, Type::UUID)));
            text.narrow("run >= ?", self.floor.as_ref().map(|floor| (floor as _, Type::UUID)));
        };
        let open = "SELECT run FROM {s}.ready UNION ALL SELECT run FROM {s}.waiting UNION ALL SELECT unnest(runs) FROM {s}.holding";
        let named = match self.source {
            Source::Runs => None,
            Source::Open => Some(open.to_owned()),
            Source::Tag => {
                let tag = query.tag.as_ref().map(|tag| tag as &(dyn ToSql + Sync));
                tag.map(|tag| text.filled("SELECT run FROM {s}.tag WHERE tag = ?", (tag, Type::TEXT)))
            }
            Source::Otherwise => {
                let states: Param<'p> = (&self.states, Type::INT2_ARRAY);
                Some(text.filled("SELECT run FROM {s}.ended WHERE state <> 6 AND state = ANY(?)", states))
            }
            Source::Workflow => {
                let workflow = self.workflow.as_ref().map(|name| name as &(dyn ToSql + Sync));
                workflow.map(|name| {
                    let ended =
                        text.filled("SELECT run FROM {s}.ended WHERE workflow = ?", (name, Type::TEXT));
                    format!("{open} UNION ALL {ended}")
                })
            }
        };
        let order = match named {
            None => {
                text.push(RUNS);
                "r.id"
            }
            Some(named) => {
                text.push(" FROM (SELECT DISTINCT run AS id FROM (");
                text.push(&named);
                text.push(") AS n (run) WHERE true");
                bounds(text);
                text.push(NAMED);
                "c.id"
            }
        };
        text.push(PLACES);
        text.narrow("r.workflow = ?", self.workflow.as_ref().map(|value| (value as _, Type::TEXT)));
        text.narrow(
            "NOT starts_with(r.workflow, ?)",
            self.without.as_ref().map(|value| (value as _, Type::TEXT)),
        );
        text.narrow("r.queue = ?", self.queue.as_ref().map(|value| (value as _, Type::TEXT)));
        text.narrow("r.key = ?", query.key.as_ref().map(|value| (value as _, Type::TEXT)));
        if self.source != Source::Tag {
            let tag = query.tag.as_ref().map(|value| (value as _, Type::TEXT));
            text.narrow("r.id IN (SELECT run FROM {s}.tag WHERE tag = ?)", tag);
        }
        text.narrow("r.created_at >= ?", self.since.as_ref().map(|value| (value as _, Type::INT8)));
        text.narrow("r.created_at < ?", self.until.as_ref().map(|value| (value as _, Type::INT8)));
        text.narrow("r.id < ?", Some((&self.after, Type::UUID)));
        text.narrow("r.id >= ?", self.floor.as_ref().map(|value| (value as _, Type::UUID)));
        if !self.states.is_empty() {
            text.narrow(&format!("{STATE} = ANY(?)"), Some((&self.states, Type::INT2_ARRAY)));
        }
        order
    }
}

/// Whether so few runs have not ended that all of them may be looked at.
async fn few_open(session: &Session, look: usize) -> Result<bool, Fault> {
    let limit = i64::try_from(look.max(1_000)).unwrap_or(i64::MAX);
    Ok(session.one(FEW_OPEN, &[&limit]).await?.try_get::<_, i64>(0)? < limit)
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
    let asked = Asked::new(session, query).await?;
    let limit = i64::try_from(query.limit).unwrap_or(i64::MAX).saturating_add(1);
    let mut text = Text { sql: String::new(), schema, params: Vec::new() };
    text.push(COLUMNS);
    let order = asked.rest(&mut text);
    text.params.push((&limit, Type::INT8));
    let end = format!(" ORDER BY {order} DESC LIMIT ${}", text.params.len());
    text.push(&end);
    text.push(HOLDERS);
    let rows = session.client().query_typed(&text.sql, &text.params).await?;
    let is_full = rows.len() > query.limit;
    let runs: Vec<RunSummary> = rows.iter().take(query.limit).map(summary).collect::<Result<_, _>>()?;
    let next = match runs.last() {
        Some(last) if is_full => Some(last.id),
        None if is_full => query.after.or(Some(RunId::LAST)),
        _ => asked.floor.map(|floor| RunId::from_bytes(floor.into_bytes())),
    };
    Ok(Page { runs, more: next.is_some(), next })
}

/// How many runs fit a query, by state, and whether these are all.
pub(crate) async fn count(
    session: &Session,
    schema: &str,
    query: &Query,
) -> Result<(HashMap<RunState, u64>, bool), Fault> {
    let asked = Asked::new(session, query).await?;
    let mut text = Text { sql: String::new(), schema, params: Vec::new() };
    text.push(&format!("SELECT ({STATE})::smallint, count(*)"));
    asked.rest(&mut text);
    text.push(" GROUP BY 1");
    let rows = session.client().query_typed(&text.sql, &text.params).await?;
    let count = |row: &Row| Ok((column::run_state(row, 0)?, row.try_get::<_, i64>(1)?.cast_unsigned()));
    let counts = rows.iter().map(count).collect::<Result<_, Fault>>()?;
    Ok((counts, asked.floor.is_none()))
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
