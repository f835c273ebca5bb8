//! How a node holds a run.

use std::collections::HashMap;

use uuid::Uuid;
use windlass_core::{ClaimId, NodeId, RunId};
use windlass_store::Unit;

use crate::{column, error::Fault, session::Session};

/// What the lists of a node say of these runs, whatever became of them since. The runs that are asked for are looked up
/// in each list, and not the lists for each of them.
const LISTED: &str = "\
    SELECT run, claim, tenure, definition FROM {s}.listed \
    WHERE node = $3 AND ((run, claim) IN (SELECT * FROM unnest($1::uuid[], $2::bigint[]))) IS TRUE";

/// The number under which a node holds a run. Whoever gives the run up raises it, so that nobody has the same again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tenure {
    pub(crate) no: i64,
    /// The version that has the run, if its row may not say so yet.
    pub(crate) definition: Option<i64>,
}

impl Tenure {
    /// That of a run that was never given up, and says itself what version has it.
    pub(crate) const FIRST: Self = Self { no: 1, definition: None };
    /// One that no run has.
    const NONE: Self = Self { no: 0, definition: None };
}

/// The tenures of the runs that a batch speaks of.
#[derive(Default)]
pub(crate) struct Tenures(HashMap<(RunId, ClaimId), Tenure>);

impl Tenures {
    /// That of a run which the node says it holds under this claim.
    pub(crate) fn of(&self, run: RunId, claim: ClaimId) -> Tenure {
        self.0.get(&(run, claim)).copied().unwrap_or(Tenure::NONE)
    }

    pub(crate) fn add(&mut self, run: RunId, claim: ClaimId, tenure: Tenure) {
        self.0.insert((run, claim), tenure);
    }

    /// Whether there is nothing to ask the tables for.
    pub(crate) fn are_of_all(&self, node: Option<NodeId>, units: &[Unit]) -> bool {
        self.unknown(node, units).next().is_none()
    }

    /// The runs that the node says it holds, of which nothing is known here. Without a node nobody holds any.
    fn unknown(&self, node: Option<NodeId>, units: &[Unit]) -> impl Iterator<Item = (RunId, ClaimId)> {
        let held = units.iter().filter_map(|unit| Some((unit.run, unit.act.holder()?)));
        held.filter(move |held| node.is_some() && !self.0.contains_key(held))
    }

    /// Asks the tables for what is not known, in a transaction in which the node acts.
    pub(crate) async fn learn(
        &mut self,
        session: &Session,
        node: Option<NodeId>,
        units: &[Unit],
    ) -> Result<(), Fault> {
        let unknown = self.unknown(node, units);
        let (runs, claims): (Vec<Uuid>, Vec<i64>) =
            unknown.map(|(run, claim)| (column::run(run), column::claim(claim))).unzip();
        let Some(node) = node.map(column::node).filter(|_| !runs.is_empty()) else { return Ok(()) };
        for row in session.query(LISTED, &[&runs, &claims, &node]).await? {
            let key = (column::run_id(&row, 0)?, column::claim_id(&row, 1)?);
            let tenure = Tenure { no: row.try_get(2)?, definition: row.try_get(3)? };
            // One that was given up and claimed again under the same id is listed twice; the last is right.
            let known = self.0.entry(key).or_insert(tenure);
            if known.no < tenure.no {
                *known = tenure;
            }
        }
        Ok(())
    }
}
