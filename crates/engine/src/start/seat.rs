//! Room on this node for a run that is being started, and what becomes of it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde_json::{Map, Value};
use tokio::sync::oneshot;
use windlass_core::{ClaimId, NodeId, RunId, RunState, Seed, Time};
use windlass_store::{NewRun, Place, RunImage, StoreError, Written};

use crate::{
    Slot,
    boxed::boxed,
    committer::{Fate, Thread},
    hub::Hub,
    node::{Node, Registered},
    outputs::Outputs,
    run_loop::{Mail, RunCell, RunLoop, Subject},
    take_up::take_up,
};

/// Room on this node for a run that is being started.
pub(super) struct Seat {
    node: Arc<Node>,
    pub(super) holder: NodeId,
    pub(super) claim: ClaimId,
    pub(super) registered: Arc<Registered>,
    taken: bool,
}

/// What the node needs to know of the run besides.
pub(super) struct NewSubject {
    pub(super) run: RunId,
    pub(super) queue: Arc<str>,
    pub(super) key: Option<String>,
    pub(super) parent: Option<RunId>,
    pub(super) input: Slot,
    pub(super) context: Map<String, Value>,
    pub(super) timeout: Option<Duration>,
}

impl Seat {
    /// Takes room, if this node would run the run at once.
    pub(super) fn take(
        node: &Arc<Node>,
        registered: &Arc<Registered>,
        run: RunId,
        new: &NewRun,
    ) -> Option<Self> {
        let here = new.delay.is_none()
            && node.options.queues.contains_key(&new.queue)
            && !node.stopping.is_cancelled();
        let holder = node.id().filter(|_| here && node.reserve())?;
        let (node, registered) = (Arc::clone(node), Arc::clone(registered));
        Some(Self { node, holder, claim: ClaimId::first(run), registered, taken: false })
    }

    /// Holds the run that has just been committed.
    fn occupy(mut self, new: NewSubject, at: Time) -> Option<Arc<RunCell>> {
        if !self.node.is(self.holder) {
            // It was committed under the name that this process has taken since.
            self.read_back(new.run);
            return None;
        }
        self.taken = true;
        let node = Arc::clone(&self.node);
        let seed = Seed {
            plan: Arc::clone(&self.registered.plan),
            generation: 1,
            recoveries: 0,
            max_recoveries: node.options.max_recoveries,
            opened_at: at,
            timeout: new.timeout,
            fan_limit: u32::try_from(node.options.slots).unwrap_or(u32::MAX),
            spread: Arc::clone(self.registered.routes.spread()),
            published: Vec::new(),
            context: new.context,
            steps: Vec::new(),
        };
        let subject = Subject {
            run: new.run,
            claim: self.claim,
            holder: self.holder,
            generation: 1,
            epoch: 0,
            queue: new.queue,
            key: new.key,
            parent: new.parent,
            input: new.input,
            registered: Arc::clone(&self.registered),
            // Whatever a schedule starts is claimed.
            #[cfg(feature = "schedule")]
            fired: None,
        };
        let outputs = Outputs::new(seed.plan.definition.tasks.len());
        match windlass_core::Run::new(seed) {
            Ok(run) => {
                let workflow = &subject.registered.plan.definition.name;
                node.hub.scribe.count(workflow, RunState::Running, at, 1);
                RunCell::hold(node, subject, RunLoop::new(run, outputs, BTreeMap::new()))
            }
            // Only records can disagree with a plan.
            Err(divergence) => {
                tracing::error!(run = %subject.run, %divergence, "a new run does not fit its own plan");
                node.unreserve(1);
                None
            }
        }
    }

    /// Runs the run if the store says that it is this node's under the seat's claim: who owns a run is never
    /// assumed.
    fn read_back(mut self, run: RunId) {
        let node = Arc::clone(&self.node);
        let reading = async move {
            let image = match self.load(run).await {
                Ok(image) => image,
                Err(error) => {
                    tracing::error!(%run, %error, "who owns a new run cannot be read back; it is asked with a later heartbeat");
                    return self.node.forsake(self.holder, run, self.claim);
                }
            };
            let owner = image.as_ref().and_then(|image| match image.standing.place {
                Place::Owned { node, claim } if claim == self.claim => Some(node),
                _ => None,
            });
            let node = Arc::clone(&self.node);
            match (image, owner) {
                (Some(image), Some(owner)) if node.id() == Some(owner) => {
                    self.taken = true;
                    take_up(&node, owner, self.claim, image);
                }
                // Anyone may claim it, this node too.
                _ => node.claim.notify_one(),
            }
        };
        node.user.spawn(boxed(reading));
    }

    /// The run with its records, asked for again while the store is out of reach.
    async fn load(&self, run: RunId) -> Result<Option<RunImage>, StoreError> {
        let mut pause = Duration::from_millis(10);
        loop {
            match self.node.hub.store.load(run).await {
                Err(error) if error.is_temporary() && !self.node.hub.closed.is_cancelled() => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(Duration::from_secs(1));
                }
                answer => return answer,
            }
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if !self.taken {
            self.node.unreserve(1);
        }
    }
}

/// What follows from the answer to a start. One that `stirs` may have changed another run.
pub(super) fn started(
    claimer: Option<Arc<Node>>,
    seat: Option<Seat>,
    subject: NewSubject,
    stirs: Option<Arc<Hub>>,
    sender: oneshot::Sender<Fate>,
) -> Box<dyn FnOnce(Fate, Thread) + Send> {
    Box::new(move |fate, thread| {
        let run = subject.run;
        let held = match (seat, &fate) {
            (Some(seat), Ok(Written::Started { at, owned: true })) => seat.occupy(subject, *at),
            // It was sent twice, and the first answer got lost: what that said is read back.
            (Some(seat), Ok(Written::Existing { run: existing })) if *existing == run => {
                seat.read_back(run);
                None
            }
            // Not ours to run directly: whatever room was reserved is given back.
            (seat, Ok(Written::Started { .. })) => {
                let node = seat.as_ref().map(|seat| Arc::clone(&seat.node)).or(claimer);
                drop(seat);
                if let Some(node) = node {
                    node.claim.notify_one();
                }
                None
            }
            _ => None,
        };
        if let (Some(hub), Ok(_)) = (stirs, &fate) {
            hub.stirred.notify_one();
        }
        // First the word, then the work, if that is done here: the run's code may take long before it lets go of
        // the thread. Whoever stopped waiting does not want to know.
        let begin = || held.map(|cell| cell.hand(Mail::Begin(Vec::new()), thread));
        match thread {
            Thread::Users => {
                drop(sender.send(fate));
                begin();
            }
            Thread::Ours => {
                begin();
                drop(sender.send(fate));
            }
        }
    })
}
