//! Circuit breakers for any task.

use std::{future::Future, sync::Arc, time::Duration};

use parking_lot::Mutex;
use windlass_core::{Circuit, Fuse, Passage, format_duration};

use crate::{Cx, Failure, node::Node};

/// Leaves something alone for a while that has failed again and again, wherever in a task or a step it is called.
///
/// After so many failures in a row (5) it is open: calls fail at once, and say when to come back, which a retry heeds. When
/// that time (30 s) is over, one call is let through to see how it fares, and its outcome decides. A call that is stopped
/// counts for nothing.
///
/// Without a name it belongs to this value alone. [Named](Self::named), it is shared by all processes on the database: they
/// find each other by the name, so give it the same numbers everywhere. What others have noticed is known here within a tenth
/// of a second.
///
/// ```
/// use std::time::Duration;
/// use windlass::{CircuitBreaker, prelude::*};
///
/// static BANK: CircuitBreaker = CircuitBreaker::named("bank").failures(3).open(Duration::from_secs(10));
///
/// async fn charge_card(cents: u64) -> Result<String> {
///     Ok(format!("{cents} cents"))
/// }
///
/// #[workflow]
/// mod pay {
///     use super::*;
///
///     #[task(retry(attempts = 5))]
///     pub async fn charge(input: u64, cx: &Cx) -> Result<String> {
///         BANK.call(cx, || charge_card(input)).await
///     }
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<()> {
/// # let engine = Engine::open("sqlite::memory:").workflow(pay::workflow()).launch().await?;
/// # assert_eq!(engine.start(pay::workflow(), 42).await?.await?, "42 cents");
/// # engine.stop().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct CircuitBreaker {
    name: Option<&'static str>,
    fuse: Fuse,
    here: Mutex<Circuit>,
}

impl CircuitBreaker {
    /// A circuit breaker that is shared by whoever uses this very value.
    #[must_use]
    pub const fn new() -> Self {
        let fuse = Fuse { failures: 5, open: Duration::from_secs(30), probes: 1 };
        Self { name: None, fuse, here: Mutex::new(Circuit::new()) }
    }

    /// A circuit breaker that is shared by all processes on the database, under this name.
    #[must_use]
    pub const fn named(name: &'static str) -> Self {
        let mut breaker = Self::new();
        breaker.name = Some(name);
        breaker
    }

    /// How many failures in a row open it. Default: 5. Zero is taken as one.
    #[must_use]
    pub const fn failures(mut self, failures: u32) -> Self {
        self.fuse.failures = failures;
        self
    }

    /// How long it stays open. Default: 30 s.
    #[must_use]
    pub const fn open(mut self, span: Duration) -> Self {
        self.fuse.open = span;
        self
    }

    /// How many calls at once are let through to see whether it may be closed. Default: 1. Zero is taken as one.
    #[must_use]
    pub const fn probes(mut self, probes: u32) -> Self {
        self.fuse.probes = probes;
        self
    }

    /// Makes a call, unless it is open.
    ///
    /// # Errors
    ///
    /// What the call fails with; or, when it is open, a transient failure that says when to come back.
    pub async fn call<T, E, F>(&self, cx: &Cx, work: impl FnOnce() -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, E>>,
        E: Into<Failure>,
    {
        let Some(node) = cx.node() else {
            // A body that a test calls by itself has no engine, and no clock to wait by.
            return work().await.map_err(Into::into);
        };
        let (passage, failures) = match self.name {
            None => {
                let mut circuit = self.here.lock();
                (circuit.pass(&self.fuse, node.hub.clock.now()), circuit.failures())
            }
            Some(name) => node.shared.pass(node, name, self.fuse).await,
        };
        let turn = match passage {
            Passage::Free(turn) | Passage::Probe(turn) => turn,
            Passage::Shut(wait) => return Err(shut(self.name, failures, wait)),
        };
        let mut call = Call { breaker: self, node, turn, told: false };
        let outcome = work().await;
        call.told = true;
        self.tell(node, turn, Some(outcome.is_ok()));
        outcome.map_err(Into::into)
    }

    fn tell(&self, node: &Arc<Node>, turn: u64, succeeded: Option<bool>) {
        match self.name {
            None => {
                let now = node.hub.clock.now();
                self.here.lock().ended(&self.fuse, turn, succeeded, now);
            }
            Some(name) => node.shared.tell(node, name, self.fuse, turn, succeeded),
        }
    }
}

impl Default for CircuitBreaker {
    fn default() -> Self {
        Self::new()
    }
}

/// Why a call is not made.
pub(crate) fn shut(name: Option<&str>, failures: u32, wait: Duration) -> Failure {
    let name = name.map(|name| format!(" `{name}`")).unwrap_or_default();
    let failure = Failure::new(format!(
        "the circuit breaker{name} is open after {failures} failures: the next attempt is in {}",
        format_duration(wait)
    ));
    Failure::retry_after(failure.transient(), wait)
}

/// A call that is under way. When it is dropped without a word, it was stopped.
struct Call<'b> {
    breaker: &'b CircuitBreaker,
    node: &'b Arc<Node>,
    turn: u64,
    told: bool,
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if !self.told {
            self.breaker.tell(self.node, self.turn, None);
        }
    }
}
