//! Circuit breakers: a handler that fails again and again is left alone for a while.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use windlass_core::{Failure, Time, format_duration};

use crate::hub::Hub;

/// When a handler is left alone.
#[derive(Clone, Copy, Debug)]
pub struct BreakerParts {
    /// What it is shared by; without a name it is the handler's own.
    pub name: Option<&'static str>,
    /// How many failures in a row open it.
    pub failures: u32,
    /// How long it stays open.
    pub open: Duration,
    /// How many attempts are made at once to see whether it may be closed.
    pub probes: u32,
}

/// What a circuit breaker does with the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BreakerState {
    /// It lets it pass.
    Closed,
    /// It refuses it.
    Open,
    /// It lets a few pass, to see how they fare.
    HalfOpen,
}

/// One circuit breaker.
pub(super) struct Breaker {
    parts: BreakerParts,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Failures in a row.
    failures: u32,
    /// Until when it is open, and from when on half-open.
    open_until: Option<Time>,
    /// Attempts that are under way while it is half-open.
    probing: u32,
    /// Raised whenever it opens or closes: what began before says nothing about what is now.
    turn: u64,
}

impl Breaker {
    pub(super) fn new(parts: BreakerParts) -> Arc<Self> {
        Arc::new(Self { parts, inner: Mutex::default() })
    }

    pub(super) fn state(&self, now: Time) -> BreakerState {
        match self.inner.lock().open_until {
            None => BreakerState::Closed,
            Some(until) if now < until => BreakerState::Open,
            Some(_) => BreakerState::HalfOpen,
        }
    }

    /// Lets an attempt pass, or says when the next may.
    pub(super) fn pass(self: &Arc<Self>, name: &str, hub: &Arc<Hub>) -> Result<Passed, Failure> {
        let now = hub.clock.now();
        let mut inner = self.inner.lock();
        if let Some(until) = inner.open_until {
            if now < until || inner.probing >= self.parts.probes {
                let wait = if now < until { until.since(now) } else { self.parts.open };
                let failure = Failure::new(format!(
                    "the circuit breaker `{name}` is open after {} failures: the next attempt is in {}",
                    inner.failures,
                    format_duration(wait)
                ));
                return Err(Failure::retry_after(failure.transient(), wait));
            }
            inner.probing += 1;
        }
        let (breaker, hub) = (Arc::clone(self), Arc::clone(hub));
        Ok(Passed { breaker, hub, turn: inner.turn, told: false })
    }

    /// Notes how an attempt ended that did not pass here.
    pub(super) fn told(&self, succeeded: bool, now: Time) {
        let turn = self.inner.lock().turn;
        self.ended(turn, Some(succeeded), now);
    }

    fn ended(&self, turn: u64, outcome: Option<bool>, now: Time) {
        let mut inner = self.inner.lock();
        if turn != inner.turn {
            return;
        }
        let is_probe = inner.open_until.is_some();
        if is_probe {
            inner.probing = inner.probing.saturating_sub(1);
        }
        match outcome {
            // It was stopped, and says nothing.
            None => {}
            Some(true) => {
                inner.failures = 0;
                if is_probe {
                    *inner = Inner { turn: turn + 1, ..Inner::default() };
                }
            }
            Some(false) => {
                inner.failures = inner.failures.saturating_add(1);
                if is_probe || inner.failures >= self.parts.failures {
                    let open_until = Some(now + self.parts.open);
                    *inner = Inner { failures: inner.failures, open_until, probing: 0, turn: turn + 1 };
                }
            }
        }
    }
}

/// An attempt that a circuit breaker let pass. When it is dropped without a word, it counts for nothing.
pub(super) struct Passed {
    breaker: Arc<Breaker>,
    hub: Arc<Hub>,
    turn: u64,
    told: bool,
}

impl Passed {
    pub(super) fn ended(mut self, succeeded: bool) {
        self.told = true;
        self.breaker.ended(self.turn, Some(succeeded), self.hub.clock.now());
    }
}

impl Drop for Passed {
    fn drop(&mut self) {
        if !self.told {
            self.breaker.ended(self.turn, None, self.hub.clock.now());
        }
    }
}
