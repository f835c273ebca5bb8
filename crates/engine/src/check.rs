//! Seeing, before a deployment, what would become of the runs in flight.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    future::IntoFuture,
    sync::Arc,
};

use tracing::{Dispatch, instrument::WithSubscriber};
use windlass_core::{ClaimId, Failure, NodeId, RunId, RunState, Verdict};
use windlass_store::{DefinitionId, Query, RunImage};

use crate::{
    AnyWorkflow, Client, Error, Resources,
    boxed::{Boxed, boxed},
    flow::Replayed,
    machine::Wardens,
    node::{Node, Registered},
    options::Options,
    run_loop::RunCell,
    start::registered,
    take_up,
};

/// How many runs are listed at a time.
const PORTION: usize = 200;

/// A look at what would become of runs in flight under the code at hand. It is made when it is awaited.
#[must_use = "nothing is looked at before this is awaited"]
#[derive(Debug)]
pub struct Check {
    client: Client,
    workflows: Vec<AnyWorkflow>,
    resources: Resources,
    runs: Vec<RunId>,
}

/// What would become of the runs in flight.
#[derive(Clone, Debug)]
pub struct CheckReport {
    /// Each run that was looked at: workflow by workflow, newest first.
    pub runs: Vec<CheckedRun>,
}

/// What would become of one run.
#[derive(Clone, Debug)]
pub struct CheckedRun {
    /// The run.
    pub id: RunId,
    /// The key it was started under.
    pub key: Option<String>,
    /// The workflow it is a run of.
    pub workflow: Arc<str>,
    /// The version of the code that would go on with it: the newest, or an older one that is kept for it.
    pub version: Arc<str>,
    /// Where it stands now.
    pub state: RunState,
    /// What would become of it.
    pub forecast: Forecast,
}

/// What would become of a run if the code at hand took it up now.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Forecast {
    /// Everything that is recorded fits the code, and the run goes on.
    GoesOn {
        /// The calls that the function waits for then, or makes next. Empty for a graph.
        next: Vec<String>,
    },
    /// Everything that is recorded fits the code, which completes without calling anything more.
    Completes,
    /// Everything that is recorded fits the code, which fails without calling anything more: the run fails, and what it did is
    /// undone.
    Fails(Failure),
    /// The run's verdict is recorded, and its undos go on.
    Undoes,
    /// The code does not fit what is recorded: the run would be [`Blocked`](RunState::Blocked).
    Blocked {
        /// The first difference, in the words that the run's status would have.
        reason: String,
    },
    /// It cannot be told: the function waits for something that is not recorded.
    Unclear {
        /// What is known of that.
        reason: String,
    },
    /// The run has ended, and no code touches it.
    Ended,
}

impl Client {
    /// Looks at what would become of the runs in flight of a workflow if this program, with the code of it that is given
    /// here, took them up: before a deployment, from a program that runs nothing.
    ///
    /// Nothing is executed and nothing written: a durable function is replayed up to the first call that is not recorded,
    /// and no step, wait or child begins. The function's own code between its calls does run, as in any replay. A graph is
    /// compared with its records; what its tasks wait for is not looked at. Runs may go on elsewhere meanwhile; the answer
    /// is about what was recorded when each was read.
    pub fn check(&self, workflow: impl Into<AnyWorkflow>) -> Check {
        let resources = self.node().map(|node| Resources::clone(&node.resources)).unwrap_or_default();
        Check { client: self.clone(), workflows: vec![workflow.into()], resources, runs: Vec::new() }
    }
}

impl Check {
    /// Looks at the runs of this workflow too.
    pub fn workflow(mut self, workflow: impl Into<AnyWorkflow>) -> Self {
        self.workflows.push(workflow.into());
        self
    }

    /// A value that functions take by its type, as `Res<T>`. An engine has those that it was given.
    pub fn resource<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.resources.insert(value);
        self
    }

    /// A value that functions take by its type, as `Res<T>`, and that the rest of the program goes on using.
    pub fn shared<T: Send + Sync + 'static>(mut self, value: Arc<T>) -> Self {
        self.resources.share(value);
        self
    }

    /// Looks at this run only. May be given several times. Default: all runs that have not ended.
    pub fn run(mut self, id: RunId) -> Self {
        self.runs.push(id);
        self
    }

    async fn report(self) -> Result<CheckReport, Error> {
        let Self { client, workflows, resources, runs } = self;
        let problems: Vec<_> = workflows.iter().flat_map(|one| one.problems(&resources)).collect();
        if !problems.is_empty() {
            return Err(Error::Launch { problems });
        }
        let names: BTreeSet<_> = workflows.iter().map(|one| Arc::clone(&one.definition().name)).collect();
        let program = Program::new(&client, workflows, resources);
        let mut checked = Vec::new();
        for id in &runs {
            let image = client.hub().store.load(*id).await?.ok_or(Error::UnknownRun(*id))?;
            checked.push(program.look_at(&image).await?);
        }
        for name in names.into_iter().filter(|_| runs.is_empty()) {
            program.look_at_all(name, &mut checked).await?;
        }
        Ok(CheckReport { runs: checked })
    }
}

impl IntoFuture for Check {
    type Output = Result<CheckReport, Error>;
    type IntoFuture = Boxed<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        // What the code logs, it logged when it did what is recorded.
        boxed(self.report().with_subscriber(Dispatch::none()))
    }
}

/// A program that takes no run up.
struct Program {
    node: Arc<Node>,
}

impl Program {
    fn new(client: &Client, workflows: Vec<AnyWorkflow>, resources: Resources) -> Self {
        // Numbers of versions are given out by the store, which is only read here.
        let version = |workflow| Registered::new(workflow, DefinitionId(-1), &[]);
        let registry = workflows.into_iter().map(|workflow| {
            let kept = workflow.kept().into_iter().map(|old| Arc::new(version(old))).collect();
            let known = Registered { kept, ..version(workflow) };
            (Arc::clone(&known.plan.definition.name), Arc::new(known))
        });
        let (hub, registry, resources) = (Arc::clone(client.hub()), registry.collect(), Arc::new(resources));
        Self {
            node: Node::new(
                hub,
                Options::default(),
                registry,
                resources,
                HashMap::new(),
                None,
                Wardens::default(),
            ),
        }
    }

    /// Looks at every run of a workflow that has not ended, newest first.
    async fn look_at_all(&self, workflow: Arc<str>, checked: &mut Vec<CheckedRun>) -> Result<(), Error> {
        let store = &self.node.hub.store;
        let states = RunState::ALL.into_iter().filter(|state| !state.is_terminal()).collect();
        let mut query = Query { workflow: Some(workflow), states, limit: PORTION, ..Query::default() };
        loop {
            let page = store.find(query.clone()).await?;
            for found in &page.runs {
                let image = store.load(found.id).await?;
                if let Some(image) = image.filter(|image| !image.standing.state().is_terminal()) {
                    checked.push(self.look_at(&image).await?);
                }
            }
            match page.runs.last() {
                Some(last) if page.more => query.after = Some(last.id),
                _ => return Ok(()),
            }
        }
    }

    async fn look_at(&self, image: &RunImage) -> Result<CheckedRun, Error> {
        let known = self.serving(image).await?;
        let state = image.standing.state();
        let forecast = match state.is_terminal() {
            true => Forecast::Ended,
            false => self.forecast(image, &known).await,
        };
        Ok(CheckedRun {
            id: image.run.id,
            key: image.run.key.clone(),
            workflow: Arc::clone(&image.run.workflow),
            version: Arc::clone(&known.plan.definition.version),
            state: match (state, &forecast) {
                (RunState::Running | RunState::Suspended, Forecast::Undoes) => RunState::Undoing,
                _ => state,
            },
            forecast,
        })
    }

    /// The version that would go on with a run.
    async fn serving(&self, image: &RunImage) -> Result<Arc<Registered>, Error> {
        let newest = registered(&self.node, &image.run.workflow)?;
        let recorded = take_up::definition_of(&self.node.hub, image)?;
        let Some(recorded) = recorded.filter(|_| !newest.kept.is_empty()) else {
            return Ok(newest);
        };
        let recorded = self.node.hub.store.definition(recorded).await?.map(|row| row.version);
        let same = newest.kept.iter().find(|kept| recorded.as_ref() == Some(&kept.plan.definition.version));
        Ok(Arc::clone(same.unwrap_or(&newest)))
    }

    async fn forecast(&self, image: &RunImage, known: &Arc<Registered>) -> Forecast {
        let fits = take_up::check_version(&self.node.hub, image, known).await;
        let prepare = |()| take_up::prepare(&self.node, NodeId::new(), ClaimId::new(), image, known);
        let (subject, run) = match fits.and_then(prepare) {
            Ok(prepared) => prepared,
            Err(reason) => return Forecast::Blocked { reason },
        };
        let closing = run.closing();
        let cell = RunCell::aside(Arc::clone(&self.node), subject);
        match run.replay(&cell).await {
            Err(reason) => Forecast::Blocked { reason },
            Ok(Some(Replayed::Diverged(divergence))) => Forecast::Blocked { reason: divergence.to_string() },
            Ok(Some(Replayed::Strays(why))) => Forecast::Unclear { reason: why.message },
            Ok(_) if let Some(verdict) = closing => Forecast::of(&verdict),
            Ok(Some(Replayed::Waits(calls))) => {
                Forecast::GoesOn { next: calls.iter().map(ToString::to_string).collect() }
            }
            Ok(Some(Replayed::Returned(Ok(())))) => Forecast::Completes,
            Ok(Some(Replayed::Returned(Err(failure)))) => Forecast::Fails(failure),
            Ok(Some(Replayed::Continues) | None) => Forecast::GoesOn { next: Vec::new() },
        }
    }
}

impl Forecast {
    /// That of a run whose verdict stands.
    fn of(verdict: &Verdict) -> Self {
        match verdict {
            // It only sees to what it has left behind.
            Verdict::Completed => Self::Completes,
            Verdict::Failed { .. } | Verdict::TimedOut { .. } | Verdict::Cancelled { .. } => Self::Undoes,
            Verdict::Abandoned { step, deaths } => Self::Fails(Failure::permanent(format!(
                "the run is abandoned: its process died {deaths} times in a row with `{step}` started"
            ))),
        }
    }

    /// Whether the code fits what is recorded.
    #[must_use]
    pub const fn is_compatible(&self) -> bool {
        !matches!(self, Self::Blocked { .. } | Self::Unclear { .. })
    }
}

impl CheckReport {
    /// The runs whose records the code fits.
    pub fn compatible(&self) -> impl Iterator<Item = &CheckedRun> {
        self.runs.iter().filter(|run| run.forecast.is_compatible())
    }

    /// The runs that would be blocked.
    pub fn blocked(&self) -> impl Iterator<Item = &CheckedRun> {
        self.runs.iter().filter(|run| matches!(run.forecast, Forecast::Blocked { .. }))
    }

    /// The runs of which it cannot be told.
    pub fn unclear(&self) -> impl Iterator<Item = &CheckedRun> {
        self.runs.iter().filter(|run| matches!(run.forecast, Forecast::Unclear { .. }))
    }
}

impl fmt::Display for Forecast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::GoesOn { next } if next.is_empty() => f.write_str("goes on"),
            Self::GoesOn { next } => write!(f, "goes on with `{}`", next.join("`, `")),
            Self::Completes => f.write_str("completes"),
            Self::Fails(failure) => write!(f, "fails: {failure}"),
            Self::Undoes => f.write_str("goes on with its undos"),
            Self::Blocked { reason } => write!(f, "BLOCKED: {reason}"),
            Self::Unclear { reason } => write!(f, "unclear: {reason}"),
            Self::Ended => f.write_str("has ended"),
        }
    }
}

/// A table for people: a line for each run, and how many there are.
impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = |run: &CheckedRun| run.key.clone().unwrap_or_else(|| "-".to_owned());
        let widest = |cells: &mut dyn Iterator<Item = usize>| cells.max().unwrap_or(0);
        let names = widest(&mut self.runs.iter().map(|run| run.workflow.chars().count()));
        let keys = widest(&mut self.runs.iter().map(|run| key(run).chars().count()));
        for run in &self.runs {
            let (state, key) = (run.state.to_string(), key(run));
            writeln!(f, "{}  {:names$}  {key:keys$}  {state:9}  {}", run.id, run.workflow, run.forecast)?;
        }
        let (all, fit) = (self.runs.len(), self.compatible().count());
        let (blocked, unclear) = (self.blocked().count(), self.unclear().count());
        let runs = if all == 1 { "run" } else { "runs" };
        write!(f, "{all} {runs}: {fit} compatible, {blocked} would be blocked, {unclear} unclear")
    }
}
