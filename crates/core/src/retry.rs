//! What happens after a failed attempt.

#[cfg(test)]
mod tests;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Failure, failure::Again};

/// When a failed task is tried again.
///
/// The default is 3 attempts (the first included), an exponential backoff that doubles from 1 s up to
/// 30 s, a jitter of ±25 %, and a retry after every failure.
///
/// ```
/// use std::time::Duration;
/// use windlass_core::{Retry, RetryOn};
///
/// let retry = Retry::attempts(5).delay(Duration::from_millis(200)).on(RetryOn::Transient);
/// assert_eq!(retry.attempts, 5);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Retry {
    /// How many times the task is executed at most, the first time included. Default: 3.
    pub attempts: u32,
    /// How long to wait between attempts. Default: exponential, doubling from 1 s up to 30 s.
    #[serde(default)]
    pub backoff: Backoff,
    /// The share of a wait by which it may be shorter or longer, from 0 to 1. Default: 0.25.
    #[serde(default = "default_jitter")]
    pub jitter: f64,
    /// Which failures are tried again; it is enough that one of these says so. Default: all of them.
    #[serde(default = "default_on")]
    pub on: Vec<RetryOn>,
}

/// How the waits between attempts grow. The caps hold after jitter.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Backoff {
    /// Every wait is the same.
    Fixed {
        /// The wait.
        delay: Duration,
    },
    /// Each wait is longer than the one before by the first one.
    Linear {
        /// The first wait.
        delay: Duration,
        /// No wait is longer than this.
        max: Duration,
    },
    /// Each wait is longer than the one before by a factor.
    Exponential {
        /// The first wait.
        delay: Duration,
        /// How many times longer each wait is than the one before. At least 1.
        factor: f64,
        /// No wait is longer than this.
        max: Duration,
    },
}

/// Which failures are tried again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RetryOn {
    /// Every failure.
    All,
    /// None.
    Never,
    /// Those that are likely to go away by themselves: I/O, timeouts, connections, rate limits.
    Transient,
    /// Those whose message, or a source's, contains one of these texts in upper or lower case.
    Matching(Vec<String>),
    /// Those for which this function says so. The engine asks it, and marks a failure that it refuses as
    /// permanent; so the policy itself treats it like [`RetryOn::All`].
    Predicate(String),
}

const FIRST: Duration = Duration::from_secs(1);
const CAP: Duration = Duration::from_secs(30);
const FACTOR: f64 = 2.0;

fn default_jitter() -> f64 {
    0.25
}

fn default_on() -> Vec<RetryOn> {
    vec![RetryOn::All]
}

impl Default for Retry {
    fn default() -> Self {
        Self { attempts: 3, backoff: Backoff::default(), jitter: default_jitter(), on: default_on() }
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self::Exponential { delay: FIRST, factor: FACTOR, max: CAP }
    }
}

impl Retry {
    /// The default policy with this many attempts, the first included.
    #[must_use]
    pub fn attempts(attempts: u32) -> Self {
        Self { attempts, ..Self::default() }
    }

    /// One attempt, and no other.
    #[must_use]
    pub fn never() -> Self {
        Self { attempts: 1, on: vec![RetryOn::Never], ..Self::default() }
    }

    /// Sets the first wait. The cap is raised to it when it was lower.
    #[must_use]
    pub fn delay(mut self, first: Duration) -> Self {
        match &mut self.backoff {
            Backoff::Fixed { delay } => *delay = first,
            Backoff::Linear { delay, max } | Backoff::Exponential { delay, max, .. } => {
                *delay = first;
                *max = first.max(*max);
            }
        }
        self
    }

    /// Sets the longest wait. A fixed backoff has none, so it is left as it is.
    #[must_use]
    pub fn max_delay(mut self, longest: Duration) -> Self {
        match &mut self.backoff {
            Backoff::Fixed { .. } => {}
            Backoff::Linear { max, .. } | Backoff::Exponential { max, .. } => *max = longest,
        }
        self
    }

    /// Makes every wait as long as the first.
    #[must_use]
    pub fn fixed(mut self) -> Self {
        self.backoff = Backoff::Fixed { delay: self.backoff.first() };
        self
    }

    /// Makes each wait longer than the one before by the first one.
    #[must_use]
    pub fn linear(mut self) -> Self {
        let (delay, max) = (self.backoff.first(), self.backoff.cap_or_default());
        self.backoff = Backoff::Linear { delay, max };
        self
    }

    /// Makes each wait twice as long as the one before, or what [`factor`](Self::factor) says.
    #[must_use]
    pub fn exponential(self) -> Self {
        let factor = match self.backoff {
            Backoff::Exponential { factor, .. } => factor,
            Backoff::Fixed { .. } | Backoff::Linear { .. } => FACTOR,
        };
        self.factor(factor)
    }

    /// Makes each wait this many times longer than the one before.
    #[must_use]
    pub fn factor(mut self, factor: f64) -> Self {
        let (delay, max) = (self.backoff.first(), self.backoff.cap_or_default());
        self.backoff = Backoff::Exponential { delay, factor, max };
        self
    }

    /// Sets the share of a wait by which it may be shorter or longer: 0.25 is ±25 %, 0 is none.
    #[must_use]
    pub fn jitter(mut self, share: f64) -> Self {
        self.jitter = share;
        self
    }

    /// Tries only failures of this sort again. Said several times, it is enough that one of them holds.
    #[must_use]
    pub fn on(mut self, failures: RetryOn) -> Self {
        if self.on == default_on() {
            self.on.clear();
        }
        self.on.push(failures);
        self
    }

    /// How long to wait before the next attempt, or `None` when there is none.
    ///
    /// `attempt` is the one that has just failed, counted from 1. `dice` is uniform in `[0, 1)` and decides
    /// the jitter. A failure that speaks for itself comes before the conditions of the policy, but never
    /// gets more attempts than the policy gives.
    #[must_use]
    pub fn decide(&self, attempt: u32, failure: &Failure, dice: f64) -> Option<Duration> {
        if attempt >= self.attempts {
            return None;
        }
        match failure.again {
            Again::Never => None,
            Again::After(delay) => Some(delay),
            Again::ByPolicy => self.on.iter().any(|on| on.covers(failure)).then(|| self.wait(attempt, dice)),
        }
    }

    /// The wait after this attempt, with its jitter, never above the cap.
    pub(crate) fn wait(&self, attempt: u32, dice: f64) -> Duration {
        let plain = self.backoff.wait(attempt);
        let jitter = if self.jitter.is_finite() { self.jitter.clamp(0.0, 1.0) } else { 0.0 };
        let dice = if dice.is_finite() { dice.clamp(0.0, 1.0) } else { 0.5 };
        let jittered = scale(plain, 1.0 + jitter * (2.0 * dice - 1.0));
        self.backoff.cap().map_or(jittered, |cap| jittered.min(cap))
    }
}

impl RetryOn {
    fn covers(&self, failure: &Failure) -> bool {
        match self {
            Self::All | Self::Predicate(_) => true,
            Self::Never => false,
            Self::Transient => failure.transient,
            Self::Matching(texts) => texts.iter().any(|text| {
                let text = text.to_lowercase();
                failure.messages().any(|message| message.to_lowercase().contains(&text))
            }),
        }
    }
}

impl Backoff {
    /// The first wait.
    #[must_use]
    pub const fn first(&self) -> Duration {
        match self {
            Self::Fixed { delay } | Self::Linear { delay, .. } | Self::Exponential { delay, .. } => *delay,
        }
    }

    /// The longest wait, where there is one.
    #[must_use]
    pub const fn cap(&self) -> Option<Duration> {
        match self {
            Self::Fixed { .. } => None,
            Self::Linear { max, .. } | Self::Exponential { max, .. } => Some(*max),
        }
    }

    /// The wait after this attempt, counted from 1, without jitter.
    #[must_use]
    pub fn wait(&self, attempt: u32) -> Duration {
        let earlier = attempt.saturating_sub(1);
        match *self {
            Self::Fixed { delay } => delay,
            Self::Linear { delay, max } => delay.saturating_mul(attempt.max(1)).min(max),
            Self::Exponential { delay, factor, max } => {
                let factor = if factor.is_finite() { factor.max(1.0) } else { FACTOR };
                scale(delay, factor.powf(f64::from(earlier))).min(max)
            }
        }
    }

    fn cap_or_default(&self) -> Duration {
        self.cap().unwrap_or(CAP).max(self.first())
    }
}

/// The duration times a factor, or the longest there is.
fn scale(span: Duration, by: f64) -> Duration {
    // Floats have fewer digits than durations, so what need not be multiplied is not.
    if span.is_zero() || by == 1.0 {
        return span;
    }
    Duration::try_from_secs_f64(span.as_secs_f64() * by).unwrap_or(Duration::MAX)
}
