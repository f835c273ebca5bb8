//! Hearing of what others do to the store.

use std::sync::Arc;

use tokio::{
    sync::broadcast::error::{RecvError, TryRecvError},
    time::sleep,
};
use windlass_store::Hint;

use crate::{hub::Hub, node::Node};

/// Turns hints from the store into wake-ups: for those who wait for a run, for the runs that this node
/// holds, and for the claimer.
///
/// Woken by the store's hints, and by the safety-net poll. The claimer and the outpost have polls of their own.
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
        loop {
            let mut is_poll = false;
            tokio::select! {
                hint = hints.recv() => match hint {
                    Ok(Hint::Changed) | Err(RecvError::Lagged(_)) => {}
                    // Dead nodes are the heart's business.
                    Ok(Hint::Gone(_)) => continue,
                    Err(RecvError::Closed) => return,
                },
                () = sleep(hub.poll) => is_poll = true,
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
        if let Some(node) = &self.node {
            node.look_into_inboxes().await;
        }
    }
}
