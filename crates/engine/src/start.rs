//! Starting runs.

use std::{
    collections::HashMap,
    future::Future,
    marker::PhantomData,
    mem,
    pin::Pin,
    sync::{Arc, LazyLock},
    task::{Context, Poll, ready},
    time::Duration,
};

use hmac_sha256::Hash;
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::{sync::oneshot, task::JoinHandle, time::Sleep};
use windlass_core::{ClaimId, Failure, NodeId, RunId, Seed, Time, nearest};
use windlass_store::{
    Act, KeyConflict, KeyLife, NewKey, NewRun, Owner, Place, Refusal, RunImage, StoreError, Unit, Written,
};

use crate::{
    AnyWorkflow, Client, Error, Run, Slot,
    committer::{Fate, Lost, Reply, Thread},
    metric,
    node::{Node, Registered},
    options::DEFAULT_QUEUE,
    outputs::Outputs,
    run_loop::{Mail, RunCell, RunLoop, Subject},
    take_up::take_up,
    waiters::Waiter,
};

/// How many runs one transaction of a bulk start writes.
const BULK: usize = 1000;

/// What a start asks for.
pub(crate) struct Request {
    workflow: Arc<str>,
    timeout: Option<Duration>,
    input: Result<Slot, Failure>,
    settings: Settings,
    deadline: Option<Duration>,
}

/// What a start may say beside workflow and input.
#[derive(Clone, Default)]
struct Settings {
    key: Option<String>,
    key_life: Option<Duration>,
    or_existing: bool,
    queue: Option<Arc<str>>,
    priority: Option<u8>,
    delay: Option<Duration>,
    timeout: Option<Duration>,
    tags: Vec<String>,
    context: Option<Value>,
    trace: Option<String>,
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

    /// Answers with the run that has the key even if its input is another.
    pub fn or_existing(self) -> Self {
        self.set(|settings| settings.or_existing = true)
    }

    /// The queue that the run waits in, and whose slots its tasks take. Default: `default`.
    pub fn queue(self, queue: impl Into<Arc<str>>) -> Self {
        self.set(|settings| settings.queue = Some(queue.into()))
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
            self.state = State::Starting(Starting::new(client, request)?);
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
    deadline: Option<Pin<Box<Sleep>>>,
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
        let mut new = new_run(&client, &workflow, timeout, &input, &settings)?;
        let seat = client.node().zip(registered.as_ref());
        let seat = seat.and_then(|(node, known)| Seat::take(node, known, run, &new));
        new.owner =
            seat.as_ref().map(|seat| Owner { claim: seat.claim, definition: seat.registered.definition });
        let holder = seat.as_ref().map(|seat| seat.holder);
        let (queue, timeout, key) = (Arc::clone(&new.queue), new.timeout, settings.key.clone());
        let subject = NewSubject { run, queue, key, input, context: object(settings.context)?, timeout };
        let waiter = Some(hub.waiters.register(run));
        let (sender, fate) = oneshot::channel();
        let claimer = if seat.is_none() { client.node().cloned() } else { None };
        let reply = Reply::Then(started(claimer, seat, subject, sender));
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
        Ok(Self { client, run, workflow, registered, key, waiter, turn, fate, deadline })
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Fate, Error>> {
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

/// What follows from the answer to a start.
fn started(
    claimer: Option<Arc<Node>>,
    seat: Option<Seat>,
    subject: NewSubject,
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

fn input_error(failure: Failure) -> Error {
    Error::Encode { what: "the input".to_owned(), why: failure.to_string() }
}

/// The workflow as this engine knows it; `None` for a client.
fn known(client: &Client, workflow: &Arc<str>) -> Result<Option<Arc<Registered>>, Error> {
    let Some(node) = client.node() else { return Ok(None) };
    match node.registry.get(workflow) {
        Some(registered) => Ok(Some(Arc::clone(registered))),
        None => Err(Error::UnknownWorkflow {
            name: workflow.to_string(),
            nearest: nearest(workflow, node.registry.keys().map(|name| &**name)).map(str::to_owned),
        }),
    }
}

fn new_run(
    client: &Client,
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
    let hub = client.hub();
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
        conflict: if settings.or_existing { KeyConflict::ReturnExisting } else { KeyConflict::Refuse },
    });
    Ok(NewRun {
        workflow: Arc::clone(workflow),
        queue: settings.queue.clone().unwrap_or_else(default_queue),
        priority,
        delay: settings.delay,
        timeout: settings.timeout.or(timeout),
        input: hub.keep(format_args!("the input"), input.bytes().clone())?,
        context,
        key,
        tags: settings.tags.clone(),
        forked_from: None,
        trace: settings.trace.clone(),
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

/// Room on this node for a run that is being started.
struct Seat {
    node: Arc<Node>,
    holder: NodeId,
    claim: ClaimId,
    registered: Arc<Registered>,
    taken: bool,
}

/// What the node needs to know of the run besides.
struct NewSubject {
    run: RunId,
    queue: Arc<str>,
    key: Option<String>,
    input: Slot,
    context: Map<String, Value>,
    timeout: Option<Duration>,
}

impl Seat {
    /// Takes room, if this node would run the run at once.
    fn take(node: &Arc<Node>, registered: &Arc<Registered>, run: RunId, new: &NewRun) -> Option<Self> {
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
            context: new.context,
            steps: Vec::new(),
        };
        let subject = Subject {
            run: new.run,
            claim: self.claim,
            holder: self.holder,
            generation: 1,
            queue: new.queue,
            key: new.key,
            input: new.input,
            registered: Arc::clone(&self.registered),
        };
        let outputs = Outputs::new(seed.plan.definition.tasks.len());
        match windlass_core::Run::new(seed) {
            Ok(run) => Some(RunCell::hold(node, subject, RunLoop::new(run, outputs, HashMap::new()))),
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
                    tracing::error!(%run, %error, "who owns a new run cannot be read back; it waits for this node's end");
                    return;
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
                    take_up(node, owner, self.claim, image).await;
                }
                // Anyone may claim it, this node too.
                _ => node.claim.notify_one(),
            }
        };
        node.user.spawn(reading);
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

/// Many starts on their way: a future that is ready when all of them are durable.
#[must_use = "runs are started by awaiting this"]
pub struct BulkStart<I> {
    client: Client,
    workflow: Arc<str>,
    timeout: Option<Duration>,
    inputs: Vec<I>,
    settings: Settings,
    key: Option<KeyOf<I>>,
}

/// Makes a run's key from its input.
type KeyOf<I> = Box<dyn Fn(&I) -> String + Send>;

impl<I: Serialize + Send + Sync + 'static> BulkStart<I> {
    pub(crate) fn new(client: Client, workflow: AnyWorkflow, inputs: impl IntoIterator<Item = I>) -> Self {
        let definition = workflow.definition();
        Self {
            client,
            workflow: Arc::clone(&definition.name),
            timeout: definition.timeout,
            inputs: inputs.into_iter().collect(),
            settings: Settings::default(),
            key: None,
        }
    }

    /// The key of each run, made from its input: see [`Start::key`].
    pub fn key(mut self, key: impl Fn(&I) -> String + Send + 'static) -> Self {
        self.key = Some(Box::new(key));
        self
    }

    /// The queue of all of them. Default: `default`.
    pub fn queue(mut self, queue: impl Into<Arc<str>>) -> Self {
        self.settings.queue = Some(queue.into());
        self
    }

    /// The priority of all of them, from 0 (most urgent) to 9. Default: 5.
    pub fn priority(mut self, priority: u8) -> Self {
        self.settings.priority = Some(priority);
        self
    }

    /// How long they wait before they may begin.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.settings.delay = Some(delay);
        self
    }

    /// The longest that each may take.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = Some(timeout);
        self
    }

    /// A word to find all of them by. May be given several times.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.settings.tags.push(tag.into());
        self
    }

    async fn begin(self) -> Result<Vec<RunId>, Error> {
        let Self { client, workflow, timeout, inputs, mut settings, key } = self;
        known(&client, &workflow)?;
        let mut ids = Vec::with_capacity(inputs.len());
        let mut inputs = inputs.into_iter();
        let mut writing: Option<JoinHandle<Result<Vec<RunId>, Error>>> = None;
        loop {
            // The next portion is encoded while the one before is being written.
            let mut units = Vec::new();
            for input in inputs.by_ref().take(BULK) {
                settings.key = key.as_ref().map(|key| key(&input));
                let input = Slot::new(input).map_err(input_error)?;
                let new = new_run(&client, &workflow, timeout, &input, &settings)?;
                units.push(Unit { run: RunId::new(), act: Act::Start(Box::new(new)) });
            }
            if let Some(writing) = writing.take() {
                // It ends early only with the runtime.
                ids.extend(writing.await.map_err(|_| Error::Stopped)??);
            }
            if units.is_empty() {
                return Ok(ids);
            }
            writing = Some(tokio::spawn(write_bulk(client.clone(), Arc::clone(&workflow), units)));
        }
    }
}

/// Writes one portion of a bulk start, again if the store was out of reach: ids and keys make that
/// harmless.
async fn write_bulk(client: Client, workflow: Arc<str>, units: Vec<Unit>) -> Result<Vec<RunId>, Error> {
    let units = Arc::new(units);
    let mut pause = Duration::from_millis(10);
    let answers = loop {
        match client.hub().store.commit(None, Arc::clone(&units)).await {
            Ok(answers) => break answers,
            Err(error) if error.is_temporary() && !client.hub().closed.is_cancelled() => {
                tracing::warn!(runs = units.len(), %error, "a bulk start failed; trying again");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(1));
            }
            Err(StoreError::Closed) => return Err(Error::Stopped),
            Err(error) => return Err(error.into()),
        }
    };
    if let Some(node) = client.node() {
        node.claim.notify_one();
    }
    let written = units.iter().zip(answers).map(|(unit, answer)| match answer {
        Ok(Written::Existing { run }) => Ok(run),
        Ok(_) => Ok(unit.run),
        Err(refusal) => {
            let key = match &unit.act {
                Act::Start(new) => new.key.as_ref().map(|key| key.key.clone()),
                _ => None,
            };
            Err(refused(unit.run, &workflow, key, refusal))
        }
    });
    written.collect()
}

impl<I: Serialize + Send + Sync + 'static> IntoFuture for BulkStart<I> {
    type Output = Result<Vec<RunId>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.begin())
    }
}

impl<I> std::fmt::Debug for BulkStart<I> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BulkStart")
            .field("workflow", &self.workflow)
            .field("runs", &self.inputs.len())
            .finish_non_exhaustive()
    }
}
