//! A store between the engine and the real one, which does things to calls on purpose.

use std::{
    future::pending,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::sync::{RwLock, broadcast};
use tokio_util::sync::CancellationToken;
use windlass_core::{NodeId, RunId};
use windlass_store::{
    Act, Answer, Claim, Claimed, Death, DefinitionId, DefinitionRow, End, Heartbeat, Hint, InboxRow, Joined,
    NewNode, NodeRow, Page, Query, Refusal, RunImage, Store, StoreError, Swept, Unit, Written,
};

/// A call that changes something, as a test may want to know it.
#[derive(Clone, Debug)]
pub enum Asked {
    Join(NodeId),
    Heartbeat(NodeId),
    Leave(NodeId),
    Commit(Option<NodeId>, Arc<Vec<Unit>>),
    Claim(NodeId),
    /// Declaring dead, sweeping, unblocking, defining.
    Other,
    Read,
}

impl Asked {
    /// Whether this is a commit with an act like this.
    pub fn commits(&self, is: impl Fn(&Act) -> bool) -> bool {
        matches!(self, Self::Commit(_, batch) if batch.iter().any(|unit| is(&unit.act)))
    }
}

/// What becomes of a call.
#[derive(Clone, Debug)]
pub enum Fault {
    /// It goes on.
    None,
    /// It never arrives, and is never answered.
    Silent,
    /// It does not arrive, and the caller is told so.
    Refused,
    /// It is done, and the caller is told that it failed.
    AnswerLost,
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
    observer: Mutex<Option<Observer>>,
    stopwatch: Mutex<Option<Stopwatch>>,
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
            observer: Mutex::default(),
            stopwatch: Mutex::default(),
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

    fn call<'a, T: Send + 'a>(
        &'a self,
        asked: Asked,
        call: impl FnOnce() -> Answer<'a, T> + Send + 'a,
    ) -> Answer<'a, T> {
        let hook = Arc::clone(&self.hook.lock());
        let failed = || StoreError::Unavailable("a fault on purpose".to_owned());
        match hook(&asked) {
            Fault::None => self.go_on(&asked, call),
            Fault::Silent => Box::pin(pending()),
            Fault::Refused => Box::pin(async move { Err(failed()) }),
            Fault::AnswerLost => {
                let answer = self.go_on(&asked, call);
                Box::pin(async move { answer.await.and(Err(failed())) })
            }
            Fault::HeldUntil(token) => Box::pin(async move {
                token.cancelled().await;
                self.go_on(&asked, call).await
            }),
            Fault::Alone(act) => Box::pin(async move {
                let alone = self.busy.write().await;
                act();
                let answer = call();
                drop(alone);
                answer.await
            }),
        }
    }

    /// Hands the call on, at once unless somebody wants to be alone.
    fn go_on<'a, T: Send + 'a>(
        &'a self,
        asked: &Asked,
        call: impl FnOnce() -> Answer<'a, T> + Send + 'a,
    ) -> Answer<'a, T> {
        if let Asked::Read = asked {
            return call();
        }
        match Arc::clone(&self.busy).try_read_owned() {
            Ok(busy) => {
                let answer = call();
                Box::pin(async move {
                    let answer = answer.await;
                    drop(busy);
                    answer
                })
            }
            Err(_) => Box::pin(async move {
                let _busy = self.busy.read().await;
                call().await
            }),
        }
    }
}

impl Store for Faulty {
    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn join(&self, node: NewNode) -> Answer<'_, Joined> {
        self.call(Asked::Join(node.id), || self.inner.join(node))
    }

    fn heartbeat(&self, node: NodeId, running: u32) -> Answer<'_, Heartbeat> {
        let began = Instant::now();
        let answer = self.call(Asked::Heartbeat(node), move || self.inner.heartbeat(node, running));
        Box::pin(async move {
            let answer = answer.await;
            if let Some(stopwatch) = &*self.stopwatch.lock() {
                stopwatch(began.elapsed());
            }
            answer
        })
    }

    fn leave(&self, node: NodeId) -> Answer<'_, ()> {
        self.call(Asked::Leave(node), move || self.inner.leave(node))
    }

    fn declare_dead(&self, judge: NodeId, condemned: NodeId, why: Death) -> Answer<'_, bool> {
        self.call(Asked::Other, move || self.inner.declare_dead(judge, condemned, why))
    }

    fn sweep(&self, judge: NodeId, limit: usize) -> Answer<'_, Swept> {
        self.call(Asked::Other, move || self.inner.sweep(judge, limit))
    }

    fn commit(
        &self,
        node: Option<NodeId>,
        batch: Arc<Vec<Unit>>,
    ) -> Answer<'_, Vec<Result<Written, Refusal>>> {
        let asked = Asked::Commit(node, Arc::clone(&batch));
        let units = Arc::clone(&batch);
        let answer = self.call(asked, move || self.inner.commit(node, batch));
        Box::pin(async move {
            let fate = answer.await;
            if let Some(observer) = &*self.observer.lock() {
                observer(node, &units, &fate);
            }
            fate
        })
    }

    fn claim(&self, request: Claim) -> Answer<'_, Claimed> {
        self.call(Asked::Claim(request.node), move || self.inner.claim(request))
    }

    fn unblock(&self, node: NodeId, workflows: Vec<(Arc<str>, DefinitionId)>) -> Answer<'_, usize> {
        self.call(Asked::Other, move || self.inner.unblock(node, workflows))
    }

    fn define(&self, definition: DefinitionRow) -> Answer<'_, DefinitionId> {
        self.call(Asked::Other, move || self.inner.define(definition))
    }

    fn definition(&self, id: DefinitionId) -> Answer<'_, Option<DefinitionRow>> {
        self.call(Asked::Read, move || self.inner.definition(id))
    }

    fn load(&self, run: RunId) -> Answer<'_, Option<RunImage>> {
        self.call(Asked::Read, move || self.inner.load(run))
    }

    fn inbox(&self, node: NodeId) -> Answer<'_, Vec<InboxRow>> {
        self.call(Asked::Read, move || self.inner.inbox(node))
    }

    fn ends(&self, runs: Vec<RunId>) -> Answer<'_, Vec<(RunId, End)>> {
        self.call(Asked::Read, move || self.inner.ends(runs))
    }

    fn by_key(&self, workflow: Arc<str>, key: String) -> Answer<'_, Option<RunId>> {
        self.call(Asked::Read, move || self.inner.by_key(workflow, key))
    }

    fn find(&self, query: Query) -> Answer<'_, Page> {
        self.call(Asked::Read, move || self.inner.find(query))
    }

    fn nodes(&self) -> Answer<'_, Vec<NodeRow>> {
        self.call(Asked::Read, move || self.inner.nodes())
    }

    fn hints(&self) -> broadcast::Receiver<Hint> {
        self.deaf.as_ref().map_or_else(|| self.inner.hints(), broadcast::Sender::subscribe)
    }
}
