//! Taking turns: no more than so many in any span of a length.

use std::{collections::VecDeque, time::Duration};

use serde::{Deserialize, Serialize};

use crate::Time;

/// How many turns are remembered at most. More of them in a longer span are as many in a shorter one.
const MOST: u32 = 1000;

/// So many times in every span of a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    times: u32,
    per: Duration,
}

impl Pace {
    /// No more than `times` begin in any span of the length `per`. Zero times are taken as once, for nothing would ever
    /// have its turn. Of more than 1,000 times, as many parts of the span have a thousandth of them each, which is stricter.
    #[must_use]
    pub const fn new(times: u32, per: Duration) -> Self {
        let times = if times == 0 { 1 } else { times };
        let parts = times.div_ceil(MOST);
        Self { times: times / parts, per: Duration::from_nanos((per.as_nanos() / parts as u128) as u64) }
    }
}

/// The latest turns that were taken, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Turns(VecDeque<Time>);

impl Turns {
    /// None.
    #[must_use]
    pub const fn new() -> Self {
        Self(VecDeque::new())
    }

    /// Takes a turn: the first instant, now or later, at which it can be had. They are taken in order.
    pub fn take(&mut self, pace: &Pace, now: Time) -> Time {
        let times = pace.times as usize;
        let before = self.0.len().checked_sub(times).and_then(|at| self.0.get(at));
        let free = before.map_or(now, |before| now.max(*before + pace.per));
        // A turn that was taken for later is not overtaken.
        let turn = self.0.back().map_or(free, |last| free.max(*last));
        self.0.push_back(turn);
        self.0.drain(..self.0.len().saturating_sub(times));
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn seconds(turns: &mut Turns, pace: Pace, now: i64, count: usize) -> Vec<f64> {
        (0..count).map(|_| turns.take(&pace, Time(now * 1_000_000)).0 as f64 / 1e6).collect()
    }

    #[test]
    fn no_more_than_so_many_have_their_turn_in_any_span() {
        let mut turns = Turns::default();
        assert_eq!(seconds(&mut turns, Pace::new(2, SECOND), 10, 5), [10.0, 10.0, 11.0, 11.0, 12.0]);
        assert_eq!(seconds(&mut turns, Pace::new(2, SECOND), 11, 1), [12.0], "the turns of others are kept");
        assert_eq!(seconds(&mut turns, Pace::new(2, SECOND), 100, 3), [100.0, 100.0, 101.0]);
    }

    #[test]
    fn a_clock_that_goes_back_gives_no_turn_twice() {
        let mut turns = Turns::default();
        assert_eq!(seconds(&mut turns, Pace::new(1, SECOND), 10, 1), [10.0]);
        assert_eq!(seconds(&mut turns, Pace::new(1, SECOND), 5, 1), [11.0]);
    }

    #[test]
    fn many_turns_are_had_by_parts_of_the_span() {
        assert_eq!(Pace::new(10_000, SECOND), Pace::new(1000, SECOND / 10));
        assert_eq!(Pace::new(1500, SECOND), Pace { times: 750, per: SECOND / 2 });
        assert_eq!(Pace::new(0, SECOND), Pace::new(1, SECOND));
        let mut turns = Turns::default();
        seconds(&mut turns, Pace::new(100_000, SECOND), 1, 5000);
        assert_eq!(turns.0.len(), 1000, "it does not grow");
    }
}
