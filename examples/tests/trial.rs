//! Runs the tests that the `trial` example shows.

#[path = "../examples/trial.rs"]
#[allow(dead_code, reason = "its `main` is run by another test")]
mod trial;
