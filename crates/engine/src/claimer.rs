//! Taking runs from the store.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::time::{Instant, sleep_until};
use windlass_core::{ClaimId, NodeId};
use windlass_store::{Claim, Claimed, DefinitionId, Looked, StoreError};

use crate::{
    Error,
    crew::Crew,
    metric,
    node::{Node, Registered},
    reserved::is_reserved,
    take_up::take_up,
};

/// Up to how many bytes of records one claim loads.
const BYTES: usize = 16 << 20;
/// How many runs one claim takes at most: a backlog is shared, and other writers get their turn.
const PORTION: usize = 1000;

/// Claims ready runs for this node, never more than it has room for. Those of the engine itself need none.
///
/// Woken by a local start or park, by a notification, by a due timer, or by the safety-net poll, whichever
/// comes first. Losing every notification costs latency, never a run. After a claim that found nothing it only looks,
/// which is cheap, until a look finds something or there is something for sure.
pub(crate) struct Claimer {
    node: Arc<Node>,
    /// A claim whose answer was lost: it is asked again under the same id.
    unanswered: Option<ClaimId>,
    /// Whether the last claim left nothing that this node could have, and nothing was added here.
    is_quiet: bool,
    /// When to ask for everything again that nobody tells of.
    poll: Instant,
    /// Before then a node without room does not ask for the engine's own runs again.
    own_again: Instant,
    /// Whether something was due here that has not been taken since: whoever took it says when it is due again, but may
    /// die before it can.
    is_owed: bool,
}

/// A number that no version has.
const NO_VERSION: DefinitionId = DefinitionId(-1);

/// How soon to look again for what somebody else was just moving: whoever that was may be dead.
const AGAIN: Duration = Duration::from_millis(200);

/// How often a node without room asks for the engine's own runs at most.
const OWN: Duration = Duration::from_millis(100);

/// How long to wait for more room when a little has come free.
const GATHER: Duration = Duration::from_millis(25);

/// The queue of the engine's own runs, which every engine serves.
fn own_queue() -> Option<&'static Arc<str>> {
    #[cfg(feature = "schedule")]
    {
        static QUEUE: std::sync::LazyLock<Arc<str>> =
            std::sync::LazyLock::new(|| crate::schedule::QUEUE.into());
        Some(&QUEUE)
    }
    #[cfg(not(feature = "schedule"))]
    None
}

/// Why a claimer stops claiming for now.
enum Drained {
    /// There is nothing more to take.
    Empty,
    /// What is left was passed over.
    Passed,
    /// There is no room.
    Full,
    /// There is no room, and of the engine's own runs, which need none, there is nothing more to take before this.
    FullUntil(Instant),
}

impl Claimer {
    pub(crate) fn new(node: Arc<Node>) -> Self {
        let poll = Instant::now() + node.options.poll;
        Self { node, unanswered: None, is_quiet: false, poll, own_again: Instant::now(), is_owed: false }
    }

    pub(crate) async fn run(mut self) {
        let node = Arc::clone(&self.node);
        loop {
            let (woken, hinted) = (node.claim.notified(), node.look.notified());
            let drained = self.drain().await;
            let mut waits_for_room = matches!(drained, Ok(Drained::Full | Drained::FullUntil(_)));
            let mut next = match drained {
                Ok(Drained::Empty) if std::mem::take(&mut self.is_owed) => {
                    let next_due = node.hub.clock.instant(node.next_due());
                    self.poll.min(next_due).min(Instant::now() + AGAIN)
                }
                Ok(Drained::Empty) => self.poll.min(node.hub.clock.instant(node.next_due())),
                Ok(Drained::Passed) => self.poll.min(Instant::now() + AGAIN),
                // Whatever is due has to wait for room, and whoever gives it back calls.
                Ok(Drained::Full) => self.poll,
                Ok(Drained::FullUntil(then)) => self.poll.min(then),
                Err(error) => {
                    tracing::warn!(%error, "claiming failed; trying again");
                    Instant::now() + AGAIN
                }
            };
            tokio::pin!(woken, hinted);
            loop {
                tokio::select! {
                    () = &mut woken => self.is_quiet = false,
                    () = &mut hinted => {}
                    () = sleep_until(next) => {
                        self.is_owed = node.hub.clock.instant(node.next_due()) <= Instant::now();
                    }
                    () = node.spare.notified(), if waits_for_room => {
                        waits_for_room = false;
                        next = next.min(Instant::now() + GATHER);
                        continue;
                    }
                    () = node.stopping.cancelled() => return,
                    () = node.hub.closed.cancelled() => return,
                }
                break;
            }
        }
    }

    /// Claims until there is no room or nothing left.
    async fn drain(&mut self) -> Result<Drained, Error> {
        // Programs of two versions may run side by side, and the newer one block what the older one can continue.
        let mut free_own = Instant::now() >= self.poll;
        if free_own {
            self.poll = Instant::now() + self.node.options.poll;
        }
        loop {
            let node = Arc::clone(&self.node);
            // Without a name there is no room either, until the next one calls.
            let Some(id) = node.id().filter(|_| !node.stopping.is_cancelled()) else {
                return Ok(Drained::Full);
            };
            let room = node.room_for_claim().min(PORTION);
            // A claim whose answer was lost is asked about all the same: what it took is held.
            if room == 0 && self.unanswered.is_none() {
                if own_queue().is_none() {
                    return Ok(Drained::Full);
                }
                let now = Instant::now();
                if now < self.own_again {
                    return Ok(Drained::FullUntil(self.own_again));
                }
                self.own_again = now + OWN;
            }
            if self.is_quiet && self.unanswered.is_none() {
                let looked = self.look(id, room).await?;
                if !looked.finds() {
                    return Ok(self.drained(room, Drained::Empty));
                }
                free_own = looked.own_blocked;
            }
            let claimed = self.claim(id, room, free_own).await;
            self.is_quiet = matches!(claimed, Ok(Some(Drained::Empty)));
            match claimed {
                Ok(None) => {}
                Ok(Some(drained)) => return Ok(self.drained(room, drained)),
                Err(StoreError::Fenced) => {
                    node.hub.identity.lose(Some(id));
                    self.unanswered = None;
                    return Ok(Drained::Full);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Without room, all that is waited for is room, and the next of the engine's own runs.
    fn drained(&self, room: usize, drained: Drained) -> Drained {
        if room > 0 {
            return drained;
        }
        let node = &self.node;
        Drained::FullUntil(node.hub.clock.instant(node.next_due()).max(self.own_again))
    }

    /// Looks whether there is anything to claim, blocked runs included.
    async fn look(&mut self, id: NodeId, room: usize) -> Result<Looked, StoreError> {
        let node = &self.node;
        node.forget_due();
        let looked = node.hub.store.look(self.request(id, ClaimId::new(), room, true)).await?;
        self.learn_limited(room, looked.limited);
        node.hub.clock.follow(looked.now);
        node.learn_due(looked.next_due);
        self.poll = Instant::now() + node.options.poll;
        Ok(looked)
    }

    /// Without room not all queues are asked for.
    fn learn_limited(&self, room: usize, limited: bool) {
        if room > 0 {
            self.node.limited.store(limited, Ordering::Release);
        }
    }

    fn request(&self, id: NodeId, claim: ClaimId, room: usize, free_own: bool) -> Claim {
        let Node { options, registry, .. } = &*self.node;
        // The engine's own runs need no room: they fill none, and may be what makes some.
        let is_full = room == 0;
        let room = if is_full && own_queue().is_some() { PORTION } else { room };
        let served = options.queues.keys().filter(|_| !is_full);
        let workflows = registry.iter().map(|(name, known)| (Arc::clone(name), known.definition));
        let workflows = workflows.filter(|(name, _)| !is_full || is_reserved(name));
        let kept = registry
            .iter()
            .flat_map(|(name, known)| known.kept.iter().map(|kept| (Arc::clone(name), kept.definition)));
        Claim {
            node: id,
            claim,
            room,
            queues: served.chain(own_queue()).map(|queue| (Arc::clone(queue), room)).collect(),
            workflows: workflows.collect(),
            kept: kept.collect(),
            bytes: BYTES,
            free_own,
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
        let request = self.request(id, claim, room, free_own);
        let Claimed { now, runs, next_due, more, limited } = node.hub.store.claim(request).await?;
        self.unanswered = None;
        self.learn_limited(room, limited);
        node.hub.clock.follow(now);
        node.learn_due(next_due);
        metric::runs_claimed(runs.len());
        node.hub.feeds.touch(runs.iter().map(|image| image.run.id));
        let taken = runs.len();
        self.is_owed &= taken == 0;
        #[cfg(feature = "schedule")]
        let runs = self.keep_schedules(id, claim, runs);
        node.occupy(runs.len());
        let taker = Arc::clone(node);
        Crew::share(&node.user, runs.into_iter(), move |image| take_up(&taker, id, claim, image));
        Ok(match (more, taken) {
            (true, 1..) => None,
            (true, 0) => Some(Drained::Passed),
            (false, _) if next_due.is_some_and(|due| due <= now) => Some(Drained::Passed),
            (false, _) => Some(Drained::Empty),
        })
    }

    /// Schedules take their turns at once, on a thread that no code of the user's can hold up. Gives back the others.
    #[cfg(feature = "schedule")]
    fn keep_schedules(
        &self,
        id: NodeId,
        claim: ClaimId,
        runs: Vec<windlass_store::RunImage>,
    ) -> Vec<windlass_store::RunImage> {
        let (schedules, others): (Vec<_>, Vec<_>) = runs.into_iter().partition(crate::schedule::keeps);
        for schedule in schedules {
            crate::schedule::take_up(&self.node, id, claim, schedule);
        }
        others
    }

    /// The workflows of this node with their versions, for waking blocked runs.
    pub(crate) async fn unblock(node: &Node) -> Result<usize, Error> {
        let Some(id) = node.id() else { return Ok(0) };
        // A version cannot see the helpers of a durable function, so one that was blocked under this very version may
        // well fit the code of this process. Of graphs it says all.
        let version = |known: &Registered| match known.plan.flow() {
            Some(_) => NO_VERSION,
            None => known.definition,
        };
        let known: HashMap<_, _> =
            node.registry.iter().map(|(name, known)| (Arc::clone(name), version(known))).collect();
        Ok(node.hub.store.unblock(id, known.into_iter().collect()).await?)
    }
}
