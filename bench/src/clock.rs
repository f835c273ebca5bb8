//! The one clock that two processes of a machine share.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::Result;

/// An instant, in nanoseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "what an `Instant` says is known to its own process alone")]
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// How much later one instant is than another.
pub(crate) fn between(earlier: u64, later: u64) -> Result<Duration> {
    let nanos = later.checked_sub(earlier).ok_or("the clock of the machine was set back: measure again")?;
    Ok(Duration::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_back_is_an_error_and_not_a_figure() {
        assert_eq!(between(1, 3).expect("time goes on"), Duration::from_nanos(2));
        assert!(between(3, 1).is_err());
        assert!(now() > 0);
    }
}
