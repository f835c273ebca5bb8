//! How many runs there are.

use serde::Serialize;
use utoipa::ToSchema;
use windlass::StateCount;

use super::State;

/// How many runs stand in a state.
#[derive(Serialize, ToSchema)]
pub(crate) struct Count {
    state: State,
    /// How many there are, or about as many.
    count: u64,
    /// Whether it was not counted to the end, so that there may be more.
    estimated: bool,
}

impl From<StateCount> for Count {
    fn from(StateCount { state, count, estimated }: StateCount) -> Self {
        Self { state: state.into(), count, estimated }
    }
}
