//! Cron expressions.

mod days;
mod error;
mod field;
mod parse;
mod search;
#[cfg(test)]
mod tests;
mod words;

use std::{fmt, str::FromStr};

use days::{MonthDays, WeekDays};
pub use error::{CronError, CronFault};
pub use field::CronField;
use serde::{Deserialize, Serialize};

use crate::Fingerprint;

/// A cron expression: five fields (minutes, hours, days of the month, months, days of the week), or six with seconds
/// before them.
///
/// | written | means |
/// |---|---|
/// | `*` | all values |
/// | `5`, `1-5`, `1,3,5` | a value, a range, several of either |
/// | `*/15`, `8-18/2`, `5/15` | every so many, from the beginning of the field, of the range, or from a value on |
/// | `JAN`-`DEC`, `SUN`-`SAT` | months and days of the week by name; Sunday is also 0 and 7 |
/// | `L`, `L-3`, `LW` | the last day of the month, the third before it, the last from Monday to Friday |
/// | `15W` | the day from Monday to Friday that is nearest to the 15th, in the same month |
/// | `FRIL`, `FRI#2` | the last, the second Friday of the month |
/// | `?` | `*`, for the days of the month or of the week |
/// | `@yearly`, `@monthly`, `@weekly`, `@daily`, `@hourly` | what they say, at the beginning of it |
///
/// If both the days of the month and the days of the week are named, a day that either names is meant. As in `crontab`, a
/// field that begins with `*` names none, and only takes away: `0 0 */2 * MON` is every Monday with an odd date. An
/// expression is only made of a text that fires some day.
///
/// ```
/// use windlass_core::schedule::{Cron, Zone};
///
/// let cron: Cron = "0 9 * * MON-FRI".parse().unwrap();
/// assert_eq!(cron.in_words(), "every weekday at 09:00");
///
/// let berlin = Zone::named("Europe/Berlin").unwrap();
/// let next = cron.next(windlass_core::Time(0), &berlin).unwrap();
/// assert_eq!(next.to_string(), "1970-01-01T08:00:00Z");
///
/// let error = "0 9 * * MON-FRY".parse::<Cron>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "`0 9 * * MON-FRY` is not a cron expression: in the days of the week, at character 13, `FRY` is not a name: \
///      did you mean `FRI`?",
/// );
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Cron {
    /// As it was written, with single spaces and in upper case.
    text: String,
    /// Bit *n*: the second *n*; and so on.
    seconds: u64,
    minutes: u64,
    hours: u32,
    months: u16,
    month_days: MonthDays,
    week_days: WeekDays,
    /// Whether a time that occurs twice is meant twice: it goes by intervals, not by times of day.
    repeats: bool,
    /// Whether it has times all day, so that one that is left out need not be made up for.
    hourly: bool,
}

impl Cron {
    /// Everything but how it is written.
    fn meaning(&self) -> (u64, u64, u32, u16, &MonthDays, &WeekDays, bool, bool) {
        // No `..` here: a field that is added must be thought about.
        let Self { text: _, seconds, minutes, hours, months, month_days, week_days, repeats, hourly } = self;
        (*seconds, *minutes, *hours, *months, month_days, week_days, *repeats, *hourly)
    }

    /// Adds its meaning to a stable hash.
    pub(super) fn add_to(&self, hash: &mut Fingerprint) {
        let (seconds, minutes, hours, months, month_days, week_days, repeats, hourly) = self.meaning();
        let MonthDays { plain, nearest, from_last, last_work, open } = month_days;
        for number in [seconds, minutes, hours.into(), months.into()] {
            hash.add(number.to_le_bytes());
        }
        for number in [*plain, *nearest, *from_last] {
            hash.add(number.to_le_bytes());
        }
        let WeekDays { plain, nth, last, open: week_open } = week_days;
        hash.add([*plain, *last]);
        hash.add(nth);
        hash.add([*last_work, *open, *week_open, repeats, hourly].map(u8::from));
    }
}

impl PartialEq for Cron {
    /// Equal are those that mean the same, however they are written.
    fn eq(&self, other: &Self) -> bool {
        self.meaning() == other.meaning()
    }
}

impl Eq for Cron {}

impl FromStr for Cron {
    type Err = CronError;

    fn from_str(text: &str) -> Result<Self, CronError> {
        parse::parse(text)
    }
}

impl TryFrom<String> for Cron {
    type Error = CronError;

    fn try_from(text: String) -> Result<Self, CronError> {
        text.parse()
    }
}

impl From<Cron> for String {
    fn from(cron: Cron) -> Self {
        cron.text
    }
}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
