//! Values that the program gives to the engine for its tasks: pools, clients, settings.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    fmt,
    ops::Deref,
    sync::Arc,
};

use super::{AnyWorkflow, Want};

/// A resource that was given to the engine. A copy is cheap, and all copies are the same value.
///
/// It derefs to the value. In a test, make one with [`Res::new`].
pub struct Res<T: ?Sized>(Arc<T>);

impl<T> Res<T> {
    /// A resource of its own, for calling a task's function directly.
    #[must_use]
    pub fn new(value: T) -> Self {
        Self(Arc::new(value))
    }
}

impl<T: ?Sized> Clone for Res<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: ?Sized> Deref for Res<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized> From<Arc<T>> for Res<T> {
    fn from(value: Arc<T>) -> Self {
        Self(value)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Res<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Res").field(&&*self.0).finish()
    }
}

/// The resources that an engine was given, one per type.
#[derive(Clone, Default)]
pub struct Resources {
    values: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
    names: Vec<&'static str>,
}

/// A resource that a task takes and nobody gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The workflow.
    pub workflow: Arc<str>,
    /// The task that takes it.
    pub task: Arc<str>,
    /// The resource's type.
    pub type_name: &'static str,
}

impl Resources {
    /// Adds a resource. A second one of the same type replaces the first.
    pub fn insert<T: Send + Sync + 'static>(&mut self, value: T) {
        self.share(Arc::new(value));
    }

    /// Adds a resource that others hold too.
    pub fn share<T: Send + Sync + 'static>(&mut self, value: Arc<T>) {
        let want = Want::of::<T>();
        if self.values.insert(want.type_id, value).is_none() {
            self.names.push(want.type_name);
        }
    }

    /// The resource of this type.
    #[must_use]
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<Res<T>> {
        let value = Arc::clone(self.values.get(&TypeId::of::<T>())?);
        value.downcast().ok().map(Res)
    }

    /// Those of these that are not here.
    #[cfg(feature = "schedule")]
    pub(crate) fn lacking<'w>(&self, wants: &'w [Want]) -> impl Iterator<Item = &'w Want> + use<'w, '_> {
        wants.iter().filter(|want| !self.values.contains_key(&want.type_id))
    }

    /// Every resource that a workflow's tasks take and that is not here, in the order of its tasks.
    #[must_use]
    pub fn missing(&self, workflow: &AnyWorkflow) -> Vec<Missing> {
        let tasks = workflow.definition().tasks.iter().zip(workflow.code());
        let wants = tasks.flat_map(|(task, code)| code.wants.iter().map(move |want| (task, want)));
        wants
            .filter(|(_, want)| !self.values.contains_key(&want.type_id))
            .map(|(task, want)| Missing {
                workflow: Arc::clone(&workflow.definition().name),
                task: Arc::clone(&task.name),
                type_name: want.type_name,
            })
            .collect()
    }
}

impl fmt::Debug for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.names).finish()
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { workflow, task, type_name } = self;
        write!(
            f,
            "task `{task}` of `{workflow}` takes a resource of type `{type_name}`, which the engine was not given: add \
             `.resource(…)` before `.launch()`"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_found_by_its_type_and_shared() {
        let mut resources = Resources::default();
        resources.insert(String::from("a"));
        resources.insert(7_u32);
        resources.insert(8_u32);
        assert_eq!(&**resources.get::<String>().unwrap(), "a");
        assert_eq!(*resources.get::<u32>().unwrap(), 8);
        assert!(resources.get::<u64>().is_none());
        assert_eq!(format!("{resources:?}"), r#"["alloc::string::String", "u32"]"#);
    }
}
