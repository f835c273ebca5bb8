//! Finding runs.

use std::sync::Arc;

use windlass_core::{RunId, RunState, Time};

use crate::RunSummary;

/// Which runs to find. Every condition that is set must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// Only runs of this workflow.
    pub workflow: Option<Arc<str>>,
    /// Leaves out runs of workflows whose names begin with this.
    pub without: Option<Arc<str>>,
    /// Only runs in one of these states; empty means any.
    pub states: Vec<RunState>,
    /// Only runs of this queue.
    pub queue: Option<Arc<str>>,
    /// Only runs with this tag.
    pub tag: Option<String>,
    /// Only runs that were started under this key, whether or not it still stands for them.
    pub key: Option<String>,
    /// Only runs created at this time or after it.
    pub since: Option<Time>,
    /// Only runs created before this time.
    pub until: Option<Time>,
    /// Only runs that come after this one in the listing (with smaller ids): the last id of the page before.
    /// There need be no such run any more.
    pub after: Option<RunId>,
    /// How many at most. With zero, only `more` is of interest.
    pub limit: usize,
    /// After how many runs that may or may not fit the search is given up for now: about so many. By default it never is.
    pub look: usize,
}

impl Default for Query {
    /// The hundred newest runs.
    fn default() -> Self {
        Self {
            workflow: None,
            without: None,
            states: Vec::new(),
            queue: None,
            tag: None,
            key: None,
            since: None,
            until: None,
            after: None,
            limit: 100,
            look: usize::MAX,
        }
    }
}

/// Some of the runs that fit a query, newest first (by id).
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// The runs.
    pub runs: Vec<RunSummary>,
    /// Whether more follow; if the search was given up for now, whether there is anything left to look at.
    pub more: bool,
    /// What to give as `after` to go on. It need not be the last of these, nor fit.
    pub next: Option<RunId>,
}
