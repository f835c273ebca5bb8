//! Millions of runs that nobody worked: copies of one that was, written directly.
//!
//! The copies are made from whatever rows a real run left in whatever tables there are. So they look like the
//! real ones, and stay so when the tables change.

mod postgres;
mod sqlite;

use crate::{Result, database::Database};

/// How many copies one transaction holds.
const CHUNK: u64 = 250_000;

/// Writes `copies` of the run with this id into every table that knows it. Their ids are older than its own, so
/// that they lie before everything that comes after.
pub(crate) async fn multiply(database: &Database, run: [u8; 16], copies: u64) -> Result<()> {
    match database {
        Database::Sqlite(file) => sqlite::multiply(file, run, copies),
        Database::Postgres(schema) => postgres::multiply(schema, run, copies).await,
    }
}

/// The first eight bytes of the first copy: they count up to those of the run itself.
fn first(run: [u8; 16], copies: u64) -> i64 {
    (u128::from_be_bytes(run) >> 64) as i64 - copies as i64
}
