//! What stands before the handlers of machines in this process: circuit breakers and rate limits.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use windlass_core::{Failure, Time};

use super::{
    BreakerState,
    breaker::{Breaker, BreakerParts, Passed},
    rate::{Asker, Rate, RateParts},
};
use crate::hub::Hub;

/// The circuit breakers and rate limits of this process, by name.
#[derive(Default)]
pub(crate) struct Guards {
    breakers: Mutex<HashMap<String, Arc<Breaker>>>,
    rates: Mutex<HashMap<(&'static str, &'static str), Rate>>,
}

impl Guards {
    /// Lets an attempt pass, or says why not.
    pub(super) fn pass(
        &self,
        machine: &str,
        state: &str,
        parts: &BreakerParts,
        hub: &Arc<Hub>,
    ) -> Result<Passed, Failure> {
        let name = name(machine, state, parts);
        self.breaker(&name, parts).pass(&name, hub)
    }

    /// Notes how an attempt ended that passed before the run was taken up here.
    pub(super) fn ended(&self, machine: &str, state: &str, parts: &BreakerParts, succeeded: bool, now: Time) {
        self.breaker(&name(machine, state, parts), parts).told(succeeded, now);
    }

    fn breaker(&self, name: &str, parts: &BreakerParts) -> Arc<Breaker> {
        Arc::clone(self.breakers.lock().entry(name.to_owned()).or_insert_with(|| Breaker::new(*parts)))
    }

    /// When a handler may begin.
    pub(super) fn turn(
        &self,
        machine: &'static str,
        state: &'static str,
        parts: &RateParts,
        asker: Asker,
        now: Time,
    ) -> Time {
        self.rates.lock().entry((machine, state)).or_default().turn(parts, asker, now)
    }

    /// Every circuit breaker that was asked so far, by name.
    pub(crate) fn breakers(&self, now: Time) -> Vec<(String, BreakerState)> {
        let mut breakers: Vec<_> =
            self.breakers.lock().iter().map(|(name, breaker)| (name.clone(), breaker.state(now))).collect();
        breakers.sort_by(|left, right| left.0.cmp(&right.0));
        breakers
    }
}

fn name(machine: &str, state: &str, parts: &BreakerParts) -> String {
    parts.name.map_or_else(|| format!("{machine}.{state}"), str::to_owned)
}
