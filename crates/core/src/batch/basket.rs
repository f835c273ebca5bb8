//! Where a batch stands, and what it comes to with what has come.

use serde::{Deserialize, Serialize};

use super::{Attention, Gathering, Item, cut::Cut};
use crate::{RunId, Time};

/// Where a batch stands, beside the items that wait.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Basket {
    /// Why it was paused, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<String>,
    /// Whether somebody removed it. Items that come all the same are taken as before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_removed: bool,
    /// How many of the oldest items go now, whatever their age.
    #[serde(default)]
    pub flushed: usize,
    /// How many times what waited was thrown away.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub discards: u64,
    /// How many batches were taken.
    #[serde(default)]
    pub batches: u64,
    /// How many items were in them.
    #[serde(default)]
    pub items: u64,
    /// The last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<LastBatch>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The batch that was taken last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastBatch {
    /// The run that got it.
    pub run: RunId,
    /// When that was started.
    pub at: Time,
    /// How many items it got.
    pub items: usize,
}

/// What somebody told a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tell {
    /// It was declared, again or for the first time since it was removed.
    Declare,
    /// Whatever waits is to go now.
    Flush,
    /// Nothing is to go, but what is flushed.
    Pause {
        /// Why.
        note: String,
    },
    /// It is to go on.
    Resume,
    /// Nothing more comes.
    Remove(Leftover),
}

/// What becomes of the items that wait when a batch is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Leftover {
    /// They go now, in a last run, or in several if they are too many for one.
    Start,
    /// They are thrown away.
    Discard,
}

/// Something that has come, in the order of its arrival.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// An item.
    Item(Item),
    /// An item that cannot be read now. It stays, and lets the others pass, unless it is thrown away.
    Stuck,
    /// An order.
    Told(Tell),
}

/// What a batch comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Where it stands then. What is counted are batches that went before.
    pub basket: Basket,
    /// The items that are taken together: their places among the entries.
    pub batches: Vec<Vec<usize>>,
    /// The items that are thrown away.
    pub discarded: Vec<usize>,
    /// The items that stay because they cannot be read.
    pub stuck: Vec<usize>,
    /// How many items are left that can be read.
    pub waiting: usize,
    /// When the oldest of those came.
    pub oldest: Option<Time>,
    /// When the next batch is due at the latest, if it is known.
    pub due: Option<Time>,
    /// How to wait for more.
    pub attention: Attention,
}

impl Gathering {
    /// What a batch comes to with all that has come and was not taken yet. No batch has more JSON than `limit`, unless a
    /// single item does.
    #[must_use]
    pub fn decide(&self, mut basket: Basket, entries: &[Entry], limit: usize, now: Time) -> Decision {
        let (mut places, mut items) = (Vec::new(), Vec::new());
        let (mut discarded, mut stuck) = (Vec::new(), Vec::new());
        for (place, entry) in entries.iter().enumerate() {
            match entry {
                Entry::Item(item) => {
                    places.push(place);
                    items.push(*item);
                }
                Entry::Stuck => stuck.push(place),
                Entry::Told(Tell::Remove(Leftover::Discard)) => {
                    discarded.append(&mut places);
                    discarded.append(&mut stuck);
                    items.clear();
                    basket.hear(&Tell::Remove(Leftover::Discard), 0);
                }
                Entry::Told(tell) => basket.hear(tell, items.len()),
            }
        }
        basket.flushed = basket.flushed.min(items.len());
        let Cut { batches, due } = self.cut(&items, basket.flushed, basket.paused.is_some(), limit, now);
        let taken: usize = batches.iter().sum();
        basket.flushed = basket.flushed.saturating_sub(taken);
        let left = &items[taken..];
        let attention = match &basket.paused {
            // Whatever comes, it waits.
            Some(_) => Attention::At(due.unwrap_or(Time::MAX)),
            None => self.attention(left, now),
        };
        let mut places = places.into_iter();
        let batches = batches.into_iter().map(|size| places.by_ref().take(size).collect()).collect();
        let oldest = left.first().map(|item| item.at);
        Decision { basket, batches, discarded, stuck, waiting: left.len(), oldest, due, attention }
    }
}

impl Basket {
    /// How many of the entries are decided on together. A declaration holds for what goes after it: while something has
    /// to go that was flushed before, that goes first, as it was declared then.
    #[must_use]
    pub fn reach(&self, entries: &[Entry]) -> usize {
        let (mut items, mut flushed) = (0, self.flushed);
        for (place, entry) in entries.iter().enumerate() {
            match entry {
                Entry::Item(_) => items += 1,
                Entry::Told(Tell::Flush | Tell::Remove(Leftover::Start)) => flushed = items,
                Entry::Told(Tell::Remove(Leftover::Discard)) => (items, flushed) = (0, 0),
                Entry::Told(Tell::Declare) if items.min(flushed) > 0 => return place,
                Entry::Told(_) | Entry::Stuck => {}
            }
        }
        entries.len()
    }

    /// Takes in an order that came after so many items.
    fn hear(&mut self, tell: &Tell, items: usize) {
        match tell {
            Tell::Declare if self.is_removed => {
                (self.is_removed, self.paused) = (false, None);
            }
            Tell::Declare => {}
            Tell::Flush => self.flushed = items,
            // Nobody could resume it, and what comes all the same has to go.
            Tell::Pause { .. } if self.is_removed => {}
            Tell::Pause { note } => self.paused = Some(note.clone()),
            Tell::Resume => self.paused = None,
            Tell::Remove(leftover) => {
                (self.flushed, self.is_removed, self.paused) = (items, true, None);
                self.discards += u64::from(*leftover == Leftover::Discard);
            }
        }
    }

    /// Takes note of a batch that is taken.
    pub fn took(&mut self, last: LastBatch) {
        self.batches += 1;
        self.items += last.items as u64;
        self.last = Some(last);
    }
}
