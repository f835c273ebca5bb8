//! Room for attempts, queue by queue.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many attempts this node executes at once in each queue.
#[derive(Debug)]
pub(crate) struct Slots {
    queues: BTreeMap<Arc<str>, Arc<Semaphore>>,
    /// For queues that only tasks name: each gets the default number of slots when it is first used.
    others: Mutex<BTreeMap<Arc<str>, Arc<Semaphore>>>,
    default: usize,
}

impl Slots {
    pub(crate) fn new(queues: &BTreeMap<Arc<str>, usize>, default: usize) -> Self {
        let queues = queues.iter().map(|(name, slots)| (Arc::clone(name), Arc::new(Semaphore::new(*slots))));
        Self { queues: queues.collect(), others: Mutex::default(), default }
    }

    pub(crate) fn of(&self, queue: &Arc<str>) -> Arc<Semaphore> {
        if let Some(slots) = self.queues.get(queue) {
            return Arc::clone(slots);
        }
        let mut others = self.others.lock();
        Arc::clone(others.entry(Arc::clone(queue)).or_insert_with(|| Arc::new(Semaphore::new(self.default))))
    }
}

/// The slot of one attempt. Code that cannot be stopped keeps it for as long as it runs.
#[derive(Debug)]
pub(crate) struct Seat {
    slots: Arc<Semaphore>,
    permit: Mutex<Option<OwnedSemaphorePermit>>,
}

impl Seat {
    pub(crate) fn new(slots: Arc<Semaphore>) -> Self {
        Self { slots, permit: Mutex::new(None) }
    }

    /// Waits for a free slot and takes it.
    pub(crate) async fn take(&self) {
        let permit = match Arc::clone(&self.slots).try_acquire_owned() {
            Ok(permit) => permit,
            // The semaphore is never closed.
            Err(_) => match Arc::clone(&self.slots).acquire_owned().await {
                Ok(permit) => permit,
                Err(_) => return,
            },
        };
        *self.permit.lock() = Some(permit);
    }

    /// Gives the slot back.
    pub(crate) fn vacate(&self) {
        drop(self.permit.lock().take());
    }
}
