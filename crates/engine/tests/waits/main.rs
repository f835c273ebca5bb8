//! Tasks of graphs that wait, and that are undone, in the laboratory's time.

mod children;
mod events;
mod lethal;
mod refused;
mod shorter;
mod sleeps;
mod steering;
mod undo;

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;

/// Counts what was done, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally(Arc<Mutex<Vec<String>>>);

impl Tally {
    pub(crate) fn add(&self, what: impl Into<String>) {
        self.0.lock().push(what.into());
    }

    pub(crate) fn of(&self, what: &str) -> usize {
        self.0.lock().iter().filter(|done| *done == what).count()
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().clone()
    }
}

pub(crate) fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub(crate) fn hours(n: u64) -> Duration {
    Duration::from_secs(n * 3600)
}
