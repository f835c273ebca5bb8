//! One unit after the other: what is rare, or has to look before it writes.

use tokio_postgres::Row;
use uuid::Uuid;
use windlass_core::{ClaimId, NodeId, RunId, RunState, StepKind, Time};
use windlass_store::{
    Act, Idle, KeyConflict, NewEnd, NewKey, NewMessage, NewRun, News, Parent, Refusal, Replace, STOPS,
    SpreadKey, StepRow, Unit, Written,
};

use crate::{
    batch::{Batch, Begun, LOCK, Standing},
    column,
    commit::key_of_another,
    error::Fault,
    image,
    parents::Parents,
    session::{Params, Session},
    spread,
    stops::stops_at,
    tenure::{Tenure, Tenures},
};

const READ: &str = "\
    SELECT r.generation, r.definition, e.state, r.parent, r.parent_topic FROM {s}.run AS r \
    LEFT JOIN LATERAL (\
        SELECT * FROM {s}.ended WHERE workflow = r.workflow AND run = r.id AND generation = r.generation OFFSET 0) AS e ON true \
    WHERE r.id = $1";
const EXISTS: &str = "SELECT EXISTS (SELECT FROM {s}.run WHERE id = $1)";
/// A key that has not lapsed, and whether it was given a time. Nobody else takes it until the transaction is over.
const KEY: &str = "\
    SELECT run, until IS NOT NULL FROM {s}.key \
    WHERE workflow = $1 AND key = $2 AND (until IS NULL OR until > {s}.clock()) FOR UPDATE";
/// The runs that have these keys. Nobody else takes these until the transaction is over.
const KEYS: &str = "\
    SELECT k.run FROM unnest($1::text[], $2::text[]) AS u (workflow, key) \
    JOIN {s}.key AS k ON k.workflow = u.workflow AND k.key = u.key \
    ORDER BY k.workflow, k.key FOR UPDATE OF k";
/// Whoever tells a run something locks it.
const STOPPED: &str = "SELECT EXISTS (SELECT FROM {s}.inbox WHERE run = $1 AND topic = ANY ($2::text[]))";
const FREE_KEY: &str = "DELETE FROM {s}.key WHERE workflow = $1 AND key = $2";
const CHANGE_KEY: &str = "UPDATE {s}.key SET digest = $3 WHERE workflow = $1 AND key = $2";
const PUT_OFF: &str = "UPDATE {s}.run SET input = $2, context = $3, opened_at = {s}.after($4) WHERE id = $1";
const DELAY: &str = "\
    INSERT INTO {s}.waiting (run, workflow, state, until, topics) \
    SELECT id, workflow, 0, opened_at, '{}' FROM {s}.run WHERE id = $1";
const SAVE: &str = "\
    INSERT INTO {s}.saved (run, step, value) VALUES ($1, $2, $3) \
    ON CONFLICT (run, step) DO UPDATE SET value = excluded.value";
const MAKE_READY: &str = concat!(
    "\
    INSERT INTO {s}.ready (queue, lane, workflow, priority, run, stops_at) \
    SELECT queue, {s}.lane(queue_key), workflow, priority, id, ",
    stops_at!("run"),
    " FROM {s}.run AS run WHERE id = $1"
);
/// What stands for the places of runs that nobody holds. Whoever moves one from the first to the second is waited for, if
/// they are asked for in this order; and whoever claims it.
const WAIT: &str = "SELECT FROM {s}.waiting WHERE run = ANY($1) ORDER BY run FOR UPDATE";
const ARE_READY: &str = "\
    SELECT FROM {s}.run AS r JOIN {s}.ready AS a ON a.queue = r.queue AND a.lane = {s}.lane(r.queue_key) AND a.workflow = r.workflow \
        AND a.priority = r.priority AND a.run = r.id \
    WHERE r.id = ANY($1) ORDER BY r.id FOR UPDATE OF a";
const UNPARK: &str = "DELETE FROM {s}.waiting WHERE run = $1";
const UNREADY: &str = "\
    DELETE FROM {s}.ready AS a USING {s}.run AS r \
    WHERE r.id = $1 AND a.queue = r.queue AND a.lane = {s}.lane(r.queue_key) AND a.workflow = r.workflow AND a.priority = r.priority AND a.run = r.id";
const END: &str = "\
    INSERT INTO {s}.ended (workflow, run, generation, state, at, output, failure) \
    SELECT workflow, id, generation, $2, {s}.clock(), $3, $4 FROM {s}.run WHERE id = $1";
const FREE_SLOT: &str = "DELETE FROM {s}.slot WHERE run = $1";
const CLEAR_INBOX: &str = "DELETE FROM {s}.inbox WHERE run = $1";
const CLEAR_SAVED: &str = "DELETE FROM {s}.saved WHERE run = $1";
/// A step that was kept with the end goes to the others.
const UNFOLD: &str = "\
    INSERT INTO {s}.step (run, generation, name, attempt, started_in, epoch, kind, started_at, ended_at, output) \
    SELECT e.run, e.generation, e.step_name, e.step_attempt, -1, e.step_epoch, $2, e.step_started_at, e.step_ended_at, \
           coalesce(e.step_output, e.output) \
    FROM {s}.run AS r \
    JOIN {s}.ended AS e ON e.workflow = r.workflow AND e.run = r.id AND e.generation = r.generation \
    WHERE r.id = $1 AND e.step_name IS NOT NULL ON CONFLICT DO NOTHING";
/// Whoever asks has locked the run.
const FORGET: &str = "\
    WITH mine AS MATERIALIZED (\
        SELECT r.id FROM {s}.run AS r \
        WHERE r.id = $1 AND r.tenure = $2 AND NOT EXISTS (SELECT FROM {s}.ended AS e \
                WHERE e.workflow = r.workflow AND e.run = r.id AND e.generation = r.generation OFFSET 0) \
          AND NOT EXISTS (SELECT FROM {s}.step AS s \
                WHERE s.run = $1 AND s.generation = $3 AND s.name = $4 AND s.attempt = $5 AND s.started_in = $6 OFFSET 0)), \
    unsaved AS (\
        DELETE FROM {s}.saved WHERE run = $1 AND EXISTS (SELECT FROM mine)) \
    DELETE FROM {s}.step WHERE run = $1 AND EXISTS (SELECT FROM mine)";
const REOPEN: &str = "\
    UPDATE {s}.run AS r SET generation = r.generation + 1, tenure = r.tenure + 1, opened_at = {s}.clock(), recoveries = 0, \
        definition = coalesce(r.definition, e.definition) \
    FROM {s}.ended AS e WHERE r.id = $1 AND e.workflow = r.workflow AND e.run = r.id AND e.generation = r.generation";

/// Why an act was not written: it was refused before its first change, or a statement failed.
pub(crate) enum Stop {
    Refusal(Refusal),
    Fault(Fault),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refusal(refusal)
    }
}

/// What became of the runs of the node, for its tally.
#[derive(Default)]
pub(crate) struct Changes {
    pub(crate) begun: Vec<Begun>,
    pub(crate) gone: Vec<(RunId, ClaimId)>,
    /// What others may wait for.
    pub(crate) news: News,
}

/// A transaction that writes units one by one.
pub(crate) struct Single<'s> {
    pub(crate) session: &'s Session,
    pub(crate) node: Option<NodeId>,
    pub(crate) now: Time,
    pub(crate) tenures: Tenures,
    pub(crate) changes: Changes,
}

/// A run as it stands.
struct Found {
    generation: u32,
    definition: Option<i64>,
    ended: Option<RunState>,
    parent: Option<Parent>,
}

impl Single<'_> {
    /// Lets nobody else move these runs. A claim takes a run whose place is not locked, too.
    pub(crate) async fn lock(
        &self,
        units: impl Iterator<Item = &Unit>,
        parents: &Parents,
    ) -> Result<(), Fault> {
        let units: Vec<&Unit> = units.collect();
        let sorted = |mut ids: Vec<Uuid>| {
            ids.sort_unstable();
            ids.dedup();
            ids
        };
        let others = self.others(&units).await?;
        let all = units.iter().map(|unit| column::run(unit.run)).chain(parents.all()).chain(others);
        self.session.execute(LOCK, &[&sorted(all.collect())]).await?;
        let idle = units.iter().filter(|unit| matches!(unit.act, Act::EndIdle { .. }));
        let idle = sorted(idle.map(|unit| column::run(unit.run)).collect());
        if !idle.is_empty() {
            self.lock_places(&idle).await?;
        }
        spread::lock(self.session, &units).await
    }

    /// The runs that several starts may change, so that they are locked in the order in which everybody does.
    async fn others(&self, units: &[&Unit]) -> Result<Vec<Uuid>, Fault> {
        let keys = units.iter().filter_map(|unit| key_of_another(unit));
        let (workflows, keys): (Vec<&str>, Vec<&str>) = keys.unzip();
        if keys.len() < 2 {
            return Ok(Vec::new());
        }
        let rows = self.session.query(KEYS, &[&workflows, &keys]).await?;
        rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
    }

    /// Keeps these runs from being claimed, and answers how many of them nobody holds.
    async fn lock_places(&self, runs: &[Uuid]) -> Result<u64, Fault> {
        let waiting = self.session.execute(WAIT, &[&runs]).await?;
        Ok(waiting + self.session.execute(ARE_READY, &[&runs]).await?)
    }

    pub(crate) async fn write(&mut self, run: RunId, act: &Act) -> Result<Written, Stop> {
        act.check()?;
        match act {
            Act::Start(new) => return self.start(run, new).await,
            Act::Send(message) => self.send(run, message).await?,
            Act::EndIdle { only, end } => self.end_idle(run, *only, end).await?,
            Act::Reopen { after } => self.reopen(run, *after).await?,
            Act::Deliver { claim, task, outcome } => {
                return Ok(self.deliver(run, *claim, task, outcome).await?);
            }
            Act::SaveSpread { claim, task, value } => {
                return Ok(self.save_spread(run, *claim, task, value).await?);
            }
            Act::Record { claim, .. }
            | Act::Save { claim, .. }
            | Act::End { claim, .. }
            | Act::Park { claim, .. }
            | Act::Release { claim }
            | Act::Publish { claim, .. }
            | Act::Withdraw { claim, .. } => return self.write_held(run, *claim, act).await,
        }
        Ok(Written::Done { at: self.now })
    }

    /// Writes an act of the run's holder.
    async fn write_held(&mut self, run: RunId, claim: ClaimId, act: &Act) -> Result<Written, Stop> {
        let (session, id) = (self.session, column::run(run));
        let tenure = self.tenures.of(run, claim);
        let mut batch = Batch::default();
        batch.hold(run, claim, tenure);
        match act {
            Act::Record { steps, consumed, forget, .. } => {
                if *forget {
                    self.forget(run, tenure, &steps[0]).await?;
                }
                batch.record(run, tenure, steps);
                batch.consume(run, tenure, consumed);
            }
            Act::Park { steps, consumed, wait, .. } => {
                batch.record(run, tenure, steps);
                batch.consume(run, tenure, consumed);
                batch.give_up(run, tenure, Some(wait));
            }
            Act::Release { .. } => batch.give_up(run, tenure, None),
            Act::End { steps, end, .. } => {
                batch.record(run, tenure, steps);
                batch.end(run, claim, tenure, end);
            }
            _ => {}
        }
        let outcome = batch.write(session, self.node).await?;
        match outcome.standings.iter().flatten().next() {
            Some(Standing::Held) => {}
            Some(Standing::Said(at)) => {
                self.changes.gone.push((run, claim));
                return Ok(Written::Done { at: *at });
            }
            Some(Standing::NotYours) | None => return Err(Refusal::NotYours.into()),
        }
        match act {
            Act::Save { step, value, .. } => {
                session.execute(SAVE, &[&id, &&**step, &&**value]).await?;
            }
            Act::Park { .. } | Act::Release { .. } => {
                self.changes.gone.push((run, claim));
                // Whoever sleeps until the next due run has to look again.
                self.changes.news.runs = true;
            }
            Act::Publish { definition, tasks, .. } => self.publish(run, *definition, tasks).await?,
            Act::Withdraw { tasks, reach, .. } => return Ok(self.withdraw(run, tasks, *reach).await?),
            Act::End { .. } => {
                self.changes.gone.push((run, claim));
                self.changes.news.ended.push(run);
                let found = self.read(run).await?;
                self.tell(run, &found).await?;
            }
            _ => {}
        }
        Ok(Written::Done { at: self.now })
    }

    async fn make_ready(&mut self, run: RunId) -> Result<(), Fault> {
        self.changes.news.runs = true;
        self.session.execute(MAKE_READY, &[&column::run(run)]).await?;
        Ok(())
    }

    async fn start(&mut self, run: RunId, new: &NewRun) -> Result<Written, Stop> {
        if self.session.one(EXISTS, &[&column::run(run)]).await?.try_get(0).map_err(Fault::from)? {
            return Ok(Written::Existing { run });
        }
        let key = new.key.as_ref().filter(|key| key.conflict.looks_at_the_run());
        let mut outcome = loop {
            if let Some(key) = key
                && let Some(run) = self.make_way(run, new, key).await?
            {
                return Ok(Written::Existing { run });
            }
            let mut batch = Batch::default();
            batch.start(run, new, self.node.is_some());
            let outcome = batch.write(self.session, self.node).await?;
            let Some(fact) = outcome.keys.first().filter(|_| outcome.begun.is_empty()) else { break outcome };
            // Whoever took the key just now is met in the next round, unless that was this start, sent before.
            if key.is_none() || fact.exists {
                return Ok(fact.judge(run, new)?);
            }
        };
        let held = outcome.begun.first().and_then(|begun| begun.held);
        if let Some((claim, _)) = held {
            self.tenures.add(run, claim, Tenure::FIRST);
        }
        let owned = held.is_some();
        self.changes.begun.append(&mut outcome.begun);
        self.changes.news.runs |= !owned;
        Ok(Written::Started { at: self.now, owned })
    }

    /// Does to the run that has a key what the start of another says. Answers the run that will do; else the key is free.
    async fn make_way(&mut self, starts: RunId, new: &NewRun, key: &NewKey) -> Result<Option<RunId>, Stop> {
        let session = self.session;
        let rows = session.query(KEY, &[&&*new.workflow, &key.key]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let (run, has_life) = (column::run_id(row, 0)?, row.try_get::<_, bool>(1).map_err(Fault::from)?);
        // It may have been sent before, and committed while the key was waited for; and somebody may have its key since.
        if run == starts
            || session.one(EXISTS, &[&column::run(starts)]).await?.try_get(0).map_err(Fault::from)?
        {
            return Ok(Some(starts));
        }
        let id = column::run(run);
        session.execute(LOCK, &[&vec![id]]).await?;
        let known = session.query(READ, &[&id]).await?;
        let found = known.first().map(Found::of).transpose()?;
        let live = found.filter(|found| found.ended.is_none());
        match (&key.conflict, live) {
            (KeyConflict::Reject, live) if live.is_some() || has_life => {
                return Err(Refusal::KeyTaken { run }.into());
            }
            (KeyConflict::Replace(how), Some(live)) => self.replace(run, &live, how).await?,
            (KeyConflict::Debounce, Some(live))
                if live.definition.is_none()
                    && !self.is_stopped(id).await?
                    && self.lock_places(&[id]).await? > 0 =>
            {
                self.put_off(run, new, key).await?;
                return Ok(Some(run));
            }
            _ => {}
        }
        session.execute(FREE_KEY, &[&&*new.workflow, &key.key]).await?;
        Ok(None)
    }

    /// Whether a run that has not ended was told to: an application may say so before it begins.
    async fn is_stopped(&self, run: Uuid) -> Result<bool, Fault> {
        Ok(self.session.one(STOPPED, &[&run, &STOPS.as_slice()]).await?.try_get(0)?)
    }

    /// Ends a run that was never claimed, and tells one that was. Whoever holds it may end it meanwhile.
    async fn replace(&mut self, run: RunId, live: &Found, how: &Replace) -> Result<(), Stop> {
        let done = match self.end_found(run, live, Idle::NeverClaimed, &how.end).await {
            Err(Stop::Refusal(Refusal::Begun | Refusal::Held)) => self.send(run, &how.order).await,
            ended => ended,
        };
        match done {
            Err(Stop::Refusal(Refusal::Ended(_) | Refusal::Unknown)) => Ok(()),
            done => done,
        }
    }

    /// Has a run that was never claimed wait again, with another input.
    async fn put_off(&mut self, run: RunId, new: &NewRun, key: &NewKey) -> Result<(), Fault> {
        let (session, id) = (self.session, column::run(run));
        session.execute(UNPARK, &[&id]).await?;
        session.execute(UNREADY, &[&id]).await?;
        let delay = column::micros(new.delay.unwrap_or_default());
        let (input, context) = (&*new.input, new.context.as_deref());
        session.execute(PUT_OFF, &[&id, &input, &context, &delay]).await?;
        session.execute(CHANGE_KEY, &[&&*new.workflow, &key.key, &key.digest.as_slice()]).await?;
        self.changes.news.runs = true;
        session.execute(if delay > 0 { DELAY } else { MAKE_READY }, &[&id]).await?;
        Ok(())
    }

    async fn send(&mut self, run: RunId, message: &NewMessage) -> Result<(), Stop> {
        let mut batch = Batch::default();
        batch.send(run, message);
        let outcome = batch.write(self.session, self.node).await?;
        outcome.sent.into_iter().collect::<Result<(), Refusal>>()?;
        self.changes.news.sent_to(run);
        Ok(())
    }

    async fn deliver(
        &mut self,
        run: RunId,
        claim: ClaimId,
        task: &SpreadKey,
        outcome: &[u8],
    ) -> Result<Written, Fault> {
        let mut batch = Batch::default();
        batch.deliver(run, claim, task, outcome);
        let is_delivered = batch.write(self.session, self.node).await?.delivered == [true];
        if is_delivered {
            self.changes.news.outcome_of(run);
        }
        Ok(if is_delivered { Written::Done { at: self.now } } else { Written::TooLate })
    }

    async fn end_idle(&mut self, run: RunId, only: Idle, end: &NewEnd) -> Result<(), Stop> {
        let found = self.read(run).await?;
        found.refuse_ended()?;
        self.end_found(run, &found, only, end).await
    }

    /// Ends a run that was live when it was read, if nobody holds it.
    async fn end_found(&mut self, run: RunId, found: &Found, only: Idle, end: &NewEnd) -> Result<(), Stop> {
        let (session, id) = (self.session, column::run(run));
        if self.lock_places(&[id]).await? == 0 {
            return Err(Refusal::Held.into());
        }
        if only == Idle::NeverClaimed && found.definition.is_some() {
            return Err(Refusal::Begun.into());
        }
        session.execute(UNPARK, &[&id]).await?;
        session.execute(UNREADY, &[&id]).await?;
        session
            .execute(END, &[&id, &(end.state as i16), &end.output.as_deref(), &end.failure.as_deref()])
            .await?;
        session.execute(CLEAR_INBOX, &[&id]).await?;
        session.execute(CLEAR_SAVED, &[&id]).await?;
        session.execute(FREE_SLOT, &[&id]).await?;
        spread::clear(session, run).await?;
        self.changes.news.ended.push(run);
        self.tell(run, found).await
    }

    /// Tells the parent of a run that has just ended, if it has one.
    async fn tell(&mut self, run: RunId, found: &Found) -> Result<(), Stop> {
        let Some(parent) = &found.parent else { return Ok(()) };
        match self.send(parent.run, &parent.message(run, found.generation)).await {
            // One that has ended, or is not there, need not know.
            Ok(()) | Err(Stop::Refusal(_)) => Ok(()),
            Err(fault) => Err(fault),
        }
    }

    /// Forgets what is recorded and saved of a held run, unless this step is there.
    async fn forget(&self, run: RunId, tenure: Tenure, unless: &StepRow) -> Result<(), Fault> {
        let run = column::run(run);
        let (generation, attempt) = (column::count(unless.generation), column::count(unless.attempt));
        let name = &*unless.name;
        let asked: Params<'_> =
            &[&run, &tenure.no, &generation, &name, &attempt, &column::started_in(unless)];
        self.session.execute(FORGET, asked).await?;
        Ok(())
    }

    async fn reopen(&mut self, run: RunId, after: u32) -> Result<(), Stop> {
        let (session, id) = (self.session, column::run(run));
        let found = self.read(run).await?;
        if found.ended.is_none() || found.generation != after {
            return Err(Refusal::Open.into());
        }
        session.execute(UNFOLD, &[&id, &(StepKind::Completed as i16)]).await?;
        session.execute(REOPEN, &[&id]).await?;
        // What was sent while it ended may have come after it.
        session.execute(CLEAR_INBOX, &[&id]).await?;
        Ok(self.make_ready(run).await?)
    }

    async fn read(&self, run: RunId) -> Result<Found, Stop> {
        let rows = self.session.query(READ, &[&column::run(run)]).await?;
        let row = rows.first().ok_or(Refusal::Unknown)?;
        Ok(Found::of(row)?)
    }
}

impl Found {
    fn of(row: &Row) -> Result<Self, Fault> {
        let ended: Option<i16> = row.try_get(2)?;
        Ok(Self {
            generation: column::number(row, 0)?,
            definition: row.try_get(1)?,
            ended: ended.map(|_| column::run_state(row, 2)).transpose()?,
            parent: image::parent(row, 3)?,
        })
    }

    fn refuse_ended(&self) -> Result<(), Refusal> {
        self.ended.map_or(Ok(()), |state| Err(Refusal::Ended(state)))
    }
}
