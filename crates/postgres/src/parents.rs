//! Who hears of the ends in a batch.

use std::collections::{HashMap, HashSet};

use uuid::Uuid;
use windlass_core::RunId;
use windlass_store::{Act, Unit};

use crate::{column, error::Fault, held::Facts, session::Session};

const OF: &str = "SELECT id, parent FROM {s}.run WHERE id = ANY($1) AND parent IS NOT NULL";

/// The parents of the runs that end in a batch. A run never gets another one, so what is read of it before the batch is
/// written stays true. Of a run that somebody else is just starting nothing is known yet.
#[derive(Default)]
pub(crate) struct Parents(HashMap<RunId, RunId>);

impl Parents {
    /// Asks only for what the node does not know of the runs that it holds: see [`Facts`].
    pub(crate) async fn of(
        session: &Session,
        units: &[Unit],
        known: &[Option<Facts>],
    ) -> Result<Self, Fault> {
        let (mut parents, mut unknown) = (HashMap::new(), Vec::new());
        for (Unit { run, act }, known) in units.iter().zip(known) {
            match (act, known) {
                (Act::End { .. }, Some(facts)) => parents.extend(facts.parent.map(|parent| (*run, parent))),
                (Act::End { .. } | Act::EndIdle { .. }, _) => unknown.push(column::run(*run)),
                _ => {}
            }
        }
        if !unknown.is_empty() {
            // One that the batch itself starts, unless it is there already.
            for Unit { run, act } in units {
                if let Act::Start(new) = act
                    && let Some(parent) = &new.parent
                    && unknown.contains(&column::run(*run))
                {
                    parents.entry(*run).or_insert(parent.run);
                }
            }
            for row in session.query(OF, &[&unknown]).await? {
                parents.insert(column::run_id(&row, 0)?, column::run_id(&row, 1)?);
            }
        }
        Ok(Self(parents))
    }

    /// Who hears of it when a unit is written.
    pub(crate) fn told_by(&self, unit: &Unit) -> Option<RunId> {
        if self.0.is_empty() || !matches!(unit.act, Act::End { .. } | Act::EndIdle { .. }) {
            return None;
        }
        self.0.get(&unit.run).copied()
    }

    /// All who hear of something, as they are locked.
    pub(crate) fn all(&self) -> impl Iterator<Item = Uuid> {
        self.0.values().copied().map(column::run)
    }

    /// The runs whose units are written one by one because of what children and parents have to do with each other: where
    /// a parent has units of its own in the batch, and where one of its children is written so, the order of all of
    /// them counts. `is_single` says whether the units of a run are written so, and nothing of one that has none.
    pub(crate) fn bound(&self, is_single: impl Fn(&RunId) -> Option<bool>) -> HashSet<RunId> {
        let mut bound = HashSet::new();
        loop {
            let before = bound.len();
            for (child, parent) in &self.0 {
                let is_bound = |run| bound.contains(run) || is_single(run) == Some(true);
                if is_single(parent).is_some() || is_bound(child) || is_bound(parent) {
                    bound.extend([*child, *parent]);
                }
            }
            if bound.len() == before {
                return bound;
            }
        }
    }
}
