//! What a trigger answers.

/// What a trigger answers: whether a run is started, and with which input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fire<I> {
    /// Nothing is started.
    Skip,
    /// A run is started, unless one that has the same key is under way.
    Run {
        /// What the run gets.
        input: I,
        /// What tells it from others. Without it, the input does, unless the trigger is `concurrent`.
        key: Option<String>,
    },
}

impl<I> Fire<I> {
    /// A run is started with this input.
    pub const fn run(input: I) -> Self {
        Self::Run { input, key: None }
    }

    /// Says what tells the run from others: while one with the same key is under way, no other is started. With `once`, never.
    #[must_use]
    pub fn key(self, key: impl Into<String>) -> Self {
        match self {
            Self::Skip => Self::Skip,
            Self::Run { input, .. } => Self::Run { input, key: Some(key.into()) },
        }
    }
}
