//! A PostgreSQL schema.

use std::collections::BTreeMap;

use tokio_postgres::Client;

use crate::{
    Result,
    server::{Schema, Server},
};

/// A schema of its own, with a connection that looks at it.
pub(crate) struct Postgres {
    // Dropped first, so that it holds nothing when the schema goes.
    client: Client,
    schema: Schema,
}

impl Postgres {
    /// A place for tables that are not there yet.
    pub(crate) async fn new(server: &Server) -> Result<Self> {
        let schema = server.schema();
        Ok(Self { client: schema.connect().await?, schema })
    }

    /// What an engine opens.
    pub(crate) fn url(&self) -> String {
        self.schema.url().to_string()
    }

    /// The connection, for what is put there by hand.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// The name of the schema.
    pub(crate) fn name(&self) -> &str {
        self.schema.name()
    }

    /// How large all tables are, with their indexes.
    pub(crate) async fn bytes(&self) -> Result<u64> {
        self.count(
            "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class \
             WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'",
        )
        .await
    }

    /// The rows that nobody can see any more and that are still there, of each table that has any, as far as the server
    /// has heard of them: a session tells once in a second.
    pub(crate) async fn dead_rows(&self) -> Result<BTreeMap<String, u64>> {
        let sql = "SELECT relname::text, n_dead_tup FROM pg_stat_user_tables \
                   WHERE schemaname = $1 AND n_dead_tup > 0";
        let mut tables = BTreeMap::new();
        for row in self.client.query(sql, &[&self.name()]).await? {
            tables.insert(row.try_get(0)?, u64::try_from(row.try_get::<_, i64>(1)?)?);
        }
        Ok(tables)
    }

    /// A session that sits idle in a transaction and sees the database as it is now.
    pub(crate) async fn snapshot(&self) -> Result<Snapshot> {
        let client = self.schema.connect().await?;
        client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await?;
        let seen = client.query_one(SEEN, &[]).await?.try_get(0)?;
        Ok(Snapshot { client, seen })
    }

    /// The number that a query answers.
    pub(crate) async fn count(&self, sql: &str) -> Result<u64> {
        let count: i64 = self.client.query_one(sql, &[]).await?.try_get(0)?;
        Ok(u64::try_from(count)?)
    }
}

/// A session that keeps the server from removing what dies after it began.
pub(crate) struct Snapshot {
    client: Client,
    seen: String,
}

const SEEN: &str = "SELECT pg_current_snapshot()::text";

impl Snapshot {
    /// Ends it, if it was there to the last: a server may end a session that sits idle.
    pub(crate) async fn end(self) -> Result<()> {
        let seen: String = self.client.query_one(SEEN, &[]).await?.try_get(0)?;
        self.client.batch_execute("ROLLBACK").await?;
        if seen == self.seen { Ok(()) } else { Err("the session did not keep its snapshot".into()) }
    }
}
