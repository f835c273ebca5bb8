//! Resources that are set up before the engine works, and torn down after it.

use std::{
    any::type_name,
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use windlass_core::Failure;

/// A resource with a life of its own. Give it to the engine with
/// [`EngineBuilder::managed`](crate::EngineBuilder::managed); tasks and machines get it as any other.
///
/// Those that were given first are set up first and torn down last, so that one may use another.
pub trait Managed: Send + Sync + 'static {
    /// What it is called in errors and in the engine's health. Default: its type.
    fn name(&self) -> String {
        type_name::<Self>().to_owned()
    }

    /// Makes it ready. The engine is not launched when this fails; what was set up before it is torn down.
    fn set_up(&self) -> impl Future<Output = Result<(), Failure>> + Send {
        async { Ok(()) }
    }

    /// Puts it away, when the engine has stopped.
    fn tear_down(&self) -> impl Future<Output = Result<(), Failure>> + Send {
        async { Ok(()) }
    }

    /// Whether it can be used right now.
    fn health(&self) -> impl Future<Output = Result<(), Failure>> + Send {
        async { Ok(()) }
    }
}

/// Whether a managed resource can be used.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Health {
    /// What the resource is called.
    pub name: String,
    /// Why it cannot be used, if it cannot.
    pub outcome: Result<(), Failure>,
}

type Answer<'a> = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + 'a>>;

/// A managed resource of some type.
pub(crate) trait Supervised: Send + Sync {
    fn name(&self) -> String;
    fn set_up(&self) -> Answer<'_>;
    fn tear_down(&self) -> Answer<'_>;
    fn health(&self) -> Answer<'_>;
}

impl<T: Managed> Supervised for T {
    fn name(&self) -> String {
        Managed::name(self)
    }

    fn set_up(&self) -> Answer<'_> {
        Box::pin(Managed::set_up(self))
    }

    fn tear_down(&self) -> Answer<'_> {
        Box::pin(Managed::tear_down(self))
    }

    fn health(&self) -> Answer<'_> {
        Box::pin(Managed::health(self))
    }
}

/// The managed resources of an engine, in the order in which they were given.
#[derive(Default)]
pub(crate) struct Wardens {
    resources: Vec<Arc<dyn Supervised>>,
    is_down: AtomicBool,
}

impl Wardens {
    pub(crate) fn add(&mut self, resource: Arc<dyn Supervised>) {
        self.resources.push(resource);
    }

    /// Sets all up, first to last.
    pub(crate) async fn set_up(&self) -> Result<(), String> {
        for (at, resource) in self.resources.iter().enumerate() {
            if let Err(failure) = resource.set_up().await {
                let mut problem = format!("`{}` cannot be set up: {failure}", resource.name());
                for other in tear_down(&self.resources[..at]).await {
                    problem = format!("{problem}; {other}");
                }
                return Err(problem);
            }
        }
        Ok(())
    }

    /// Tears all down, last to first, unless that was done. Answers what went wrong.
    pub(crate) async fn tear_down(&self) -> Vec<String> {
        match self.is_down.swap(true, Ordering::AcqRel) {
            true => Vec::new(),
            false => tear_down(&self.resources).await,
        }
    }

    pub(crate) async fn health(&self) -> Vec<Health> {
        let mut all = Vec::with_capacity(self.resources.len());
        for resource in &self.resources {
            all.push(Health { name: resource.name(), outcome: resource.health().await });
        }
        all
    }
}

/// One that cannot be torn down does not keep the others up.
async fn tear_down(resources: &[Arc<dyn Supervised>]) -> Vec<String> {
    let mut problems = Vec::new();
    for resource in resources.iter().rev() {
        if let Err(failure) = resource.tear_down().await {
            problems.push(format!("`{}` cannot be torn down: {failure}", resource.name()));
        }
    }
    problems
}
