//! Instants as stores keep them.

use std::{
    fmt,
    ops::{Add, Sub},
    time::Duration,
};

use serde::{Deserialize, Serialize};

/// An instant, in microseconds since 1970, by the database's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(pub i64);

impl Time {
    /// The end of time, for "never".
    pub const MAX: Self = Self(i64::MAX);

    /// How long after `earlier` this is; zero when it is not after it.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(span.as_micros()).unwrap_or(i64::MAX)))
    }
}

impl Sub<Duration> for Time {
    type Output = Self;

    fn sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(span.as_micros()).unwrap_or(i64::MAX)))
    }
}

impl From<jiff::Timestamp> for Time {
    fn from(at: jiff::Timestamp) -> Self {
        Self(at.as_microsecond())
    }
}

impl From<Time> for jiff::Timestamp {
    /// Instants outside what a calendar can name become its first or last one.
    fn from(at: Time) -> Self {
        Self::from_microsecond(at.0).unwrap_or(if at.0 < 0 { Self::MIN } else { Self::MAX })
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        jiff::Timestamp::from(*self).fmt(f)
    }
}
