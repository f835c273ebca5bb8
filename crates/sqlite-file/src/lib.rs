//! How Windlass opens an SQLite database, and what it refuses to open.
//!
//! This crate knows the driver and nothing of Windlass, and is a part of `windlass-sqlite`: its interface may change
//! with any version.

pub mod connection;
#[cfg(feature = "counting")]
pub mod counting;
pub mod error;
