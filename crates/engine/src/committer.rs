//! Group commit.

mod answers;
mod aside;
#[cfg(feature = "schedule")]
mod group;
mod queue;

use std::{
    cell::Cell,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use answers::Answers;
use aside::Aside;
use queue::{Batch, Queue, Replier};
use tokio::{
    runtime::Handle,
    sync::{Notify, Semaphore, SemaphorePermit, oneshot},
    time::sleep,
};
use tokio_util::sync::CancellationToken;
use windlass_core::{NodeId, RunId};
use windlass_store::{Act, Answer, Refusal, Store, StoreError, Unit, Written};

use crate::{
    Error,
    boxed::boxed,
    feed::Feeds,
    flow::Scene,
    identity::Identity,
    listener::News,
    metric::CommitMeter,
    order::is_fresh,
    run_loop::{Mail, RunCell},
};

/// So little is a quiet engine: its runs wait for each other's commits, and not for a thread.
const FEW: usize = 4;

thread_local! {
    /// Whether this thread may wait for the disk: set while it tells the committer of what it has handed in, and taken
    /// by the first commit. So each thread waits for its own commit and for none that others want meanwhile.
    static HERE: Cell<bool> = const { Cell::new(false) };
}

/// How many units of callers (starts, orders) may wait to be committed before callers have to wait.
const CALLERS: usize = 20_000;

/// After how long what was set aside is written again, at the earliest.
const PAUSE: Duration = Duration::from_millis(100);

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

/// Who is told what became of a unit.
pub(crate) enum Reply {
    /// A run that had so many records written.
    Recorded(Arc<RunCell>, u64),
    /// A durable function, whose record has this place.
    Function(Arc<Scene>, u64),
    /// Whoever else.
    Then(Box<dyn FnOnce(Fate, Thread) + Send>),
}

/// On whose thread somebody is told something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thread {
    /// One of the user's runtime: the user's code may begin there.
    Users,
    /// One that has other things to do.
    Ours,
}

impl Reply {
    /// What follows may drop values of the user's; whatever they do then, others are to have their answers.
    fn answer(self, fate: Fate, thread: Thread) {
        let answered = catch_unwind(AssertUnwindSafe(|| match self {
            Self::Recorded(cell, records) => {
                cell.hand(Mail::Committed(records, fate.map(drop).map_err(Box::new)), thread);
            }
            Self::Function(scene, place) => scene.answered(place, fate, thread),
            Self::Then(then) => then(fate, thread),
        }));
        if answered.is_err() {
            tracing::error!("what follows from a commit panicked");
        }
    }

    /// Says that the unit was not written.
    fn refuse(self, why: Lost) {
        self.answer(Err(why), Thread::Ours);
    }
}

/// Gathers what is to be written and writes it in one transaction: while one commit is in flight, the next
/// batch gathers. There is no timer: an idle engine commits a single unit at once, and, if the
/// store can do that quickly, even on the thread that handed it in: waking the store's and being woken by it takes
/// half as long as the commit.
///
/// Woken by whatever is submitted, and by the store's answers.
///
/// A store that can write several batches at once has as many lanes, and one more for what schedules and triggers start.
/// What belongs to one run uses one lane, so that it is written in order. Units with keys may have to wait for a stranger's
/// transaction: they have a lane of their own, and those that meet one are set aside.
pub(crate) struct Committer {
    lanes: Vec<Lane>,
    aside: Aside,
    callers: Semaphore,
    /// Who sends items to batches here, and how many were sent.
    #[cfg(feature = "schedule")]
    sent: (u64, parking_lot::Mutex<u64>),
    identity: Arc<Identity>,
    /// Where answers are handed on.
    user: Handle,
    /// How many starts were committed on the threads of callers who have not heard of it yet.
    unheard: AtomicUsize,
    meter: CommitMeter,
    /// How many listen in this process, and want to hear of every commit.
    pub(crate) watchers: AtomicUsize,
}

/// What waits to be written one after the other.
#[derive(Default)]
struct Lane {
    queue: Queue,
    submitted: Notify,
}

/// How a batch is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// All or nothing, in the name of this process.
    Plain,
    /// The same, without what would have to wait for a stranger's transaction.
    Keyed,
    /// As keyed, in nobody's name: whoever waits for the transactions of the node, to declare a queue or to leave, does not
    /// wait for a stranger.
    Nameless,
}

impl Way {
    fn commit(
        self,
        store: &dyn Store,
        node: Option<NodeId>,
        units: Arc<Vec<Unit>>,
    ) -> Answer<'_, Vec<Result<Written, Refusal>>> {
        match self {
            Self::Plain => store.commit(node, units),
            Self::Keyed | Self::Nameless => store.commit_apart(node, units),
        }
    }
}

/// Whether it may have to wait for whoever takes the same key, or declares the same queue by a key in it.
fn has_key(unit: &Unit) -> bool {
    match &unit.act {
        Act::Start(new) => new.key.is_some() || new.queue_key.is_some(),
        Act::Send(message) => message.key.as_deref().is_some_and(|key| !is_fresh(key)),
        _ => false,
    }
}

impl Committer {
    pub(crate) fn new(lanes: usize, identity: Arc<Identity>, user: Handle) -> Self {
        Self {
            lanes: (0..if lanes > 1 { lanes + 1 } else { 1 }).map(|_| Lane::default()).collect(),
            aside: Aside::default(),
            callers: Semaphore::new(CALLERS),
            #[cfg(feature = "schedule")]
            sent: (windlass_core::ClaimId::new().0, parking_lot::Mutex::new(0)),
            identity,
            user,
            unheard: AtomicUsize::new(0),
            meter: CommitMeter::new(),
            watchers: AtomicUsize::new(0),
        }
    }

    /// Hands in a unit that speaks for a node's claim.
    pub(crate) fn submit(&self, node: NodeId, unit: Unit, reply: Reply) {
        if !self.identity.is(node) {
            // It could only wait for the next name to hear that it is too late, while the next name waits for
            // all that spoke for the last one to be gone.
            return reply.refuse(Lost::Fenced);
        }
        self.push(
            unit,
            Replier { reply, speaks_for: Some(node), holder: None, is_caller: false, is_bound: false },
        );
    }

    /// Takes a turn to hand in a unit for a caller, if not too many wait already.
    pub(crate) fn try_turn(&self) -> bool {
        self.callers.try_acquire().map(SemaphorePermit::forget).is_ok()
    }

    /// Hands in a unit for a caller who has a turn. `holder` is the node that would hold the run, for a start that
    /// asks for that.
    pub(crate) fn submit_in_turn(&self, unit: Unit, holder: Option<NodeId>, reply: Reply) {
        self.push(unit, Replier { reply, speaks_for: None, holder, is_caller: true, is_bound: false });
    }

    /// Hands in a unit for a caller, who waits when too many wait already. It is written even if the caller
    /// goes away.
    pub(crate) async fn submit_for_caller(&self, unit: Unit, holder: Option<NodeId>, reply: Reply) {
        // The semaphore is never closed.
        self.callers.acquire().await.map(SemaphorePermit::forget).ok();
        self.submit_in_turn(unit, holder, reply);
    }

    /// Writes one unit for a caller and waits for its fate.
    pub(crate) async fn write(&self, run: RunId, act: Act) -> Result<Result<Written, Refusal>, Error> {
        let (sender, fate) = oneshot::channel();
        // A caller who went away does not want to know.
        let reply = Reply::Then(Box::new(move |fate, _| drop(sender.send(fate))));
        self.submit_for_caller(Unit { run, act }, None, reply).await;
        match fate.await {
            Ok(Ok(written)) => Ok(Ok(written)),
            Ok(Err(Lost::Refused(refusal))) => Ok(Err(refusal)),
            Ok(Err(Lost::Failed(error))) => Err(error.into()),
            Ok(Err(Lost::Fenced)) | Err(_) => Err(Error::Stopped),
        }
    }

    fn push(&self, unit: Unit, replier: Replier) {
        let is_caller = replier.is_caller;
        let lane = self.lane_of(&unit);
        match lane.queue.push(unit, replier) {
            Ok(true) => {
                HERE.set(self.may_wait_here(is_caller));
                lane.submitted.notify_one();
                HERE.set(false);
            }
            Ok(false) => {}
            Err(replier) => replier.reply.refuse(Lost::Failed(StoreError::Closed)),
        }
    }

    /// The last but one of several is for what may have to wait for a stranger's transaction.
    fn lane_of(&self, unit: &Unit) -> &Lane {
        let Some(keyed) = self.lanes.len().checked_sub(2) else { return &self.lanes[0] };
        if has_key(unit) {
            return &self.lanes[keyed];
        }
        // Ids end in chance.
        &self.lanes[usize::from(unit.run.as_bytes()[15]) % keyed]
    }

    /// Whether this thread may wait for the disk: if it leaves others to the tasks of its runtime, which need not be
    /// the engine's, and if no caller is about to hand in more. One is when a start was just committed at once and
    /// the next comes before anybody has heard of it: many starts in a row, which are written together.
    fn may_wait_here(&self, is_caller: bool) -> bool {
        let are_many = is_caller && self.unheard.load(Ordering::Relaxed) > 0;
        !are_many && Handle::try_current().is_ok_and(|runtime| runtime.metrics().num_workers() > 1)
    }

    /// Notes that a start was committed on the thread of its caller, who hears of it later.
    pub(crate) fn not_heard_yet(&self) {
        self.unheard.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that such a caller has heard of it, or has gone.
    pub(crate) fn heard(&self) {
        self.unheard.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether nothing waits to be written.
    pub(crate) fn is_idle(&self) -> bool {
        self.lanes.iter().all(|lane| lane.queue.is_empty())
    }

    pub(crate) const fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// Writes what waits in a lane, until there is nothing more to write.
    pub(crate) async fn run(
        &self,
        lane: usize,
        store: Arc<dyn Store>,
        stop: CancellationToken,
        changed: &News,
        feeds: &Feeds,
    ) {
        let Lane { queue, submitted } = &self.lanes[lane];
        let (mut again, mut is_quiet) = (Batch::default(), false);
        loop {
            let mut batch = queue.take(mem::take(&mut again));
            if batch.is_empty() {
                tokio::select! {
                    () = submitted.notified() => continue,
                    () = stop.cancelled() => return queue.close().refuse(&Lost::Failed(StoreError::Closed)),
                }
            }
            self.callers.add_permits(batch.callers());
            if self.is_keyed(lane) {
                batch = self.aside.divert(batch);
                if batch.is_empty() {
                    continue;
                }
            }
            let was_quiet = mem::replace(&mut is_quiet, batch.weight() <= FEW);
            let watched = batch.runs(!feeds.is_empty());
            let at_once = was_quiet && is_quiet && batch.is_progress();
            let way = if self.is_keyed(lane) { Way::Keyed } else { Way::Plain };
            again = self.write_batch(&*store, batch, way, at_once, &stop).await;
            feeds.touch(watched.into_iter());
            if self.watchers.load(Ordering::Relaxed) > 0 {
                changed.tell();
            }
        }
    }

    /// Writes what was set aside, a little at a time, until there is nothing more to write.
    pub(crate) async fn run_aside(
        &self,
        store: Arc<dyn Store>,
        stop: CancellationToken,
        changed: &News,
        feeds: &Feeds,
    ) {
        while !stop.is_cancelled() {
            let (batch, way) = self.aside.take();
            if batch.is_empty() {
                tokio::select! {
                    () = self.aside.added() => {}
                    () = stop.cancelled() => {}
                }
                continue;
            }
            let watched = batch.runs(!feeds.is_empty());
            let again = self.write_batch(&*store, batch, way, false, &stop).await;
            self.aside.put_back(again);
            feeds.touch(watched.into_iter());
            if self.watchers.load(Ordering::Relaxed) > 0 {
                changed.tell();
            }
            // A store may say at once that it would have to wait.
            tokio::select! {
                _ = tokio::spawn(boxed(sleep(PAUSE))) => {}
                () = stop.cancelled() => {}
            }
        }
        self.aside.close().refuse(&Lost::Failed(StoreError::Closed));
    }

    /// Whether a lane is for what may have to wait for a stranger's transaction.
    fn is_keyed(&self, lane: usize) -> bool {
        self.lanes.len().checked_sub(2) == Some(lane)
    }

    /// Whether there is a lane whose units may be set aside.
    pub(crate) const fn sets_aside(&self) -> bool {
        self.lanes.len() > 1
    }

    /// Writes a batch, again and again while the store is out of reach. Gives back what must be written
    /// under another identity.
    async fn write_batch(
        &self,
        store: &dyn Store,
        batch: Batch,
        way: Way,
        mut at_once: bool,
        stop: &CancellationToken,
    ) -> Batch {
        let batch = batch.spoken_for_by(|node| self.identity.is(node));
        if batch.is_empty() {
            return batch;
        }
        let node = match way {
            Way::Nameless => Some(None),
            Way::Plain | Way::Keyed => self.identity.settled(stop).await,
        };
        let Some(node) = node else {
            batch.refuse(&Lost::Failed(StoreError::Closed));
            return Batch::default();
        };
        let Batch { units, repliers } = batch.spoken_for_by(|speaker| Some(speaker) == node).held_by(node);
        let units = Arc::new(units);
        let mut pause = Duration::from_millis(10);
        loop {
            // Not before: whoever brought a new name goes on here, if there was none, and has not handed anything in.
            let may_wait = mem::take(&mut at_once) && HERE.take();
            let here = if may_wait { store.commit_at_once(node, &units) } else { None };
            let fate = match here {
                Some(answers) => Ok(answers),
                None => tokio::select! {
                    fate = way.commit(store, node, Arc::clone(&units)) => fate,
                    // The lease lapsed while the store did not answer: what became of the batch is found out
                    // under the next identity.
                    () = self.identity.lost(node) => Err(StoreError::Fenced),
                },
            };
            match fate {
                Ok(answers) => {
                    self.meter.committed(units.len());
                    let mut units = Arc::try_unwrap(units).unwrap_or_else(|shared| match way {
                        Way::Plain => Vec::new(),
                        Way::Keyed | Way::Nameless => shared.to_vec(),
                    });
                    let (repliers, answers, again) = match way {
                        Way::Plain => (repliers, answers, Batch::default()),
                        Way::Keyed | Way::Nameless => self.aside.set_aside(&mut units, repliers, answers),
                    };
                    // What follows from a client's answers is none of the user's code, and needs none of its threads.
                    let user = node.is_some().then_some(&self.user);
                    Answers::hand_on(user, repliers, answers, units);
                    if stop.is_cancelled() {
                        again.refuse(&Lost::Failed(StoreError::Closed));
                        return Batch::default();
                    }
                    return again;
                }
                Err(StoreError::Fenced) => {
                    self.identity.lose(node);
                    let units = Arc::try_unwrap(units).unwrap_or_else(|shared| shared.to_vec());
                    // What spoke for the node's claims is lost, and what callers asked for is sent again with
                    // the same ids.
                    return Batch { units, repliers }.spoken_for_by(|_| false);
                }
                Err(error) if error.is_temporary() => {
                    tracing::warn!(units = units.len(), %error, "the commit failed; trying again");
                    // A task of its own: a timer must not be asked when its runtime goes down, and that wakes it.
                    let paused = tokio::spawn(boxed(sleep(pause)));
                    let goes_on = tokio::select! {
                        slept = paused => slept.is_ok(),
                        () = stop.cancelled() => false,
                    };
                    if !goes_on {
                        queue::refuse(repliers, &Lost::Failed(StoreError::Closed));
                        return Batch::default();
                    }
                    pause = (pause * 2).min(Duration::from_secs(1));
                }
                Err(error) => {
                    tracing::error!(units = units.len(), %error, "the commit failed for good");
                    queue::refuse(repliers, &Lost::Failed(error));
                    return Batch::default();
                }
            }
        }
    }
}
