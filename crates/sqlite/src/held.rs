//! What a handle remembers about the runs of a node.

use std::collections::{HashMap, HashSet};

use rusqlite::Connection;
use windlass_core::{ClaimId, RunId};
use windlass_store::StepRow;

use crate::{
    owned,
    pen::Pen,
    place::Carried,
    run::Core,
    saved,
    step::{self, StepKey},
};

/// What is known about one run of a node, so that recording a step reads nothing.
pub(crate) struct Held {
    pub(crate) claim: ClaimId,
    pub(crate) core: Core,
    pub(crate) carried: Carried,
    /// Whether its attempts may have saved something.
    pub(crate) saved: bool,
    next_seq: i64,
    recorded: HashSet<u64>,
}

impl Held {
    /// Of a run that nothing is recorded about.
    pub(crate) fn fresh(claim: ClaimId, core: Core, carried: Carried) -> Self {
        Self { claim, core, carried, saved: false, next_seq: 0, recorded: HashSet::new() }
    }

    /// Of a run whose records are these.
    pub(crate) fn with(claim: ClaimId, core: Core, carried: Carried, steps: &[StepRow], saved: bool) -> Self {
        let recorded = steps.iter().map(|step| StepKey::of(step).digest()).collect();
        let next_seq =
            i64::try_from(steps.len()).expect("a run's steps are numbered from zero without a gap");
        Self { claim, core, carried, saved, next_seq, recorded }
    }

    /// Whether a step is new, which it is asked once.
    pub(crate) fn admits(&mut self, conn: &Connection, run: RunId, new: &StepRow) -> rusqlite::Result<bool> {
        let key = StepKey::of(new);
        if self.recorded.insert(key.digest()) {
            return Ok(true);
        }
        // Two keys may share a digest: the records themselves decide.
        let mut there = false;
        step::each_key(conn, run, |known, _| there |= known == key)?;
        Ok(!there)
    }

    /// Adds a step that was admitted.
    pub(crate) fn record(&mut self, pen: &mut Pen<'_>, run: RunId, new: &StepRow) -> rusqlite::Result<()> {
        step::add(pen, run, self.next_seq, new)?;
        self.next_seq += 1;
        Ok(())
    }
}

/// The runs of one node, as far as they are known.
///
/// It is true as long as the node's row names this handle as the last one that acted for the node: only the
/// acting node changes what it holds.
pub(crate) struct Mirror {
    /// The node's number.
    pub(crate) no: i64,
    complete: bool,
    runs: HashMap<RunId, Held>,
    claims: HashMap<ClaimId, usize>,
}

impl Mirror {
    /// Of a node that holds nothing.
    pub(crate) fn empty(no: i64) -> Self {
        Self { no, complete: true, runs: HashMap::new(), claims: HashMap::new() }
    }

    /// Of a node about which nothing is known yet.
    pub(crate) fn unknown(no: i64) -> Self {
        Self { complete: false, ..Self::empty(no) }
    }

    /// Remembers a run that the node holds now.
    pub(crate) fn add(&mut self, run: RunId, held: Held) {
        *self.claims.entry(held.claim).or_default() += 1;
        self.runs.insert(run, held);
    }

    /// Forgets a run that the node holds no more.
    pub(crate) fn remove(&mut self, run: RunId) {
        let Some(held) = self.runs.remove(&run) else { return };
        if let Some(count) = self.claims.get_mut(&held.claim) {
            *count -= 1;
            if *count == 0 {
                self.claims.remove(&held.claim);
            }
        }
    }

    /// A run, if the node holds it under this claim.
    pub(crate) fn get(
        &mut self,
        conn: &Connection,
        run: RunId,
        claim: ClaimId,
    ) -> rusqlite::Result<Option<&mut Held>> {
        if !self.complete
            && !self.runs.contains_key(&run)
            && let Some(held) = look_up(conn, self.no, run)?
        {
            self.add(run, held);
        }
        Ok(self.runs.get_mut(&run).filter(|held| held.claim == claim))
    }

    /// The runs that the node holds under a claim, the most urgent first.
    pub(crate) fn of_claim(&self, conn: &Connection, claim: ClaimId) -> rusqlite::Result<Vec<RunId>> {
        if self.complete && !self.claims.contains_key(&claim) {
            return Ok(Vec::new());
        }
        owned::of_claim(conn, self.no, claim)
    }
}

fn look_up(conn: &Connection, node: i64, run: RunId) -> rusqlite::Result<Option<Held>> {
    let Some(row) = owned::read(conn, node, run)? else { return Ok(None) };
    let mut held = Held::fresh(row.claim, row.core, row.carried);
    held.saved = !saved::read(conn, run)?.is_empty();
    step::each_key(conn, run, |key, seq| {
        held.recorded.insert(key.digest());
        held.next_seq = seq + 1;
    })?;
    Ok(Some(held))
}
