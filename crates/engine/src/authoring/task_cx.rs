//! What a task that is made at run time is given.

use std::{any::type_name, fmt, ops::Deref, sync::Arc};

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use windlass_core::{Changes, Failure, nearest};

use super::{Call, Dependency, Outcome, Res, SharedContext};
use crate::Cx;

/// What a task that is made at run time is given: its [`Cx`], and everything that a typed task asks for with its
/// parameters.
///
/// A copy is cheap. The closure may own it, and move it into what it spawns.
#[derive(Clone)]
pub struct TaskCx {
    call: Arc<Call>,
    names: Arc<[String]>,
    context: SharedContext,
}

impl TaskCx {
    /// The names are those of the task's dependencies, in their order.
    pub(crate) fn new(call: Call, names: Arc<[String]>) -> Self {
        let context = SharedContext::new(call.context());
        Self { call: Arc::new(call), names, context }
    }

    /// The run's input.
    ///
    /// # Errors
    ///
    /// When it does not fit the type.
    pub fn input<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        self.call.input.decode()
    }

    /// The result of a dependency.
    ///
    /// # Errors
    ///
    /// When the task does not depend on it, when it did not complete, or when its result does not fit the type.
    pub fn result<T: DeserializeOwned>(&self, task: &str) -> Result<T, Failure> {
        match self.dependency(task)? {
            Dependency::Completed(slot) => slot.decode(),
            Dependency::Failed(failure) => {
                Err(Failure::permanent(format!("`{task}` has no result: it failed: {failure}")))
            }
            Dependency::Skipped(skip) => {
                Err(Failure::permanent(format!("`{task}` has no result: it was skipped: {skip}")))
            }
            Dependency::Cancelled => {
                Err(Failure::permanent(format!("`{task}` has no result: it was cancelled")))
            }
        }
    }

    /// What became of a dependency.
    ///
    /// # Errors
    ///
    /// When the task does not depend on it, or when its result does not fit the type.
    pub fn outcome<T: DeserializeOwned>(&self, task: &str) -> Result<Outcome<T>, Failure> {
        Ok(match self.dependency(task)? {
            Dependency::Completed(slot) => Outcome::Completed(slot.decode()?),
            Dependency::Failed(failure) => Outcome::Failed(failure.clone()),
            Dependency::Skipped(skip) => Outcome::Skipped(skip.clone()),
            Dependency::Cancelled => Outcome::Cancelled,
        })
    }

    /// The element, in a `for_each`. Its place is `cx.cx().item()`.
    ///
    /// # Errors
    ///
    /// When the task is no `for_each`, or when the element does not fit the type.
    pub fn item<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        let Some(item) = &self.call.item else {
            return Err(Failure::permanent(format!("`{}` has no element: it is no `for_each`", self.task())));
        };
        // The list is cut into its elements once, and each instance decodes its own alone.
        let elements = item.source.get::<Vec<Box<RawValue>>>()?;
        let Some(element) = elements.get(item.index) else {
            let (len, index) = (elements.len(), item.index);
            return Err(Failure::permanent(format!(
                "the list has {len} elements, and number {index} was asked for"
            )));
        };
        serde_json::from_str(element.get()).map_err(|error| {
            Failure::decode(format!("element {} for `{}`", item.index, type_name::<T>()), error)
        })
    }

    /// A resource that was given to the engine.
    ///
    /// # Errors
    ///
    /// When there is none of this type. A task can say beforehand what it takes, with `Task::wants`: then a
    /// missing one is found at launch.
    pub fn res<T: Send + Sync + 'static>(&self) -> Result<Res<T>, Failure> {
        super::bind::resource(&self.call)
    }

    /// The run's shared data.
    #[must_use]
    pub fn context(&self) -> &SharedContext {
        &self.context
    }

    /// What the attempt knows about itself.
    #[must_use]
    pub fn cx(&self) -> &Cx {
        self.call.cx()
    }

    pub(crate) fn take_changes(&self) -> Changes {
        self.context.take_changes()
    }

    fn dependency(&self, task: &str) -> Result<&Dependency, Failure> {
        let place = self.names.iter().position(|name| name == task);
        place.and_then(|at| self.call.dependencies.get(at)).ok_or_else(|| {
            let hint = match nearest(task, self.names.iter().map(String::as_str)) {
                Some(near) => format!(": did you mean `{near}`?"),
                None => format!(": add `.after([\"{task}\"])` to it"),
            };
            Failure::permanent(format!("`{}` does not depend on `{task}`{hint}", self.task()))
        })
    }
}

impl Deref for TaskCx {
    type Target = Cx;

    fn deref(&self) -> &Cx {
        self.call.cx()
    }
}

impl fmt::Debug for TaskCx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskCx")
            .field("cx", self.call.cx())
            .field("dependencies", &self.names)
            .finish_non_exhaustive()
    }
}
