//! Calls of a durable function, from where they are made to where it hears how they ended.

use std::{sync::Arc, task::Waker, time::Duration};

use windlass_core::{CallKind, Failure, StepKind, Time};

use super::{
    super::{undo::Undo, waker},
    Call, Outcome, Scene, Status, Then, Turn,
};

impl Scene {
    /// Notes a call.
    pub(in crate::flow) fn call(
        &self,
        name: &str,
        kind: CallKind,
        topic: Option<Arc<str>>,
    ) -> Result<u64, Failure> {
        if let Some(outer) = waker::current_step() {
            return Err(Failure::permanent(format!(
                "`{name}` is called inside the step `{outer}`: a step is one piece of work, and calls nothing durable itself"
            )));
        }
        let mut state = self.state.lock();
        let id = state.journal.call(name, kind).map_err(|misuse| Failure::permanent(misuse.to_string()))?;
        let number = state.next;
        state.next += 1;
        let (status, due) = match state.tried.get(&id) {
            Some((_, at)) => (Status::Backoff, *at),
            // It was started, or is about to be: that is recorded once, however often the function is run again.
            None if state.begun.contains(&id) => (Status::Started, None),
            None => (Status::Waiting, None),
        };
        state.numbers.insert(Arc::clone(&id), number);
        if due.is_some() || topic.is_some() {
            state.waits.insert(number);
        }
        let call = Call { id, kind, status, waker: None, due, topic, dropped: false, undo: None, cx: None };
        state.open.insert(number, call);
        Ok(number)
    }

    pub(in crate::flow) fn set_due(&self, number: u64, after: Duration) {
        let mut state = self.state.lock();
        let due = state.journal.now() + after;
        state.wait_until(number, due);
    }

    pub(in crate::flow) fn set_due_at(&self, number: u64, due: Time) {
        self.state.lock().wait_until(number, due);
    }

    pub(in crate::flow) fn set_undo(&self, number: u64, undo: Undo) {
        if let Some(call) = self.state.lock().open.get_mut(&number) {
            call.undo = Some(undo);
        }
    }

    /// The future of a call is gone. What is recorded of it, or about to be, still counts.
    pub(in crate::flow) fn forget(&self, number: u64) {
        let mut state = self.state.lock();
        let Some(call) = state.open.get_mut(&number) else { return };
        call.dropped = true;
        call.waker = None;
        let is_over = matches!(call.status, Status::Ended(_));
        let comes = matches!(call.status, Status::Recording);
        let id = Arc::clone(&call.id);
        if is_over || (!comes && !state.journal.has(&id)) {
            state.close(number, &id);
        }
    }

    /// Sets where a call stands, and lets the driver look.
    pub(in crate::flow) fn set_status(&self, number: u64, status: Status) {
        if let Some(call) = self.state.lock().open.get_mut(&number) {
            call.status = status;
        }
        self.nudge();
    }

    /// How a wait ended, if the function may know.
    pub(in crate::flow) fn ended(self: &Arc<Self>, number: u64, waker: &Waker) -> Option<Outcome> {
        match self.turn(number, waker) {
            Turn::Ended(_, outcome) => Some(outcome),
            _ => None,
        }
    }

    /// What a call may do now.
    pub(in crate::flow) fn turn(self: &Arc<Self>, number: u64, waker: &Waker) -> Turn {
        let mut state = self.state.lock();
        let may_begin = state.journal.is_live() && state.may_begin();
        let Some(call) = state.open.get_mut(&number) else { return Turn::Wait };
        if let Status::Ended(outcome) = &call.status {
            let outcome = outcome.clone();
            let id = Arc::clone(&call.id);
            state.close(number, &id);
            return Turn::Ended(id, outcome);
        }
        if call.waker.as_ref().is_none_or(|known| !known.will_wake(waker)) {
            call.waker = Some(waker.clone());
        }
        let id = Arc::clone(&call.id);
        match call.status {
            Status::Running => Turn::Running,
            Status::Waiting | Status::Started if call.kind == CallKind::Step && may_begin => {
                let first = matches!(call.status, Status::Waiting);
                let attempt = state.tried.get(&id).map_or(0, |(spent, _)| *spent) + 1;
                let recovered = self.cell.subject.epoch > 0;
                if let Some(call) = state.open.get_mut(&number) {
                    call.status = if first && recovered { Status::Starting } else { Status::Running };
                }
                if first && recovered {
                    // If it kills its process again, the records have to say so.
                    let now = self.now();
                    let row = self.row(&id, attempt, StepKind::Started, now, now, None, None);
                    drop(state);
                    self.record(row, Vec::new(), Then::Started(id));
                    return Turn::Wait;
                }
                Turn::Begin(id, attempt)
            }
            _ => Turn::Wait,
        }
    }
}
