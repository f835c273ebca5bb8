//! What the suite needs to know about a store.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use windlass_core::{NodeId, Time};

use crate::{Memory, Store};

/// A fresh, empty store with the reins of its clock. What the store lives on (a directory, say) goes when
/// the fixture is dropped.
pub trait Fixture {
    /// The store. Every call gives the same one.
    fn store(&self) -> Arc<dyn Store>;

    /// Moves the store's clock on. The clock starts at [`TestClock::START`] and moves only when it is told to.
    fn advance(&self, span: Duration);

    /// Puts the store's clock back, as an administrator may, and answers whether the store goes along. The default is for
    /// stores whose time does not go back while they are open: nothing happens, and the answer is `false`.
    fn put_back(&self, span: Duration) -> bool {
        let _ = span;
        false
    }

    /// Has the next commit fail so, or none any more, and answers whether the store goes along. The default is for stores
    /// whose commits cannot be made to fail: nothing happens, and the answer is `false`.
    fn fail_commit(&self, how: Option<Failing>) -> bool {
        let _ = how;
        false
    }

    /// Ends the process of a node, as far as the store can tell, and answers whether the store can prove it.
    /// The default is for stores that know of no such proof: nothing happens, and the answer is `false`.
    fn kill(&self, node: NodeId) -> bool {
        let _ = node;
        false
    }
}

/// How a commit fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failing {
    /// It never arrives: nothing of it is there.
    Lost,
    /// All of it is there, and the answer never arrives.
    Unanswered,
}

/// A clock that moves only when it is told to. Clones share their time.
#[derive(Clone, Debug)]
pub struct TestClock(Arc<AtomicI64>);

impl TestClock {
    /// The time that every test begins at.
    pub const START: Time = Time(1_000_000_000_000_000);

    /// A clock at [`TestClock::START`].
    #[must_use]
    #[allow(clippy::new_without_default, reason = "a clock that starts anywhere else is no default")]
    pub fn new() -> Self {
        Self(Arc::new(AtomicI64::new(Self::START.0)))
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Time {
        Time(self.0.load(Ordering::SeqCst))
    }

    /// Moves on.
    pub fn advance(&self, span: Duration) {
        self.0.store((self.now() + span).0, Ordering::SeqCst);
    }

    /// Goes back.
    pub fn put_back(&self, span: Duration) {
        let span = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        self.0.fetch_sub(span, Ordering::SeqCst);
    }
}

/// The reference model with a clock to turn.
pub struct MemoryFixture {
    store: Memory,
    clock: TestClock,
}

impl MemoryFixture {
    /// An empty model.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "as for its clock")]
    pub fn new() -> Self {
        let clock = TestClock::new();
        let reader = clock.clone();
        Self { store: Memory::new(move || reader.now()), clock }
    }
}

impl Fixture for MemoryFixture {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    fn advance(&self, span: Duration) {
        self.clock.advance(span);
    }

    fn kill(&self, node: NodeId) -> bool {
        self.store.kill(node);
        true
    }
}
