mod backoff;
mod catch_up;
mod definition;
mod existing;
mod overlap;
mod properties;
mod steering;
mod traps;
mod update;
mod world;

use std::time::Duration;

use super::*;
use crate::Time;

/// An instant on the 1st of March 2026.
fn at(clock: &str) -> Time {
    on(&format!("2026-03-01T{clock}"))
}

fn on(instant: &str) -> Time {
    let instant = if instant.ends_with('Z') { instant.to_owned() } else { format!("{instant}Z") };
    let parsed = instant.parse::<jiff::Timestamp>().unwrap_or_else(|error| panic!("{instant}: {error}"));
    Time(parsed.as_microsecond())
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn mins(minutes: u64) -> Duration {
    secs(minutes * 60)
}

fn hours(hours: u64) -> Duration {
    mins(hours * 60)
}

fn draft() -> ScheduleDraft {
    ScheduleDraft::new("job", "etl")
}

/// The 1st of March 2026, shortly: `10:00` or `10:00:30`.
fn short(time: Time) -> String {
    let text = time.to_string();
    let text = text.strip_prefix("2026-03-01T").unwrap_or(&text);
    text.trim_end_matches('Z').strip_suffix(":00").unwrap_or(text.trim_end_matches('Z')).to_owned()
}

/// So many cases, or as many as `PROPTEST_CASES` asks for.
pub(super) fn cases(usually: u32) -> proptest::test_runner::Config {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    let cases = asked.unwrap_or(usually);
    proptest::test_runner::Config { cases, failure_persistence: None, ..Default::default() }
}
