//! The run's context, for a body that owns what it is given.

use std::{fmt, mem, sync::Arc};

use parking_lot::Mutex;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use windlass_core::{Changes, Context, ContextError};

/// A handle to what one attempt sees of its run's context. A copy is cheap, and all copies are the same
/// context.
///
/// What it holds when the body returns is recorded; what is written after that is not.
#[derive(Clone)]
pub struct SharedContext {
    context: Arc<Mutex<Context>>,
}

impl SharedContext {
    pub(crate) fn new(context: Context) -> Self {
        Self { context: Arc::new(Mutex::new(context)) }
    }

    /// The value of a key.
    ///
    /// # Errors
    ///
    /// When the key is absent, or its value does not fit the type.
    pub fn get<T: DeserializeOwned>(&self, key: &str) -> Result<T, ContextError> {
        self.context.lock().get(key)
    }

    /// Whether the key is there.
    #[must_use]
    pub fn contains(&self, key: &str) -> bool {
        self.context.lock().contains(key)
    }

    /// Writes a key, whether it is there or not.
    ///
    /// # Errors
    ///
    /// When the value cannot be written as JSON.
    pub fn set<T: Serialize>(&self, key: impl Into<String>, value: T) -> Result<(), ContextError> {
        self.context.lock().set(key, value)
    }

    /// Writes a key that is not there yet.
    ///
    /// # Errors
    ///
    /// When the key is there, or the value cannot be written as JSON.
    pub fn insert<T: Serialize>(&self, key: impl Into<String>, value: T) -> Result<(), ContextError> {
        self.context.lock().insert(key, value)
    }

    /// Writes a key that is already there.
    ///
    /// # Errors
    ///
    /// When the key is absent, or the value cannot be written as JSON.
    pub fn update<T: Serialize>(&self, key: impl Into<String>, value: T) -> Result<(), ContextError> {
        self.context.lock().update(key, value)
    }

    /// Removes a key, and gives its value if it was there.
    pub fn remove(&self, key: &str) -> Option<Value> {
        self.context.lock().remove(key)
    }

    /// A copy of the context as it is now.
    #[must_use]
    pub fn snapshot(&self) -> Context {
        self.context.lock().clone()
    }

    /// What was changed. Later changes go nowhere.
    pub(crate) fn take_changes(&self) -> Changes {
        mem::take(&mut *self.context.lock()).into_changes()
    }
}

impl fmt::Debug for SharedContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedContext").finish_non_exhaustive()
    }
}
