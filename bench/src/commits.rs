//! How many transactions Windlass wrote, as it says itself through the `metrics` facade.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, Ordering},
};

use metrics::{Counter, CounterFn, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

use crate::Result;

static WRITTEN: OnceLock<Arc<Commits>> = OnceLock::new();

/// Counts one counter, and lets every other measurement go by.
#[derive(Debug, Default)]
struct Commits(AtomicU64);

/// Begins to count. Asking twice is harmless.
pub(crate) fn listen() -> Result<()> {
    let mut first = false;
    let commits = WRITTEN.get_or_init(|| {
        first = true;
        Arc::default()
    });
    if first {
        metrics::set_global_recorder(Ear(Arc::clone(commits))).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// How many transactions were written since the counting began.
pub(crate) fn written() -> u64 {
    WRITTEN.get().map_or(0, |commits| commits.0.load(Ordering::Relaxed))
}

struct Ear(Arc<Commits>);

impl CounterFn for Commits {
    fn increment(&self, value: u64) {
        self.0.fetch_add(value, Ordering::Relaxed);
    }

    fn absolute(&self, value: u64) {
        self.0.fetch_max(value, Ordering::Relaxed);
    }
}

impl Recorder for Ear {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        if key.name() == "windlass_commits_total" {
            Counter::from_arc(Arc::clone(&self.0))
        } else {
            Counter::noop()
        }
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_commits_are_counted() {
        listen().expect("nothing else listens in this process");
        listen().expect("asking twice is harmless");
        let before = written();
        metrics::counter!("windlass_commits_total").increment(3);
        metrics::counter!("windlass_records_total").increment(100);
        assert_eq!(written() - before, 3);
    }
}
