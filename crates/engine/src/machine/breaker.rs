//! Circuit breakers: a handler that fails again and again is left alone for a while.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use windlass_core::{Circuit, Failure, Fuse, Passage, Time};

use crate::{guard, hub::Hub};

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
    fuse: Fuse,
    circuit: Mutex<Circuit>,
}

impl Breaker {
    pub(super) fn new(parts: BreakerParts) -> Arc<Self> {
        let BreakerParts { failures, open, probes, .. } = parts;
        Arc::new(Self { fuse: Fuse { failures, open, probes }, circuit: Mutex::default() })
    }

    pub(super) fn state(&self, now: Time) -> BreakerState {
        match self.circuit.lock().open_until() {
            None => BreakerState::Closed,
            Some(until) if now < until => BreakerState::Open,
            Some(_) => BreakerState::HalfOpen,
        }
    }

    /// Lets an attempt pass, or says when the next may.
    pub(super) fn pass(self: &Arc<Self>, name: &str, hub: &Arc<Hub>) -> Result<Passed, Failure> {
        let mut circuit = self.circuit.lock();
        match circuit.pass(&self.fuse, hub.clock.now()) {
            Passage::Free(turn) | Passage::Probe(turn) => {
                Ok(Passed { breaker: Arc::clone(self), hub: Arc::clone(hub), turn, told: false })
            }
            Passage::Shut(wait) => Err(guard::shut(Some(name), circuit.failures(), wait)),
        }
    }

    /// Notes how an attempt ended that did not pass here.
    pub(super) fn told(&self, succeeded: bool, now: Time) {
        let mut circuit = self.circuit.lock();
        let turn = circuit.turn();
        circuit.ended(&self.fuse, turn, Some(succeeded), now);
    }

    fn ended(&self, turn: u64, outcome: Option<bool>, now: Time) {
        self.circuit.lock().ended(&self.fuse, turn, outcome, now);
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
