//! The model against a store, with random operations.

mod arena;
mod ask;
mod dice;
mod draw;
mod spread;

use std::{fmt, ops::Range};

use self::{arena::Arena, dice::Dice};
use super::Fixture;

/// Plays random sequences of operations on a model and on a store under test, and compares every answer and
/// everything that can be seen afterwards.
///
/// A sequence follows from its seed alone: ids, times and payloads included. When the two disagree, the
/// sequence ends there and is shortened by leaving out whatever is not needed for a disagreement.
#[derive(Clone, Copy, Debug)]
pub struct Duel {
    length: usize,
    kills: bool,
    faults: bool,
}

/// Where a store and the model part.
#[derive(Clone, Debug)]
pub struct Disagreement {
    /// What the sequence was made from: the same seed and length fail again.
    pub seed: u64,
    /// What is left of the sequence after shortening, the last one being where they part.
    pub asked: Vec<String>,
    /// What was looked at.
    pub about: String,
    /// What the model says.
    pub model: String,
    /// What the store under test says.
    pub subject: String,
}

impl Default for Duel {
    /// Sequences of 60 operations, without kills and faults.
    fn default() -> Self {
        Self { length: 60, kills: false, faults: false }
    }
}

impl Duel {
    /// Sets how many operations make a sequence. Default: 60.
    #[must_use]
    pub const fn length(self, length: usize) -> Self {
        Self { length, ..self }
    }

    /// Ends processes of nodes too, for two stores whose [`Fixture::kill`] answers `true`. Default: not.
    #[must_use]
    pub const fn with_kills(self) -> Self {
        Self { kills: true, ..self }
    }

    /// Has commits fail too: what was not answered is asked again. A store whose commits cannot be made to fail is asked
    /// again as if the answer had been lost. Default: not.
    #[must_use]
    pub const fn with_faults(self) -> Self {
        Self { faults: true, ..self }
    }

    /// Plays one sequence for each seed, each on fresh stores.
    ///
    /// # Panics
    ///
    /// When the two disagree, with the seed and the shortened sequence.
    pub async fn fight<M: Fixture, S: Fixture>(
        &self,
        seeds: Range<u64>,
        model: impl AsyncFn() -> M,
        subject: impl AsyncFn() -> S,
    ) {
        for seed in seeds {
            if let Some(disagreement) = self.seek(seed, &model, &subject).await {
                panic!("{disagreement}");
            }
        }
    }

    /// Plays the sequence of one seed, and answers where the two part, if they do.
    pub async fn seek<M: Fixture, S: Fixture>(
        &self,
        seed: u64,
        model: impl AsyncFn() -> M,
        subject: impl AsyncFn() -> S,
    ) -> Option<Disagreement> {
        let mut dice = Dice::new(seed);
        let mut moves: Vec<u64> = (0..self.length).map(|_| dice.roll()).collect();
        let play =
            async |moves: &[u64]| Arena::play(seed, moves, *self, model().await, subject().await).await;

        let mut found = play(&moves).await?;
        moves.truncate(found.asked.len());
        let mut chunk = moves.len() / 2;
        while chunk > 0 {
            let mut at = 0;
            while at < moves.len() {
                let mut fewer = moves.clone();
                fewer.drain(at..(at + chunk).min(moves.len()));
                if let Some(shorter) = play(&fewer).await {
                    fewer.truncate(shorter.asked.len());
                    (found, moves) = (shorter, fewer);
                } else {
                    at += chunk;
                }
            }
            chunk /= 2;
        }
        Some(found)
    }
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "the store and the model disagree with seed {} about {}", self.seed, self.about)?;
        for (number, asked) in self.asked.iter().enumerate() {
            writeln!(f, "{:>3}. {asked}", number + 1)?;
        }
        writeln!(f, "model: {}", self.model)?;
        write!(f, "store: {}", self.subject)
    }
}
