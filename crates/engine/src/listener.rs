//! Hearing that something has changed.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{Notify, futures::Notified};

use crate::Client;

/// Wakes those who wait for changes, and counts what it has heard of.
#[derive(Debug, Default)]
pub(crate) struct News {
    woken: Notify,
    abroad: Notify,
    count: AtomicU64,
}

impl News {
    /// This process has changed something.
    pub(crate) fn tell(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.woken.notify_waiters();
    }

    /// Others have changed something.
    pub(crate) fn hear(&self) {
        self.tell();
        self.abroad.notify_waiters();
    }

    /// Has everybody look for themselves, in case nobody has said so.
    pub(crate) fn call(&self) {
        self.woken.notify_waiters();
        self.abroad.notify_waiters();
    }

    /// Until others may have changed something.
    pub(crate) fn abroad(&self) -> Notified<'_> {
        self.abroad.notified()
    }

    pub(crate) fn notified(&self) -> Notified<'_> {
        self.woken.notified()
    }

    fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

/// Hears that something has changed in the database, without asking it.
///
/// It says neither what nor how often: whoever shows something looks again.
#[derive(Debug)]
pub struct Listener {
    client: Client,
    seen: u64,
}

impl Client {
    /// Hears of changes from now on, whoever makes them: this process, and those that it is told of.
    #[must_use]
    pub fn listen(&self) -> Listener {
        let hub = self.hub();
        hub.committer.watchers.fetch_add(1, Ordering::Relaxed);
        Listener { client: self.clone(), seen: hub.changed.count() }
    }
}

impl Listener {
    /// Until something has changed since the last answer. `None` when the client is closed.
    pub async fn next(&mut self) -> Option<()> {
        let hub = self.client.hub();
        loop {
            let woken = hub.changed.notified();
            tokio::pin!(woken);
            woken.as_mut().enable();
            let count = hub.changed.count();
            if count != self.seen {
                self.seen = count;
                return Some(());
            }
            tokio::select! {
                () = woken => {}
                () = hub.closed.cancelled() => return None,
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.client.hub().committer.watchers.fetch_sub(1, Ordering::Relaxed);
    }
}
