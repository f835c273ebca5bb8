//! How urgent what waits has become.

use std::collections::{BTreeMap, VecDeque};

use windlass_core::{RunId, Time};

use crate::QueueLimits;

/// What the place of something that waits in a lane depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// As it was started.
    pub priority: u8,
    /// The run.
    pub run: RunId,
    /// Since when it might have been taken, by the time of the store: ids are made by clocks that nobody looks after, and a
    /// child has the time of its parent in its own.
    pub since: Time,
}

impl QueueLimits {
    /// Which of these comes first, the first of each line that is ordered by priority and id, or with ageing by id within one
    /// priority.
    ///
    /// Among those of one priority it is always the least id. With ageing, the first of each priority are compared by the time
    /// at which one of the highest priority would have to come to be in the same place, which never changes while it waits.
    pub fn first(&self, heads: impl IntoIterator<Item = Waiter>) -> Option<usize> {
        let heads =
            heads.into_iter().enumerate().map(|(at, head)| ((head.priority, head.run), at, head.since));
        let Some(step) = self.step() else { return heads.min().map(|(_, at, _)| at) };
        let mut firsts = BTreeMap::new();
        for (order @ (priority, run), at, since) in heads {
            let place = since.0.saturating_add(step.saturating_mul(i64::from(priority)));
            let first = firsts.entry(priority).or_insert((order, place, run, at));
            if order < first.0 {
                *first = (order, place, run, at);
            }
        }
        firsts.into_values().map(|(_, place, run, at)| (place, run, at)).min().map(|(.., at)| at)
    }

    /// Puts what waits in a lane into the order in which it is taken. It is given by priority and id.
    pub fn in_order<R>(&self, rows: Vec<R>, waiter: impl Fn(&R) -> Waiter) -> VecDeque<R> {
        if self.ageing.is_none() {
            return rows.into();
        }
        let mut priorities: BTreeMap<u8, VecDeque<R>> = BTreeMap::new();
        for row in rows {
            priorities.entry(waiter(&row).priority).or_default().push_back(row);
        }
        let (mut lines, mut ordered) = (priorities.into_values().collect::<Vec<_>>(), VecDeque::new());
        while let Some(at) = self.first(lines.iter().filter_map(VecDeque::front).map(&waiter)) {
            ordered.extend(lines[at].pop_front());
            lines.retain(|line| !line.is_empty());
        }
        ordered
    }

    /// The priority that something has come to by waiting, by which it is weighed against what waits in other queues. What comes
    /// first in a lane is never less urgent than what comes after it.
    #[must_use]
    pub fn urgency(&self, now: Time, waiter: Waiter) -> u8 {
        let Some(step) = self.step() else { return waiter.priority };
        let gained = now.0.saturating_sub(waiter.since.0).max(0) / step;
        waiter.priority.saturating_sub(u8::try_from(gained).unwrap_or(u8::MAX))
    }

    /// For how long one waits to gain a step.
    fn step(&self) -> Option<i64> {
        self.ageing.map(|step| i64::try_from(step.as_micros()).unwrap_or(i64::MAX).max(1))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const AGEING: QueueLimits = QueueLimits { ageing: Some(Duration::from_secs(60)), ..QueueLimits::NONE };

    fn waiter(seconds: i64, priority: u8, run: u8) -> Waiter {
        Waiter { priority, run: RunId::from_bytes([run; 16]), since: Time(seconds * 1_000_000) }
    }

    fn is_first(one: Waiter, other: Waiter) -> bool {
        AGEING.first([one, other]) == Some(0) && AGEING.first([other, one]) == Some(1)
    }

    #[test]
    fn one_that_has_waited_comes_before_a_more_urgent_one_that_has_not() {
        assert!(is_first(waiter(1_000, 5, 2), waiter(1_000, 6, 1)));
        assert!(is_first(waiter(1_000, 6, 2), waiter(1_061, 5, 1)), "it has waited for a step");
        assert!(is_first(waiter(1_059, 5, 2), waiter(1_000, 6, 1)));
        assert!(is_first(waiter(1_000, 9, 2), waiter(1_541, 0, 1)), "nothing starves");
        assert_eq!(QueueLimits::NONE.first([waiter(0, 6, 1), waiter(9_999, 5, 2)]), Some(1));
    }

    #[test]
    fn within_one_priority_the_order_is_that_of_ids() {
        assert!(is_first(waiter(2_000, 5, 1), waiter(1_000, 5, 2)));
        let rows = vec![waiter(500, 0, 7), waiter(2_000, 5, 1), waiter(0, 5, 2), waiter(900, 6, 3)];
        let order: Vec<u8> =
            AGEING.in_order(rows, |row| *row).iter().map(|row| row.run.as_bytes()[0]).collect();
        assert_eq!(order, [7, 3, 1, 2], "what is behind another of its priority waits for that");
    }

    #[test]
    fn what_has_waited_is_weighed_by_what_it_has_come_to() {
        let urgency = |seconds: i64| AGEING.urgency(Time(seconds * 1_000_000), waiter(1_000, 3, 1));
        assert_eq!([900, 1_000, 1_059, 1_060, 1_180, 9_999].map(urgency), [3, 3, 3, 2, 0, 0]);
        assert_eq!(QueueLimits::NONE.urgency(Time::MAX, waiter(0, 3, 1)), 3);
    }
}
