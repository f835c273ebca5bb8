//! How a schedule is held back when its runs fail.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{Retry, format_duration, retry};

/// How long a schedule is held back after a failed run, and after how many failures in a row it stops.
///
/// The default is 1 s after the first failure, twice as long after each further one, at most 300 s, all of it ±10 %, and
/// never to stop.
///
/// ```
/// use std::time::Duration;
/// use windlass_core::schedule::Backoff;
///
/// let backoff = Backoff::default().jitter(0.0).trip_after(5);
/// assert_eq!(backoff.delay(1, 0.5), Duration::from_secs(1));
/// assert_eq!(backoff.delay(4, 0.5), Duration::from_secs(8));
/// assert_eq!(backoff.delay(1000, 0.5), Duration::from_secs(300));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Backoff {
    /// How long after the first failure. Default: 1 s.
    pub initial: Duration,
    /// How many times longer after each further failure. At least 1. Default: 2.
    pub multiplier: f64,
    /// No longer than this. Default: 300 s.
    pub max_delay: Duration,
    /// The share by which it may be shorter or longer, from 0 to 1; it is never longer than the longest. Default: 0.1.
    pub jitter: f64,
    /// After how many failures in a row it stops until somebody resets it. Default: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trip_after: Option<u32>,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            initial: Duration::from_secs(1),
            multiplier: 2.0,
            max_delay: Duration::from_secs(300),
            jitter: 0.1,
            trip_after: None,
        }
    }
}

impl Backoff {
    /// Sets how long it is held back after the first failure.
    #[must_use]
    pub fn initial(mut self, initial: Duration) -> Self {
        self.initial = initial;
        self
    }

    /// Sets how many times longer it is held back after each further failure.
    #[must_use]
    pub fn multiplier(mut self, multiplier: f64) -> Self {
        self.multiplier = multiplier;
        self
    }

    /// Sets the longest that it is held back.
    #[must_use]
    pub fn max_delay(mut self, longest: Duration) -> Self {
        self.max_delay = longest;
        self
    }

    /// Sets the share by which a delay may be shorter or longer: 0.1 is ±10 %, 0 is none.
    #[must_use]
    pub fn jitter(mut self, share: f64) -> Self {
        self.jitter = share;
        self
    }

    /// Makes it stop after this many failures in a row, until somebody resets it.
    #[must_use]
    pub fn trip_after(mut self, failures: u32) -> Self {
        self.trip_after = Some(failures);
        self
    }

    /// How long it is held back after so many failures in a row. `dice` is uniform in `[0, 1)` and decides the jitter.
    #[must_use]
    pub fn delay(&self, streak: u32, dice: f64) -> Duration {
        let backoff =
            retry::Backoff::Exponential { delay: self.initial, factor: self.multiplier, max: self.max_delay };
        Retry { attempts: u32::MAX, backoff, jitter: self.jitter, on: Vec::new() }.wait(streak, dice)
    }

    /// Everything that is wrong with it.
    pub(super) fn faults(&self) -> Vec<String> {
        let Self { initial, multiplier, max_delay, jitter, trip_after } = self;
        let mut faults = Vec::new();
        if !(multiplier.is_finite() && *multiplier >= 1.0) {
            faults.push(format!("a multiplier of {multiplier} is not a number from 1 up"));
        }
        if !(0.0..=1.0).contains(jitter) {
            faults.push(format!("a jitter of {jitter} is not between 0 and 1"));
        }
        if initial > max_delay {
            let (initial, longest) = (format_duration(*initial), format_duration(*max_delay));
            faults.push(format!("its first delay of {initial} is longer than its longest of {longest}"));
        }
        if *trip_after == Some(0) {
            faults.push("it stops after 0 failures: it would never run".to_owned());
        }
        faults
    }
}

impl fmt::Display for Backoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (initial, longest) = (format_duration(self.initial), format_duration(self.max_delay));
        write!(f, "{initial} × {} up to {longest}, jitter {}", self.multiplier, self.jitter)?;
        match self.trip_after {
            Some(failures) => write!(f, ", stopped after {failures} failures"),
            None => Ok(()),
        }
    }
}
