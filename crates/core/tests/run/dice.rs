//! Randomness that a number repeats.

/// A small generator (SplitMix64): the same number gives the same throws.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Dice whose throws depend on these numbers alone, and on nothing that was thrown before.
    pub fn of(numbers: &[u64]) -> Self {
        let mix = |dice: u64, number: &u64| Self(dice ^ number.wrapping_mul(0xD6E8_FEB8_6659_FD93)).next();
        Self(numbers.iter().fold(0x5851_F42D_4C95_7F2D, mix))
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is not zero.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).expect("the number is below a usize")
    }

    /// True this often in a hundred.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at + 1));
        }
    }
}
