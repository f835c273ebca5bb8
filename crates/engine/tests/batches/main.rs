//! Items that are gathered, and handed to one run together.
#![cfg(feature = "schedule")]

mod declaring;
mod exactly_once;
mod gathering;
mod steering;
mod stores;
mod trouble;
mod world;
