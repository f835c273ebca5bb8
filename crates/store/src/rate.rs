//! How many may begin in a span of time.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_core::Time;

/// So many in any span of this length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// How many.
    pub count: u32,
    /// The length of the span.
    pub per: Duration,
}

impl Rate {
    /// The time under which it is noted that something is taken now: a little later, so that there are no more than a
    /// thousand of them in a span, however long that is.
    #[must_use]
    pub fn noted(&self, now: Time) -> Time {
        let grain = i64::try_from(self.per.as_micros() / 1000).unwrap_or(i64::MAX).max(1);
        let over = now.0.rem_euclid(grain);
        if over == 0 { now } else { Time(now.0.saturating_add(grain - over)) }
    }

    /// Nothing waits for this rate for longer than until then. What says so was told by a clock that has been put back since,
    /// and is looked at again.
    #[must_use]
    pub fn latest(&self, now: Time) -> Time {
        now + self.per + self.per
    }

    /// What was taken until then is not counted any more.
    #[must_use]
    pub fn past(&self, now: Time) -> Time {
        Time(now.0.saturating_sub(i64::try_from(self.per.as_micros()).unwrap_or(i64::MAX)))
    }

    /// Until when all is forgotten that was taken of keys, when their rate is changed. What one rate has left behind may be
    /// deleted at any time, so that no longer one may count it; and none has nothing to count.
    #[must_use]
    pub fn forgotten(before: Option<Self>, after: Option<Self>, now: Time) -> Option<Time> {
        match (before, after) {
            (Some(_), None) => Some(Time::MAX),
            (Some(before), Some(after)) if before.per < after.per => Some(before.past(now)),
            _ => None,
        }
    }

    /// How many may be taken now, and, when that is none, when the next one may be: in no span of this length are more
    /// taken than so many. `begun` says how many were taken when, oldest first.
    ///
    /// What lies more than a span ahead was noted by a clock that has been put back since, and is not counted: or nothing
    /// would begin until the clock is there again.
    #[must_use]
    pub fn left(&self, now: Time, begun: &[(Time, u32)]) -> (usize, Option<Time>) {
        let is_recent = |at: Time| at + self.per > now && at <= now + self.per;
        let recent: Vec<_> = begun.iter().filter(|(at, _)| is_recent(*at)).collect();
        let count: u64 = recent.iter().map(|(_, count)| u64::from(*count)).sum();
        let limit = u64::from(self.count);
        if count < limit {
            return (usize::try_from(limit - count).unwrap_or(usize::MAX), None);
        }
        // So many have to be longer ago before one more may come.
        let mut over = count - limit + 1;
        for (at, count) in recent {
            match over.checked_sub(u64::from(*count)) {
                Some(rest @ 1..) => over = rest,
                _ => return (0, Some(*at + self.per)),
            }
        }
        (0, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_no_span_more_are_taken_than_the_rate_says() {
        let rate = Rate { count: 3, per: Duration::from_micros(100) };
        let begun = [(Time(0), 1), (Time(50), 2)];
        assert_eq!(rate.left(Time(50), &begun), (0, Some(Time(100))));
        assert_eq!(rate.left(Time(99), &begun), (0, Some(Time(100))));
        assert_eq!(rate.left(Time(100), &begun), (1, None));
        assert_eq!(rate.left(Time(150), &begun), (3, None));
        let lowered = Rate { count: 1, ..rate };
        assert_eq!(lowered.left(Time(60), &begun), (0, Some(Time(150))));
    }

    #[test]
    fn a_clock_that_is_put_back_stops_a_queue_for_two_spans_at_most() {
        let rate = Rate { count: 1, per: Duration::from_micros(100) };
        assert_eq!(rate.left(Time(1_000), &[(Time(1_100), 1)]), (0, Some(Time(1_200))));
        assert_eq!(rate.left(Time(1_000), &[(Time(1_101), 1)]), (1, None));
        assert_eq!(rate.latest(Time(1_000)), Time(1_200));
    }

    #[test]
    fn a_long_span_is_noted_in_a_thousand_parts_and_never_too_early() {
        let day = Rate { count: 1, per: Duration::from_secs(86_400) };
        let grain = 86_400_000;
        assert_eq!(day.noted(Time(0)), Time(0));
        assert_eq!((day.noted(Time(1)), day.noted(Time(grain))), (Time(grain), Time(grain)));
        assert_eq!(Rate { count: 1, per: Duration::from_micros(999) }.noted(Time(7)), Time(7));
    }
}
