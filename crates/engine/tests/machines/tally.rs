//! What several tests share.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;

/// Notes what was done, by name.
#[derive(Clone, Debug, Default)]
pub struct Tally(Arc<Mutex<Vec<String>>>);

impl Tally {
    pub fn add(&self, what: impl Into<String>) -> usize {
        let what = what.into();
        let mut all = self.0.lock();
        all.push(what.clone());
        all.iter().filter(|known| **known == what).count()
    }

    pub fn of(&self, what: &str) -> usize {
        self.0.lock().iter().filter(|known| *known == what).count()
    }

    pub fn all(&self) -> Vec<String> {
        self.0.lock().clone()
    }

    pub fn counts(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        self.0.lock().iter().for_each(|what| *counts.entry(what.clone()).or_default() += 1);
        counts
    }
}

pub fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}
