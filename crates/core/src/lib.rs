//! The pure heart of Windlass.
//!
//! Nothing here knows a clock, a database or a runtime: time and randomness are arguments, and deciding is
//! a function from a state and an event to a state and commands. So all of it can be tested by the million.

pub mod batch;
mod breaker;
mod check;
mod context;
mod definition;
mod draft;
mod draw;
mod duration;
mod failure;
mod flow;
mod graph;
mod id;
mod kept;
mod problem;
mod random;
mod retention;
mod retry;
mod rule;
mod run;
#[cfg(feature = "schedule")]
pub mod schedule;
mod spelling;
mod state;
mod step;
mod time;
mod transition;
mod turns;
mod version;

pub use breaker::{Circuit, Fuse, Passage};
pub use context::{Changes, Context, ContextError};
pub use definition::{Chart, ChartState, Definition, Durability, ForEach, Merge, OnFailure, Task};
pub use draft::{Draft, Output, TaskDraft};
pub use draw::{to_dot, to_json, to_mermaid};
pub use duration::{DurationError, format_duration, parse_duration};
pub use failure::{Again, Failure, FailureKind};
pub use flow::{
    ByName, CallKind, Journal, Kept, Misuse, UNDO, VERDICT, VERSION, check_call_name, joined, visit_of,
    within,
};
pub use graph::Graph;
pub use id::{ClaimId, NodeId, RunId, TaskIx};
pub use problem::{Problem, Problems};
pub use retention::Retention;
pub use retry::{Backoff, Retry, RetryOn};
pub use rule::{ContextKey, Op, Rule, RuleError, RuleView, TaskOutcome};
pub use run::{
    Attempt, Command, Divergence, Ended, Event, LaneId, Order, Plan, Rest, Run, Seed, TaskView, Verdict,
};
pub use spelling::nearest;
pub use state::{RunState, TaskState};
pub use step::{Changed, Detail, Skip, Step, StepKind};
pub use time::Time;
pub use transition::{RUN_TRANSITIONS, TASK_TRANSITIONS, Transition, states_page};
pub use turns::{Pace, Turns};
pub use version::Fingerprint;
