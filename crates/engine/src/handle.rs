//! A run, as whoever started or found it holds it.

use std::{
    collections::HashMap,
    fmt,
    future::Future,
    marker::PhantomData,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use parking_lot::Mutex;
use serde::{Serialize, de::DeserializeOwned};
use windlass_core::{Order, RunId, RunState, StepKind, UNDO, VERDICT, VERSION, Verdict, nearest};
use windlass_store::{Act, End, NewRun, Place, Refusal, RunImage, RunRow, StepRow};

use crate::{
    Client, Error, Event, Mark, Pending, RunError, RunStatus, Sending, Watch,
    discard::{Outcome, discard_by_hand},
    export,
    flow::{self, INHERITED},
    hub::Hub,
    reserved::refuse_steering,
    status,
    waiters::Waiter,
};

/// A run: a future of its result, and a handle to steer it.
///
/// Awaiting it waits for its end, wherever it runs, and gives its output. Dropping it changes nothing.
pub struct Run<O> {
    client: Client,
    id: RunId,
    workflow: Arc<str>,
    waiter: Option<Waiter>,
    /// Nobody locks it: a handle that threads may share can be steered in a task of its own.
    asking: Mutex<Option<Asking>>,
    output: PhantomData<fn() -> O>,
}

/// A question to the store.
type Asking = Pin<Box<dyn Future<Output = Result<Option<End>, Error>> + Send>>;

/// What became of the wish to cancel a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// The run will end as cancelled, unless it ends by itself first.
    Requested,
    /// The same of a run that is [`Blocked`](RunState::Blocked): if something that it did has to be undone, it ends when there is
    /// a process whose code agrees with what is recorded. [`terminate`](Run::terminate) ends it at once, and undoes nothing.
    Blocked,
    /// It had ended already.
    AlreadyEnded(RunState),
}

impl<O> Run<O> {
    pub(crate) fn new(client: Client, id: RunId, workflow: Arc<str>) -> Self {
        Self { client, id, workflow, waiter: None, asking: Mutex::new(None), output: PhantomData }
    }

    /// A run whose end cannot have been missed, because the wait began before its start.
    pub(crate) fn waited_for(client: Client, id: RunId, workflow: Arc<str>, waiter: Option<Waiter>) -> Self {
        Self { waiter, ..Self::new(client, id, workflow) }
    }

    pub(crate) const fn client(&self) -> &Client {
        &self.client
    }

    /// The run's id.
    #[must_use]
    pub fn id(&self) -> RunId {
        self.id
    }

    /// The workflow it is a run of.
    #[must_use]
    pub fn workflow(&self) -> &str {
        &self.workflow
    }

    /// Where it stands, task by task.
    ///
    /// # Errors
    ///
    /// When there is no such run, or the store cannot be asked.
    pub async fn status(&self) -> Result<RunStatus, Error> {
        status::of(&self.client, self.load().await?).await
    }

    /// The recorded result of one task, or of a step of a durable function; `None` when it has not completed.
    ///
    /// That of a `for_each` is read by its instances: `enrich[3]`.
    ///
    /// # Errors
    ///
    /// When the result does not fit the type, or there is no such run.
    pub async fn result<T: DeserializeOwned>(&self, task: &str) -> Result<Option<T>, Error> {
        let image = self.load().await?;
        let recorded =
            image.steps.iter().rev().find(|step| is_named(step, task) && step.kind == StepKind::Completed);
        let Some(kept) = recorded.and_then(|step| step.output.clone()) else { return Ok(None) };
        let what = format!("the result of `{task}`");
        let json = self.client.hub().read(&what, kept)?;
        serde_json::from_slice(&json).map(Some).map_err(|why| Error::Decode { what, why: why.to_string() })
    }

    /// Ends the run: a pending one never starts, a running one is stopped (its attempts have `cancel_grace`
    /// to tidy up), a parked one wakes only to end. Works from every process.
    ///
    /// # Errors
    ///
    /// When there is no such run, or the store cannot be asked.
    pub async fn cancel(&self, reason: impl AsRef<str>) -> Result<Cancelled, Error> {
        self.client.cancel(self.id, reason.as_ref()).await
    }

    /// Ends the run at once, without asking its code: for a run that is blocked or that ignores `cancel`.
    ///
    /// # Errors
    ///
    /// When there is no such run, or the store cannot be asked.
    pub async fn terminate(&self, reason: impl AsRef<str>) -> Result<Cancelled, Error> {
        self.client.terminate(self.id, reason.as_ref()).await
    }

    /// Holds the run at the next boundary: what runs may finish, nothing new starts until it is resumed.
    ///
    /// # Errors
    ///
    /// When the run has ended, or there is none.
    pub async fn pause(&self) -> Result<(), Error> {
        self.steer(Order::Pause).await
    }

    /// Lets a paused run go on.
    ///
    /// # Errors
    ///
    /// When the run has ended, or there is none.
    pub async fn resume(&self) -> Result<(), Error> {
        self.steer(Order::Resume).await
    }

    async fn steer(&self, order: Order) -> Result<(), Error> {
        match self.client.order(self.id, &order).await? {
            None => Ok(()),
            Some(state) => Err(Error::AlreadyEnded { run: self.id, state }),
        }
    }

    /// Sends the run an event, which its code receives with [`Flow::event`](crate::Flow::event): once, and also if it
    /// waits for it only later. Works from every process.
    ///
    /// Awaiting the answer fails when the run has ended, when there is none, or when the payload cannot be kept.
    pub fn send<T: Serialize>(&self, event: Event<T>, payload: &T) -> Sending {
        Sending::new(self.client.clone(), self.id, event.name(), payload)
    }

    /// Sends the run an event that is known by name only, with its payload as JSON: see [`send`](Self::send).
    pub fn send_by_name(&self, event: impl Into<String>, payload: &serde_json::Value) -> Sending {
        Sending::new(self.client.clone(), self.id, event, payload)
    }

    /// The events that were sent to the run and not received yet, oldest first.
    ///
    /// # Errors
    ///
    /// When there is no such run, or the store cannot be asked.
    pub async fn pending_events(&self) -> Result<Vec<Pending>, Error> {
        flow::pending(self.client.hub(), self.load().await?)
    }

    /// Opens a failed, cancelled or abandoned run again: completed work is kept, the rest runs again. The
    /// handle waits for the new end.
    ///
    /// # Errors
    ///
    /// When the run has completed or has not ended, or somebody else has just retried it.
    pub async fn retry(&mut self) -> Result<(), Error> {
        let image = self.load().await?;
        refuse_steering(self.id, &image.run.workflow, image.run.key.as_deref())?;
        let state = image.standing.state();
        if !state.is_terminal() || state == RunState::Completed {
            return Err(Error::NotRetryable { run: self.id, state });
        }
        self.waiter = None;
        *self.asking.get_mut() = None;
        let reopen = Act::Reopen { after: image.standing.generation };
        match self.client.hub().committer.write(self.id, reopen).await? {
            Ok(_) => {
                let hub = self.client.hub();
                hub.scribe.count(&self.workflow, state, hub.clock.now(), -1);
                self.client.nudge().await;
                Ok(())
            }
            Err(Refusal::Open) => Err(Error::NotRetryable { run: self.id, state: RunState::Running }),
            Err(refusal) => Err(Error::refused(self.id, refusal)),
        }
    }

    /// Starts a new run with the same input and a copy of what `task` depends on: `task` and everything after
    /// it run again, and so does whatever they do not depend on. This run is left alone.
    ///
    /// For a durable function, `task` is one of its steps (or another call): the copy is of all that was recorded
    /// before it. The new run never undoes what it inherited.
    ///
    /// # Errors
    ///
    /// When the workflow has no such task, the function has not called such a step or has undone something before it, or
    /// there is no such run.
    pub async fn fork_from(&self, task: &str) -> Result<Self, Error> {
        let image = self.load().await?;
        refuse_steering(self.id, &image.run.workflow, image.run.key.as_deref())?;
        let plan = status::plan(&self.client, &image).await?;
        if plan.flow().is_some() {
            return self.fork(image.run.clone(), calls_before(&image, task, &self.workflow)?).await;
        }
        let names = || plan.definition.tasks.iter().map(|task| &*task.name);
        let at = plan.definition.find(task).ok_or_else(|| Error::UnknownTask {
            workflow: self.workflow.to_string(),
            task: task.to_owned(),
            nearest: nearest(task, names()).map(str::to_owned),
        })?;
        let ancestors = plan.graph.ancestors(at);
        let kept = image
            .steps
            .iter()
            .filter(|step| plan.lane(&step.name).is_some_and(|lane| ancestors.contains(&lane.task)));
        let steps = kept.filter(|step| matches!(step.kind, StepKind::Completed | StepKind::Skipped));
        let (mut inherited, undone) = (Vec::new(), last_completed(&image, UNDO));
        let latest = last_completed(&image, "");
        // What was undone may have been done again.
        for step in steps.filter(|step| latest.get(&*step.name).is_none_or(|last| *last <= step.generation)) {
            refuse_undone(step, &undone, task)?;
            // What it inherited is not its own to undo; that a task was skipped is only known of this generation.
            let generation = if step.kind == StepKind::Completed { INHERITED } else { 1 };
            inherited.push(StepRow { generation, epoch: 0, ..step.clone() });
        }
        self.fork(image.run, inherited).await
    }

    /// A new run with these records.
    async fn fork(&self, row: RunRow, steps: Vec<StepRow>) -> Result<Self, Error> {
        let run = RunId::new();
        let new = NewRun {
            workflow: row.workflow,
            queue: row.queue,
            queue_key: row.queue_key,
            priority: row.priority,
            delay: None,
            timeout: row.timeout,
            input: row.input,
            context: row.context,
            key: None,
            tags: row.tags,
            forked_from: Some(row.id),
            trace: row.trace,
            // Whoever waits for the run that it is forked from does not wait for it.
            parent: None,
            steps,
            owner: None,
        };
        match self.client.hub().committer.write(run, Act::Start(Box::new(new))).await? {
            Ok(_) => {
                self.client.nudge().await;
                Ok(Self::new(self.client.clone(), run, Arc::clone(&self.workflow)))
            }
            Err(refusal) => Err(Error::refused(run, refusal)),
        }
    }

    /// Forgets a run that has ended, for ever, with its records and its key. The reason goes to the log.
    ///
    /// # Errors
    ///
    /// When the run has not ended, its parent has not heard of its end yet, the engine's
    /// [`archive`](crate::EngineBuilder::archive) has failed, somebody else is at it, or there is no such run.
    pub async fn discard(&self, reason: impl AsRef<str>) -> Result<(), Error> {
        let image = self.load().await?;
        refuse_steering(self.id, &image.run.workflow, image.run.key.as_deref())?;
        let (state, generation) = (image.standing.state(), image.standing.generation);
        let runs = vec![(self.id, generation)];
        let outcomes = discard_by_hand(self.client.hub(), self.client.node(), runs).await?;
        match outcomes.into_iter().next() {
            Some((run, Outcome::Gone)) => {
                let hub = self.client.hub();
                hub.scribe.count(&self.workflow, state, hub.clock.now(), -1);
                tracing::info!(%run, workflow = &*self.workflow, reason = reason.as_ref(), "a run was discarded by hand");
                Ok(())
            }
            Some((run, Outcome::Kept(refusal))) if refusal != Refusal::Unknown => {
                Err(Error::NotDiscardable { run, why: why_kept(state, &refusal) })
            }
            Some((run, Outcome::NotArchived(why))) => {
                Err(Error::NotDiscardable { run, why: format!("the archive failed: {why}") })
            }
            Some((run, Outcome::Kept(_))) => Err(Error::UnknownRun(run)),
            None => Err(Error::UnknownRun(self.id)),
        }
    }

    /// Everything that is recorded of the run, as JSON, with its input, its results and its errors.
    ///
    /// # Errors
    ///
    /// When there is no such run, the store cannot be asked, or a payload cannot be decoded.
    pub async fn export(&self) -> Result<serde_json::Value, Error> {
        export::export(self.client.hub(), self.load().await?).await
    }

    /// A stream of what happens to the run, from its beginning to its end. Its records are read once for all who watch it in
    /// this process, at most once a second; its end is told at once.
    pub fn watch(&self) -> Watch {
        Watch::new(self.client.clone(), self.id, None)
    }

    /// The same for somebody who was cut off after the step with this mark: what was recorded after it. The state is said
    /// again first, if the run has not ended. A mark of a step that is no longer recorded begins from the beginning.
    pub fn watch_after(&self, last: Mark) -> Watch {
        Watch::new(self.client.clone(), self.id, Some(last))
    }

    async fn load(&self) -> Result<RunImage, Error> {
        self.client.hub().store.load(self.id).await?.ok_or(Error::UnknownRun(self.id))
    }
}

impl<O: DeserializeOwned> Run<O> {
    fn finish(&self, end: &End) -> Result<O, Error> {
        let hub = &self.client.hub();
        let error = |verdict| {
            Error::Run(Box::new(RunError { run: self.id, workflow: self.workflow.to_string(), verdict }))
        };
        if end.state != RunState::Completed {
            return Err(match verdict_of(self.client.hub(), end)? {
                Some(verdict) => error(verdict),
                None => Error::AlreadyEnded { run: self.id, state: end.state },
            });
        }
        let Some(kept) = end.output.clone() else {
            // A workflow without an output task gives nothing, which some types can express.
            return serde_json::from_str("null").map_err(|_| error(Verdict::Completed));
        };
        let what = fmt::from_fn(|f| write!(f, "the output of run {} ({})", self.id, self.workflow));
        let json = hub.read(&what, kept)?;
        serde_json::from_slice(&json)
            .map_err(|why| Error::Decode { what: what.to_string(), why: why.to_string() })
    }

    /// Asks the store whether the run has ended already.
    fn ask(&self) -> Asking {
        let (store, id) = (Arc::clone(&self.client.hub().store), self.id);
        Box::pin(async move {
            match store.load(id).await? {
                None => Err(Error::UnknownRun(id)),
                Some(image) => Ok(match image.standing.place {
                    Place::Ended(end) => Some(end),
                    _ => None,
                }),
            }
        })
    }
}

/// Why a run ended, as it was recorded.
pub(crate) fn verdict_of(hub: &Hub, end: &End) -> Result<Option<Verdict>, Error> {
    let Some(kept) = end.failure.clone() else { return Ok(None) };
    let json = hub.read("why the run ended", kept)?;
    let decode =
        |why: serde_json::Error| Error::Decode { what: "why the run ended".into(), why: why.to_string() };
    Verdict::from_json(&json).map(Some).map_err(decode)
}

impl<O: DeserializeOwned> Future for Run<O> {
    type Output = Result<O, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            if this.waiter.is_none() {
                this.waiter = Some(this.client.hub().waiters.register(this.id));
                *this.asking.get_mut() = Some(this.ask());
            }
            if let Some(asking) = this.asking.get_mut()
                && let Poll::Ready(answer) = asking.as_mut().poll(cx)
            {
                *this.asking.get_mut() = None;
                match answer {
                    Ok(Some(end)) => return Poll::Ready(this.finish(&end)),
                    // A store that is out of reach for a moment is asked again by the watcher.
                    Ok(None) | Err(Error::Unavailable(_)) => {}
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
            let Some(waiter) = &mut this.waiter else { return Poll::Pending };
            match waiter.poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(end)) => return Poll::Ready(this.finish(&end)),
                Poll::Ready(None) if this.client.hub().closed.is_cancelled() => {
                    return Poll::Ready(Err(Error::Stopped));
                }
                // It may be there no more.
                Poll::Ready(None) => this.waiter = None,
            }
        }
    }
}

impl<O> fmt::Debug for Run<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("id", &self.id).field("workflow", &self.workflow).finish_non_exhaustive()
    }
}

/// Why a run that was to be discarded is still there.
fn why_kept(state: RunState, refusal: &Refusal) -> String {
    match refusal {
        Refusal::Open if state.is_terminal() => "it was retried just now".to_owned(),
        Refusal::Open => format!("it is {state}; cancel it first, or wait for its end"),
        refusal => refusal.to_string(),
    }
}

/// Whether a record is of this task, or of this step of a durable function.
fn is_named(step: &StepRow, name: &str) -> bool {
    &*step.name == name || step.name.strip_prefix('/') == Some(name)
}

/// The records of a durable function before one of its calls, for another run.
fn calls_before(image: &RunImage, call: &str, workflow: &str) -> Result<Vec<StepRow>, Error> {
    let generation = image.standing.generation;
    let is_call = |step: &&StepRow| {
        step.name.starts_with('/') && step.kind.is_terminal() && ![VERDICT, VERSION].contains(&&*step.name)
    };
    let names = || image.steps.iter().filter(is_call).filter_map(|step| step.name.strip_prefix('/'));
    if !names().any(|name| name == call) {
        return Err(Error::UnknownTask {
            workflow: workflow.to_owned(),
            task: call.to_owned(),
            nearest: nearest(call, names()).map(str::to_owned),
        });
    }
    let before = image.steps.iter().take_while(|step| !is_named(step, call)).filter(is_call);
    // Failures of earlier generations were tried again.
    let kept: Vec<&StepRow> =
        before.filter(|step| step.kind == StepKind::Completed || step.generation == generation).collect();
    let undone = last_completed(image, "/undo");
    kept.iter().try_for_each(|step| refuse_undone(step, &undone, call))?;
    Ok(kept.into_iter().map(|step| StepRow { generation: INHERITED, epoch: 0, ..step.clone() }).collect())
}

/// For each record whose name has this suffix, without it: the last generation in which it completed.
fn last_completed<'a>(image: &'a RunImage, suffix: &str) -> HashMap<&'a str, u32> {
    let mut last = HashMap::new();
    for step in image.steps.iter().filter(|step| step.kind == StepKind::Completed) {
        if let Some(name) = step.name.strip_suffix(suffix) {
            let known: &mut u32 = last.entry(name).or_default();
            *known = step.generation.max(*known);
        }
    }
    last
}

/// Refuses to copy what was undone.
fn refuse_undone(step: &StepRow, undone: &HashMap<&str, u32>, from: &str) -> Result<(), Error> {
    if undone.get(&*step.name).is_none_or(|last| *last < step.generation) {
        return Ok(());
    }
    let step = step.name.trim_start_matches('/');
    Err(Error::Invalid(format!(
        "the run cannot be forked from `{from}`, because `{step}`, which comes before, was undone: fork from it, or from \
         what comes before it"
    )))
}
