//! Telling an item from its repeat.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Time;

/// How long a sender is remembered after its last item was taken. Nobody repeats what was answered, and nobody waits so
/// long for an answer.
const REMEMBERED: Duration = Duration::from_secs(24 * 60 * 60);

/// Where an item comes from. Each process that sends items has a number of its own, counts what it sends, and writes it in
/// that order. When it does not hear whether something was written, it writes the same again, before anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Who sent it.
    pub sender: u64,
    /// The how many-th of that sender it is.
    pub number: u64,
}

/// How far the items of each sender were taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Senders(Vec<(u64, u64, Time)>);

impl Senders {
    /// Takes note of an item. Answers whether it is new, and not the repeat of one that was taken before.
    pub fn take(&mut self, origin: Origin, now: Time) -> bool {
        let Origin { sender, number } = origin;
        match self.0.iter_mut().find(|(known, ..)| *known == sender) {
            Some((_, last, _)) if number <= *last => false,
            Some((_, last, at)) => {
                (*last, *at) = (number, now);
                true
            }
            None => {
                self.0.push((sender, number, now));
                true
            }
        }
    }

    /// Forgets whom nobody has heard of for long.
    pub fn forget(&mut self, now: Time) {
        self.0.retain(|(_, _, at)| *at + REMEMBERED > now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeat_is_told_from_an_item_and_senders_from_each_other() {
        let (mut senders, now) = (Senders::default(), Time(1));
        let mut take = |sender, number| senders.take(Origin { sender, number }, now);
        let first: Vec<bool> = [5, 6, 5, 6, 7].map(|number| take(1, number)).into();
        assert_eq!(first, [true, true, false, false, true]);
        assert!(take(2, 5));
        senders.forget(now + REMEMBERED);
        assert_eq!(senders, Senders::default());
    }
}
