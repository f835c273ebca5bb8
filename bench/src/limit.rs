//! The raw limits: bare loops that write the leanest rows that can hold the facts.
//!
//! A run, a step and an end are one row each. Every transaction holds 1,000 of each kind, as a perfect group
//! commit of 1,000 concurrent runs would. The durability is that of the store's default, and nothing is decided,
//! encoded, or handed from thread to thread.

mod sqlite;

pub(crate) use sqlite::Sqlite;
