//! Starting runs.

mod bulk;
mod if_taken;
mod seat;

use std::{
    future::Future,
    marker::PhantomData,
    mem,
    pin::Pin,
    sync::{Arc, LazyLock},
    task::{Context, Poll, ready},
    time::Duration,
};

pub use bulk::BulkStart;
use hmac_sha256::Hash;
pub use if_taken::IfTaken;
use seat::{NewSubject, Seat, started};
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::{sync::oneshot, time::Sleep};
use windlass_core::{Failure, RunId, nearest};
use windlass_store::{Act, KeyConflict, KeyLife, NewKey, NewRun, Owner, Refusal, Unit, Written};

use crate::{
    AnyWorkflow, Client, Error, Run, Slot,
    committer::{Fate, Lost, Reply},
    hub::Hub,
    metric,
    node::{Node, Registered},
    options::DEFAULT_QUEUE,
    reserved::{is_reserved, wrong_queue},
    waiters::Waiter,
};

/// What a start asks for.
pub(crate) struct Request {
    pub(crate) workflow: Arc<str>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) input: Result<Slot, Failure>,
    pub(crate) settings: Settings,
    deadline: Option<Duration>,
}

/// What a start may say beside workflow and input.
#[derive(Clone, Default)]
pub(crate) struct Settings {
    pub(crate) key: Option<String>,
    pub(crate) key_life: Option<Duration>,
    pub(crate) or_existing: bool,
    pub(crate) if_taken: Option<IfTaken>,
    pub(crate) queue: Option<Arc<str>>,
    pub(crate) queue_key: Option<Arc<str>>,
    pub(crate) priority: Option<u8>,
    pub(crate) delay: Option<Duration>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) tags: Vec<String>,
    pub(crate) context: Option<Value>,
    pub(crate) trace: Option<String>,
}

/// The priority of a run whose start does not name one: in the middle.
const PRIORITY: u8 = 5;

impl Request {
    pub(crate) fn new<I: Serialize + Send + Sync + 'static>(workflow: AnyWorkflow, input: I) -> Self {
        let definition = workflow.definition();
        Self {
            workflow: Arc::clone(&definition.name),
            timeout: definition.timeout,
            input: Slot::new(input),
            settings: Settings::default(),
            deadline: None,
        }
    }

    pub(crate) fn by_name(workflow: &str, input: Value) -> Self {
        Self {
            workflow: workflow.into(),
            timeout: None,
            input: Slot::new(input),
            settings: Settings::default(),
            deadline: None,
        }
    }
}

/// A start on its way: a future that is ready when the run is durable.
#[must_use = "a run is started by awaiting this"]
pub struct Start<O> {
    state: State,
    output: PhantomData<fn() -> O>,
}

enum State {
    Asking(Client, Request),
    Starting(Starting),
    Over,
}

impl<O> Start<O> {
    pub(crate) fn new(client: Client, request: Request) -> Self {
        Self { state: State::Asking(client, request), output: PhantomData }
    }

    fn set(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        if let State::Asking(_, request) = &mut self.state {
            change(&mut request.settings);
        }
        self
    }

    /// A key that stands for the run within its workflow: starting it again under the same key answers with
    /// the same run, for as long as the run's record is kept. The same key with another input is an error.
    pub fn key(self, key: impl Into<String>) -> Self {
        self.set(|settings| settings.key = Some(key.into()))
    }

    /// For how long the key stands for the run. Default: as long as the run's record is kept.
    pub fn key_for(self, life: Duration) -> Self {
        self.set(|settings| settings.key_life = Some(life))
    }

    /// What happens when a run has the [key](Self::key). Default: the same input answers with that run, and another is an
    /// error.
    pub fn if_taken(self, then: IfTaken) -> Self {
        self.set(|settings| settings.if_taken = Some(then))
    }

    /// Answers with the run that has the key even if its input is another: [`IfTaken::Existing`].
    pub fn or_existing(self) -> Self {
        self.set(|settings| settings.or_existing = true)
    }

    /// The queue that the run waits in, and whose slots its tasks take. Default: `default`.
    pub fn queue(self, queue: impl Into<Arc<str>>) -> Self {
        self.set(|settings| settings.queue = Some(queue.into()))
    }

    /// What the run is counted by within its queue: whose it is, mostly. The keys of a queue take turns, and the queue may
    /// [limit](crate::QueueSetup::per_key) how many runs of one are under way. It is not unique, unlike
    /// [`key`](Self::key). Default: none.
    pub fn queue_key(self, key: impl Into<Arc<str>>) -> Self {
        self.set(|settings| settings.queue_key = Some(key.into()))
    }

    /// From 0 (most urgent) to 9. Default: 5.
    pub fn priority(self, priority: u8) -> Self {
        self.set(|settings| settings.priority = Some(priority))
    }

    /// How long to wait before the run may begin.
    pub fn delay(self, delay: Duration) -> Self {
        self.set(|settings| settings.delay = Some(delay))
    }

    /// The longest that the run may take from the moment it might first run. Default: the workflow's.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.set(|settings| settings.timeout = Some(timeout))
    }

    /// A word to find the run by. May be given several times.
    pub fn tag(self, tag: impl Into<String>) -> Self {
        self.set(|settings| settings.tags.push(tag.into()))
    }

    /// What the run's context starts with: a JSON object.
    pub fn context(self, context: Value) -> Self {
        self.set(|settings| settings.context = Some(context))
    }

    /// The trace that the run belongs to, as a W3C `traceparent`.
    pub fn trace(self, traceparent: impl Into<String>) -> Self {
        self.set(|settings| settings.trace = Some(traceparent.into()))
    }

    /// How long to wait for the database. After that the answer is [`Error::Unknown`]: the run may or may
    /// not exist. Default: as long as it takes.
    pub fn within(mut self, deadline: Duration) -> Self {
        if let State::Asking(_, request) = &mut self.state {
            request.deadline = Some(deadline);
        }
        self
    }
}

impl<O> Future for Start<O> {
    type Output = Result<Run<O>, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if matches!(self.state, State::Asking(..))
            && let State::Asking(client, request) = mem::replace(&mut self.state, State::Over)
        {
            let mut starting = Starting::new(client, request)?;
            let at_once = !starting.fate.is_empty();
            if at_once {
                starting.unheard = Some(Unheard::new(&starting.client));
            }
            self.state = State::Starting(starting);
            if at_once {
                // Committed on this very thread: others on it have their turn before the next.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
        let State::Starting(starting) = &mut self.state else {
            panic!("a start was polled after it was ready")
        };
        let fate = ready!(starting.poll(cx));
        let finished = starting.finish(fate);
        self.state = State::Over;
        Poll::Ready(finished)
    }
}

impl<O> std::fmt::Debug for Start<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Start").finish_non_exhaustive()
    }
}

/// A start that was handed to the committer, or waits for its turn to be.
struct Starting {
    client: Client,
    run: RunId,
    workflow: Arc<str>,
    registered: Option<Arc<Registered>>,
    key: Option<String>,
    /// Taken by the handle.
    waiter: Option<Waiter>,
    /// Set while too many others wait already.
    turn: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    fate: oneshot::Receiver<Fate>,
    /// Set while the caller has not heard of a commit on its own thread.
    unheard: Option<Unheard>,
    deadline: Option<Pin<Box<Sleep>>>,
}

/// A start that was committed on the thread of its caller, who has not heard of it yet.
struct Unheard(Arc<Hub>);

impl Unheard {
    fn new(client: &Client) -> Self {
        client.hub().committer.not_heard_yet();
        Self(Arc::clone(client.hub()))
    }
}

impl Drop for Unheard {
    fn drop(&mut self) {
        self.0.committer.heard();
    }
}

impl Starting {
    /// Hands the run to the committer. From here on it is started, whoever still waits for the answer.
    fn new(client: Client, request: Request) -> Result<Self, Error> {
        let Request { workflow, timeout, input, settings, deadline } = request;
        let hub = client.hub();
        if hub.closed.is_cancelled() {
            return Err(Error::Stopped);
        }
        let run = RunId::new();
        let registered = known(&client, &workflow)?;
        let input = input.map_err(input_error)?;
        let mut new = new_run(client.hub(), &workflow, timeout, &input, &settings)?;
        let seat = client.node().zip(registered.as_ref());
        let seat = seat.and_then(|(node, known)| Seat::take(node, known, run, &new));
        new.owner =
            seat.as_ref().map(|seat| Owner { claim: seat.claim, definition: seat.registered.definition });
        let holder = seat.as_ref().map(|seat| seat.holder);
        let (queue, timeout, key) = (Arc::clone(&new.queue), new.timeout, settings.key.clone());
        let parent = new.parent.as_ref().map(|parent| parent.run);
        let stirs = IfTaken::stirs(&settings).then(|| Arc::clone(hub));
        let context = object(settings.context)?;
        let subject = NewSubject { run, queue, key, parent, input, context, timeout };
        let waiter = Some(hub.waiters.register(run));
        let (sender, fate) = oneshot::channel();
        let claimer = if seat.is_none() { client.node().cloned() } else { None };
        let reply = Reply::Then(started(claimer, seat, subject, stirs, sender));
        let unit = Unit { run, act: Act::Start(Box::new(new)) };
        let turn = if hub.committer.try_turn() {
            hub.committer.submit_in_turn(unit, holder, reply);
            None
        } else {
            let hub = Arc::clone(hub);
            let turn = async move { hub.committer.submit_for_caller(unit, holder, reply).await };
            Some(Box::pin(turn) as Pin<Box<dyn Future<Output = ()> + Send>>)
        };
        let deadline = deadline.map(|deadline| Box::pin(tokio::time::sleep(deadline)));
        let key = settings.key;
        Ok(Self { client, run, workflow, registered, key, waiter, turn, fate, unheard: None, deadline })
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Fate, Error>> {
        self.unheard = None;
        if let Some(turn) = &mut self.turn
            && turn.as_mut().poll(cx).is_ready()
        {
            self.turn = None;
        }
        if let Poll::Ready(fate) = Pin::new(&mut self.fate).poll(cx) {
            return Poll::Ready(fate.map_err(|_| Error::Stopped));
        }
        match &mut self.deadline {
            Some(deadline) => deadline.as_mut().poll(cx).map(|()| Err(Error::Unknown { run_id: self.run })),
            None => Poll::Pending,
        }
    }

    fn finish<O>(&mut self, fate: Result<Fate, Error>) -> Result<Run<O>, Error> {
        let (client, run, workflow) = (self.client.clone(), self.run, Arc::clone(&self.workflow));
        match fate? {
            Ok(Written::Existing { run: existing }) if existing != run => {
                Ok(Run::new(client, existing, workflow))
            }
            Ok(_) => {
                match &self.registered {
                    Some(registered) => registered.meters.started(),
                    None => metric::run_started(&workflow),
                }
                Ok(Run::waited_for(client, run, workflow, self.waiter.take()))
            }
            Err(Lost::Refused(refusal)) => Err(refused(run, &workflow, self.key.take(), refusal)),
            Err(Lost::Failed(error)) => Err(error.into()),
            Err(Lost::Fenced) => Err(Error::Stopped),
        }
    }
}

fn refused(run: RunId, workflow: &str, key: Option<String>, refusal: Refusal) -> Error {
    match refusal {
        Refusal::KeyTaken { run } => {
            Error::KeyTaken { workflow: workflow.to_owned(), key: key.unwrap_or_default(), run }
        }
        other => Error::refused(run, other),
    }
}

fn input_error(failure: Failure) -> Error {
    Error::Encode { what: "the input".to_owned(), why: failure.to_string() }
}

/// The workflow as this engine knows it; `None` for a client.
fn known(client: &Client, workflow: &Arc<str>) -> Result<Option<Arc<Registered>>, Error> {
    refuse_reserved(workflow)?;
    client.node().map(|node| registered(node, workflow)).transpose()
}

/// Nobody starts what is the engine's own.
pub(crate) fn refuse_reserved(workflow: &str) -> Result<(), Error> {
    match is_reserved(workflow) {
        true => Err(Error::Invalid(format!("`{workflow}` is the engine's own, and not started by name"))),
        false => Ok(()),
    }
}

/// The workflow of this name, as this node knows it.
pub(crate) fn registered(node: &Node, workflow: &Arc<str>) -> Result<Arc<Registered>, Error> {
    refuse_reserved(workflow)?;
    match node.registry.get(workflow) {
        Some(registered) => Ok(Arc::clone(registered)),
        None => Err(Error::UnknownWorkflow {
            name: workflow.to_string(),
            nearest: nearest(workflow, node.registry.keys().map(|name| &**name)).map(str::to_owned),
        }),
    }
}

pub(crate) fn new_run(
    hub: &Hub,
    workflow: &Arc<str>,
    timeout: Option<Duration>,
    input: &Slot,
    settings: &Settings,
) -> Result<NewRun, Error> {
    let priority = settings.priority.unwrap_or(PRIORITY);
    if priority > 9 {
        return Err(Error::Invalid(format!(
            "priority {priority} does not exist: 0 is the most urgent, 9 the least"
        )));
    }
    let queue = settings.queue.clone().unwrap_or_else(default_queue);
    if let Some(why) = wrong_queue(&queue).filter(|_| !is_reserved(workflow)) {
        return Err(Error::Invalid(why));
    }
    let context = match object(settings.context.clone())? {
        map if map.is_empty() => None,
        map => {
            let encode =
                |why: serde_json::Error| Error::Encode { what: "the context".into(), why: why.to_string() };
            Some(hub.keep(format_args!("the context"), serde_json::to_vec(&map).map_err(encode)?.into())?)
        }
    };
    let key = settings.key.as_ref().map(|key| NewKey {
        key: key.clone(),
        digest: digest(input.bytes()),
        life: settings.key_life.map_or(KeyLife::Kept, KeyLife::For),
        conflict: KeyConflict::Refuse,
    });
    let key = match key {
        Some(key) => Some(NewKey { conflict: IfTaken::conflict(settings, hub, &key.key)?, ..key }),
        None if settings.if_taken.is_some() => return Err(Error::Invalid(if_taken::WITHOUT_KEY.into())),
        None => None,
    };
    Ok(NewRun {
        workflow: Arc::clone(workflow),
        queue,
        queue_key: settings.queue_key.clone(),
        priority,
        delay: settings.if_taken.and_then(IfTaken::delay).or(settings.delay),
        timeout: settings.timeout.or(timeout),
        input: hub.keep(format_args!("the input"), input.bytes().clone())?,
        context,
        key,
        tags: settings.tags.clone(),
        forked_from: None,
        trace: settings.trace.clone(),
        parent: None,
        steps: Vec::new(),
        owner: None,
    })
}

/// The default queue's name, without a new allocation for each run.
fn default_queue() -> Arc<str> {
    static NAME: LazyLock<Arc<str>> = LazyLock::new(|| DEFAULT_QUEUE.into());
    Arc::clone(&NAME)
}

fn object(context: Option<Value>) -> Result<Map<String, Value>, Error> {
    match context {
        None => Ok(Map::new()),
        Some(Value::Object(map)) => Ok(map),
        Some(other) => Err(Error::Invalid(format!("the context must be a JSON object, not {other}"))),
    }
}

fn digest(json: &[u8]) -> [u8; 16] {
    let mut digest = [0; 16];
    digest.copy_from_slice(&Hash::hash(json)[..16]);
    digest
}
