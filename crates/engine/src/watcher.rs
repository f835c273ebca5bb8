//! Hearing of what others do to the store.

use std::{future::pending, sync::Arc};

use tokio::{
    sync::broadcast::error::{RecvError, TryRecvError},
    time::{Instant, sleep_until},
};
use windlass_store::Hint;

use crate::{hub::Hub, node::Node};

/// Turns hints from the store into wake-ups: for those who wait for a run, for the runs that this node
/// holds, and for the claimer.
///
/// Woken by the store's hints, by what this process has put into the inboxes of its own runs, by starts that have changed
/// other runs, and by the safety-net poll. The claimer and the outpost have polls of their own.
pub(crate) struct Watcher {
    hub: Arc<Hub>,
    node: Option<Arc<Node>>,
}

impl Watcher {
    pub(crate) fn new(hub: Arc<Hub>, node: Option<Arc<Node>>) -> Self {
        Self { hub, node }
    }

    pub(crate) async fn run(self) {
        let hub = Arc::clone(&self.hub);
        let mut hints = hub.store.hints();
        let mut next_poll = Instant::now() + hub.poll;
        loop {
            let mut is_poll = false;
            tokio::select! {
                hint = hints.recv() => match hint {
                    Ok(Hint::Changed) | Err(RecvError::Lagged(_)) => {}
                    // Dead nodes are the heart's business.
                    Ok(Hint::Gone(_)) => continue,
                    Err(RecvError::Closed) => return,
                },
                () = hub.stirred.notified() => {}
                () = self.mail() => {
                    self.deliver().await;
                    continue;
                }
                () = sleep_until(next_poll) => is_poll = true,
                () = hub.closed.cancelled() => return,
            }
            // One look serves all hints that have come meanwhile.
            while let Ok(Hint::Changed) | Err(TryRecvError::Lagged(_)) = hints.try_recv() {
                is_poll = false;
            }
            if !is_poll {
                self.call();
            }
            self.look().await;
            if is_poll {
                hub.look_for_lost();
            }
            next_poll = Instant::now() + hub.poll;
        }
    }

    /// Has others look who take things from the store.
    fn call(&self) {
        let Some(node) = &self.node else { return };
        node.look.notify_one();
        node.guests.changed.notify_one();
    }

    async fn look(&self) {
        self.hub.changed.notify_waiters();
        if let Err(error) = self.hub.look_for_ends().await {
            tracing::debug!(%error, "looking for ended runs failed; the next look makes up for it");
        }
        self.deliver().await;
    }

    /// Until this process has put something into the inbox of one of its own runs.
    async fn mail(&self) {
        match &self.node {
            Some(node) => node.mail.notified().await,
            None => pending().await,
        }
    }

    async fn deliver(&self) {
        if let Some(node) = &self.node {
            node.look_into_inboxes().await;
        }
    }
}
