//! What a handle remembers about the runs of a node.

use std::collections::{HashMap, hash_map};

use rusqlite::Connection;
use windlass_core::{ClaimId, RunId};
use windlass_store::StepRow;

use crate::{
    holding::{self, Entry, Holding, Listing},
    mix::MixBuilder,
    place::Carried,
    records::{self, Records},
    run::Core,
    saved,
    step::{self, StepKey, StepSheet},
};

/// What is known about one run of a node, so that recording a step reads nothing.
pub(crate) struct Held {
    pub(crate) claim: ClaimId,
    pub(crate) core: Core,
    pub(crate) carried: Carried,
    /// Whether its attempts may have saved something.
    pub(crate) saved: bool,
    /// Whether it may have published something, which others may also save for.
    pub(crate) spread: bool,
    /// The batch that it came in, as the mirror counts them.
    batch: u64,
    /// `None` until it is asked for.
    records: Option<Records>,
}

impl Held {
    /// Of a run that nothing is recorded about.
    pub(crate) fn fresh(claim: ClaimId, core: Core, carried: Carried) -> Self {
        let (saved, spread) = (false, false);
        Self { claim, core, carried, saved, spread, batch: 0, records: Some(Records::default()) }
    }

    /// Of a run whose records are these.
    pub(crate) fn with(claim: ClaimId, core: Core, carried: Carried, steps: &[StepRow], saved: bool) -> Self {
        Self { claim, core, carried, saved, spread: false, batch: 0, records: Some(Records::of(steps)) }
    }

    /// What is recorded about it.
    pub(crate) fn records(
        &mut self,
        sheet: &mut StepSheet<'_>,
        run: RunId,
    ) -> rusqlite::Result<&mut Records> {
        match &mut self.records {
            Some(records) => Ok(records),
            unknown => {
                sheet.write()?;
                Ok(unknown.insert(Records::read(sheet.conn(), run)?))
            }
        }
    }

    /// Adds the steps that are new.
    pub(crate) fn record<'a>(
        &mut self,
        sheet: &mut StepSheet<'a>,
        run: RunId,
        steps: &'a [StepRow],
    ) -> rusqlite::Result<()> {
        if steps.is_empty() {
            return Ok(());
        }
        let records = self.records(sheet, run)?;
        for step in steps {
            if records.admits(sheet, run, step)? {
                records.record(sheet, run, step);
            }
        }
        Ok(())
    }

    /// Forgets what is recorded and saved, unless this step is there.
    pub(crate) fn forget(
        &mut self,
        sheet: &mut StepSheet<'_>,
        run: RunId,
        unless: &StepRow,
    ) -> rusqlite::Result<()> {
        if records::has(sheet, run, StepKey::of(unless))? {
            return Ok(());
        }
        step::clear(sheet.conn(), run)?;
        saved::clear(sheet.conn(), run)?;
        self.records = Some(Records::default());
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
    /// Whether any queue was declared when the fence was last asked.
    pub(crate) any_queue: bool,
    runs: HashMap<RunId, Held, MixBuilder>,
    batches: HashMap<u64, Batch, MixBuilder>,
    /// What the node gets in this transaction. Its number is one more than the last in `batches`.
    fresh: Fresh,
    /// Batches that lost a run in this transaction.
    touched: Vec<u64>,
}

/// A row of the node: how many runs it lists, and how many of them are left.
struct Batch {
    row: i64,
    listed: usize,
    left: usize,
}

/// A batch that has no row yet.
#[derive(Default)]
struct Fresh {
    number: u64,
    listing: Listing,
    listed: usize,
    left: usize,
}

/// Whether so much of a batch has gone that it is worth writing anew. What a sweep has to look through is then
/// never more than a few times what is held.
const fn is_sparse(listed: usize, left: usize) -> bool {
    listed >= 64 && left * 4 < listed
}

impl Mirror {
    /// Of a node that holds nothing.
    pub(crate) fn empty(no: i64) -> Self {
        let (runs, batches) = (HashMap::default(), HashMap::default());
        Self { no, any_queue: true, runs, batches, fresh: Fresh::default(), touched: Vec::new() }
    }

    /// Of a node that another handle acted for, or about which something untrue may be known.
    pub(crate) fn read(conn: &Connection, no: i64) -> rusqlite::Result<Self> {
        let mut mirror = Self::empty(no);
        for batch in holding::of_node(conn, no)? {
            let number = mirror.fresh.number;
            mirror.fresh.number += 1;
            let (listed, left) = (batch.listed, batch.held.len());
            mirror.batches.insert(number, Batch { row: batch.no, listed, left });
            mirror.touched.push(number);
            for Holding { entry, core } in batch.held {
                let Entry { run, claim, carried } = entry;
                let (saved, spread) = (true, true);
                let held = Held { claim, core, carried, saved, spread, batch: number, records: None };
                mirror.runs.insert(run, held);
            }
        }
        Ok(mirror)
    }

    /// Remembers a run that the node gets in this transaction.
    pub(crate) fn add(&mut self, run: RunId, mut held: Held) {
        held.batch = self.fresh.number;
        self.fresh.listing.add(&held.entry(run));
        self.fresh.listed += 1;
        self.fresh.left += 1;
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
        if held.batch == self.fresh.number {
            self.fresh.left -= 1;
        } else if let Some(batch) = self.batches.get_mut(&held.batch) {
            batch.left -= 1;
            if batch.left == 0 || is_sparse(batch.listed, batch.left) {
                self.touched.push(held.batch);
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
        for number in std::mem::take(&mut self.touched) {
            self.tidy(conn, number)?;
        }
        let Fresh { number, listing, mut listed, left } = std::mem::take(&mut self.fresh);
        self.fresh.number = number + 1;
        if left == 0 {
            return Ok(());
        }
        // What has gone again in the same transaction is listed too, unless it is most of it.
        let row = if is_sparse(listed, left) {
            listed = left;
            holding::add(conn, self.no, &self.list(number))?
        } else {
            holding::add(conn, self.no, &listing)?
        };
        self.batches.insert(number, Batch { row, listed, left });
        Ok(())
    }

    /// Removes a row whose runs have all gone, and shortens one that is mostly gone.
    fn tidy(&mut self, conn: &Connection, number: u64) -> rusqlite::Result<()> {
        let Some(batch) = self.batches.get_mut(&number) else { return Ok(()) };
        let row = batch.row;
        if batch.left == 0 {
            self.batches.remove(&number);
            return holding::remove(conn, row);
        }
        if is_sparse(batch.listed, batch.left) {
            batch.listed = batch.left;
            return holding::replace(conn, row, &self.list(number));
        }
        Ok(())
    }

    /// What is left of a batch.
    fn list(&self, number: u64) -> Listing {
        let mut listing = Listing::default();
        for (run, held) in self.runs.iter().filter(|(_, held)| held.batch == number) {
            listing.add(&held.entry(*run));
        }
        listing
    }
}
