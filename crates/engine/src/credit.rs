//! Whether a task's code can be trusted to let go of its thread.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

/// Code that takes longer than this before it first waits is slow to yield, or its thread had to wait for a processor.
const SLOW: Duration = Duration::from_micros(500);
/// A thread seldom waits for a processor as long as this.
const VERY_SLOW: Duration = Duration::from_millis(10);
/// How many quick attempts make up for one that was slow. A task that has not so many to its credit is distrusted,
const AMENDS: u32 = 64;
/// for so many attempts.
const DISTRUST: u32 = 64;
/// How many quick attempts it takes until a task is taken to be quick, and how many can be to its credit.
const TRUST: u32 = 256;
const MOST: u32 = 512;

/// What the attempts of one task have shown so far.
///
/// Threads that count at the same time may count once, which is as good.
#[derive(Debug, Default)]
pub(crate) struct Credit {
    quick: AtomicU32,
    /// For how many attempts more the task is distrusted.
    distrusted: AtomicU32,
}

impl Credit {
    /// Notes how long an attempt took until it first waited or was over.
    pub(crate) fn note_first_poll(&self, took: Duration) {
        let quick = self.quick.load(Ordering::Relaxed);
        if took <= SLOW {
            if quick < MOST {
                self.quick.store(quick + 1, Ordering::Relaxed);
            }
            return;
        }
        let left = quick.checked_sub(AMENDS).filter(|_| took <= VERY_SLOW);
        self.quick.store(left.unwrap_or(0), Ordering::Relaxed);
        if left.is_none() {
            self.distrusted.store(DISTRUST, Ordering::Relaxed);
        }
    }

    /// Whether the task has shown often enough that it lets go of its thread at once.
    pub(crate) fn is_quick(&self) -> bool {
        self.quick.load(Ordering::Relaxed) >= TRUST
    }

    /// Whether the next attempt, which this counts, should not begin on a thread that has other things to do.
    pub(crate) fn is_distrusted(&self) -> bool {
        let left = self.distrusted.load(Ordering::Relaxed);
        if left > 0 {
            self.distrusted.store(left - 1, Ordering::Relaxed);
        }
        left > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(quick: u32) -> Credit {
        let credit = Credit::default();
        (0..quick).for_each(|_| credit.note_first_poll(Duration::ZERO));
        credit
    }

    #[test]
    fn a_task_that_begins_slowly_is_distrusted_for_a_while() {
        let credit = after(0);
        credit.note_first_poll(SLOW * 2);
        assert_eq!((0..1000).filter(|_| credit.is_distrusted()).count(), DISTRUST as usize);
        assert!(!credit.is_quick());
    }

    #[test]
    fn one_slow_attempt_among_many_quick_ones_is_forgiven() {
        let credit = after(1000);
        credit.note_first_poll(SLOW * 2);
        assert!(credit.is_quick() && !credit.is_distrusted());
    }

    #[test]
    fn a_task_that_turns_slow_is_distrusted_after_a_few_attempts() {
        let credit = after(1000);
        let forgiven = (0..1000).take_while(|_| {
            credit.note_first_poll(SLOW * 2);
            !credit.is_distrusted()
        });
        assert_eq!(forgiven.count(), (MOST / AMENDS) as usize);
    }

    #[test]
    fn one_very_slow_attempt_is_not_forgiven() {
        let credit = after(1000);
        credit.note_first_poll(VERY_SLOW * 2);
        assert!(credit.is_distrusted() && !credit.is_quick());
    }
}
