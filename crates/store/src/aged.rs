//! Runs that have ended, for whoever discards the old ones.

use std::{sync::Arc, time::Duration};

use windlass_core::{NodeId, RunId, RunState, Time};

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

/// A wish to forget runs that stand ended.
#[derive(Clone, Debug)]
pub struct Discard {
    /// The acting node; `None` for a client that runs nothing.
    pub node: Option<NodeId>,
    /// Which runs, and the generation that ended.
    pub runs: Vec<(RunId, u32)>,
    /// What becomes of those whose key was given a life that is not over.
    pub keyed: Keyed,
    /// After about this long the rest is left for another time, so that others need not wait. At least one goes.
    pub within: Duration,
}

/// What becomes of a run whose key stands for it for a stated time that is not over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keyed {
    /// It stays: whoever starts it again is to find it.
    Stays,
    /// It goes, and so does its key.
    Goes,
}
