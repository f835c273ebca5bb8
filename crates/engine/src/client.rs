//! Asking things of runs, from a process that may or may not run any.

use std::{future::Future, sync::Arc, time::Duration};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use windlass_core::{Order, RunId, RunState, Time};
use windlass_store::{Act, Idle, NewEnd, NodeRow, Query, Refusal, Store};

use crate::{
    Cancelled, Codec, Compressed, Error, QueueSetup, Queues, Run, Runs, SharedValue, Start, Workflow,
    Workflows,
    backroom::Backroom,
    boxed::boxed,
    codec::Guarded,
    flow,
    hub::{Hub, PAYLOAD_LIMIT},
    identity::Identity,
    node::Node,
    order,
    receivers::Whose,
    reserved::{may_be_own, refuse_steering},
    start::{BulkStart, Request},
    watcher::Watcher,
};

/// Starts, finds, awaits and steers runs. It runs nothing itself.
///
/// An [`Engine`](crate::Engine) is one too. It is cheap to clone; the last clone closes it.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

/// What all copies of a client share.
struct Shared {
    hub: Arc<Hub>,
    node: Option<Arc<Node>>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.hub.closed.cancel();
    }
}

impl Client {
    /// Connects to the database at `url`, as [`Engine::open`](crate::Engine::open) does, without running
    /// anything.
    ///
    /// # Errors
    ///
    /// When the database cannot be opened.
    pub fn connect(url: &str) -> impl Future<Output = Result<Self, Error>> + Send {
        Self::connect_with(url, Compressed::default())
    }

    /// The same where payloads are written by another codec: the one that the engines on that database have.
    ///
    /// # Errors
    ///
    /// When the database cannot be opened.
    pub fn connect_with(url: &str, codec: impl Codec) -> impl Future<Output = Result<Self, Error>> + Send {
        boxed(async move {
            let store = crate::stores::open(url).await?;
            Self::over(store, Arc::new(codec)).await
        })
    }

    /// A client of a store that is open already.
    ///
    /// # Errors
    ///
    /// When its own thread cannot be started.
    pub async fn over(store: Arc<dyn Store>, codec: Arc<dyn Codec>) -> Result<Self, Error> {
        let backroom = Backroom::thread()?;
        let poll = Duration::from_secs(5);
        let codec = Arc::new(Guarded(codec));
        let hub = Hub::new(store, codec, PAYLOAD_LIMIT, poll, Identity::client(), backroom);
        let client = Self::new(hub, None);
        client.hub().backroom.spawn(Watcher::new(Arc::clone(client.hub()), None).run());
        client.hub().spawn_scribe(true);
        Ok(client)
    }

    pub(crate) fn new(hub: Arc<Hub>, node: Option<Arc<Node>>) -> Self {
        Self { shared: Arc::new(Shared { hub, node }) }
    }

    pub(crate) fn hub(&self) -> &Arc<Hub> {
        &self.shared.hub
    }

    /// The engine's own node, if there is one in this process.
    pub(crate) fn node(&self) -> Option<&Arc<Node>> {
        self.shared.node.as_ref()
    }

    /// Starts a run. It is durable when the returned future is ready.
    ///
    /// Nothing happens before the future is awaited; once it is, dropping it does not withdraw the run.
    pub fn start<I, O>(&self, workflow: Workflow<I, O>, input: I) -> Start<O>
    where
        I: Serialize + Send + Sync + 'static,
    {
        Start::new(self.clone(), Request::new(workflow.into(), input))
    }

    /// Starts a run of a workflow that is known by name only, with its input as JSON.
    pub fn start_by_name(&self, workflow: &str, input: Value) -> Start<Value> {
        Start::new(self.clone(), Request::by_name(workflow, input))
    }

    /// Starts many runs of one workflow, in few transactions. They are pending for whichever node has room.
    pub fn start_many<I, O>(
        &self,
        workflow: Workflow<I, O>,
        inputs: impl IntoIterator<Item = I>,
    ) -> BulkStart<I>
    where
        I: Serialize + Send + Sync + 'static,
    {
        BulkStart::new(self.clone(), workflow.into(), inputs)
    }

    /// A run that was started before, here or elsewhere, by its id. Nothing is asked of the store before
    /// the handle is used.
    pub fn run<I, O>(&self, workflow: &Workflow<I, O>, id: RunId) -> Run<O> {
        Run::new(self.clone(), id, Arc::from(workflow.name()))
    }

    /// A run that was started before, here or elsewhere, by its id alone, whatever its workflow is.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownRun`] when there is none, [`Error::Invalid`] when it is the engine's own, or the store cannot be asked.
    pub async fn find_run(&self, id: RunId) -> Result<Run<Value>, Error> {
        // Read from the listing, and not with all that is recorded of it.
        let next = u128::from_be_bytes(*id.as_bytes()).checked_add(1);
        let after = next.map(|next| RunId::from_bytes(next.to_be_bytes()));
        let page = self.hub().store.find(Query { after, limit: 1, ..Query::default() }).await?;
        let found = page.runs.into_iter().find(|run| run.id == id).ok_or(Error::UnknownRun(id))?;
        refuse_steering(id, &found.workflow, found.key.as_deref())?;
        Ok(Run::new(self.clone(), id, found.workflow))
    }

    /// The run that was started under this key.
    ///
    /// # Errors
    ///
    /// When the store cannot be asked.
    pub async fn run_by_key<I, O>(
        &self,
        workflow: &Workflow<I, O>,
        key: &str,
    ) -> Result<Option<Run<O>>, Error> {
        let name: Arc<str> = Arc::from(workflow.name());
        let found = self.hub().store.by_key(Arc::clone(&name), key.to_owned()).await?;
        Ok(found.map(|id| Run::new(self.clone(), id, name)))
    }

    /// Finds runs, and acts on many at once.
    pub fn runs(&self) -> Runs {
        Runs::new(self.clone())
    }

    /// The workflows that engines have brought to this database, without their code.
    pub fn workflows(&self) -> Workflows {
        Workflows::new(self.clone())
    }

    /// What time it is by the database's clock, as far as this process has followed it: the one that all records carry.
    #[must_use]
    pub fn now(&self) -> Time {
        self.hub().clock.now()
    }

    /// Declares a schedule, under a name: see [`schedule`](crate::schedule).
    #[cfg(feature = "schedule")]
    pub fn schedule(&self, name: &str) -> crate::schedule::ScheduleBuilder {
        crate::schedule::ScheduleBuilder::new(self.clone(), name)
    }

    /// Finds schedules that were declared before, here or elsewhere.
    #[cfg(feature = "schedule")]
    pub fn schedules(&self) -> crate::schedule::Schedules {
        crate::schedule::Schedules::new(self.clone())
    }

    /// Declares a batch, under a name: items that are gathered, and handed to one run of this workflow together. See
    /// [`batch`](crate::batch).
    ///
    /// An engine refuses a workflow that it does not have. A client cannot know which workflows there are: the runs then
    /// wait until an engine comes that has it.
    #[cfg(feature = "schedule")]
    pub fn batch<T, O>(&self, name: &str, workflow: Workflow<Vec<T>, O>) -> crate::batch::BatchBuilder {
        crate::batch::BatchBuilder::new(self.clone(), name, workflow.name())
    }

    /// Finds batches that were declared before, here or elsewhere, to add items to them.
    #[cfg(feature = "schedule")]
    pub fn batches(&self) -> crate::batch::Batches {
        crate::batch::Batches::new(self.clone())
    }

    /// Finds triggers that engines were given, here or elsewhere.
    #[cfg(feature = "schedule")]
    pub fn triggers(&self) -> crate::trigger::Triggers {
        crate::trigger::Triggers::new(self.clone())
    }

    /// Declares a queue, with limits over all processes together. See [`QueueSetup`].
    pub fn queue(&self, name: impl Into<Arc<str>>) -> QueueSetup {
        QueueSetup::new(self.clone(), name.into())
    }

    /// The queues that were declared: what is in them, and pausing them.
    pub fn queues(&self) -> Queues {
        Queues::new(self.clone())
    }

    /// A small value that all processes on this database share. Names that begin with `windlass.` are the engine's own.
    pub fn shared_value<T: Serialize + DeserializeOwned + Default>(&self, name: &str) -> SharedValue<T> {
        SharedValue::new(self.clone(), name)
    }

    /// Every process that runs an engine on this database.
    ///
    /// # Errors
    ///
    /// When the store cannot be asked.
    pub async fn nodes(&self) -> Result<Vec<NodeRow>, Error> {
        Ok(self.hub().store.nodes().await?)
    }

    /// Refuses to steer a run of the engine's own by its id.
    pub(crate) async fn refuse_own(&self, run: RunId) -> Result<(), Error> {
        if !may_be_own(run) {
            return Ok(());
        }
        let Some(image) = self.hub().store.load(run).await? else { return Ok(()) };
        refuse_steering(run, &image.run.workflow, image.run.key.as_deref())
    }

    pub(crate) async fn cancel(&self, run: RunId, reason: &str) -> Result<Cancelled, Error> {
        self.refuse_own(run).await?;
        // One that is held here is not blocked.
        let is_blocked = !self.node().is_some_and(|node| node.holds(run)) && self.is_blocked(run).await?;
        match cancel_run(self.hub(), self.node(), run, reason).await? {
            Cancelled::Requested if is_blocked => Ok(Cancelled::Blocked),
            answer => Ok(answer),
        }
    }

    /// Whether a run waits for code that agrees with what is recorded. It is read from the listing, and not with all that is
    /// recorded.
    async fn is_blocked(&self, run: RunId) -> Result<bool, Error> {
        let next = u128::from_be_bytes(*run.as_bytes()).checked_add(1);
        let after = next.map(|next| RunId::from_bytes(next.to_be_bytes()));
        let page = self.hub().store.find(Query { after, limit: 1, ..Query::default() }).await?;
        let found = page.runs.iter().find(|found| found.id == run);
        Ok(found.is_some_and(|found| found.standing.state() == RunState::Blocked))
    }

    pub(crate) async fn terminate(&self, run: RunId, reason: &str) -> Result<Cancelled, Error> {
        self.refuse_own(run).await?;
        let end = end_of(self.hub(), &windlass_core::Verdict::Cancelled { reason: reason.to_owned() })?;
        match self.hub().committer.write(run, Act::EndIdle { only: Idle::Any, end: end.clone() }).await? {
            Ok(written) => {
                note_end(self.hub(), run, end, written);
                // Its parent may be here.
                self.nudge().await;
                self.cancel_children(run).await?;
                Ok(Cancelled::Requested)
            }
            Err(Refusal::Held) => self.order(run, &Order::Terminate { reason: reason.to_owned() }).await.map(
                |state| match state {
                    None => Cancelled::Requested,
                    Some(state) => Cancelled::AlreadyEnded(state),
                },
            ),
            Err(Refusal::Ended(state)) => {
                // Whoever ended it like this may have died before it came to them.
                self.cancel_children(run).await?;
                Ok(Cancelled::AlreadyEnded(state))
            }
            Err(refusal) => Err(Error::refused(run, refusal)),
        }
    }

    /// Cancels what a run has started that ended without its code.
    async fn cancel_children(&self, run: RunId) -> Result<(), Error> {
        let Some(image) = self.hub().store.load(run).await? else { return Ok(()) };
        let children = flow::children(self.hub(), run, image.standing.generation, &image.steps)?;
        flow::cancel(self.hub(), self.node(), children).await
    }

    /// Puts an order into a run's inbox. Answers with the run's state if it has ended.
    pub(crate) async fn order(&self, run: RunId, order: &Order) -> Result<Option<RunState>, Error> {
        self.refuse_own(run).await?;
        give_order(self.hub(), self.node(), run, order).await
    }

    /// Lets this process's own node see what was just committed, without waiting for a hint.
    pub(crate) async fn nudge(&self) {
        nudge(self.node(), Whose::Anyones).await;
    }

    /// The same of what was sent to one run.
    pub(crate) async fn nudge_about(&self, run: RunId) {
        nudge(self.node(), Whose::Of(vec![run])).await;
    }
}

/// Ends a run: at once if no code has touched it, else by an order.
pub(crate) async fn cancel_run(
    hub: &Hub,
    node: Option<&Arc<Node>>,
    run: RunId,
    reason: &str,
) -> Result<Cancelled, Error> {
    let by_order = async || {
        let order = Order::Cancel { reason: reason.to_owned() };
        give_order(hub, node, run, &order).await.map(|state| match state {
            None => Cancelled::Requested,
            Some(state) => Cancelled::AlreadyEnded(state),
        })
    };
    // One that is held here was begun: there is nothing to ask first.
    if node.is_some_and(|node| node.holds(run)) {
        return by_order().await;
    }
    let verdict = windlass_core::Verdict::Cancelled { reason: reason.to_owned() };
    let end = end_of(hub, &verdict)?;
    let only_new = Act::EndIdle { only: Idle::NeverClaimed, end: end.clone() };
    match hub.committer.write(run, only_new).await? {
        Ok(written) => {
            note_end(hub, run, end, written);
            // Its parent may be here.
            nudge(node, Whose::Anyones).await;
            Ok(Cancelled::Requested)
        }
        Err(Refusal::Begun | Refusal::Held) => by_order().await,
        Err(Refusal::Ended(state)) => Ok(Cancelled::AlreadyEnded(state)),
        Err(refusal) => Err(Error::refused(run, refusal)),
    }
}

async fn give_order(
    hub: &Hub,
    node: Option<&Arc<Node>>,
    run: RunId,
    order: &Order,
) -> Result<Option<RunState>, Error> {
    match hub.committer.write(run, Act::Send(order::encode(order))).await? {
        Ok(_) => {
            nudge(node, Whose::Of(vec![run])).await;
            Ok(None)
        }
        Err(Refusal::Ended(state)) => Ok(Some(state)),
        Err(refusal) => Err(Error::refused(run, refusal)),
    }
}

/// When it is done, a run that is held here has heard of what was sent to it.
async fn nudge(node: Option<&Arc<Node>>, whose: Whose) {
    let Some(node) = node else { return };
    node.claim.notify_one();
    node.look_into_inboxes(whose).await;
}

/// The end of a run that nobody has begun.
pub(crate) fn end_of(hub: &Hub, verdict: &windlass_core::Verdict) -> Result<NewEnd, Error> {
    let encode = |why: String| Error::Encode { what: "a verdict".to_owned(), why };
    let json = verdict.to_json().map_err(|error| encode(error.to_string()))?;
    let failure = hub.codec.encode(json.into()).map_err(|error| encode(error.to_string()))?;
    Ok(NewEnd { state: verdict.state(), output: None, failure: Some(failure) })
}

fn note_end(hub: &Hub, run: RunId, end: NewEnd, written: windlass_store::Written) {
    let at = match written {
        windlass_store::Written::Done { at } => at,
        _ => hub.clock.now(),
    };
    let NewEnd { state, output, failure, .. } = end;
    hub.ended(run, || windlass_store::End { state, at, output, failure });
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("store", &self.hub().store.describe()).finish_non_exhaustive()
    }
}
