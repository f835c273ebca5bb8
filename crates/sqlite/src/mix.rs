//! A fast hash for what is kept in memory.

use std::hash::{BuildHasherDefault, Hasher};

/// Mixes ids, names and small numbers.
///
/// It does not withstand keys that somebody chose to collide: they come from the program's own code and from ids
/// that are random. What it says is never stored.
#[derive(Default)]
pub(crate) struct Mix(u64);

/// Makes one for each key.
pub(crate) type MixBuilder = BuildHasherDefault<Mix>;

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
        let mixed =
            u128::from(self.0.rotate_left(5) ^ word ^ 0x2545_F491_4F6C_DD1D) * 0x9E37_79B9_7F4A_7C15_u128;
        self.0 = (mixed as u64) ^ ((mixed >> 64) as u64);
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(word.into());
    }

    /// Lengths are told by what follows them here: ids all have one length, and names end with a mark.
    fn write_usize(&mut self, _: usize) {}
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, hash::BuildHasher};

    use windlass_core::RunId;

    use super::*;

    #[test]
    fn keys_that_are_alike_are_told_apart() {
        let builder = MixBuilder::default();
        let names = (0..1000).map(|n| builder.hash_one(format!("enrich[{n}]")));
        let pairs = (0..1000_i64).map(|n| builder.hash_one((n / 30, n % 30)));
        let runs = (0..1000).map(|_| builder.hash_one(RunId::new()));
        for hashes in [names.collect::<Vec<_>>(), pairs.collect(), runs.collect()] {
            // Maps use the lowest bits for the place and the highest for a first comparison.
            let places: HashSet<_> = hashes.iter().map(|hash| hash & 0xfff).collect();
            assert_eq!(hashes.iter().collect::<HashSet<_>>().len(), 1000);
            assert!(places.len() > 800, "{} places", places.len());
        }
    }
}
