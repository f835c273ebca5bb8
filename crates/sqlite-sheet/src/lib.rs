//! How Windlass writes rows to SQLite: statements that are prepared once, and write many rows at a time.
//!
//! This crate knows the driver and nothing of Windlass, and is a part of `windlass-sqlite`: its interface may change
//! with any version.

pub mod pen;
pub mod sheet;
