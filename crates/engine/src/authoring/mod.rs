//! What workflows are written with: tasks, their values, and what they are given.

pub(crate) mod bind;
mod builder;
mod call;
pub(crate) mod caught;
mod code;
pub(crate) mod compose;
pub(crate) mod element;
mod finite;
mod outcome;
pub(crate) mod parts;
mod resource;
mod shared_context;
pub(crate) mod slot;
mod task;
mod task_cx;
pub(crate) mod transaction;
mod workflow;

pub use builder::WorkflowBuilder;
#[doc(hidden)]
pub use call::{Body, BoxFuture, Call, Dependency, Done, Item};
#[cfg(feature = "postgres")]
#[doc(hidden)]
pub use code::OnPostgres;
#[cfg(feature = "sqlite")]
#[doc(hidden)]
pub use code::OnSqlite;
#[doc(hidden)]
pub use code::{Code, Predicate, TaskCode, UndoCode, Want};
pub use outcome::Outcome;
pub use resource::{Missing, Res, Resources};
pub use shared_context::SharedContext;
#[doc(hidden)]
pub use slot::Slot;
pub use task::Task;
pub use task_cx::TaskCx;
pub use workflow::{AnyWorkflow, Workflow};
