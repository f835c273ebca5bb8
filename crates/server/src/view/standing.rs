//! What a schedule or a trigger does.

use serde::Serialize;
use utoipa::ToSchema;
use windlass::schedule::Status;

use super::instant;

/// What a schedule or a trigger does.
#[derive(Debug, Serialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum ScheduleState {
    /// Nothing has run, or what ran last does not count.
    Idle,
    /// A run is under way.
    Running,
    /// The last run completed.
    Completed,
    /// The last run failed, and the next one waits longer.
    Backoff {
        #[schema(format = DateTime)]
        until: String,
        /// How many have failed in a row.
        streak: u32,
        last_error: String,
    },
    /// It has stopped until somebody resets it.
    Tripped {
        /// How many have failed in a row.
        streak: u32,
        last_error: String,
    },
}

impl From<Status> for ScheduleState {
    fn from(status: Status) -> Self {
        match status {
            Status::Idle => Self::Idle,
            Status::Running => Self::Running,
            Status::Completed => Self::Completed,
            Status::Backoff { until, streak, last_error } => {
                Self::Backoff { until: instant(until), streak, last_error }
            }
            Status::Tripped { streak, last_error } => Self::Tripped { streak, last_error },
        }
    }
}
