//! Where the calls of a durable function stand.

use std::{sync::Arc, task::Waker};

use windlass_core::{CallKind, Divergence, Time};

use super::{Call, Outcome, State, Status};

impl State {
    /// Whether a step may begin, once everything recorded has been heard.
    pub(in crate::flow) const fn may_begin(&self) -> bool {
        let is_leaving = self.is_halted || self.is_let_go;
        !self.is_paused && !is_leaving && !self.is_stopped && self.closing.is_none()
    }

    /// Notes a call that the function waits for from now on.
    pub(in crate::flow) fn open(&mut self, id: Arc<str>, kind: CallKind, topic: Option<Arc<str>>) -> u64 {
        let number = self.next;
        self.next += 1;
        let (status, due) = match self.tried.get(&id) {
            Some((_, at)) => (Status::Backoff, *at),
            // It was started, or is about to be: that is recorded once, however often the function is run again.
            None if self.begun.contains_key(&id) => (Status::Started, None),
            None => (Status::Waiting, None),
        };
        self.numbers.insert(Arc::clone(&id), number);
        if due.is_some() || topic.is_some() {
            self.waits.insert(number);
        }
        let call = Call {
            id,
            kind,
            status,
            outcome: None,
            waker: None,
            due,
            topic,
            dropped: false,
            is_aside: false,
            undo: None,
            cx: None,
            is_unkept: false,
        };
        let call = match self.spare.take() {
            Some(mut spare) => {
                *spare = call;
                spare
            }
            None => Box::new(call),
        };
        self.open.insert(number, call);
        if kind == CallKind::Visit {
            self.turning = Some(number);
        }
        number
    }

    /// How many attempts of a call were made.
    pub(in crate::flow) fn spent(&self, id: &str) -> u32 {
        let tried = self.tried.get(id).map_or(0, |(spent, _)| *spent);
        tried.max(self.spent_before(id))
    }

    /// How many of them were made in vain, before a state machine made the call once more.
    pub(in crate::flow) fn spent_before(&self, id: &str) -> u32 {
        if self.failed.is_empty() { 0 } else { self.failed.get(id).copied().unwrap_or(0) }
    }

    /// Notes which attempt of a step was its last.
    pub(in crate::flow) fn note_failed(&mut self, id: &Arc<str>, attempt: u32) {
        self.tried.remove(id);
        self.failed.insert(Arc::clone(id), attempt);
    }

    pub(in crate::flow) fn call_mut(&mut self, id: &str) -> Option<&mut Call> {
        let number = self.numbers.get(id)?;
        self.open.get_mut(number).map(|call| &mut **call)
    }

    /// Sets when a call ends, or goes on, by itself.
    pub(super) fn wait_until(&mut self, number: u64, due: Time) -> Option<&mut Call> {
        let call = self.open.get_mut(&number)?;
        call.due = Some(due);
        self.waits.insert(number);
        Some(call)
    }

    /// Forgets a call.
    pub(super) fn close(&mut self, number: u64, id: &str) {
        if let Some(mut call) = self.open.remove(&number) {
            // Most functions make one call after the other, which can all have the same place. It keeps nothing alive.
            call.status = Status::Waiting;
            (call.outcome, call.waker, call.undo, call.cx) = (None, None, None, None);
            self.spare = Some(call);
        }
        self.waits.remove(&number);
        self.numbers.remove(id);
    }

    /// The calls that somebody has to look after.
    pub(in crate::flow) fn attended(&self) -> impl Iterator<Item = &Call> {
        self.waits.iter().filter_map(|number| self.open.get(number)).map(|call| &**call)
    }

    /// Lets the function hear of the next thing that is recorded. Answers whether there was one, and whom to wake.
    pub(in crate::flow) fn hear(&mut self) -> Result<Option<Option<Waker>>, Divergence> {
        let Some(id) = self.journal.hear()? else { return Ok(None) };
        let number = self.numbers.get(&id).copied();
        let mut call = number.and_then(|number| self.open.get_mut(&number));
        let outcome = match call.as_mut().and_then(|call| call.outcome.take()) {
            Some(outcome) => outcome,
            None if self.heard.is_some() || self.rehearses || self.keeps => {
                self.outcomes.get(&id).cloned().unwrap_or(Outcome::Nothing)
            }
            None => self.outcomes.remove(&id).unwrap_or(Outcome::Nothing),
        };
        if let Some(heard) = &mut self.heard {
            heard.push(Arc::clone(&id));
            self.outcomes.entry(Arc::clone(&id)).or_insert_with(|| outcome.clone());
        }
        let (Some(number), Some(call)) = (number, call) else { return Ok(Some(None)) };
        let undo = call.undo.take().filter(|_| !self.inherited.contains(&id));
        if let (Some(undo), Outcome::Value(value)) = (undo, &outcome) {
            self.undos.push((Arc::clone(&id), value.clone(), *undo));
        }
        let woken = call.waker.take();
        self.children.remove(&number);
        match call.dropped {
            true => self.close(number, &id),
            false => call.status = Status::Ended(outcome),
        }
        Ok(Some(woken))
    }

    /// Waits whose time has to be recorded before it counts.
    pub(in crate::flow) fn promises(&mut self) -> Vec<(Arc<str>, CallKind, Time)> {
        let unkept = |call: &&mut Box<Call>| call.is_unkept && matches!(call.status, Status::Waiting);
        let promise = |call: &mut Box<Call>| {
            (call.is_unkept, call.status) = (false, Status::Starting);
            Some((Arc::clone(&call.id), call.kind, call.due?))
        };
        self.open.values_mut().filter(unkept).filter_map(promise).collect()
    }

    /// Notes that the end of a wait is being recorded.
    pub(in crate::flow) fn end_wait(&mut self, number: u64) -> Option<(Arc<str>, CallKind)> {
        let call = self.open.get_mut(&number)?;
        call.status = Status::Recording;
        Some((Arc::clone(&call.id), call.kind))
    }

    /// Asks the code of running steps to stop. Answers whether there is any. What waits for its turn to write is to be
    /// recorded as far as anybody knows, and does not begin then.
    pub(in crate::flow) fn stop_running(&self) -> bool {
        let is_running = |call: &Call| matches!(call.status, Status::Running);
        let begun =
            self.open.values().filter(|call| is_running(call) || matches!(call.status, Status::Recording));
        begun.clone().flat_map(|call| &call.cx).for_each(|cx| cx.inner().stop.set());
        begun.filter(|call| is_running(call)).count() > 0
    }

    /// Whether everything asked for is recorded and heard.
    pub(in crate::flow) fn is_quiet(&self) -> bool {
        self.in_flight == 0 && !self.journal.is_behind()
    }

    /// Whether there may be something to see to, when everything recorded has been heard.
    pub(in crate::flow) fn needs_attention(&self) -> bool {
        let has_waits = !self.waits.is_empty() || self.turning.is_some();
        self.must_not_rest() || self.looking_back.is_some() || has_waits && self.may_begin()
    }

    /// Whether the next round is to begin.
    pub(in crate::flow) const fn continues(&self) -> bool {
        self.next_input.is_some()
    }

    /// Whether code of a step is running or about to, or a record is on its way.
    pub(in crate::flow) fn is_busy(&self) -> bool {
        self.in_flight > 0
            || self.open.values().any(|call| match call.status {
                Status::Running | Status::Starting | Status::Recording => true,
                // What was about to begin when that was forbidden is not waited for.
                Status::Started => self.may_begin(),
                _ => false,
            })
    }

    /// Whether the function waits for something that it called.
    pub(in crate::flow) fn has_waits(&self) -> bool {
        self.open.values().any(|call| !call.is_aside)
    }

    /// Whether code that may do something else beside its calls waits for one of them.
    pub(in crate::flow) fn awaits(&self) -> bool {
        self.open.values().any(|call| call.waker.is_some())
    }

    /// Whether how a call ended is being recorded.
    pub(in crate::flow) fn is_recording(&self) -> bool {
        self.open.values().any(|call| matches!(call.status, Status::Recording))
    }

    /// Everybody who may begin now.
    pub(in crate::flow) fn waiting(&self) -> Vec<Waker> {
        self.open.values().filter_map(|call| call.waker.clone()).collect()
    }

    /// Notes what the function waits for, and until when if it does nothing else. Answers whether the run has to be told
    /// again: it wanted to leave when it could not.
    pub(in crate::flow) fn set_rest(&mut self, topics: Vec<String>, until: Option<Time>) -> bool {
        (self.topics, self.rests) = (topics, until);
        std::mem::take(&mut self.was_asked_to_leave)
    }

    /// Whether a patch is on for this run. The second answer says whether that has to be recorded.
    pub(in crate::flow) fn patch(&mut self, name: &str) -> (bool, bool) {
        if let Some(on) = self.patches.get(name) {
            return (*on, false);
        }
        // What is still to be heard was recorded by code that did not ask.
        let on = !self.journal.is_behind() && self.looking_back.is_none();
        self.patches.insert(name.into(), on);
        (on, on)
    }
}
