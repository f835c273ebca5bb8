//! Where a run stands, for people and programs.

use std::{sync::Arc, time::Duration};

use tokio::sync::oneshot;
use windlass_core::{
    Definition, Failure, Plan, RunId, RunState, Skip, StepKind, TaskState, TaskView, Time, Verdict,
};
use windlass_store::{Place, RunImage, Wait};

use crate::{
    Client, Error,
    handle::verdict_of,
    run_loop::{Described, Mail},
    take_up,
};

/// Where a run stands.
#[derive(Clone, Debug)]
pub struct RunStatus {
    /// The run.
    pub id: RunId,
    /// The workflow it is a run of.
    pub workflow: Arc<str>,
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
    /// Why it ended, unless it completed.
    pub verdict: Option<Verdict>,
    /// Its tasks, as declared. Empty for a run whose workflow no process has taken up yet and this one does
    /// not know.
    pub tasks: Vec<TaskStatus>,
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
    /// How far a running attempt says it has come, by its last [`beat`](crate::Cx::beat). Seen in the
    /// process that runs it, and for tasks that are not a `for_each`.
    pub progress: Option<f64>,
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

impl RunStatus {
    /// The task of this name.
    #[must_use]
    pub fn task(&self, name: &str) -> Option<&TaskStatus> {
        self.tasks.iter().find(|task| &*task.name == name)
    }
}

/// The plan that a run follows: the one it was recorded under, or the one that this process has.
pub(crate) async fn plan(client: &Client, image: &RunImage) -> Result<Arc<Plan>, Error> {
    let known = client.node().and_then(|node| node.registry.get(&image.run.workflow));
    match (image.standing.definition, known) {
        (Some(id), Some(known)) if known.definition == id => Ok(Arc::clone(&known.plan)),
        (None, Some(known)) => Ok(Arc::clone(&known.plan)),
        (Some(id), _) => {
            let what = || format!("the definition of workflow `{}`", image.run.workflow);
            let missing =
                || Error::Decode { what: what(), why: "it is missing from the database".to_owned() };
            let row = client.hub().store.definition(id).await?.ok_or_else(missing)?;
            let json = client.hub().read(what(), row.body)?;
            let definition = Definition::from_json(&json)
                .map_err(|why| Error::Decode { what: what(), why: why.to_string() })?;
            Ok(Arc::new(Plan::new(Arc::new(definition))))
        }
        (None, None) => Err(Error::UnknownWorkflow { name: image.run.workflow.to_string(), nearest: None }),
    }
}

pub(crate) async fn of(client: &Client, image: RunImage) -> Result<RunStatus, Error> {
    let (ended_at, verdict, wait) = match &image.standing.place {
        Place::Ended(end) => (Some(end.at), verdict_of(client, end)?, None),
        Place::Waiting(wait) => (None, None, Some(wait.clone())),
        Place::Ready | Place::Owned { .. } => (None, None, None),
    };
    let views = match plan(client, &image).await {
        Ok(plan) => views(client, &image, plan, verdict.as_ref()).await?,
        Err(Error::UnknownWorkflow { .. }) => Vec::new(),
        Err(error) => return Err(error),
    };
    let mut tasks: Vec<TaskStatus> =
        views.into_iter().map(|(view, progress)| TaskStatus::new(view, progress)).collect();
    for row in &image.steps {
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
    Ok(RunStatus {
        id: image.run.id,
        workflow: image.run.workflow,
        state: image.standing.state(),
        generation: image.standing.generation,
        recoveries: image.standing.recoveries,
        created_at: image.run.created_at,
        ended_at,
        wait,
        verdict,
        tasks,
    })
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
    let seed = take_up::seed_for_view(client.hub(), image, plan)?;
    let mut run = match windlass_core::Run::new(seed) {
        Ok(run) => run,
        Err(why) => return Err(Error::Decode { what: "the run's records".to_owned(), why: why.to_string() }),
    };
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
        Self { name, state, skip, failure, attempts: Vec::new(), items, progress }
    }
}
