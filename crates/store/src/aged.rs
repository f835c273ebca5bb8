//! Runs that have ended, for whoever discards the old ones.

use std::sync::Arc;

use windlass_core::{RunId, RunState, Time};

/// Which ended runs to list, by the names of their workflows (byte by byte), and then by id.
#[derive(Clone, Debug)]
pub struct Aged {
    /// Only those after this one: the last of the page before, which need not be there any more.
    pub after: Option<(Arc<str>, RunId)>,
    /// Only those with smaller ids.
    pub before: RunId,
    /// How many at most.
    pub limit: usize,
}

/// A run that stands ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgedRun {
    /// The workflow it is a run of.
    pub workflow: Arc<str>,
    /// Its id.
    pub run: RunId,
    /// The generation that ended.
    pub generation: u32,
    /// How.
    pub state: RunState,
    /// When.
    pub at: Time,
}
