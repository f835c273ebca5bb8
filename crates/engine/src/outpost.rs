//! Taking published attempts from the store.

use std::{collections::HashSet, sync::Arc, time::Duration};

use tokio::time::{Instant, sleep, sleep_until};
use windlass_core::{ClaimId, NodeId, Run, RunId};
use windlass_store::{RunImage, SpreadClaim, SpreadKey, SpreadRow, StoreError};

use crate::{
    Code, Cx, Error, Failure, Slot, arguments,
    attempt::{self, Host},
    executor,
    guest::Guest,
    node::{Node, Registered},
    outputs::Outputs,
    report::Ending,
    run_loop::Subject,
    take_up,
};

/// How many attempts one claim takes at most: others get their turn.
const PORTION: usize = 64;
/// How soon to look again for what somebody else was just moving: whoever that was may be dead.
const AGAIN: Duration = Duration::from_millis(200);

/// Takes published attempts for this node, never more than it has slots for, and stops those that were withdrawn.
///
/// Woken by a local publication, by a notification, by a heartbeat, by a guest that leaves while others wait, when the rate
/// of a queue lets the next one begin, and by the safety-net poll. Losing every notification costs latency, never an attempt.
pub(crate) struct Outpost {
    node: Arc<Node>,
    /// A claim whose answer was lost: it is asked again under the same id.
    unanswered: Option<ClaimId>,
}

impl Outpost {
    pub(crate) fn new(node: Arc<Node>) -> Self {
        Self { node, unanswered: None }
    }

    pub(crate) async fn run(mut self) {
        let node = Arc::clone(&self.node);
        loop {
            let woken = node.guests.changed.notified();
            let stopping = node.stopping.is_cancelled();
            let served = match self.look_after().await {
                Ok(()) if stopping => Ok(node.options.poll),
                Ok(()) => self.drain().await,
                Err(error) => Err(error),
            };
            let pause = served.unwrap_or_else(|error| {
                tracing::warn!(%error, "taking published attempts failed; trying again");
                AGAIN
            });
            tokio::select! {
                () = woken => {}
                () = sleep_until(Instant::now() + pause) => {}
                () = node.stopping.cancelled(), if !stopping => {}
                () = node.hub.closed.cancelled() => return,
            }
        }
    }

    /// Stops what this node executes and does not hold any more.
    async fn look_after(&self) -> Result<(), Error> {
        let node = &self.node;
        let guests = node.guests.all();
        let Some(id) = node.id().filter(|_| !guests.is_empty()) else { return Ok(()) };
        let held = node.hub.store.held_tasks(id).await?;
        let held: HashSet<(RunId, SpreadKey, ClaimId)> =
            held.into_iter().filter_map(|row| Some((row.run, row.key, row.holder?.1))).collect();
        for guest in guests {
            let claim = guest.subject.claim;
            if guest.subject.holder == id && !held.contains(&(guest.row.run, guest.row.key.clone(), claim)) {
                guest.stop();
            }
        }
        Ok(())
    }

    /// Claims until there is no room or nothing left. Answers when to look again at the latest.
    async fn drain(&mut self) -> Result<Duration, Error> {
        loop {
            let node = Arc::clone(&self.node);
            let Some(id) = node.id().filter(|_| !node.stopping.is_cancelled()) else {
                return Ok(node.options.poll);
            };
            let request = self.request(id);
            // What leaves from here on calls, whether or not this claim sees its room.
            node.guests.set_crowded(true);
            if request.room == 0 {
                return Ok(node.options.poll);
            }
            self.unanswered = Some(request.claim);
            let claim = request.claim;
            let claimed = match node.hub.store.claim_tasks(request).await {
                Err(StoreError::Fenced) => {
                    node.hub.identity.lose(Some(id));
                    self.unanswered = None;
                    return Ok(node.options.poll);
                }
                claimed => claimed?,
            };
            self.unanswered = None;
            node.hub.clock.follow(claimed.now);
            if claimed.tasks.is_empty() {
                // Limits keep back what waits: whoever leaves may let it begin.
                node.guests.set_crowded(claimed.more || claimed.limited);
                let next = claimed.next.map(|next| node.hub.clock.instant(next));
                let next = next.map_or(node.options.poll, |next| next - Instant::now());
                return Ok(if claimed.more { AGAIN } else { next.min(node.options.poll) });
            }
            self.take_in(id, claim, claimed.tasks).await;
        }
    }

    fn request(&self, node_id: NodeId) -> SpreadClaim {
        let node = &self.node;
        let served = node.options.queues.keys();
        let queues: Vec<_> = served
            .map(|queue| (Arc::clone(queue), node.slots.of(queue).available_permits()))
            .filter(|(_, room)| *room > 0)
            .collect();
        let registry = node.registry.iter();
        let suspect_after = node.options.max_recoveries.max(1);
        SpreadClaim {
            node: node_id,
            claim: self.unanswered.unwrap_or_else(ClaimId::new),
            room: if queues.is_empty() { 0 } else { PORTION },
            queues,
            workflows: registry.map(|(name, known)| (Arc::clone(name), known.definition)).collect(),
            suspect_after,
            // If it kills this process too, nobody else is to be blamed.
            suspects: 1_usize.saturating_sub(node.guests.suspects(suspect_after)),
        }
    }

    /// Begins attempts that were claimed together; those of one run share its records.
    async fn take_in(&self, id: NodeId, claim: ClaimId, mut tasks: Vec<SpreadRow>) {
        while let Some(first) = tasks.first() {
            let run = first.run;
            let mine: Vec<SpreadRow>;
            (mine, tasks) = tasks.into_iter().partition(|row| row.run == run);
            let Some(image) = self.load(id, run).await else { continue };
            let Some(mut visit) = Visit::new(&self.node, id, claim, &image) else { continue };
            for row in mine {
                // It may have been withdrawn since it was claimed.
                if image.published.iter().any(|known| known.key == row.key && known.holder == row.holder) {
                    visit.begin(row);
                }
            }
        }
    }

    /// A run with its records, however long the store is out of reach; `None` when there is nothing to do any more.
    async fn load(&self, id: NodeId, run: RunId) -> Option<RunImage> {
        let node = &self.node;
        while node.is(id) && !node.stopping.is_cancelled() {
            match node.hub.store.load(run).await {
                Ok(image) => return image,
                Err(error) => tracing::warn!(%run, %error, "the run of a published attempt cannot be read"),
            }
            sleep(AGAIN).await;
        }
        None
    }
}

/// A run whose attempts are executed here.
struct Visit<'a> {
    node: &'a Arc<Node>,
    id: NodeId,
    claim: ClaimId,
    image: &'a RunImage,
    registered: Arc<Registered>,
    records: Result<(Run, Outputs), Failure>,
    input: Result<Slot, Failure>,
}

impl<'a> Visit<'a> {
    fn new(node: &'a Arc<Node>, id: NodeId, claim: ClaimId, image: &'a RunImage) -> Option<Self> {
        // The claim named the workflows of this node.
        let registered = Arc::clone(node.registry.get(&image.run.workflow)?);
        let records =
            take_up::seed(node, image, &registered).map_err(Failure::from).and_then(|(seed, outputs)| {
                let run = Run::new(seed).map_err(|divergence| Failure::new(divergence.to_string()))?;
                Ok((run, outputs))
            });
        let input = node.hub.read("the run's input", image.run.input.clone());
        let input = input.map(Slot::from_bytes).map_err(Failure::from);
        Some(Self { node, id, claim, image, registered, records, input })
    }

    fn begin(&mut self, row: SpreadRow) {
        let node = self.node;
        if !node.is(self.id) || node.stopping.is_cancelled() {
            return;
        }
        let (deaths, guest) = (row.deaths, Guest::new(node, self.subject(&row), row));
        node.welcome(&guest);
        let now = node.hub.clock.now();
        if deaths > node.options.max_recoveries {
            return guest.report(now, Ending::Killed(deaths));
        }
        if let Err(failure) = self.execute(&guest) {
            guest.report(now, Ending::Failed(Failure::permanent(failure)));
        }
    }

    fn subject(&self, row: &SpreadRow) -> Subject {
        let run = &self.image.run;
        Subject {
            run: run.id,
            claim: self.claim,
            holder: self.id,
            generation: row.generation,
            epoch: self.image.standing.recoveries,
            queue: Arc::clone(&row.queue),
            key: run.key.clone(),
            parent: None,
            // If it cannot be read, nothing begins.
            input: self.input.clone().unwrap_or_else(|_| Slot::from_bytes("null".into())),
            registered: Arc::clone(&self.registered),
            #[cfg(feature = "schedule")]
            fired: crate::schedule::fired(&self.node.hub, run),
        }
    }

    /// Begins the attempt with what its run's records say.
    fn execute(&mut self, guest: &Arc<Guest>) -> Result<(), Failure> {
        let hub = &self.node.hub;
        let (run, outputs) = self.records.as_mut().map_err(|failure| failure.clone())?;
        self.input.as_ref().map_err(Failure::clone)?;
        let SpreadKey { step, attempt } = guest.key();
        let lane = self.registered.plan.lane(step);
        let lane = lane.ok_or_else(|| Failure::new(format!("the code has no task `{step}`")))?;
        let cx = Cx::of(Host::Away(Arc::clone(guest)), run.attempt(lane, *attempt), Instant::now());
        cx.inner().set_times_undone(run.times_undone(lane));
        if let Some(row) = self.image.saved.iter().find(|row| row.step == *step) {
            let value = hub.read("a saved value", row.value.clone()).map_err(Failure::from)?;
            *cx.inner().saved.lock() = Some(Slot::from_bytes(value));
        }
        if let Some(link) = cx.inner().link() {
            // There was a slot when it was claimed; who waits for one all the same is counted as waiting.
            link.seat.try_take(&guest.slots);
        }
        let call = arguments::call(&guest.subject, run, outputs, lane, cx.clone());
        let code = match self.node.executors.get(&guest.row.queue) {
            Some(executor) => Code::Async(executor::body(executor, &guest.subject, lane.task)),
            None => guest.subject.code(lane.task).run.clone(),
        };
        attempt::begin_away(guest, lane, &cx, &code, call);
        Ok(())
    }
}
