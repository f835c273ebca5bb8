//! Maps by run.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

use windlass_core::RunId;

/// A map whose keys are runs.
pub(crate) type ByRun<T> = HashMap<RunId, T, BuildHasherDefault<IdHasher>>;

/// Half of an id is random, so it needs no more than a stir.
#[derive(Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 = (self.0.rotate_left(5) ^ u64::from_be_bytes(word)).wrapping_mul(0x517C_C1B7_2722_0A95);
        }
    }

    // The length of an id is always the same.
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, hash::BuildHasher};

    use super::*;

    #[test]
    fn ids_that_follow_each_other_are_spread() {
        let ids: Vec<RunId> = (0..10_000).map(|_| RunId::new()).collect();
        let hashes = ids.iter().map(|id| BuildHasherDefault::<IdHasher>::default().hash_one(id));
        // The map looks at the lowest bits and at the highest.
        let ends: HashSet<u64> = hashes.map(|hash| (hash & 0xff) << 7 | hash >> 57).collect();
        assert!(ends.len() > 6_000, "{}", ends.len());
    }
}
