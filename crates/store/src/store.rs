//! The door between the engine and a database.

use std::{any::Any, collections::BTreeMap, future::Future, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::sync::broadcast;
use windlass_core::{ClaimId, NodeId, RunId, Time};

use crate::{
    Aged, AgedRun, Backlog, Cell, Count, DefinitionId, DefinitionRow, Discard, End, InboxRow, LogLine, News,
    NodeRow, Page, Query, QueueChange, QueueChanged, QueueRow, Refusal, RunImage, SpreadClaim, SpreadClaimed,
    SpreadRow, StepRow, StoreError, Swapped, Tally, Unit, Versions, Written,
};

/// A store's answer, on its way.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Keeps and finds records, and decides nothing about them.
///
/// **Fence.** Every method that takes the acting node's id to change something fails whole with [`StoreError::Fenced`], and
/// changes nothing, when that node was declared dead or is not known (it never joined, it left, or it was
/// swept).
///
/// **Time** is the store's own clock, which never goes back. A call happens at one instant: all that a batch
/// writes carries the same time. Every answer that carries `now` lets the caller follow it.
///
/// **Dropping** an answer does not withdraw what was asked.
pub trait Store: Send + Sync + 'static {
    /// Where the state is, for people: `sqlite://app.db`. Never a password.
    fn describe(&self) -> String;

    /// Adds a node. Living nodes of the same name, if it has one, are declared dead first. From then on whatever gives up
    /// what the node holds goes through the same handle: a store may remember what that is.
    ///
    /// The same id again is a repeat: it is answered as a success that fenced nobody, and counts as a
    /// heartbeat; if that node was declared dead meanwhile, it fails with [`StoreError::Fenced`].
    fn join(&self, node: NewNode) -> Answer<'_, Joined>;

    /// Says that the node lives, and looks around.
    fn heartbeat(&self, node: NodeId, pulse: Pulse) -> Answer<'_, Heartbeat>;

    /// Removes a node. What it still holds becomes ready, and is not counted as recovered; published attempts that it
    /// holds are free again, and no death is counted. A repeat fails with [`StoreError::Fenced`].
    fn leave(&self, node: NodeId) -> Answer<'_, ()>;

    /// Declares the condemned node dead if the reason given holds, checked again under lock. Answers whether
    /// it is dead now: also when it was dead before, or is not known (any more).
    fn declare_dead(&self, judge: NodeId, condemned: NodeId, why: Death) -> Answer<'_, bool>;

    /// Makes up to `limit` runs of dead nodes ready, each counted as recovered, and frees up to as many published
    /// attempts, each with one more death; removes the dead nodes that hold nothing. Which come first is the store's
    /// choice.
    fn sweep(&self, judge: NodeId, limit: usize) -> Answer<'_, Swept>;

    /// Does what [`commit`](Self::commit) does, on the thread of the caller, if that takes less than waking another
    /// thread twice: when nobody else writes, and commits are quick. `None` when it does not, or when it fails: then
    /// `commit` has to be asked, and says what became of it.
    fn commit_at_once(&self, node: Option<NodeId>, batch: &[Unit]) -> Option<Vec<Result<Written, Refusal>>> {
        let _ = (node, batch);
        None
    }

    /// How many batches may well be written at once. With more than one, all units of a run are handed in one after the
    /// other, and units that may have to wait for a stranger (starts and messages with keys) hold up only each other.
    fn lanes(&self) -> usize {
        1
    }

    /// Writes a batch in one transaction, in order, and answers each unit. `node` is the acting node;
    /// `None` for a client that runs nothing: its acts that carry a claim are refused, and the runs it
    /// starts are ready.
    fn commit(
        &self,
        node: Option<NodeId>,
        batch: Arc<Vec<Unit>>,
    ) -> Answer<'_, Vec<Result<Written, Refusal>>>;

    /// Does what [`commit`](Self::commit) does for starts and messages with keys that have nothing to do with each other,
    /// some of which may have to wait for a stranger's transaction. One that has waited for too long is refused as
    /// [`Refusal::Busy`], may be handed in again, and does not keep the others from being written.
    fn commit_apart(
        &self,
        node: Option<NodeId>,
        batch: Arc<Vec<Unit>>,
    ) -> Answer<'_, Vec<Result<Written, Refusal>>> {
        self.commit(node, batch)
    }

    /// Makes due runs ready, and takes ready runs for a node: the most urgent first, then the oldest (by id),
    /// over all the queues together. A queue that has reached its limit is passed over.
    ///
    /// **Declared queues** ([`Store::change_queue`]) give each of their keys its turn, one run at a time, beginning after the
    /// key that had the last; among the runs of a key the most urgent comes first. Beside other queues they are weighed by
    /// the run that comes next. Whatever is taken from one takes a slot, in the same transaction, and no more is taken
    /// than its limits allow then. A run keeps its slot until it ends or is given up; with
    /// [`hold`](crate::QueueLimits::hold) until it ends, and is taken before all others when it is ready again.
    ///
    /// What a queue is told keeps nobody from stopping: a ready run of a declared queue that has to
    /// [stop](crate::RunImage::stops_at) comes before the others of its queue, the one that had to stop first before the
    /// rest, however full the queue is and also while it is paused. It takes no slot, unless it has one, and is no
    /// beginning for a rate.
    ///
    /// Every waiting run whose time has come becomes ready, in whatever state, queue and workflow. (A store
    /// may bound how many in one call; then it answers `more`.)
    ///
    /// The same claim id again is a repeat: while the node holds runs under it, the answer is exactly those,
    /// and nothing is taken.
    fn claim(&self, request: Claim) -> Answer<'_, Claimed>;

    /// Looks for what a claim like this one would find, without the right to write. It takes nothing and makes nothing
    /// ready, so it is not fenced.
    fn look(&self, request: Claim) -> Answer<'_, Looked>;

    /// Changes what a queue is told, and declares it if it was not. Runs that are held when it is declared take slots,
    /// however many they are.
    fn change_queue(&self, queue: Arc<str>, change: QueueChange) -> Answer<'_, QueueChanged>;

    /// The queues that were declared, by name; of one name, if one is given.
    fn queues(&self, only: Option<Arc<str>>) -> Answer<'_, Vec<QueueRow>>;

    /// Takes published attempts that nobody holds: the most urgent first, then those of the oldest run (by id), by
    /// step and attempt, over all queues together.
    ///
    /// The same claim id again is a repeat: while the node holds attempts under it, the answer is exactly those, and
    /// nothing is taken.
    fn claim_tasks(&self, request: SpreadClaim) -> Answer<'_, SpreadClaimed>;

    /// The published attempts that this node holds, by urgency. It changes nothing, so it is not fenced.
    fn held_tasks(&self, node: NodeId) -> Answer<'_, Vec<SpreadRow>>;

    /// Makes every run ready that is blocked in one of these workflows and was blocked by another version
    /// than the one given, or by none that is known ([`Wait::blocked_by`](crate::Wait::blocked_by)). Answers
    /// how many.
    fn unblock(&self, node: NodeId, workflows: Vec<(Arc<str>, DefinitionId)>) -> Answer<'_, usize>;

    /// The number of a version of a workflow, given out on first sight. The body that came first stays.
    fn define(&self, definition: DefinitionRow) -> Answer<'_, DefinitionId>;

    /// The version of a workflow with this number.
    fn definition(&self, id: DefinitionId) -> Answer<'_, Option<DefinitionRow>>;

    /// Versions of workflows with their numbers. A version is newer than those that were [defined](Self::define) before it.
    fn definitions(&self, which: Versions) -> Answer<'_, Vec<(DefinitionId, DefinitionRow)>>;

    /// A run with its records.
    fn load(&self, run: RunId) -> Answer<'_, Option<RunImage>>;

    /// What lies in the inboxes of the runs that this node holds, of all or `only` of those among these, oldest first
    /// (by number). It changes nothing, so it is not fenced: a dead node holds its runs until they are swept.
    fn inbox(&self, node: NodeId, only: Option<Vec<RunId>>) -> Answer<'_, Vec<InboxRow>>;

    /// The last ends of those among these runs that stand ended now, in any order, each once.
    fn ends(&self, runs: Vec<RunId>) -> Answer<'_, Vec<(RunId, End)>>;

    /// The run that a key stands for in a workflow; `None` once the key has lapsed.
    fn by_key(&self, workflow: Arc<str>, key: String) -> Answer<'_, Option<RunId>>;

    /// Runs that fit a query, newest first.
    fn find(&self, query: Query) -> Answer<'_, Page>;

    /// How many runs fit a query, by state: for each state that it asks for, in the order of their numbers. Where there are
    /// more than about `look`, some are not seen, and the count is not [whole](Count::whole). Its place in the listing and its
    /// limits are of no account.
    fn count(&self, query: Query, look: usize) -> Answer<'_, Vec<Count>>;

    /// What waits to be claimed and what is held, of every queue. Where there are more than about `look` runs, some are not
    /// seen.
    fn backlog(&self, look: usize) -> Answer<'_, Backlog>;

    /// The recorded steps of these runs without what they carry, at most so many, each run's in the order of recording.
    fn outlines(&self, runs: Vec<RunId>, limit: usize) -> Answer<'_, Vec<(RunId, Vec<StepRow>)>>;

    /// Adds to what was counted, of its minute and of all time. Minutes that are long past are forgotten.
    fn tally(&self, add: Vec<Tally>) -> Answer<'_, ()>;

    /// What was counted in each minute from this one on; with [`Tally::EVER`] of all time.
    fn tallies(&self, since: Time) -> Answer<'_, Vec<Tally>>;

    /// Keeps lines that were logged. Lines of runs that are not there are left out. Of a run that has as many
    /// as are kept ([`LogLine::MOST`]), the last one says how many were left out since.
    fn add_log(&self, lines: Vec<LogLine>) -> Answer<'_, ()>;

    /// What was logged for a run, in the order in which it came.
    fn log(&self, run: RunId) -> Answer<'_, Vec<LogLine>>;

    /// Runs that stand ended. Finding the next ones takes no longer when many others have ended.
    fn aged(&self, request: Aged) -> Answer<'_, Vec<AgedRun>>;

    /// Forgets runs that stand ended in these generations, with all that belongs to them, their keys included.
    ///
    /// Each is answered by itself. Refused with [`Refusal::Unknown`] (a repeat too), with [`Refusal::Open`] when the run has
    /// not ended or another generation of it has, with [`Refusal::Awaited`] while what it told its
    /// [parent](crate::NewRun::parent) last lies in that one's inbox, with [`Refusal::Keyed`], or with [`Refusal::Busy`] or
    /// [`Refusal::Unfinished`], after which it may be asked again. Of a run that is refused with the last of these nobody finds
    /// anything any more, and one of the same id may begin; what is still there of it goes little by little, also when others
    /// are discarded, or none.
    fn discard(&self, request: Discard) -> Answer<'_, Vec<Result<(), Refusal>>>;

    /// A small value that processes share.
    fn cell(&self, name: Arc<str>) -> Answer<'_, Option<Cell>>;

    /// Writes a cell if it has this version; zero is that of one which is not there. `node` is the acting node; `None` for a
    /// client that runs nothing. Written again because its answer was lost, it is found [changed](Swapped::Changed).
    fn swap_cell(
        &self,
        node: Option<NodeId>,
        name: Arc<str>,
        version: u64,
        body: Bytes,
    ) -> Answer<'_, Swapped>;

    /// Every node by id, dead ones included until they are swept.
    fn nodes(&self) -> Answer<'_, Vec<NodeRow>>;

    /// The store itself, where it can do more than this trait says: take the record of a step along in a transaction of
    /// the application's. One that stands before another gives the other's. Default: it cannot.
    fn itself(&self) -> Option<&dyn Any> {
        None
    }

    /// What others do to this store, as hints: losing one costs latency, never a run.
    fn hints(&self) -> broadcast::Receiver<Hint>;
}

/// A node that joins.
#[derive(Clone, Debug)]
pub struct NewNode {
    /// A fresh id.
    pub id: NodeId,
    /// The name of the instance, if it has one.
    pub name: Option<String>,
    /// The version of its program.
    pub version: String,
    /// The queues it serves.
    pub queues: Vec<String>,
    /// After how long without a heartbeat others may declare it dead.
    pub stale_after: Duration,
}

/// The answer to a join.
#[derive(Clone, Debug)]
pub struct Joined {
    /// The store's time.
    pub now: Time,
    /// The predecessors of the same name that were declared dead.
    pub fenced: Vec<NodeId>,
}

/// What a node says of itself when it says that it lives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pulse {
    /// How many runs it holds.
    pub running: u32,
    /// How many runs it ended, and published attempts it executed, in the last minute, by queue.
    pub ended: BTreeMap<String, u32>,
}

impl From<u32> for Pulse {
    /// Of a node that holds so many runs, and has ended none of late.
    fn from(running: u32) -> Self {
        Self { running, ended: BTreeMap::new() }
    }
}

/// The answer to a heartbeat.
#[derive(Clone, Debug)]
pub struct Heartbeat {
    /// The store's time.
    pub now: Time,
    /// Every other node by id, dead ones included.
    pub others: Vec<NodeRow>,
    /// Others that were not declared dead yet, and of which the store can prove that their process is gone.
    pub gone: Vec<NodeId>,
    /// What lies in the inboxes of the runs that this node holds, oldest first (by number).
    pub inbox: Vec<InboxRow>,
    /// Runs that this node holds under these claims, and was never told of: an answer was lost, and nobody asked again.
    /// Not those of which an answer may still be on its way.
    pub strangers: Vec<(RunId, ClaimId)>,
}

/// Why a node is declared dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// Its last heartbeat is longer ago than its own `stale_after`.
    Stale,
    /// The store can prove that its process is gone.
    Gone,
}

/// What a sweep did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swept {
    /// How many runs became ready.
    pub released: usize,
    /// How many published attempts are free again.
    pub tasks: usize,
    /// Whether dead nodes still hold something.
    pub more: bool,
}

/// A wish for runs.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Who claims.
    pub node: NodeId,
    /// What to write into the runs. The same id again answers with the same runs.
    pub claim: ClaimId,
    /// How many runs at most, over all queues. With zero, due runs are still made ready.
    pub room: usize,
    /// The queues, each once, and how many runs of each at most.
    pub queues: Vec<(Arc<str>, usize)>,
    /// The workflows whose code the node has, each once, with the version that it would run a new run
    /// under. A run that was held before keeps its own version, whether or not it is this one.
    pub workflows: Vec<(Arc<str>, DefinitionId)>,
    /// Older versions of them that the node has the code of too.
    pub kept: Vec<(Arc<str>, DefinitionId)>,
    /// Stop taking runs when their payloads reach about this many bytes. The run that reaches it is the
    /// last, so one is always taken.
    pub bytes: usize,
    /// Whether to make ready, before anything is taken, every run of these workflows that is recorded under the very
    /// version given, or one that is kept, and was blocked by another or by none that is known.
    pub free_own: bool,
}

impl Claim {
    /// Every version that the node has the code of.
    #[must_use]
    pub fn versions(&self) -> Vec<(Arc<str>, DefinitionId)> {
        self.workflows.iter().chain(&self.kept).cloned().collect()
    }
}

/// The answer to a claim.
#[derive(Clone, Debug)]
pub struct Claimed {
    /// The store's time.
    pub now: Time,
    /// The runs, now held by the node, the most urgent first, then the oldest.
    pub runs: Vec<RunImage>,
    /// When the next waiting run is due, of any queue and workflow, or the rate of one of the queues lets the next one be
    /// taken, if it lets none now, or a ready run of a declared queue has to stop.
    pub next_due: Option<Time>,
    /// Whether the same request with a fresh claim would take something.
    pub more: bool,
    /// Whether one of the queues was declared: then what is given up may make room for what was passed over.
    pub limited: bool,
}

/// The answer to a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Looked {
    /// The store's time.
    pub now: Time,
    /// The same as in [`Claimed::next_due`].
    pub next_due: Option<Time>,
    /// Whether a run is ready that the claim may have, or due.
    pub work: bool,
    /// Whether a run is blocked that the claim would make ready if it asked for [`Claim::free_own`].
    pub own_blocked: bool,
    /// The same as in [`Claimed::limited`].
    pub limited: bool,
}

impl Looked {
    /// Whether a claim would find anything.
    #[must_use]
    pub const fn finds(&self) -> bool {
        self.work || self.own_blocked
    }
}

/// What somebody else did to the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hint {
    /// Something was committed by another user of the store, and it may be anything.
    Changed,
    /// This was, and nothing else.
    News(Arc<News>),
    /// The process of this node is gone.
    Gone(NodeId),
}
