//! Many units at once: one statement for each kind of record.

mod statements;

use statements::{
    CHECK, CHECKED_ENDS, CHECKED_INBOX, CHECKED_SAVED, CHECKED_STEPS, CLEAR_INBOX, CLEAR_SAVED, ENDS, FACTS,
    FORGET, GIVEN, KEYS, STARTS, STEPS, TAGS, TAKE_KEYS,
};
use tokio_postgres::{Row, Statement, types::ToSql};
use uuid::Uuid;
use windlass_core::{ClaimId, NodeId, RunId, StepKind, Time};
use windlass_store::{KeyConflict, KeyLife, NewEnd, NewRun, Refusal, StepRow, Written};

use crate::{
    column,
    error::Fault,
    session::{Params, Session},
};

/// What the holder of a run may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It holds it.
    Held,
    /// It ended it, at this time, under the same claim.
    Said(Time),
    /// It does not hold it.
    NotYours,
}

/// What became of a key.
pub(crate) struct KeyFact {
    /// The run that has it.
    pub(crate) run: RunId,
    /// Whether its input is another.
    pub(crate) differs: bool,
    /// Whether the run that wants it was there before.
    pub(crate) exists: bool,
}

impl KeyFact {
    /// What a start hears that did not begin because of its key.
    pub(crate) fn judge(&self, run: RunId, new: &NewRun) -> Result<Written, Refusal> {
        let refuses = new.key.as_ref().is_some_and(|key| key.conflict == KeyConflict::Refuse);
        match self {
            Self { exists: true, .. } => Ok(Written::Existing { run }),
            Self { differs: true, run, .. } if refuses => Err(Refusal::KeyTaken { run: *run }),
            Self { run, .. } => Ok(Written::Existing { run: *run }),
        }
    }
}

/// In which transaction a batch is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// One of its own, which fails if anything is not as it should be.
    Own,
    /// One that has begun, and goes on.
    Begun,
}

/// What a batch found and did.
pub(crate) struct Outcome {
    /// The time of the transaction, if it was one of its own.
    pub(crate) now: Option<Time>,
    /// Where the runs stood that the node says it holds.
    pub(crate) standings: Vec<Standing>,
    /// What began.
    pub(crate) begun: Vec<Begun>,
    /// What became of the keys of runs that were to begin.
    pub(crate) keys: Vec<KeyFact>,
}

/// How a run began.
pub(crate) struct Begun {
    pub(crate) run: RunId,
    /// If the node holds it: under which claim, and which row of `holding` lists it.
    pub(crate) held: Option<(ClaimId, i64)>,
}

/// What is to be written together.
#[derive(Default)]
pub(crate) struct Batch<'a> {
    /// The runs that the node says it holds, with its claims.
    runs: Vec<Uuid>,
    claims: Vec<i64>,
    steps: Steps<'a>,
    ends: Ends<'a>,
    starts: Starts<'a>,
    keys: Keys<'a>,
    given: Steps<'a>,
    /// Rows of `holding` of which nothing is left.
    empty: Vec<i64>,
}

#[derive(Default)]
struct Steps<'a> {
    run: Vec<Uuid>,
    claim: Vec<i64>,
    generation: Vec<i32>,
    name: Vec<&'a str>,
    attempt: Vec<i32>,
    started_in: Vec<i32>,
    epoch: Vec<i32>,
    kind: Vec<i16>,
    started_at: Vec<i64>,
    ended_at: Vec<i64>,
    output: Vec<Option<&'a [u8]>>,
    detail: Vec<Option<&'a [u8]>>,
}

#[derive(Default)]
struct Ends<'a> {
    run: Vec<Uuid>,
    claim: Vec<i64>,
    state: Vec<i16>,
    output: Vec<Option<&'a [u8]>>,
    failure: Vec<Option<&'a [u8]>>,
}

#[derive(Default)]
struct Starts<'a> {
    id: Vec<Uuid>,
    workflow: Vec<&'a str>,
    queue: Vec<&'a str>,
    priority: Vec<i16>,
    delay: Vec<i64>,
    timeout: Vec<Option<i64>>,
    input: Vec<&'a [u8]>,
    context: Vec<Option<&'a [u8]>>,
    key: Vec<Option<&'a str>>,
    tags: Vec<Option<String>>,
    forked_from: Vec<Option<Uuid>>,
    trace: Vec<Option<&'a str>>,
    claim: Vec<Option<i64>>,
    definition: Vec<Option<i64>>,
    tag: Vec<&'a str>,
    tagged: Vec<Uuid>,
}

#[derive(Default)]
struct Keys<'a> {
    run: Vec<Uuid>,
    workflow: Vec<&'a str>,
    key: Vec<&'a str>,
    digest: Vec<&'a [u8]>,
    life: Vec<Option<i64>>,
}

impl<'a> Steps<'a> {
    fn add(&mut self, run: RunId, claim: ClaimId, step: &'a StepRow) {
        self.run.push(column::run(run));
        self.claim.push(column::claim(claim));
        self.generation.push(column::count(step.generation));
        self.name.push(&step.name);
        self.attempt.push(column::count(step.attempt));
        self.started_in.push(if step.kind == StepKind::Started { column::count(step.epoch) } else { -1 });
        self.epoch.push(column::count(step.epoch));
        self.kind.push(step.kind as i16);
        self.started_at.push(step.started_at.0);
        self.ended_at.push(step.ended_at.0);
        self.output.push(step.output.as_deref());
        self.detail.push(step.detail.as_deref());
    }
}

impl Steps<'_> {
    /// All but the claim.
    fn columns(&self) -> [&(dyn ToSql + Sync); 11] {
        [
            &self.run,
            &self.generation,
            &self.name,
            &self.attempt,
            &self.started_in,
            &self.epoch,
            &self.kind,
            &self.started_at,
            &self.ended_at,
            &self.output,
            &self.detail,
        ]
    }
}

impl<'a> Batch<'a> {
    /// One that also removes these rows of `holding`.
    pub(crate) fn forgetting(empty: &[i64]) -> Self {
        Self { empty: empty.to_vec(), ..Self::default() }
    }

    /// Adds a run that the node says it holds. Answers are given in this order.
    pub(crate) fn hold(&mut self, run: RunId, claim: ClaimId) {
        self.runs.push(column::run(run));
        self.claims.push(column::claim(claim));
    }

    pub(crate) fn record(&mut self, run: RunId, claim: ClaimId, steps: &'a [StepRow]) {
        for step in steps {
            self.steps.add(run, claim, step);
        }
    }

    pub(crate) fn end(&mut self, run: RunId, claim: ClaimId, end: &'a NewEnd) {
        self.ends.run.push(column::run(run));
        self.ends.claim.push(column::claim(claim));
        self.ends.state.push(end.state as i16);
        self.ends.output.push(end.output.as_deref());
        self.ends.failure.push(end.failure.as_deref());
    }

    /// Adds a run that begins; `is_wanted` when the node wants to hold it.
    pub(crate) fn start(&mut self, run: RunId, new: &'a NewRun, is_wanted: bool) {
        let (id, starts) = (column::run(run), &mut self.starts);
        let owner = new.owner.as_ref().filter(|_| is_wanted);
        starts.id.push(id);
        starts.workflow.push(&new.workflow);
        starts.queue.push(&new.queue);
        starts.priority.push(i16::from(new.priority));
        starts.delay.push(new.delay.map_or(0, column::micros));
        starts.timeout.push(new.timeout.map(column::micros));
        starts.input.push(&new.input);
        starts.context.push(new.context.as_deref());
        starts.key.push(new.key.as_ref().map(|key| key.key.as_str()));
        starts.tags.push(column::list(&new.tags));
        starts.forked_from.push(new.forked_from.map(column::run));
        starts.trace.push(new.trace.as_deref());
        starts.claim.push(owner.map(|owner| column::claim(owner.claim)));
        starts.definition.push(owner.map(|owner| owner.definition.0));
        if let Some(key) = &new.key {
            self.keys.run.push(id);
            self.keys.workflow.push(&new.workflow);
            self.keys.key.push(&key.key);
            self.keys.digest.push(&key.digest);
            self.keys.life.push(match key.life {
                KeyLife::Kept => None,
                KeyLife::For(life) => Some(column::micros(life)),
            });
        }
        for tag in &new.tags {
            starts.tag.push(tag);
            starts.tagged.push(id);
        }
        for step in &new.steps {
            self.given.add(run, ClaimId(0), step);
        }
    }

    /// Writes it all: in a transaction of its own, in which all must be as it should be, or in one that has begun.
    ///
    /// Everything is sent before the first answer is there, in this order; so all of it is prepared before. When
    /// anything fails, the server rolls back what it is then told to commit.
    pub(crate) async fn write(
        &self,
        session: &Session,
        node: Option<NodeId>,
        frame: Frame,
    ) -> Result<Outcome, Fault> {
        let is_own = frame == Frame::Own;
        let opening = if is_own { Some(session.opening(node).await?) } else { None };
        let node = node.map(column::node);
        let (steps, ends, starts, given) = (&self.steps, &self.ends, &self.starts, &self.given);
        let facts: [&(dyn ToSql + Sync); 3] = [&self.runs, &self.claims, &node];
        let facts =
            Letter::of(session, if is_own { CHECK } else { FACTS }, self.runs.is_empty(), &facts).await?;
        let checked = steps.columns();
        let [run, rest @ ..] = checked;
        let mut asked: Vec<&(dyn ToSql + Sync)> = vec![run, &steps.claim];
        asked.extend(rest);
        asked.push(&node);
        let steps = match frame {
            Frame::Own => Letter::of(session, CHECKED_STEPS, steps.run.is_empty(), &checked).await?,
            Frame::Begun => Letter::of(session, STEPS, steps.run.is_empty(), &asked).await?,
        };
        let checked: [&(dyn ToSql + Sync); 5] =
            [&ends.run, &ends.claim, &ends.state, &ends.output, &ends.failure];
        let asked: [&(dyn ToSql + Sync); 6] =
            [&ends.run, &ends.claim, &ends.state, &ends.output, &ends.failure, &node];
        let ended = match frame {
            Frame::Own => Letter::of(session, CHECKED_ENDS, ends.run.is_empty(), &checked).await?,
            Frame::Begun => Letter::of(session, ENDS, ends.run.is_empty(), &asked).await?,
        };
        let gone: [&(dyn ToSql + Sync); 2] = [&ends.run, &ends.claim];
        let (gone, clear) = match frame {
            Frame::Own => (&gone[..1], [CHECKED_INBOX, CHECKED_SAVED]),
            Frame::Begun => (&gone[..], [CLEAR_INBOX, CLEAR_SAVED]),
        };
        let inbox = Letter::of(session, clear[0], ends.run.is_empty(), gone).await?;
        let saved = Letter::of(session, clear[1], ends.run.is_empty(), gone).await?;
        let keys = &self.keys;
        let taken: [&(dyn ToSql + Sync); 5] =
            [&keys.run, &keys.workflow, &keys.key, &keys.digest, &keys.life];
        let taken = Letter::of(session, TAKE_KEYS, keys.run.is_empty(), &taken).await?;
        let kept: [&(dyn ToSql + Sync); 3] = [&keys.run, &keys.workflow, &keys.key];
        let kept = Letter::of(session, KEYS, keys.run.is_empty(), &kept).await?;
        let new: [&(dyn ToSql + Sync); 15] = [
            &starts.id,
            &starts.workflow,
            &starts.queue,
            &starts.priority,
            &starts.delay,
            &starts.timeout,
            &starts.input,
            &starts.context,
            &starts.key,
            &starts.tags,
            &starts.forked_from,
            &starts.trace,
            &starts.claim,
            &starts.definition,
            &node,
        ];
        let begun = Letter::of(session, STARTS, starts.id.is_empty(), &new).await?;
        let tags: [&(dyn ToSql + Sync); 2] = [&starts.tag, &starts.tagged];
        let tags = Letter::of(session, TAGS, starts.tag.is_empty(), &tags).await?;
        let given = given.columns();
        let given = Letter::of(session, GIVEN, self.given.run.is_empty(), &given).await?;
        let forgotten: [&(dyn ToSql + Sync); 1] = [&self.empty];
        let forgotten = Letter::of(session, FORGET, self.empty.is_empty(), &forgotten).await?;

        let open = async {
            match &opening {
                Some(opening) => opening.send().await.map(Some),
                None => Ok(None),
            }
        };
        let close = async { if is_own { session.commit().await } else { Ok(()) } };
        let (now, facts, steps, ended, inbox, saved, taken, kept, begun, tags, given, forgotten, closed) = tokio::join!(
            open,
            facts.rows(),
            steps.rows(),
            ended.rows(),
            inbox.rows(),
            saved.rows(),
            taken.rows(),
            kept.rows(),
            begun.rows(),
            tags.rows(),
            given.rows(),
            forgotten.rows(),
            close,
        );
        // The first that failed is to blame for the others.
        let (now, facts) = (now?, facts?);
        let standings = match frame {
            Frame::Own => vec![Standing::Held; self.runs.len()],
            Frame::Begun => facts.iter().map(standing).collect::<Result<_, _>>()?,
        };
        for written in [steps, ended, inbox, saved, taken] {
            written?;
        }
        let kept = kept?;
        let keys = kept.iter().zip(&self.keys.digest);
        let keys = keys.map(|(row, digest)| key_fact(row, digest)).collect::<Result<_, _>>()?;
        let begun = begun?.iter().map(beginning).collect::<Result<_, _>>()?;
        for written in [tags, given, forgotten] {
            written?;
        }
        closed?;
        Ok(Outcome { now, standings, begun, keys })
    }
}

/// A statement that is ready to be sent, unless there is nothing to say.
struct Letter<'p> {
    session: &'p Session,
    statement: Option<Statement>,
    params: Params<'p>,
}

impl<'p> Letter<'p> {
    async fn of(
        session: &'p Session,
        sql: &'static str,
        is_empty: bool,
        params: Params<'p>,
    ) -> Result<Self, Fault> {
        let statement = if is_empty { None } else { Some(session.statement(sql).await?) };
        Ok(Self { session, statement, params })
    }

    /// Sends it, at once when it is first polled, and waits for the answer.
    async fn rows(&self) -> Result<Vec<Row>, Fault> {
        match &self.statement {
            Some(statement) => Ok(self.session.client().query(statement, self.params).await?),
            None => Ok(Vec::new()),
        }
    }
}

fn standing(row: &Row) -> Result<Standing, Fault> {
    let (held, said): (bool, bool) = (row.try_get(0)?, row.try_get(1)?);
    Ok(match (held, said) {
        (true, _) => Standing::Held,
        (false, true) => Standing::Said(column::time(row, 2)?),
        (false, false) => Standing::NotYours,
    })
}

fn key_fact(row: &Row, digest: &[u8]) -> Result<KeyFact, Fault> {
    let exists = row.try_get(2)?;
    // Without an owner only when the run was there before, and had another key or none.
    let Some(known) = row.try_get::<_, Option<&[u8]>>(1)? else {
        return Ok(KeyFact { run: RunId::from_bytes([0; 16]), differs: false, exists });
    };
    Ok(KeyFact { run: column::run_id(row, 0)?, differs: known != digest, exists })
}

fn beginning(row: &Row) -> Result<Begun, Fault> {
    let (claim, no): (Option<i64>, Option<i64>) = (row.try_get(1)?, row.try_get(2)?);
    let held = claim.map(|claim| ClaimId(claim.cast_unsigned())).zip(no);
    Ok(Begun { run: column::run_id(row, 0)?, held })
}
