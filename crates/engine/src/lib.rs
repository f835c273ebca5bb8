//! A durable workflow engine that lives inside your program.
//!
//! Write async functions, mark them `#[task]`, and name a task's result as a parameter where you need it. An
//! [`Engine`] runs them as a graph, tries failed ones again, and records each result before anything depends
//! on it. When the process dies, the next one goes on where it stopped.
//!
//! ```
//! use windlass::prelude::*;
//!
//! #[workflow]
//! mod hello {
//!     use super::*;
//!
//!     #[task]
//!     pub async fn greet(input: &str) -> Result<String> {
//!         Ok(format!("Hello, {input}!"))
//!     }
//!
//!     #[task]
//!     pub async fn shout(greet: &str) -> Result<String> {
//!         Ok(greet.to_uppercase())
//!     }
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<()> {
//!     let engine = Engine::open("sqlite::memory:").workflow(hello::workflow()).launch().await?;
//!     let run = engine.start(hello::workflow(), "world".to_owned()).await?;
//!     assert_eq!(run.await?, "HELLO, WORLD!");
//!     engine.stop().await?;
//!     Ok(())
//! }
//! ```
//!
//! Begin with [`Engine`], [`Client`], [`Run`], [`Cx`], [`Failure`] and the attributes `#[workflow]` and `#[task]`.
//! The repository's `docs/` answer questions of operation; its `examples/` answer one question each.
//!
//! # Features
//!
//! | feature | what it adds | default |
//! |---|---|---|
//! | `sqlite` | state in an SQLite file | yes |
//! | `postgres` | state in a PostgreSQL database, for many processes on many machines | no |
//! | `tls` | encrypted connections to PostgreSQL; brings `postgres` along | no |
//! | `macros` | `#[workflow]`, `#[task]`, `#[flow]`, `compose!`, `#[windlass::test]` | yes |
//! | `jiff` | `Time` becomes an instant of the `jiff` crate and back, for calendars and time zones | no |
//! | `logs` | a layer for `tracing` that keeps what tasks log with their runs | no |
//! | `schemars` | the schema of a workflow's input from its type | no |
//! | `schedule` | runs that are started by the clock (cron, intervals, time zones), by triggers, and with batches of items | no |
//! | `testing` | the `Lab`: virtual time, planned failures, crashes | no |

#[doc(hidden)]
#[path = "macro_support.rs"]
pub mod __macro;
mod arguments;
mod attempt;
mod authoring;
mod backroom;
#[cfg(feature = "schedule")]
pub mod batch;
mod boxed;
mod busy;
mod by_run;
mod check;
mod claimer;
mod client;
mod clock;
mod codec;
mod committer;
mod counts;
mod credit;
mod crew;
mod cx;
mod discard;
#[cfg(all(doctest, feature = "sqlite", feature = "macros"))]
mod doc_tests;
mod drive;
#[cfg(feature = "encryption")]
mod encrypted;
mod engine;
mod error;
mod executor;
mod export;
mod feed;
mod flow;
mod forsaken;
mod grid;
mod grip;
mod guard;
mod guest;
mod guests;
mod handle;
mod heart;
mod hex;
mod history;
mod hub;
mod identity;
mod input_schema;
mod janitor;
#[cfg(feature = "schedule")]
mod keeping;
mod listener;
#[cfg(feature = "logs")]
mod log_layer;
mod logs;
pub mod machine;
mod metric;
mod node;
mod options;
mod order;
mod outpost;
mod outputs;
mod overview;
#[cfg(feature = "postgres")]
pub mod postgres;
mod queues;
mod receivers;
mod report;
mod reserved;
mod routes;
mod run_loop;
mod runs;
#[cfg(feature = "schedule")]
pub mod schedule;
mod scribe;
mod settings;
mod shared_value;
mod slots;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod start;
mod statistics;
mod status;
mod stores;
mod take_up;
mod tenants;
#[cfg(feature = "testing")]
pub mod testing;
mod throughput;
#[cfg(feature = "schedule")]
pub mod trigger;
mod waiters;
mod watch;
mod watchdog;
mod watcher;
mod workflows;

pub use authoring::*;
pub use bytes;
pub use check::{Check, CheckReport, CheckedRun, Forecast};
pub use client::Client;
pub use codec::{Codec, CodecError, Compressed};
pub use counts::StateCount;
pub use cx::{Condition, Cx};
#[cfg(feature = "encryption")]
pub use encrypted::{Encrypted, EncryptionKey};
pub use engine::{Engine, EngineBuilder};
pub use error::{Error, RunError};
pub use executor::{Assignment, Executing, Executor};
pub use flow::{
    ChildWait, Event, EventWait, Flow, ForeignWaits, MapWait, Pending, Sending, SleepWait, Step, StepBody,
    TimedEventWait, TypedStep,
};
pub use grid::{Grid, GridRun, GridTask};
pub use guard::{CircuitBreaker, RateLimit};
pub use handle::{Cancelled, Run};
pub use history::TaskPast;
#[cfg(feature = "jiff")]
pub use jiff;
pub use listener::Listener;
#[cfg(feature = "logs")]
pub use log_layer::{LogLayer, log_layer};
pub use logs::LoggedLine;
pub use overview::{Minute, Overview, QueueLoad};
pub use queues::{QueueChanged, QueueLimits, QueueSetup, QueueStatus, Queues, Rate};
pub use runs::{Bulk, Runs};
pub use settings::{var, var_or};
pub use shared_value::SharedValue;
pub use start::{BulkStart, IfTaken, Start};
pub use statistics::{Spread, Statistics, TaskStatistics};
pub use status::{AttemptStatus, CallStatus, RunStatus, TaskStatus, VersionChange};
pub use tenants::{OpenTenants, Tenant, Tenants};
pub use watch::{Mark, Update, Watch};
pub use watchdog::Overdue;
pub use windlass_core::{
    CallKind, Changes, Context, ContextError, Definition, Failure, FailureKind, NodeId, Retention, Retry,
    Rule, RunId, RunState, Skip, StepKind, TaskState, Time, Verdict, to_dot, to_json, to_mermaid,
};
/// Turns an `async fn` into a workflow that goes on where it stopped, whatever happens to the process.
///
/// ```
/// use windlass::prelude::*;
///
/// struct Bank;
///
/// impl Bank {
///     async fn charge(&self, cents: u64, key: &str) -> Result<String> {
///         Ok(format!("{cents} cents, asked for once as {key}"))
///     }
/// }
///
/// /// Charges what an order costs.
/// #[flow(timeout = "30d")]
/// async fn checkout(cx: &Flow, cents: u64, bank: Res<Bank>) -> Result<String> {
///     let bank = &bank;
///     let charge = cx.step("charge", |s: Cx| async move { bank.charge(cents, &s.key()).await }).await?;
///     cx.sleep(std::time::Duration::from_millis(5)).await?;
///     cx.step("receipt", || async { Ok::<_, Failure>(format!("Paid: {charge}")) }).await
/// }
///
/// #[tokio::main]
/// async fn main() -> Result<()> {
///     let engine =
///         Engine::open("sqlite::memory:").resource(Bank).workflow(checkout::workflow()).launch().await?;
///     let run = engine.start(checkout::workflow(), 420).await?;
///     assert!(run.await?.starts_with("Paid: 420 cents"));
///     engine.stop().await?;
///     Ok(())
/// }
/// ```
#[cfg(feature = "macros")]
pub use windlass_macros::flow;
#[cfg(feature = "macros")]
pub use windlass_macros::{compose, machine, task, test, trigger, undo, workflow};
pub use windlass_store as store;
pub use workflows::{KnownWorkflow, Workflows};

/// Waits for several calls of a durable function, and goes on with the first that ends.
///
/// It is written like `tokio::select!`. The branches are asked in the order in which they are written, and the winner
/// is whatever was recorded first, so that it is the same whenever the function is run again. An event that came for a
/// branch that lost stays in the mailbox.
#[macro_export]
macro_rules! select {
    ($($branches:tt)*) => {
        $crate::__macro::select! { biased; $($branches)* }
    };
}

/// What task bodies return: the user's value, or why there is none.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// What a program that defines and runs workflows usually needs.
pub mod prelude {
    pub use crate::{
        Client, Context, Cx, Engine, Event, Failure, Flow, Outcome, Res, Result, Retry, Rule, Run, Task,
        TaskCx, Workflow,
    };
    #[cfg(feature = "schedule")]
    pub use crate::{
        schedule::{Backoff, CatchUp, Overlap},
        trigger::Fire,
    };
    #[cfg(feature = "macros")]
    pub use windlass_macros::{compose, flow, machine, task, trigger, undo, workflow};
}
