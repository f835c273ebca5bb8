//! Runs that are started by the clock, in the laboratory's time.
#![cfg(feature = "schedule")]

mod clock;
mod declaring;
mod exactly_once;
mod steering;
mod stores;
mod traps;
mod triggers;
mod trouble;
mod world;
