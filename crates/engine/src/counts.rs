//! How many runs there are.

use windlass_core::RunState;
use windlass_store::Query;

use crate::{Client, Error, Runs};

/// How many runs are counted one by one.
const COUNTED: usize = 1_000;

/// How many runs stand in a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateCount {
    /// The state.
    pub state: RunState,
    /// How many there are, or about as many.
    pub count: u64,
    /// Whether it was not counted to the end: there may be more.
    pub estimated: bool,
}

impl Runs {
    /// How many runs fit, by state: of every state that the search is for, also of those in which there are none. It takes
    /// no longer when there are millions: then some are [estimated](StateCount::estimated).
    ///
    /// # Errors
    ///
    /// When the store cannot be asked.
    pub async fn counts(&self) -> Result<Vec<StateCount>, Error> {
        count(&self.client, &self.query).await
    }
}

async fn count(client: &Client, query: &Query) -> Result<Vec<StateCount>, Error> {
    let mut counts = Vec::new();
    let wanted =
        RunState::ALL.into_iter().filter(|state| query.states.is_empty() || query.states.contains(state));
    for state in wanted {
        let query = Query { states: vec![state], limit: COUNTED, after: None, ..query.clone() };
        let page = client.hub().store.find(query).await?;
        counts.push(StateCount { state, count: page.runs.len() as u64, estimated: page.more });
    }
    Ok(counts)
}
