//! A PostgreSQL schema.

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

    /// The number that a query answers.
    pub(crate) async fn count(&self, sql: &str) -> Result<u64> {
        let count: i64 = self.client.query_one(sql, &[]).await?.try_get(0)?;
        Ok(u64::try_from(count)?)
    }
}
