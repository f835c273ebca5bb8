//! Handing on what became of a batch.

use std::{
    iter::Zip,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    vec::IntoIter,
};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use windlass_store::{Refusal, Unit, Written};

use super::{FEW, Lost, Thread, queue::Replier};
use crate::node::make_way;

/// The answers to a batch, on their way to those who wait for them.
///
/// What follows from an answer is done on the user's threads, and may run user code. So the answers are taken one
/// by one, by as many threads as there are: code that takes long, or for ever, keeps one thread and no answer but
/// its own.
pub(super) struct Answers {
    left: Mutex<Left>,
    /// Whether a task that takes answers is on its way.
    called: AtomicBool,
    user: Handle,
}

struct Left {
    answers: Zip<IntoIter<Replier>, IntoIter<Result<Written, Refusal>>>,
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
        let left = Left { answers: repliers.into_iter().zip(answers), units: units.into_iter() };
        let (left, called) = (Mutex::new(left), AtomicBool::new(false));
        Arc::new(Self { left, called, user: user.clone() }).call_taker();
    }

    /// Sees to it that a taker is on its way. It begins when a thread is free: so there are as many as can be used.
    fn call_taker(self: &Arc<Self>) {
        // Mostly one is, and a look costs the other threads nothing.
        if !self.called.load(Ordering::Acquire) && !self.called.swap(true, Ordering::AcqRel) {
            let taker = Arc::clone(self);
            self.user.spawn(async move { taker.take_all() });
            make_way(&self.user);
        }
    }

    fn take_all(self: Arc<Self>) {
        self.called.store(false, Ordering::Release);
        loop {
            let mut left = self.left.lock();
            let Some((replier, answer)) = left.answers.next() else { return };
            let (unit, is_last) = (left.units.next(), left.answers.len() == 0);
            drop(left);
            if !is_last {
                // Before this thread is lost in what follows, another is on its way.
                self.call_taker();
            }
            replier.reply.answer(answer.map_err(Lost::Refused), Thread::Users);
            drop(unit);
        }
    }
}
