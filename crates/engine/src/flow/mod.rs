//! Durable functions.

mod child;
mod driver;
mod dry;
mod event;
mod map;
mod scene;
mod send;
mod step;
mod task;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) mod transaction;
mod undo;
mod visit;
mod wait;
mod waker;

use std::{sync::Arc, time::Duration};

pub use child::ChildWait;
pub(crate) use child::{cancel, children};
use driver::Driver;
pub(crate) use dry::Replayed;
pub use event::{Event, Pending};
pub use map::MapWait;
pub(crate) use scene::Scene;
pub use send::Sending;
pub(crate) use send::pending;
use serde::{Serialize, de::DeserializeOwned};
pub use step::{Step, StepBody, TypedStep};
pub(crate) use task::Attended;
pub(crate) use undo::{Undone, undo_all};
use visit::LookBack;
pub(crate) use visit::{ENOUGH, Looking, RATE, TIMEOUT, Visit};
pub use wait::{EventWait, SleepWait, TimedEventWait};
#[cfg(feature = "logs")]
pub(crate) use waker::current_step;
pub(crate) use waker::in_body;
use windlass_core::{Chart, Failure, RunId, Time};

use crate::{
    AnyWorkflow, BoxFuture, Call, Cx, TaskCode, Workflow,
    authoring::{caught::TaskError, parts},
};

/// The generation of records that a run has from the one that it was forked from: before its first.
pub(crate) const INHERITED: u32 = 0;

/// What a durable function calls to do something that lasts.
///
/// The function is run again from its top whenever its run is taken up: after a crash, a deployment, or a long wait.
/// What it called before is then not done again, but read from the record. So between two calls it may do anything that
/// comes out the same each time: compute, branch, loop. Whatever does not (reading a file, asking a server, looking at a
/// clock, drawing a random number) belongs into a [`step`](Self::step), or is asked of this: [`now`](Self::now),
/// [`random`](Self::random), [`uuid`](Self::uuid).
///
/// It cannot be cloned, so that no task which the function spawns can hold it.
#[derive(Debug)]
pub struct Flow {
    scene: Arc<Scene>,
    cx: Cx,
    /// The visit of a state that this is for, in a state machine; else empty.
    within: Arc<str>,
}

impl Flow {
    fn new(scene: Arc<Scene>, cx: Cx, within: Arc<str>) -> Self {
        Self { scene, cx, within }
    }

    /// The run.
    #[must_use]
    pub fn run_id(&self) -> RunId {
        self.cx.run_id()
    }

    /// The workflow's name.
    #[must_use]
    pub fn workflow(&self) -> &str {
        self.cx.workflow()
    }

    /// How many times the run was opened: 1, and one more for each retry by a person.
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.cx.generation()
    }

    /// What the run knows of the schedule that started it: the time that it is for, when it was started, and whether that
    /// is made up for. `None` for a run that no schedule started. It is the same whenever the function is run again.
    #[cfg(feature = "schedule")]
    #[must_use]
    pub fn fired(&self) -> Option<&crate::schedule::Fired> {
        self.cx.fired()
    }

    /// Does a piece of work once, and records its result.
    ///
    /// The work is a closure that returns a future of a `Result`; it may borrow from the function around it, and may take
    /// the step's own [`Cx`]. It is known by its name, and by how many steps of that name were called before: both are
    /// settled where this is called, not where the future is awaited.
    pub fn step<'f, T, How>(&'f self, name: impl AsRef<str>, body: impl StepBody<'f, T, How>) -> Step<'f, T> {
        Step::new(&self.scene, &self.within, name.as_ref(), body)
    }

    /// The same for code that blocks its thread: it runs on the blocking pool, and owns what it needs.
    pub fn blocking<T, E, F>(&self, name: impl AsRef<str>, body: F) -> Step<'_, T>
    where
        F: FnOnce() -> Result<T, E> + Clone + Send + 'static,
        T: Serialize + Send + Sync + 'static,
        E: TaskError + Send + 'static,
    {
        Step::blocking(&self.scene, &self.within, name.as_ref(), body)
    }

    /// Waits, across restarts if need be, and costs nothing while it does.
    pub fn sleep(&self, span: Duration) -> SleepWait<'_> {
        SleepWait::after(Ok(&self.scene), &self.within, span)
    }

    /// Waits until a time.
    pub fn sleep_until(&self, time: Time) -> SleepWait<'_> {
        SleepWait::until(Ok(&self.scene), &self.within, time)
    }

    /// Waits for an event: the first of its name that was sent to this run and not received yet.
    pub fn event<T: DeserializeOwned>(&self, event: Event<T>) -> EventWait<'_, T> {
        EventWait::new(Ok(&self.scene), &self.within, event.name())
    }

    /// Starts a run of another workflow, a child of this one, and waits for its result. It is started once, and known by
    /// the workflow's name. When the function ends first, the child is cancelled, unless it is to be
    /// [left alone](ChildWait::leave).
    pub fn run<I, O>(&self, workflow: Workflow<I, O>, input: I) -> ChildWait<'_, O>
    where
        I: Serialize + Send + Sync + 'static,
    {
        ChildWait::new(Ok(&self.scene), &self.within, workflow, input)
    }

    /// Ends this round of an endless function, and begins the next one with another input and nothing recorded: the
    /// function's history stays small, however long it goes on. Events that were not received yet are kept. What was
    /// done before can not be undone any more, and children that are under way are cancelled.
    ///
    /// `cx.continue_with(State { day: state.day + 1 }).await`
    pub async fn continue_with<I, O>(&self, input: I) -> Result<O, Failure>
    where
        I: Serialize + Send + Sync + 'static,
    {
        self.scene.continue_with(crate::Slot::new(input)?);
        // The function is dropped here, and run from its top.
        std::future::pending().await
    }

    /// The time, as of the last thing that the function heard of. The same whenever the function is run again.
    #[must_use]
    pub fn now(&self) -> Time {
        self.scene.state().journal.now()
    }

    /// A number from 0 to 1, below 1. The same whenever the function is run again.
    #[must_use]
    pub fn random(&self) -> f64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.scene.state().journal.draw()[..8]);
        (u64::from_le_bytes(bytes) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A random id that nobody else has. The same whenever the function is run again, also after a `retry`: for a request
    /// that may be undone and made again, use the step's own [`key`](Cx::key).
    #[must_use]
    pub fn uuid(&self) -> uuid::Uuid {
        uuid::Builder::from_random_bytes(self.scene.state().journal.draw()).into_uuid()
    }

    /// Whether a change of the code applies to this run: no for runs that had passed this point before the change, yes
    /// for all others, and for ever the same for one run. A run that waits right behind this point has recorded nothing
    /// behind it, and counts as one that has not passed it: its wait begins anew.
    ///
    /// `if cx.patch("ask-for-consent") { new code } else { old code }`
    #[must_use]
    pub fn patch(&self, name: &str) -> bool {
        let name = match &*self.within {
            "" => name.to_owned(),
            visit => windlass_core::within(visit, name),
        };
        let (is_on, is_new) = self.scene.state().patch(&name);
        if is_new {
            self.scene.keep_patch(&name);
        }
        is_on
    }

    /// Makes a call for each item, so many at once, and gives their results in the order of the items. The first one that
    /// fails is the answer; the others are dropped then.
    ///
    /// `let rows = cx.map(users, 8, |user| cx.step("enrich", move || crm.enrich(user))).await?;`
    pub fn map<I, C, T>(
        &self,
        items: impl IntoIterator<Item = I>,
        limit: usize,
        call: impl FnMut(I) -> C,
    ) -> MapWait<C, T>
    where
        C: Future<Output = Result<T, Failure>> + Unpin,
    {
        // Each is known by its place from here on, whichever ends first.
        MapWait::new(items.into_iter().map(call).collect(), limit)
    }

    /// Shows a value to whoever looks at the run: see [`RunStatus::published`](crate::RunStatus::published). A later one
    /// with the same key replaces it. It is written along the way, and the function does not wait for it.
    ///
    /// # Errors
    ///
    /// When the value cannot be kept, or the key cannot be a name.
    pub fn publish<T: Serialize>(&self, key: &str, value: &T) -> Result<(), Failure> {
        self.scene.publish(key, value)
    }

    /// Says how far the function has come (0.0 to 1.0), and in words, for whoever looks at the run. It is published as
    /// `progress`.
    ///
    /// # Errors
    ///
    /// When it cannot be kept.
    pub fn progress(&self, progress: f64, note: &str) -> Result<(), Failure> {
        self.cx.beat(progress);
        self.publish("progress", &serde_json::json!({ "done": progress.clamp(0.0, 1.0), "note": note }))
    }
}

/// What happens when a durable function waits for something that is not recorded: a timer of the runtime, a channel, a
/// task of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForeignWaits {
    /// It is logged once, with the step before it.
    #[default]
    Warn,
    /// The run fails. What a laboratory does.
    Fail,
    /// Nothing.
    Allow,
}

/// The code of a durable function, with its types forgotten.
#[doc(hidden)]
pub type FlowCode = Arc<dyn Fn(Call, Flow) -> BoxFuture + Send + Sync>;

/// What a macro saw of a durable function.
#[doc(hidden)]
#[derive(Debug)]
pub struct FlowParts {
    /// Its name.
    pub name: &'static str,
    /// What it is for.
    pub description: Option<&'static str>,
    /// The version, where the author sets it by hand.
    pub version: Option<&'static str>,
    /// The longest that a run may take.
    pub timeout: Option<Duration>,
    /// The fingerprint of its code.
    pub code: &'static str,
}

/// The workflow that a durable function is. `wants` names the resources that it takes.
#[doc(hidden)]
pub fn flow<I, O>(parts: FlowParts, wants: Vec<crate::Want>, code: FlowCode) -> Workflow<I, O> {
    charted(parts, None, wants, code)
}

/// The same, for one that goes through these states.
pub(crate) fn charted<I, O>(
    parts: FlowParts,
    chart: Option<Chart>,
    wants: Vec<crate::Want>,
    code: FlowCode,
) -> Workflow<I, O> {
    let mut body = TaskCode::asynchronous(move |call| -> BoxFuture {
        match call.cx().inner().scene() {
            Some(scene) => Box::pin(Driver::new(Arc::clone(scene), call, &code)),
            None => Box::pin(async { Err(Failure::permanent("a durable function needs an engine")) }),
        }
    });
    body.wants = wants;
    parts::build_flow(parts, chart, body)
}

/// The same function, which keeps these older versions of it for the runs that began under them.
#[doc(hidden)]
#[must_use]
pub fn keep<I, O>(workflow: Workflow<I, O>, kept: Vec<AnyWorkflow>) -> Workflow<I, O> {
    AnyWorkflow::from(workflow).keeping(kept).typed()
}
