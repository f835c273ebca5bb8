//! Code that keeps its thread.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// Keeps a thread busy until it is told to let go.
#[derive(Default)]
pub(crate) struct Hog {
    /// How often it was entered.
    pub(crate) entered: AtomicUsize,
    pub(crate) let_go: AtomicBool,
    pub(crate) gate: tokio::sync::Notify,
    pub(crate) waiting: AtomicUsize,
}

/// Lets the thread go when a test ends, however it ends: a runtime waits for its blocking threads.
pub(crate) struct LetGo(pub(crate) Arc<Hog>);

impl Drop for LetGo {
    fn drop(&mut self) {
        self.0.let_go.store(true, Ordering::SeqCst);
    }
}

impl Hog {
    pub(crate) fn hold(&self) {
        self.entered.fetch_add(1, Ordering::SeqCst);
        let begun = Instant::now();
        while !self.let_go.load(Ordering::SeqCst) && begun.elapsed() < Duration::from_secs(30) {
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }

    pub(crate) async fn barrier(&self) {
        let woken = self.gate.notified();
        tokio::pin!(woken);
        woken.as_mut().enable();
        self.waiting.fetch_add(1, Ordering::SeqCst);
        woken.await;
    }
}

/// Waits for something that happens on another thread, but not for ever.
pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what} did not happen");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
