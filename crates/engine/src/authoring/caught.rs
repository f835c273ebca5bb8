//! What a body returned, and how its error becomes a failure.
//!
//! An error's value is kept when its type can be serialised. Which of the three cases it is, is settled by the
//! compiler at the place of the emitted call: it takes the method of the trait that needs the fewest references.

use std::{any::type_name, marker::PhantomData};

use serde::Serialize;
use windlass_core::Failure;

/// What a task may return.
#[diagnostic::on_unimplemented(
    message = "a task returns a `Result`, not `{Self}`",
    label = "this is not a `Result`",
    note = "write `-> Result<{Self}>` and wrap the value: `Ok(…)`"
)]
pub trait Returns {
    /// What the task's dependents see.
    type Value;
    /// What becomes a failure.
    type Error;

    /// The result itself.
    #[expect(clippy::missing_errors_doc, reason = "it is the error of the body")]
    fn into_result(self) -> Result<Self::Value, Self::Error>;
}

impl<T, E> Returns for Result<T, E> {
    type Value = T;
    type Error = E;

    fn into_result(self) -> Result<T, E> {
        self
    }
}

/// What a task may return as its error.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the error of a task",
    label = "this cannot become a `Failure`",
    note = "implement `std::error::Error` for it, or `From<{Self}>` for `windlass::Failure`",
    note = "or return `windlass::Result<T>`, into which `?` converts any error"
)]
pub trait TaskError: Sized {
    /// The failure, without the error's value.
    fn into_failure(self) -> Failure;
}

impl<E: Into<Failure>> TaskError for E {
    fn into_failure(self) -> Failure {
        self.into()
    }
}

/// An error of some type, looked at by reference only.
#[derive(Debug)]
pub struct Caught<E>(PhantomData<E>);

impl<E> Caught<E> {
    /// The type of this error.
    pub fn of(_: &E) -> Self {
        Self(PhantomData)
    }
}

/// It is a failure already.
#[derive(Debug)]
pub struct AsItIs;

/// Its value is kept.
#[derive(Debug)]
pub struct WithValue;

/// Only its messages are kept.
#[derive(Debug)]
pub struct WithoutValue;

/// An error that is a failure already.
pub trait CaughtFailure {
    /// How it is converted.
    fn verdict(&self) -> AsItIs {
        AsItIs
    }
}

impl CaughtFailure for &&Caught<Failure> {}

impl AsItIs {
    /// The failure itself.
    pub fn failure(self, failure: Failure) -> Failure {
        failure
    }
}

/// An error that can be serialised.
pub trait CaughtValue {
    /// How it is converted.
    fn verdict(&self) -> WithValue {
        WithValue
    }
}

impl<E: Serialize> CaughtValue for &Caught<E> {}

impl WithValue {
    /// The failure, with the error's value.
    pub fn failure<E: TaskError + Serialize>(self, error: E) -> Failure {
        let value = serde_json::to_value(&error).ok();
        let mut failure = error.into_failure();
        failure.value = failure.value.or(value.map(Box::new));
        failure.type_name.get_or_insert_with(|| type_name::<E>().into());
        failure
    }
}

/// Any other error.
pub trait CaughtError {
    /// How it is converted.
    fn verdict(&self) -> WithoutValue {
        WithoutValue
    }
}

impl<E> CaughtError for Caught<E> {}

impl WithoutValue {
    /// The failure.
    pub fn failure<E: TaskError>(self, error: E) -> Failure {
        error.into_failure()
    }
}

#[cfg(test)]
mod tests {
    use std::{fmt, io};

    use super::*;

    #[derive(Debug, Serialize)]
    struct Declined {
        code: u16,
    }

    impl fmt::Display for Declined {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "declined ({})", self.code)
        }
    }

    impl std::error::Error for Declined {}

    macro_rules! caught {
        ($error:expr) => {{
            let error = $error;
            (&&&Caught::of(&error)).verdict().failure(error)
        }};
    }

    #[test]
    fn an_error_that_can_be_serialised_keeps_its_value() {
        let failure = caught!(Declined { code: 51 });
        assert_eq!(failure.message, "declined (51)");
        assert_eq!(failure.value.as_deref(), Some(&serde_json::json!({ "code": 51 })));
        assert!(failure.type_name.unwrap().ends_with("Declined"));
    }

    #[test]
    fn any_other_error_keeps_its_messages() {
        let failure = caught!(io::Error::new(io::ErrorKind::ConnectionRefused, "db:5432"));
        assert_eq!((failure.message.as_str(), failure.value), ("db:5432", None));
        assert!(failure.transient);
    }

    #[test]
    fn a_failure_passes_through_unchanged() {
        let failure = Failure::permanent("no");
        assert_eq!(caught!(failure.clone()), failure);
    }
}
