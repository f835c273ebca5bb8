//! Replaying a durable function to see whether its code fits the records, and doing nothing else.

use std::{sync::Arc, task::Poll};

use serde::de::DeserializeOwned;
use windlass_core::{Divergence, Failure};

use super::scene::{Outcome, Scene, Status};

/// What a replay that does nothing came to.
#[derive(Debug)]
pub(crate) enum Replayed {
    /// Everything recorded fits. These are the calls that the function waits for.
    Waits(Vec<Arc<str>>),
    /// Everything recorded fits, and the next round begins.
    Continues,
    /// Everything recorded fits, and the function returned this.
    Returned(Result<(), Failure>),
    /// The code does not fit the records.
    Diverged(Divergence),
    /// The function waits for something that is not recorded, so that nobody knows what it does next.
    Strays(Failure),
}

impl Scene {
    /// Whether the function is only replayed. Then nothing begins, and nothing is written.
    pub(super) fn is_dry(&self) -> bool {
        self.cell.is_dry()
    }

    /// What the replay came to.
    pub(crate) fn take_replayed(&self) -> Option<Replayed> {
        self.state().replayed.take().map(|replayed| *replayed)
    }

    /// The calls that the function waits for.
    pub(super) fn waits_for(&self) -> Vec<Arc<str>> {
        let state = self.state();
        let waits = state.open.values().filter(|call| !matches!(call.status, Status::Ended(_)));
        waits.map(|call| Arc::clone(&call.id)).collect()
    }

    /// Reads what a step came to. A record that cannot be read is no failure of the step, which did its work: its run waits
    /// for code that can.
    pub(super) fn read<T: DeserializeOwned>(&self, id: &str, outcome: Outcome) -> Poll<Result<T, Failure>> {
        let is_failure = matches!(outcome, Outcome::Failed(_));
        let read = outcome.decode();
        let mut state = self.state();
        match &read {
            Err(why) if !is_failure && !state.journal.is_live() => {
                let (step, why) = (id.to_owned(), why.message.clone());
                state.misfit = Some(Box::new(Divergence::Unreadable { step, why }));
                Poll::Pending
            }
            _ => Poll::Ready(read),
        }
    }
}
