//! Tenants that try to reach each other, and those who manage them.

#[path = "../common/mod.rs"]
mod common;

mod database;

mod crossing;
mod half_way;
mod locks;
mod managing;
mod passwords;
