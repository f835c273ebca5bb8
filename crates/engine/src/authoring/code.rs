//! The code of a task, with its types forgotten.

use std::{
    any::{TypeId, type_name},
    fmt,
    sync::Arc,
};

use windlass_core::Failure;

use super::{Body, BoxFuture, Call};

/// A function that says whether a failure is worth another attempt.
#[doc(hidden)]
pub type Predicate = Arc<dyn Fn(&Failure) -> bool + Send + Sync>;

/// The code of a task.
#[doc(hidden)]
#[derive(Clone)]
pub struct TaskCode {
    /// The body.
    pub run: Code,
    /// The resources that it takes.
    pub wants: Vec<Want>,
    /// Which failures are worth another attempt, where the author's own function decides.
    pub predicate: Option<Predicate>,
}

/// The body of a task.
#[doc(hidden)]
#[derive(Clone)]
pub enum Code {
    /// Runs on the runtime.
    Async(Arc<dyn Fn(Call) -> BoxFuture + Send + Sync>),
    /// Runs on the blocking pool.
    Blocking(Arc<dyn Fn(Call) -> Body + Send + Sync>),
}

/// A resource that a task takes.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Want {
    /// Which type.
    pub type_id: TypeId,
    /// What people call it.
    pub type_name: &'static str,
}

impl Want {
    /// A resource of this type.
    #[must_use]
    pub fn of<T: ?Sized + 'static>() -> Self {
        Self { type_id: TypeId::of::<T>(), type_name: type_name::<T>() }
    }
}

impl TaskCode {
    /// Code that runs on the runtime.
    #[must_use]
    pub fn asynchronous(run: impl Fn(Call) -> BoxFuture + Send + Sync + 'static) -> Self {
        Self { run: Code::Async(Arc::new(run)), wants: Vec::new(), predicate: None }
    }

    /// Code that runs on the blocking pool.
    #[must_use]
    pub fn blocking(run: impl Fn(Call) -> Body + Send + Sync + 'static) -> Self {
        Self { run: Code::Blocking(Arc::new(run)), wants: Vec::new(), predicate: None }
    }

    /// The same code, which also takes this resource.
    #[must_use]
    pub fn wanting<T: Send + Sync + 'static>(mut self) -> Self {
        self.wants.push(Want::of::<T>());
        self
    }

    /// The same code, where this function finds failures worth another attempt. Several are joined by *any*.
    #[must_use]
    pub fn retried_when(mut self, predicate: impl Fn(&Failure) -> bool + Send + Sync + 'static) -> Self {
        self.predicate = Some(match self.predicate.take() {
            None => Arc::new(predicate),
            Some(other) => Arc::new(move |failure| other(failure) || predicate(failure)),
        });
        self
    }
}

impl fmt::Debug for TaskCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let run = match self.run {
            Code::Async(_) => "async",
            Code::Blocking(_) => "blocking",
        };
        f.debug_struct("TaskCode").field("run", &run).field("wants", &self.wants).finish_non_exhaustive()
    }
}
