//! Batches: items that are gathered, and handed to one run together.
//!
//! A batch is declared once, under a name, and lives in the database from then on: whoever adds an item to it, in whatever
//! process, knows that it is in exactly one run. Begin with [`Client::batch`](crate::Client::batch).
//!
//! To the engine, a batch is a run of a workflow of its own, as a schedule is. Items wait in its inbox. It is claimed when
//! one has come, when the oldest has waited long enough, or when somebody has told it something; it decides which items go,
//! and takes them out in the same transaction in which it starts their run.

mod adding;
mod batches;
mod builder;
mod declaration;
mod handle;
mod keeper;
mod ledger;
mod message;
mod status;
mod turn;

pub use adding::{Adding, AddingMany};
pub use batches::Batches;
pub use builder::BatchBuilder;
pub use handle::Batch;
pub(crate) use keeper::{WORKFLOW, own_workflow, take_up};
pub use status::BatchStatus;
pub use windlass_core::batch::{LastBatch, Leftover, MOST_ITEMS};

pub use crate::schedule::Declared;
