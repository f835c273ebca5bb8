//! The store's time.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use windlass_core::Time;

/// Tells the time, and never an earlier one than it told before.
#[derive(Clone)]
pub(crate) struct Clock {
    source: Arc<dyn Fn() -> Time + Send + Sync>,
    latest: Arc<AtomicI64>,
}

impl Clock {
    /// A clock that asks `source`.
    pub(crate) fn new(source: Arc<dyn Fn() -> Time + Send + Sync>) -> Self {
        Self { source, latest: Arc::new(AtomicI64::new(i64::MIN)) }
    }

    /// A clock that asks the machine.
    pub(crate) fn system() -> Self {
        Self::new(Arc::new(machine_time))
    }

    /// The time.
    pub(crate) fn now(&self) -> Time {
        let told = (self.source)().0;
        Time(self.latest.fetch_max(told, Ordering::Relaxed).max(told))
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

#[allow(clippy::disallowed_methods, reason = "all processes on a SQLite file share this machine's clock")]
fn machine_time() -> Time {
    let micros = |span: std::time::Duration| i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => Time(micros(since)),
        Err(before) => Time(-micros(before.duration())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_stands_still_while_its_source_goes_back() {
        let told = Arc::new(AtomicI64::new(10));
        let source = Arc::clone(&told);
        let clock = Clock::new(Arc::new(move || Time(source.load(Ordering::Relaxed))));
        assert_eq!(clock.now(), Time(10));
        told.store(4, Ordering::Relaxed);
        assert_eq!(clock.now(), Time(10));
        told.store(11, Ordering::Relaxed);
        assert_eq!(clock.now(), Time(11));
    }
}
