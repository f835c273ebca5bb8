//! Taking runs from the store.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::time::{Instant, sleep_until};
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

/// How soon to look again for what somebody else was just moving: whoever that was may be dead.
const AGAIN: Duration = Duration::from_millis(200);

/// Why a claimer stops claiming for now.
enum Drained {
    /// There is nothing more to take.
    Empty,
    /// What is left was passed over.
    Passed,
    /// There is no room.
    Full,
}

impl Claimer {
    pub(crate) fn new(node: Arc<Node>) -> Self {
        Self { node, unanswered: None }
    }

    pub(crate) async fn run(mut self) {
        let node = Arc::clone(&self.node);
        let mut poll = Instant::now() + node.options.poll;
        loop {
            let woken = node.claim.notified();
            let now = Instant::now();
            // Programs of two versions may run side by side, and the newer one block what the older one can continue.
            let free_own = now >= poll;
            if free_own {
                poll = now + node.options.poll;
            }
            let next = match self.drain(free_own).await {
                Ok(Drained::Empty) => poll.min(node.hub.clock.instant(node.next_due())),
                Ok(Drained::Passed) => poll.min(Instant::now() + AGAIN),
                // Whatever is due has to wait for room, and whoever gives it back calls.
                Ok(Drained::Full) => poll,
                Err(error) => {
                    tracing::warn!(%error, "claiming failed; trying again");
                    now + AGAIN
                }
            };
            tokio::select! {
                () = woken => {}
                () = sleep_until(next) => {}
                () = node.stopping.cancelled() => return,
                () = node.hub.closed.cancelled() => return,
            }
        }
    }

    /// Claims until there is no room or nothing left.
    async fn drain(&mut self, free_own: bool) -> Result<Drained, Error> {
        loop {
            let node = Arc::clone(&self.node);
            // Without a name there is no room either, until the next one calls.
            let Some(id) = node.id().filter(|_| !node.stopping.is_cancelled()) else {
                return Ok(Drained::Full);
            };
            let room = node.room_for_claim().min(PORTION);
            if room == 0 {
                return Ok(Drained::Full);
            }
            match self.claim(id, room, free_own).await {
                Ok(None) => {}
                Ok(Some(drained)) => return Ok(drained),
                Err(StoreError::Fenced) => {
                    node.hub.identity.lose(Some(id));
                    self.unanswered = None;
                    return Ok(Drained::Full);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// One claim. Answers `None` when there is more to take.
    async fn claim(
        &mut self,
        id: NodeId,
        room: usize,
        free_own: bool,
    ) -> Result<Option<Drained>, StoreError> {
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
            free_own,
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
        Ok(match (more, taken) {
            (true, 1..) => None,
            (true, 0) => Some(Drained::Passed),
            (false, _) if next_due.is_some_and(|due| due <= now) => Some(Drained::Passed),
            (false, _) => Some(Drained::Empty),
        })
    }

    /// The workflows of this node with their versions, for waking blocked runs.
    pub(crate) async fn unblock(node: &Node) -> Result<usize, Error> {
        let Some(id) = node.id() else { return Ok(0) };
        let known: HashMap<_, _> =
            node.registry.iter().map(|(name, known)| (Arc::clone(name), known.definition)).collect();
        Ok(node.hub.store.unblock(id, known.into_iter().collect()).await?)
    }
}
