//! Durations as people write them: `30s`, `1m30s`, `1.5h`.

use std::time::Duration;

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// There is nothing to read.
    #[error("an empty text is not a duration: write `30s`, `1m30s` or `2h`")]
    Empty,
    /// A number was expected.
    #[error("`{text}` is not a duration: expected a number at `{at}`; write `30s`, `1m30s` or `2h`")]
    NoNumber {
        /// The whole text.
        text: String,
        /// What stands where the number should be.
        at: String,
    },
    /// A number has no unit.
    #[error("`{text}` is not a duration: `{number}` has no unit; did you mean `{number}s`?")]
    NoUnit {
        /// The whole text.
        text: String,
        /// The number.
        number: String,
    },
    /// A unit is not known.
    #[error("`{text}` is not a duration: `{unit}` is not a unit; there are ns, us, ms, s, m, h, d and w")]
    UnknownUnit {
        /// The whole text.
        text: String,
        /// What stands where the unit should be.
        unit: String,
    },
    /// A unit comes after a smaller one, or twice.
    #[error("`{text}` is not a duration: `{unit}` must come once, and before smaller units")]
    Order {
        /// The whole text.
        text: String,
        /// The unit.
        unit: String,
    },
    /// It is more precise than a nanosecond.
    #[error("`{text}` is not a duration: it is finer than a nanosecond")]
    TooFine {
        /// The whole text.
        text: String,
    },
    /// It is longer than can be kept.
    #[error("`{text}` is too long a duration")]
    TooLong {
        /// The whole text.
        text: String,
    },
}

/// The unit's nanoseconds, for every way to write it.
fn unit(name: &str) -> Option<u128> {
    Some(match name {
        "ns" | "nsec" | "nsecs" | "nanosecond" | "nanoseconds" => 1,
        // Both signs for micro that keyboards produce.
        "us" | "µs" | "μs" | "usec" | "usecs" | "microsecond" | "microseconds" => 1_000,
        "ms" | "msec" | "msecs" | "milli" | "millis" | "millisecond" | "milliseconds" => 1_000_000,
        "s" | "sec" | "secs" | "second" | "seconds" => 1_000_000_000,
        "m" | "min" | "mins" | "minute" | "minutes" => 60_000_000_000,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3_600_000_000_000,
        "d" | "day" | "days" => 86_400_000_000_000,
        "w" | "week" | "weeks" => 604_800_000_000_000,
        _ => return None,
    })
}

/// Reads a duration: numbers with units, the largest unit first, with or without spaces.
///
/// Units are `ns`, `us`, `ms`, `s`, `m`, `h`, `d` (24 hours) and `w`, or their names (`2 hours`). Numbers may
/// have decimals (`1.5s`), which are taken exactly.
///
/// ```
/// use std::time::Duration;
/// use windlass_core::parse_duration;
///
/// assert_eq!(parse_duration("1m30s"), Ok(Duration::from_secs(90)));
/// assert!(parse_duration("30").is_err());
/// ```
///
/// # Errors
///
/// When the text is anything else; the error names the part that cannot be read.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let whole = || text.to_owned();
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(DurationError::Empty);
    }
    let mut nanos: u128 = 0;
    let mut smallest = u128::MAX;
    while !rest.is_empty() {
        let (number, after) = split(rest, |c| c.is_ascii_digit() || c == '.');
        let (name, after) = split(after.trim_start(), char::is_alphabetic);
        if number.is_empty() {
            return Err(DurationError::NoNumber { text: whole(), at: rest.to_owned() });
        }
        if name.is_empty() && (after.is_empty() || after.starts_with(|c: char| c.is_ascii_digit())) {
            return Err(DurationError::NoUnit { text: whole(), number: number.to_owned() });
        }
        let Some(size) = unit(name) else {
            let (odd, _) = split(after, |c| !c.is_whitespace());
            return Err(DurationError::UnknownUnit { text: whole(), unit: format!("{name}{odd}") });
        };
        if size >= smallest {
            return Err(DurationError::Order { text: whole(), unit: name.to_owned() });
        }
        smallest = size;
        let amount = amount(number, size).map_err(|odd| odd.explain(text, rest))?;
        nanos = nanos.checked_add(amount).ok_or_else(|| DurationError::TooLong { text: whole() })?;
        rest = after.trim_start();
    }
    let secs = u64::try_from(nanos / 1_000_000_000).map_err(|_| DurationError::TooLong { text: whole() })?;
    Ok(Duration::new(secs, (nanos % 1_000_000_000) as u32))
}

/// Writes a duration so that [`parse_duration`] reads it back exactly: `1m30s`, `1.5s`, `250ms`.
///
/// Days are the largest unit, and nothing is `0s`.
#[must_use]
pub fn format_duration(span: Duration) -> String {
    let secs = span.as_secs();
    let nanos = span.subsec_nanos();
    if secs == 0 && nanos > 0 {
        let (size, name) = match nanos {
            1_000_000.. => (1_000_000, "ms"),
            1_000.. => (1_000, "us"),
            _ => (1, "ns"),
        };
        return decimal(u64::from(nanos / size), nanos % size, size) + name;
    }
    let mut text = String::new();
    for (count, name) in [(secs / 86_400, "d"), (secs / 3_600 % 24, "h"), (secs / 60 % 60, "m")] {
        if count > 0 {
            text += &format!("{count}{name}");
        }
    }
    if !secs.is_multiple_of(60) || nanos > 0 || text.is_empty() {
        text += &decimal(secs % 60, nanos, 1_000_000_000);
        text += "s";
    }
    text
}

/// A whole number and a part of it, without idle zeroes.
fn decimal(whole: u64, part: u32, of: u32) -> String {
    if part == 0 {
        return whole.to_string();
    }
    let digits = of.ilog10() as usize;
    let part = format!("{part:0digits$}");
    format!("{whole}.{}", part.trim_end_matches('0'))
}

/// What is wrong with a number.
enum Odd {
    Malformed,
    TooFine,
    TooLong,
}

impl Odd {
    fn explain(self, text: &str, at: &str) -> DurationError {
        let text = text.to_owned();
        match self {
            Self::Malformed => DurationError::NoNumber { text, at: at.to_owned() },
            Self::TooFine => DurationError::TooFine { text },
            Self::TooLong => DurationError::TooLong { text },
        }
    }
}

/// The nanoseconds of a decimal number of units, exactly.
fn amount(number: &str, size: u128) -> Result<u128, Odd> {
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if part.contains('.') || (whole.is_empty() && part.is_empty()) || number.ends_with('.') {
        return Err(Odd::Malformed);
    }
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| Odd::TooLong)? };
    let mut nanos = whole.checked_mul(size).ok_or(Odd::TooLong)?;
    let part = part.trim_end_matches('0');
    if !part.is_empty() {
        // The largest unit is below 10^15 nanoseconds, so more digits than this cannot be exact.
        if part.len() > 15 {
            return Err(Odd::TooFine);
        }
        let scale = 10_u128.pow(part.len() as u32);
        let part: u128 = part.parse().map_err(|_| Odd::Malformed)?;
        if !(part * size).is_multiple_of(scale) {
            return Err(Odd::TooFine);
        }
        nanos = nanos.checked_add(part * size / scale).ok_or(Odd::TooLong)?;
    }
    Ok(nanos)
}

/// The longest beginning whose characters all fit, and what follows it.
fn split(text: &str, fits: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !fits(c)).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_people_write_is_read_exactly() {
        for (text, nanos) in [
            ("30s", 30_000_000_000_u64),
            ("1m30s", 90_000_000_000),
            ("2h", 7_200_000_000_000),
            ("500ms", 500_000_000),
            ("1.5s", 1_500_000_000),
            (".5s", 500_000_000),
            ("1.10s", 1_100_000_000),
            ("0.000000001s", 1),
            ("250us", 250_000),
            ("250µs", 250_000),
            ("7ns", 7),
            ("0s", 0),
            (" 1 h  30 min ", 5_400_000_000_000),
            ("2 days 1 second", 172_801_000_000_000),
            ("1.5w", 907_200_000_000_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for (text, message) in [
            ("", "an empty text is not a duration"),
            ("  ", "an empty text is not a duration"),
            ("30", "`30` has no unit; did you mean `30s`?"),
            ("1m30", "`30` has no unit; did you mean `30s`?"),
            ("s", "expected a number at `s`"),
            ("-3s", "expected a number at `-3s`"),
            ("1.2.3s", "expected a number at `1.2.3s`"),
            (".s", "expected a number at `.s`"),
            ("1.s", "expected a number at `1.s`"),
            ("3 fortnights", "`fortnights` is not a unit"),
            ("3s!", "expected a number at `!`"),
            ("3!", "`!` is not a unit"),
            ("30s1m", "`m` must come once, and before smaller units"),
            ("1s1s", "`s` must come once"),
            ("0.5ns", "finer than a nanosecond"),
            ("0.0000000000000000001h", "finer than a nanosecond"),
            ("0.999999999999999999999999999999999999h", "finer than a nanosecond"),
            ("99999999999999999999999999s", "too long"),
            ("99999999999999999999999999999999999999999999s", "too long"),
        ] {
            let error = parse_duration(text).unwrap_err().to_string();
            assert!(error.contains(message), "{text}: {error}");
        }
    }

    #[test]
    fn durations_are_written_short() {
        for (text, nanos) in [
            ("0s", 0),
            ("1ns", 1),
            ("1.5us", 1_500),
            ("250ms", 250_000_000),
            ("2.1s", 2_100_000_000),
            ("1m30s", 90_000_000_000),
            ("1h", 3_600_000_000_000),
            ("1d1s", 86_401_000_000_000),
        ] {
            assert_eq!(format_duration(Duration::from_nanos(nanos)), text);
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(secs in any::<u64>(), nanos in 0..1_000_000_000_u32) {
            for span in [Duration::new(secs, nanos), Duration::new(secs % 100_000, nanos), Duration::new(0, nanos)] {
                prop_assert_eq!(parse_duration(&format_duration(span)), Ok(span));
            }
        }

        #[test]
        fn no_text_is_too_odd_to_be_answered(text in "[0-9.hmsdwnuµ -]{0,40}|.{0,40}") {
            if let Err(error) = parse_duration(&text) {
                prop_assert!(error == DurationError::Empty || error.to_string().contains(&text));
            }
        }
    }
}
