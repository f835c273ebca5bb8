//! How closely the arrival of items is watched.

use std::time::Duration;

use super::{Gathering, Item};
use crate::Time;

/// Items that are further apart do not come in a stream.
const LULL: Duration = Duration::from_millis(20);
/// A stream is not looked at more often than this, nor less often.
const OFTEN: Duration = Duration::from_millis(2);
const SELDOM: Duration = Duration::from_millis(50);
/// So many of the last items say how fast they come.
const LATELY: usize = 64;

/// When to look again at what has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attention {
    /// As soon as one more item comes.
    NextItem,
    /// At this time, however many come before.
    At(Time),
}

impl Gathering {
    /// How to wait for the items that are missing.
    ///
    /// Whoever looks at each item as it comes does so as often as there are items. In a stream it is enough to look when
    /// half of those may have come that are missing: that is a few times for a batch that fills
    /// within some of the longest pauses, and once in each of them for one that takes longer.
    pub(super) fn attention(&self, items: &[Item], now: Time) -> Attention {
        let lately = &items[items.len().saturating_sub(LATELY)..];
        let ([first, .., last], missing) = (lately, self.size.saturating_sub(items.len())) else {
            return Attention::NextItem;
        };
        let gaps = u32::try_from(lately.len() - 1).unwrap_or(u32::MAX);
        let gap = last.at.since(first.at) / gaps;
        if gap > LULL || now.since(last.at) > LULL || last.at.since(now) > LULL {
            return Attention::NextItem;
        }
        let missing = u32::try_from(missing).unwrap_or(u32::MAX);
        Attention::At(now + (gap.saturating_mul(missing) / 2).clamp(OFTEN, SELDOM))
    }
}
