//! What a handle remembers about the runs of a node.

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    hash::{BuildHasherDefault, Hasher},
};

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

/// Mixes what is random already: ids and digests. They come from this program's own nodes, so nobody can choose
/// them to collide.
#[derive(Default)]
pub(crate) struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        let mixed = u128::from(self.0 ^ word) * 0x9E37_79B9_7F4A_7C15_u128;
        self.0 = (mixed as u64) ^ ((mixed >> 64) as u64);
    }

    /// The lengths of keys that all have one length tell nothing.
    fn write_usize(&mut self, _: usize) {}
}

type MixBuilder = BuildHasherDefault<Mix>;

/// What is known about one run of a node, so that recording a step reads nothing.
pub(crate) struct Held {
    pub(crate) claim: ClaimId,
    pub(crate) core: Core,
    pub(crate) carried: Carried,
    /// Whether its attempts may have saved something.
    pub(crate) saved: bool,
    next_seq: i64,
    recorded: HashSet<u64, MixBuilder>,
}

impl Held {
    /// Of a run that nothing is recorded about.
    pub(crate) fn fresh(claim: ClaimId, core: Core, carried: Carried) -> Self {
        Self { claim, core, carried, saved: false, next_seq: 0, recorded: HashSet::default() }
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
    runs: HashMap<RunId, Held, MixBuilder>,
}

impl Mirror {
    /// Of a node that holds nothing.
    pub(crate) fn empty(no: i64) -> Self {
        Self { no, complete: true, runs: HashMap::default() }
    }

    /// Of a node about which nothing is known yet.
    pub(crate) fn unknown(no: i64) -> Self {
        Self { complete: false, ..Self::empty(no) }
    }

    /// Remembers a run that the node holds now.
    pub(crate) fn add(&mut self, run: RunId, held: Held) {
        self.runs.insert(run, held);
    }

    /// A run, if the node holds it under this claim.
    pub(crate) fn get(
        &mut self,
        conn: &Connection,
        run: RunId,
        claim: ClaimId,
    ) -> rusqlite::Result<Option<&mut Held>> {
        self.learn(conn, run)?;
        Ok(self.runs.get_mut(&run).filter(|held| held.claim == claim))
    }

    /// Forgets a run, and hands out what was known, if the node holds it under this claim.
    pub(crate) fn take(
        &mut self,
        conn: &Connection,
        run: RunId,
        claim: ClaimId,
    ) -> rusqlite::Result<Option<Held>> {
        self.learn(conn, run)?;
        match self.runs.entry(run) {
            Entry::Occupied(entry) if entry.get().claim == claim => Ok(Some(entry.remove())),
            _ => Ok(None),
        }
    }

    /// The runs that the node holds under a claim, the most urgent first.
    pub(crate) fn of_claim(&self, conn: &Connection, claim: ClaimId) -> rusqlite::Result<Vec<RunId>> {
        if self.complete && self.runs.values().all(|held| held.claim != claim) {
            return Ok(Vec::new());
        }
        owned::of_claim(conn, self.no, claim)
    }

    /// Looks a run up that may be held and is not known to be.
    fn learn(&mut self, conn: &Connection, run: RunId) -> rusqlite::Result<()> {
        if !self.complete
            && !self.runs.contains_key(&run)
            && let Some(held) = look_up(conn, self.no, run)?
        {
            self.add(run, held);
        }
        Ok(())
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
