//! Which items are taken together.

use std::time::Duration;

use super::{Gathering, Item, MOST_BYTES};
use crate::Time;

/// No more batches than this are cut at a time, so that what follows from them is written in one transaction.
const MOST_BATCHES: usize = 1_000;
/// No more items than this are taken at a time.
const MOST_AT_ONCE: usize = 50_000;

/// Clocks of processes differ by less than this.
const ODD: Duration = Duration::from_secs(1);

/// What is taken from the front of those who wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cut {
    /// How many items each batch has, one after the other.
    pub(super) batches: Vec<usize>,
    /// When the next one is due, if anything is left.
    pub(super) due: Option<Time>,
}

impl Gathering {
    /// Cuts what is due. The first `flushed` items go whatever their age; with `waits`, none of the others do.
    ///
    /// The JSON of a batch is no longer than `limit`, unless a single item is.
    pub(super) fn cut(&self, items: &[Item], flushed: usize, waits: bool, limit: usize, now: Time) -> Cut {
        let (mut cut, mut taken, mut bytes) = (Cut::default(), 0, 0_usize);
        while let Some(oldest) = items.get(taken) {
            let flushed = flushed.saturating_sub(taken);
            let left = if waits { &items[taken..taken + flushed] } else { &items[taken..] };
            let (fits, is_full) = self.fill(left, limit);
            if fits == 0 {
                return cut;
            }
            let due = self.due(oldest, now);
            if !is_full && flushed == 0 && due > now {
                cut.due = Some(due);
                return cut;
            }
            // Those that came after a flush wait for their own time, if the flushed ones are not enough.
            let size = if !is_full && due > now { fits.min(flushed) } else { fits };
            bytes = left[..size].iter().fold(bytes, |sum, item| sum.saturating_add(item.bytes));
            let is_long = taken > 0 && bytes > MOST_BYTES;
            if cut.batches.len() == MOST_BATCHES || taken + size > MOST_AT_ONCE || is_long {
                cut.due = Some(now);
                return cut;
            }
            cut.batches.push(size);
            taken += size;
        }
        cut
    }

    /// When an item has waited long enough. One from far in the future came before the clock was put back.
    fn due(&self, item: &Item, now: Time) -> Time {
        let is_odd = item.at > now + self.age.max(ODD);
        if is_odd { now } else { item.at + self.age }
    }

    /// How many of these items one batch takes, and whether no other would go in.
    fn fill(&self, items: &[Item], limit: usize) -> (usize, bool) {
        // Two brackets, and a comma between any two.
        let mut bytes = 1_usize;
        for (at, item) in items.iter().enumerate() {
            bytes = bytes.saturating_add(item.bytes).saturating_add(1);
            if at == self.size || (at > 0 && bytes > limit) {
                return (at, true);
            }
        }
        (items.len(), items.len() >= self.size)
    }
}
