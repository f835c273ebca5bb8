//! Looks at the locks of others.

use std::{
    collections::HashMap,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use tokio::sync::broadcast;
use windlass_core::NodeId;
use windlass_store::Hint;

use crate::locks::Locks;

/// How often it looks.
const PAUSE: Duration = Duration::from_millis(250);
/// How long a writer waits for its turn before it says so.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3);
/// How often the same death is told: hints get lost.
const REMINDER: Duration = Duration::from_secs(1);

/// Tells who is there, whose process is gone, and who keeps the file for too long.
///
/// It wakes four times a second, on a thread of its own, so that it goes on while the writer waits for its turn.
pub(crate) struct Watcher {
    pub(crate) file: String,
    pub(crate) locks: Arc<Locks>,
    /// Whether another handle has the file open. The writer reads it.
    pub(crate) peers: Arc<AtomicBool>,
    pub(crate) hints: broadcast::Sender<Hint>,
    /// After how long a wait for the turn is reported.
    pub(crate) patience: Duration,
}

impl Watcher {
    /// Watches until the other end of `closed` is dropped.
    pub(crate) fn run(self, closed: &Receiver<()>) {
        let mut told = HashMap::new();
        let (mut failed, mut reported) = (false, None);
        loop {
            match self.look(&mut told) {
                Ok(()) => failed = false,
                Err(error) if !failed => {
                    failed = true;
                    tracing::warn!(file = self.file, %error, "the locks of other processes cannot be read");
                }
                Err(_) => {}
            }
            reported = self.report(reported);
            if closed.recv_timeout(PAUSE) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    }

    fn look(&self, told: &mut HashMap<NodeId, Instant>) -> io::Result<()> {
        self.peers.store(self.locks.has_peers()?, Ordering::Relaxed);
        let gone = self.locks.gone()?;
        told.retain(|node, _| gone.contains(node));
        for node in gone {
            if told.get(&node).is_none_or(|at| at.elapsed() >= REMINDER) {
                told.insert(node, Instant::now());
                // Nobody may be listening.
                drop(self.hints.send(Hint::Gone(node)));
            }
        }
        Ok(())
    }

    /// Says once for each wait, and for each process in the way, that the turn does not come. Answers of which
    /// process it has been said.
    fn report(&self, reported: Option<u32>) -> Option<u32> {
        let waited = self.locks.turnstile.waiting().filter(|waited| *waited >= self.patience)?;
        let holder = self.locks.turnstile.holder().unwrap_or_default();
        if reported != Some(holder) {
            name_holder(&self.file, holder, waited);
        }
        Some(holder)
    }
}

/// Says who has the turn that this process waits for.
pub(crate) fn name_holder(file: &str, holder: u32, waited: Duration) {
    tracing::warn!(
        file,
        holder,
        waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX),
        "process {holder} holds {file} in the middle of a write; this process goes on when that one continues or \
         ends",
    );
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use parking_lot::Mutex;
    use tracing::{Event, Metadata, field, span};

    use super::*;

    /// Keeps the `holder` of every event.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u64>>>);

    impl field::Visit for Log {
        fn record_u64(&mut self, field: &field::Field, value: u64) {
            if field.name() == "holder" {
                self.0.lock().push(value);
            }
        }

        fn record_debug(&mut self, _: &field::Field, _: &dyn fmt::Debug) {}
    }

    impl tracing::Subscriber for Log {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }

        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

        fn event(&self, event: &Event<'_>) {
            event.record(&mut self.clone());
        }

        fn enter(&self, _: &span::Id) {}

        fn exit(&self, _: &span::Id) {}
    }

    #[test]
    fn whoever_keeps_the_turn_is_named_once() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("app.db");
        let (mine, other) = (Locks::open(&database).unwrap(), Arc::new(Locks::open(&database).unwrap()));
        let turn = mine.turnstile.pass().unwrap();
        let waiter = std::thread::spawn({
            let other = Arc::clone(&other);
            move || drop(other.turnstile.pass().unwrap())
        });
        while other.turnstile.waiting().is_none() {
            std::thread::yield_now();
        }
        let watcher = Watcher {
            file: "app.db".into(),
            locks: Arc::clone(&other),
            peers: Arc::default(),
            hints: broadcast::Sender::new(1),
            patience: Duration::ZERO,
        };
        let log = Log::default();
        let reported = tracing::subscriber::with_default(log.clone(), || {
            let reported = watcher.report(None);
            watcher.report(reported)
        });
        assert_eq!(reported, Some(std::process::id()));
        assert_eq!(*log.0.lock(), [u64::from(std::process::id())]);
        drop(turn);
        waiter.join().unwrap();
        assert_eq!(watcher.report(reported), None, "the wait is over");
    }
}
