//! Batches: items that are gathered until there are enough of them, or one has waited long enough.
//!
//! What has come is a list of [`Entry`]s in the order of their arrival. [`Gathering::decide`] says which of the items are
//! taken together, and when there is something to decide again; it knows neither the items nor where they wait.

mod attention;
mod basket;
mod cut;
mod origin;
#[cfg(test)]
mod tests;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use attention::Attention;
pub use basket::{Basket, Decision, Entry, LastBatch, Leftover, Tell};
pub use origin::{Origin, Senders};

use crate::{Fingerprint, RunId, Time, check::odd_name, format_duration};

/// The most items that a batch may have.
pub const MOST_ITEMS: usize = 10_000;

/// So many bytes of items are written in one transaction at most, unless one item or one batch has more: a database reads
/// only so much at once.
pub const MOST_BYTES: usize = 16 << 20;

/// The longest that an item may be made to wait.
pub const LONGEST_WAIT: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// The id of the run that gets a batch: the `place`-th that is cut at this time, whose first item has this number. Those
/// that are cut together sort as they were cut.
#[must_use]
pub fn run_id(batch: RunId, first: i64, place: u16, now: Time) -> RunId {
    let seed = Fingerprint::new().part("windlass batch 1").part(batch.as_bytes());
    let mut bytes = *seed.part(first.to_le_bytes()).run_id(now).as_bytes();
    bytes[6..8].copy_from_slice(&(0x7000 | (place & 0x0fff)).to_be_bytes());
    RunId::from_bytes(bytes)
}

/// How many items are taken together, and how long the oldest waits for the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gathering {
    /// As soon as so many wait, they are taken.
    pub size: usize,
    /// As soon as the oldest has waited for so long, all are taken that wait.
    pub age: Duration,
}

/// An item, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// When it came.
    pub at: Time,
    /// How long its JSON is.
    pub bytes: usize,
}

impl Gathering {
    /// Everything that is wrong with a batch of this name.
    #[must_use]
    pub fn problems(&self, name: &str) -> Vec<String> {
        let mut problems = Vec::new();
        if let Some(why) = odd_name(name) {
            problems.push(format!("a batch cannot be called `{name}`: {why}"));
        }
        if self.size == 0 || self.size > MOST_ITEMS {
            problems.push(format!(
                "a size of {} cannot be used: a batch has at least 1 item, and at most {MOST_ITEMS}",
                self.size
            ));
        }
        if self.age < Duration::from_millis(1) || self.age > LONGEST_WAIT {
            problems.push(format!(
                "an age of {} cannot be used: an item waits for at least 1ms, and for at most {}",
                format_duration(self.age),
                format_duration(LONGEST_WAIT)
            ));
        }
        problems
    }

    /// What is different in other settings of the same batch, in words.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Vec<String> {
        let mut found = Vec::new();
        if self.size != other.size {
            found.push(format!("the size was {}, and is {}", self.size, other.size));
        }
        if self.age != other.age {
            let (was, is) = (format_duration(self.age), format_duration(other.age));
            found.push(format!("the age was {was}, and is {is}"));
        }
        found
    }
}
