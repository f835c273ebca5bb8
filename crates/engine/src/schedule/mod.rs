//! Schedules: runs that are started by the clock.
//!
//! A schedule is declared once, under a name, and lives in the database from then on: whichever engine has room starts
//! its runs, each time exactly one. Begin with [`Client::schedule`](crate::Client::schedule).
//!
//! To the engine, a schedule is a run of a workflow of its own. It is claimed when its next time has come or somebody has
//! told it something, decides what follows, writes that down together with the runs that it starts, and is parked again.

mod backfill;
mod builder;
mod declaration;
mod findings;
mod fired;
mod handle;
mod happening;
mod held;
mod keeper;
mod ledger;
mod message;
mod schedules;
mod status;
mod turn;

pub use backfill::Backfill;
pub use builder::{Declared, ScheduleBuilder};
pub(crate) use declaration::{EVER, StartSettings};
pub(crate) use findings::{open, readable};
pub use fired::Fired;
pub(crate) use fired::{CONTEXT, fired};
pub use handle::ScheduleHandle;
pub(crate) use happening::checked_note;
pub use happening::{Happening, What};
pub(crate) use held::{Guard, Held, said, trouble};
pub(crate) use keeper::{AGAIN, Keeper, QUEUE, keeps, own_run, own_workflows, take_up, tell_all};
pub(crate) use message::{ENDED, Heard, Message, TOLD};
pub use schedules::Schedules;
pub use status::ScheduleStatus;
pub use windlass_core::schedule::{
    Backoff, CatchUp, LastRun, Origin, Overlap, Schedule, ScheduleDraft, Skip, Slot, Status, Tell,
};
