//! Those who wait for the end of a run.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use parking_lot::Mutex;
use smallvec::SmallVec;
use tokio::sync::oneshot;
use windlass_core::RunId;
use windlass_store::End;

use crate::by_run::ByRun;

/// Those in this process who wait for the end of a run, wherever it runs.
///
/// A run that ends here wakes them directly. For runs that end elsewhere, [`Watcher`](crate::watcher) asks
/// the store when it hears of a change.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    by_run: Mutex<ByRun<SmallVec<[Waiting; 1]>>>,
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
        Waiter { run, number, receiver, told: false, waiters: Arc::clone(self) }
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

    /// Has everyone who waits for this run ask the store.
    pub(crate) fn ask_again(&self, run: RunId) {
        // Their channel closes without an answer.
        drop(self.by_run.lock().remove(&run));
    }

    /// The runs that somebody waits for.
    pub(crate) fn runs(&self) -> Vec<RunId> {
        self.by_run.lock().keys().copied().collect()
    }

    /// Those of these runs that somebody waits for.
    pub(crate) fn awaited(&self, runs: &[RunId]) -> Vec<RunId> {
        let by_run = self.by_run.lock();
        runs.iter().copied().filter(|run| by_run.contains_key(run)).collect()
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
    receiver: oneshot::Receiver<Arc<End>>,
    told: bool,
    waiters: Arc<Waiters>,
}

impl Waiter {
    /// The run's end; `None` when nobody is left to tell of it.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Arc<End>>> {
        let end = ready!(Pin::new(&mut self.receiver).poll(cx));
        self.told = true;
        Poll::Ready(end.ok())
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if !self.told {
            self.waiters.forget(self.run, self.number);
        }
    }
}
