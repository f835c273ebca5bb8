//! Acting on many runs at once.

use axum::{Json, extract::State};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass::{Bulk, Client, RunState, Runs};

use super::Answer;
use crate::{
    Caller, Problem, Role,
    arrival::{Sent, note},
    deed::Deed,
    filter::{Filter, MOST},
};

/// How many runs a dry run counts at most.
const BOUND: usize = 10_000;

/// What is done to which runs.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewBulk {
    /// Which runs. It has to be given, if only as `{}`, which means all.
    filter: Filter,
    action: Action,
    /// Why, for `cancel` and `discard`.
    #[serde(default)]
    reason: String,
    /// Whether to count the runs only.
    #[serde(default)]
    dry_run: bool,
}

#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    /// Every run that has not ended.
    Cancel,
    /// Every run that has not ended.
    Pause,
    /// Every run that has not ended.
    Resume,
    /// Every run that has ended without completing.
    Retry,
    /// Every run that has ended.
    Discard,
}

impl Action {
    const fn name(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Retry => "retry",
            Self::Discard => "discard",
        }
    }

    const fn needs(self) -> Role {
        match self {
            Self::Discard => Role::Admin,
            _ => Role::Operator,
        }
    }

    const fn fits(self, state: RunState) -> bool {
        match self {
            Self::Cancel | Self::Pause | Self::Resume => !state.is_terminal(),
            Self::Retry => state.is_terminal() && !matches!(state, RunState::Completed),
            Self::Discard => state.is_terminal(),
        }
    }
}

/// What was done, or would be.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum BulkAnswer {
    /// What was done.
    Done {
        /// Runs that the action was done to.
        done: usize,
        /// Runs that had moved on meanwhile, so that it was not.
        passed_over: usize,
    },
    /// What would be done.
    Counted {
        /// How many runs the action would be done to.
        count: usize,
        /// Whether there are more, which were not counted.
        more: bool,
    },
}

/// Does something to every run that fits; `discard` needs an admin. What was done when a request is broken off stays done.
#[utoipa::path(
    post, path = "/api/v1/runs/bulk", tag = "runs", operation_id = "bulk",
    request_body = NewBulk,
    responses(
        (status = 200, body = BulkAnswer),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn bulk(
    State(client): State<Client>,
    caller: Caller,
    deed: Deed,
    Sent(bulk): Sent<NewBulk>,
) -> Answer<BulkAnswer> {
    note("the reason", &bulk.reason)?;
    let NewBulk { filter, action, reason, dry_run } = bulk;
    caller.must_be(action.needs())?;
    deed.on(format!("{}: {}", action.name(), filter.words()));
    let runs = filter.narrowed(&client, |state| action.fits(state))?;
    Ok(Json(match runs {
        None if dry_run => BulkAnswer::Counted { count: 0, more: false },
        None => BulkAnswer::Done { done: 0, passed_over: 0 },
        Some(runs) if dry_run => count(runs).await?,
        Some(runs) => {
            let Bulk { done, passed_over } = act(runs, action, &reason).await?;
            BulkAnswer::Done { done, passed_over }
        }
    }))
}

async fn act(runs: Runs, action: Action, reason: &str) -> Result<Bulk, windlass::Error> {
    match action {
        Action::Cancel => runs.cancel_all(reason).await,
        Action::Pause => runs.pause_all().await,
        Action::Resume => runs.resume_all().await,
        Action::Retry => runs.retry_all().await,
        Action::Discard => runs.discard_all(reason).await,
    }
}

async fn count(runs: Runs) -> Result<BulkAnswer, Problem> {
    let (mut runs, mut count) = (runs.limit(MOST), 0);
    loop {
        let page = runs.page().await?;
        count += page.runs.len();
        match page.runs.last() {
            Some(last) if page.more && count < BOUND => runs = runs.after(last.id),
            _ => return Ok(BulkAnswer::Counted { count, more: page.more }),
        }
    }
}
