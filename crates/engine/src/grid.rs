//! The latest runs of a workflow, task by task.

use std::{collections::HashMap, sync::Arc};

use windlass_core::{RunId, RunState, TaskState, Time};
use windlass_store::{Place, Query, RunSummary};

use crate::{
    Client, Error,
    history::{self, TaskPast},
    workflows::Workflows,
};

/// How many steps are read: a run may have any number.
const STEPS: usize = 20_000;
/// About how many runs are looked at to find those that are shown.
pub(crate) const LOOK: usize = 5_000;

/// The latest runs of a workflow by its tasks, so that those stand out that fail now and then.
#[derive(Clone, Debug)]
pub struct Grid {
    /// The tasks, or what a durable function called: those of the newest version first.
    pub tasks: Vec<GridTask>,
    /// The runs, newest first.
    pub runs: Vec<GridRun>,
}

/// A column of a [`Grid`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GridTask {
    /// The task's name.
    pub name: Arc<str>,
    /// Whether it needed more than one attempt in any of these runs, or completed in some and failed in others.
    pub flaky: bool,
}

/// A row of a [`Grid`].
#[derive(Clone, Debug)]
pub struct GridRun {
    /// The run.
    pub id: RunId,
    /// Its state.
    pub state: RunState,
    /// When its start was committed.
    pub created_at: Time,
    /// When it ended.
    pub ended_at: Option<Time>,
    /// What became of its tasks, in the order of the columns. `None` for one of which nothing is recorded.
    pub cells: Vec<Option<TaskPast>>,
}

impl Workflows {
    /// The latest runs of a workflow, at most so many, task by task.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownWorkflow`] when no engine ever brought it, when the store cannot be asked, or the record cannot be
    /// read.
    pub async fn grid(&self, name: &str, limit: usize) -> Result<Grid, Error> {
        let known = self.get(name).await?;
        let query = Query { workflow: Some(name.into()), limit, look: LOOK, ..Query::default() };
        let page = self.client.hub().store.find(query).await?;
        let pasts = pasts(&self.client, &page.runs).await?;
        let mut tasks: Vec<Arc<str>> =
            known.definition.tasks.iter().map(|task| Arc::clone(&task.name)).collect();
        for past in pasts.iter().flatten() {
            if !tasks.contains(&past.task) {
                tasks.push(Arc::clone(&past.task));
            }
        }
        let row = |(run, past): (RunSummary, Vec<TaskPast>)| {
            let cell = |task: &Arc<str>| past.iter().find(|past| past.task == *task).cloned();
            let ended_at = match &run.standing.place {
                Place::Ended(end) => Some(end.at),
                _ => None,
            };
            let (state, cells) = (run.standing.state(), tasks.iter().map(cell).collect());
            GridRun { id: run.id, state, created_at: run.created_at, ended_at, cells }
        };
        let runs: Vec<GridRun> = page.runs.into_iter().zip(pasts).map(row).collect();
        let column = |(index, name)| GridTask { name, flaky: is_flaky(&runs, index) };
        Ok(Grid { tasks: tasks.into_iter().enumerate().map(column).collect(), runs })
    }
}

fn is_flaky(runs: &[GridRun], column: usize) -> bool {
    let cells = || runs.iter().filter_map(|run| run.cells[column].as_ref());
    let is_any = |state| cells().any(|cell| cell.state == state);
    cells().any(|cell| cell.attempts > 1) || is_any(TaskState::Completed) && is_any(TaskState::Failed)
}

/// What became of the tasks of each of these runs.
pub(crate) async fn pasts(client: &Client, runs: &[RunSummary]) -> Result<Vec<Vec<TaskPast>>, Error> {
    let ids = runs.iter().map(|run| run.id).collect();
    let outlines: HashMap<_, _> = client.hub().store.outlines(ids, STEPS).await?.into_iter().collect();
    let past = |run: &RunSummary| outlines.get(&run.id).map(|steps| history::of_steps(steps));
    Ok(runs.iter().map(|run| past(run).unwrap_or_default()).collect())
}
