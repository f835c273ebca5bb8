//! The rounds of an endless function.

use std::sync::Arc;

use windlass_core::{Journal, StepKind, Time};

use super::{super::visit::mark_past, CONTINUE, Scene};
use crate::Slot;

impl Scene {
    /// Forgets what the function called, which is run again from its top.
    pub(in crate::flow) fn rewind(&self) {
        let mut state = self.state.lock();
        let mut kept = state.journal.kept().to_vec();
        mark_past(&mut kept);
        let began_at = state.began_at.max(self.opened_at);
        state.journal = Journal::new(self.cell.subject.run, state.round, began_at, kept);
        state.children.clear();
        state.open.clear();
        state.waits.clear();
        state.numbers.clear();
        state.undos.clear();
        state.passed.clear();
        state.heard = None;
    }

    /// What the function begins with, if that is not the run's input.
    pub(crate) fn input(&self) -> Option<Slot> {
        self.state.lock().input.clone()
    }

    pub(in crate::flow) fn continue_with(&self, input: Slot) {
        self.state.lock().next_input = Some(input);
        self.nudge();
    }

    /// What the next round begins with, if this one is over.
    pub(in crate::flow) fn next_input(&self) -> Option<Slot> {
        self.state.lock().next_input.clone()
    }

    /// Records that the next round begins, and forgets this one.
    pub(in crate::flow) async fn begin_round(self: &Arc<Self>, input: Slot) {
        self.drained().await;
        let (hub, now) = (&self.cell.node.hub, self.now());
        let kept = match hub.keep(format_args!("what the next round begins with"), input.bytes().clone()) {
            Ok(kept) => kept,
            Err(error) => {
                self.cell.break_off(error.to_string());
                return std::future::pending().await;
            }
        };
        let round = self.state.lock().round + 1;
        let row = self.row(CONTINUE, round, StepKind::Completed, now, now, Some(kept), None);
        self.forget_and_write(row).await;
        self.enter_round(round, now, input);
    }

    fn enter_round(&self, round: u32, now: Time, input: Slot) {
        let mut state = self.state.lock();
        (state.round, state.began_at, state.input, state.next_input) = (round, now, Some(input), None);
        state.outcomes.clear();
        state.tried.clear();
        state.failed.clear();
        state.patches.clear();
        state.begun.clear();
        state.inherited.clear();
        state.journal = Journal::new(self.cell.subject.run, round, now, Vec::new());
        drop(state);
        self.rewind();
    }
}
