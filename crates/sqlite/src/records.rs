//! Which steps a run has.

use std::collections::HashSet;

use rusqlite::Connection;
use windlass_core::RunId;
use windlass_store::StepRow;

use crate::{
    mix::MixBuilder,
    step::{self, NewStepRow, StepKey, StepSheet},
};

/// How many digests are kept in place: most runs have few steps, and need no memory of their own for them.
const FEW: usize = 6;

/// The records of a run: how many, and digests of their keys.
#[derive(Default)]
pub(crate) struct Records {
    next_seq: i64,
    recorded: Digests,
}

enum Digests {
    Few { count: usize, digests: [u64; FEW] },
    Many(HashSet<u64, MixBuilder>),
}

impl Default for Digests {
    fn default() -> Self {
        Self::Few { count: 0, digests: [0; FEW] }
    }
}

impl Digests {
    /// Adds one. Answers whether it is new.
    fn insert(&mut self, digest: u64) -> bool {
        match self {
            Self::Many(set) => set.insert(digest),
            Self::Few { count, digests } => {
                if digests[..*count].contains(&digest) {
                    return false;
                }
                if let Some(free) = digests.get_mut(*count) {
                    *free = digest;
                    *count += 1;
                } else {
                    let all = digests.iter().copied().chain([digest]);
                    *self = Self::Many(all.collect());
                }
                true
            }
        }
    }
}

impl Records {
    /// Of a run whose steps these are.
    pub(crate) fn of(steps: &[StepRow]) -> Self {
        let mut records = Self::default();
        for step in steps {
            records.recorded.insert(StepKey::of(step).digest());
        }
        records.next_seq =
            i64::try_from(steps.len()).expect("a run's steps are numbered from zero without a gap");
        records
    }

    /// Of a run about which nothing is known.
    pub(crate) fn read(conn: &Connection, run: RunId) -> rusqlite::Result<Self> {
        let mut records = Self::default();
        step::each_key(conn, run, |key, seq| {
            records.recorded.insert(key.digest());
            records.next_seq = seq + 1;
        })?;
        Ok(records)
    }

    /// Whether a step is new, which it is asked once.
    pub(crate) fn admits(
        &mut self,
        sheet: &mut StepSheet<'_>,
        run: RunId,
        new: &StepRow,
    ) -> rusqlite::Result<bool> {
        let key = StepKey::of(new);
        if self.recorded.insert(key.digest()) {
            return Ok(true);
        }
        // Two keys may share a digest: the records themselves decide.
        Ok(!has(sheet, run, key)?)
    }

    /// Adds a step that was admitted.
    pub(crate) fn record<'a>(&mut self, sheet: &mut StepSheet<'a>, run: RunId, step: &'a StepRow) {
        sheet.add(NewStepRow { run, seq: self.next_seq, step });
        self.next_seq += 1;
    }
}

/// Whether a run has a step with this key.
pub(crate) fn has(sheet: &mut StepSheet<'_>, run: RunId, key: StepKey<'_>) -> rusqlite::Result<bool> {
    sheet.write()?;
    let mut there = false;
    step::each_key(sheet.conn(), run, |known, _| there |= known == key)?;
    Ok(there)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_new_once_however_many_there_are() {
        let mut digests = Digests::default();
        for round in 0..2 {
            for digest in 0..3 * FEW as u64 {
                assert_eq!(digests.insert(digest), round == 0, "{digest}");
            }
        }
    }
}
