//! How much this node has ended of late, by queue.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use windlass_core::Time;

/// How far back it looks, and in how many parts.
const SPAN: Duration = Duration::from_secs(60);
const PARTS: usize = 12;

/// Counts what ends in each queue, for as long as a minute.
///
/// It is told to the others with each heartbeat: so counting costs nobody a row.
#[derive(Debug, Default)]
pub(crate) struct Throughput {
    queues: Mutex<HashMap<Arc<str>, Window>>,
}

/// What ended in the last parts of a minute.
#[derive(Debug, Default)]
struct Window {
    counts: [u32; PARTS],
    /// The part that was last written to, counted from the beginning of time.
    last: i64,
}

fn part(now: Time) -> i64 {
    now.0 / (SPAN.as_micros() as i64 / PARTS as i64)
}

impl Window {
    fn advance(&mut self, to: i64) {
        // A clock may have been put back, and what it said then lies ahead. Whoever is late by a part has only been slow.
        if to < self.last - 1 {
            let ahead = usize::try_from(self.last - to).map_or(PARTS, |ahead| ahead.min(PARTS));
            for step in 1..=ahead {
                self.counts[place(to + step as i64)] = 0;
            }
            self.last = to;
        }
        let steps = usize::try_from(to - self.last).unwrap_or(0).min(PARTS);
        for step in 0..steps {
            self.counts[place(to - step as i64)] = 0;
        }
        self.last = self.last.max(to);
    }

    fn sum(&self) -> u32 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }
}

fn place(part: i64) -> usize {
    usize::try_from(part.rem_euclid(PARTS as i64)).unwrap_or(0)
}

impl Throughput {
    /// Notes that something of a queue ended.
    pub(crate) fn note(&self, queue: &Arc<str>, now: Time) {
        let mut queues = self.queues.lock();
        if !queues.contains_key(queue) {
            queues.insert(Arc::clone(queue), Window::default());
        }
        if let Some(window) = queues.get_mut(queue) {
            window.advance(part(now));
            let count = &mut window.counts[place(window.last)];
            *count = count.saturating_add(1);
        }
    }

    /// How much ended in the last minute. Queues in which nothing did are left out, and forgotten.
    pub(crate) fn of_the_last_minute(&self, now: Time) -> BTreeMap<String, u32> {
        let mut queues = self.queues.lock();
        queues.retain(|_, window| {
            window.advance(part(now));
            window.sum() > 0
        });
        queues.iter().map(|(queue, window)| (String::from(&**queue), window.sum())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Time {
        Time((1_000_000 + seconds) * 1_000_000)
    }

    #[test]
    fn what_ended_more_than_a_minute_ago_is_not_counted() {
        let throughput = Throughput::default();
        let (mail, gpu): (Arc<str>, Arc<str>) = ("mail".into(), "gpu".into());
        let seen = |seconds| throughput.of_the_last_minute(at(seconds));
        throughput.note(&mail, at(0));
        throughput.note(&mail, at(30));
        throughput.note(&gpu, at(30));
        let (both, one) = (
            BTreeMap::from([("gpu".into(), 1), ("mail".into(), 2)]),
            BTreeMap::from([("gpu".into(), 1), ("mail".into(), 1)]),
        );
        assert_eq!(seen(54), both);
        assert_eq!(seen(66), one);
        assert_eq!(seen(96), BTreeMap::new());
        throughput.note(&mail, at(500));
        assert_eq!(seen(500), BTreeMap::from([("mail".into(), 1)]));
    }

    #[test]
    fn what_a_clock_that_was_put_back_said_is_not_counted_for_longer_than_a_minute() {
        let throughput = Throughput::default();
        let mail: Arc<str> = "mail".into();
        throughput.note(&mail, at(3_600));
        throughput.note(&mail, at(3_596));
        let seen = |seconds| throughput.of_the_last_minute(at(seconds));
        assert_eq!(seen(3_600), BTreeMap::from([("mail".into(), 2)]), "whoever is slow is counted");
        throughput.note(&mail, at(0));
        assert_eq!(seen(0), BTreeMap::from([("mail".into(), 1)]));
        assert_eq!(seen(66), BTreeMap::new());
    }
}
