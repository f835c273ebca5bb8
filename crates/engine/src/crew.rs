//! Work that the user's threads share.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use parking_lot::Mutex;
use tokio::{runtime::Handle, time::Instant};

use crate::{node::make_way, run_loop::SPELL};

/// Things to be done on the user's threads, where they may run user code. They are taken one by one, by as many threads
/// as there are: code that takes long, or for ever, keeps one thread and nothing but its own thing.
pub(crate) struct Crew<I, F> {
    left: Mutex<I>,
    /// Whether a thread that takes things is on its way.
    called: AtomicBool,
    user: Handle,
    work: F,
}

impl<I, F> Crew<I, F>
where
    I: ExactSizeIterator + Send + 'static,
    F: Fn(I::Item) + Send + Sync + 'static,
{
    /// Has this done to each of these.
    pub(crate) fn share(user: &Handle, things: I, work: F) {
        if things.len() > 0 {
            let (left, called, user) = (Mutex::new(things), AtomicBool::new(false), user.clone());
            Arc::new(Self { left, called, user, work }).call_taker();
        }
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
        let began = Instant::now();
        loop {
            let mut left = self.left.lock();
            let Some(thing) = left.next() else { return };
            let is_last = left.len() == 0;
            drop(left);
            if !is_last {
                // Before this thread is lost in what follows, another is on its way.
                self.call_taker();
            }
            (self.work)(thing);
            if is_last || began.elapsed() > SPELL {
                // The one on its way goes on, when others on its thread had their turn.
                return;
            }
        }
    }
}
