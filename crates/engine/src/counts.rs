//! How many runs there are.

use windlass_core::RunState;
use windlass_store::{Query, Tally};

use crate::{Error, Runs};

/// About how many runs are looked at.
const LOOK: usize = 5_000;

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
    /// How many runs fit, by state: of every state that the search is for, also of those in which there are none. A run that
    /// is being undone may count as running. It takes no longer when there are millions: then some are
    /// [estimated](StateCount::estimated).
    ///
    /// # Errors
    ///
    /// When the store cannot be asked.
    pub async fn counts(&self) -> Result<Vec<StateCount>, Error> {
        let Query { queue, tag, key, since, until, workflow, without, .. } = &self.query;
        let store = &self.client.hub().store;
        let counts = store.count(self.query.clone(), LOOK).await?;
        let is_plain =
            queue.is_none() && tag.is_none() && key.is_none() && since.is_none() && until.is_none();
        let mut ever = Vec::new();
        if is_plain && counts.iter().any(|count| !count.whole && count.state.is_terminal()) {
            ever = store.tallies(Tally::EVER).await?;
            ever.retain(|tally| workflow.as_ref().is_none_or(|name| *name == tally.workflow));
            ever.retain(|tally| {
                without.as_ref().is_none_or(|beginning| !tally.workflow.starts_with(&**beginning))
            });
        }
        let estimate = |state: RunState| {
            let sum: i64 = ever.iter().filter(|tally| tally.state == state).map(|tally| tally.count).sum();
            u64::try_from(sum).unwrap_or(0)
        };
        let counts = counts.into_iter().map(|count| StateCount {
            state: count.state,
            count: match count.whole || !count.state.is_terminal() {
                true => count.count,
                false => count.count.max(estimate(count.state)),
            },
            estimated: !count.whole,
        });
        Ok(counts.collect())
    }
}
