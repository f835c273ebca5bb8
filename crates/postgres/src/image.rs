//! Runs with all that is needed to continue them.

use std::{collections::HashMap, sync::Arc};

use tokio_postgres::{Row, types::ToSql};
use uuid::Uuid;
use windlass_core::{RunId, StepKind};
use windlass_store::{
    Claim, DefinitionId, End, InboxRow, Parent, Place, RunImage, RunRow, SavedRow, Standing, StepRow,
    StoreError, Wait,
};

use crate::{column, error::Fault, session::Session, spread, tenure::Tenure};

const RUNS: &str = "\
    SELECT r.id, r.workflow, r.queue, r.priority, r.created_at, r.timeout, r.input, r.context, r.key, r.tags, \
           r.forked_from, r.trace, r.parent, r.parent_topic, r.queue_key, \
           r.generation, coalesce(r.definition, e.definition, h.definition), r.opened_at, r.recoveries, h.node, h.claim, \
           e.state, e.at, e.output, e.failure, \
           w.state, w.until, w.topics, w.reason, w.blocked_by, \
           e.step_name, e.step_attempt, e.step_epoch, e.step_started_at, e.step_ended_at, e.step_output \
    FROM unnest($1::uuid[]) WITH ORDINALITY AS u (run, no) \
    CROSS JOIN LATERAL (SELECT * FROM {s}.run WHERE id = u.run OFFSET 0) AS r \
    LEFT JOIN LATERAL (\
        SELECT * FROM {s}.ended WHERE workflow = r.workflow AND run = r.id AND generation = r.generation OFFSET 0) AS e ON true \
    LEFT JOIN LATERAL (SELECT * FROM {s}.waiting WHERE run = r.id OFFSET 0) AS w ON true \
    LEFT JOIN LATERAL (\
        SELECT l.node, l.claim, l.definition FROM {s}.listed AS l \
        WHERE e.run IS NULL AND w.run IS NULL AND u.run = ANY(l.runs) \
          AND l.run = u.run AND l.tenure = r.tenure OFFSET 0) AS h ON true \
    ORDER BY u.no";
const STEPS: &str = "\
    SELECT s.run, s.generation, s.name, s.attempt, s.epoch, s.kind, s.started_at, s.ended_at, s.output, s.detail \
    FROM unnest($1::uuid[]) AS u (run) CROSS JOIN LATERAL (SELECT * FROM {s}.step WHERE run = u.run OFFSET 0) AS s \
    ORDER BY s.seq";
/// What an ended run did not take in is gone, also what came while it ended.
const INBOX: &str = "\
    SELECT i.seq, i.run, i.topic, i.body, i.at \
    FROM unnest($1::uuid[]) AS u (run) CROSS JOIN LATERAL (SELECT * FROM {s}.inbox WHERE run = u.run OFFSET 0) AS i \
    CROSS JOIN LATERAL (SELECT * FROM {s}.run WHERE id = i.run OFFSET 0) AS r \
    WHERE NOT EXISTS (SELECT FROM {s}.ended AS e \
        WHERE e.workflow = r.workflow AND e.run = r.id AND e.generation = r.generation OFFSET 0) \
    ORDER BY i.seq";
/// The same of runs that have not ended for sure.
const HELD_INBOX: &str = "\
    SELECT i.seq, i.run, i.topic, i.body, i.at \
    FROM unnest($1::uuid[]) AS u (run) CROSS JOIN LATERAL (SELECT * FROM {s}.inbox WHERE run = u.run OFFSET 0) AS i \
    ORDER BY i.seq";
const SAVED: &str = "\
    SELECT s.run, s.step, s.value FROM unnest($1::uuid[]) AS u (run) \
    CROSS JOIN LATERAL (SELECT * FROM {s}.saved WHERE run = u.run OFFSET 0) AS s \
    ORDER BY s.step";
const ENDS: &str = "\
    SELECT e.run, e.state, e.at, e.output, e.failure \
    FROM unnest($1::uuid[]) AS u (run) CROSS JOIN LATERAL (SELECT * FROM {s}.run WHERE id = u.run OFFSET 0) AS r \
    CROSS JOIN LATERAL (SELECT * FROM {s}.ended WHERE workflow = r.workflow AND run = r.id AND generation = r.generation \
                        OFFSET 0) AS e";

/// Where the columns of a run's standing begin: generation, definition, opening, recoveries, holder, end and wait.
const STANDING: usize = 15;
const DEFINITION: usize = STANDING + 1;
/// In the answer to a claim: whether a run is new.
const IS_NEW: usize = 19;
/// Then the row of `holding` that it came with, and its tenure.
const CAME_WITH: usize = 20;
const TENURE: usize = 21;
/// Where the columns of the step begin that is kept with an end.
const FOLDED: usize = 30;

/// These runs, in this order, with their records.
pub(crate) async fn load(session: &Session, runs: &[Uuid]) -> Result<Vec<RunImage>, Fault> {
    if runs.is_empty() {
        return Ok(Vec::new());
    }
    let asked: [&(dyn ToSql + Sync); 1] = [&runs];
    // They travel together, in the order in which a published attempt goes: whoever executes it may deliver its outcome
    // between two of them, and it is then seen twice rather than not at all.
    for sql in [RUNS, spread::OF_RUNS, SAVED, STEPS, INBOX] {
        session.statement(sql).await?;
    }
    let (found, published, saved, steps, inbox) = tokio::join!(
        session.query(RUNS, &asked),
        session.query(spread::OF_RUNS, &asked),
        session.query(SAVED, &asked),
        session.query(STEPS, &asked),
        session.query(INBOX, &asked),
    );
    let found = found?;
    let mut images = found.iter().map(image).collect::<Result<Vec<_>, _>>()?;
    fill(&mut images, &steps?, &inbox?, &saved?, &published?)?;
    for (row, image) in found.iter().zip(&mut images) {
        image.steps.extend(folded(row, image)?);
    }
    Ok(images)
}

/// How each of the runs is held that were just claimed: the row of `holding` that it came with, and its tenure. A run that
/// does not say what version has it is of the one that claimed it.
pub(crate) fn holds(request: &Claim, taken: &[Row]) -> Result<Vec<(i64, Tenure)>, Fault> {
    let hold = |row: &Row| {
        let definition = match row.try_get::<_, Option<i64>>(DEFINITION)? {
            Some(_) => None,
            None => Some(version(request, row.try_get(1)?)?.0),
        };
        Ok((row.try_get(CAME_WITH)?, Tenure { no: row.try_get(TENURE)?, definition }))
    };
    taken.iter().map(hold).collect()
}

/// The version of a workflow that a claim is for.
fn version(request: &Claim, workflow: &str) -> Result<DefinitionId, Fault> {
    let found = request.workflows.iter().find(|(name, _)| **name == *workflow);
    let none = || StoreError::Broken(format!("a run of `{workflow}` was claimed, which was not asked for"));
    Ok(found.ok_or_else(none)?.1)
}

/// Runs that were just claimed, in this order, with their records. A new one has none but what lies in its inbox.
pub(crate) async fn claimed(
    session: &Session,
    request: &Claim,
    taken: &[Row],
) -> Result<Vec<RunImage>, Fault> {
    if taken.is_empty() {
        return Ok(Vec::new());
    }
    let (mut all, mut old): (Vec<Uuid>, Vec<Uuid>) = (Vec::new(), Vec::new());
    let mut images = Vec::with_capacity(taken.len());
    for row in taken {
        let id: Uuid = row.try_get(0)?;
        all.push(id);
        if !row.try_get::<_, bool>(IS_NEW)? {
            old.push(id);
        }
        let place = Place::Owned { node: request.node, claim: request.claim };
        let (run, mut standing) = (run_row(row)?, carried(row, STANDING, place)?);
        if standing.definition.is_none() {
            standing.definition = Some(version(request, &run.workflow)?);
        }
        images.push(unfilled(run, standing));
    }
    let is_new = old.is_empty();
    let (all, old): ([&(dyn ToSql + Sync); 1], [&(dyn ToSql + Sync); 1]) = ([&all], [&old]);
    if is_new {
        let inbox = session.query(HELD_INBOX, &all).await?;
        fill(&mut images, &[], &inbox, &[], &[])?;
        return Ok(images);
    }
    for sql in [spread::OF_RUNS, SAVED, STEPS, HELD_INBOX] {
        session.statement(sql).await?;
    }
    // As they are at one instant: whoever executes a published attempt may deliver its outcome meanwhile. They travel
    // together.
    let (begun, published, saved, steps, inbox, done) = tokio::join!(
        session.begin_reading(),
        session.query(spread::OF_RUNS, &old),
        session.query(SAVED, &old),
        session.query(STEPS, &old),
        session.query(HELD_INBOX, &all),
        session.commit(),
    );
    begun?;
    fill(&mut images, &steps?, &inbox?, &saved?, &published?)?;
    done?;
    Ok(images)
}

/// Gives each run what was read of it.
fn fill(
    images: &mut [RunImage],
    steps: &[Row],
    inbox: &[Row],
    saved: &[Row],
    published: &[Row],
) -> Result<(), Fault> {
    if [steps, inbox, saved, published].iter().all(|rows| rows.is_empty()) {
        return Ok(());
    }
    let places: HashMap<RunId, usize> =
        images.iter().enumerate().map(|(at, image)| (image.run.id, at)).collect();
    for row in steps {
        if let Some(&at) = places.get(&column::run_id(row, 0)?) {
            images[at].steps.push(step_row(row)?);
        }
    }
    for row in inbox {
        let row = inbox_row(row)?;
        if let Some(&at) = places.get(&row.run) {
            images[at].inbox.push(row);
        }
    }
    for row in saved {
        if let Some(&at) = places.get(&column::run_id(row, 0)?) {
            let step = Arc::from(row.try_get::<_, &str>(1)?);
            images[at].saved.push(SavedRow { step, value: column::bytes(row, 2)? });
        }
    }
    for row in published {
        let row = spread::spread_row(row)?;
        if let Some(&at) = places.get(&row.run) {
            images[at].published.push(row);
        }
    }
    Ok(())
}

/// The ends of those among these runs that stand ended.
pub(crate) async fn ends(session: &Session, runs: &[RunId]) -> Result<Vec<(RunId, End)>, Fault> {
    let mut asked: Vec<_> = runs.iter().map(|run| column::run(*run)).collect();
    asked.sort_unstable();
    asked.dedup();
    let rows = session.query(ENDS, &[&asked]).await?;
    rows.iter().map(|row| Ok((column::run_id(row, 0)?, end(row, 1)?))).collect()
}

fn image(row: &Row) -> Result<RunImage, Fault> {
    Ok(unfilled(run_row(row)?, standing(row, STANDING)?))
}

fn unfilled(run: RunRow, standing: Standing) -> RunImage {
    RunImage { run, standing, steps: Vec::new(), inbox: Vec::new(), saved: Vec::new(), published: Vec::new() }
}

fn run_row(row: &Row) -> Result<RunRow, Fault> {
    let timeout: Option<i64> = row.try_get(5)?;
    Ok(RunRow {
        id: column::run_id(row, 0)?,
        workflow: Arc::from(row.try_get::<_, &str>(1)?),
        queue: Arc::from(row.try_get::<_, &str>(2)?),
        priority: column::priority(row, 3)?,
        created_at: column::time(row, 4)?,
        timeout: timeout.map(column::span),
        input: column::bytes(row, 6)?,
        context: column::maybe_bytes(row, 7)?,
        key: row.try_get(8)?,
        tags: column::items(row, 9)?,
        forked_from: row.try_get::<_, Option<Uuid>>(10)?.map(|id| RunId::from_bytes(id.into_bytes())),
        trace: row.try_get(11)?,
        parent: parent(row, 12)?,
        queue_key: row.try_get::<_, Option<&str>>(14)?.map(Arc::from),
    })
}

/// The run that hears of another one's end, from two columns.
pub(crate) fn parent(row: &Row, first: usize) -> Result<Option<Parent>, Fault> {
    let Some(run) = row.try_get::<_, Option<Uuid>>(first)? else { return Ok(None) };
    Ok(Some(Parent { run: RunId::from_bytes(run.into_bytes()), topic: row.try_get(first + 1)? }))
}

/// The step that is kept with the end of a run, unless it was recorded before.
fn folded(row: &Row, image: &RunImage) -> Result<Option<StepRow>, Fault> {
    let Some(name) = row.try_get::<_, Option<&str>>(FOLDED)? else { return Ok(None) };
    let (generation, attempt) = (image.standing.generation, column::number(row, FOLDED + 1)?);
    let is_it = |step: &StepRow| {
        step.kind != StepKind::Started
            && (step.generation, &*step.name, step.attempt) == (generation, name, attempt)
    };
    if image.steps.iter().any(is_it) {
        return Ok(None);
    }
    let output = match &image.standing.place {
        Place::Ended(end) => end.output.clone(),
        _ => None,
    };
    Ok(Some(StepRow {
        generation,
        name: Arc::from(name),
        attempt,
        epoch: column::number(row, FOLDED + 2)?,
        kind: StepKind::Completed,
        started_at: column::time(row, FOLDED + 3)?,
        ended_at: column::time(row, FOLDED + 4)?,
        output: column::maybe_bytes(row, FOLDED + 5)?.or(output),
        detail: None,
    }))
}

/// Where a run stands, from the columns that begin at `first`: see [`RUNS`].
pub(crate) fn standing(row: &Row, first: usize) -> Result<Standing, Fault> {
    let (node, ended, wait) = (first + 4, first + 6, first + 10);
    let is_there = |index| Ok::<_, Fault>(row.try_get::<_, Option<i16>>(index)?.is_some());
    let place = if is_there(ended)? {
        Place::Ended(end(row, ended)?)
    } else if is_there(wait)? {
        Place::Waiting(Wait {
            state: column::run_state(row, wait)?,
            until: row.try_get::<_, Option<i64>>(wait + 1)?.map(windlass_core::Time),
            topics: row.try_get(wait + 2)?,
            reason: row.try_get(wait + 3)?,
            blocked_by: row.try_get::<_, Option<i64>>(wait + 4)?.map(DefinitionId),
        })
    } else if row.try_get::<_, Option<Uuid>>(node)?.is_some() {
        Place::Owned { node: column::node_id(row, node)?, claim: column::claim_id(row, node + 1)? }
    } else {
        Place::Ready
    };
    carried(row, first, place)
}

/// A standing with what a run carries along.
fn carried(row: &Row, first: usize, place: Place) -> Result<Standing, Fault> {
    Ok(Standing {
        place,
        generation: column::number(row, first)?,
        definition: row.try_get::<_, Option<i64>>(first + 1)?.map(DefinitionId),
        opened_at: column::time(row, first + 2)?,
        recoveries: column::number(row, first + 3)?,
    })
}

fn end(row: &Row, first: usize) -> Result<End, Fault> {
    Ok(End {
        state: column::run_state(row, first)?,
        at: column::time(row, first + 1)?,
        output: column::maybe_bytes(row, first + 2)?,
        failure: column::maybe_bytes(row, first + 3)?,
    })
}

fn step_row(row: &Row) -> Result<StepRow, Fault> {
    Ok(StepRow {
        generation: column::number(row, 1)?,
        name: Arc::from(row.try_get::<_, &str>(2)?),
        attempt: column::number(row, 3)?,
        epoch: column::number(row, 4)?,
        kind: column::step_kind(row, 5)?,
        started_at: column::time(row, 6)?,
        ended_at: column::time(row, 7)?,
        output: column::maybe_bytes(row, 8)?,
        detail: column::maybe_bytes(row, 9)?,
    })
}

/// A row of an inbox: number, run, topic, body, time.
pub(crate) fn inbox_row(row: &Row) -> Result<InboxRow, Fault> {
    Ok(InboxRow {
        seq: row.try_get(0)?,
        run: column::run_id(row, 1)?,
        topic: row.try_get(2)?,
        body: column::bytes(row, 3)?,
        at: column::time(row, 4)?,
    })
}
