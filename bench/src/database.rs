//! The database of a measurement, seen from outside: what was written is counted here and nowhere else.

mod postgres;
mod sqlite;

use std::time::{Duration, Instant};

pub(crate) use postgres::Postgres;
pub(crate) use sqlite::Sqlite;

use crate::Result;

/// How long a count may take to become what it must be.
const PATIENCE: Duration = Duration::from_secs(600);

/// A database of its own, in either store. The tables have the same names in both.
pub(crate) enum Database {
    /// A file.
    Sqlite(Sqlite),
    /// A schema.
    Postgres(Postgres),
}

impl Database {
    /// What an engine opens.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Sqlite(file) => file.url(),
            Self::Postgres(schema) => schema.url(),
        }
    }

    /// How many runs have ended.
    pub(crate) async fn ended(&self) -> Result<u64> {
        self.count("SELECT count(*) FROM ended").await
    }

    /// How many runs wait to be claimed.
    pub(crate) async fn ready(&self) -> Result<u64> {
        self.count("SELECT count(*) FROM ready").await
    }

    /// How many runs wait for a time or an event.
    pub(crate) async fn waiting(&self) -> Result<u64> {
        self.count("SELECT count(*) FROM waiting").await
    }

    /// How many runs are held by a node: those that are in no other place.
    pub(crate) async fn held(&self) -> Result<u64> {
        self.count(
            "SELECT (SELECT count(*) FROM run) - (SELECT count(*) FROM ended) \
             - (SELECT count(*) FROM ready) - (SELECT count(*) FROM waiting)",
        )
        .await
    }

    /// Answers when so many runs have ended. Counting takes time, so a caller waits for a sign of the end first.
    pub(crate) async fn until_ended(&self, runs: u64) -> Result<()> {
        self.until(runs, "have ended", Duration::from_millis(2), async || self.ended().await).await
    }

    /// Answers when so many runs wait, without asking often.
    pub(crate) async fn until_waiting(&self, runs: u64) -> Result<()> {
        self.until(runs, "wait", Duration::from_millis(200), async || self.waiting().await).await
    }

    async fn until(
        &self,
        runs: u64,
        what: &str,
        pause: Duration,
        count: impl AsyncFn() -> Result<u64>,
    ) -> Result<()> {
        let begin = Instant::now();
        loop {
            let found = count().await?;
            if found == runs {
                return Ok(());
            }
            if found > runs || begin.elapsed() > PATIENCE {
                return Err(format!("{found} runs {what}, but there are {runs}").into());
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Has everything that has ended done so by so much earlier.
    pub(crate) async fn age(&self, by: Duration) -> Result<()> {
        let sql = format!("UPDATE ended SET at = at - {}", by.as_micros());
        match self {
            Self::Sqlite(file) => Ok(file.writer()?.execute_batch(&sql)?),
            Self::Postgres(schema) => Ok(schema.client().batch_execute(&sql).await?),
        }
    }

    /// How large it is once everything that was committed is in it.
    pub(crate) async fn bytes(&self) -> Result<u64> {
        match self {
            Self::Sqlite(file) => file.bytes(),
            Self::Postgres(schema) => schema.bytes().await,
        }
    }

    async fn count(&self, sql: &str) -> Result<u64> {
        match self {
            Self::Sqlite(file) => file.count(sql),
            Self::Postgres(schema) => schema.count(sql).await,
        }
    }
}
