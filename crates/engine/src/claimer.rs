//! Taking runs from the store.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::time::{Instant, sleep, sleep_until};
use windlass_core::{ClaimId, NodeId};
use windlass_store::{Claim, Claimed, RunImage, StoreError};

use crate::{Error, metric, node::Node, take_up::take_up};

/// Up to how many bytes of records one claim loads.
const BYTES: usize = 16 << 20;
/// How many runs one claim takes at most: a backlog is shared, and other writers get their turn.
const PORTION: usize = 1000;
/// How many claimed runs one thread takes up one after the other.
const TOGETHER: usize = 64;

/// Claims ready runs for this node, never more than it has room for.
///
/// Woken by a local start or park, by a notification, by a due timer, or by the safety-net poll, whichever
/// comes first. Losing every notification costs latency, never a run.
pub(crate) struct Claimer {
    node: Arc<Node>,
    /// A claim whose answer was lost: it is asked again under the same id.
    unanswered: Option<ClaimId>,
}

impl Claimer {
    pub(crate) fn new(node: Arc<Node>) -> Self {
        Self { node, unanswered: None }
    }

    pub(crate) async fn run(mut self) {
        let node = Arc::clone(&self.node);
        loop {
            let woken = node.claim.notified();
            let poll = Instant::now() + node.options.poll;
            match self.drain().await {
                Ok(()) => {}
                Err(error) => {
                    tracing::warn!(%error, "claiming failed; trying again");
                    sleep(Duration::from_millis(200)).await;
                    node.claim.notify_one();
                }
            }
            let due = node.next_due();
            tokio::select! {
                () = woken => {}
                () = sleep_until(poll.min(node.hub.clock.instant(due))) => {}
                () = node.stopping.cancelled() => return,
                () = node.hub.closed.cancelled() => return,
            }
        }
    }

    /// Claims until there is no room or nothing left.
    async fn drain(&mut self) -> Result<(), Error> {
        loop {
            let node = Arc::clone(&self.node);
            let Some(id) = node.id() else { return Ok(()) };
            if node.stopping.is_cancelled() {
                return Ok(());
            }
            let room = node.room_for_claim().min(PORTION);
            if room == 0 {
                return Ok(());
            }
            match self.claim(id, room).await {
                Ok(more) if more => {}
                Ok(_) => return Ok(()),
                Err(StoreError::Fenced) => {
                    node.hub.identity.lose(Some(id));
                    self.unanswered = None;
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// One claim. Answers whether there is more.
    async fn claim(&mut self, id: NodeId, room: usize) -> Result<bool, StoreError> {
        let node = &self.node;
        let claim = self.unanswered.unwrap_or_else(ClaimId::new);
        self.unanswered = Some(claim);
        node.forget_due();
        let request = Claim {
            node: id,
            claim,
            room,
            queues: node.options.queues.keys().map(|queue| (Arc::clone(queue), room)).collect(),
            workflows: node
                .registry
                .iter()
                .map(|(name, known)| (Arc::clone(name), known.definition))
                .collect(),
            bytes: BYTES,
        };
        let Claimed { now, runs, next_due, more } = node.hub.store.claim(request).await?;
        self.unanswered = None;
        node.hub.clock.follow(now);
        node.learn_due(next_due);
        node.occupy(runs.len());
        metric::runs_claimed(runs.len());
        let taken = runs.len();
        let mut runs = runs.into_iter();
        loop {
            let together: Vec<RunImage> = runs.by_ref().take(TOGETHER).collect();
            if together.is_empty() {
                break;
            }
            let node = Arc::clone(node);
            node.user.clone().spawn(async move {
                for image in together {
                    take_up(Arc::clone(&node), id, claim, image).await;
                }
            });
        }
        Ok(more && taken > 0)
    }

    /// The workflows of this node with their versions, for waking blocked runs.
    pub(crate) async fn unblock(node: &Node) -> Result<usize, Error> {
        let Some(id) = node.id() else { return Ok(0) };
        let known: HashMap<_, _> =
            node.registry.iter().map(|(name, known)| (Arc::clone(name), known.definition)).collect();
        Ok(node.hub.store.unblock(id, known.into_iter().collect()).await?)
    }
}
