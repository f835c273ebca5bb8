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
const PATIENCE: Duration = Duration::from_secs(3);
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
        let waited = self.locks.turnstile.waiting().filter(|waited| *waited >= PATIENCE)?;
        let holder = self.locks.turnstile.holder().unwrap_or_default();
        if reported != Some(holder) {
            tracing::warn!(
                file = self.file,
                holder,
                waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX),
                "process {holder} holds {} in the middle of a write; this process goes on when that one continues \
                 or ends",
                self.file,
            );
        }
        Some(holder)
    }
}
