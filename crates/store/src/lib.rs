//! What a Windlass store keeps and finds.
//!
//! [`Store`] is the door between the engine and a database. It speaks in batches and in domain words, and
//! it decides nothing: what a record means is the business of `windlass-core` and the engine.
//!
//! - `Memory` (feature `memory`) is the reference model: the shortest code that is right. Tests run on it, and every
//!   other store must agree with it.
//! - `conformance` (feature `conformance`) is the suite that any store runs against itself.

mod act;
mod aged;
mod along;
mod cell;
mod commit_moment;
mod error;
mod figures;
mod host;
mod lanes;
mod load;
mod log_line;
#[cfg(feature = "memory")]
mod memory;
mod news;
mod query;
mod queue;
mod rate;
mod record;
mod spread;
mod store;
mod tenant;
mod waiter;
mod words;

#[cfg(feature = "conformance")]
pub mod conformance;

pub use act::{
    Act, Idle, KeyConflict, KeyLife, NewEnd, NewKey, NewMessage, NewRun, Owner, Refusal, Replace, STOPS,
    Unit, Written,
};
pub use aged::{Aged, AgedRun, Discard, Keyed};
pub use along::{Along, Fate};
pub use cell::{Cell, Swapped};
pub use commit_moment::CommitMoment;
pub use error::StoreError;
pub use figures::{Backlog, Count, QueueBacklog, Tally};
pub use host::host_name;
pub use lanes::{Choice, Lanes, choose, lane};
pub use load::{Arrival, Load, TakenSlot, TakenTask};
pub use log_line::LogLine;
#[cfg(feature = "memory")]
pub use memory::{Call, Memory, Moment, Side, Verdict};
pub use news::News;
pub use query::{Page, Query};
pub use queue::{QueueChange, QueueChanged, QueueLimits, QueueRow, QueueState};
pub use rate::Rate;
pub use record::{
    DefinitionId, DefinitionRow, End, InboxRow, NodeRow, Parent, Place, RunImage, RunRow, RunSummary,
    SavedRow, Standing, StepRow, Versions, Wait,
};
pub use spread::{NewSpread, OUTCOME, Reach, SpreadClaim, SpreadClaimed, SpreadKey, SpreadRow};
pub use store::{
    Answer, Claim, Claimed, Death, Heartbeat, Hint, Joined, Looked, NewNode, Pulse, Store, Swept,
};
pub use tenant::{Removal, Reply, Tenancy, TenantError, TenantName};
#[doc(hidden)]
pub use waiter::Waiter;
pub use words::{Comments, words};
