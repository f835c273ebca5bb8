//! Where a run stands, for people and programs.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use serde_json::Value;
use tokio::sync::oneshot;
use windlass_core::{
    CallKind, Changed, Definition, Divergence, Failure, Journal, Plan, Run, RunId, RunState, Skip, StepKind,
    TaskState, TaskView, Time, UNDO, VERDICT, VERSION, Verdict,
};
use windlass_store::{Place, RunImage, Wait};

use crate::{
    Client, Error,
    handle::verdict_of,
    run_loop::{Described, Mail},
    take_up,
    workflows::recorded,
};

/// Where a run stands.
#[derive(Clone, Debug)]
pub struct RunStatus {
    /// The run.
    pub id: RunId,
    /// The workflow it is a run of.
    pub workflow: Arc<str>,
    /// What it follows: the version that it was begun under, or, of a graph, the last that it went on under; or that of this
    /// process if nobody has begun it. `None` when no process has taken it up yet and this one does not know its workflow.
    pub definition: Option<Arc<Definition>>,
    /// The key it was started under.
    pub key: Option<String>,
    /// Its tags.
    pub tags: Vec<String>,
    /// The queue it is in.
    pub queue: Arc<str>,
    /// What it is counted by within its queue.
    pub queue_key: Option<Arc<str>>,
    /// 0 is the most urgent, 9 the least.
    pub priority: u8,
    /// The longest it may take.
    pub timeout: Option<Duration>,
    /// The run that started it, and waits for its end.
    pub parent: Option<RunId>,
    /// The run that it was forked from.
    pub forked_from: Option<RunId>,
    /// Its state.
    pub state: RunState,
    /// How many times it was opened: 1, and one more for each retry.
    pub generation: u32,
    /// How many times it was taken over from a dead process in this generation.
    pub recoveries: u32,
    /// When its start was committed.
    pub created_at: Time,
    /// When it ended.
    pub ended_at: Option<Time>,
    /// What it waits for, when it is parked, paused, blocked or delayed.
    pub wait: Option<Wait>,
    /// Why it ended, unless it completed; or will end, once what it did is undone.
    pub verdict: Option<Verdict>,
    /// When it went on under changed code, oldest first. A durable function that does is not noted here.
    pub versions: Vec<VersionChange>,
    /// What its durable function called, or what its tasks waited for, in the order of the first record of each call.
    pub calls: Vec<CallStatus>,
    /// What its durable function [published](crate::Flow::publish), until it ends.
    pub published: BTreeMap<String, Value>,
    /// Its tasks, as declared. Empty for a run whose workflow no process has taken up yet and this one does
    /// not know.
    pub tasks: Vec<TaskStatus>,
}

/// That a graph's run went on under changed code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionChange {
    /// The version that it followed until then.
    pub from: Arc<str>,
    /// The version that it followed from then on.
    pub to: Arc<str>,
    /// When it was taken up under it.
    pub at: Time,
}

/// Where a task of a run stands.
///
/// `Running` is seen in the process that runs it; elsewhere a task that executes is shown as `Ready`.
#[derive(Clone, Debug)]
pub struct TaskStatus {
    /// Its name.
    pub name: Arc<str>,
    /// Its state.
    pub state: TaskState,
    /// Why it was skipped.
    pub skip: Option<Skip>,
    /// The last error, if it failed.
    pub failure: Option<Failure>,
    /// Its finished attempts; for a `for_each`, those of all instances.
    pub attempts: Vec<AttemptStatus>,
    /// For a `for_each` that has begun: how many instances have ended, and how many there are.
    pub items: Option<(usize, usize)>,
    /// How its undo stands, if that has begun: `Completed`, `Failed`, or `Ready` for what is tried again. Of the elements of
    /// a `for_each`, one that failed counts most, then one that is tried again.
    pub undo: Option<TaskState>,
    /// The last error of its undo, or of that of an element.
    pub undo_failure: Option<Failure>,
    /// How far a running attempt says it has come, by its last [`beat`](crate::Cx::beat). Seen in the
    /// process that runs it, and for tasks that are not a `for_each`.
    pub progress: Option<f64>,
}

/// Something that a durable function called, or a task waited for, and that is recorded.
#[derive(Clone, Debug)]
pub struct CallStatus {
    /// The call's name and, from the second of that name on, its number: `charge`, `charge#2`. For a call of a graph's
    /// task, the task's name comes first: `pay/approved`.
    pub name: Arc<str>,
    /// What was called.
    pub kind: CallKind,
    /// `Completed`, `Failed`, or `Ready` for what is under way or tried again.
    pub state: TaskState,
    /// How many attempts have ended.
    pub attempts: u32,
    /// The last error.
    pub failure: Option<Failure>,
    /// When the last attempt began.
    pub started_at: Time,
    /// When the last attempt ended.
    pub ended_at: Time,
    /// When the next attempt is due; for a wait of a task, when it ends.
    pub retry_at: Option<Time>,
    /// The run that it started, if it is one that starts a run and that is known: of a fork's calls it is not.
    pub child: Option<RunId>,
    /// How its undo stands, if that has begun: `Completed`, `Failed`, or `Ready` for what is tried again.
    pub undo: Option<TaskState>,
    /// The last error of its undo.
    pub undo_failure: Option<Failure>,
}

/// A finished attempt.
#[derive(Clone, Debug)]
pub struct AttemptStatus {
    /// The step's name: the task's, with the element's place in a `for_each`.
    pub step: Arc<str>,
    /// In which generation of the run.
    pub generation: u32,
    /// Which attempt, counted from 1.
    pub number: u32,
    /// How it ended.
    pub kind: StepKind,
    /// When it began.
    pub started_at: Time,
    /// When it ended.
    pub ended_at: Time,
    /// Why it failed.
    pub failure: Option<Failure>,
    /// When the next attempt is due.
    pub retry_at: Option<Time>,
}

impl VersionChange {
    pub(crate) fn new(at: Time, changed: Changed) -> Self {
        let Changed { from, to, definition: _ } = changed;
        Self { from: from.into(), to: to.into(), at }
    }
}

impl RunStatus {
    /// What was called under this name: `charge`, `charge#2`.
    #[must_use]
    pub fn call(&self, name: &str) -> Option<&CallStatus> {
        self.calls.iter().find(|call| &*call.name == name)
    }

    /// The task of this name.
    #[must_use]
    pub fn task(&self, name: &str) -> Option<&TaskStatus> {
        self.tasks.iter().find(|task| &*task.name == name)
    }
}

/// The plan that a run follows: the one it was last recorded under, or the one that this process has.
pub(crate) async fn plan(client: &Client, image: &RunImage) -> Result<Arc<Plan>, Error> {
    let known = client.node().and_then(|node| node.registry.get(&image.run.workflow));
    match (take_up::definition_of(client.hub(), image)?, known) {
        (Some(id), Some(known)) if known.definition == id => Ok(Arc::clone(&known.plan)),
        (None, Some(known)) => Ok(Arc::clone(&known.plan)),
        (Some(id), _) => {
            let missing = || Error::Decode {
                what: format!("the definition of workflow `{}`", image.run.workflow),
                why: "it is missing from the database".to_owned(),
            };
            let row = client.hub().store.definition(id).await?.ok_or_else(missing)?;
            Ok(Arc::new(Plan::new(Arc::new(recorded(client, row)?))))
        }
        (None, None) => Err(Error::UnknownWorkflow { name: image.run.workflow.to_string(), nearest: None }),
    }
}

pub(crate) async fn of(client: &Client, image: RunImage) -> Result<RunStatus, Error> {
    let (ended_at, verdict, wait) = match &image.standing.place {
        Place::Ended(end) => (Some(end.at), verdict_of(client.hub(), end)?, None),
        Place::Waiting(wait) => (None, None, Some(wait.clone())),
        Place::Ready | Place::Owned { .. } => (None, None, None),
    };
    let (definition, views) = match plan(client, &image).await {
        Ok(plan) => {
            let definition = Some(Arc::clone(&plan.definition));
            (definition, views(client, &image, plan, verdict.as_ref()).await?)
        }
        Err(Error::UnknownWorkflow { .. }) => (None, Vec::new()),
        Err(error) => return Err(error),
    };
    let mut tasks: Vec<TaskStatus> =
        views.into_iter().map(|(view, progress)| TaskStatus::new(view, progress)).collect();
    for row in image.steps.iter().filter(|row| !row.name.contains('/')) {
        let task = row.name.split_once('[').map_or(&*row.name, |(task, _)| task);
        if let Some(status) = tasks.iter_mut().find(|status| &*status.name == task) {
            let step = take_up::step(client.hub(), row)?;
            if row.attempt > 0 && step.kind != StepKind::Started {
                status.attempts.push(AttemptStatus {
                    step: step.name,
                    generation: row.generation,
                    number: step.attempt,
                    kind: step.kind,
                    started_at: step.started_at,
                    ended_at: step.ended_at,
                    failure: step.detail.failure.map(|failure| *failure),
                    retry_at: step.detail.retry_at,
                });
            }
        }
    }
    for (lane, (state, failure)) in undos(client, &image)? {
        let task = lane.split_once('[').map_or(&*lane, |(task, _)| task);
        if let Some(status) = tasks.iter_mut().find(|status| &*status.name == task) {
            status.add_undo(state, failure);
        }
    }
    let changes = take_up::changes(client.hub(), &image)?;
    let versions = changes.into_iter().map(|(at, changed)| VersionChange::new(at, changed)).collect();
    let calls = calls(client, &image)?;
    let published = published(client, &image)?;
    let undoing = pending_verdict(client, &image)?;
    let state = match image.standing.state() {
        RunState::Running | RunState::Suspended if undoing.is_some() => RunState::Undoing,
        state => state,
    };
    let verdict = verdict.or(undoing);
    Ok(RunStatus {
        id: image.run.id,
        workflow: image.run.workflow,
        definition,
        key: image.run.key,
        tags: image.run.tags,
        queue: image.run.queue,
        queue_key: image.run.queue_key,
        priority: image.run.priority,
        timeout: image.run.timeout,
        parent: image.run.parent.map(|parent| parent.run),
        forked_from: image.run.forked_from,
        state,
        versions,
        calls,
        published,
        generation: image.standing.generation,
        recoveries: image.standing.recoveries,
        created_at: image.run.created_at,
        ended_at,
        wait,
        verdict,
        tasks,
    })
}

/// Whether the run's verdict stands, and it has not ended.
pub(crate) fn is_undoing(client: &Client, image: &RunImage) -> Result<bool, Error> {
    let is_live = !image.standing.state().is_terminal();
    Ok(is_live && pending_verdict(client, image)?.is_some())
}

/// How the run will end, once its undos have ended.
fn pending_verdict(client: &Client, image: &RunImage) -> Result<Option<Verdict>, Error> {
    let generation = image.standing.generation;
    let kept = image.steps.iter().find(|row| &*row.name == VERDICT && row.generation == generation);
    let step = kept.map(|row| take_up::step(client.hub(), row)).transpose()?;
    let verdict = step.and_then(|step| step.detail.verdict).map(|verdict| *verdict);
    // One that has completed, or is abandoned, only sees to what it has left behind.
    Ok(verdict.filter(|verdict| !matches!(verdict, Verdict::Completed | Verdict::Abandoned { .. })))
}

fn published(client: &Client, image: &RunImage) -> Result<BTreeMap<String, Value>, Error> {
    let rows = image.saved.iter().filter_map(|row| Some((row.step.strip_prefix("//")?, &row.value)));
    let decode = |(key, value): (&str, &bytes::Bytes)| {
        let what = format!("what is published as `{key}`");
        let json = client.hub().read(&what, value.clone())?;
        let value = serde_json::from_slice(&json);
        Ok((key.to_owned(), value.map_err(|why| Error::Decode { what, why: why.to_string() })?))
    };
    rows.map(decode).collect()
}

/// The name of the record with which a round of an endless function begins.
const ROUND: &str = "//continue";

/// What durable functions called. Of a call that was made in several generations, the last counts.
fn calls(client: &Client, image: &RunImage) -> Result<Vec<CallStatus>, Error> {
    let mut calls: Vec<CallStatus> = Vec::new();
    let is_call =
        |name: &str| name.contains('/') && ![VERDICT, VERSION].contains(&name) && !name.ends_with(UNDO);
    let records = image.steps.iter().filter(|row| is_call(&row.name));
    let round = image.steps.iter().rev().find(|row| *row.name == *ROUND).map_or(0, |row| row.attempt);
    // What it says of children depends on the run alone. A fork has the records of another one.
    let journal = Journal::new(image.run.id, round, Time(0), Vec::new());
    let own = image.run.forked_from.is_none();
    for row in records {
        let step = take_up::step(client.hub(), row)?;
        let state = call_state(step.kind);
        let name = row.name.strip_prefix('/').unwrap_or(&row.name);
        let name = name.strip_suffix("/patch").unwrap_or(name);
        if let Some(call) = name.strip_suffix("/undo") {
            if let Some(call) = calls.iter_mut().find(|known| &*known.name == call) {
                (call.undo, call.undo_failure) = (Some(state), step.detail.failure.map(|failure| *failure));
            }
            continue;
        }
        let now = CallStatus {
            name: name.into(),
            kind: step.detail.call,
            state,
            attempts: if step.kind == StepKind::Started { step.attempt - 1 } else { step.attempt },
            failure: step.detail.failure.map(|failure| *failure),
            started_at: step.started_at,
            ended_at: step.ended_at,
            retry_at: step.detail.retry_at,
            child: (own && step.detail.call == CallKind::Child).then(|| journal.child(name, row.generation)),
            undo: None,
            undo_failure: None,
        };
        match calls.iter_mut().find(|known| *known.name == *name) {
            Some(known) => *known = now,
            None => calls.push(now),
        }
    }
    Ok(calls)
}

/// How the undos of tasks and instances stand. One of something that was done again since counts no more.
fn undos(client: &Client, image: &RunImage) -> Result<BTreeMap<String, (TaskState, Option<Failure>)>, Error> {
    let mut undos = BTreeMap::new();
    for row in &image.steps {
        let Some(lane) = row.name.strip_suffix(UNDO) else {
            if row.kind == StepKind::Completed {
                undos.remove(&*row.name);
            }
            continue;
        };
        let failure = take_up::step(client.hub(), row)?.detail.failure.map(|failure| *failure);
        undos.insert(lane.to_owned(), (call_state(row.kind), failure));
    }
    Ok(undos)
}

/// How a call, or an undo, stands by its last record.
const fn call_state(kind: StepKind) -> TaskState {
    match kind {
        StepKind::Completed => TaskState::Completed,
        StepKind::Failed => TaskState::Failed,
        _ => TaskState::Ready,
    }
}

async fn views(
    client: &Client,
    image: &RunImage,
    plan: Arc<Plan>,
    verdict: Option<&Verdict>,
) -> Result<Vec<(TaskView, Option<f64>)>, Error> {
    if let Some(Described { tasks, progress }) = ask_the_loop(client, image).await {
        let known = |view: TaskView| {
            let progress = progress.get(&view.name).copied();
            (view, progress)
        };
        return Ok(tasks.into_iter().map(known).collect());
    }
    let mut run = placed(client, image, &plan)?;
    let ended = matches!(image.standing.place, Place::Ended(_));
    if image.standing.definition.is_some() && !ended {
        run.apply(windlass_core::Event::Begin, client.hub().clock.now());
    }
    let mut views = run.tasks();
    for view in views.iter_mut().filter(|view| ended && !view.state.is_terminal()) {
        let poison = matches!(verdict, Some(Verdict::Abandoned { step, .. }) if step.split('[').next() == Some(&view.name));
        view.state = if poison { TaskState::Abandoned } else { TaskState::Cancelled };
    }
    Ok(views.into_iter().map(|view| (view, None)).collect())
}

/// The run as far as its records have a place in the plan: code whose version was set by hand may have recorded more.
fn placed(client: &Client, image: &RunImage, plan: &Arc<Plan>) -> Result<Run, Error> {
    let task = |step: &str| step.split(['[', '/']).next().unwrap_or(step).to_owned();
    let mut strangers = HashSet::new();
    loop {
        let mut seed = take_up::seed_for_view(client.hub(), image, Arc::clone(plan))?;
        seed.steps.retain(|(_, step)| !strangers.contains(&task(&step.name)));
        let why = match Run::new(seed) {
            Ok(run) => return Ok(run),
            Err(why) => why,
        };
        let is_new = match &why {
            Divergence::Gone { step } | Divergence::Shape { step } => strangers.insert(task(step)),
            _ => false,
        };
        if !is_new {
            return Err(Error::Decode { what: "the run's records".to_owned(), why: why.to_string() });
        }
    }
}

/// A run that is held here is asked itself: it knows what executes.
async fn ask_the_loop(client: &Client, image: &RunImage) -> Option<Described> {
    let (sender, views) = oneshot::channel();
    client.node()?.tell(image.run.id, Mail::Describe(sender))?;
    // A loop whose attempt does not yield cannot answer; then the records must do.
    tokio::time::timeout(PATIENCE, views).await.ok()?.ok()
}

/// How long a run loop may take to say where its tasks stand.
const PATIENCE: Duration = Duration::from_millis(500);

impl TaskStatus {
    fn new(view: TaskView, progress: Option<f64>) -> Self {
        let TaskView { name, state, skip, failure, items, .. } = view;
        let (undo, undo_failure) = (None, None);
        Self { name, state, skip, failure, attempts: Vec::new(), items, undo, undo_failure, progress }
    }

    fn add_undo(&mut self, state: TaskState, failure: Option<Failure>) {
        let weight = |state: &TaskState| match state {
            TaskState::Failed => 2,
            TaskState::Ready => 1,
            _ => 0,
        };
        if self.undo.as_ref().is_none_or(|known| weight(&state) >= weight(known)) {
            (self.undo, self.undo_failure) = (Some(state), failure);
        }
    }
}
