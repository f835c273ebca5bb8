//! Events: what is sent to a run by name.

use std::{fmt, marker::PhantomData};

use serde_json::Value;
use windlass_core::Time;

/// The name of an event, and the type of what it carries.
///
/// ```
/// use windlass::Event;
///
/// const APPROVED: Event<bool> = Event::new("approved");
/// ```
pub struct Event<T> {
    name: &'static str,
    payload: PhantomData<fn() -> T>,
}

impl<T> Event<T> {
    /// The event of this name. A name that begins with `!` or `>` is the engine's own, and sending it is refused.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { name, payload: PhantomData }
    }

    /// Its name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

impl<T> Clone for Event<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Event<T> {}

impl<T> fmt::Debug for Event<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Event").field(&self.name).finish()
    }
}

/// An event that was sent to a run, and not received yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Pending {
    /// Its name.
    pub name: String,
    /// What it carries.
    pub payload: Value,
    /// When it was sent.
    pub at: Time,
}
