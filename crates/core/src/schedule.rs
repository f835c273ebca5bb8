//! Schedules: when runs are started by the clock, and what happens when they fail, overlap, or were missed.
//!
//! A [`ScheduleDraft`] is checked and becomes a [`Schedule`]. Where it stands is a [`State`], and
//! [`Schedule::decide`] is the only thing that changes it.

mod backfill;
mod backoff;
mod chance;
mod check;
mod civil;
mod cron;
mod decide;
mod definition;
mod difference;
mod draft;
mod due;
mod ending;
mod event;
mod policy;
mod problem;
mod state;
#[cfg(test)]
mod tests;
mod timing;
mod update;
mod zone;

pub use backfill::BackfillError;
pub use backoff::Backoff;
pub use cron::{Cron, CronError, CronFault, CronField};
pub use decide::Decision;
pub use definition::Schedule;
pub use draft::ScheduleDraft;
pub use event::{Command, Event, Firing, Outcome, Skip, Tell};
pub use policy::{CatchUp, Overlap};
pub use problem::{Problem, Problems};
pub use state::{LastRun, Origin, Slot, State, Status};
pub use timing::Timing;
pub use zone::{UnknownZone, Zone};
