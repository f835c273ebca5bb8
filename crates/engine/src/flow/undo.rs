//! Putting things in order when a durable function does not complete: its undos run, newest first.

use std::{future::Future, mem, pin::Pin, sync::Arc};

use bytes::Bytes;
use serde::de::DeserializeOwned;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use windlass_core::{Context, Detail, Failure, Retry, StepKind, Time, VERDICT};
use windlass_store::StepRow;

use super::scene::{Scene, State, Then};
use crate::{
    Call, Code, Cx, Dependency, Slot,
    attempt::{Limits, guard, judge},
    authoring::{UndoCode, caught::TaskError},
};

/// How a step is undone.
pub(super) struct Undo {
    retry: Retry,
    work: Box<dyn FnMut(Bytes, Cx) -> Undoing + Send>,
}

type Undoing = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;

/// The node wants to give the run up.
pub(super) struct Halted;

impl Undo {
    pub(super) fn new<T, U, R, E>(retry: Retry, undo: U) -> Self
    where
        U: FnOnce(T) -> R + Clone + Send + 'static,
        R: Future<Output = Result<(), E>> + Send + 'static,
        T: DeserializeOwned,
        E: TaskError,
    {
        let work = move |json, _| -> Undoing {
            let undo = undo.clone();
            match Slot::from_bytes(json).decode::<T>() {
                Ok(value) => {
                    let undoing = undo(value);
                    Box::pin(async move { undoing.await.map_err(TaskError::into_failure) })
                }
                Err(failure) => Box::pin(async { Err(failure) }),
            }
        };
        Self { retry, work: Box::new(work) }
    }

    /// How a task of a graph is undone, in a run with this input. `None` if its code cannot be run here.
    fn of_task(undo: &Arc<UndoCode>, input: &Slot) -> Option<Self> {
        let Code::Async(body) = undo.code.run.clone() else { return None };
        let (input, undo) = (input.clone(), Arc::clone(undo));
        let retry = undo.retry.clone();
        let work = move |json, cx| -> Undoing {
            let undone = Dependency::Completed(Slot::from_bytes(json));
            let (input, undo) = (input.clone(), Arc::clone(&undo));
            let (dependencies, context) = (vec![undone], Context::default());
            let undoing = body(Call { input, dependencies, item: None, context, detached: None, cx });
            let judged = move |failure| judge(failure, undo.code.predicate.as_deref());
            Box::pin(async move { undoing.await.map(drop).map_err(judged) })
        };
        Some(Self { retry, work: Box::new(work) })
    }
}

/// A completed task of a graph that is to be undone, and what it came to.
pub(crate) struct Undone {
    pub(crate) scene: Arc<Scene>,
    pub(crate) result: Slot,
    pub(crate) code: Arc<UndoCode>,
}

/// Undoes tasks, in this order. Answers whether all of it was done; if not, the node gives the run up.
pub(crate) async fn undo_all(undos: Vec<Undone>) -> bool {
    for Undone { scene, result, code } in undos {
        let Some(undo) = Undo::of_task(&code, &scene.cell.subject.input) else { continue };
        let id = Arc::from("");
        if scene.state().undone.contains_key(&id) {
            continue;
        }
        let mut undoing = Box::pin(scene.undo(&id, result.bytes(), undo));
        let undone = std::future::poll_fn(|cx| {
            // Whoever halts it wakes this.
            scene.set_driver(cx.waker());
            undoing.as_mut().poll(cx)
        });
        if undone.await.is_err() {
            return false;
        }
    }
    true
}

/// Undoes what was done, newest first. The run's verdict is recorded before the first undo begins.
pub(super) async fn put_in_order(scene: Arc<Scene>) -> Result<(), Halted> {
    // What was being recorded when the function was stopped counts too.
    scene.drained().await;
    let undos = scene.take_undos();
    if !undos.is_empty() {
        scene.keep_verdict().await;
    }
    scene.stop_children().await;
    for (id, value, undo) in undos.into_iter().rev() {
        if !scene.state().undone.contains_key(&id) {
            scene.undo(&id, &value, undo).await?;
        }
    }
    Ok(())
}

impl Scene {
    fn take_undos(&self) -> Vec<(Arc<str>, Bytes, Undo)> {
        let mut state = self.state();
        while let Ok(Some(_)) = state.hear() {}
        let mut undos = mem::take(&mut state.undos);
        // Those that looking back found come last, and are the oldest.
        undos.sort_by_key(|(id, ..)| state.journal.place(id));
        undos
    }

    async fn keep_verdict(self: &Arc<Self>) {
        let unkept = |state: &State| state.closing.clone().filter(|_| !state.verdict_kept);
        let Some(verdict) = unkept(&self.state()) else { return };
        let (now, detail) = (self.now(), Detail { verdict: Some(verdict), ..Detail::default() });
        let mut row = self.row("", 0, StepKind::Skipped, now, now, None, self.encoded(&detail).await);
        row.name = VERDICT.into();
        self.write(row).await;
    }

    async fn undo(self: &Arc<Self>, id: &Arc<str>, value: &Bytes, mut undo: Undo) -> Result<(), Halted> {
        let record: Arc<str> = format!("{id}/undo").into();
        // A task is undone as a whole, and known by its name.
        let name =
            if self.is_task() { format!("{}/undo", self.prefix()).into() } else { Arc::clone(&record) };
        let (mut spent, mut next) = self.tried(&record);
        let (deaths, most) = (self.undo_deaths(&record), self.cell.node.options.max_recoveries);
        if deaths > most {
            let why = format!("its process died {deaths} times in a row while it was running");
            self.give_up_undo(&record, &name, spent + 1, &undo.retry, Failure::permanent(why)).await;
            return Ok(());
        }
        let mut is_suspect = deaths > 0 && deaths == most;
        loop {
            self.wait_until(next).await?;
            // Until its end is recorded, nobody else is to be blamed for what it does.
            let _alone = if mem::take(&mut is_suspect) { self.isolated().await? } else { None };
            let number = spent + 1;
            let started_at = self.now();
            if self.cell.subject.epoch > 0 {
                self.write(self.row(&record, number, StepKind::Started, started_at, started_at, None, None))
                    .await;
            }
            let cx = Cx::of_step(self, &name, number, Limits::default());
            let undoing = match self.cell.node.planned_failure(&cx) {
                Some(failure) => Err(failure),
                None => guard(|| (undo.work)(value.clone(), cx)),
            };
            let outcome = match undoing {
                Ok(undoing) => Guarded(undoing).await,
                Err(failure) => Err(failure),
            };
            let at = self.now();
            let Err(failure) = outcome else {
                self.write(self.row(&record, number, StepKind::Completed, started_at, at, None, None)).await;
                return Ok(());
            };
            let retry =
                undo.retry.decide(number, &failure, crate::run_loop::fastrand()).map(|delay| at + delay);
            self.log_failure(&name, number, &undo.retry, &failure, retry.map(|retry| retry.since(at)));
            let kind = if retry.is_some() { StepKind::Retrying } else { StepKind::Failed };
            let detail = Detail { failure: Some(Box::new(failure)), retry_at: retry, ..Detail::default() };
            let detail = self.encoded(&detail).await;
            self.write(self.row(&record, number, kind, started_at, at, None, detail)).await;
            // One that fails for good does not stop the others.
            let Some(retry) = retry else { return Ok(()) };
            (spent, next) = (number, Some(retry));
        }
    }

    /// Records that an undo has failed for good without being tried once more.
    async fn give_up_undo(
        self: &Arc<Self>,
        record: &str,
        name: &str,
        number: u32,
        retry: &Retry,
        failure: Failure,
    ) {
        self.log_failure(name, number, retry, &failure, None);
        let (at, detail) = (self.now(), Detail { failure: Some(Box::new(failure)), ..Detail::default() });
        let detail = self.encoded(&detail).await;
        self.write(self.row(record, number, StepKind::Failed, at, at, None, detail)).await;
    }

    /// Waits until no other suspect of this node executes, unless the node gives the run up first.
    async fn isolated(&self) -> Result<Option<OwnedSemaphorePermit>, Halted> {
        tokio::select! {
            // The semaphore is never closed.
            alone = Arc::clone(&self.cell.node.isolation).acquire_owned() => Ok(alone.ok()),
            () = self.halted() => Err(Halted),
        }
    }

    /// Cancels children. A run that cannot do so is dropped, and whoever takes it up does.
    pub(super) async fn stop_children(&self) {
        if let Err(error) = self.cancel_children().await {
            tracing::debug!(%error, "the children of a run were not cancelled");
            std::future::pending::<()>().await;
        }
    }

    /// Has a record written in place of all that there are, and waits until it is durable.
    pub(super) async fn forget_and_write(self: &Arc<Self>, row: StepRow) {
        let (sender, written) = oneshot::channel();
        self.write_record(None, row, Vec::new(), true, Then::Tell(sender));
        if written.await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits for a time, unless the node gives the run up first.
    async fn wait_until(&self, time: Option<Time>) -> Result<(), Halted> {
        loop {
            if self.state().is_halted {
                return Err(Halted);
            }
            let clock = &self.cell.node.hub.clock;
            let Some(time) = time.filter(|time| *time > clock.now()) else { return Ok(()) };
            tokio::select! {
                () = tokio::time::sleep_until(clock.instant(time)) => {}
                () = self.halted() => {}
            }
        }
    }

    /// What the store keeps of the rest of a record. A run that cannot be recorded goes no further.
    pub(super) async fn encoded(&self, detail: &Detail) -> Option<Bytes> {
        match self.cell.encode(detail) {
            Ok(detail) => detail,
            Err(why) => {
                self.cell.break_off(why);
                std::future::pending().await
            }
        }
    }

    /// Has a record written, and waits until it is durable.
    async fn write(self: &Arc<Self>, row: StepRow) {
        let (sender, written) = oneshot::channel();
        self.record(row, Vec::new(), Then::Tell(sender));
        if written.await.is_err() {
            // The run is not this node's any more, and is being dropped.
            std::future::pending::<()>().await;
        }
    }
}

/// An undo whose panic is a failure.
struct Guarded(Undoing);

impl Future for Guarded {
    type Output = Result<(), Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> std::task::Poll<Self::Output> {
        guard(|| self.0.as_mut().poll(cx)).unwrap_or_else(|panic| std::task::Poll::Ready(Err(panic)))
    }
}
