//! Lengths of time, as authors write them: `"30s"`, `"1m30s"`, `"1.5h"`.

use std::time::Duration;

use proc_macro2::TokenStream;
use quote::quote;
use syn::LitStr;

/// The units with their nanoseconds, as in texts that are read at run time.
const UNITS: [(&[&str], u64); 8] = [
    (&["ns", "nsec", "nsecs", "nanosecond", "nanoseconds"], 1),
    (&["us", "µs", "μs", "usec", "usecs", "microsecond", "microseconds"], 1_000),
    (&["ms", "msec", "msecs", "milli", "millis", "millisecond", "milliseconds"], 1_000_000),
    (&["s", "sec", "secs", "second", "seconds"], 1_000_000_000),
    (&["m", "min", "mins", "minute", "minutes"], 60_000_000_000),
    (&["h", "hr", "hrs", "hour", "hours"], 3_600_000_000_000),
    (&["d", "day", "days"], 86_400_000_000_000),
    (&["w", "week", "weeks"], 604_800_000_000_000),
];

/// Reads a length of time that is not zero.
pub(crate) fn parse(literal: &LitStr) -> syn::Result<Duration> {
    read(&literal.value()).map_err(|why| {
        let text = literal.value();
        syn::Error::new(
            literal.span(),
            format!("`{text}` is not a length of time: {why}\nhelp: write it as \"500ms\", \"30s\", \"1m30s\", \"2h\" or \"14d\""),
        )
    })
}

/// The expression for this length of time.
pub(crate) fn emit(krate: &TokenStream, duration: Duration) -> TokenStream {
    let (secs, nanos) = (duration.as_secs(), duration.subsec_nanos());
    quote! { #krate::__macro::Duration::new(#secs, #nanos) }
}

fn read(text: &str) -> Result<Duration, String> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err("it is empty".to_owned());
    }
    let (mut total, mut smallest) = (Duration::ZERO, u64::MAX);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        if number.is_empty() {
            return Err(format!("a number is missing before `{tail}`"));
        }
        let tail = tail.trim_start();
        let letters = tail.find(|c: char| !c.is_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let Some((_, nanos)) = UNITS.into_iter().find(|(names, _)| names.contains(&unit)) else {
            return Err(match unit {
                "" => format!("`{number}` has no unit"),
                unit => format!("`{unit}` is not a unit (ns, us, ms, s, m, h, d, w)"),
            });
        };
        if nanos >= smallest {
            return Err(format!("`{unit}` must come once, and before smaller units"));
        }
        smallest = nanos;
        total = total.checked_add(amount(number, nanos)?).ok_or("it is too long")?;
        rest = tail.trim_start();
    }
    if total.is_zero() {
        return Err("it is zero".to_owned());
    }
    Ok(total)
}

/// A number of units, exact to the nanosecond.
fn amount(number: &str, nanos: u64) -> Result<Duration, String> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if fraction.contains('.') || whole.is_empty() || fraction.is_empty() {
        return Err(format!("`{number}` is not a number"));
    }
    let whole: u128 = whole.parse().map_err(|_| "it is too long")?;
    let digits = &fraction[..fraction.len().min(18)];
    let part: u128 = digits.parse().map_err(|_| format!("`{number}` is not a number"))?;
    let nanos = u128::from(nanos);
    let total =
        whole.checked_mul(nanos).ok_or("it is too long")? + part * nanos / 10_u128.pow(digits.len() as u32);
    let secs = u64::try_from(total / 1_000_000_000).map_err(|_| "it is too long")?;
    Ok(Duration::new(secs, (total % 1_000_000_000) as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_may_be_joined_and_broken() {
        assert_eq!(read("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(read("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(read("1m 30s"), Ok(Duration::from_secs(90)));
        assert_eq!(read("1.5h"), Ok(Duration::from_secs(5400)));
        assert_eq!(read("2 hours"), Ok(Duration::from_secs(7200)));
        assert_eq!(read("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(read("14d"), Ok(Duration::from_secs(14 * 86_400)));
    }

    #[test]
    fn what_is_not_a_length_of_time_is_refused_with_the_reason() {
        for (text, part) in [
            ("", "empty"),
            ("30", "no unit"),
            ("s", "a number is missing"),
            ("1s 2s", "must come once"),
            ("1s 2m", "before smaller units"),
            ("3parsecs", "not a unit"),
            ("0s", "zero"),
            ("1..5s", "not a number"),
            ("999999999999999999999999d", "too long"),
            ("99999999999999999999999999999999999999999999d", "too long"),
        ] {
            let why = read(text).unwrap_err();
            assert!(why.contains(part), "{text}: {why}");
        }
    }
}
