//! What is recorded of a durable function, and what follows from a record.

use std::{
    sync::{Arc, atomic::Ordering},
    task::{Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use serde::Serialize;
use smallvec::SmallVec;
use windlass_core::{CallKind, Detail, Failure, Retry, StepKind, Time, format_duration};
use windlass_store::{Act, InboxRow, StepRow, Unit};

use super::{super::waker, Outcome, Scene, State, Status, Then, UnderWay};
use crate::{
    committer::{Fate, Reply, Thread},
    run_loop::Mail,
};

impl Scene {
    #[allow(clippy::too_many_arguments, reason = "it is what a record is")]
    pub(in crate::flow) fn row(
        &self,
        id: &str,
        attempt: u32,
        kind: StepKind,
        started_at: Time,
        ended_at: Time,
        output: Option<Bytes>,
        detail: Option<Bytes>,
    ) -> StepRow {
        let subject = &self.cell.subject;
        StepRow {
            generation: subject.generation,
            name: self.record_name(id),
            attempt,
            epoch: subject.epoch,
            kind,
            started_at,
            ended_at,
            output,
            detail,
        }
    }

    /// Has a record written, and says what follows from it.
    pub(in crate::flow) fn record(self: &Arc<Self>, row: StepRow, consumed: Vec<i64>, then: Then) {
        self.write_record(None, row, consumed, false, then);
    }

    /// The same for what this call has come to.
    pub(in crate::flow) fn record_of(self: &Arc<Self>, call: u64, row: StepRow, then: Then) {
        self.write_record(Some(call), row, Vec::new(), false, then);
    }

    /// The same, in place of all that is recorded if `forget` says so.
    pub(in crate::flow) fn write_record(
        self: &Arc<Self>,
        call: Option<u64>,
        row: StepRow,
        consumed: Vec<i64>,
        forget: bool,
        then: Then,
    ) {
        if self.is_dry() {
            return;
        }
        let subject = &self.cell.subject;
        let mut line = self.line.lock();
        let mut state = self.state.lock();
        if let Some(call) = call.and_then(|call| state.open.get_mut(&call)) {
            call.status = Status::Recording;
        }
        let place = state.take_place(Some(then));
        drop(state);
        let act = Act::Record { claim: subject.claim, steps: vec![row], consumed, forget };
        let (unit, reply) = (Unit { run: subject.run, act }, Reply::Function(Arc::clone(self), place));
        if line.is_held {
            line.behind.push((unit, reply));
        } else {
            self.cell.node.hub.committer.submit(subject.holder, unit, reply);
        }
    }

    /// What became of the record at this place.
    pub(crate) fn answered(&self, place: u64, fate: Fate, thread: Thread) {
        match fate {
            Ok(_) => self.recorded(place, None),
            Err(lost) => {
                self.is_lost.store(true, Ordering::Release);
                // Whoever waits for it learns that it is not there.
                let then = self.state.lock().withdraw(place);
                drop(then);
                self.moved.notify_waiters();
                self.cell.hand(Mail::Committed(0, Err(Box::new(lost))), thread);
            }
        }
    }

    /// Records that a wait has ended: by itself, or with what came.
    pub(in crate::flow) fn end_wait(
        self: &Arc<Self>,
        id: &Arc<str>,
        kind: CallKind,
        now: Time,
        row: Option<InboxRow>,
    ) {
        let hub = &self.cell.node.hub;
        let detail = match self.cell.encode(&Detail { call: kind, ..Detail::default() }) {
            Ok(detail) => detail,
            Err(why) => return self.cell.break_off(why),
        };
        let consumed = row.as_ref().map(|row| row.seq).into_iter().collect();
        let (output, outcome) =
            match row.map(|row| (hub.read(format_args!("the event `{id}`"), row.body.clone()), row.body)) {
                None => (None, Outcome::Nothing),
                Some((Ok(json), body)) => (Some(body), Outcome::Value(json)),
                // Whoever decodes it says what is wrong with it.
                Some((Err(_), body)) => (Some(body.clone()), Outcome::Value(body)),
            };
        let record = self.row(id, 1, StepKind::Completed, now, now, output, detail);
        self.record(record, consumed, Then::Ended(Arc::clone(id), kind, now, outcome));
    }

    /// Records that a patch is on. What the function calls next is recorded after it.
    pub(in crate::flow) fn keep_patch(self: &Arc<Self>, name: &str) {
        let now = self.now();
        match self.cell.encode(&Detail { call: CallKind::Patch, ..Detail::default() }) {
            Ok(detail) => {
                let (sender, _) = tokio::sync::oneshot::channel();
                let row = self.row(&format!("{name}/patch"), 1, StepKind::Completed, now, now, None, detail);
                self.record(row, Vec::new(), Then::Tell(sender));
            }
            Err(why) => self.cell.break_off(why),
        }
    }

    /// Keeps a value for people to see, unless that was done when the function was run before.
    pub(in crate::flow) fn publish<T: Serialize>(
        self: &Arc<Self>,
        key: &str,
        value: &T,
    ) -> Result<(), Failure> {
        windlass_core::check_call_name(key).map_err(|misuse| Failure::permanent(misuse.to_string()))?;
        let (hub, subject) = (&self.cell.node.hub, &self.cell.subject);
        let json = serde_json::to_vec(value).map_err(|error| Failure::encode(format!("`{key}`"), error))?;
        let value =
            hub.keep(format_args!("what is published as `{key}`"), json.into()).map_err(Failure::from)?;
        if self.state.lock().journal.is_behind() || self.is_dry() {
            return Ok(());
        }
        let act = Act::Save { claim: subject.claim, step: self.record_name(&format!("/{key}")), value };
        let cell = Arc::clone(&self.cell);
        let reply = move |fate: Fate, thread| {
            if let Err(lost) = fate {
                cell.hand(Mail::Committed(0, Err(Box::new(lost))), thread);
            }
        };
        hub.committer.submit(subject.holder, Unit { run: subject.run, act }, Reply::Then(Box::new(reply)));
        Ok(())
    }

    /// How many attempts of a call are recorded as failed, and when the next is due.
    pub(in crate::flow) fn tried(&self, id: &str) -> (u32, Option<Time>) {
        self.state.lock().tried.get(id).copied().unwrap_or_default()
    }

    /// Waits until the node wants to give the run up. Polled by the driver, who is told of that.
    pub(in crate::flow) async fn halted(&self) {
        std::future::poll_fn(|_| match self.state.lock().is_halted {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }

    /// Waits until no record is on its way any more. Polled by the driver, who is told of that.
    pub(in crate::flow) async fn drained(&self) {
        std::future::poll_fn(|_| match self.state.lock().in_flight {
            0 => Poll::Ready(()),
            _ => Poll::Pending,
        })
        .await;
    }

    pub(in crate::flow) fn log_failure(
        &self,
        id: &str,
        attempt: u32,
        retry: &Retry,
        failure: &Failure,
        delay: Option<Duration>,
    ) {
        let subject = &self.cell.subject;
        let (run, key, attempts) = (subject.run, subject.key.as_deref(), retry.attempts);
        let workflow = &subject.registered.plan.definition.name;
        match delay.map(format_duration) {
            Some(delay) => tracing::warn!(
                %run, %workflow, key, step = id, attempt, attempts, %failure, delay,
                "{id} failed, attempt {attempt} of {attempts}: {failure}; trying again in {delay}"
            ),
            None => tracing::warn!(
                %run, %workflow, key, step = id, attempt, attempts, %failure,
                "{id} failed for good, attempt {attempt} of {attempts}: {failure}"
            ),
        }
    }

    /// A record is durable. What follows from it is done when all before it are.
    pub(super) fn recorded(&self, place: u64, then: Option<Then>) {
        let mut state = self.state.lock();
        let mut woken = SmallVec::<[Waker; 2]>::new();
        state.note_durable(place, then);
        while let Some(then) = state.next_durable() {
            woken.extend(then.and_then(|then| state.take_in(then)));
        }
        if state.taken_in <= place {
            return;
        }
        woken.extend(state.driver.clone());
        let is_awaited = state.awaiting > 0;
        drop(state);
        if is_awaited {
            self.moved.notify_waiters();
        }
        waker::ours(|| woken.into_iter().for_each(Waker::wake));
    }
}

impl State {
    /// Takes a place in the line of records. What follows may also be said when the record is there.
    pub(super) fn take_place(&mut self, then: Option<Then>) -> u64 {
        self.in_flight += 1;
        self.under_way.push_back(UnderWay { then, is_durable: false });
        self.taken_in + self.under_way.len() as u64 - 1
    }

    fn at_place(&mut self, place: u64) -> Option<&mut UnderWay> {
        self.under_way.get_mut(usize::try_from(place.checked_sub(self.taken_in)?).ok()?)
    }

    /// A record was not written, and nothing follows from it.
    fn withdraw(&mut self, place: u64) -> Option<Then> {
        self.at_place(place)?.then.take()
    }

    fn note_durable(&mut self, place: u64, then: Option<Then>) {
        if let Some(record) = self.at_place(place) {
            record.then = then.or(record.then.take());
            record.is_durable = true;
        }
    }

    /// What follows from the first record in the line, if it is durable.
    fn next_durable(&mut self) -> Option<Option<Then>> {
        let first = self.under_way.pop_front_if(|first| first.is_durable)?;
        self.taken_in += 1;
        self.in_flight -= 1;
        Some(first.then)
    }
    /// Does what follows from a record, and answers whom to wake.
    fn take_in(&mut self, then: Then) -> Option<Waker> {
        match then {
            Then::Ended(id, kind, at, outcome) => {
                let keeps = self.heard.is_some() || self.rehearses || self.keeps;
                match self.call_mut(&id).filter(|_| !keeps) {
                    Some(call) => call.outcome = Some(outcome),
                    None => drop(self.outcomes.insert(Arc::clone(&id), outcome)),
                }
                self.journal.record(id, kind, at);
                None
            }
            Then::Backoff(id, spent, at) => {
                self.tried.insert(Arc::clone(&id), (spent, Some(at)));
                let number = self.numbers.get(&id).copied()?;
                let call = self.wait_until(number, at)?;
                call.status = Status::Backoff;
                let (woken, is_gone) = (call.waker.clone(), call.dropped);
                if is_gone {
                    self.close(number, &id);
                }
                woken
            }
            Then::Started(id) => {
                let call = self.call_mut(&id)?;
                call.status = Status::Started;
                call.waker.clone()
            }
            Then::Begun(id, is_left) => {
                if let Some(call) = self.call_mut(&id) {
                    call.status = Status::Started;
                }
                self.begun.insert(id, is_left);
                None
            }
            Then::Promised(id, due) => {
                if let Some(call) = self.call_mut(&id) {
                    call.status = Status::Waiting;
                }
                self.dues.insert(id, due);
                None
            }
            // Whoever asked may have gone away.
            Then::Tell(asker) => {
                let _ = waker::ours(|| asker.send(()));
                None
            }
        }
    }
}
