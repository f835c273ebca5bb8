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
    /// The slots of the task's own queue, where it names one.
    own: Option<Arc<Semaphore>>,
    taken: AtomicBool,
    /// Held while one is being taken.
    taking: tokio::sync::Mutex<()>,
}

impl Seat {
    pub(crate) fn new(own: Option<Arc<Semaphore>>) -> Self {
        Self { own, taken: AtomicBool::new(false), taking: tokio::sync::Mutex::new(()) }
    }

    fn among<'a>(&'a self, slots: &'a Arc<Semaphore>) -> &'a Semaphore {
        self.own.as_ref().unwrap_or(slots)
    }

    /// Takes a slot if one is free, of those of the run's queue unless the task names another.
    pub(crate) fn try_take(&self, slots: &Arc<Semaphore>) -> bool {
        let permit = self.among(slots).try_acquire();
        permit.map(|permit| self.keep(permit)).is_ok()
    }

    /// Waits for a free slot and takes it.
    pub(crate) async fn take(&self, slots: &Arc<Semaphore>) {
        // An attempt may wait for several things at once, and has one slot all the same.
        let _alone = self.taking.lock().await;
        if self.taken.load(Ordering::Acquire) {
            return;
        }
        // The semaphore is never closed.
        if let Ok(permit) = self.among(slots).acquire().await {
            self.keep(permit);
        }
    }

    fn keep(&self, permit: SemaphorePermit<'_>) {
        permit.forget();
        self.taken.store(true, Ordering::Release);
    }

    /// Gives the slot back, if one was taken.
    pub(crate) fn vacate(&self, slots: &Arc<Semaphore>) {
        if self.taken.swap(false, Ordering::AcqRel) {
            self.among(slots).add_permits(1);
        }
    }
}
