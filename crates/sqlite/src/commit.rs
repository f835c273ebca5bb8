//! Writing batches.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use rusqlite::Connection;
use windlass_core::{ClaimId, NodeId, RunId, Time};
use windlass_store::{Act, NewEnd, Refusal, StepRow, Unit, Wait, Written};

use crate::{
    book::Book,
    desk::Desk,
    ended::{self, NewEndedRow},
    error::Fault,
    held::{Held, Mirror},
    inbox,
    mix::MixBuilder,
    name::Names,
    node,
    pen::Pen,
    place::Carried,
    queue::Queues,
    ready::{self, ReadyRow},
    remains,
    run::{self, Core},
    saved,
    sheets::Sheets,
    spread::{self, Published},
    step::StepKey,
    waiting,
};

/// The answers to a batch.
pub(crate) type Answers = Vec<Result<Written, Refusal>>;

/// Why an act was not written: it was refused before its first change, or a statement failed.
pub(crate) enum Stop {
    Refusal(Refusal),
    Sql(rusqlite::Error),
}

impl From<rusqlite::Error> for Stop {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refusal(refusal)
    }
}

/// The statements of a batch that may be used for every run.
pub(crate) struct Pens<'c> {
    pub(crate) remove_ready: Pen<'c>,
    pub(crate) add_waiting: Pen<'c>,
    pub(crate) remove_waiting: Pen<'c>,
}

impl<'c> Pens<'c> {
    pub(crate) fn new(conn: &'c Connection) -> Self {
        Self {
            remove_ready: Pen::new(conn, ready::REMOVE),
            add_waiting: Pen::new(conn, waiting::ADD),
            remove_waiting: Pen::new(conn, waiting::REMOVE),
        }
    }
}

/// A batch that is being written.
pub(crate) struct Batch<'a> {
    pub(crate) conn: &'a Connection,
    pub(crate) names: &'a mut Names,
    pub(crate) pens: Pens<'a>,
    /// What is not written yet: whoever reads calls [`Batch::settle`] first.
    pub(crate) sheets: Sheets<'a>,
    /// The runs of the committing node.
    pub(crate) mirror: Option<&'a mut Mirror>,
    pub(crate) now: Time,
    /// Whether something happened that others may wait for.
    pub(crate) stirred: bool,
    /// Whether a run of a queue and workflow is ready, where it was asked.
    ready: HashMap<(i64, i64), bool, MixBuilder>,
    /// Whether any inbox has a row, once it was asked.
    messages: Option<bool>,
    /// The workflow and the queue of the last start, and their numbers.
    pub(crate) line: Option<(&'a Arc<str>, &'a Arc<str>, i64, i64)>,
    /// What is known of the queues that were declared.
    queues: Queues,
    /// Whether anything is left of runs that were discarded, once it was asked.
    remains: Option<bool>,
}

/// Writes a batch, in order, and answers each unit.
pub(crate) fn commit(desk: &mut Desk, node: Option<NodeId>, units: &[Unit]) -> Result<Answers, Fault> {
    let now = desk.clock.now();
    let mut mirror = node.map(|node| node::fence(desk, node)).transpose()?;
    let queues = Queues::new(mirror.as_ref().map(|mirror| mirror.any_queue));
    let Book { conn, names } = &mut desk.book;
    let mut batch = Batch {
        conn,
        names,
        pens: Pens::new(conn),
        sheets: Sheets::new(conn, desk.starts),
        mirror: mirror.as_mut(),
        now,
        stirred: false,
        ready: HashMap::default(),
        messages: None,
        line: None,
        queues,
        remains: None,
    };
    let answers = batch.write_all(units)?;
    let stirred = batch.stirred;
    // Its statements go back to the connection before anything else is asked of it.
    drop(batch);
    if let (Some(node), Some(mut mirror)) = (node, mirror) {
        mirror.write(&desk.book.conn)?;
        desk.mirrors.insert(node, mirror);
    }
    if stirred {
        desk.stir(node);
    }
    Ok(answers)
}

/// About how many bytes a batch brings.
pub(crate) fn payload(units: &[Unit]) -> usize {
    /// What anything takes that has a row of its own.
    const ROW: usize = 128;
    let size = |bytes: &Option<bytes::Bytes>| bytes.as_ref().map_or(0, bytes::Bytes::len);
    let steps = |steps: &[StepRow]| -> usize {
        steps.iter().map(|step| ROW + size(&step.output) + size(&step.detail)).sum()
    };
    let act = |act: &Act| match act {
        Act::Start(new) => new.input.len() + size(&new.context) + ROW * new.tags.len() + steps(&new.steps),
        Act::Record { steps: new, consumed, .. } | Act::Park { steps: new, consumed, .. } => {
            steps(new) + ROW * consumed.len()
        }
        Act::End { steps: new, end, .. } => steps(new) + size(&end.output) + size(&end.failure),
        Act::Save { value, .. } => value.len(),
        Act::Send(message) => message.body.len(),
        Act::EndIdle { end, .. } => size(&end.output) + size(&end.failure),
        Act::Publish { tasks, .. } => ROW * tasks.len(),
        Act::Withdraw { tasks, .. } => ROW * tasks.len(),
        Act::Deliver { outcome: value, .. } | Act::SaveSpread { value, .. } => value.len(),
        Act::Reopen { .. } | Act::Release { .. } => 0,
    };
    units.iter().map(|unit| ROW + act(&unit.act)).sum()
}

impl<'a> Batch<'a> {
    fn write_all(&mut self, units: &'a [Unit]) -> Result<Answers, rusqlite::Error> {
        let mut answers = Vec::with_capacity(units.len());
        let mut refused = HashSet::new();
        for Unit { run, act } in units {
            let is_holders = act.holder().is_some();
            let answer = if is_holders && refused.contains(run) {
                Err(Stop::Refusal(Refusal::Earlier))
            } else {
                act.check().map_err(Stop::Refusal).and_then(|()| self.write(*run, act))
            };
            answers.push(match answer {
                Ok(written) => Ok(written),
                Err(Stop::Refusal(refusal)) => {
                    if is_holders {
                        refused.insert(*run);
                    }
                    Err(refusal)
                }
                Err(Stop::Sql(error)) => return Err(error),
            });
        }
        self.settle()?;
        Ok(answers)
    }

    /// Writes what was gathered, so that it can be read.
    pub(crate) fn settle(&mut self) -> Result<(), rusqlite::Error> {
        self.sheets.write()
    }

    fn write(&mut self, run: RunId, act: &'a Act) -> Result<Written, Stop> {
        match act {
            Act::Start(new) => return self.start(run, new),
            Act::Send(message) => self.send(run, message)?,
            Act::EndIdle { only, end } => self.end_idle(run, *only, end)?,
            Act::Reopen { after } => self.reopen(run, *after)?,
            Act::Deliver { claim, task, outcome } => return self.deliver(run, *claim, task, outcome),
            Act::SaveSpread { claim, task, value } => {
                return Ok(self.save_spread(run, *claim, task, value)?);
            }
            Act::Withdraw { claim, tasks, reach } => {
                return match self.held_generation(run, *claim) {
                    Some(generation) => Ok(self.withdraw(run, generation, tasks, *reach)?),
                    None => self.said_before(run, *claim),
                };
            }
            Act::Record { claim, .. }
            | Act::Save { claim, .. }
            | Act::End { claim, .. }
            | Act::Park { claim, .. }
            | Act::Release { claim }
            | Act::Publish { claim, .. } => {
                if !self.write_held(run, *claim, act)? {
                    return self.said_before(run, *claim);
                }
            }
        }
        Ok(Written::Done { at: self.now })
    }

    /// Writes an act of the run's holder. Answers whether the committing node is that.
    fn write_held(&mut self, run: RunId, claim: ClaimId, act: &'a Act) -> Result<bool, rusqlite::Error> {
        let Some(mirror) = self.mirror.as_deref_mut() else { return Ok(false) };
        match act {
            Act::Record { steps, consumed, forget, .. } => {
                let Some(held) = mirror.get(run, claim) else { return Ok(false) };
                if *forget {
                    held.forget(&mut self.sheets.steps, run, &steps[0])?;
                }
                held.record(&mut self.sheets.steps, run, steps)?;
                inbox::consume(self.conn, run, consumed)?;
            }
            Act::Save { step, value, .. } => {
                let Some(held) = mirror.get(run, claim) else { return Ok(false) };
                held.saved = true;
                saved::keep(self.conn, run, step, value)?;
            }
            Act::End { steps, end, .. } => {
                let Some(held) = mirror.take(run, claim) else { return Ok(false) };
                self.end_held(run, held, steps, end)?;
            }
            Act::Park { steps, consumed, wait, .. } => {
                let Some(mut held) = mirror.take(run, claim) else { return Ok(false) };
                held.record(&mut self.sheets.steps, run, steps)?;
                inbox::consume(self.conn, run, consumed)?;
                self.park(run, &held, wait)?;
            }
            Act::Release { .. } => {
                let Some(held) = mirror.take(run, claim) else { return Ok(false) };
                self.vacate(run, held.core.queue)?;
                self.make_ready(run, held.core, held.carried)?;
            }
            Act::Publish { definition, tasks, .. } => {
                let Some(held) = mirror.get(run, claim) else { return Ok(false) };
                held.spread = true;
                let published = Published::of(held);
                self.publish(run, &published, *definition, tasks)?;
            }
            Act::Withdraw { .. } => unreachable!("it has an answer of its own"),
            Act::Start(_)
            | Act::Send(_)
            | Act::EndIdle { .. }
            | Act::Reopen { .. }
            | Act::Deliver { .. }
            | Act::SaveSpread { .. } => unreachable!("these acts need no holder"),
        }
        Ok(true)
    }

    /// The generation of a run, if the committing node holds it under this claim.
    fn held_generation(&mut self, run: RunId, claim: ClaimId) -> Option<u32> {
        self.mirror.as_deref_mut()?.get(run, claim).map(|held| held.carried.generation)
    }

    /// Ends a run that its holder gave up. The last step goes along in the row of the end.
    fn end_held(
        &mut self,
        run: RunId,
        mut held: Held,
        steps: &'a [StepRow],
        end: &'a NewEnd,
    ) -> Result<(), rusqlite::Error> {
        let carried = held.carried;
        let mut last: Option<&StepRow> = None;
        if !steps.is_empty() {
            let records = held.records(&mut self.sheets.steps, run)?;
            for step in steps {
                // The last one is not in the table yet, where a repeat of it would be found.
                let repeats = last.is_some_and(|last| StepKey::of(last) == StepKey::of(step));
                if !repeats
                    && records.admits(&mut self.sheets.steps, run, step)?
                    && let Some(before) = last.replace(step)
                {
                    records.record(&mut self.sheets.steps, run, before);
                }
            }
            if let Some(step) = last.take_if(|step| !ended::can_fold(step, &carried, end)) {
                records.record(&mut self.sheets.steps, run, step);
            }
        }
        self.clear_inbox(run)?;
        if held.spread {
            spread::clear(self.conn, run)?;
        }
        if held.saved || held.spread {
            saved::clear(self.conn, run)?;
        }
        let Held { claim, core, .. } = held;
        self.free_slot(run, core.queue)?;
        let (at, claim) = (self.now, Some(claim));
        self.sheets.ended.add(NewEndedRow { run, core, carried, end, at, claim, step: last });
        self.stirred = true;
        self.tell_parent(run, &core, &carried)
    }

    fn park(&mut self, run: RunId, held: &Held, wait: &Wait) -> Result<(), rusqlite::Error> {
        self.vacate(run, held.core.queue)?;
        if wait.is_due(self.now) || inbox::has_topic(self.conn, run, &wait.topics)? {
            return self.make_ready(run, held.core, held.carried);
        }
        // Whoever sleeps until the next due run has to look again.
        self.stirred = true;
        waiting::add(&mut self.pens.add_waiting, run, &held.core, &held.carried, wait)
    }

    /// An act whose claim has written the end that the run stands at was written with it; any other act of
    /// somebody who does not hold the run is refused.
    fn said_before(&mut self, id: RunId, claim: ClaimId) -> Result<Written, Stop> {
        self.settle()?;
        let Some(core) = run::core(self.conn, id)? else { return Err(Refusal::NotYours.into()) };
        match ended::read(self.conn, id, &core)? {
            Some(row) if row.claim == Some(claim) => Ok(Written::Done { at: row.end.at }),
            _ => Err(Refusal::NotYours.into()),
        }
    }

    /// Makes a run ready that stands nowhere else.
    pub(crate) fn make_ready(
        &mut self,
        run: RunId,
        core: Core,
        carried: Carried,
    ) -> Result<(), rusqlite::Error> {
        // It may have been started, or recorded how it ends, by this very batch.
        self.settle()?;
        self.make_ready_in(ReadyRow::of(self.conn, run, core, carried)?);
        Ok(())
    }

    /// The same where its row is known.
    pub(crate) fn make_ready_in(&mut self, row: ReadyRow) {
        self.stirred = true;
        self.ready.insert((row.core.queue, row.core.workflow), true);
        self.sheets.ready.add(row);
    }

    /// Declares a queue, without limits, if it was not declared before.
    pub(crate) fn declare(&mut self, queue: i64) -> Result<(), rusqlite::Error> {
        if self.queues.declare(self.conn, queue)? {
            self.ready.retain(|(known, _), _| *known != queue);
        }
        Ok(())
    }

    /// Gives back the slot of a run that ends.
    pub(crate) fn free_slot(&mut self, run: RunId, queue: i64) -> Result<(), rusqlite::Error> {
        self.queues.free(self.conn, run, queue)
    }

    /// Gives back the slot of a run that is given up, unless its queue holds.
    fn vacate(&mut self, run: RunId, queue: i64) -> Result<(), rusqlite::Error> {
        self.queues.vacate(self.conn, run, queue)
    }

    /// Whether a run of this workflow is ready in this queue.
    pub(crate) fn is_any_ready(&mut self, core: &Core) -> Result<bool, rusqlite::Error> {
        let pair = (core.queue, core.workflow);
        if let Some(known) = self.ready.get(&pair) {
            return Ok(*known);
        }
        self.sheets.ready.write()?;
        let any = ready::any(self.conn, core.queue, core.workflow)?;
        self.ready.insert(pair, any);
        Ok(any)
    }

    /// Forgets what is known about ready runs of a queue and workflow: one was taken away.
    pub(crate) fn ask_ready_again(&mut self, core: &Core) {
        self.ready.remove(&(core.queue, core.workflow));
    }

    /// Whether anything is left of runs that were discarded.
    pub(crate) fn any_remains(&mut self) -> Result<bool, rusqlite::Error> {
        match self.remains {
            Some(any) => Ok(any),
            None => Ok(*self.remains.insert(remains::any(self.conn)?)),
        }
    }

    /// Notes that an inbox has a row.
    pub(crate) fn note_message(&mut self) {
        self.messages = Some(true);
    }

    /// Throws away what a run did not take in.
    pub(crate) fn clear_inbox(&mut self, run: RunId) -> Result<(), rusqlite::Error> {
        let any = match self.messages {
            Some(any) => any,
            None => *self.messages.insert(inbox::any(self.conn)?),
        };
        if any { inbox::clear(self.conn, run) } else { Ok(()) }
    }
}
