//! How a database is used.

use crate::{OpenError, Postgres, location::Location};

/// How a database is used. What is set here counts more than what the URL says.
#[derive(Clone, Debug, Default)]
#[must_use = "options do nothing until they are used to open a database"]
pub struct PostgresOptions {
    pub(crate) schema: Option<String>,
    pub(crate) connections: Option<usize>,
    pub(crate) listen_url: Option<String>,
    pub(crate) no_migrations: bool,
}

impl PostgresOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// The schema that holds the tables. It is made when it is not there. Default: `windlass`.
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = Some(schema.into());
        self
    }

    /// How many connections there are at most, beside the one that listens. Default: 8.
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = Some(connections);
        self
    }

    /// Where to listen for notifications, when that is not where everything else goes: behind a pooler in transaction
    /// mode, the server itself. Default: the same. Where notifications do not arrive, the store looks twice a second.
    pub fn listen_url(mut self, url: impl Into<String>) -> Self {
        self.listen_url = Some(url.into());
        self
    }

    /// Refuses a schema that is not at the newest version, instead of migrating it. Default: it is migrated.
    pub fn without_migrations(mut self) -> Self {
        self.no_migrations = true;
        self
    }

    /// Opens the database.
    ///
    /// # Errors
    ///
    /// Says which database cannot be used, why, and what to do.
    pub async fn open(self, url: &str) -> Result<Postgres, OpenError> {
        let mut location = Location::parse(url)?;
        if let Some(schema) = self.schema {
            location.schema = schema;
        }
        if let Some(connections) = self.connections {
            location.connections = connections;
        }
        if let Some(url) = &self.listen_url {
            location.listen = Some(Location::parse(url)?.config);
        }
        location.migrates &= !self.no_migrations;
        Postgres::open_at(location.checked(url)?).await
    }
}
