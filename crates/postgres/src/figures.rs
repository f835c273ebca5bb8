//! Counts, for people. Whatever there is much of is counted no further than it is asked for.

use std::{collections::BTreeMap, sync::Arc};

use tokio_postgres::Row;
use uuid::Uuid;
use windlass_core::{RunId, RunState, StepKind, Time};
use windlass_store::{Backlog, Count, Query, QueueBacklog, StepRow, Tally};

use crate::{column, error::Fault, find, session::Session};

/// An end counts if its run stands there: those of generations that were reopened lie beside it.
const ENDED: &str = "\
    SELECT e.state, count(*) FILTER (WHERE r.generation = e.generation), count(*) \
    FROM (SELECT run, generation, state FROM {s}.ended WHERE NOT starts_with(workflow, $1) LIMIT $2) AS e \
    CROSS JOIN LATERAL (SELECT generation FROM {s}.run WHERE id = e.run OFFSET 0) AS r GROUP BY e.state";
const ENDED_OF: &str = "\
    SELECT e.state, count(*) FILTER (WHERE r.generation = e.generation), count(*) \
    FROM (SELECT run, generation, state FROM {s}.ended WHERE workflow = $1 ORDER BY workflow, run DESC LIMIT $2) AS e \
    CROSS JOIN LATERAL (SELECT generation FROM {s}.run WHERE id = e.run OFFSET 0) AS r GROUP BY e.state";
const OTHERWISE: &str = "\
    SELECT count(*) FILTER (WHERE ($2::text IS NULL OR e.workflow = $2) AND NOT starts_with(e.workflow, $3)), count(*) \
    FROM (SELECT workflow FROM {s}.ended WHERE state = $1 AND state <> 6 ORDER BY state, run DESC LIMIT $4) AS e";
const WAITING: &str = "\
    SELECT w.state, count(*) FILTER (WHERE ($1::text IS NULL OR w.workflow = $1) AND NOT starts_with(w.workflow, $2)), count(*) \
    FROM (SELECT workflow, state FROM {s}.waiting LIMIT $3) AS w GROUP BY w.state";
/// A run that a node has held before is on its way back, not new.
const READY: &str = "\
    SELECT (CASE WHEN r.definition IS NULL THEN 0 ELSE 2 END)::smallint, \
           count(*) FILTER (WHERE ($1::text IS NULL OR a.workflow = $1) AND NOT starts_with(a.workflow, $2)), count(*) \
    FROM (SELECT run, workflow FROM {s}.ready LIMIT $3) AS a \
    CROSS JOIN LATERAL (SELECT definition FROM {s}.run WHERE id = a.run OFFSET 0) AS r GROUP BY 1";
const HELD: &str = "\
    SELECT 1::smallint, \
           count(*) FILTER (WHERE ($1::text IS NULL OR h.workflow = $1) AND NOT starts_with(h.workflow, $2)), count(*) \
    FROM (SELECT workflow FROM {s}.held LIMIT $3) AS h";
const READY_QUEUES: &str =
    "SELECT queue, count(*) FROM (SELECT queue FROM {s}.ready LIMIT $1) AS a GROUP BY queue";
const OLDEST: &str = "\
    SELECT a.queue, min(r.opened_at) FROM (SELECT queue, run FROM {s}.ready LIMIT $1) AS a \
    CROSS JOIN LATERAL (SELECT opened_at FROM {s}.run WHERE id = a.run OFFSET 0) AS r GROUP BY a.queue";
const HELD_QUEUES: &str =
    "SELECT queue, count(*) FROM (SELECT queue FROM {s}.held LIMIT $1) AS h GROUP BY queue";
const DUE: &str = "SELECT min(until) FROM {s}.waiting WHERE until IS NOT NULL";
const STEPS: &str = "\
    SELECT s.run, s.generation, s.name, s.attempt, s.epoch, s.kind, s.started_at, s.ended_at \
    FROM unnest($1::uuid[]) WITH ORDINALITY AS u (run, no) \
    CROSS JOIN LATERAL (SELECT * FROM {s}.step WHERE run = u.run OFFSET 0) AS s ORDER BY u.no, s.seq LIMIT $2";
const FOLDED: &str = "\
    SELECT r.id, e.generation, e.step_name, e.step_attempt, e.step_epoch, e.step_started_at, e.step_ended_at \
    FROM unnest($1::uuid[]) AS u (run) \
    CROSS JOIN LATERAL (SELECT * FROM {s}.run WHERE id = u.run OFFSET 0) AS r \
    LEFT JOIN LATERAL (\
        SELECT * FROM {s}.ended WHERE workflow = r.workflow AND run = r.id AND generation = r.generation OFFSET 0) AS e ON true";
/// In one order, so that two who add up do not wait for each other.
const ADD: &str = "\
    INSERT INTO {s}.tally AS t (at, workflow, state, count) \
    SELECT at, workflow, state, sum(count)::bigint \
    FROM unnest($1::bigint[], $2::text[], $3::smallint[], $4::bigint[]) AS u (at, workflow, state, count) \
    GROUP BY at, workflow, state ORDER BY at, workflow, state \
    ON CONFLICT (at, workflow, state) DO UPDATE SET count = t.count + excluded.count";
const FORGET: &str = "DELETE FROM {s}.tally WHERE at > 0 AND at < {s}.clock() - $1";
const SINCE: &str = "SELECT at, workflow, state, count FROM {s}.tally WHERE at >= $1 AND at <= $2";

fn rows(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// How many runs fit a query, by state.
pub(crate) async fn count(
    session: &Session,
    schema: &str,
    query: &Query,
    look: usize,
) -> Result<Vec<Count>, Fault> {
    let is_described = query.queue.is_some() || query.tag.is_some() || query.key.is_some();
    let seen = if is_described || query.since.is_some() || query.until.is_some() {
        let query = Query { after: None, look, ..query.clone() };
        let (counts, whole) = find::count(session, schema, &query).await?;
        RunState::ALL.map(|state| (counts.get(&state).copied().unwrap_or(0), whole))
    } else {
        count_places(session, query, look).await?
    };
    let wanted = |state: &RunState| query.states.is_empty() || query.states.contains(state);
    let count = |state: RunState| {
        let (count, whole) = seen[state as usize];
        Count { state, count, whole }
    };
    Ok(RunState::ALL.into_iter().filter(wanted).map(count).collect())
}

/// Counts runs by the places in which they stand, which tell their workflows: how many of each state, and whether that is
/// all.
async fn count_places(session: &Session, query: &Query, look: usize) -> Result<[(u64, bool); 10], Fault> {
    let mut seen = [(0, true); 10];
    let (workflow, without) = (query.workflow.as_deref(), query.without.as_deref());
    // Nothing begins with a byte that no name has; without a beginning everything would be left out.
    let without = without.unwrap_or("\u{1}");
    let limit = rows(look.saturating_add(1));
    let ended = match workflow {
        Some(workflow) if workflow.starts_with(without) => Vec::new(),
        Some(workflow) => session.query(ENDED_OF, &[&workflow, &limit]).await?,
        None => session.query(ENDED, &[&without, &limit]).await?,
    };
    if add(&mut seen, &ended)? >= limit {
        seen[RunState::Completed as usize].1 = false;
        for state in [RunState::Failed, RunState::Cancelled, RunState::Abandoned] {
            let asked: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
                [&(state as i16), &workflow, &without, &limit];
            let row = session.one(OTHERWISE, &asked).await?;
            let (count, all): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
            seen[state as usize] = (count.cast_unsigned(), all < limit);
        }
    }
    let waiting =
        [RunState::Pending, RunState::Suspended, RunState::Paused, RunState::Blocked, RunState::Undoing];
    let places: [(&'static str, &[RunState]); 3] = [
        (WAITING, &waiting),
        (READY, &[RunState::Pending, RunState::Suspended]),
        (HELD, &[RunState::Running]),
    ];
    for (sql, states) in places {
        let found = session.query(sql, &[&workflow, &without, &limit]).await?;
        if add(&mut seen, &found)? >= limit {
            states.iter().for_each(|state| seen[*state as usize].1 = false);
        }
    }
    Ok(seen)
}

/// Adds what was found of each state. Answers how many rows were looked at.
fn add(seen: &mut [(u64, bool); 10], found: &[Row]) -> Result<i64, Fault> {
    let mut looked = 0;
    for row in found {
        seen[column::run_state(row, 0)? as usize].0 += row.try_get::<_, i64>(1)?.cast_unsigned();
        looked += row.try_get::<_, i64>(2)?;
    }
    Ok(looked)
}

/// Notes a number that was found of a queue.
type Note = fn(&mut QueueBacklog, i64);

/// What waits to be claimed and what is held, of every queue.
pub(crate) async fn backlog(session: &Session, look: usize) -> Result<Backlog, Fault> {
    let mut queues: BTreeMap<String, QueueBacklog> = BTreeMap::new();
    let (narrow, limit) = (rows(look.saturating_mul(100)), rows(look));
    let parts: [(&'static str, i64, Note); 3] = [
        (READY_QUEUES, narrow, |queue, count| queue.ready = count.cast_unsigned()),
        (OLDEST, limit, |queue, at| queue.oldest = Some(Time(at))),
        (HELD_QUEUES, limit, |queue, count| queue.held = count.cast_unsigned()),
    ];
    for (sql, limit, set) in parts {
        for row in session.query(sql, &[&limit]).await? {
            let name: &str = row.try_get(0)?;
            let queue = queues.entry(name.to_owned()).or_insert_with(|| QueueBacklog::new(name.into()));
            set(queue, row.try_get(1)?);
        }
    }
    let due = session.one(DUE, &[]).await?.try_get::<_, Option<i64>>(0)?;
    Ok(Backlog { queues: queues.into_values().collect(), due: due.map(Time) })
}

/// The recorded steps of runs, without what they carry.
pub(crate) async fn outlines(
    session: &Session,
    runs: &[RunId],
    limit: usize,
) -> Result<Vec<(RunId, Vec<StepRow>)>, Fault> {
    let asked: Vec<Uuid> = runs.iter().map(|run| column::run(*run)).collect();
    let limit = rows(limit);
    let mut steps: BTreeMap<RunId, Vec<StepRow>> = BTreeMap::new();
    let found = session.query(STEPS, &[&asked, &limit]).await?;
    for row in &found {
        let kind = column::step_kind(row, 5)?;
        let step = StepRow {
            generation: column::number(row, 1)?,
            name: Arc::from(row.try_get::<_, &str>(2)?),
            attempt: column::number(row, 3)?,
            epoch: column::number(row, 4)?,
            kind,
            started_at: column::time(row, 6)?,
            ended_at: column::time(row, 7)?,
            output: None,
            detail: None,
        };
        steps.entry(column::run_id(row, 0)?).or_default().push(step);
    }
    let is_full = rows(found.len()) >= limit;
    let mut outlines = BTreeMap::new();
    for row in session.query(FOLDED, &[&asked]).await? {
        let run = column::run_id(&row, 0)?;
        let mut steps = steps.remove(&run).unwrap_or_default();
        if let Some(name) = row.try_get::<_, Option<&str>>(2)?
            && !is_full
        {
            let (generation, attempt) = (column::number(&row, 1)?, column::number(&row, 3)?);
            let is_it = |step: &StepRow| {
                step.kind != StepKind::Started
                    && (step.generation, &*step.name, step.attempt) == (generation, name, attempt)
            };
            if !steps.iter().any(is_it) {
                steps.push(StepRow {
                    generation,
                    name: name.into(),
                    attempt,
                    epoch: column::number(&row, 4)?,
                    kind: StepKind::Completed,
                    started_at: column::time(&row, 5)?,
                    ended_at: column::time(&row, 6)?,
                    output: None,
                    detail: None,
                });
            }
        }
        outlines.insert(run, steps);
    }
    Ok(runs.iter().filter_map(|run| Some((*run, outlines.remove(run)?))).collect())
}

/// Adds to what was counted.
pub(crate) async fn tally(session: &Session, tallies: &[Tally]) -> Result<(), Fault> {
    let (mut ats, mut workflows, mut states, mut counts) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for Tally { workflow, state, at, count } in tallies {
        for at in (*count > 0).then_some(at.0).into_iter().chain([Tally::EVER.0]) {
            ats.push(at);
            workflows.push(&**workflow);
            states.push(*state as i16);
            counts.push(*count);
        }
    }
    let kept = Tally::MINUTES as i64 * 60_000_000;
    session
        .transact(None, async |_| {
            session.execute(ADD, &[&ats, &workflows, &states, &counts]).await?;
            session.execute(FORGET, &[&kept]).await?;
            Ok(())
        })
        .await
}

/// What was counted from a minute on, or of all time.
pub(crate) async fn tallies(session: &Session, since: Time) -> Result<Vec<Tally>, Fault> {
    let until = if since == Tally::EVER { since } else { Time::MAX };
    let tally = |row: &Row| {
        let workflow = Arc::from(row.try_get::<_, &str>(1)?);
        let (state, at, count) = (column::run_state(row, 2)?, column::time(row, 0)?, row.try_get(3)?);
        Ok(Tally { workflow, state, at, count })
    };
    session.query(SINCE, &[&since.0, &until.0]).await?.iter().map(tally).collect()
}
