//! What goes out: the server's own words for what the engine knows.

mod count;
mod graph;
mod run;
mod standing;
mod state;
mod task;

pub(crate) use count::Count;
pub(crate) use graph::Graph;
pub(crate) use run::{RunLine, RunView, Verdict};
pub(crate) use standing::ScheduleState;
pub(crate) use state::{Outcome, Stage, State};
pub(crate) use task::Failure;
use windlass::Time;

/// An instant as everybody writes it.
pub(crate) fn instant(at: Time) -> String {
    at.to_string()
}
