//! Everything that an attempt is given, and what it gives back.

use std::{pin::Pin, sync::Arc};

use windlass_core::{Changes, Context, Failure, Skip};

use super::{Resources, Slot};
use crate::Cx;

/// Everything that an attempt is given.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct Call {
    pub(crate) input: Slot,
    /// In the order of the task's dependencies.
    pub(crate) dependencies: Vec<Dependency>,
    /// Set in a `for_each`.
    pub(crate) item: Option<Item>,
    pub(crate) context: Context,
    /// What stands for the engine's resources, in a call without an engine.
    pub(crate) detached: Option<Arc<Resources>>,
    pub(crate) cx: Cx,
}

/// How a dependency ended.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub enum Dependency {
    /// It completed, with this result.
    Completed(Slot),
    /// Its last attempt failed.
    Failed(Failure),
    /// It did not run.
    Skipped(Skip),
    /// The run was cancelled, or failed fast, before it ended.
    Cancelled,
}

/// The element that an instance of a `for_each` works on.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct Item {
    /// The list.
    pub source: Slot,
    /// The element's place in it.
    pub index: usize,
}

/// What a body returns when it succeeded.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct Done {
    /// The result.
    pub output: Slot,
    /// What it changed in the run's context.
    pub changes: Changes,
}

/// What a body returns.
#[doc(hidden)]
pub type Body = Result<Done, Failure>;

/// A body that is running.
#[doc(hidden)]
pub type BoxFuture = Pin<Box<dyn Future<Output = Body> + Send>>;

impl Call {
    /// A call without an engine, for tests of bodies.
    #[must_use]
    pub fn detached(task: &str, input: Slot) -> Self {
        Self {
            input,
            dependencies: Vec::new(),
            item: None,
            context: Context::default(),
            detached: None,
            cx: Cx::detached(task),
        }
    }

    /// The same call with these dependencies.
    #[must_use]
    pub fn with_dependencies(mut self, dependencies: impl IntoIterator<Item = Dependency>) -> Self {
        self.dependencies = dependencies.into_iter().collect();
        self
    }

    /// The same call for one element of a list.
    #[must_use]
    pub fn with_item(mut self, source: Slot, index: usize) -> Self {
        self.item = Some(Item { source, index });
        self
    }

    /// Replaces the input, if there is another.
    pub(crate) fn set_input(&mut self, input: Option<Slot>) {
        self.input = input.unwrap_or_else(|| self.input.clone());
    }

    /// The same call with this context.
    #[must_use]
    pub fn with_context(mut self, context: Context) -> Self {
        self.context = context;
        self
    }

    /// The same call with these resources.
    #[must_use]
    pub fn with_resources(mut self, resources: Resources) -> Self {
        self.detached = Some(Arc::new(resources));
        self
    }

    pub(crate) fn resources(&self) -> Option<&Resources> {
        let engines = || Some(&*self.cx.inner().node()?.resources);
        self.detached.as_deref().or_else(engines)
    }

    /// What the attempt knows about itself.
    #[must_use]
    pub fn cx(&self) -> &Cx {
        &self.cx
    }

    /// The context as it is when the attempt begins.
    #[must_use]
    pub fn context(&self) -> Context {
        self.context.clone()
    }
}
