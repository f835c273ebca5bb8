//! Handing on what became of a batch.

use std::{iter::Zip, vec::IntoIter};

use tokio::runtime::Handle;
use windlass_store::{Refusal, Unit, Written};

use super::{FEW, Lost, Thread, queue::Replier};
use crate::crew::Crew;

/// The answers to a batch, on their way to those who wait for them. What follows from an answer is done on the user's
/// threads.
pub(super) struct Answers {
    left: Zip<IntoIter<Replier>, IntoIter<Result<Written, Refusal>>>,
    /// What was written goes along, to be freed where it was made: freeing it all on one thread would have the
    /// others wait for their own memory.
    units: IntoIter<Unit>,
}

impl Answers {
    pub(super) fn hand_on(
        user: Option<&Handle>,
        repliers: Vec<Replier>,
        answers: Vec<Result<Written, Refusal>>,
        units: Vec<Unit>,
    ) {
        // So few answers are handed on by the thread that has them, and wake whom they are for: a thread that only
        // passes them on would have to be woken first.
        let Some(user) = user.filter(|_| repliers.len() > FEW) else {
            for (replier, answer) in repliers.into_iter().zip(answers) {
                replier.reply.answer(answer.map_err(Lost::Refused), Thread::Ours);
            }
            return;
        };
        let answers = Self { left: repliers.into_iter().zip(answers), units: units.into_iter() };
        Crew::share(user, answers, |(replier, answer, unit)| {
            replier.reply.answer(answer.map_err(Lost::Refused), Thread::Users);
            drop(unit);
        });
    }
}

impl Iterator for Answers {
    type Item = (Replier, Result<Written, Refusal>, Option<Unit>);

    fn next(&mut self) -> Option<Self::Item> {
        let (replier, answer) = self.left.next()?;
        Some((replier, answer, self.units.next()))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.left.size_hint()
    }
}

impl ExactSizeIterator for Answers {}
