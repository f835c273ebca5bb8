//! What Windlass itself reports.

use std::{fmt, time::Duration};

use windlass_core::{RunId, RunState, Verdict, format_duration};
use windlass_store::{Refusal, StoreError, TenantError};

/// What went wrong, as Windlass sees it. Each kind has a stable [`code`](Self::code).
///
/// Task bodies return [`Failure`](crate::Failure) instead: that is the user's own error, kept for the
/// user.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The database cannot be opened or used as it is.
    #[error("{0}")]
    Store(String),
    /// The database cannot be used right now. What was asked was not acknowledged.
    #[error("the database cannot be used right now: {0}")]
    Unavailable(String),
    /// The engine or client was stopped.
    #[error("the engine is stopped; nothing more can be asked of it")]
    Stopped,
    /// A workflow is used that the engine was not given.
    #[error("workflow `{name}` is not registered with this engine: {}", hint_workflow(name, nearest.as_deref()))]
    UnknownWorkflow {
        /// The name that was asked for.
        name: String,
        /// The registered name that is spelled most like it.
        nearest: Option<String>,
    },
    /// The engine was set up wrongly. Every problem is listed, one per line.
    #[error("the engine cannot be launched:\n{}", problems.join("\n"))]
    Launch {
        /// What is wrong.
        problems: Vec<String>,
    },
    /// There is no run with this id.
    #[error("there is no run {0}: it was never started here, or its record was removed")]
    UnknownRun(RunId),
    /// An event cannot have this name.
    #[error(
        "`{name}` cannot be the name of an event: it is empty, or begins with `!` or `>`, which are the engine's own"
    )]
    EventName {
        /// The name.
        name: String,
    },
    /// The run has ended, so it can no longer be steered.
    #[error("run {run} has ended ({state}); `retry` opens it again")]
    AlreadyEnded {
        /// The run.
        run: RunId,
        /// How it stands.
        state: RunState,
    },
    /// Only a run that ended without completing can be retried, and only once at a time.
    #[error("run {run} cannot be retried: it is {state}")]
    NotRetryable {
        /// The run.
        run: RunId,
        /// How it stands.
        state: RunState,
    },
    /// The run cannot be discarded now.
    #[error("run {run} cannot be discarded: {why}")]
    NotDiscardable {
        /// The run.
        run: RunId,
        /// Why, and what to do.
        why: String,
    },
    /// The key stands for another run, which was started with another input.
    #[error(
        "key `{key}` of workflow `{workflow}` belongs to run {run}, whose input is different; use another \
         key, or ask for the existing run with `.or_existing()`"
    )]
    KeyTaken {
        /// The workflow.
        workflow: String,
        /// The key.
        key: String,
        /// The run that has it.
        run: RunId,
    },
    /// A payload is larger than the limit.
    #[error(
        "{what} is {size} bytes, over the limit of {limit}: keep large data elsewhere and pass a reference, or \
         raise it with `payload_limit`"
    )]
    PayloadTooLarge {
        /// What was to be kept.
        what: String,
        /// How large it is.
        size: usize,
        /// How large it may be.
        limit: usize,
    },
    /// A value cannot be written as JSON.
    #[error("{what} cannot be written as JSON: {why}")]
    Encode {
        /// What was to be kept.
        what: String,
        /// Why it cannot.
        why: String,
    },
    /// A kept value does not fit the type that is asked for.
    #[error("{what} does not fit the type that is asked for: {why}")]
    Decode {
        /// What was read.
        what: String,
        /// Why it does not fit.
        why: String,
    },
    /// A newer program wrote something that this one does not know how to act on, so it leaves it alone.
    #[cfg(feature = "schedule")]
    #[error(
        "{what} was written by a newer program, in format {format}, and this one knows {known}: it is left to the newer \
         one; upgrade this program"
    )]
    Newer {
        /// What was read.
        what: String,
        /// The format it is in.
        format: u32,
        /// The latest format that this program knows.
        known: u32,
    },
    /// It is not known whether the run was started: its commit was not answered in time. Starting it again
    /// with the same key is safe.
    #[error("it is not known whether run {run_id} was started: the database did not answer in time")]
    Unknown {
        /// The id that the run has if it exists.
        run_id: RunId,
    },
    /// The run ended without a result.
    #[error("{0}")]
    Run(Box<RunError>),
    /// A task of this name is not part of the workflow.
    #[error("workflow `{workflow}` has no task `{task}`{}", did_you_mean(nearest.as_deref()))]
    UnknownTask {
        /// The workflow.
        workflow: String,
        /// The name that was asked for.
        task: String,
        /// The task that is spelled most like it.
        nearest: Option<String>,
    },
    /// There is no schedule of this name.
    #[cfg(feature = "schedule")]
    #[error("there is no schedule `{name}`{}", did_you_mean(nearest.as_deref()))]
    UnknownSchedule {
        /// The name that was asked for.
        name: String,
        /// The schedule that is spelled most like it.
        nearest: Option<String>,
    },
    /// There is no trigger of this name.
    #[cfg(feature = "schedule")]
    #[error("there is no trigger `{name}`: no engine was given it so far{}", did_you_mean(nearest.as_deref()))]
    UnknownTrigger {
        /// The name that was asked for.
        name: String,
        /// The trigger that is spelled most like it.
        nearest: Option<String>,
    },
    /// A schedule cannot be used as it was declared. Every problem is listed, one per line.
    #[cfg(feature = "schedule")]
    #[error("schedule `{name}` cannot be used:\n{}", problems.join("\n"))]
    Schedule {
        /// The schedule.
        name: String,
        /// What is wrong.
        problems: Vec<String>,
    },
    /// There is no batch of this name.
    #[cfg(feature = "schedule")]
    #[error("there is no batch `{name}`{}", did_you_mean(nearest.as_deref()))]
    UnknownBatch {
        /// The name that was asked for.
        name: String,
        /// The batch that is spelled most like it.
        nearest: Option<String>,
    },
    /// A batch cannot be used as it was declared. Every problem is listed, one per line.
    #[cfg(feature = "schedule")]
    #[error("batch `{name}` cannot be used:\n{}", problems.join("\n"))]
    Batch {
        /// The batch.
        name: String,
        /// What is wrong.
        problems: Vec<String>,
    },
    /// There is no tenant of this name.
    #[error("there is no tenant `{name}`: `create` makes it{}", did_you_mean(nearest.as_deref()))]
    UnknownTenant {
        /// The name that was asked for.
        name: String,
        /// The tenant that is spelled most like it.
        nearest: Option<String>,
    },
    /// A tenant cannot be removed, because it is in use.
    #[error("tenant `{name}` is in use by {by}: {way_out}")]
    TenantInUse {
        /// The tenant.
        name: String,
        /// Who uses it.
        by: String,
        /// What to do about it.
        way_out: String,
    },
    /// A setting of the environment is missing or does not fit its type.
    #[error("{0}")]
    Setting(String),
    /// An option has a value that cannot be meant.
    #[error("{0}")]
    Invalid(String),
}

/// Why a run ended without a result.
#[derive(Clone, Debug)]
pub struct RunError {
    /// The run.
    pub run: RunId,
    /// The workflow it is a run of.
    pub workflow: String,
    /// How it ended. [`Verdict::Completed`] when it completed, but its output task did not run.
    pub verdict: Verdict,
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "run {} ({}) ", self.run, self.workflow)?;
        Reason(&self.verdict).fmt(f)
    }
}

/// How a run ended, as the rest of a sentence that begins with the run.
struct Reason<'a>(&'a Verdict);

/// How a run ended, as the rest of a sentence that begins with the run.
#[cfg(feature = "schedule")]
pub(crate) fn reason(verdict: &Verdict) -> String {
    Reason(verdict).to_string()
}

impl fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Verdict::Completed => f.write_str("completed without an output: its output task did not run"),
            Verdict::Failed { step, failure, also } => {
                write!(f, "failed: {step}: {failure}")?;
                if also.is_empty() { Ok(()) } else { write!(f, " (failed too: {})", also.join(", ")) }
            }
            Verdict::TimedOut { after, unfinished } => write!(
                f,
                "took longer than {}; unfinished: {}",
                format_duration(*after),
                unfinished.join(", ")
            ),
            Verdict::Cancelled { reason } => write!(f, "was cancelled: {reason}"),
            Verdict::Abandoned { step, deaths } => write!(
                f,
                "was abandoned: its process died {deaths} times in a row while `{step}` was running; `retry` \
                 opens it again"
            ),
        }
    }
}

impl Error {
    /// A stable name for the kind of error, for programs and for looking things up.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Store(_) => "store",
            Self::Unavailable(_) => "unavailable",
            Self::Stopped => "stopped",
            Self::UnknownWorkflow { .. } => "unknown_workflow",
            Self::Launch { .. } => "launch",
            Self::UnknownRun(_) => "unknown_run",
            Self::EventName { .. } => "event_name",
            Self::AlreadyEnded { .. } => "already_ended",
            Self::NotRetryable { .. } => "not_retryable",
            Self::NotDiscardable { .. } => "not_discardable",
            Self::KeyTaken { .. } => "key_taken",
            Self::PayloadTooLarge { .. } => "payload_too_large",
            Self::Encode { .. } => "encode",
            Self::Decode { .. } => "decode",
            #[cfg(feature = "schedule")]
            Self::Newer { .. } => "newer",
            Self::Unknown { .. } => "unknown_fate",
            Self::Run(error) => match error.verdict {
                Verdict::Completed => "no_output",
                Verdict::Failed { .. } => "run_failed",
                Verdict::TimedOut { .. } => "run_timed_out",
                Verdict::Cancelled { .. } => "run_cancelled",
                Verdict::Abandoned { .. } => "run_abandoned",
            },
            Self::UnknownTask { .. } => "unknown_task",
            #[cfg(feature = "schedule")]
            Self::UnknownSchedule { .. } => "unknown_schedule",
            #[cfg(feature = "schedule")]
            Self::UnknownTrigger { .. } => "unknown_trigger",
            #[cfg(feature = "schedule")]
            Self::Schedule { .. } => "schedule",
            #[cfg(feature = "schedule")]
            Self::UnknownBatch { .. } => "unknown_batch",
            #[cfg(feature = "schedule")]
            Self::Batch { .. } => "batch",
            Self::UnknownTenant { .. } => "unknown_tenant",
            Self::TenantInUse { .. } => "tenant_in_use",
            Self::Setting(_) => "setting",
            Self::Invalid(_) => "invalid",
        }
    }

    /// What a refused record means to the caller who asked for it.
    pub(crate) fn refused(run: RunId, refusal: Refusal) -> Self {
        match refusal {
            Refusal::Unknown => Self::UnknownRun(run),
            Refusal::Ended(state) => Self::AlreadyEnded { run, state },
            other => Self::Store(format!("run {run}: {other}")),
        }
    }

    pub(crate) fn deadline(what: &str, after: Duration) -> Self {
        Self::Unavailable(format!("{what} took longer than {}", format_duration(after)))
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Closed => Self::Stopped,
            error if error.is_temporary() => Self::Unavailable(error.to_string()),
            error => Self::Store(error.to_string()),
        }
    }
}

impl From<TenantError> for Error {
    fn from(error: TenantError) -> Self {
        match error {
            TenantError::Unknown(name) => Self::UnknownTenant { name: name.to_string(), nearest: None },
            TenantError::InUse { name, by, way_out } => {
                Self::TenantInUse { name: name.to_string(), by, way_out }
            }
            TenantError::Store(error) => error.into(),
            error @ (TenantError::Name(_) | TenantError::Invalid(_)) => Self::Invalid(error.to_string()),
        }
    }
}

fn hint_workflow(name: &str, nearest: Option<&str>) -> String {
    match nearest {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => {
            format!("add `.workflow({name}::workflow())` before `.launch()`, or start it through a `Client`")
        }
    }
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map(|nearest| format!("; did you mean `{nearest}`?")).unwrap_or_default()
}
