//! The engine on PostgreSQL, through a pooler in transaction mode.
#![cfg(feature = "postgres")]

#[path = "postgres.rs"]
mod postgres;
