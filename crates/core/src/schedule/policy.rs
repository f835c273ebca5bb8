//! What happens when times come too fast, and when they were missed.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What happens to a time that comes while a run of the schedule is still under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Overlap {
    /// It is left out.
    #[default]
    Skip,
    /// It waits until that run has ended. Others that come meanwhile are left out.
    BufferOne,
    /// It waits until that run, and all that wait before it, have ended. At most 1,000 wait, and others are left out.
    BufferAll,
    /// The run is cancelled, and the time waits until it has ended. Whatever else waited is left out, and of several times
    /// that come at once all but the last.
    CancelRunning,
    /// Its run starts at once, beside the other. At most 1,000 are under way; then it waits like with `BufferAll`.
    Allow,
}

/// What happens to times that passed while nothing could be started: because no process was there, or the schedule was
/// paused, backed off or tripped.
///
/// A time that is not more than ten seconds late for another reason was not missed: its run starts, late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CatchUp {
    /// They are left out.
    Skip,
    /// The latest of them is made up for, and the others are left out.
    #[default]
    Latest,
    /// The latest so many of them are made up for, the oldest first.
    All {
        /// How many at most: from 1 to 1,000.
        max: u32,
    },
}

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Skip => "skip",
            Self::BufferOne => "buffer one",
            Self::BufferAll => "buffer all",
            Self::CancelRunning => "cancel the running one",
            Self::Allow => "allow",
        })
    }
}

impl fmt::Display for CatchUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Skip => f.write_str("skip"),
            Self::Latest => f.write_str("the latest"),
            Self::All { max } => write!(f, "the latest {max}"),
        }
    }
}
