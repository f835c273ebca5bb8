//! Millions of runs that nobody worked: copies of one that was, written directly.
//!
//! The copies are made from whatever rows a real run left in whatever tables there are. So they look like the
//! real ones, and stay so when the tables change.

mod postgres;
mod sqlite;

use std::time::Duration;

use crate::{Result, database::Database};

/// How many copies one transaction holds.
const CHUNK: u64 = 250_000;

/// Writes `copies` of the run with this id into every table that knows it. Their ids are older than its own by so much, so
/// that they lie before everything that comes after.
pub(crate) async fn multiply(database: &Database, run: [u8; 16], copies: u64, age: Duration) -> Result<()> {
    let first = first(run, copies, age);
    match database {
        Database::Sqlite(file) => sqlite::multiply(file, run, copies, first),
        Database::Postgres(schema) => postgres::multiply(schema, run, copies, first).await,
    }
}

/// The first eight bytes of the first copy: they count up to those of the run itself, or of one that was made so long
/// before. The first six of them are a time in milliseconds.
fn first(run: [u8; 16], copies: u64, age: Duration) -> i64 {
    (u128::from_be_bytes(run) >> 64) as i64 - copies as i64 - ((age.as_millis() as i64) << 16)
}
