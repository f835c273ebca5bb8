//! How long things took, one by one.

use std::time::Duration;

/// A collection of times.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latencies(Vec<Duration>);

impl Latencies {
    /// One with room for some, so that what it measures need not wait for more.
    pub(crate) fn with_room() -> Self {
        Self(Vec::with_capacity(1024))
    }

    /// Adds one.
    pub(crate) fn push(&mut self, took: Duration) {
        self.0.push(took);
    }

    /// Adds those of another.
    pub(crate) fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The smallest time that `part` of all times do not exceed (0.99 for the 99th percentile), in milliseconds;
    /// nothing when there are none.
    pub(crate) fn percentile_ms(&mut self, part: f64) -> Option<f64> {
        if self.0.is_empty() {
            return None;
        }
        let rank = (part * self.0.len() as f64).ceil() as usize;
        let index = rank.clamp(1, self.0.len()) - 1;
        let (_, chosen, _) = self.0.select_nth_unstable(index);
        Some(chosen.as_secs_f64() * 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let mut all = Latencies::default();
        for ms in (1..=200).rev() {
            all.push(Duration::from_millis(ms));
        }
        assert_eq!(all.percentile_ms(0.5), Some(100.0));
        assert_eq!(all.percentile_ms(0.99), Some(198.0));
        assert_eq!(all.percentile_ms(1.0), Some(200.0));
        assert_eq!(all.percentile_ms(0.0), Some(1.0));
        assert_eq!(Latencies::default().percentile_ms(0.5), None);
    }
}
