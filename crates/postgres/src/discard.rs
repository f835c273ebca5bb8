//! Runs that have ended: listing them, and forgetting them.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Instant,
};

use tokio_postgres::Row;
use uuid::Uuid;
use windlass_core::{RunId, Time};
use windlass_store::{Aged, AgedRun, Discard, Keyed, Refusal};

use crate::{column, error::Fault, session::Session};

const NEXT_WORKFLOW: &str = "SELECT workflow FROM {s}.ended WHERE workflow > $1 ORDER BY workflow LIMIT 1";
/// Only the end that a run stands at: those of generations that were reopened lie beside it.
const AGED: &str = "\
    SELECT e.run, e.generation, e.state, e.at FROM {s}.ended AS e \
    WHERE e.workflow = $1 AND e.run > $2 AND e.run < $3 \
      AND EXISTS (SELECT FROM {s}.run AS r WHERE r.id = e.run AND r.generation = e.generation OFFSET 0) \
    ORDER BY e.run LIMIT $4";
/// Runs at which nobody else is. Whoever is at one gives it up soon, and another time will do.
const LOCK: &str = "SELECT id FROM {s}.run WHERE id = ANY($1) ORDER BY id FOR UPDATE SKIP LOCKED";
/// Their keys, in the order in which starts take them, and until when each was given out.
const LOCK_KEYS: &str = "\
    SELECT u.id, k.until FROM (\
        SELECT r.id, r.workflow, r.key FROM unnest($1::uuid[]) AS v (run) \
        CROSS JOIN LATERAL (SELECT * FROM {s}.run WHERE id = v.run AND key IS NOT NULL OFFSET 0) AS r \
        ORDER BY r.workflow, r.key) AS u \
    CROSS JOIN LATERAL (SELECT until FROM {s}.key \
        WHERE workflow = u.workflow AND key = u.key AND run = u.id FOR UPDATE SKIP LOCKED) AS k";
/// Whoever asks has locked the runs. What lies in the inbox of a parent that has ended is heard by nobody.
const JUDGE: &str = "\
    SELECT r.id, r.generation, e.run IS NOT NULL, \
           EXISTS (SELECT FROM {s}.inbox AS i \
               WHERE i.run = r.parent AND i.topic = r.parent_topic AND i.key = r.id || '/' || r.generation OFFSET 0) \
           AND EXISTS (SELECT FROM {s}.run AS p WHERE p.id = r.parent AND NOT EXISTS (SELECT FROM {s}.ended AS pe \
               WHERE pe.workflow = p.workflow AND pe.run = p.id AND pe.generation = p.generation OFFSET 0) OFFSET 0), \
           r.tags, \
           EXISTS (SELECT FROM {s}.key AS k WHERE k.workflow = r.workflow AND k.key = r.key AND k.run = r.id OFFSET 0) \
    FROM unnest($1::uuid[]) AS u (run) \
    CROSS JOIN LATERAL (SELECT * FROM {s}.run WHERE id = u.run OFFSET 0) AS r \
    LEFT JOIN LATERAL (\
        SELECT run FROM {s}.ended WHERE workflow = r.workflow AND run = r.id AND generation = r.generation OFFSET 0) AS e ON true";
/// Runs that have gone from a node may be listed until the last of their list has. A new run of the same id would be taken
/// for one of them, so nobody's id takes its place: what else is known of each stays where it is.
const LISTED: &str = "\
    SELECT l.no, array_agg(l.run) FROM {s}.listed AS l JOIN unnest($1::uuid[]) AS u (run) ON u.run = l.run \
    GROUP BY l.no ORDER BY l.no";
const LOCK_LIST: &str = "SELECT no FROM {s}.holding WHERE no = $1 FOR UPDATE SKIP LOCKED";
const UNLIST: &str = "\
    UPDATE {s}.holding SET runs = ARRAY (\
        SELECT CASE WHEN t.run = ANY($2) THEN '00000000-0000-0000-0000-000000000000'::uuid ELSE t.run END \
        FROM unnest(runs) WITH ORDINALITY AS t (run, no) ORDER BY t.no) \
    WHERE no = $1";
const UNTAG: &str = "\
    DELETE FROM {s}.tag AS t USING unnest($1::text[], $2::uuid[]) AS u (tag, run) WHERE t.tag = u.tag AND t.run = u.run";
/// All that belongs to runs, themselves last: the others are found by them.
const REMOVE: [&str; 9] = [
    "DELETE FROM {s}.key WHERE ctid = ANY (ARRAY (\
        SELECT k.place FROM unnest($1::uuid[]) AS u (run) \
        CROSS JOIN LATERAL (SELECT * FROM {s}.run WHERE id = u.run OFFSET 0) AS r \
        CROSS JOIN LATERAL (SELECT ctid AS place FROM {s}.key \
            WHERE workflow = r.workflow AND key = r.key AND run = r.id OFFSET 0) AS k)) AND run = ANY($1)",
    "DELETE FROM {s}.ended WHERE ctid = ANY (ARRAY (\
        SELECT e.place FROM unnest($1::uuid[]) AS u (run) \
        CROSS JOIN LATERAL (SELECT * FROM {s}.run WHERE id = u.run OFFSET 0) AS r \
        CROSS JOIN LATERAL (SELECT ctid AS place FROM {s}.ended WHERE workflow = r.workflow AND run = r.id OFFSET 0) AS e))",
    "DELETE FROM {s}.step WHERE run = ANY($1)",
    "DELETE FROM {s}.inbox WHERE run = ANY($1)",
    "DELETE FROM {s}.delivered WHERE run = ANY($1)",
    "DELETE FROM {s}.saved WHERE run = ANY($1)",
    "DELETE FROM {s}.log WHERE run = ANY($1)",
    "DELETE FROM {s}.spread WHERE run = ANY($1)",
    "DELETE FROM {s}.run WHERE id = ANY($1)",
];

/// A run as it stands, for whoever wants to forget it.
struct Found {
    generation: u32,
    is_ended: bool,
    is_awaited: bool,
    tags: Vec<String>,
    has_key: bool,
}

/// What nobody else is at.
#[derive(Default)]
struct Locked {
    runs: HashSet<RunId>,
    /// Those whose key is locked too, and until when it was given out.
    keys: HashMap<RunId, Option<i64>>,
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
        if aged.len() >= request.limit {
            break;
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

/// How many runs go in the first transaction. As long as that is quick, the next one takes twice as many.
const FEW: usize = 4;

/// Forgets runs that stand ended in these generations, a few in each transaction.
pub(crate) async fn discard(session: &Session, request: &Discard) -> Result<Vec<Result<(), Refusal>>, Fault> {
    let (began, mut portion) = (Instant::now(), FEW);
    let mut answers = Vec::with_capacity(request.runs.len());
    while answers.len() < request.runs.len() {
        if !answers.is_empty() && began.elapsed() > request.within {
            break;
        }
        let left = &request.runs[answers.len()..];
        let (since, some) = (Instant::now(), &left[..left.len().min(portion)]);
        match discard_together(session, request, some).await {
            Ok(gone) => answers.extend(gone),
            Err(fault) if answers.is_empty() => return Err(fault),
            // What is answered is gone. Whoever asks for the others again hears why they did not go.
            Err(_) => break,
        }
        portion = if since.elapsed() < request.within / 4 { portion * 2 } else { FEW };
    }
    answers.resize(request.runs.len(), Err(Refusal::Busy));
    Ok(answers)
}

/// Forgets some of the runs, in one transaction.
async fn discard_together(
    session: &Session,
    request: &Discard,
    runs: &[(RunId, u32)],
) -> Result<Vec<Result<(), Refusal>>, Fault> {
    let ids: Vec<Uuid> = runs.iter().map(|(run, _)| column::run(*run)).collect();
    let discard = async |now: Time| {
        let locked = Locked::of(session, &ids).await?;
        let mut found = HashMap::new();
        for row in session.query(JUDGE, &[&ids]).await? {
            found.insert(column::run_id(&row, 0)?, Found::of(&row)?);
        }
        let mut going = HashMap::new();
        let mut answers = Vec::with_capacity(ids.len());
        for (run, generation) in runs {
            let judged = match found.get(run) {
                Some(known) => known.judge(*run, *generation, request.keyed, &locked, now),
                None => Err(Refusal::Unknown),
            };
            if judged.is_ok()
                && let Some(known) = found.remove(run)
            {
                going.insert(*run, known.tags);
            }
            answers.push(judged);
        }
        let busy = unlist(session, &mut going).await?;
        for (answer, (run, _)) in answers.iter_mut().zip(runs) {
            if busy.contains(run) {
                *answer = Err(Refusal::Busy);
            }
        }
        remove(session, going).await?;
        Ok(answers)
    };
    session.transact(request.node, discard).await
}

/// Takes the runs from the lists of nodes. Those whose list somebody is at stay: answers which.
async fn unlist(session: &Session, going: &mut HashMap<RunId, Vec<String>>) -> Result<Vec<RunId>, Fault> {
    let mut busy = Vec::new();
    if going.is_empty() {
        return Ok(busy);
    }
    let runs: Vec<Uuid> = going.keys().map(|run| column::run(*run)).collect();
    for listed in session.query(LISTED, &[&runs]).await? {
        let (no, runs): (i64, Vec<Uuid>) = (listed.try_get(0)?, listed.try_get(1)?);
        if session.query(LOCK_LIST, &[&no]).await?.is_empty() {
            let runs = runs.into_iter().map(|run| RunId::from_bytes(run.into_bytes()));
            busy.extend(runs.filter(|run| going.remove(run).is_some()));
        } else {
            session.execute(UNLIST, &[&no, &runs]).await?;
        }
    }
    Ok(busy)
}

async fn remove(session: &Session, going: HashMap<RunId, Vec<String>>) -> Result<(), Fault> {
    if going.is_empty() {
        return Ok(());
    }
    let runs: Vec<Uuid> = going.keys().map(|run| column::run(*run)).collect();
    let pairs =
        going.into_iter().flat_map(|(run, tags)| tags.into_iter().map(move |tag| (tag, column::run(run))));
    let (tags, tagged): (Vec<String>, Vec<Uuid>) = pairs.unzip();
    if !tags.is_empty() {
        session.execute(UNTAG, &[&tags, &tagged]).await?;
    }
    for statement in REMOVE {
        session.execute(statement, &[&runs]).await?;
    }
    Ok(())
}

impl Locked {
    async fn of(session: &Session, ids: &[Uuid]) -> Result<Self, Fault> {
        let mut locked = Self::default();
        for row in session.query(LOCK, &[&ids]).await? {
            locked.runs.insert(column::run_id(&row, 0)?);
        }
        for row in session.query(LOCK_KEYS, &[&ids]).await? {
            locked.keys.insert(column::run_id(&row, 0)?, row.try_get(1)?);
        }
        Ok(locked)
    }
}

impl Found {
    fn of(row: &Row) -> Result<Self, Fault> {
        Ok(Self {
            generation: column::number(row, 1)?,
            is_ended: row.try_get(2)?,
            is_awaited: row.try_get(3)?,
            tags: column::items(row, 4)?,
            has_key: row.try_get(5)?,
        })
    }

    fn judge(
        &self,
        run: RunId,
        generation: u32,
        keyed: Keyed,
        locked: &Locked,
        now: Time,
    ) -> Result<(), Refusal> {
        let key = locked.keys.get(&run);
        let lives = key.is_some_and(|until| until.is_some_and(|until| now.0 < until));
        if !locked.runs.contains(&run) || (self.has_key && key.is_none()) {
            Err(Refusal::Busy)
        } else if !self.is_ended || self.generation != generation {
            Err(Refusal::Open)
        } else if self.is_awaited {
            Err(Refusal::Awaited)
        } else if keyed == Keyed::Stays && lives {
            Err(Refusal::Keyed)
        } else {
            Ok(())
        }
    }
}
