//! How a batch stands, for people and programs.

use std::time::Duration;

use serde::Serialize;
use windlass_core::{Time, batch::LastBatch};

use super::batches::View;

/// How a batch stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BatchStatus {
    /// Its name.
    pub name: String,
    /// The workflow whose runs it starts.
    pub workflow: String,
    /// How many items are enough.
    pub size: usize,
    /// How long an item waits at most.
    pub age: Duration,
    /// How many items wait.
    pub waiting: usize,
    /// When the oldest of them came.
    pub oldest: Option<Time>,
    /// When they go at the latest: now, if they should have gone already. `None` when nothing waits, and while it is paused.
    pub next_due: Option<Time>,
    /// Why it was paused, if it is.
    pub paused: Option<String>,
    /// How many runs it has started.
    pub runs: u64,
    /// How many items those got.
    pub items: u64,
    /// The last run that was started.
    pub last_run: Option<LastBatch>,
    /// Why it could not do what it was to do when it last tried, if it could not: a codec that failed, a message of a newer
    /// program. It tries again by itself, within five minutes.
    pub trouble: Option<String>,
}

impl BatchStatus {
    pub(super) fn of(view: View) -> Self {
        let View { ledger, decision, now, trouble, .. } = view;
        let declaration = ledger.declaration;
        let going: usize = decision.batches.iter().map(Vec::len).sum();
        let next_due = if going > 0 { Some(now) } else { decision.due.map(|due| due.max(now)) };
        Self {
            name: declaration.name,
            workflow: declaration.workflow,
            size: declaration.gathering.size,
            age: declaration.gathering.age,
            waiting: decision.waiting + going,
            oldest: view.oldest,
            next_due,
            paused: decision.basket.paused,
            runs: decision.basket.batches,
            items: decision.basket.items,
            last_run: decision.basket.last,
            trouble,
        }
    }
}
