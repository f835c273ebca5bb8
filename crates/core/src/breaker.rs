//! Circuit breakers: what fails again and again is left alone for a while.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Time;

/// When something is left alone, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fuse {
    /// How many failures in a row open it. At least one.
    pub failures: u32,
    /// How long it stays open.
    pub open: Duration,
    /// How many attempts are made at once to see whether it may be closed. At least one.
    pub probes: u32,
}

impl Default for Fuse {
    /// Five failures, half a minute, one probe.
    fn default() -> Self {
        Self { failures: 5, open: Duration::from_secs(30), probes: 1 }
    }
}

/// Where a circuit breaker stands. Whoever shares it keeps it in one place, and changes it by these functions alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Circuit {
    /// Failures in a row.
    failures: u32,
    /// Until when it is open, and from when on half-open.
    open_until: Option<Time>,
    /// When the probes began that are under way. One that never says how it went is forgotten after a while: its process
    /// may have died.
    probes: Vec<Time>,
    /// Raised whenever it opens or closes: what began before says nothing about what is now.
    turn: u64,
}

/// What a circuit breaker says to an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// It may begin; say later how it went, with this number.
    Free(u64),
    /// It may begin, and the breaker must remember that.
    Probe(u64),
    /// It may not begin for so long.
    Shut(Duration),
}

impl Circuit {
    /// A closed one.
    #[must_use]
    pub const fn new() -> Self {
        Self { failures: 0, open_until: None, probes: Vec::new(), turn: 0 }
    }

    /// Whether an attempt may begin.
    pub fn pass(&mut self, fuse: &Fuse, now: Time) -> Passage {
        let Some(until) = self.open_until else { return Passage::Free(self.turn) };
        if now < until {
            return Passage::Shut(until.since(now));
        }
        self.probes.retain(|began| *began + fuse.open > now);
        match self.probes.first() {
            Some(began) if self.probes.len() >= fuse.probes.max(1) as usize => {
                Passage::Shut((*began + fuse.open).since(now))
            }
            _ => {
                self.probes.push(now);
                Passage::Probe(self.turn)
            }
        }
    }

    /// Notes how an attempt went that was let pass with this number; `None` when it was stopped, and says nothing. Answers
    /// whether anything is different now.
    pub fn ended(&mut self, fuse: &Fuse, turn: u64, succeeded: Option<bool>, now: Time) -> bool {
        if turn != self.turn {
            return false;
        }
        let is_probe = self.open_until.is_some();
        match succeeded {
            None if is_probe => self.probes.pop().is_some(),
            None => false,
            Some(true) if is_probe => {
                *self = Self { turn: turn + 1, ..Self::default() };
                true
            }
            Some(true) => std::mem::take(&mut self.failures) > 0,
            Some(false) => {
                self.failures = self.failures.saturating_add(1);
                if is_probe || self.failures >= fuse.failures.max(1) {
                    let (failures, open_until) = (self.failures, Some(now + fuse.open));
                    *self = Self { failures, open_until, probes: Vec::new(), turn: turn + 1 };
                }
                true
            }
        }
    }

    /// Until when it is open, and from when on half-open; `None` when it is closed.
    #[must_use]
    pub const fn open_until(&self) -> Option<Time> {
        self.open_until
    }

    /// The number that an attempt would be let pass with now.
    #[must_use]
    pub const fn turn(&self) -> u64 {
        self.turn
    }

    /// How many failures there were in a row.
    #[must_use]
    pub const fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FUSE: Fuse = Fuse { failures: 2, open: Duration::from_secs(30), probes: 1 };

    fn at(seconds: i64) -> Time {
        Time(seconds * 1_000_000)
    }

    fn fail(circuit: &mut Circuit, now: Time) {
        let (Passage::Free(turn) | Passage::Probe(turn)) = circuit.pass(&FUSE, now) else {
            panic!("it is shut")
        };
        assert!(circuit.ended(&FUSE, turn, Some(false), now));
    }

    #[test]
    fn failures_in_a_row_open_it_and_a_success_between_does_not() {
        let mut circuit = Circuit::default();
        fail(&mut circuit, at(0));
        let Passage::Free(turn) = circuit.pass(&FUSE, at(1)) else { panic!("it is closed") };
        assert!(circuit.ended(&FUSE, turn, Some(true), at(1)));
        assert!(!circuit.ended(&FUSE, turn, Some(true), at(1)), "nothing is different");
        fail(&mut circuit, at(2));
        assert!(matches!(circuit.pass(&FUSE, at(3)), Passage::Free(_)));
        fail(&mut circuit, at(3));
        assert_eq!(circuit.pass(&FUSE, at(4)), Passage::Shut(Duration::from_secs(29)));
    }

    #[test]
    fn a_probe_decides_and_one_that_vanishes_blocks_nobody_for_ever() {
        let mut circuit = Circuit::default();
        fail(&mut circuit, at(0));
        fail(&mut circuit, at(0));
        let Passage::Probe(probe) = circuit.pass(&FUSE, at(30)) else { panic!("it is half open") };
        assert_eq!(circuit.pass(&FUSE, at(40)), Passage::Shut(Duration::from_secs(20)));
        let Passage::Probe(second) = circuit.pass(&FUSE, at(60)) else { panic!("the first one vanished") };
        assert!(circuit.ended(&FUSE, second, Some(true), at(61)));
        assert_eq!(circuit.failures(), 0);
        assert!(matches!(circuit.pass(&FUSE, at(61)), Passage::Free(_)));
        assert!(!circuit.ended(&FUSE, probe, Some(false), at(62)), "what began before says nothing");
    }

    #[test]
    fn a_probe_that_fails_opens_it_again_and_one_that_is_stopped_makes_room() {
        let mut circuit = Circuit::default();
        fail(&mut circuit, at(0));
        fail(&mut circuit, at(0));
        let Passage::Probe(turn) = circuit.pass(&FUSE, at(30)) else { panic!("it is half open") };
        assert!(circuit.ended(&FUSE, turn, None, at(31)));
        fail(&mut circuit, at(32));
        assert_eq!(circuit.pass(&FUSE, at(33)), Passage::Shut(Duration::from_secs(29)));
    }
}
