//! A task that is made at run time.

use std::{fmt, sync::Arc, time::Duration};

use serde::Serialize;
use windlass_core::{Failure, Merge, Retry, Rule, TaskDraft};

use super::{Body, BoxFuture, Call, Done, Slot, TaskCode, TaskCx, Want, parts::join_conditions};

/// A task that is made at run time, for [`Workflow::builder`](super::Workflow::builder).
///
/// ```
/// use windlass::{Result, Task, Workflow};
///
/// # fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
/// let workflow = Workflow::builder("from-config")
///     .task(Task::new("a", |cx| async move { Ok(cx.input::<u32>()? + 1) }))
///     .task(Task::new("b", |cx| async move { Ok(cx.result::<u32>("a")? * 2) }).after(["a"]))
///     .build()?;
/// assert_eq!(workflow.name(), "from-config");
/// # Ok(())
/// # }
/// ```
pub struct Task {
    draft: TaskDraft,
    body: DynamicBody,
    wants: Vec<Want>,
    undo: Option<(Retry, Undoing)>,
}

/// How a task is undone.
type Undoing = Arc<dyn Fn(TaskCx) -> BoxFuture + Send + Sync>;

enum DynamicBody {
    Async(Arc<dyn Fn(TaskCx) -> BoxFuture + Send + Sync>),
    Blocking(Arc<dyn Fn(TaskCx) -> Body + Send + Sync>),
}

impl Task {
    /// A task whose body runs on the runtime.
    #[must_use]
    pub fn new<F, R, T>(name: impl Into<String>, body: F) -> Self
    where
        F: Fn(TaskCx) -> R + Send + Sync + 'static,
        R: Future<Output = Result<T, Failure>> + Send + 'static,
        T: Serialize + Send + Sync + 'static,
    {
        let body = move |cx: TaskCx| -> BoxFuture {
            let running = body(cx.clone());
            Box::pin(async move { finish(&cx, running.await) })
        };
        Self::with(name, DynamicBody::Async(Arc::new(body)))
    }

    /// A task whose body runs on the blocking pool.
    #[must_use]
    pub fn blocking<F, T>(name: impl Into<String>, body: F) -> Self
    where
        F: Fn(TaskCx) -> Result<T, Failure> + Send + Sync + 'static,
        T: Serialize + Send + Sync + 'static,
    {
        let body = move |cx: TaskCx| finish(&cx, body(cx.clone()));
        Self::with(name, DynamicBody::Blocking(Arc::new(body)))
    }

    fn with(name: impl Into<String>, body: DynamicBody) -> Self {
        Self { draft: TaskDraft::new(name), body, wants: Vec::new(), undo: None }
    }

    /// Makes it wait for these tasks too, in this order. Default: it waits for nothing.
    #[must_use]
    pub fn after<S: Into<String>>(mut self, tasks: impl IntoIterator<Item = S>) -> Self {
        self.draft = self.draft.after(tasks);
        self
    }

    /// Makes it run when this holds, once its dependencies have ended. Default: when all have completed.
    #[must_use]
    pub fn rule(mut self, rule: Rule) -> Self {
        self.draft.rule = Some(rule);
        self
    }

    /// Sets what happens after a failed attempt. Default: [`Retry::default`].
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.draft.retry = retry;
        self
    }

    /// Sets the longest that one attempt may take. Default: no limit.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.draft.timeout = Some(timeout);
        self
    }

    /// Sets the longest that the task may take with all its attempts, from the moment it is ready. Default: no
    /// limit.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.draft.deadline = Some(deadline);
        self
    }

    /// Sets the longest that an attempt may go without a beat. Default: no limit.
    #[must_use]
    pub fn beat_timeout(mut self, timeout: Duration) -> Self {
        self.draft.beat_timeout = Some(timeout);
        self
    }

    /// Makes it run once per element of this task's result, and wait for it. Default: it runs once.
    #[must_use]
    pub fn for_each(mut self, task: impl Into<String>) -> Self {
        self.draft = self.draft.for_each(task);
        self
    }

    /// Sets how many elements of a `for_each` may be worked on at once. Default: as many as there are slots.
    #[must_use]
    pub fn limit(mut self, limit: u32) -> Self {
        self.draft.limit = Some(limit);
        self
    }

    /// Sets how the contexts of its dependencies are joined. Default: [`Merge::LastWins`].
    #[must_use]
    pub fn merge(mut self, merge: Merge) -> Self {
        self.draft.merge = merge;
        self
    }

    /// Leaves the run's verdict alone when the task fails. In a `for_each`, dependents then get a list of
    /// [`Outcome`](super::Outcome)s. Default: the run fails.
    #[must_use]
    pub fn allow_failure(mut self) -> Self {
        self.draft.allow_failure = true;
        self
    }

    /// Sets the queue that its attempts wait in: any node that serves it executes them. Default: they are executed by
    /// the node that holds the run.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.draft.queue = Some(queue.into());
        self
    }

    /// Says how the task is undone, should the run fail, be cancelled or time out after the task has completed. The undo
    /// is given the task's result by the task's own name, or that of the element in a `for_each`:
    /// `cx.result::<Receipt>("charge")`. It is tried like a task, and never again once it is recorded. Default: it is not.
    #[must_use]
    pub fn undo<F, R>(self, undo: F) -> Self
    where
        F: Fn(TaskCx) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        self.undo_with(Retry::default(), undo)
    }

    /// The same, with what happens after a failed attempt of the undo.
    #[must_use]
    pub fn undo_with<F, R>(mut self, retry: Retry, undo: F) -> Self
    where
        F: Fn(TaskCx) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let undo = move |cx: TaskCx| -> BoxFuture {
            let running = undo(cx.clone());
            Box::pin(async move { finish(&cx, running.await) })
        };
        self.undo = Some((retry, Arc::new(undo)));
        self
    }

    /// Says that the body takes a resource of this type, so that a missing one is found at launch. Default: a
    /// missing one is found when the body asks for it.
    #[must_use]
    pub fn wants<T: Send + Sync + 'static>(mut self) -> Self {
        self.wants.push(Want::of::<T>());
        self
    }

    /// The description, and the code as soon as the names of the dependencies are settled.
    pub(crate) fn split(mut self) -> (TaskDraft, impl FnOnce(Arc<[String]>) -> TaskCode) {
        self.draft.undo = self.undo.is_some();
        let (body, wants, retry) = (self.body, self.wants, self.draft.retry.clone());
        let (undo, own): (_, Arc<[String]>) = (self.undo, Arc::new([self.draft.name.clone()]));
        let code = move |names: Arc<[String]>| {
            let mut code = match body {
                DynamicBody::Async(body) => {
                    TaskCode::asynchronous(move |call: Call| body(TaskCx::new(call, Arc::clone(&names))))
                }
                DynamicBody::Blocking(body) => {
                    TaskCode::blocking(move |call: Call| body(TaskCx::new(call, Arc::clone(&names))))
                }
            };
            code.wants = wants;
            if let Some((retry, undo)) = undo {
                let undo = move |call: Call| undo(TaskCx::new(call, Arc::clone(&own)));
                code.undone_with(retry, TaskCode::asynchronous(undo));
            }
            join_conditions(code, &retry)
        };
        (self.draft, code)
    }
}

fn finish<T: Serialize + Send + Sync + 'static>(cx: &TaskCx, result: Result<T, Failure>) -> Body {
    Ok(Done { output: Slot::new(result?)?, changes: cx.take_changes() })
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("draft", &self.draft).finish_non_exhaustive()
    }
}
