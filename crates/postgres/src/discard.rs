//! Runs that have ended: listing them, and forgetting them.

use std::{collections::HashMap, sync::Arc};

use tokio_postgres::Row;
use uuid::Uuid;
use windlass_core::{NodeId, RunId};
use windlass_store::{Aged, AgedRun, Refusal};

use crate::{batch::LOCK, column, error::Fault, session::Session};

const NEXT_WORKFLOW: &str = "SELECT workflow FROM {s}.ended WHERE workflow > $1 ORDER BY workflow LIMIT 1";
/// Only the end that a run stands at: those of generations that were reopened lie beside it.
const AGED: &str = "\
    SELECT e.run, e.generation, e.state, e.at FROM {s}.ended AS e \
    WHERE e.workflow = $1 AND e.run > $2 AND e.run < $3 \
      AND EXISTS (SELECT FROM {s}.run AS r WHERE r.id = e.run AND r.generation = e.generation OFFSET 0) \
    ORDER BY e.run LIMIT $4";
/// Whoever asks has locked the runs. What lies in the inbox of a parent that has ended is heard by nobody.
const JUDGE: &str = "\
    SELECT r.id, r.generation, e.run IS NOT NULL, \
           EXISTS (SELECT FROM {s}.inbox AS i \
               WHERE i.run = r.parent AND i.topic = r.parent_topic AND i.key = r.id || '/' || r.generation OFFSET 0) \
           AND EXISTS (SELECT FROM {s}.run AS p WHERE p.id = r.parent AND NOT EXISTS (SELECT FROM {s}.ended AS pe \
               WHERE pe.workflow = p.workflow AND pe.run = p.id AND pe.generation = p.generation OFFSET 0) OFFSET 0), \
           r.tags \
    FROM unnest($1::uuid[]) AS u (run) \
    CROSS JOIN LATERAL (SELECT * FROM {s}.run WHERE id = u.run OFFSET 0) AS r \
    LEFT JOIN LATERAL (\
        SELECT run FROM {s}.ended WHERE workflow = r.workflow AND run = r.id AND generation = r.generation OFFSET 0) AS e ON true";
const UNTAG: &str = "\
    DELETE FROM {s}.tag AS t USING unnest($1::text[], $2::uuid[]) AS u (tag, run) WHERE t.tag = u.tag AND t.run = u.run";
/// Runs that have gone from a node may be listed until the last of their list has. A new run of the same id would be taken
/// for one of them, so nobody's id takes its place: what else is known of each stays where it is.
const LISTED: &str = "SELECT l.no, l.run FROM {s}.listed AS l WHERE l.run = ANY($1) ORDER BY l.no";
const UNLIST: &str = "\
    UPDATE {s}.holding SET runs = array_replace(runs, $2, '00000000-0000-0000-0000-000000000000'::uuid) WHERE no = $1";
/// All that belongs to runs, themselves last: the others are found by them.
const REMOVE: [&str; 8] = [
    "DELETE FROM {s}.key WHERE ctid = ANY (ARRAY (\
        SELECT k.place FROM unnest($1::uuid[]) AS u (run) \
        CROSS JOIN LATERAL (SELECT * FROM {s}.run WHERE id = u.run OFFSET 0) AS r \
        CROSS JOIN LATERAL (SELECT ctid AS place FROM {s}.key \
            WHERE workflow = r.workflow AND key = r.key AND run = r.id OFFSET 0) AS k))",
    "DELETE FROM {s}.ended WHERE ctid = ANY (ARRAY (\
        SELECT e.place FROM unnest($1::uuid[]) AS u (run) \
        CROSS JOIN LATERAL (SELECT * FROM {s}.run WHERE id = u.run OFFSET 0) AS r \
        CROSS JOIN LATERAL (SELECT ctid AS place FROM {s}.ended WHERE workflow = r.workflow AND run = r.id OFFSET 0) AS e))",
    "DELETE FROM {s}.step WHERE run = ANY($1)",
    "DELETE FROM {s}.inbox WHERE run = ANY($1)",
    "DELETE FROM {s}.delivered WHERE run = ANY($1)",
    "DELETE FROM {s}.saved WHERE run = ANY($1)",
    "DELETE FROM {s}.spread WHERE run = ANY($1)",
    "DELETE FROM {s}.run WHERE id = ANY($1)",
];

/// A run as it stands, for whoever wants to forget it.
struct Found {
    generation: u32,
    is_ended: bool,
    is_awaited: bool,
    tags: Vec<String>,
}

/// Runs that stand ended.
pub(crate) async fn aged(session: &Session, request: &Aged) -> Result<Vec<AgedRun>, Fault> {
    let mut aged = Vec::new();
    let (mut workflow, mut after) = match &request.after {
        Some((workflow, run)) => (workflow.to_string(), column::run(*run)),
        // No workflow has this name, and every other comes after it.
        None => (String::new(), Uuid::nil()),
    };
    let before = column::run(request.before);
    while aged.len() < request.limit {
        let limit = i64::try_from(request.limit - aged.len()).unwrap_or(i64::MAX);
        let rows = session.query(AGED, &[&workflow, &after, &before, &limit]).await?;
        let name: Arc<str> = workflow.as_str().into();
        for row in rows {
            aged.push(aged_run(&row, &name)?);
        }
        let next = session.query(NEXT_WORKFLOW, &[&workflow]).await?;
        let Some(next) = next.first() else { break };
        (workflow, after) = (next.try_get(0)?, Uuid::nil());
    }
    Ok(aged)
}

fn aged_run(row: &Row, workflow: &Arc<str>) -> Result<AgedRun, Fault> {
    Ok(AgedRun {
        workflow: Arc::clone(workflow),
        run: column::run_id(row, 0)?,
        generation: column::number(row, 1)?,
        state: column::run_state(row, 2)?,
        at: column::time(row, 3)?,
    })
}

/// Forgets runs that stand ended in these generations.
pub(crate) async fn discard(
    session: &Session,
    node: Option<NodeId>,
    runs: &[(RunId, u32)],
) -> Result<Vec<Result<(), Refusal>>, Fault> {
    let ids: Vec<Uuid> = runs.iter().map(|(run, _)| column::run(*run)).collect();
    let discard = async |_| {
        session.execute(LOCK, &[&ids]).await?;
        let mut found = HashMap::new();
        for row in session.query(JUDGE, &[&ids]).await? {
            found.insert(column::run_id(&row, 0)?, Found::of(&row)?);
        }
        let (mut gone, mut tags, mut tagged) = (Vec::new(), Vec::new(), Vec::new());
        let mut answers = Vec::with_capacity(runs.len());
        for (run, generation) in runs {
            answers.push(found.get(run).ok_or(Refusal::Unknown).and_then(|found| found.judge(*generation)));
            if answers.last() == Some(&Ok(()))
                && let Some(found) = found.remove(run)
            {
                gone.push(column::run(*run));
                tagged.extend(found.tags.iter().map(|_| column::run(*run)));
                tags.extend(found.tags);
            }
        }
        if !tags.is_empty() {
            session.execute(UNTAG, &[&tags, &tagged]).await?;
        }
        if !gone.is_empty() {
            for listed in session.query(LISTED, &[&gone]).await? {
                let (no, run): (i64, Uuid) = (listed.try_get(0)?, listed.try_get(1)?);
                session.execute(UNLIST, &[&no, &run]).await?;
            }
            for statement in REMOVE {
                session.execute(statement, &[&gone]).await?;
            }
        }
        Ok(answers)
    };
    session.transact(node, discard).await
}

impl Found {
    fn of(row: &Row) -> Result<Self, Fault> {
        Ok(Self {
            generation: column::number(row, 1)?,
            is_ended: row.try_get(2)?,
            is_awaited: row.try_get(3)?,
            tags: column::items(row, 4)?,
        })
    }

    fn judge(&self, generation: u32) -> Result<(), Refusal> {
        match self {
            Self { is_ended: false, .. } => Err(Refusal::Open),
            found if found.generation != generation => Err(Refusal::Open),
            Self { is_awaited: true, .. } => Err(Refusal::Awaited),
            _ => Ok(()),
        }
    }
}
