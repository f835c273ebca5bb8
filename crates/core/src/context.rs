//! The key–value data that the tasks of a run share.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::Merge;

/// What one task sees of its run's context, and what it changes in it.
///
/// Only changes are recorded. Writing the value that a key had when the task began is not a change, and
/// neither is removing a key that was not there: so a branch that merely inherited a value, or wrote it
/// back unchanged, never overwrites a branch that changed it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Context {
    base: Arc<Map<String, Value>>,
    changes: Changes,
}

/// What a task changed in its run's context.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Changes {
    /// The keys that were written, with their last values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, Value>,
    /// The keys that were removed.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub removed: BTreeSet<String>,
}

/// Why the context could not be read or written as asked.
#[derive(Debug, thiserror::Error)]
pub enum ContextError {
    /// `insert` found the key taken.
    #[error("the context has `{key}` already ({found}): use `update` or `set` to replace it")]
    Present {
        /// The key.
        key: String,
        /// The type of the value that is there.
        found: &'static str,
    },
    /// The key is not there.
    #[error("the context has no `{key}`{}", hint.as_ref().map(|near| format!(": did you mean `{near}`?")).unwrap_or_default())]
    Absent {
        /// The key.
        key: String,
        /// A key that is there and is spelled nearly the same.
        hint: Option<String>,
    },
    /// The value does not fit the type that was asked for.
    #[error("`{key}` in the context is {found}, which does not fit `{wanted}`: {source}")]
    Type {
        /// The key.
        key: String,
        /// The type of the value that is there.
        found: &'static str,
        /// The Rust type that was asked for.
        wanted: &'static str,
        /// What did not fit.
        source: serde_json::Error,
    },
    /// The value cannot be written as JSON.
    #[error("a `{given}` cannot be kept in the context as `{key}`: {source}")]
    Unfit {
        /// The key.
        key: String,
        /// The Rust type that was given.
        given: &'static str,
        /// What could not be written.
        source: serde_json::Error,
    },
}

impl Context {
    /// A context with these values and no changes.
    #[must_use]
    pub fn new(values: impl Into<Arc<Map<String, Value>>>) -> Self {
        Self { base: values.into(), changes: Changes::default() }
    }

    /// Adds a key.
    ///
    /// # Errors
    ///
    /// When the key is there already, or the value cannot be written as JSON.
    pub fn insert(&mut self, key: impl Into<String>, value: impl Serialize) -> Result<(), ContextError> {
        let key = key.into();
        if let Some(there) = self.value(&key) {
            let found = type_of(there);
            return Err(ContextError::Present { key, found });
        }
        self.set(key, value)
    }

    /// Replaces the value of a key.
    ///
    /// # Errors
    ///
    /// When the key is not there, or the value cannot be written as JSON.
    pub fn update(&mut self, key: impl Into<String>, value: impl Serialize) -> Result<(), ContextError> {
        let key = key.into();
        if !self.contains(&key) {
            return Err(self.absent(key));
        }
        self.set(key, value)
    }

    /// Writes a key, whether it is there or not.
    ///
    /// # Errors
    ///
    /// When the value cannot be written as JSON.
    pub fn set<T: Serialize>(&mut self, key: impl Into<String>, value: T) -> Result<(), ContextError> {
        let key = key.into();
        match serde_json::to_value(value) {
            Ok(value) => {
                self.put(key, value);
                Ok(())
            }
            Err(source) => Err(ContextError::Unfit { key, given: std::any::type_name::<T>(), source }),
        }
    }

    /// Reads a key as a type.
    ///
    /// # Errors
    ///
    /// When the key is not there, or its value does not fit the type.
    pub fn get<T: DeserializeOwned>(&self, key: &str) -> Result<T, ContextError> {
        let value = self.value(key).ok_or_else(|| self.absent(key.to_owned()))?;
        T::deserialize(value).map_err(|source| ContextError::Type {
            key: key.to_owned(),
            found: type_of(value),
            wanted: std::any::type_name::<T>(),
            source,
        })
    }

    /// The JSON value of a key.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<&Value> {
        if self.changes.removed.contains(key) {
            return None;
        }
        self.changes.set.get(key).or_else(|| self.base.get(key))
    }

    /// Whether a key is there.
    #[must_use]
    pub fn contains(&self, key: &str) -> bool {
        self.value(key).is_some()
    }

    /// Removes a key and answers with the value that it had.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let had = self.value(key)?.clone();
        self.changes.set.remove(key);
        if self.base.contains_key(key) {
            self.changes.removed.insert(key.to_owned());
        }
        Some(had)
    }

    /// Every key with its value, in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        let keys: BTreeSet<&str> =
            self.base.keys().chain(self.changes.set.keys()).map(String::as_str).collect();
        keys.into_iter().filter_map(|key| self.value(key).map(|value| (key, value)))
    }

    /// What was changed so far.
    #[must_use]
    pub const fn changes(&self) -> &Changes {
        &self.changes
    }

    /// What was changed.
    #[must_use]
    pub fn into_changes(self) -> Changes {
        self.changes
    }

    fn put(&mut self, key: String, value: Value) {
        self.changes.removed.remove(&key);
        if self.base.get(&key) == Some(&value) {
            self.changes.set.remove(&key);
        } else {
            self.changes.set.insert(key, value);
        }
    }

    fn absent(&self, key: String) -> ContextError {
        let hint = crate::nearest(&key, self.iter().map(|(there, _)| there)).map(str::to_owned);
        ContextError::Absent { key, hint }
    }
}

impl Changes {
    /// Whether nothing was changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.removed.is_empty()
    }

    /// The keys that were written or removed.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.set.keys().chain(&self.removed).map(String::as_str)
    }

    /// What was done to one key.
    #[must_use]
    pub fn only(&self, key: &str) -> Self {
        let set = self.set.get_key_value(key).map(|(key, value)| (key.clone(), value.clone()));
        Self { set: set.into_iter().collect(), removed: self.removed.get(key).cloned().into_iter().collect() }
    }

    /// Adds what was changed after these changes: the later change of a key wins.
    pub fn extend(&mut self, later: &Self) {
        for key in &later.removed {
            self.set.remove(key);
            self.removed.insert(key.clone());
        }
        for (key, value) in &later.set {
            self.removed.remove(key);
            self.set.insert(key.clone(), value.clone());
        }
    }

    /// Makes these changes to a context.
    ///
    /// With [`Merge::LastWins`] a written value replaces the one that is there. With [`Merge::Deep`] two
    /// objects are merged key by key, and two arrays are joined, leaving out elements that are there
    /// already; anything else is replaced.
    pub fn apply(&self, to: &mut Map<String, Value>, merge: Merge) {
        for key in &self.removed {
            to.remove(key);
        }
        for (key, value) in &self.set {
            match (merge, to.get_mut(key)) {
                (Merge::Deep, Some(there)) => deepen(there, value),
                _ => {
                    to.insert(key.clone(), value.clone());
                }
            }
        }
    }
}

/// Merges a value into the one that is there.
fn deepen(there: &mut Value, value: &Value) {
    match (there, value) {
        (Value::Object(there), Value::Object(new)) => {
            for (key, value) in new {
                match there.get_mut(key) {
                    Some(there) => deepen(there, value),
                    None => {
                        there.insert(key.clone(), value.clone());
                    }
                }
            }
        }
        (Value::Array(there), Value::Array(new)) => {
            for value in new {
                if !there.contains(value) {
                    there.push(value.clone());
                }
            }
        }
        (there, value) => *there = value.clone(),
    }
}

/// What a JSON value is, in words.
fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
