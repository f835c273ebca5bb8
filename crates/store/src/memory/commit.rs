//! Writing batches.

use std::{collections::HashSet, sync::Arc};

use bytes::Bytes;
use windlass_core::{ClaimId, NodeId, RunId, RunState};

use super::state::{Kept, Key, State};
use crate::{
    Act, End, Idle, InboxRow, KeyConflict, KeyLife, NewEnd, NewKey, NewMessage, NewRun, Place, Refusal,
    RunImage, RunRow, STOPS, SavedRow, Standing, StoreError, Unit, Wait, Written,
};

impl State {
    pub(super) fn commit(
        &mut self,
        node: Option<NodeId>,
        batch: &[Unit],
    ) -> Result<Vec<Result<Written, Refusal>>, StoreError> {
        if let Some(node) = node {
            self.fence(node)?;
        }
        let mut refused = HashSet::new();
        let answers = batch.iter().map(|Unit { run, act }| {
            let is_holders = act.holder().is_some();
            let answer = if is_holders && refused.contains(run) {
                Err(Refusal::Earlier)
            } else {
                act.check().and_then(|()| self.write(node, *run, act))
            };
            if is_holders && answer.is_err() {
                refused.insert(*run);
            }
            answer
        });
        Ok(answers.collect())
    }

    /// Writes one act. Every refusal comes before the first change.
    fn write(&mut self, node: Option<NodeId>, run: RunId, act: &Act) -> Result<Written, Refusal> {
        let done = Ok(Written::Done { at: self.now });
        match act {
            Act::Start(new) => self.start(node, run, new),
            Act::Send(message) => self.send(run, message).and(done),
            Act::EndIdle { only, end } => self.end_idle(run, *only, end).and(done),
            Act::Reopen { after } => self.reopen(run, *after).and(done),
            Act::Deliver { claim, task, outcome } => Ok(self.deliver(node, run, *claim, task, outcome)),
            Act::SaveSpread { claim, task, value } => Ok(self.save_spread(node, run, *claim, task, value)),
            Act::Record { claim, .. }
            | Act::Save { claim, .. }
            | Act::End { claim, .. }
            | Act::Park { claim, .. }
            | Act::Release { claim }
            | Act::Publish { claim, .. }
            | Act::Withdraw { claim, .. } => {
                let claim = *claim;
                let kept = self.runs.get(&run).ok_or(Refusal::NotYours)?;
                if let (Some(end), Some(by)) = (kept.end(), kept.ended_by)
                    && by == claim
                {
                    return Ok(Written::Done { at: end.at });
                }
                if kept.holder() != node.map(|node| (node, claim)) || node.is_none() {
                    return Err(Refusal::NotYours);
                }
                if let Act::Withdraw { tasks, reach, .. } = act {
                    return Ok(self.withdraw(run, tasks, *reach));
                }
                self.write_held(run, act);
                done
            }
        }
    }

    /// Writes an act of the run's holder.
    fn write_held(&mut self, run: RunId, act: &Act) {
        let kept = self.kept(run);
        match act {
            Act::Record { steps, consumed, forget, .. } => {
                if *forget {
                    kept.forget(&steps[0]);
                }
                kept.record(steps);
                kept.consume(consumed);
            }
            Act::Save { step, value, .. } => kept.save(step, value),
            Act::End { claim, steps, end } => {
                kept.record(steps);
                self.end(run, Some(*claim), end);
            }
            Act::Park { steps, consumed, wait, .. } => {
                kept.record(steps);
                kept.consume(consumed);
                self.park(run, wait);
            }
            Act::Release { .. } => self.make_ready(run),
            Act::Publish { definition, tasks, .. } => self.publish(run, *definition, tasks),
            Act::Withdraw { .. } => unreachable!("it has an answer of its own"),
            Act::Start(_)
            | Act::Send(_)
            | Act::EndIdle { .. }
            | Act::Reopen { .. }
            | Act::Deliver { .. }
            | Act::SaveSpread { .. } => unreachable!("these acts need no holder"),
        }
    }

    fn start(&mut self, node: Option<NodeId>, id: RunId, new: &NewRun) -> Result<Written, Refusal> {
        if self.runs.contains_key(&id) {
            return Ok(Written::Existing { run: id });
        }
        if let Some(key) = &new.key {
            if let Some(run) = self.standing_for(new, key)? {
                return Ok(Written::Existing { run });
            }
            let lapses_at = match key.life {
                KeyLife::Kept => None,
                KeyLife::For(life) => Some(self.now + life),
            };
            let entry = Key { run: id, digest: key.digest, lapses_at };
            self.keys.insert((Arc::clone(&new.workflow), key.key.clone()), entry);
        }

        let opened_at = self.now + new.delay.unwrap_or_default();
        if new.queue_key.is_some() {
            self.queues.entry(Arc::clone(&new.queue)).or_default();
        }
        let is_busy = self.queues.contains_key(&new.queue) || self.has_ready(&new.workflow, &new.queue);
        let owner = node.zip(new.owner.as_ref()).filter(|_| !is_busy);
        let (place, definition) = match owner {
            _ if opened_at > self.now => (Place::Waiting(delayed(opened_at)), None),
            Some((node, owner)) => (Place::Owned { node, claim: owner.claim }, Some(owner.definition)),
            None => (Place::Ready, None),
        };
        let owned = matches!(place, Place::Owned { .. });
        self.changed |= !owned;
        let standing = Standing { place, generation: 1, definition, opened_at, recoveries: 0 };
        let run = RunRow {
            id,
            workflow: new.workflow.clone(),
            queue: new.queue.clone(),
            queue_key: new.queue_key.clone(),
            priority: new.priority,
            created_at: self.now,
            timeout: new.timeout,
            input: new.input.clone(),
            context: new.context.clone(),
            key: new.key.as_ref().map(|key| key.key.clone()),
            tags: new.tags.clone(),
            forked_from: new.forked_from,
            trace: new.trace.clone(),
            parent: new.parent.clone(),
        };
        let image = RunImage {
            run,
            standing,
            steps: Vec::new(),
            inbox: Vec::new(),
            saved: Vec::new(),
            published: Vec::new(),
        };
        let mut kept = Kept::new(image);
        kept.record(&new.steps);
        self.runs.insert(id, kept);
        self.open.insert(id);
        Ok(Written::Started { at: self.now, owned })
    }

    /// The run that answers a start with this key, if the key is taken.
    fn standing_for(&mut self, new: &NewRun, key: &NewKey) -> Result<Option<RunId>, Refusal> {
        let Some(known) = self.live_key(&new.workflow, &key.key) else { return Ok(None) };
        let (run, differs, has_life) = (known.run, known.digest != key.digest, known.lapses_at.is_some());
        let is_live = self.runs.get(&run).is_some_and(|kept| kept.end().is_none());
        match &key.conflict {
            KeyConflict::Refuse if differs => Err(Refusal::KeyTaken { run }),
            KeyConflict::Refuse | KeyConflict::ReturnExisting => Ok(Some(run)),
            KeyConflict::Reject if is_live || has_life => Err(Refusal::KeyTaken { run }),
            KeyConflict::Replace(how) if is_live => {
                if self.end_idle(run, Idle::NeverClaimed, &how.end).is_err() {
                    self.send(run, &how.order)?;
                }
                Ok(None)
            }
            KeyConflict::Debounce if is_live && self.may_be_put_off(run) => {
                self.put_off(run, new, key);
                Ok(Some(run))
            }
            KeyConflict::Reject | KeyConflict::Replace(_) | KeyConflict::Debounce => Ok(None),
        }
    }

    fn may_be_put_off(&self, run: RunId) -> bool {
        let kept = &self.runs[&run];
        let is_stopped = kept.image.inbox.iter().any(|row| STOPS.contains(&row.topic.as_str()));
        kept.holder().is_none() && kept.image.standing.definition.is_none() && !is_stopped
    }

    /// Has a run that was never claimed wait again, with another input.
    fn put_off(&mut self, run: RunId, new: &NewRun, key: &NewKey) {
        let (now, opened_at) = (self.now, self.now + new.delay.unwrap_or_default());
        let image = &mut self.kept(run).image;
        (image.run.input, image.run.context) = (new.input.clone(), new.context.clone());
        image.standing.opened_at = opened_at;
        image.standing.place =
            if opened_at > now { Place::Waiting(delayed(opened_at)) } else { Place::Ready };
        self.changed = true;
        if let Some(known) = self.keys.get_mut(&(Arc::clone(&new.workflow), key.key.clone())) {
            known.digest = key.digest;
        }
    }

    fn has_ready(&self, workflow: &str, queue: &str) -> bool {
        self.open.iter().map(|run| &self.runs[run].image).any(|image| {
            image.standing.place == Place::Ready
                && &*image.run.workflow == workflow
                && &*image.run.queue == queue
        })
    }

    pub(super) fn send(&mut self, run: RunId, message: &NewMessage) -> Result<(), Refusal> {
        let kept = self.runs.get_mut(&run).ok_or(Refusal::Unknown)?;
        let seq = self.last_seq + 1;
        if let Some(key) = &message.key {
            let name = (message.topic.clone(), key.clone());
            if kept.messages.contains_key(&name) {
                return Ok(());
            }
            kept.refuse_ended()?;
            kept.messages.insert(name, seq);
        }
        kept.refuse_ended()?;
        self.last_seq = seq;
        self.changed = true;
        let wakes = kept.wait().is_some_and(|wait| wait.is_for(&message.topic));
        let (topic, body) = (message.topic.clone(), message.body.clone());
        kept.image.inbox.push(InboxRow { seq, run, topic, body, at: self.now });
        if wakes {
            self.make_ready(run);
        }
        Ok(())
    }

    fn park(&mut self, run: RunId, wait: &Wait) {
        let now = self.now;
        let kept = self.kept(run);
        if wait.is_due(now) || kept.image.inbox.iter().any(|row| wait.is_for(&row.topic)) {
            self.make_ready(run);
        } else {
            kept.image.standing.place = Place::Waiting(wait.clone());
            self.vacate(run);
            // Whoever sleeps until the next due run has to look again.
            self.changed = true;
        }
    }

    fn end_idle(&mut self, run: RunId, only: Idle, end: &NewEnd) -> Result<(), Refusal> {
        let kept = self.runs.get(&run).ok_or(Refusal::Unknown)?;
        kept.refuse_ended()?;
        if kept.holder().is_some() {
            return Err(Refusal::Held);
        }
        if only == Idle::NeverClaimed && kept.image.standing.definition.is_some() {
            return Err(Refusal::Begun);
        }
        self.end(run, None, end);
        Ok(())
    }

    fn end(&mut self, run: RunId, by: Option<ClaimId>, end: &NewEnd) {
        let at = self.now;
        self.free_slot(run);
        let kept = self.kept(run);
        for row in std::mem::take(&mut kept.image.inbox) {
            kept.messages.retain(|_, seq| *seq != row.seq);
        }
        kept.image.saved.clear();
        kept.image.published.clear();
        kept.ended_by = by;
        let NewEnd { state, output, failure } = end.clone();
        kept.image.standing.place = Place::Ended(End { state, at, output, failure });
        let message = kept.image.run.parent.as_ref().map(|parent| {
            let message = parent.message(run, kept.image.standing.generation);
            (parent.run, message)
        });
        self.open.remove(&run);
        self.changed = true;
        if let Some((parent, message)) = message {
            // One that has ended, or is not there, need not know.
            let _ = self.send(parent, &message);
        }
    }

    fn reopen(&mut self, run: RunId, after: u32) -> Result<(), Refusal> {
        let now = self.now;
        let kept = self.runs.get_mut(&run).ok_or(Refusal::Unknown)?;
        if kept.end().is_none() || kept.image.standing.generation != after {
            return Err(Refusal::Open);
        }
        let standing = &mut kept.image.standing;
        standing.generation += 1;
        standing.opened_at = now;
        standing.recoveries = 0;
        self.open.insert(run);
        self.make_ready(run);
        Ok(())
    }
}

impl Kept {
    fn refuse_ended(&self) -> Result<(), Refusal> {
        self.end().map_or(Ok(()), |end| Err(Refusal::Ended(end.state)))
    }

    fn consume(&mut self, seqs: &[i64]) {
        self.image.inbox.retain(|row| !seqs.contains(&row.seq));
        self.messages.retain(|(topic, _), seq| !(topic.starts_with('>') && seqs.contains(seq)));
    }

    pub(super) fn save(&mut self, step: &Arc<str>, value: &Bytes) {
        let saved = &mut self.image.saved;
        let row = SavedRow { step: Arc::clone(step), value: value.clone() };
        match saved.binary_search_by(|known| known.step.cmp(&row.step)) {
            Ok(at) => saved[at] = row,
            Err(at) => saved.insert(at, row),
        }
    }
}

/// How a run waits for the end of its delay.
fn delayed(until: windlass_core::Time) -> Wait {
    Wait { state: RunState::Pending, until: Some(until), topics: Vec::new(), reason: None, blocked_by: None }
}
