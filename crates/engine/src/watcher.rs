//! Hearing of what others do to the store.

use std::sync::Arc;

use tokio::{sync::broadcast::error::RecvError, time::sleep};
use windlass_store::Hint;

use crate::{hub::Hub, node::Node};

/// Turns hints from the store into wake-ups: for those who wait for a run, for the runs that this node
/// holds, and for the claimer.
///
/// Woken by the store's hints, and by the safety-net poll.
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
            tokio::select! {
                hint = hints.recv() => match hint {
                    Ok(Hint::Changed) | Err(RecvError::Lagged(_)) => {}
                    // Dead nodes are the heart's business.
                    Ok(Hint::Gone(_)) => continue,
                    Err(RecvError::Closed) => return,
                },
                () = sleep(hub.poll) => {}
                () = hub.closed.cancelled() => return,
            }
            // One look serves all hints that have come meanwhile.
            while let Ok(Hint::Changed) | Err(tokio::sync::broadcast::error::TryRecvError::Lagged(_)) =
                hints.try_recv()
            {}
            self.look().await;
        }
    }

    async fn look(&self) {
        self.hub.changed.notify_waiters();
        if let Err(error) = self.hub.look_for_ends().await {
            tracing::debug!(%error, "looking for ended runs failed; the next look makes up for it");
        }
        let Some(node) = &self.node else { return };
        node.claim.notify_one();
        node.guests.changed.notify_one();
        node.look_into_inboxes().await;
    }
}
