//! Who counts what a process asks of its database.

use std::time::Duration;

use tokio_postgres::Client;

use crate::{
    Result,
    other::Other,
    server::{OwnDatabase, Server},
};

/// What the process that counts for itself is asked.
pub(crate) const COUNT: &str = "count";

const STATEMENTS: &str = "\
    SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_statements \
    WHERE dbid = (SELECT oid FROM pg_database WHERE datname = $1)";
const TRANSACTIONS: &str = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = $1";

/// Counts for one process.
pub(crate) enum Counter {
    /// There is no server, so the process counts for itself.
    Process,
    /// The server, from outside of the only database that the process uses.
    Server(Box<Observer>),
}

/// A connection that looks at a database from another one.
pub(crate) struct Observer {
    client: Client,
    has_statements: bool,
    // Each is dropped before what it needs to go.
    database: OwnDatabase,
    _server: Server,
}

impl Observer {
    /// Makes the database that is looked at.
    pub(crate) async fn new(server: Server) -> Result<Self> {
        let (client, database) = (server.connect().await?, server.database().await?);
        let has_statements = client.query_one(STATEMENTS, &[&database.name()]).await.is_ok();
        Ok(Self { client, has_statements, database, _server: server })
    }

    /// The database that is looked at.
    pub(crate) fn database(&self) -> &OwnDatabase {
        &self.database
    }

    async fn look(&self) -> Result<Count> {
        let count = async |sql| -> Result<f64> {
            let count: i64 = self.client.query_one(sql, &[&self.database.name()]).await?.try_get(0)?;
            Ok(count as f64)
        };
        let statements = if self.has_statements { Some(count(STATEMENTS).await?) } else { None };
        Ok(Count { statements, transactions: Some(count(TRANSACTIONS).await?) })
    }
}

impl Counter {
    /// How many there have been so far.
    pub(crate) async fn look(&self, process: &mut Other) -> Result<Count> {
        match self {
            Self::Process => Ok(Count { statements: Some(process.ask(COUNT).await?), transactions: None }),
            Self::Server(observer) => observer.look().await,
        }
    }
}

/// How many there have been, of what is counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Count {
    /// Not every server counts them.
    pub(crate) statements: Option<f64>,
    /// There may be several statements in one. The server hears of them with a delay of some seconds.
    pub(crate) transactions: Option<f64>,
}

impl Count {
    /// How many in each second there were since an earlier count.
    pub(crate) fn since(self, earlier: Self, span: Duration) -> Self {
        let rate = |now: Option<f64>, then: Option<f64>| Some((now? - then?) / span.as_secs_f64());
        Self {
            statements: rate(self.statements, earlier.statements),
            transactions: rate(self.transactions, earlier.transactions),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_counted_has_no_rate() {
        let count = |statements, transactions| Count { statements, transactions };
        let rate = count(None, Some(9.0)).since(count(Some(1.0), Some(3.0)), Duration::from_secs(3));
        assert_eq!(rate, count(None, Some(2.0)));
    }
}
