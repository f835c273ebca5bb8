//! How often somebody may do something.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// From how many on those that have had a rest are forgotten.
const MANY: usize = 10_000;

/// Lets everybody do something so many times at once, and again as time passes.
pub(crate) struct Buckets<K> {
    burst: f64,
    per_second: f64,
    /// What was left of each at an instant.
    levels: Mutex<HashMap<K, (f64, Instant)>>,
}

impl<K: Hash + Eq> Buckets<K> {
    pub(crate) fn new(burst: u32, per_second: f64) -> Self {
        Self { burst: f64::from(burst), per_second, levels: Mutex::default() }
    }

    /// Takes one. When there is none, says for how long.
    pub(crate) fn take(&self, whose: K) -> Result<(), Duration> {
        let now = Instant::now();
        let level = |(level, at): (f64, Instant)| {
            let gained = now.duration_since(at).as_secs_f64() * self.per_second;
            (level + gained).min(self.burst)
        };
        let mut levels = self.levels.lock().unwrap_or_else(PoisonError::into_inner);
        if levels.len() >= MANY {
            levels.retain(|_, kept| level(*kept) < self.burst);
        }
        let left = levels.get(&whose).map_or(self.burst, |kept| level(*kept));
        if left < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - left) / self.per_second));
        }
        levels.insert(whose, (left - 1.0, now));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn everybody_has_a_bucket_that_fills_again() {
        let buckets = Buckets::new(2, 0.5);
        assert!(buckets.take("a").is_ok() && buckets.take("a").is_ok());
        assert_eq!(buckets.take("a"), Err(Duration::from_secs(2)));
        assert!(buckets.take("b").is_ok(), "another's is another");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(buckets.take("a"), Err(Duration::from_secs(1)));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(buckets.take("a").is_ok());
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(buckets.take("a").is_ok() && buckets.take("a").is_ok());
        assert!(buckets.take("a").is_err(), "it holds no more than it did at first");
    }

    #[tokio::test(start_paused = true)]
    async fn those_that_are_full_are_forgotten() {
        let buckets = Buckets::new(1, 1.0);
        (0..MANY).for_each(|whose| buckets.take(whose).unwrap());
        tokio::time::advance(Duration::from_secs(1)).await;
        buckets.take(MANY).unwrap();
        assert_eq!(buckets.levels.lock().unwrap().len(), 1);
    }
}
