//! Triggers: conditions that are asked again and again, and start a run when they say so.
//!
//! A trigger is an async function that an engine is given. It is asked on an interval, by one process at a time of those
//! that have it. What it answers, a [`Fire`], says whether a run is started, and with which input.
//!
//! ```
//! use windlass::{prelude::*, trigger::Fire};
//!
//! #[workflow]
//! mod import {
//!     use super::*;
//!
//!     #[task]
//!     pub async fn load(input: String) -> Result<usize> {
//!         Ok(input.len())
//!     }
//! }
//!
//! struct Inbox(Vec<String>);
//!
//! #[trigger(every = "5s", starts = import)]
//! async fn new_file(inbox: Res<Inbox>) -> Result<Fire<String>> {
//!     Ok(match inbox.0.first() {
//!         Some(file) => Fire::run(file.clone()).key(file),
//!         None => Fire::Skip,
//!     })
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<()> {
//! let engine = Engine::open("sqlite::memory:")
//!     .resource(Inbox(vec!["a.csv".to_owned()]))
//!     .workflow(import::workflow())
//!     .trigger(new_file::trigger())
//!     .launch()
//!     .await?;
//! # engine.stop().await?;
//! # Ok(())
//! # }
//! ```

mod definition;
mod fire;
mod handle;
mod keeper;
mod ledger;

pub(crate) use definition::Set;
pub use definition::{Trigger, TriggerCx};
pub use fire::Fire;
pub use handle::{TriggerHandle, TriggerStatus, Triggers};
pub(crate) use keeper::{PREFIX, ensure, own_workflow, take_up};
