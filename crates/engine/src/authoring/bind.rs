//! How a body is handed what its parameters ask for.

use std::{any::type_name, sync::Arc};

use serde::{Serialize, de::DeserializeOwned};
use windlass_core::{Changes, Failure};

use super::{Body, Call, Dependency, Done, Outcome, Res, Resources, Slot, element::Elements};

/// The run's input.
pub fn input<T: DeserializeOwned + Send + Sync + 'static>(call: &Call) -> Result<Arc<T>, Failure> {
    call.input.get()
}

/// The result of a dependency that must have completed.
pub fn dependency<T: DeserializeOwned + Send + Sync + 'static>(
    call: &Call,
    at: usize,
) -> Result<Arc<T>, Failure> {
    match find(call, at)? {
        Dependency::Completed(slot) => slot.get(),
        Dependency::Failed(failure) => Err(absent(&format!("it failed: {failure}"))),
        Dependency::Skipped(skip) => Err(absent(&format!("it was skipped: {skip}"))),
        Dependency::Cancelled => Err(absent("it was cancelled")),
    }
}

/// The result of a dependency, if it has one.
pub fn optional<T: DeserializeOwned + Send + Sync + 'static>(
    call: &Call,
    at: usize,
) -> Result<Option<Arc<T>>, Failure> {
    match find(call, at)? {
        Dependency::Completed(slot) => slot.get().map(Some),
        _ => Ok(None),
    }
}

/// What became of a dependency.
pub fn outcome<T: DeserializeOwned + Send + Sync + 'static>(
    call: &Call,
    at: usize,
) -> Result<Outcome<Arc<T>>, Failure> {
    Ok(match find(call, at)? {
        Dependency::Completed(slot) => Outcome::Completed(slot.get()?),
        Dependency::Failed(failure) => Outcome::Failed(failure.clone()),
        Dependency::Skipped(skip) => Outcome::Skipped(skip.clone()),
        Dependency::Cancelled => Outcome::Cancelled,
    })
}

fn find(call: &Call, at: usize) -> Result<&Dependency, Failure> {
    call.dependencies
        .get(at)
        .ok_or_else(|| Failure::permanent(format!("the task has no dependency number {at}")))
}

fn absent(why: &str) -> Failure {
    Failure::permanent(format!("a dependency has no result, since {why}"))
}

/// The list that a `for_each` goes through.
pub fn items<T: DeserializeOwned + Send + Sync + 'static>(call: &Call) -> Result<Arc<T>, Failure> {
    let item = call
        .item
        .as_ref()
        .ok_or_else(|| Failure::permanent("the call has no element: it is not of a `for_each`"))?;
    item.source.get()
}

/// The element of the list that this call is for.
pub fn element<'a, T: Elements>(list: &'a T, call: &Call) -> Result<&'a T::Element, Failure> {
    let index = call.item.as_ref().map(|item| item.index).unwrap_or_default();
    let elements = list.elements();
    elements.get(index).ok_or_else(|| {
        Failure::permanent(format!(
            "the list has {} elements, and number {index} was asked for",
            elements.len()
        ))
    })
}

/// A resource that the engine was given.
pub fn resource<T: Send + Sync + 'static>(call: &Call) -> Result<Res<T>, Failure> {
    call.resources().and_then(Resources::get).ok_or_else(|| {
        Failure::permanent(format!("the engine was not given a resource of type `{}`", type_name::<T>()))
    })
}

/// A copy of a value that is taken by value.
pub fn copied<T: Clone>(value: &T) -> T {
    value.clone()
}

/// What a body that succeeded gives back.
pub fn done<T: Serialize + Send + Sync + 'static>(value: T, changes: Changes) -> Body {
    Ok(Done { output: Slot::new(value)?, changes })
}

/// A parameter of type `Option<_>` whose dependency always has a result: either the result is an `Option` of
/// its own, or it is put into one.
#[diagnostic::on_unimplemented(
    message = "the task's result is `{T}`, which cannot be handed over as `{Self}`",
    label = "expected `{T}`"
)]
pub trait Handed<T>: Sized {
    /// A copy of the result.
    fn handed(result: &Arc<T>) -> Self;
}

impl<T: Clone> Handed<T> for T {
    fn handed(result: &Arc<T>) -> T {
        T::clone(result)
    }
}

impl<T: Clone> Handed<T> for Option<T> {
    fn handed(result: &Arc<T>) -> Option<T> {
        Some(T::clone(result))
    }
}
