//! The raw limits: bare loops that write the leanest rows that can hold the facts.
//!
//! A run, a step and an end are one row each. A transaction holds 1,000 of a kind, as a perfect group commit of
//! 1,000 concurrent runs would: a step is durable before the next of its run begins, so two of them are never in one
//! transaction, while the last step and the end are. The durability is that of the store's default, and nothing is
//! decided, encoded, or handed from thread to thread.

mod postgres;
mod sqlite;

use std::time::Duration;

pub(crate) use postgres::Postgres;
pub(crate) use sqlite::Sqlite;

use crate::{Result, latencies::Latencies};

/// How many of a kind a transaction holds.
const BATCH: u64 = 1_000;

/// What a task without an opinion returns.
const NOTHING: &[u8] = b"null";

/// An empty database of its own, in either store.
pub(crate) enum Limit {
    /// A file.
    Sqlite(Sqlite),
    /// A schema.
    Postgres(Postgres),
}

impl Limit {
    /// Runs of so many steps: one run, the steps, one end each. Answers steps per second.
    pub(crate) async fn chains(&self, steps: usize, span: Duration) -> Result<f64> {
        match self {
            Self::Sqlite(file) => file.chains(steps, span),
            Self::Postgres(schema) => schema.chains(steps, span).await,
        }
    }

    /// Pending runs, written with multi-row inserts: a run, and a row that says it is ready. Answers runs per
    /// second.
    pub(crate) async fn enqueue(&self, runs: u64) -> Result<f64> {
        match self {
            Self::Sqlite(file) => file.enqueue(runs),
            Self::Postgres(schema) => schema.enqueue(runs).await,
        }
    }

    /// Works off what was enqueued: one claim, one step, one end each. Answers runs per second.
    pub(crate) async fn burndown(&self) -> Result<f64> {
        match self {
            Self::Sqlite(file) => file.burndown(),
            Self::Postgres(schema) => schema.burndown().await,
        }
    }

    /// Runs with one step whose result is a list, one step for each element, and one that joins them. Answers
    /// tasks per second.
    pub(crate) async fn fanout(&self, width: u64, list: &[u8], joined: &[u8], span: Duration) -> Result<f64> {
        match self {
            Self::Sqlite(file) => file.fanout(width, list, joined, span),
            Self::Postgres(schema) => schema.fanout(width, list, joined, span).await,
        }
    }

    /// Single rows, each in a transaction of its own. May be called again, and goes on where it stopped.
    pub(crate) async fn commits(&self, span: Duration) -> Result<Latencies> {
        match self {
            Self::Sqlite(file) => file.commits(span),
            Self::Postgres(schema) => schema.commits(span).await,
        }
    }
}

/// Ids in the shape of the real ones: sixteen bytes, ordered by time, the rest scattered.
fn id(number: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes[8..].copy_from_slice(&number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes());
    bytes
}

fn instant(number: u64) -> i64 {
    1_700_000_000_000_000 + number as i64
}
