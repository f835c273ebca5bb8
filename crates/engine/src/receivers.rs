//! Runs that something has come for.

use std::{
    collections::HashSet,
    mem,
    sync::atomic::{AtomicBool, Ordering},
};

use parking_lot::Mutex;
use tokio::sync::Notify;
use windlass_core::RunId;

/// How many of them are told apart.
const MOST: usize = 1000;

/// Runs into whose inboxes something came, of which nobody has heard yet: some, or any.
#[derive(Default)]
pub(crate) struct Receivers {
    /// Whether there may be any, for those who only want to know that there are none.
    any: AtomicBool,
    runs: Mutex<Runs>,
    came: Notify,
}

#[derive(Default)]
struct Runs {
    named: HashSet<RunId>,
    /// Whether it may be any run.
    is_more: bool,
}

impl Runs {
    /// Any run: names are of no use then, and would only pile up where nobody takes them out.
    fn any() -> Self {
        Self { named: HashSet::new(), is_more: true }
    }
}

/// Whose inboxes are to be looked into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    Anyones,
    Of(Vec<RunId>),
}

impl Receivers {
    /// Notes that something has come for a run.
    pub(crate) fn add(&self, run: RunId) {
        self.change(|runs| {
            if !runs.is_more && runs.named.insert(run) && runs.named.len() > MOST {
                *runs = Runs::any();
            }
        });
    }

    /// Notes that something may have come for any run.
    pub(crate) fn add_any(&self) {
        self.change(|runs| *runs = Runs::any());
    }

    fn change(&self, change: impl FnOnce(&mut Runs)) {
        change(&mut self.runs.lock());
        self.any.store(true, Ordering::Release);
        self.came.notify_one();
    }

    /// Waits until there are some, and takes them.
    pub(crate) async fn take(&self) -> Whose {
        loop {
            self.came.notified().await;
            if self.any.swap(false, Ordering::AcqRel) {
                return match mem::take(&mut *self.runs.lock()) {
                    Runs { is_more: true, .. } => Whose::Anyones,
                    Runs { named, .. } => Whose::Of(named.into_iter().collect()),
                };
            }
        }
    }

    /// Whether this run is, or may be, one of them. It is none any more.
    pub(crate) fn take_out(&self, run: RunId) -> Option<Whose> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let mut runs = self.runs.lock();
        if runs.is_more {
            *runs = Runs::default();
            self.any.store(false, Ordering::Release);
            return Some(Whose::Anyones);
        }
        let was_one = runs.named.remove(&run);
        self.any.store(!runs.named.is_empty(), Ordering::Release);
        was_one.then(|| Whose::Of(vec![run]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_came_for_a_run_is_seen_once() {
        let (receivers, run) = (Receivers::default(), RunId::new());
        assert_eq!(receivers.take_out(run), None);
        receivers.add(RunId::new());
        assert_eq!(receivers.take_out(run), None, "it came for another");
        receivers.add(run);
        assert_eq!(receivers.take_out(run), Some(Whose::Of(vec![run])));
        assert_eq!(receivers.take_out(run), None);
        let Whose::Of(others) = receivers.take().await else { panic!("it is known whom it came for") };
        assert_eq!(others.len(), 1);
    }

    #[tokio::test]
    async fn of_too_many_it_is_only_known_that_there_are_some() {
        let (receivers, run) = (Receivers::default(), RunId::new());
        (0..=MOST).for_each(|_| receivers.add(RunId::new()));
        assert_eq!(receivers.take_out(run), Some(Whose::Anyones));
        assert_eq!(receivers.take_out(run), None);
        receivers.add_any();
        assert_eq!(receivers.take().await, Whose::Anyones);
    }

    #[test]
    fn names_that_nobody_takes_out_do_not_pile_up() {
        let receivers = Receivers::default();
        for _ in 0..100 * MOST {
            receivers.add(RunId::new());
            assert!(receivers.runs.lock().named.len() <= MOST);
        }
        assert_eq!(receivers.take_out(RunId::new()), Some(Whose::Anyones));
        receivers.add(RunId::new());
        receivers.add_any();
        assert!(receivers.runs.lock().named.is_empty());
    }
}
