//! The fields of a cron expression.

use std::fmt;

/// A field of a cron expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CronField {
    /// The first of six.
    Second,
    /// The first of five.
    Minute,
    /// From 0 to 23.
    Hour,
    /// From 1 to 31.
    DayOfMonth,
    /// From 1 to 12, or JAN to DEC.
    Month,
    /// From 0 to 7, where both 0 and 7 are Sunday, or SUN to SAT.
    DayOfWeek,
}

pub(super) const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
pub(super) const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

impl CronField {
    /// All six, in the order in which they are written.
    pub(super) const ALL: [Self; 6] =
        [Self::Second, Self::Minute, Self::Hour, Self::DayOfMonth, Self::Month, Self::DayOfWeek];

    /// The lowest and the highest number that may be written.
    pub(super) const fn bounds(self) -> (u32, u32) {
        match self {
            Self::Second | Self::Minute => (0, 59),
            Self::Hour => (0, 23),
            Self::DayOfMonth => (1, 31),
            Self::Month => (1, 12),
            Self::DayOfWeek => (0, 7),
        }
    }

    /// How many different values it has.
    pub(super) const fn size(self) -> u32 {
        match self {
            Self::DayOfWeek => 7,
            other => {
                let (low, high) = other.bounds();
                high - low + 1
            }
        }
    }

    /// The names that may be written for its numbers, from the lowest number up.
    pub(super) const fn names(self) -> &'static [&'static str] {
        match self {
            Self::Month => &MONTHS,
            Self::DayOfWeek => &WEEKDAYS,
            _ => &[],
        }
    }
}

impl fmt::Display for CronField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Second => "seconds",
            Self::Minute => "minutes",
            Self::Hour => "hours",
            Self::DayOfMonth => "days of the month",
            Self::Month => "months",
            Self::DayOfWeek => "days of the week",
        })
    }
}
