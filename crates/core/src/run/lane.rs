//! The attempts of one task, one after another.

use crate::{StepKind, Time};

/// Where a line of attempts stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Its task waits for dependencies, or its turn among the instances has not come.
    Waiting,
    /// It may start as soon as what it builds on is durable.
    Ready,
    /// An attempt failed; the next is due at this time.
    Backoff(Time),
    /// An attempt executes.
    Running,
    /// An attempt waits, without a slot, until this time.
    Deferred(Time),
    /// An attempt is published, and executed by whoever takes it.
    Away,
    /// A published attempt is being taken back.
    Recalled,
    /// It has ended.
    Done(StepKind),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Lane {
    pub(super) phase: Phase,
    /// How many attempts have ended with a record.
    pub(super) spent: u32,
}

impl Lane {
    pub(super) const NEW: Self = Self { phase: Phase::Waiting, spent: 0 };

    pub(super) const fn is_alive(self) -> bool {
        matches!(self.phase, Phase::Running | Phase::Deferred(_)) || self.is_out()
    }

    /// Whether an attempt was published, and its end has not been heard.
    pub(super) const fn is_out(self) -> bool {
        matches!(self.phase, Phase::Away | Phase::Recalled)
    }

    pub(super) const fn is_done(self) -> bool {
        matches!(self.phase, Phase::Done(_))
    }
}
