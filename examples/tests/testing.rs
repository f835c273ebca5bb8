//! Runs the tests that the `testing` example shows.

#[path = "../examples/testing.rs"]
#[allow(dead_code, reason = "its `main` is run by another test")]
mod testing;
