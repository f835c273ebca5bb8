//! What a task of a graph may wait for.

use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use serde::{Serialize, de::DeserializeOwned};
use windlass_core::{Failure, Time};

use super::{ChildWait, Event, EventWait, SleepWait, driver::Driver, scene::Scene, waker::is_in_body};
use crate::{Body, Code, Cx, Workflow, attempt::Host, cx::Origin};

/// Waits that last, in a task.
///
/// While a body awaits one of these, its attempt holds no slot, and its time does not count for the task's `timeout` and
/// `beat_timeout`; it does for the `deadline`. A run of which nothing else executes is parked, and what the body had
/// in its hands is dropped: when the wait is over, or when the process died, the body begins again at its top, and what it
/// waited for before is there at once. So is it for the next attempt, after a failure. Waits are told apart by their names,
/// and by how many of that name the body called before.
///
/// They are for bodies that are `async`, that are executed where their run is (in no queue of their own, and in no
/// workflow that is spread) and have no `tx`.
impl Cx {
    /// Waits, across restarts if need be. The time counts from when the task first called this.
    pub fn sleep(&self, span: Duration) -> SleepWait<'_> {
        SleepWait::after(self.waits("cx.sleep"), "", span)
    }

    /// Waits until a time.
    pub fn sleep_until(&self, time: Time) -> SleepWait<'_> {
        SleepWait::until(self.waits("cx.sleep_until"), "", time)
    }

    /// Waits for an event: the first of its name that was sent to this run and that no task has received yet.
    pub fn event<T: DeserializeOwned>(&self, event: Event<T>) -> EventWait<'_, T> {
        EventWait::new(self.waits("cx.event"), "", event.name())
    }

    /// Starts a run of another workflow, a child of this one, and waits for its result. It is started once, and known by
    /// the workflow's name. When the run ends first, the child is cancelled, unless it is to be
    /// [left alone](ChildWait::leave). A child that failed fails the task for good, unless the body says otherwise.
    pub fn run<I, O>(&self, workflow: Workflow<I, O>, input: I) -> ChildWait<'_, O>
    where
        I: Serialize + Send + Sync + 'static,
    {
        ChildWait::new(self.waits("cx.run"), "", workflow, input)
    }

    /// What the task waits for; an error if it cannot.
    fn waits(&self, what: &str) -> Result<&Arc<Scene>, Failure> {
        let refuse = |why: &str| Err(Failure::permanent(format!("`{what}` is not for {why}")));
        let link = match &self.inner().origin {
            Origin::Run(link) => link,
            Origin::Step { id, .. } => {
                return refuse(&format!(
                    "a step or an undo, such as `{id}`: it is one piece of work; wait outside of it"
                ));
            }
            Origin::Nobody { .. } => {
                return refuse("a task that is called without an engine: nobody could wake it");
            }
        };
        let Host::Home(cell) = &link.host else {
            return refuse(
                "a task that any process may execute (`queue`, `spread`): wait in a task that is executed where its run is",
            );
        };
        link.refuse_in_transaction(
            what,
            "the transaction would be open while it waits; wait in a task of its own",
        )?;
        if matches!(cell.code(link.lane.task).run, Code::Blocking(_)) {
            return refuse("a task that blocks its thread: make it an `async fn`");
        }
        if !is_in_body() {
            return refuse("what a task has spawned: call it in the task's own body");
        }
        if let Some(scene) = self.inner().scene() {
            return Ok(scene);
        }
        let scene =
            Scene::of_task(cell, link.lane, self.step(), &[], &BTreeMap::new()).map_err(Failure::from)?;
        let scene = self.inner().set_scene(Arc::new(scene));
        // Whoever told the attempt of these before could not tell its waits.
        if cell.is_paused() {
            scene.pause(true);
            if !cell.is_paused() {
                // That was told before the scene was there, or after it was paused.
                scene.pause(false);
            }
        }
        if self.inner().is_run_ending() {
            scene.stop();
        }
        if self.inner().call_off.is_set() {
            scene.halt();
        }
        Ok(scene)
    }
}

/// The body of a task, whose waits are seen to once there are any.
pub(crate) struct Attended<F> {
    cx: Cx,
    body: Option<F>,
    /// Few tasks wait, and all tasks make room for this.
    driver: Option<Box<Driver>>,
}

impl<F> Attended<F> {
    pub(crate) fn new(body: F, cx: &Cx) -> Self {
        Self { cx: cx.clone(), body: Some(body), driver: None }
    }
}

impl<F: Future<Output = Body> + Send + Unpin + 'static> Future for Attended<F> {
    type Output = Body;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Body> {
        let this = self.get_mut();
        let _turn = this.cx.inner().pulse.begin_turn();
        if let Some(body) = &mut this.body {
            if !this.cx.inner().has_waited()
                && let Poll::Ready(outcome) = Pin::new(body).poll(cx)
            {
                return Poll::Ready(outcome);
            }
            if !this.cx.inner().has_waited() {
                return Poll::Pending;
            }
        }
        if let (Some(scene), Some(body)) = (this.cx.inner().scene(), this.body.take()) {
            let driver = Driver::of_task(Arc::clone(scene), this.cx.clone(), Box::pin(body));
            this.driver = Some(Box::new(driver));
        }
        this.driver.as_mut().map_or(Poll::Pending, |driver| Pin::new(driver).poll(cx))
    }
}
