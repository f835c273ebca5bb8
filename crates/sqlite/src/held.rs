//! What a handle remembers about the runs of a node.

use std::collections::{HashMap, HashSet, hash_map};

use rusqlite::Connection;
use windlass_core::{ClaimId, RunId};
use windlass_store::StepRow;

use crate::{
    holding::{self, Entry, Holding},
    mix::MixBuilder,
    pen::Pen,
    place::Carried,
    run::Core,
    step::{self, StepKey},
};

/// What is known about one run of a node, so that recording a step reads nothing.
pub(crate) struct Held {
    pub(crate) claim: ClaimId,
    pub(crate) core: Core,
    pub(crate) carried: Carried,
    /// Whether its attempts may have saved something.
    pub(crate) saved: bool,
    /// The row that lists it; `None` until the transaction that gave it to the node ends.
    batch: Option<i64>,
    /// `None` until it is asked for.
    records: Option<Records>,
}

/// The records of a run: how many, and digests of their keys.
#[derive(Default)]
struct Records {
    next_seq: i64,
    recorded: HashSet<u64, MixBuilder>,
}

impl Records {
    fn read(conn: &Connection, run: RunId) -> rusqlite::Result<Self> {
        let mut records = Self::default();
        step::each_key(conn, run, |key, seq| {
            records.recorded.insert(key.digest());
            records.next_seq = seq + 1;
        })?;
        Ok(records)
    }
}

impl Held {
    /// Of a run that nothing is recorded about.
    pub(crate) fn fresh(claim: ClaimId, core: Core, carried: Carried) -> Self {
        let records = Some(Records::default());
        Self { claim, core, carried, saved: false, batch: None, records }
    }

    /// Of a run whose records are these.
    pub(crate) fn with(claim: ClaimId, core: Core, carried: Carried, steps: &[StepRow], saved: bool) -> Self {
        let recorded = steps.iter().map(|step| StepKey::of(step).digest()).collect();
        let next_seq =
            i64::try_from(steps.len()).expect("a run's steps are numbered from zero without a gap");
        let records = Some(Records { next_seq, recorded });
        Self { saved, records, ..Self::fresh(claim, core, carried) }
    }

    /// Whether a step is new, which it is asked once.
    pub(crate) fn admits(&mut self, conn: &Connection, run: RunId, new: &StepRow) -> rusqlite::Result<bool> {
        let records = match &mut self.records {
            Some(records) => records,
            unknown => unknown.insert(Records::read(conn, run)?),
        };
        let key = StepKey::of(new);
        if records.recorded.insert(key.digest()) {
            return Ok(true);
        }
        // Two keys may share a digest: the records themselves decide.
        let mut there = false;
        step::each_key(conn, run, |known, _| there |= known == key)?;
        Ok(!there)
    }

    /// Adds a step that was admitted.
    pub(crate) fn record(&mut self, pen: &mut Pen<'_>, run: RunId, new: &StepRow) -> rusqlite::Result<()> {
        let records = self.records.get_or_insert_default();
        step::add(pen, run, records.next_seq, new)?;
        records.next_seq += 1;
        Ok(())
    }

    const fn entry(&self, run: RunId) -> Entry {
        Entry { run, claim: self.claim, carried: self.carried }
    }
}

/// The runs of one node.
///
/// It is true as long as the node's row names this handle as the last one that acted for the node: only the
/// acting node changes what it holds.
pub(crate) struct Mirror {
    /// The node's number.
    pub(crate) no: i64,
    runs: HashMap<RunId, Held, MixBuilder>,
    batches: HashMap<i64, Batch>,
    /// Runs that the node got in this transaction.
    gained: Vec<RunId>,
    /// Rows that lost a run in this transaction.
    touched: Vec<i64>,
}

/// A row of the node: how many runs it lists, and how many of them are left.
struct Batch {
    listed: usize,
    left: usize,
}

impl Batch {
    /// Whether so much of it has gone that it is worth writing anew. What a sweep has to look through is then
    /// never more than a few times what is held.
    const fn is_sparse(&self) -> bool {
        self.listed >= 64 && self.left * 4 < self.listed
    }
}

impl Mirror {
    /// Of a node that holds nothing.
    pub(crate) fn empty(no: i64) -> Self {
        let (runs, batches) = (HashMap::default(), HashMap::new());
        Self { no, runs, batches, gained: Vec::new(), touched: Vec::new() }
    }

    /// Of a node that another handle acted for, or about which something untrue may be known.
    pub(crate) fn read(conn: &Connection, no: i64) -> rusqlite::Result<Self> {
        let mut mirror = Self::empty(no);
        for batch in holding::of_node(conn, no)? {
            mirror.batches.insert(batch.no, Batch { listed: batch.listed, left: batch.held.len() });
            mirror.touched.push(batch.no);
            for Holding { entry, core } in batch.held {
                let mut held = Held::fresh(entry.claim, core, entry.carried);
                (held.saved, held.batch, held.records) = (true, Some(batch.no), None);
                mirror.runs.insert(entry.run, held);
            }
        }
        Ok(mirror)
    }

    /// Remembers a run that the node gets in this transaction.
    pub(crate) fn add(&mut self, run: RunId, held: Held) {
        self.gained.push(run);
        self.runs.insert(run, held);
    }

    /// A run, if the node holds it under this claim.
    pub(crate) fn get(&mut self, run: RunId, claim: ClaimId) -> Option<&mut Held> {
        self.runs.get_mut(&run).filter(|held| held.claim == claim)
    }

    /// Forgets a run, and hands out what was known, if the node holds it under this claim.
    pub(crate) fn take(&mut self, run: RunId, claim: ClaimId) -> Option<Held> {
        let hash_map::Entry::Occupied(entry) = self.runs.entry(run) else { return None };
        if entry.get().claim != claim {
            return None;
        }
        let held = entry.remove();
        if let Some(no) = held.batch
            && let Some(batch) = self.batches.get_mut(&no)
        {
            batch.left -= 1;
            if batch.left == 0 || batch.is_sparse() {
                self.touched.push(no);
            }
        }
        Some(held)
    }

    /// The runs that the node holds under a claim, the most urgent first.
    pub(crate) fn of_claim(&self, claim: ClaimId) -> Vec<RunId> {
        let mut runs: Vec<_> = self
            .runs
            .iter()
            .filter(|(_, held)| held.claim == claim)
            .map(|(run, held)| (held.core.priority, *run))
            .collect();
        runs.sort_unstable();
        runs.into_iter().map(|(_, run)| run).collect()
    }

    /// Writes down what changed: one row for what the node got, and none for what has gone.
    pub(crate) fn write(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        for no in std::mem::take(&mut self.touched) {
            self.tidy(conn, no)?;
        }
        let mut gained = std::mem::take(&mut self.gained);
        gained.retain(|run| self.runs.get(run).is_some_and(|held| held.batch.is_none()));
        gained.sort_unstable();
        gained.dedup();
        if gained.is_empty() {
            return Ok(());
        }
        let no = holding::add(conn, self.no, gained.iter().map(|run| self.runs[run].entry(*run)))?;
        self.batches.insert(no, Batch { listed: gained.len(), left: gained.len() });
        for run in gained {
            if let Some(held) = self.runs.get_mut(&run) {
                held.batch = Some(no);
            }
        }
        Ok(())
    }

    /// Removes a row whose runs have all gone, and shortens one that is mostly gone.
    fn tidy(&mut self, conn: &Connection, no: i64) -> rusqlite::Result<()> {
        match self.batches.get_mut(&no) {
            Some(batch) if batch.left == 0 => {
                self.batches.remove(&no);
                holding::remove(conn, no)
            }
            Some(batch) if batch.is_sparse() => {
                batch.listed = batch.left;
                let left = self.runs.iter().filter(|(_, held)| held.batch == Some(no));
                holding::replace(conn, no, left.map(|(run, held)| held.entry(*run)))
            }
            _ => Ok(()),
        }
    }
}
