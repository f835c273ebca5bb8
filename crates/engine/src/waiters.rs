//! Those who wait for the end of a run.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::oneshot;
use windlass_core::RunId;
use windlass_store::End;

/// Those in this process who wait for the end of a run, wherever it runs.
///
/// A run that ends here wakes them directly. For runs that end elsewhere, [`Watcher`](crate::watcher) asks
/// the store when it hears of a change.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    by_run: Mutex<HashMap<RunId, Vec<Waiting>>>,
}

/// Somebody who waits for one run, with a number to be forgotten by.
type Waiting = (u64, oneshot::Sender<Arc<End>>);

impl Waiters {
    /// Waits for the end of a run. Whoever registers after the run may have ended must also ask the store.
    pub(crate) fn register(self: &Arc<Self>, run: RunId) -> Waiter {
        let (sender, receiver) = oneshot::channel();
        let mut by_run = self.by_run.lock();
        let entry = by_run.entry(run).or_default();
        let number = entry.last().map_or(0, |(number, _)| number + 1);
        entry.push((number, sender));
        Waiter { run, number, receiver, waiters: Arc::clone(self) }
    }

    /// Tells everyone who waits for this run.
    pub(crate) fn wake(&self, run: RunId, end: impl FnOnce() -> End) {
        let Some(waiting) = self.by_run.lock().remove(&run) else { return };
        let end = Arc::new(end());
        for (_, sender) in waiting {
            // Whoever stopped waiting does not want to know.
            drop(sender.send(Arc::clone(&end)));
        }
    }

    /// The runs that somebody waits for.
    pub(crate) fn runs(&self) -> Vec<RunId> {
        self.by_run.lock().keys().copied().collect()
    }

    fn forget(&self, run: RunId, number: u64) {
        let mut by_run = self.by_run.lock();
        if let Some(waiting) = by_run.get_mut(&run) {
            waiting.retain(|(other, _)| *other != number);
            if waiting.is_empty() {
                by_run.remove(&run);
            }
        }
    }
}

/// One wait for the end of one run.
#[derive(Debug)]
pub(crate) struct Waiter {
    run: RunId,
    number: u64,
    pub(crate) receiver: oneshot::Receiver<Arc<End>>,
    waiters: Arc<Waiters>,
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.waiters.forget(self.run, self.number);
    }
}
