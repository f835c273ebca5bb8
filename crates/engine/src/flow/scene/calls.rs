//! Calls of a durable function, from where they are made to where it hears how they ended.

use std::{sync::Arc, task::Waker, time::Duration};

use windlass_core::{CallKind, Failure, StepKind, Time};

use super::{
    super::{driver::cut_off, undo::Undo, waker},
    Outcome, Scene, Status, Then, Turn,
};

impl Scene {
    /// Notes a call.
    pub(in crate::flow) fn call(
        &self,
        within: &str,
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
        let id = match within {
            "" => state.journal.call(name, kind),
            visit => state.journal.call_within(visit, name, kind),
        };
        let id = id.map_err(|misuse| Failure::permanent(misuse.to_string()))?;
        Ok(state.open(id, kind, topic))
    }

    pub(in crate::flow) fn set_due(&self, number: u64, after: Duration) {
        let mut state = self.state.lock();
        if self.is_task {
            return state.promise(number, self.cell.node.hub.clock.now() + after);
        }
        let due = state.journal.now() + after;
        state.wait_until(number, due);
    }

    pub(in crate::flow) fn set_due_at(&self, number: u64, due: Time) {
        self.state.lock().wait_until(number, due);
    }

    /// The same, for a wait beside what the code waits for.
    pub(in crate::flow) fn set_aside(&self, number: u64, due: Time) {
        if let Some(call) = self.state.lock().wait_until(number, due) {
            call.is_aside = true;
        }
    }

    pub(in crate::flow) fn set_undo(&self, number: u64, undo: Undo) {
        if let Some(call) = self.state.lock().open.get_mut(&number) {
            call.undo = Some(Box::new(undo));
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
        let is_ready = state.journal.is_live() || state.journal.is_resting();
        let may_begin = is_ready && (state.may_begin() || state.must_not_rest());
        let is_stopped = state.is_stopped;
        let Some(call) = state.open.get_mut(&number) else { return Turn::Wait };
        if let Status::Ended(outcome) = &mut call.status {
            let outcome = std::mem::replace(outcome, Outcome::Nothing);
            let id = Arc::clone(&call.id);
            state.close(number, &id);
            return Turn::Ended(id, outcome);
        }
        if is_stopped {
            return Turn::Ended(Arc::clone(&call.id), Outcome::Failed(Box::new(cut_off())));
        }
        if call.waker.as_ref().is_none_or(|known| !known.will_wake(waker)) {
            call.waker = Some(waker.clone());
        }
        let id = Arc::clone(&call.id);
        match call.status {
            Status::Running => Turn::Running,
            Status::Waiting | Status::Started
                if matches!(call.kind, CallKind::Step | CallKind::Visit) && may_begin =>
            {
                let first = matches!(call.status, Status::Waiting) && call.kind == CallKind::Step;
                // What is recorded is about to be heard of; and a visit waits for what is being recorded of it.
                let kind = call.kind;
                if state.journal.has(&id) || (kind == CallKind::Visit && state.is_recording()) {
                    return Turn::Wait;
                }
                let attempt = state.spent(&id) + 1;
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
