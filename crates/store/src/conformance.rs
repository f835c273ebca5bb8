//! What any store must do: a suite of cases and a random tester.
//!
//! - [`conformance_tests!`](crate::conformance_tests) expands to one test for each case. A store passes it a
//!   function that makes a [`Fixture`].
//! - [`Duel`] plays random sequences of operations on the model and on a store, and compares everything that
//!   can be seen. A failing seed replays, and is cut down to the operations that matter.
//!
//! ```
//! use windlass_store::conformance::{Duel, MemoryFixture};
//!
//! async fn fixture() -> MemoryFixture {
//!     MemoryFixture::new()
//! }
//!
//! mod the_model {
//!     windlass_store::conformance_tests!(super::fixture);
//! }
//! # async fn both() {
//! Duel::default().fight(0..100, fixture, fixture).await;
//! # }
//! ```

mod cases;
mod duel;
mod fixture;
mod scene;

pub use self::{
    cases::case,
    duel::{Disagreement, Duel},
    fixture::{Failing, Fixture, MemoryFixture, TestClock},
};
