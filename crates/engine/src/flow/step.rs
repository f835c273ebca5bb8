//! A step of a durable function.

use std::{
    any::Any,
    future::Future,
    marker::PhantomData,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use windlass_core::{CallKind, Detail, Failure, Retry, StepKind, Time};

use super::{
    scene::{Outcome, Scene, Then, Turn},
    undo::Undo,
    waker::{OwnWaker, in_step, ours},
};
use crate::{
    Cx,
    attempt::{Limits, guard, within},
    authoring::{
        caught::TaskError,
        slot::{from_json, to_json},
    },
    watchdog::Watched,
};

/// A piece of work that is done once: its result is recorded, and a function that is run again gets it from the record.
///
/// It is a future of its result. Nothing begins before it is awaited (or joined with others).
#[must_use = "a step does nothing unless it is awaited"]
pub struct Step<'f, T> {
    scene: &'f Arc<Scene>,
    call: Result<u64, Failure>,
    work: Work<'f>,
    /// What happens after a failed attempt, if it was said.
    retry: Option<Retry>,
    limits: Limits,
    /// Whether its attempts see to the limits themselves.
    minds_limits: bool,
    running: Option<Running<'f>>,
    /// Keeps the value of an error, where somebody wants it back.
    keep_error: Option<fn(&dyn Any) -> Option<Value>>,
    value: PhantomData<fn() -> T>,
}

/// Makes an attempt.
type Work<'f> = Box<dyn FnMut(&mut Making<'_>) -> Attempt<'f> + Send + 'f>;
/// An attempt on its way to its result as JSON.
pub(super) type Attempt<'f> = Pin<Box<dyn Future<Output = Result<Bytes, Raised>> + Send + 'f>>;

/// An error of a step, with its type for whoever knows it.
#[doc(hidden)]
pub struct Raised {
    error: Box<dyn Any + Send>,
    failure: fn(Box<dyn Any + Send>) -> Failure,
}

impl Raised {
    pub(super) fn new<E: TaskError + Send + 'static>(error: E) -> Self {
        let failure = |error: Box<dyn Any + Send>| match error.downcast::<E>() {
            Ok(error) => error.into_failure(),
            Err(_) => Failure::new("an error of another type"),
        };
        Self { error: Box::new(error), failure }
    }

    /// The failure, with the error's value if somebody knows how to keep that.
    fn into_failure(self, value: Option<fn(&dyn Any) -> Option<Value>>) -> Failure {
        let value = value.and_then(|value| value(&*self.error));
        let mut failure = (self.failure)(self.error);
        failure.value = failure.value.or(value.map(Box::new));
        failure
    }
}

impl From<Failure> for Raised {
    fn from(failure: Failure) -> Self {
        Self::new(failure)
    }
}

struct Running<'f> {
    id: Arc<str>,
    attempt: Attempt<'f>,
    number: u32,
    started_at: Time,
    waker: OwnWaker,
    _watched: Option<Watched>,
}

/// An attempt that is being made. What it knows about itself is put together when somebody asks: most code does not.
#[doc(hidden)]
#[derive(Debug)]
pub struct Making<'a> {
    scene: &'a Arc<Scene>,
    id: &'a Arc<str>,
    number: u32,
    limits: Limits,
    cx: Option<Cx>,
}

impl Making<'_> {
    fn cx(&mut self) -> &Cx {
        let Self { scene, id, number, limits, cx } = self;
        cx.get_or_insert_with(|| Cx::of_step(scene, id, *number, *limits))
    }
}

/// What may be done as a step: a closure that returns a future of a `Result`, with or without a [`Cx`].
#[diagnostic::on_unimplemented(
    message = "this cannot be a step",
    label = "a closure that returns a future of a `Result` is expected here",
    note = "write `cx.step(\"charge\", || bank.charge(&order))`, or `|s: Cx| …` to have the step's own `Cx`",
    note = "the closure has to be `Clone` (it is called again for each attempt) and `Send`, and its result `Serialize`"
)]
pub trait StepBody<'f, T, How>: Send + 'f {
    /// Makes an attempt.
    #[doc(hidden)]
    fn attempt(&mut self, making: &mut Making<'_>) -> Attempt<'f>;
}

/// A closure without a parameter.
#[doc(hidden)]
#[derive(Debug)]
pub struct Plain;

/// A closure that takes a [`Cx`].
#[doc(hidden)]
#[derive(Debug)]
pub struct WithCx;

impl<'f, F, R, T, E> StepBody<'f, T, Plain> for F
where
    F: FnOnce() -> R + Clone + Send + 'f,
    R: Future<Output = Result<T, E>> + Send + 'f,
    T: Serialize + Send + Sync + 'static,
    E: TaskError + Send + 'static,
{
    fn attempt(&mut self, _: &mut Making<'_>) -> Attempt<'f> {
        let body = self.clone()();
        Box::pin(async move { encode(body.await) })
    }
}

impl<'f, F, R, T, E> StepBody<'f, T, WithCx> for F
where
    F: FnOnce(Cx) -> R + Clone + Send + 'f,
    R: Future<Output = Result<T, E>> + Send + 'f,
    T: Serialize + Send + Sync + 'static,
    E: TaskError + Send + 'static,
{
    fn attempt(&mut self, making: &mut Making<'_>) -> Attempt<'f> {
        let body = self.clone()(making.cx().clone());
        Box::pin(async move { encode(body.await) })
    }
}

pub(super) fn encode<T, E>(result: Result<T, E>) -> Result<Bytes, Raised>
where
    T: Serialize,
    E: TaskError + Send + 'static,
{
    Ok(to_json(&result.map_err(Raised::new)?)?)
}

impl<'f, T> Step<'f, T> {
    pub(super) fn new<How>(
        scene: &'f Arc<Scene>,
        within: &str,
        name: &str,
        mut body: impl StepBody<'f, T, How>,
    ) -> Self {
        let work = Box::new(move |making: &mut Making<'_>| body.attempt(making));
        Self::of(scene, within, name, work)
    }

    pub(super) fn blocking<F, E>(scene: &'f Arc<Scene>, within: &str, name: &str, body: F) -> Self
    where
        F: FnOnce() -> Result<T, E> + Clone + Send + 'static,
        T: Serialize + Send + Sync + 'static,
        E: TaskError + Send + 'static,
    {
        let user = scene.cell.node.user.clone();
        let work = move |_: &mut Making<'_>| -> Attempt<'f> {
            let (body, user) = (body.clone(), user.clone());
            Box::pin(async move {
                let work = user.spawn_blocking(move || encode(guard(body)?));
                work.await.unwrap_or_else(|_| Err(Failure::new("the blocking pool is shut down").into()))
            })
        };
        Self::of(scene, within, name, Box::new(work))
    }

    /// A step whose attempts record their result themselves.
    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    pub(super) fn in_transaction(
        scene: &'f Arc<Scene>,
        within: &str,
        name: &str,
        attempt: impl Fn(u64, Cx) -> Attempt<'f> + Send + 'f,
    ) -> Self {
        let mut step = Self::of(scene, within, name, Box::new(|_| Box::pin(std::future::pending())));
        if let Ok(call) = step.call {
            step.work = Box::new(move |making| attempt(call, making.cx().clone()));
        }
        step.minds_limits = true;
        step
    }

    fn of(scene: &'f Arc<Scene>, within: &str, name: &str, work: Work<'f>) -> Self {
        Self {
            call: scene.call(within, name, CallKind::Step, None),
            scene,
            work,
            retry: None,
            limits: Limits::default(),
            minds_limits: false,
            running: None,
            keep_error: None,
            value: PhantomData,
        }
    }

    /// Sets what happens after a failed attempt. Default: [`Retry::default`].
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = Some(retry);
        self
    }

    /// Sets the longest that one attempt may take. Default: no limit.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.limits.timeout = Some(timeout);
        self
    }

    /// Sets the longest that an attempt may go without a [`beat`](Cx::beat). Default: no limit.
    pub fn beat_timeout(mut self, timeout: Duration) -> Self {
        self.limits.beat_timeout = Some(timeout);
        self
    }

    /// Says how the step is undone, should the run fail, be cancelled or time out after the step has completed. The
    /// undo gets the step's result, and may have to run in another process: it owns what it needs. It is tried like a
    /// step, and never again once it is recorded.
    pub fn undo<U, R, E>(self, undo: U) -> Self
    where
        U: FnOnce(T) -> R + Clone + Send + 'static,
        R: Future<Output = Result<(), E>> + Send + 'static,
        T: DeserializeOwned + 'static,
        E: TaskError,
    {
        self.undo_with(Retry::default(), undo)
    }

    /// The same, with what happens after a failed attempt of the undo.
    pub fn undo_with<U, R, E>(self, retry: Retry, undo: U) -> Self
    where
        U: FnOnce(T) -> R + Clone + Send + 'static,
        R: Future<Output = Result<(), E>> + Send + 'static,
        T: DeserializeOwned + 'static,
        E: TaskError,
    {
        if let Ok(number) = self.call {
            self.scene.set_undo(number, Undo::new(retry, undo));
        }
        self
    }

    /// Gives the step's own error back as it was, for a function that looks at it: the answer is
    /// `Ok(Err(error))`, live and from the record alike. What is no error of the step's own code (a time limit, a panic)
    /// stays a [`Failure`].
    pub fn typed<E>(mut self) -> TypedStep<'f, T, E>
    where
        E: Serialize + DeserializeOwned + 'static,
    {
        self.keep_error = Some(|error| serde_json::to_value(error.downcast_ref::<E>()?).ok());
        TypedStep { step: self, error: PhantomData }
    }

    fn begin(&mut self, call: u64, id: Arc<str>, number: u32) {
        let (scene, limits) = (self.scene, self.limits);
        let node = &scene.cell.node;
        let started_at = scene.now();
        let mut making = Making { scene, id: &id, number, limits, cx: None };
        let watched = match limits.is_none() {
            true => None,
            false => node.watchdog.watch(making.cx(), || started_at),
        };
        let planned = node.saboteur.as_ref().and_then(|saboteur| saboteur(making.cx()));
        let body = match planned {
            Some(failure) => Err(failure),
            None => guard(|| in_step(&id, || (self.work)(&mut making))),
        };
        let attempt: Attempt<'f> = match body {
            Err(failure) => Box::pin(async { Err(failure.into()) }),
            Ok(body) if limits.is_none() || self.minds_limits => body,
            Ok(body) => {
                let (node, cx) = (Arc::clone(node), making.cx().clone());
                let body = Box::pin(async { Ok(body.await) });
                Box::pin(async move { within(body, &node, &cx).await? })
            }
        };
        if let Some(cx) = making.cx.take()
            && let Some(call) = scene.state().open.get_mut(&call)
        {
            call.cx = Some(cx);
        }
        self.running =
            Some(Running { id, attempt, number, started_at, waker: OwnWaker::default(), _watched: watched });
    }

    /// Asks the attempt how far it is. When it has ended, that is recorded.
    fn go_on(&mut self, call: u64, waker: &Waker) {
        let scene = self.scene;
        let Some(running) = &mut self.running else { return };
        let (own, attempt) = (running.waker.of(scene, waker), running.attempt.as_mut());
        let polled = guard(|| in_step(&running.id, || attempt.poll(&mut Context::from_waker(own))));
        let outcome = match polled {
            Ok(Poll::Pending) => return,
            Ok(Poll::Ready(outcome)) => outcome,
            Err(panic) => Err(panic.into()),
        };
        let outcome = outcome.map_err(|raised| raised.into_failure(self.keep_error));
        let Some(Running { id, number, started_at, attempt, .. }) = self.running.take() else { return };
        if guard(|| drop(attempt)).is_err() {
            tracing::error!("the code of a step panicked when it was dropped");
        }
        self.record(call, &id, number, started_at, outcome);
    }

    fn record(
        &self,
        call: u64,
        id: &Arc<str>,
        number: u32,
        started_at: Time,
        outcome: Result<Bytes, Failure>,
    ) {
        let (scene, hub) = (self.scene, &self.scene.cell.node.hub);
        let at = scene.now();
        let kept = outcome.and_then(|json| {
            let kept = hub.keep(format_args!("the result of `{id}`"), json.clone());
            kept.map(|kept| (json, kept)).map_err(|error| Failure::permanent(Failure::from(error)))
        });
        let failure = match kept {
            Ok((json, kept)) => {
                let row = scene.row(id, number, StepKind::Completed, started_at, at, Some(kept), None);
                let then = Then::Ended(Arc::clone(id), CallKind::Step, at, Outcome::Value(json));
                return scene.record_of(call, row, then);
            }
            Err(failure) => failure,
        };
        let tries = number - scene.state().spent_before(id);
        let rule = self.retry.clone().unwrap_or_default();
        let retry = rule.decide(tries, &failure, crate::run_loop::fastrand()).map(|delay| at + delay);
        let retry = retry.filter(|_| scene.state().closing.is_none());
        scene.log_failure(id, tries, &rule, &failure, retry.map(|retry| retry.since(at)));
        let detail =
            Detail { failure: Some(Box::new(failure.clone())), retry_at: retry, ..Detail::default() };
        let detail = match scene.cell.encode(&detail) {
            Ok(detail) => detail,
            Err(why) => return scene.cell.break_off(why),
        };
        let (kind, then) = match retry {
            Some(retry) => (StepKind::Retrying, Then::Backoff(Arc::clone(id), number, retry)),
            None => {
                scene.state().note_failed(id, number);
                (
                    StepKind::Failed,
                    Then::Ended(Arc::clone(id), CallKind::Step, at, Outcome::Failed(Box::new(failure))),
                )
            }
        };
        scene.record_of(call, scene.row(id, number, kind, started_at, at, None, detail), then);
    }
}

impl<T: DeserializeOwned> Future for Step<'_, T> {
    type Output = Result<T, Failure>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let call = match &this.call {
            Ok(call) => *call,
            Err(misuse) => return Poll::Ready(Err(misuse.clone())),
        };
        match this.scene.turn(call, cx.waker()) {
            Turn::Ended(id, outcome) => return this.scene.read(&id, outcome),
            Turn::Wait => return Poll::Pending,
            Turn::Begin(id, number) => this.begin(call, id, number),
            Turn::Running => {}
        }
        ours(|| this.go_on(call, cx.waker()));
        Poll::Pending
    }
}

impl<T> Drop for Step<'_, T> {
    fn drop(&mut self) {
        let running = self.running.take();
        if running.is_some() && guard(|| drop(running)).is_err() {
            tracing::error!("the code of a step panicked when it was dropped");
        }
        if let Ok(call) = self.call {
            self.scene.forget(call);
        }
    }
}

impl Outcome {
    pub(super) fn decode<T: DeserializeOwned>(self) -> Result<T, Failure> {
        match self {
            Self::Value(json) => from_json(&json),
            Self::Nothing => from_json(b"null"),
            Self::Failed(failure) => Err(*failure),
        }
    }
}

impl<T> std::fmt::Debug for Step<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Step").field("call", &self.call).finish_non_exhaustive()
    }
}

/// A step whose own error comes back as it was.
#[derive(Debug)]
#[must_use = "a step does nothing unless it is awaited"]
pub struct TypedStep<'f, T, E> {
    step: Step<'f, T>,
    error: PhantomData<fn() -> E>,
}

impl<T: DeserializeOwned, E: DeserializeOwned> Future for TypedStep<'_, T, E> {
    type Output = Result<Result<T, E>, Failure>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.get_mut().step).poll(cx).map(|outcome| match outcome {
            Ok(value) => Ok(Ok(value)),
            Err(failure) => match failure.value.as_deref().map(E::deserialize) {
                Some(Ok(error)) => Ok(Err(error)),
                _ => Err(failure),
            },
        })
    }
}
