//! The engine: from a builder to a process that runs workflows, and its end.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Display,
    future::Future,
    ops::Deref,
    str::FromStr,
    sync::Arc,
    time::Duration,
};

use tokio::time::{Instant, sleep, timeout, timeout_at};
use windlass_store::{DefinitionId, DefinitionRow, Store};

use crate::{
    AnyWorkflow, Client, Codec, Compressed, Error, Executor, Failure, ForeignWaits, Overdue, Resources,
    Retention,
    authoring::transaction,
    backroom::Backroom,
    boxed::boxed,
    claimer::Claimer,
    codec::Guarded,
    discard::Archive,
    heart::Heart,
    hub::{Hub, PAYLOAD_LIMIT},
    identity::Identity,
    input_schema,
    janitor::Janitor,
    machine::{BreakerState, Health, Managed, Observer, Wardens},
    node::{Node, Registered, Saboteur},
    options::{DEFAULT_QUEUE, Options},
    outpost::Outpost,
    reserved::{RESERVED, is_reserved, wrong_queue},
    routes::{self, Rule},
    run_loop::Mail,
    settings,
    watcher::Watcher,
};

/// Runs workflows in this process, and is a [`Client`] to start and steer them.
///
/// It is cheap to clone. Call [`stop`](Self::stop) before the program ends: it hands over what is not done.
/// A program that is killed instead loses nothing either; others, or its next start, take over.
#[derive(Clone)]
pub struct Engine {
    client: Client,
    node: Arc<Node>,
}

impl Engine {
    /// Sets up an engine on the database at `url`: `sqlite://path/to/file.db` (or just the path), or
    /// `sqlite::memory:` for a trial that leaves nothing behind.
    pub fn open(url: impl Into<String>) -> EngineBuilder {
        EngineBuilder::new(Place::Url(url.into()))
    }

    /// Sets up an engine on a store that is open already.
    pub fn over(store: Arc<dyn Store>) -> EngineBuilder {
        EngineBuilder::new(Place::Store(store))
    }

    /// A client that shares this engine's way to the database.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Attempts that are past their limit and cannot be stopped, because their code does not yield.
    #[must_use]
    pub fn overdue(&self) -> Vec<Overdue> {
        self.node.watchdog.overdue(self.client.hub().clock.now())
    }

    /// Whether the managed resources can be used, in the order in which they were given.
    pub fn health(&self) -> impl Future<Output = Vec<Health>> + Send {
        boxed(self.node.wardens.health())
    }

    /// The circuit breakers of state machines that were asked in this process so far, by name.
    #[must_use]
    pub fn breakers(&self) -> Vec<(String, BreakerState)> {
        self.node.guards.breakers(self.client.hub().clock.now())
    }

    /// Stops in two phases. Softly: nothing new starts, what executes may finish within `stop_grace`, and
    /// everything is committed and handed over. Then hard: what still executes is stopped; its attempts do not
    /// count.
    ///
    /// It always returns within `stop_grace` and a few seconds, even when the database is out of reach.
    /// Stopping again while it is under way makes it hard at once; stopping a stopped engine is harmless.
    ///
    /// # Errors
    ///
    /// When something could not be handed over; the error says what. Others take it over when this process
    /// is gone.
    pub fn stop(&self) -> impl Future<Output = Result<(), Error>> + Send {
        boxed(self.stop_within(self.node.options.stop_grace))
    }

    /// Stops at once: what executes is stopped without waiting for it.
    ///
    /// # Errors
    ///
    /// As [`stop`](Self::stop).
    pub fn stop_now(&self) -> impl Future<Output = Result<(), Error>> + Send {
        boxed(self.stop_within(Duration::ZERO))
    }

    async fn stop_within(&self, grace: Duration) -> Result<(), Error> {
        /// What the hand-over itself may take.
        const HANDOVER: Duration = Duration::from_secs(3);
        let node = &self.node;
        let grace = if node.stopping.is_cancelled() { Duration::ZERO } else { grace };
        node.stopping.cancel();
        node.tell_all(|| Mail::Halt);
        node.guests.all().iter().for_each(|guest| guest.call_off());
        let soft = Instant::now() + grace;
        if timeout_at(soft, self.idle()).await.is_err() {
            node.tell_all(|| Mail::GiveUp);
            node.guests.give_up();
        }
        let idle = timeout(HANDOVER, self.idle()).await.is_ok();
        let left = self.leave(HANDOVER).await;
        let torn_down = match timeout(HANDOVER, node.wardens.tear_down()).await {
            Ok(problems) => problems,
            Err(_) => vec!["a managed resource takes too long to be torn down".to_owned()],
        };
        let hub = self.client.hub();
        if timeout(HANDOVER, hub.scribe.write(&*hub.store)).await.is_err() {
            tracing::debug!("the last counts and lines were not written: the database does not answer");
        }
        hub.closed.cancel();
        let held = node.held();
        match (idle, left) {
            (true, Ok(())) if torn_down.is_empty() => Ok(()),
            (true, Ok(())) => {
                Err(Error::Unavailable(format!("the engine stopped, but {}", torn_down.join("; "))))
            }
            (_, left) => {
                for problem in torn_down {
                    tracing::error!("{problem}");
                }
                let why = left.err().map(|error| format!(" ({error})")).unwrap_or_default();
                let what = match held {
                    0 => "and could not say so".to_owned(),
                    held => format!("with {held} runs in hand"),
                };
                Err(Error::Unavailable(format!(
                    "the engine stopped {what}{why}; what it held goes on when this process is gone"
                )))
            }
        }
    }

    /// Waits until no run is held, nothing is executed for others, no blocking code executes, and everything is written.
    async fn idle(&self) {
        loop {
            let released = self.node.released.notified();
            tokio::pin!(released);
            released.as_mut().enable();
            let silent = self.node.is_silent() && self.node.blocking.is_empty();
            if silent && self.client.hub().committer.is_idle() {
                return;
            }
            // A unit that is in flight says nothing when it is done; look again.
            timeout(Duration::from_millis(20), released).await.ok();
        }
    }

    /// Takes this node out of the cluster. Runs whose blocking code still executes stay held, so that nobody
    /// else runs them meanwhile.
    async fn leave(&self, patience: Duration) -> Result<(), Error> {
        /// After how long a database that was out of reach is asked again.
        const AGAIN: Duration = Duration::from_millis(200);
        self.node.leaving.cancel();
        // One whose lease ran out while the database was out of reach holds its runs until the database knows.
        let Some(id) = self.client.hub().identity.last() else { return Ok(()) };
        if !self.node.blocking.is_empty() {
            return Err(Error::Unavailable("blocking code is still running".to_owned()));
        }
        let end = Instant::now() + patience;
        loop {
            match timeout_at(end, self.client.hub().store.leave(id)).await {
                Ok(Ok(()) | Err(windlass_store::StoreError::Fenced)) => {
                    self.client.hub().identity.give_up(id);
                    return Ok(());
                }
                Ok(Err(error)) if error.is_temporary() && Instant::now() + AGAIN < end => sleep(AGAIN).await,
                Ok(Err(error)) => return Err(error.into()),
                Err(_) => return Err(Error::deadline("leaving", patience)),
            }
        }
    }

    #[cfg(feature = "testing")]
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.node, &other.node)
    }

    /// Ends every service at once and hands nothing over, as if the process had died.
    #[cfg(feature = "testing")]
    pub(crate) fn crash(&self) {
        self.node.stopping.cancel();
        self.client.hub().closed.cancel();
        if let Some(id) = self.node.id() {
            self.client.hub().identity.lose(Some(id));
        }
        self.node.tell_all(|| Mail::Vanish);
        self.node.guests.all().iter().for_each(|guest| guest.vanish());
    }
}

impl Deref for Engine {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("store", &self.client.hub().store.describe()).finish_non_exhaustive()
    }
}

enum Place {
    Url(String),
    Store(Arc<dyn Store>),
}

/// An engine that is being set up. [`launch`](Self::launch) checks everything at once.
#[must_use = "an engine runs nothing before it is launched"]
pub struct EngineBuilder {
    place: Place,
    options: Options,
    workflows: Vec<AnyWorkflow>,
    resources: Resources,
    codec: Arc<dyn Codec>,
    payload_limit: usize,
    settings: Vec<settings::Check>,
    /// The queues that are served and no others, if that was said.
    served: Option<Vec<Arc<str>>>,
    rules: Vec<Rule>,
    executors: HashMap<Arc<str>, Arc<dyn Executor>>,
    wardens: Wardens,
    observers: Vec<Box<dyn Observer>>,
    #[cfg(feature = "schedule")]
    triggers: Vec<crate::trigger::Trigger>,
    #[cfg(feature = "testing")]
    lab: Option<(Arc<crate::testing::Shared>, windlass_store::Memory)>,
}

impl EngineBuilder {
    fn new(place: Place) -> Self {
        Self {
            place,
            options: Options::default(),
            workflows: Vec::new(),
            resources: Resources::default(),
            codec: Arc::new(Compressed::default()),
            payload_limit: PAYLOAD_LIMIT,
            settings: Vec::new(),
            served: None,
            rules: Vec::new(),
            executors: HashMap::new(),
            wardens: Wardens::default(),
            observers: Vec::new(),
            #[cfg(feature = "schedule")]
            triggers: Vec::new(),
            #[cfg(feature = "testing")]
            lab: None,
        }
    }

    fn set(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(&mut self.options);
        self
    }

    /// Lets this engine run a workflow.
    pub fn workflow(mut self, workflow: impl Into<AnyWorkflow>) -> Self {
        self.workflows.push(workflow.into());
        self
    }

    /// Lets this engine ask a trigger: see [`trigger`](mod@crate::trigger). Of several that have it, one asks at a time.
    #[cfg(feature = "schedule")]
    pub fn trigger(mut self, trigger: crate::trigger::Trigger) -> Self {
        self.triggers.push(trigger);
        self
    }

    /// A value that tasks get by its type, as `Res<T>`.
    pub fn resource<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.resources.insert(value);
        self
    }

    /// A value that tasks get by its type, as `Res<T>`, and that the rest of the program goes on using.
    pub fn shared<T: Send + Sync + 'static>(mut self, value: Arc<T>) -> Self {
        self.resources.share(value);
        self
    }

    /// A value that tasks get by its type, as `Res<T>`, and that is set up when the engine is launched and torn down when
    /// it is stopped. Of several, the first is set up first and torn down last.
    pub fn managed<T: Managed>(mut self, value: T) -> Self {
        let value = Arc::new(value);
        self.wardens.add(Arc::clone(&value) as _);
        self.shared(value)
    }

    /// Has somebody told how state machines go from state to state in this process.
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.observers.push(Box::new(observer));
        self
    }

    /// A name for this instance: when a process of the same name starts, its predecessor is fenced at once.
    /// Default: none, so that any number of processes may run.
    pub fn name(self, name: impl Into<String>) -> Self {
        self.set(|options| options.name = Some(name.into()))
    }

    /// The version of this program, shown with the node. Default: empty.
    pub fn version(self, version: impl Into<String>) -> Self {
        self.set(|options| options.version = version.into())
    }

    /// Serves a queue beside `default`, with this many slots: the attempts that this node executes at once
    /// in it. For `default` it sets the number of slots.
    pub fn queue(self, name: impl Into<Arc<str>>, slots: usize) -> Self {
        self.set(|options| {
            options.queues.insert(name.into(), slots);
        })
    }

    /// Serves these queues: this node takes runs and published tasks that wait in them. Those that
    /// [`queue`](Self::queue) or [`executor`](Self::executor) names are served besides. Default: `default`.
    pub fn serve<Q: Into<Arc<str>>>(mut self, queues: impl IntoIterator<Item = Q>) -> Self {
        self.served.get_or_insert_default().extend(queues.into_iter().map(Into::into));
        self
    }

    /// Sends tasks to a queue, for any node that serves it to execute, whatever their code says. `tasks` is compared
    /// with `workflow.task`; `*` stands for any text, and `?` for one character. Of several rules that fit a task the
    /// first counts. Give all engines the same rules: the one that holds the run decides.
    pub fn route(mut self, tasks: impl Into<String>, queue: impl Into<Arc<str>>) -> Self {
        self.rules.push(Rule { pattern: tasks.into(), queue: queue.into() });
        self
    }

    /// Hands the tasks that this node takes from a queue to an [`Executor`], in place of their own code. The queue is
    /// served, with as many slots as [`queue`](Self::queue) says.
    pub fn executor(mut self, queue: impl Into<Arc<str>>, executor: impl Executor) -> Self {
        self.executors.insert(queue.into(), Arc::new(executor));
        self
    }

    /// The slots of queues that are not set otherwise. Default: 1,000.
    pub fn slots(self, slots: usize) -> Self {
        self.set(|options| options.slots = slots)
    }

    /// How many runs this node holds at once. Default: 1,000. Parked runs do not count, and up to half as many
    /// may be there beside them whose end is being written.
    pub fn max_runs(self, runs: usize) -> Self {
        self.set(|options| options.max_runs = runs)
    }

    /// How often this node says that it lives. Default: 5 s.
    pub fn heartbeat(self, every: Duration) -> Self {
        self.set(|options| options.heartbeat = every)
    }

    /// After how long without a heartbeat others may declare this node dead and take over its runs. At
    /// least three heartbeats. Default: 30 s.
    pub fn stale_after(self, after: Duration) -> Self {
        self.set(|options| options.stale_after = after)
    }

    /// A run that waits longer than this for a retry or a deferred task is parked: it costs no memory.
    /// Default: 2 s.
    pub fn park_after(self, after: Duration) -> Self {
        self.set(|options| options.park_after = after)
    }

    /// What happens when a durable function waits for something that is not recorded. Default: it is logged.
    pub fn foreign_waits(self, what: ForeignWaits) -> Self {
        self.set(|options| options.foreign = what)
    }

    /// How long an attempt may tidy up after it was asked to stop, before it is dropped. Default: 10 s.
    pub fn cancel_grace(self, grace: Duration) -> Self {
        self.set(|options| options.cancel_grace = grace)
    }

    /// How long [`Engine::stop`] lets what executes finish. Default: 30 s.
    pub fn stop_grace(self, grace: Duration) -> Self {
        self.set(|options| options.stop_grace = grace)
    }

    /// How many deaths of its process in a row, with the same step started, a run survives. One more, and it
    /// is abandoned. Default: 5.
    pub fn max_recoveries(self, deaths: u32) -> Self {
        self.set(|options| options.max_recoveries = deaths)
    }

    /// How long runs are kept after they have ended. Older ones are discarded in the background, a few at a time. Give all
    /// engines on a database the same: any of them may do it. Default: 7 days for what completed, 30 for the rest.
    ///
    /// A run is kept in any case while a parent has not heard of its end.
    pub fn retention(self, retention: Retention) -> Self {
        self.set(|options| options.retention = retention)
    }

    /// Hands every run to this before this engine discards it, as JSON with its input, its records and its result. If it
    /// fails, the run is kept and handed over again later. A run may be handed over more than once: when the process dies
    /// just then, or another acts at the same time.
    pub fn archive<F, A>(self, keep: F) -> Self
    where
        F: Fn(serde_json::Value) -> A + Send + Sync + 'static,
        A: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        self.set(|options| options.archive = Archive::new(keep))
    }

    /// The safety net: how often to look for work without being told of any. Default: 5 s.
    pub fn poll(self, every: Duration) -> Self {
        self.set(|options| options.poll = every)
    }

    /// The largest input, result or saved value, as JSON. Default: 4 MiB.
    pub fn payload_limit(mut self, bytes: usize) -> Self {
        self.payload_limit = bytes;
        self
    }

    /// How payloads are written. Default: JSON, compressed above one kibibyte.
    pub fn codec(mut self, codec: impl Codec) -> Self {
        self.codec = Arc::new(Guarded(Arc::new(codec)));
        self
    }

    /// Declares a setting that tasks read with [`var`](crate::var): all that are missing or malformed are
    /// listed by [`launch`](Self::launch).
    pub fn var<T: FromStr<Err: Display> + 'static>(mut self, name: impl Into<String>) -> Self {
        self.settings.push(settings::check::<T>(name.into()));
        self
    }

    #[cfg(feature = "testing")]
    pub(crate) fn in_lab(
        mut self,
        lab: Arc<crate::testing::Shared>,
        process: windlass_store::Memory,
    ) -> Self {
        self.options.virtual_time = true;
        self.options.rehearse = true;
        self.options.foreign = ForeignWaits::Fail;
        // Time passes quickly here, and what has ended is what a test looks at.
        self.options.retention = Retention::forever();
        self.lab = Some((lab, process));
        self
    }

    /// Opens the database, joins its other processes, and begins to work.
    ///
    /// # Errors
    ///
    /// When the engine was set up wrongly (every problem is listed), or the database cannot be used.
    pub fn launch(self) -> impl Future<Output = Result<Engine, Error>> + Send {
        boxed(self.open())
    }

    async fn open(mut self) -> Result<Engine, Error> {
        let slots = self.options.slots;
        let served = self.served.take().unwrap_or_else(|| vec![DEFAULT_QUEUE.into()]);
        for queue in served.into_iter().chain(self.executors.keys().map(Arc::clone)) {
            self.options.queues.entry(queue).or_insert(slots);
        }
        let problems = self.problems();
        if !problems.is_empty() {
            return Err(Error::Launch { problems });
        }
        let store = match self.place {
            Place::Url(url) => crate::stores::open(&url).await?,
            Place::Store(store) => store,
        };
        let problems = transaction::problems(&self.workflows, &*store);
        if !problems.is_empty() {
            return Err(Error::Launch { problems });
        }
        #[cfg(feature = "schedule")]
        let triggers = {
            self.workflows.extend(crate::schedule::own_workflows()?);
            for trigger in &self.triggers {
                self.workflows.push(crate::trigger::own_workflow(trigger)?);
            }
            let own = |trigger| (crate::trigger::Trigger::own_workflow(&trigger), Arc::new(trigger));
            self.triggers.into_iter().map(own).collect::<crate::trigger::Set>()
        };
        let registry = register(&*store, &self.codec, self.workflows, &self.rules).await?;
        let spreads = registry.values().any(|known| known.routes.any());
        let backroom = if self.options.virtual_time { Backroom::here() } else { Backroom::thread()? };
        let poll = self.options.poll;
        let hub = Hub::new(store, self.codec, self.payload_limit, poll, Identity::unjoined(), backroom);
        #[cfg(feature = "testing")]
        let saboteur = self.lab.as_ref().map(|(lab, _)| {
            let lab = Arc::clone(lab);
            Arc::new(move |cx: &crate::Cx| lab.attempt(cx)) as Saboteur
        });
        #[cfg(not(feature = "testing"))]
        let saboteur: Option<Saboteur> = None;
        let resources = Arc::new(self.resources);
        let (options, executors) = (self.options, self.executors);
        self.wardens.set_up().await.map_err(|problem| Error::Launch { problems: vec![problem] })?;
        let node =
            Node::new(Arc::clone(&hub), options, registry, resources, executors, saboteur, self.wardens);
        let joined = async {
            let start =
                |error: std::io::Error| Error::Unavailable(format!("no thread for observers: {error}"));
            node.observers.start(self.observers).map_err(start)?;
            let heart = Heart::start(Arc::clone(&node)).await?;
            // Before anything is claimed: a launch that fails leaves no engine behind that works.
            #[cfg(feature = "schedule")]
            for trigger in triggers.values() {
                crate::trigger::ensure(&node, trigger).await?;
            }
            Ok::<_, Error>((heart, Claimer::unblock(&node).await?))
        };
        let (heart, unblocked) = match joined.await {
            Ok(joined) => joined,
            Err(error) => {
                for problem in node.wardens.tear_down().await {
                    tracing::error!("{problem}");
                }
                return Err(error);
            }
        };
        if unblocked > 0 {
            tracing::info!(runs = unblocked, "blocked runs are tried with this program's code");
        }
        #[cfg(feature = "schedule")]
        node.keeper.know(triggers);
        hub.backroom.spawn(heart.run());
        hub.backroom.spawn(Claimer::new(Arc::clone(&node)).run());
        if spreads {
            hub.backroom.spawn(Outpost::new(Arc::clone(&node)).run());
        }
        hub.backroom.spawn(Janitor::new(Arc::clone(&node)).run());
        hub.spawn_scribe(!node.options.virtual_time);
        hub.backroom.spawn(Watcher::new(Arc::clone(&hub), Some(Arc::clone(&node))).run());
        let engine = Engine { client: Client::new(hub, Some(Arc::clone(&node))), node };
        #[cfg(feature = "testing")]
        if let Some((lab, process)) = self.lab {
            lab.launched(engine.clone(), process);
        }
        Ok(engine)
    }

    /// Everything that is wrong with this set-up.
    fn problems(&mut self) -> Vec<String> {
        let mut problems = self.options.problems();
        let mut seen: BTreeMap<Arc<str>, usize> = BTreeMap::new();
        for workflow in &self.workflows {
            *seen.entry(Arc::clone(&workflow.definition().name)).or_default() += 1;
        }
        let twice = seen.into_iter().filter(|(_, times)| *times > 1);
        problems.extend(
            twice.map(|(name, times)| format!("workflow `{name}` is registered {times} times: keep one")),
        );
        for workflow in &self.workflows {
            let name = &workflow.definition().name;
            if is_reserved(name) {
                problems.push(format!("workflow `{name}` has a name that is the engine's own: {RESERVED}…"));
            }
            problems.extend(workflow.problems(&self.resources));
            let queues = workflow.definition().tasks.iter().filter_map(|task| task.queue.as_deref());
            problems.extend(queues.filter_map(wrong_queue).map(|why| format!("workflow `{name}`: {why}")));
        }
        problems.extend(self.rules.iter().filter_map(|rule| wrong_queue(&rule.queue)));
        #[cfg(feature = "schedule")]
        for trigger in &self.triggers {
            problems.extend(trigger.problems(&self.workflows, &self.resources));
            if self.triggers.iter().filter(|other| other.name() == trigger.name()).count() > 1 {
                problems.push(format!("trigger `{}` is given more than once: keep one", trigger.name()));
            }
        }
        let definitions: Vec<_> = self.workflows.iter().map(|workflow| &**workflow.definition()).collect();
        problems.extend(routes::idle(&self.rules, &definitions).into_iter().map(|rule| {
            format!("the route `{}` to `{}` fits no task: write `workflow.task`", rule.pattern, rule.queue)
        }));
        let settings = std::mem::take(&mut self.settings);
        problems
            .extend(settings.into_iter().filter_map(|check| check().err()).map(|error| error.to_string()));
        problems
    }
}

/// Writes down the versions that this program has.
async fn register(
    store: &dyn Store,
    codec: &Arc<dyn Codec>,
    workflows: Vec<AnyWorkflow>,
    rules: &[Rule],
) -> Result<HashMap<Arc<str>, Arc<Registered>>, Error> {
    let mut registry = HashMap::new();
    for workflow in workflows {
        let name = Arc::clone(&workflow.definition().name);
        let mut kept = Vec::new();
        for old in workflow.kept() {
            let id = define(store, codec, &old).await?;
            kept.push(Arc::new(Registered::new(old, id, rules)));
        }
        let id = define(store, codec, &workflow).await?;
        input_schema::declare(store, codec, &workflow).await?;
        registry.insert(name, Arc::new(Registered { kept, ..Registered::new(workflow, id, rules) }));
    }
    Ok(registry)
}

/// The number of a version.
async fn define(
    store: &dyn Store,
    codec: &Arc<dyn Codec>,
    workflow: &AnyWorkflow,
) -> Result<DefinitionId, Error> {
    let definition = workflow.definition();
    let encode =
        |why: String| Error::Encode { what: format!("the definition of `{}`", definition.name), why };
    let json = definition.to_json().map_err(|error| encode(error.to_string()))?;
    let body = codec.encode(json.into()).map_err(|error| encode(error.to_string()))?;
    let (workflow, version) = (Arc::clone(&definition.name), Arc::clone(&definition.version));
    Ok(store.define(DefinitionRow { workflow, version, body }).await?)
}

impl std::fmt::Debug for EngineBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineBuilder").field("options", &self.options).finish_non_exhaustive()
    }
}
