//! The names of states.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass::{RunState, StepKind, TaskState};

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    Pending,
    Running,
    Suspended,
    Paused,
    Blocked,
    Undoing,
    Completed,
    Failed,
    Cancelled,
    Abandoned,
}

impl State {
    pub(crate) const ALL: [Self; 10] = [
        Self::Pending,
        Self::Running,
        Self::Suspended,
        Self::Paused,
        Self::Blocked,
        Self::Undoing,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
        Self::Abandoned,
    ];

    /// Its name on the wire.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Suspended => "suspended",
            Self::Paused => "paused",
            Self::Blocked => "blocked",
            Self::Undoing => "undoing",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Abandoned => "abandoned",
        }
    }
}

impl From<RunState> for State {
    fn from(state: RunState) -> Self {
        match state {
            RunState::Pending => Self::Pending,
            RunState::Running => Self::Running,
            RunState::Suspended => Self::Suspended,
            RunState::Paused => Self::Paused,
            RunState::Blocked => Self::Blocked,
            RunState::Undoing => Self::Undoing,
            RunState::Completed => Self::Completed,
            RunState::Failed => Self::Failed,
            RunState::Cancelled => Self::Cancelled,
            RunState::Abandoned => Self::Abandoned,
        }
    }
}

impl From<State> for RunState {
    fn from(state: State) -> Self {
        match state {
            State::Pending => Self::Pending,
            State::Running => Self::Running,
            State::Suspended => Self::Suspended,
            State::Paused => Self::Paused,
            State::Blocked => Self::Blocked,
            State::Undoing => Self::Undoing,
            State::Completed => Self::Completed,
            State::Failed => Self::Failed,
            State::Cancelled => Self::Cancelled,
            State::Abandoned => Self::Abandoned,
        }
    }
}

/// Where a task, a call or an undo stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Stage {
    NotStarted,
    Pending,
    Ready,
    Running,
    Completed,
    Failed,
    Skipped,
    Cancelled,
    Abandoned,
}

impl From<TaskState> for Stage {
    fn from(state: TaskState) -> Self {
        match state {
            TaskState::NotStarted => Self::NotStarted,
            TaskState::Pending => Self::Pending,
            TaskState::Ready => Self::Ready,
            TaskState::Running => Self::Running,
            TaskState::Completed => Self::Completed,
            TaskState::Failed => Self::Failed,
            TaskState::Skipped => Self::Skipped,
            TaskState::Cancelled => Self::Cancelled,
            TaskState::Abandoned => Self::Abandoned,
        }
    }
}

/// How an attempt ended. `started` is one that began after its run was taken over from a dead process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    Completed,
    Failed,
    Retrying,
    Skipped,
    Cancelled,
    Started,
}

impl From<StepKind> for Outcome {
    fn from(kind: StepKind) -> Self {
        match kind {
            StepKind::Completed => Self::Completed,
            StepKind::Failed => Self::Failed,
            StepKind::Retrying => Self::Retrying,
            StepKind::Skipped => Self::Skipped,
            StepKind::Cancelled => Self::Cancelled,
            StepKind::Started => Self::Started,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_one_name_that_is_read_as_it_is_written() {
        for state in RunState::ALL {
            let shown = State::from(state);
            assert_eq!(RunState::from(shown), state);
            assert_eq!(serde_json::to_value(shown).unwrap(), shown.name());
            assert!(State::ALL.contains(&shown));
        }
    }
}
