//! Random numbers that follow from a seed.

/// A small generator (SplitMix64): every seed is a good one, and the numbers never change between versions.
#[derive(Clone, Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub(super) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which must not be zero.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.roll() % end
    }

    /// Whether something happens that happens `percent` times in a hundred.
    pub(super) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of these, if there are any.
    pub(super) fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        let end = u64::try_from(from.len()).ok().filter(|end| *end > 0)?;
        usize::try_from(self.below(end)).ok().and_then(|at| from.get(at)).cloned()
    }

    /// One of these.
    pub(super) fn one<T: Clone, const N: usize>(&mut self, of: [T; N]) -> T {
        self.pick(&of).expect("there is something to choose from")
    }

    /// Each of these or not.
    pub(super) fn some<T: Clone>(&mut self, of: &[T], percent: u64) -> Vec<T> {
        of.iter().filter(|_| self.chance(percent)).cloned().collect()
    }
}
