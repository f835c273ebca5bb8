//! A roll that tasks answer when they run.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio::sync::Notify;

/// Counts the tasks that ran, and says when it was enough of them. It is a sign to look at the database, and
/// never a result by itself.
#[derive(Debug)]
pub(crate) struct Roll {
    present: AtomicU64,
    wanted: u64,
    full: Notify,
}

impl Roll {
    /// A roll for so many tasks.
    pub(crate) fn new(wanted: u64) -> Arc<Self> {
        Arc::new(Self { present: AtomicU64::new(0), wanted, full: Notify::new() })
    }

    /// A roll that is never full, for what goes on until its time is over.
    pub(crate) fn endless() -> Arc<Self> {
        Self::new(u64::MAX)
    }

    /// A task answers.
    pub(crate) fn answer(&self) {
        if self.present.fetch_add(1, Ordering::Relaxed) + 1 == self.wanted {
            self.full.notify_one();
        }
    }

    /// How many are to answer.
    pub(crate) fn wanted(&self) -> u64 {
        self.wanted
    }

    /// How many have answered.
    pub(crate) fn present(&self) -> u64 {
        self.present.load(Ordering::Relaxed)
    }

    /// Answers when all have.
    pub(crate) async fn full(&self) {
        self.full.notified().await;
    }
}
