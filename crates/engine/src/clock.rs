//! The store's time, followed without asking.

use std::{
    sync::{
        LazyLock,
        atomic::{AtomicI64, Ordering},
    },
    time::SystemTime,
};

use tokio::time::Instant;
use windlass_core::Time;

/// Follows the store's clock between two answers of the store.
///
/// It runs on tokio's clock, so that under virtual time it is virtual too.
#[derive(Debug)]
pub(crate) struct Clock {
    start: Instant,
    /// The store's time at `start`, in microseconds.
    base: AtomicI64,
}

impl Clock {
    /// Until the store has said what time it is, the machine's own clock has to do.
    pub(crate) fn new() -> Self {
        #[allow(clippy::disallowed_methods, reason = "this is the clock")]
        let machine = Time::from(SystemTime::now());
        Self { start: Instant::now(), base: AtomicI64::new(machine.0) }
    }

    pub(crate) fn now(&self) -> Time {
        self.at(Instant::now())
    }

    /// The store's time at an instant of tokio's clock.
    pub(crate) fn at(&self, instant: Instant) -> Time {
        Time(self.base.load(Ordering::Relaxed) + self.elapsed(instant))
    }

    /// Takes the store's word for what time it is.
    pub(crate) fn follow(&self, now: Time) {
        self.base.store(now.0 - self.elapsed(Instant::now()), Ordering::Relaxed);
    }

    /// When tokio's clock shows this time of the store.
    pub(crate) fn instant(&self, at: Time) -> Instant {
        let now = Instant::now();
        now + at.since(self.at(now))
    }

    fn elapsed(&self, instant: Instant) -> i64 {
        i64::try_from(instant.duration_since(self.start).as_micros()).unwrap_or(i64::MAX)
    }
}

/// Microseconds on a clock that goes on while the machine is suspended: what a lease is watched with.
pub(crate) fn awake_or_not() -> i64 {
    static START: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);
    // The kernel's uptime counts suspend, and needs no unsafe call. Elsewhere the monotonic clock must do.
    let uptime = std::fs::read_to_string("/proc/uptime").ok();
    let seconds = uptime.as_deref().and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    match seconds {
        Some(seconds) => (seconds * 1e6) as i64,
        None => i64::try_from(START.elapsed().as_micros()).unwrap_or(i64::MAX),
    }
}
