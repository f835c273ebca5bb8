//! Futures that are compiled with this crate.

use std::{future::Future, pin::Pin};

/// A future with its type forgotten.
pub(crate) type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Forgets the type of a future.
///
/// The body of an `async fn` is compiled where somebody polls it, with all that it calls. Called from a plain `pub fn`,
/// this has it compiled here, once, and not again with every change to a program that uses this crate. For a task that
/// is spawned it spares a copy of the runtime's own code. It costs an allocation: take it where that is not felt.
pub(crate) fn boxed<'a, T>(future: impl Future<Output = T> + Send + 'a) -> Boxed<'a, T> {
    Box::pin(future)
}
