//! Many units at once: one statement for each kind of record.

mod alone;
mod deliver;
mod kind;
mod leave;
mod send;
mod statements;
mod tell;

use std::collections::HashMap;

use deliver::{DELIVER, Outcomes};
pub(crate) use leave::LOCK;
use leave::{CONSUME, Consumed, GIVE_UP, Leaves};
use send::{Messages, SEND};
use statements::{
    CLEAR_INBOX, CLEAR_SAVED, DECLARE, ENDS, FACTS, FORGET, GIVEN, KEYS, STARTS, STEPS, TAGS, TAKE_KEYS,
};
use tell::{Children, TELL};
use tokio_postgres::{Row, types::ToSql};
use uuid::Uuid;
use windlass_core::{ClaimId, NodeId, RunId, StepKind, Time};
use windlass_store::{
    KeyConflict, KeyLife, NewEnd, NewMessage, NewRun, Refusal, SpreadKey, StepRow, StoreError, Wait, Written,
};

use crate::{
    column,
    error::Fault,
    held::Facts,
    session::{Opening, Params, Session},
    spread,
    statement::Statement,
    tenure::Tenure,
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

/// What a batch found and did.
pub(crate) struct Outcome {
    /// Where the runs stood that the node says it holds; `None` if it holds them all.
    pub(crate) standings: Option<Vec<Standing>>,
    /// What began.
    pub(crate) begun: Vec<Begun>,
    /// What became of the keys of runs that were to begin.
    pub(crate) keys: Vec<KeyFact>,
    /// What became of the messages.
    pub(crate) sent: Vec<Result<(), Refusal>>,
    /// Which outcomes of published attempts were delivered.
    pub(crate) delivered: Vec<bool>,
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
    /// The runs that the node says it holds, with its claims and their tenures.
    runs: Vec<Uuid>,
    claims: Vec<i64>,
    tenures: Vec<i64>,
    steps: Steps<'a>,
    ends: Ends<'a>,
    known_ends: KnownEnds<'a>,
    starts: Starts<'a>,
    keys: Keys<'a>,
    given: Steps<'a>,
    consumed: Consumed,
    leaves: Leaves<'a>,
    messages: Messages<'a>,
    outcomes: Outcomes<'a>,
    children: Children,
    /// Rows of `holding` of which nothing is left.
    empty: Vec<i64>,
}

#[derive(Default)]
struct Steps<'a> {
    run: Vec<Uuid>,
    tenure: Vec<i64>,
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
    tenure: Vec<i64>,
    definition: Vec<Option<i64>>,
    state: Vec<i16>,
    output: Vec<Option<&'a [u8]>>,
    failure: Vec<Option<&'a [u8]>>,
}

/// Ends of runs of which everything is known, each with the step that it takes in.
#[derive(Default)]
struct KnownEnds<'a> {
    workflow: Vec<&'a str>,
    run: Vec<Uuid>,
    generation: Vec<i32>,
    state: Vec<i16>,
    claim: Vec<i64>,
    definition: Vec<Option<i64>>,
    output: Vec<Option<&'a [u8]>>,
    failure: Vec<Option<&'a [u8]>>,
    step_name: Vec<Option<&'a str>>,
    step_attempt: Vec<Option<i32>>,
    step_epoch: Vec<Option<i32>>,
    step_started_at: Vec<Option<i64>>,
    step_ended_at: Vec<Option<i64>>,
    step_output: Vec<Option<&'a [u8]>>,
    /// Those that may have published or saved something.
    left: Vec<Uuid>,
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
    /// No longer than they have to be: most runs have no parent.
    parent: Vec<Option<Uuid>>,
    parent_topic: Vec<Option<&'a str>>,
    queue_key: Vec<Option<&'a str>>,
    /// The queues of those that have a key within it, their ids, workflows and keys.
    declared: Declared<'a>,
    claim: Vec<Option<i64>>,
    definition: Vec<Option<i64>>,
    /// The lines that they are in, and in which of them each is, counted from 1.
    line: Vec<i32>,
    lines: HashMap<(&'a str, &'a str), i32>,
    line_queue: Vec<&'a str>,
    line_workflow: Vec<&'a str>,
    tag: Vec<&'a str>,
    tagged: Vec<Uuid>,
}

/// Runs with a key within their queue.
#[derive(Default)]
struct Declared<'a> {
    queue: Vec<&'a str>,
    run: Vec<Uuid>,
    workflow: Vec<&'a str>,
    key: Vec<Option<&'a str>>,
}

impl Declared<'_> {
    /// For [`DECLARE`].
    fn columns(&self) -> [&(dyn ToSql + Sync); 4] {
        [&self.queue, &self.run, &self.workflow, &self.key]
    }
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
    fn add(&mut self, run: RunId, tenure: i64, step: &'a StepRow) {
        self.run.push(column::run(run));
        self.tenure.push(tenure);
        self.generation.push(column::count(step.generation));
        self.name.push(&step.name);
        self.attempt.push(column::count(step.attempt));
        self.started_in.push(column::started_in(step));
        self.epoch.push(column::count(step.epoch));
        self.kind.push(step.kind as i16);
        self.started_at.push(step.started_at.0);
        self.ended_at.push(step.ended_at.0);
        self.output.push(step.output.as_deref());
        self.detail.push(step.detail.as_deref());
    }
}

impl Steps<'_> {
    /// All but the tenure.
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
    pub(crate) fn hold(&mut self, run: RunId, claim: ClaimId, tenure: Tenure) {
        self.runs.push(column::run(run));
        self.claims.push(column::claim(claim));
        self.tenures.push(tenure.no);
    }

    pub(crate) fn record(&mut self, run: RunId, tenure: Tenure, steps: &'a [StepRow]) {
        for step in steps {
            self.steps.add(run, tenure.no, step);
        }
    }

    /// Has a held run take these inbox rows in.
    pub(crate) fn consume(&mut self, run: RunId, tenure: Tenure, rows: &[i64]) {
        self.consumed.add(run, tenure, rows);
    }

    /// Gives a held run up until the wait is over; without one, anyone may claim it at once.
    pub(crate) fn give_up(&mut self, run: RunId, tenure: Tenure, wait: Option<&'a Wait>) {
        self.leaves.add(run, tenure, wait);
    }

    /// Adds a message to a run.
    pub(crate) fn send(&mut self, run: RunId, message: &'a NewMessage) {
        self.messages.add(run, message);
    }

    /// Adds the outcome of a published attempt that the node holds.
    pub(crate) fn deliver(&mut self, run: RunId, claim: ClaimId, task: &'a SpreadKey, outcome: &'a [u8]) {
        self.outcomes.add(run, claim, task, outcome);
    }

    /// Has the parent of a held run hear that it ends.
    pub(crate) fn tell(&mut self, run: RunId, tenure: Tenure, parent: RunId) {
        self.children.add(run, tenure, parent);
    }

    pub(crate) fn end(&mut self, run: RunId, claim: ClaimId, tenure: Tenure, end: &'a NewEnd) {
        self.ends.run.push(column::run(run));
        self.ends.claim.push(column::claim(claim));
        self.ends.tenure.push(tenure.no);
        self.ends.definition.push(tenure.definition);
        self.ends.state.push(end.state as i16);
        self.ends.output.push(end.output.as_deref());
        self.ends.failure.push(end.failure.as_deref());
    }

    /// Adds the records and the end of a run of which everything is known.
    pub(crate) fn end_known(
        &mut self,
        run: RunId,
        claim: ClaimId,
        steps: &'a [StepRow],
        end: &'a NewEnd,
        facts: &'a Facts,
    ) {
        let last = steps.last().filter(|step| can_fold(step, facts, end));
        self.record(run, facts.tenure, &steps[..steps.len() - usize::from(last.is_some())]);
        let ends = &mut self.known_ends;
        ends.workflow.push(&facts.workflow);
        ends.run.push(column::run(run));
        ends.generation.push(column::count(facts.generation));
        ends.state.push(end.state as i16);
        ends.claim.push(column::claim(claim));
        ends.definition.push(facts.tenure.definition);
        ends.output.push(end.output.as_deref());
        ends.failure.push(end.failure.as_deref());
        ends.step_name.push(last.map(|step| &*step.name));
        ends.step_attempt.push(last.map(|step| column::count(step.attempt)));
        ends.step_epoch.push(last.map(|step| column::count(step.epoch)));
        ends.step_started_at.push(last.map(|step| step.started_at.0));
        ends.step_ended_at.push(last.map(|step| step.ended_at.0));
        if !facts.is_bare {
            ends.left.push(column::run(run));
        }
        let own = last.filter(|step| step.output != end.output);
        ends.step_output.push(own.and_then(|step| step.output.as_deref()));
    }

    /// Adds a run that begins; `is_wanted` when the node wants to hold it.
    pub(crate) fn start(&mut self, run: RunId, new: &'a NewRun, is_wanted: bool) {
        let (id, starts) = (column::run(run), &mut self.starts);
        let delay = new.delay.map_or(0, column::micros);
        let owner = new.owner.as_ref().filter(|_| is_wanted && delay == 0);
        if let Some(parent) = &new.parent {
            starts.parent.resize(starts.id.len(), None);
            starts.parent_topic.resize(starts.id.len(), None);
            starts.parent.push(Some(column::run(parent.run)));
            starts.parent_topic.push(Some(&parent.topic));
        }
        if let Some(key) = &new.queue_key {
            starts.queue_key.resize(starts.id.len(), None);
            starts.queue_key.push(Some(key));
            starts.declared.queue.push(&new.queue);
            starts.declared.run.push(id);
            starts.declared.workflow.push(&new.workflow);
            starts.declared.key.push(new.key.as_ref().map(|key| key.key.as_str()));
        }
        starts.id.push(id);
        starts.workflow.push(&new.workflow);
        starts.queue.push(&new.queue);
        starts.priority.push(i16::from(new.priority));
        starts.delay.push(delay);
        starts.timeout.push(new.timeout.map(column::micros));
        starts.input.push(&new.input);
        starts.context.push(new.context.as_deref());
        starts.key.push(new.key.as_ref().map(|key| key.key.as_str()));
        starts.tags.push(column::list(&new.tags));
        starts.forked_from.push(new.forked_from.map(column::run));
        starts.trace.push(new.trace.as_deref());
        starts.claim.push(owner.map(|owner| column::claim(owner.claim)));
        starts.definition.push(owner.map(|owner| owner.definition.0));
        let line = *starts.lines.entry((&new.queue, &new.workflow)).or_insert_with(|| {
            starts.line_queue.push(&new.queue);
            starts.line_workflow.push(&new.workflow);
            i32::try_from(starts.line_queue.len()).unwrap_or(i32::MAX)
        });
        starts.line.push(line);
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
            self.given.add(run, Tenure::FIRST.no, step);
        }
    }

    /// Writes it all, in a transaction that has begun.
    pub(crate) async fn write(&self, session: &Session, node: Option<NodeId>) -> Result<Outcome, Fault> {
        Ok(self.send_all(session, node, None).await?.1)
    }

    /// Writes it all, in a transaction of its own. Answers the time of that. When anything fails, the server rolls back
    /// what it is then told to commit.
    pub(crate) async fn write_whole(
        &self,
        session: &Session,
        node: Option<NodeId>,
    ) -> Result<(Time, Outcome), Fault> {
        let opening = session.opening(node).await?;
        self.send_all(session, node, Some(opening)).await
    }

    /// Everything is sent before the first answer is there, in this order; so all of it is prepared before. With an
    /// opening, the commit is sent along.
    async fn send_all(
        &self,
        session: &Session,
        node: Option<NodeId>,
        opening: Option<Opening<'_>>,
    ) -> Result<(Time, Outcome), Fault> {
        let node = node.map(column::node);
        let (steps, ends, starts, keys) = (&self.steps, &self.ends, &self.starts, &self.keys);
        let moved = self.leaves.run.iter().chain(&self.messages.run).chain(&self.outcomes.run);
        let moved: Vec<Uuid> = moved.chain(&self.children.parent).copied().collect();
        let locks: [&(dyn ToSql + Sync); 1] = [&moved];
        let locked = Letter::of(session, LOCK, moved.is_empty(), &locks).await?;
        let out = self.outcomes.keys();
        let locked_out = Letter::of(session, spread::LOCK, self.outcomes.run.is_empty(), &out).await?;
        let facts: [&(dyn ToSql + Sync); 3] = [&self.runs, &self.claims, &self.tenures];
        let facts = Letter::of(session, FACTS, self.runs.is_empty(), &facts).await?;
        let [run, rest @ ..] = steps.columns();
        let mut asked: Vec<&(dyn ToSql + Sync)> = vec![run, &steps.tenure];
        asked.extend(rest);
        let steps = Letter::of(session, STEPS, steps.run.is_empty(), &asked).await?;
        let rows = self.consumed.columns();
        let consumed = Letter::of(session, CONSUME, self.consumed.is_empty(), &rows).await?;
        let rows = self.leaves.columns();
        let given_up = Letter::of(session, GIVE_UP, self.leaves.run.is_empty(), &rows).await?;
        let rows = self.messages.columns();
        let sent = Letter::of(session, SEND, self.messages.run.is_empty(), &rows).await?;
        let rows = self.outcomes.columns(&node);
        let delivered = Letter::of(session, DELIVER, self.outcomes.run.is_empty(), &rows).await?;
        let rows = self.children.columns();
        let told = Letter::of(session, TELL, self.children.parent.is_empty(), &rows).await?;
        let asked: [&(dyn ToSql + Sync); 7] = [
            &ends.run,
            &ends.claim,
            &ends.tenure,
            &ends.definition,
            &ends.state,
            &ends.output,
            &ends.failure,
        ];
        let ended = Letter::of(session, ENDS, ends.run.is_empty(), &asked).await?;
        let gone: [&(dyn ToSql + Sync); 2] = [&ends.run, &ends.claim];
        let inbox = Letter::of(session, CLEAR_INBOX, ends.run.is_empty(), &gone).await?;
        let saved = Letter::of(session, CLEAR_SAVED, ends.run.is_empty(), &gone).await?;
        let taken = keys.taken();
        let taken = Letter::of(session, TAKE_KEYS, keys.run.is_empty(), &taken).await?;
        let kept = keys.kept();
        let kept = Letter::of(session, KEYS, keys.run.is_empty(), &kept).await?;
        let declared = starts.declared.columns();
        let declared = Letter::of(session, DECLARE, starts.declared.run.is_empty(), &declared).await?;
        let new = starts.columns(&node);
        let begun = Letter::of(session, STARTS, starts.id.is_empty(), &new).await?;
        let tags = starts.tagged();
        let tags = Letter::of(session, TAGS, starts.tag.is_empty(), &tags).await?;
        let given = self.given.columns();
        let given = Letter::of(session, GIVEN, self.given.run.is_empty(), &given).await?;
        let forgotten: [&(dyn ToSql + Sync); 1] = [&self.empty];
        let forgotten = Letter::of(session, FORGET, self.empty.is_empty(), &forgotten).await?;

        let (
            now,
            locked,
            locked_out,
            facts,
            steps,
            consumed,
            given_up,
            sent,
            delivered,
            told,
            ended,
            inbox,
            saved,
            taken,
            kept,
            declared,
            begun,
            tags,
            given,
            forgotten,
            closed,
        ) = tokio::join!(
            async {
                match &opening {
                    Some(opening) => opening.send().await,
                    // Whoever has begun the transaction knows its time.
                    None => Ok(Time(0)),
                }
            },
            locked.rows(),
            locked_out.rows(),
            facts.rows(),
            steps.rows(),
            consumed.rows(),
            given_up.rows(),
            sent.rows(),
            delivered.rows(),
            told.rows(),
            ended.rows(),
            inbox.rows(),
            saved.rows(),
            taken.rows(),
            kept.rows(),
            declared.rows(),
            begun.rows(),
            tags.rows(),
            given.rows(),
            forgotten.rows(),
            async { if opening.is_some() { session.commit().await } else { Ok(()) } },
        );
        // The first that failed is to blame for the others.
        let now = now?;
        locked?;
        locked_out?;
        let standings = facts?.iter().map(standing).collect::<Result<_, _>>().map(Some)?;
        for written in [steps, consumed, given_up] {
            written?;
        }
        let sent = sent?.iter().map(send::fate).collect::<Result<_, _>>()?;
        let delivered = self.outcomes.delivered(&delivered?)?;
        for written in [told, ended, inbox, saved, taken] {
            written?;
        }
        let keys = keys.facts(&kept?)?;
        declared?;
        let begun = begun?.iter().map(beginning).collect::<Result<_, _>>()?;
        for written in [tags, given, forgotten] {
            written?;
        }
        closed?;
        Ok((now, Outcome { standings, begun, keys, sent, delivered }))
    }
}

impl Keys<'_> {
    fn taken(&self) -> [&(dyn ToSql + Sync); 5] {
        [&self.run, &self.workflow, &self.key, &self.digest, &self.life]
    }

    fn kept(&self) -> [&(dyn ToSql + Sync); 3] {
        [&self.run, &self.workflow, &self.key]
    }

    fn facts(&self, rows: &[Row]) -> Result<Vec<KeyFact>, Fault> {
        rows.iter().zip(&self.digest).map(|(row, digest)| key_fact(row, digest)).collect()
    }
}

impl Starts<'_> {
    fn columns<'p>(&'p self, node: &'p Option<Uuid>) -> [&'p (dyn ToSql + Sync); 18] {
        [
            &self.id,
            &self.workflow,
            &self.queue,
            &self.priority,
            &self.delay,
            &self.timeout,
            &self.input,
            &self.context,
            &self.key,
            &self.tags,
            &self.forked_from,
            &self.trace,
            &self.claim,
            &self.definition,
            node,
            &self.parent,
            &self.parent_topic,
            &self.queue_key,
        ]
    }

    fn tagged(&self) -> [&(dyn ToSql + Sync); 2] {
        [&self.tag, &self.tagged]
    }
}

/// Whether a step is so plain that the row of its run's end has room for it: it completed, in the generation that ends,
/// and brought nothing but an output.
fn can_fold(step: &StepRow, facts: &Facts, end: &NewEnd) -> bool {
    step.kind == StepKind::Completed
        && step.generation == facts.generation
        && step.detail.is_none()
        // No output in the row means that it is the run's.
        && (step.output.is_some() || end.output.is_none())
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
        if let Some(statement) = &statement {
            statement.check(params)?;
        }
        Ok(Self { session, statement, params })
    }

    /// Sends it, at once when it is first polled, and waits for the answer.
    async fn rows(&self) -> Result<Vec<Row>, Fault> {
        match &self.statement {
            Some(statement) => statement.query(self.session.client(), self.params).await,
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
    let exists: bool = row.try_get(2)?;
    // Without an owner only when the run was there before, and had another key or none.
    let Some(known) = row.try_get::<_, Option<&[u8]>>(1)? else {
        if !exists {
            // It was there when its key was not taken for it, and was discarded since.
            return Err(
                StoreError::Unavailable("a run was discarded while it was started again".into()).into()
            );
        }
        return Ok(KeyFact { run: RunId::from_bytes([0; 16]), differs: false, exists });
    };
    Ok(KeyFact { run: column::run_id(row, 0)?, differs: known != digest, exists })
}

fn beginning(row: &Row) -> Result<Begun, Fault> {
    let (claim, no): (Option<i64>, Option<i64>) = (row.try_get(1)?, row.try_get(2)?);
    let held = claim.map(|claim| ClaimId(claim.cast_unsigned())).zip(no);
    Ok(Begun { run: column::run_id(row, 0)?, held })
}
