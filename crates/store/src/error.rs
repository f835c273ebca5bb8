//! What can go wrong with a store as a whole.

/// Why a store did not do what was asked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The acting node was declared dead: it may change nothing.
    #[error("this node was declared dead")]
    Fenced,
    /// The store cannot be used right now; trying again may help.
    #[error("{0}")]
    Unavailable(String),
    /// The store cannot be used as it is; a person has to look.
    #[error("{0}")]
    Broken(String),
    /// The store is shut.
    #[error("the store is closed")]
    Closed,
}

impl StoreError {
    /// Whether the same call may succeed later.
    #[must_use]
    pub const fn is_temporary(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }
}
