//! Group commit.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot},
    time::sleep,
};
use tokio_util::sync::CancellationToken;
use windlass_core::{NodeId, RunId};
use windlass_store::{Act, Refusal, Store, StoreError, Unit, Written};

use crate::{Error, identity::Identity, metric};

/// How many units one transaction takes at most. A busy engine commits thousands together, but a bound
/// keeps the memory of one transaction, and the wait of whoever comes next, small.
const LARGEST_BATCH: usize = 4096;
/// How many units of callers (starts, orders) may wait to be committed before callers have to wait.
const CALLERS: usize = 20_000;
/// Answers are handed on in portions, so that several threads can share the work.
const PORTION: usize = 128;

/// What became of a unit.
pub(crate) type Fate = Result<Written, Lost>;

/// Why a unit was not written.
#[derive(Clone, Debug)]
pub(crate) enum Lost {
    /// The store refused this unit.
    Refused(Refusal),
    /// The node that wrote it is not alive any more.
    Fenced,
    /// The store failed for good, or was closed.
    Failed(StoreError),
}

/// Is told what became of a unit.
pub(crate) type Reply = Box<dyn FnOnce(Fate) + Send>;

struct Entry {
    unit: Unit,
    reply: Reply,
    /// The node that the unit speaks for: set for units that carry a claim.
    speaks_for: Option<NodeId>,
    /// The node that would hold the run that a start makes.
    holder: Option<NodeId>,
    _turn: Option<OwnedSemaphorePermit>,
}

/// Gathers what is to be written and writes it in one transaction: while one commit is in flight, the next
/// batch gathers. There is no timer: an idle engine commits a single unit at once.
///
/// Woken by whatever is submitted.
pub(crate) struct Committer {
    queue: Mutex<Vec<Entry>>,
    submitted: Notify,
    callers: Arc<Semaphore>,
    identity: Arc<Identity>,
    /// Where answers are handed on.
    user: Handle,
    /// How many watch runs in this process, and want to hear of every commit.
    pub(crate) watchers: AtomicUsize,
}

impl Committer {
    pub(crate) fn new(identity: Arc<Identity>, user: Handle) -> Self {
        Self {
            queue: Mutex::default(),
            submitted: Notify::new(),
            callers: Arc::new(Semaphore::new(CALLERS)),
            identity,
            user,
            watchers: AtomicUsize::new(0),
        }
    }

    /// Hands in a unit that speaks for a node's claim.
    pub(crate) fn submit(&self, node: NodeId, unit: Unit, reply: Reply) {
        if self.identity.node() != Some(node) {
            // It could only wait for the next name to hear that it is too late, while the next name waits for
            // all that spoke for the last one to be gone.
            return reply(Err(Lost::Fenced));
        }
        self.push(Entry { unit, reply, speaks_for: Some(node), holder: None, _turn: None });
    }

    /// Hands in a unit for a caller, who waits when too many wait already. It is written even if the caller
    /// goes away. `holder` is the node that would hold the run, for a start that asks for that.
    pub(crate) async fn submit_for_caller(&self, unit: Unit, holder: Option<NodeId>, reply: Reply) {
        let turn = Arc::clone(&self.callers).acquire_owned().await.ok();
        self.push(Entry { unit, reply, speaks_for: None, holder, _turn: turn });
    }

    /// Writes one unit for a caller and waits for its fate.
    pub(crate) async fn write(&self, run: RunId, act: Act) -> Result<Result<Written, Refusal>, Error> {
        let (sender, fate) = oneshot::channel();
        // A caller who went away does not want to know.
        let reply: Reply = Box::new(move |fate| drop(sender.send(fate)));
        self.submit_for_caller(Unit { run, act }, None, reply).await;
        match fate.await {
            Ok(Ok(written)) => Ok(Ok(written)),
            Ok(Err(Lost::Refused(refusal))) => Ok(Err(refusal)),
            Ok(Err(Lost::Failed(error))) => Err(error.into()),
            Ok(Err(Lost::Fenced)) | Err(_) => Err(Error::Stopped),
        }
    }

    fn push(&self, entry: Entry) {
        let mut queue = self.queue.lock();
        queue.push(entry);
        let first = queue.len() == 1;
        drop(queue);
        if first {
            self.submitted.notify_one();
        }
    }

    /// Whether nothing waits to be written.
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.lock().is_empty()
    }

    pub(crate) async fn run(&self, store: Arc<dyn Store>, stop: CancellationToken, changed: &Notify) {
        loop {
            let batch = self.take();
            if batch.is_empty() {
                tokio::select! {
                    () = self.submitted.notified() => continue,
                    () = stop.cancelled() => return self.refuse_all(),
                }
            }
            if let Some(batch) = self.write_batch(&*store, batch, &stop).await {
                self.requeue(batch);
            }
            if self.watchers.load(Ordering::Relaxed) > 0 {
                changed.notify_waiters();
            }
        }
    }

    fn take(&self) -> Vec<Entry> {
        let mut queue = self.queue.lock();
        if queue.len() <= LARGEST_BATCH {
            // The next batch will be about as large.
            let next = Vec::with_capacity(queue.len());
            return std::mem::replace(&mut *queue, next);
        }
        let rest = queue.split_off(LARGEST_BATCH);
        std::mem::replace(&mut *queue, rest)
    }

    /// Puts units of callers back in front, to be written under the next identity.
    fn requeue(&self, mut batch: Vec<Entry>) {
        let mut queue = self.queue.lock();
        batch.append(&mut queue);
        *queue = batch;
    }

    /// Writes a batch, again and again while the store is out of reach. Gives back what must be written
    /// under another identity.
    async fn write_batch(
        &self,
        store: &dyn Store,
        batch: Vec<Entry>,
        stop: &CancellationToken,
    ) -> Option<Vec<Entry>> {
        let batch = current(batch, self.identity.node());
        if batch.is_empty() {
            return None;
        }
        let Some(node) = self.identity.settled(stop).await else {
            fail(batch, &Lost::Failed(StoreError::Closed));
            return None;
        };
        let (mut units, replies) = unzip(current(batch, node));
        for (unit, replier) in units.iter_mut().zip(&replies) {
            if replier.holder != node {
                give_to_anyone(unit);
            }
        }
        let units = Arc::new(units);
        let mut pause = Duration::from_millis(10);
        loop {
            let fate = tokio::select! {
                fate = store.commit(node, Arc::clone(&units)) => fate,
                // The lease lapsed while the store did not answer: what became of the batch is found out
                // under the next identity.
                () = self.identity.lost(node) => Err(StoreError::Fenced),
            };
            match fate {
                Ok(answers) => {
                    metric::committed(units.len());
                    self.answer(units, replies, answers);
                    return None;
                }
                Err(StoreError::Fenced) => {
                    self.identity.lose(node);
                    return Some(for_next_identity(units, replies));
                }
                Err(error) if error.is_temporary() => {
                    tracing::warn!(units = units.len(), %error, "the commit failed; trying again");
                    tokio::select! {
                        () = sleep(pause) => {}
                        () = stop.cancelled() => {
                            fail_replies(replies, &Lost::Failed(StoreError::Closed));
                            return None;
                        }
                    }
                    pause = (pause * 2).min(Duration::from_secs(1));
                }
                Err(error) => {
                    tracing::error!(units = units.len(), %error, "the commit failed for good");
                    fail_replies(replies, &Lost::Failed(error));
                    return None;
                }
            }
        }
    }

    /// Hands the answers on, on the user's threads: what follows from them is not the committer's work.
    /// What was written goes along, to be freed where it was made: freeing it all on one thread would have
    /// the others wait for their own memory.
    fn answer(&self, units: Arc<Vec<Unit>>, replies: Vec<Replier>, answers: Vec<Result<Written, Refusal>>) {
        let mut units = Arc::try_unwrap(units).unwrap_or_default().into_iter();
        let mut pairs = replies.into_iter().zip(answers);
        loop {
            let portion: Vec<_> = pairs.by_ref().take(PORTION).collect();
            let written: Vec<_> = units.by_ref().take(PORTION).collect();
            if portion.is_empty() {
                return;
            }
            self.user.spawn(async move {
                for (replier, answer) in portion {
                    (replier.reply)(answer.map_err(Lost::Refused));
                }
                drop(written);
            });
        }
    }

    fn refuse_all(&self) {
        fail(self.take(), &Lost::Failed(StoreError::Closed));
    }
}

/// The part of an entry that waits for the answer.
struct Replier {
    reply: Reply,
    speaks_for: Option<NodeId>,
    holder: Option<NodeId>,
    turn: Option<OwnedSemaphorePermit>,
}

/// The entries that may be written by this node. The others speak for one that is gone.
fn current(batch: Vec<Entry>, node: Option<NodeId>) -> Vec<Entry> {
    let is_current = |entry: &Entry| entry.speaks_for.is_none() || entry.speaks_for == node;
    if batch.iter().all(is_current) {
        return batch;
    }
    let (batch, stale): (Vec<Entry>, Vec<Entry>) = batch.into_iter().partition(is_current);
    fail(stale, &Lost::Fenced);
    batch
}

fn unzip(batch: Vec<Entry>) -> (Vec<Unit>, Vec<Replier>) {
    let split = |entry: Entry| {
        let Entry { unit, reply, speaks_for, holder, _turn: turn } = entry;
        (unit, Replier { reply, speaks_for, holder, turn })
    };
    batch.into_iter().map(split).unzip()
}

/// A run that is not started by the node that would hold it is pending for anyone.
fn give_to_anyone(unit: &mut Unit) {
    if let Act::Start(new) = &mut unit.act {
        new.owner = None;
    }
}

/// What is left of a batch whose node was fenced: what spoke for its claims is lost, and what callers asked
/// for is sent again with the same ids.
fn for_next_identity(units: Arc<Vec<Unit>>, replies: Vec<Replier>) -> Vec<Entry> {
    let units = Arc::try_unwrap(units).unwrap_or_else(|shared| shared.to_vec());
    let mut again = Vec::new();
    for (unit, Replier { reply, speaks_for, holder, turn }) in units.into_iter().zip(replies) {
        if speaks_for.is_some() {
            reply(Err(Lost::Fenced));
            continue;
        }
        again.push(Entry { unit, reply, speaks_for, holder, _turn: turn });
    }
    again
}

fn fail(batch: Vec<Entry>, why: &Lost) {
    for entry in batch {
        (entry.reply)(Err(why.clone()));
    }
}

fn fail_replies(replies: Vec<Replier>, why: &Lost) {
    for replier in replies {
        (replier.reply)(Err(why.clone()));
    }
}
