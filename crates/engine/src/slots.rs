//! Room for attempts, queue by queue.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};

/// How many attempts this node executes at once in each queue.
#[derive(Debug)]
pub(crate) struct Slots {
    queues: BTreeMap<Arc<str>, Arc<Semaphore>>,
    /// For queues that are not served: a run that is in one may have been claimed when it was.
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
#[derive(Debug, Default)]
pub(crate) struct Seat {
    taken: AtomicBool,
    /// Held while one is being taken.
    taking: tokio::sync::Mutex<()>,
}

impl Seat {
    /// Whether a slot was taken.
    pub(crate) fn is_taken(&self) -> bool {
        self.taken.load(Ordering::Acquire)
    }

    /// Takes a slot if one is free, or was taken before.
    pub(crate) fn try_take(&self, slots: &Semaphore) -> bool {
        self.is_taken() || slots.try_acquire().map(|permit| self.keep(permit)).is_ok()
    }

    /// Waits for a free slot and takes it.
    pub(crate) async fn take(&self, slots: &Semaphore) {
        // An attempt may wait for several things at once, and has one slot all the same.
        let _alone = self.taking.lock().await;
        if self.is_taken() {
            return;
        }
        // The semaphore is never closed.
        if let Ok(permit) = slots.acquire().await {
            self.keep(permit);
        }
    }

    fn keep(&self, permit: SemaphorePermit<'_>) {
        permit.forget();
        self.taken.store(true, Ordering::Release);
    }

    /// Gives the slot back, if one was taken.
    pub(crate) fn vacate(&self, slots: &Semaphore) {
        if self.taken.swap(false, Ordering::AcqRel) {
            slots.add_permits(1);
        }
    }
}
