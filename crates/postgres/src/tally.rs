//! How many runs of each row of `holding` are left.

use std::collections::HashMap;

use windlass_core::{ClaimId, RunId};

/// A run as it is held. The same run may be held again before it is known here that it was given up: answers overtake
/// each other.
type Holding = (RunId, ClaimId);

/// Which runs came with which row. It decides nothing: it only knows when a row lists no held run any more.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    rows: HashMap<Holding, i64>,
    left: HashMap<i64, usize>,
    empty: Vec<i64>,
}

impl Tally {
    /// Notes the runs of a row.
    pub(crate) fn add(&mut self, row: i64, runs: impl IntoIterator<Item = Holding>) {
        for run in runs {
            *self.left.entry(row).or_default() += 1;
            if let Some(before) = self.rows.insert(run, row) {
                self.lose(before);
            }
        }
    }

    /// Notes that a run has gone.
    pub(crate) fn remove(&mut self, run: Holding) {
        if let Some(row) = self.rows.remove(&run) {
            self.lose(row);
        }
    }

    /// The rows of which nothing is left.
    pub(crate) fn take_empty(&mut self) -> Vec<i64> {
        std::mem::take(&mut self.empty)
    }

    /// Takes back rows that could not be removed.
    pub(crate) fn give_back(&mut self, rows: Vec<i64>) {
        self.empty.extend(rows);
    }

    fn lose(&mut self, row: i64) {
        if let Some(left) = self.left.get_mut(&row) {
            *left -= 1;
            if *left == 0 {
                self.left.remove(&row);
                self.empty.push(row);
            }
        }
    }
}
