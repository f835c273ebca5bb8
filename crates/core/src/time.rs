//! Instants as stores keep them.

use std::{
    fmt,
    ops::{Add, Sub},
    time::{Duration, SystemTime, UNIX_EPOCH},
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

impl From<SystemTime> for Time {
    /// Instants too far away to be kept become the first or the last one.
    fn from(at: SystemTime) -> Self {
        match at.duration_since(UNIX_EPOCH) {
            Ok(after) => Self(0) + after,
            Err(before) => Self(0) - before.duration(),
        }
    }
}

#[cfg(feature = "jiff")]
impl From<jiff::Timestamp> for Time {
    fn from(at: jiff::Timestamp) -> Self {
        Self(at.as_microsecond())
    }
}

#[cfg(feature = "jiff")]
impl From<Time> for jiff::Timestamp {
    /// Instants outside what a calendar can name become its first or last one.
    fn from(at: Time) -> Self {
        Self::from_microsecond(at.0).unwrap_or(if at.0 < 0 { Self::MIN } else { Self::MAX })
    }
}

impl fmt::Display for Time {
    /// As `2026-03-01T12:30:00.25Z`. Years beyond four digits are shown as the first and the last of them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SECOND: i64 = 1_000_000;
        const DAY: i64 = 86_400 * SECOND;
        /// The beginning of the year 0, and the end of the year 9999.
        const SHOWN: (i64, i64) = (-719_528 * DAY, 2_932_897 * DAY - 1);
        let at = self.0.clamp(SHOWN.0, SHOWN.1);
        let (year, month, day) = date(at.div_euclid(DAY));
        let of_day = at.rem_euclid(DAY);
        let (seconds, micros) = (of_day / SECOND, of_day % SECOND);
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        if micros != 0 {
            let digits = format!("{micros:06}");
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        f.write_str("Z")
    }
}

/// The year, month and day that lie so many days after the first of 1970.
pub(crate) fn date(days: i64) -> (i64, i64, i64) {
    // Years begin in March here, so that the leap day is the last of its year. Eras of 400 years are all alike.
    let since = days + 719_468;
    let (era, day) = (since.div_euclid(146_097), since.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (400 * era + year + next, month, day)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_instant_is_shown_as_a_date_and_a_time_of_day() {
        assert_eq!(Time(0).to_string(), "1970-01-01T00:00:00Z");
        assert_eq!(Time(-1).to_string(), "1969-12-31T23:59:59.999999Z");
        assert_eq!(Time(951_825_600_250_000).to_string(), "2000-02-29T12:00:00.25Z");
        assert_eq!(Time::MAX.to_string(), "9999-12-31T23:59:59.999999Z");
        assert_eq!(Time(i64::MIN).to_string(), "0000-01-01T00:00:00Z");
    }

    #[test]
    fn the_clock_of_the_system_is_understood() {
        let span = Duration::from_micros(1_500_000);
        assert_eq!(Time::from(UNIX_EPOCH + span), Time(1_500_000));
        assert_eq!(Time::from(UNIX_EPOCH - span), Time(-1_500_000));
    }

    proptest! {
        /// The whole of what both can show.
        #[test]
        fn a_calendar_library_shows_the_same(micros in -62_167_219_200_000_000_i64..253_402_207_200_000_000) {
            let other = jiff::Timestamp::from_microsecond(micros).unwrap();
            prop_assert_eq!(Time(micros).to_string(), other.to_string());
        }
    }

    #[cfg(feature = "jiff")]
    #[test]
    fn instants_beyond_a_calendar_become_its_last() {
        assert_eq!(jiff::Timestamp::from(Time::MAX), jiff::Timestamp::MAX);
        assert_eq!(Time::from(jiff::Timestamp::from(Time(7))), Time(7));
    }
}
