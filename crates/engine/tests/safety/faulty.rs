//! A store between the engine and the real one, which does things to calls on purpose.

use std::{
    collections::HashMap,
    future::pending,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::sync::{RwLock, broadcast};
use tokio_util::sync::CancellationToken;
use windlass_core::{NodeId, RunId, Time};
use windlass_store::{
    Act, Aged, AgedRun, Answer, Backlog, Cell, Claim, Claimed, Count, Death, DefinitionId, DefinitionRow,
    Discard, End, Heartbeat, Hint, InboxRow, Joined, LogLine, Looked, NewNode, NodeRow, Page, Pulse, Query,
    QueueChange, QueueChanged, QueueRow, Refusal, RunImage, SpreadClaim, SpreadClaimed, SpreadRow, StepRow,
    Store, StoreError, Swapped, Swept, Tally, Unit, Versions, Written,
};

/// A call that changes something, as a test may want to know it.
#[derive(Clone, Debug)]
pub enum Asked {
    Join,
    Heartbeat,
    Commit(Arc<Vec<Unit>>),
    Claim,
    /// Leaving, claiming tasks, declaring dead, sweeping, unblocking, defining.
    Other,
    Read,
}

impl Asked {
    /// Whether this is a commit with an act like this.
    pub fn commits(&self, is: impl Fn(&Act) -> bool) -> bool {
        matches!(self, Self::Commit(batch) if batch.iter().any(|unit| is(&unit.act)))
    }
}

/// What becomes of a call.
#[derive(Clone, Debug)]
pub enum Fault {
    /// It goes on.
    None,
    /// It never arrives, and is never answered.
    Silent,
    /// It never arrives, and the caller is told that it cannot be done.
    Broken,
    /// It is done, and the caller is told that it failed.
    AnswerLost,
    /// It is done, and never answered.
    NoAnswer,
    /// It goes on when the token is cancelled.
    HeldUntil(CancellationToken),
    /// It goes on after this was done, while nothing else of this process is being written: everything that
    /// was asked before has been answered, and whatever is asked meanwhile waits.
    Alone(fn()),
}

type Hook = Box<dyn Fn(&Asked) -> Fault + Send + Sync>;
type Fate = Result<Vec<Result<Written, Refusal>>, StoreError>;
type Observer = Box<dyn Fn(Option<NodeId>, &[Unit], &Fate) + Send + Sync>;
type Stopwatch = Box<dyn Fn(Duration) + Send + Sync>;

/// A store that does to calls what a hook says.
pub struct Faulty {
    inner: Arc<dyn Store>,
    hook: Mutex<Arc<Hook>>,
    observer: Arc<Mutex<Option<Observer>>>,
    stopwatch: Arc<Mutex<Option<Stopwatch>>>,
    /// What becomes of batches that could not be written at once, and are asked for again: by where they are.
    decided: Mutex<HashMap<usize, Fault>>,
    /// Held for reading by every call that writes.
    busy: Arc<RwLock<()>>,
    /// Set when no hint may come through.
    deaf: Option<broadcast::Sender<Hint>>,
}

impl Faulty {
    pub fn new(inner: Arc<dyn Store>) -> Self {
        let hook: Hook = Box::new(|_| Fault::None);
        Self {
            inner,
            hook: Mutex::new(Arc::new(hook)),
            observer: Arc::default(),
            stopwatch: Arc::default(),
            decided: Mutex::default(),
            busy: Arc::default(),
            deaf: None,
        }
    }

    /// Lets no hint through.
    pub fn deaf(mut self) -> Self {
        self.deaf = Some(broadcast::Sender::new(1));
        self
    }

    /// Says what becomes of calls from now on.
    pub fn on_call(&self, hook: impl Fn(&Asked) -> Fault + Send + Sync + 'static) {
        *self.hook.lock() = Arc::new(Box::new(hook));
    }

    /// Is told the fate of every commit.
    pub fn on_commit(&self, observer: impl Fn(Option<NodeId>, &[Unit], &Fate) + Send + Sync + 'static) {
        *self.observer.lock() = Some(Box::new(observer));
    }

    /// Is told how long each heartbeat took to be answered.
    pub fn on_heartbeat(&self, stopwatch: impl Fn(Duration) + Send + Sync + 'static) {
        *self.stopwatch.lock() = Some(Box::new(stopwatch));
    }

    fn decide(&self, asked: &Asked) -> Fault {
        let hook = Arc::clone(&self.hook.lock());
        hook(asked)
    }

    fn call<T: Send + 'static>(
        &self,
        asked: Asked,
        call: impl for<'s> FnOnce(&'s dyn Store) -> Answer<'s, T> + Send + 'static,
        seen: impl FnOnce(&Result<T, StoreError>) + Send + 'static,
    ) -> Answer<'_, T> {
        let fault = self.decide(&asked);
        self.suffer(fault, asked, call, seen)
    }

    fn suffer<T: Send + 'static>(
        &self,
        fault: Fault,
        asked: Asked,
        call: impl for<'s> FnOnce(&'s dyn Store) -> Answer<'s, T> + Send + 'static,
        seen: impl FnOnce(&Result<T, StoreError>) + Send + 'static,
    ) -> Answer<'_, T> {
        let failed = || StoreError::Unavailable("a fault on purpose".to_owned());
        match fault {
            Fault::None => self.go_on(&asked, call, seen),
            Fault::Silent => Box::pin(pending()),
            Fault::Broken => Box::pin(async { Err(StoreError::Broken("a fault on purpose".to_owned())) }),
            Fault::AnswerLost => {
                let answer = self.go_on(&asked, call, seen);
                Box::pin(async move { answer.await.and(Err(failed())) })
            }
            Fault::NoAnswer => {
                let answer = self.go_on(&asked, call, seen);
                Box::pin(async move {
                    drop(answer.await);
                    pending().await
                })
            }
            Fault::HeldUntil(token) => Box::pin(async move {
                token.cancelled().await;
                self.go_on(&asked, call, seen).await
            }),
            Fault::Alone(act) => {
                let (store, busy) = (Arc::clone(&self.inner), Arc::clone(&self.busy));
                // Whoever asked may stop waiting; the call is made and its fate seen all the same.
                let task = tokio::spawn(async move {
                    let alone = busy.write_owned().await;
                    act();
                    // The server may have been restarted meanwhile: what was to be late is not to be lost on the way.
                    while store.nodes().await.is_err() {}
                    let answer = call(&*store);
                    drop(alone);
                    let answer = answer.await;
                    seen(&answer);
                    answer
                });
                Box::pin(async move { task.await.unwrap_or(Err(StoreError::Closed)) })
            }
        }
    }

    /// Hands the call on, at once unless somebody wants to be alone.
    fn go_on<T: Send + 'static>(
        &self,
        asked: &Asked,
        call: impl for<'s> FnOnce(&'s dyn Store) -> Answer<'s, T> + Send + 'static,
        seen: impl FnOnce(&Result<T, StoreError>) + Send + 'static,
    ) -> Answer<'_, T> {
        if let Asked::Read = asked {
            return call(&*self.inner);
        }
        match Arc::clone(&self.busy).try_read_owned() {
            Ok(busy) => {
                let answer = call(&*self.inner);
                Box::pin(async move {
                    let answer = answer.await;
                    drop(busy);
                    seen(&answer);
                    answer
                })
            }
            Err(_) => Box::pin(async move {
                let busy = self.busy.read().await;
                let answer = call(&*self.inner).await;
                drop(busy);
                seen(&answer);
                answer
            }),
        }
    }
}

impl Store for Faulty {
    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn join(&self, node: NewNode) -> Answer<'_, Joined> {
        self.call(Asked::Join, move |store| store.join(node), |_| {})
    }

    fn heartbeat(&self, node: NodeId, pulse: Pulse) -> Answer<'_, Heartbeat> {
        let (began, stopwatch) = (Instant::now(), Arc::clone(&self.stopwatch));
        let seen = move |_: &Result<_, _>| {
            if let Some(stopwatch) = &*stopwatch.lock() {
                stopwatch(began.elapsed());
            }
        };
        self.call(Asked::Heartbeat, move |store| store.heartbeat(node, pulse), seen)
    }

    fn leave(&self, node: NodeId) -> Answer<'_, ()> {
        self.call(Asked::Other, move |store| store.leave(node), |_| {})
    }

    fn declare_dead(&self, judge: NodeId, condemned: NodeId, why: Death) -> Answer<'_, bool> {
        self.call(Asked::Other, move |store| store.declare_dead(judge, condemned, why), |_| {})
    }

    fn sweep(&self, judge: NodeId, limit: usize) -> Answer<'_, Swept> {
        self.call(Asked::Other, move |store| store.sweep(judge, limit), |_| {})
    }

    fn commit_at_once(&self, node: Option<NodeId>, batch: &[Unit]) -> Option<Vec<Result<Written, Refusal>>> {
        // Whoever wants to be alone is not disturbed.
        let _busy = self.busy.try_read().ok()?;
        let fault = self.decide(&Asked::Commit(Arc::new(batch.to_vec())));
        if let Fault::None = fault
            && let Some(answers) = self.inner.commit_at_once(node, batch)
        {
            if let Some(observer) = &*self.observer.lock() {
                observer(node, batch, &Ok(answers.clone()));
            }
            return Some(answers);
        }
        self.decided.lock().insert(batch.as_ptr() as usize, fault);
        None
    }

    fn lanes(&self) -> usize {
        self.inner.lanes()
    }

    fn commit(
        &self,
        node: Option<NodeId>,
        batch: Arc<Vec<Unit>>,
    ) -> Answer<'_, Vec<Result<Written, Refusal>>> {
        let asked = Asked::Commit(Arc::clone(&batch));
        let (observer, units) = (Arc::clone(&self.observer), Arc::clone(&batch));
        let seen = move |fate: &Fate| {
            if let Some(observer) = &*observer.lock() {
                observer(node, &units, fate);
            }
        };
        let decided = self.decided.lock().remove(&(batch.as_ptr() as usize));
        let fault = decided.unwrap_or_else(|| self.decide(&asked));
        self.suffer(fault, asked, move |store| store.commit(node, batch), seen)
    }

    fn claim(&self, request: Claim) -> Answer<'_, Claimed> {
        self.call(Asked::Claim, move |store| store.claim(request), |_| {})
    }

    fn change_queue(&self, queue: Arc<str>, change: QueueChange) -> Answer<'_, QueueChanged> {
        self.call(Asked::Other, move |store| store.change_queue(queue, change), |_| {})
    }

    fn queues(&self, only: Option<Arc<str>>) -> Answer<'_, Vec<QueueRow>> {
        self.inner.queues(only)
    }

    fn look(&self, request: Claim) -> Answer<'_, Looked> {
        self.call(Asked::Read, move |store| store.look(request), |_| {})
    }

    fn claim_tasks(&self, request: SpreadClaim) -> Answer<'_, SpreadClaimed> {
        self.call(Asked::Other, move |store| store.claim_tasks(request), |_| {})
    }

    fn held_tasks(&self, node: NodeId) -> Answer<'_, Vec<SpreadRow>> {
        self.call(Asked::Read, move |store| store.held_tasks(node), |_| {})
    }

    fn unblock(&self, node: NodeId, workflows: Vec<(Arc<str>, DefinitionId)>) -> Answer<'_, usize> {
        self.call(Asked::Other, move |store| store.unblock(node, workflows), |_| {})
    }

    fn define(&self, definition: DefinitionRow) -> Answer<'_, DefinitionId> {
        self.call(Asked::Other, move |store| store.define(definition), |_| {})
    }

    fn definition(&self, id: DefinitionId) -> Answer<'_, Option<DefinitionRow>> {
        self.call(Asked::Read, move |store| store.definition(id), |_| {})
    }

    fn definitions(&self, which: Versions) -> Answer<'_, Vec<(DefinitionId, DefinitionRow)>> {
        self.call(Asked::Read, move |store| store.definitions(which), |_| {})
    }

    fn load(&self, run: RunId) -> Answer<'_, Option<RunImage>> {
        self.call(Asked::Read, move |store| store.load(run), |_| {})
    }

    fn inbox(&self, node: NodeId, only: Option<Vec<RunId>>) -> Answer<'_, Vec<InboxRow>> {
        self.call(Asked::Read, move |store| store.inbox(node, only), |_| {})
    }

    fn ends(&self, runs: Vec<RunId>) -> Answer<'_, Vec<(RunId, End)>> {
        self.call(Asked::Read, move |store| store.ends(runs), |_| {})
    }

    fn by_key(&self, workflow: Arc<str>, key: String) -> Answer<'_, Option<RunId>> {
        self.call(Asked::Read, move |store| store.by_key(workflow, key), |_| {})
    }

    fn find(&self, query: Query) -> Answer<'_, Page> {
        self.call(Asked::Read, move |store| store.find(query), |_| {})
    }

    fn count(&self, query: Query, look: usize) -> Answer<'_, Vec<Count>> {
        self.inner.count(query, look)
    }

    fn backlog(&self, look: usize) -> Answer<'_, Backlog> {
        self.inner.backlog(look)
    }

    fn outlines(&self, runs: Vec<RunId>, limit: usize) -> Answer<'_, Vec<(RunId, Vec<StepRow>)>> {
        self.inner.outlines(runs, limit)
    }

    fn tally(&self, add: Vec<Tally>) -> Answer<'_, ()> {
        self.inner.tally(add)
    }

    fn tallies(&self, since: Time) -> Answer<'_, Vec<Tally>> {
        self.inner.tallies(since)
    }

    fn add_log(&self, lines: Vec<LogLine>) -> Answer<'_, ()> {
        self.inner.add_log(lines)
    }

    fn log(&self, run: RunId) -> Answer<'_, Vec<LogLine>> {
        self.inner.log(run)
    }

    fn aged(&self, request: Aged) -> Answer<'_, Vec<AgedRun>> {
        self.call(Asked::Read, move |store| store.aged(request), |_| {})
    }

    fn discard(&self, request: Discard) -> Answer<'_, Vec<Result<(), Refusal>>> {
        self.call(Asked::Other, move |store| store.discard(request), |_| {})
    }

    fn cell(&self, name: Arc<str>) -> Answer<'_, Option<Cell>> {
        self.call(Asked::Read, move |store| store.cell(name), |_| {})
    }

    fn swap_cell(
        &self,
        node: Option<NodeId>,
        name: Arc<str>,
        version: u64,
        body: windlass::bytes::Bytes,
    ) -> Answer<'_, Swapped> {
        self.call(Asked::Other, move |store| store.swap_cell(node, name, version, body), |_| {})
    }

    fn nodes(&self) -> Answer<'_, Vec<NodeRow>> {
        self.call(Asked::Read, |store| store.nodes(), |_| {})
    }

    fn itself(&self) -> Option<&dyn std::any::Any> {
        self.inner.itself()
    }

    fn hints(&self) -> broadcast::Receiver<Hint> {
        self.deaf.as_ref().map_or_else(|| self.inner.hints(), broadcast::Sender::subscribe)
    }
}
