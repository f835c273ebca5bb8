//! How a database is used.

use std::{path::PathBuf, time::Duration};

use windlass_store::CommitMoment;

use crate::{OpenError, Pooler, Postgres, TlsMode, hook::Hook, location::Location, tls::TlsSettings};

/// How a database is used. What is set here counts more than what the URL says.
///
/// ```no_run
/// use windlass_postgres::{PostgresOptions, TlsMode};
///
/// # async fn open() -> Result<(), windlass_postgres::OpenError> {
/// let store = PostgresOptions::new()
///     .schema("jobs")
///     .tls(TlsMode::VerifyFull)
///     .tls_roots("/etc/ssl/our-ca.pem")
///     .listen_url("postgres://me@db.internal/app")
///     .open("postgres://me@pooler.internal:6432/app")
///     .await?;
/// # drop(store);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "options do nothing until they are used to open a database"]
pub struct PostgresOptions {
    pub(crate) schema: Option<String>,
    pub(crate) connections: Option<usize>,
    pub(crate) transactions: Option<usize>,
    pub(crate) listen_url: Option<String>,
    pub(crate) pooler: Option<Pooler>,
    pub(crate) wait: Option<Duration>,
    pub(crate) tls: TlsSettings,
    pub(crate) no_migrations: bool,
    pub(crate) hook: Hook,
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

    /// How many connections there are at most, beside the one that listens and those for the transactions of tasks. Default: 8.
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = Some(connections);
        self
    }

    /// How many transactions of tasks (`tx: &Transaction`) there are at once in this process, each on a connection of its
    /// own beside the others: they cannot hold up commits and heartbeats. A task waits for one. Default: 4.
    pub fn transactions(mut self, transactions: usize) -> Self {
        self.transactions = Some(transactions);
        self
    }

    /// Where to listen for notifications, when that is not where everything else goes: behind a pooler in transaction
    /// mode, the server itself. Default: the same. Where notifications do not arrive, the store looks twice a second.
    pub fn listen_url(mut self, url: impl Into<String>) -> Self {
        self.listen_url = Some(url.into());
        self
    }

    /// What stands between this program and the server. Default: [`Pooler::Detect`].
    pub fn pooler(mut self, pooler: Pooler) -> Self {
        self.pooler = Some(pooler);
        self
    }

    /// How long opening waits for a server that does not answer, is just starting, or has no room for another
    /// connection. Zero tries once. Default: 10 s.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Whether connections are encrypted, and what is checked of the server; for the one that listens as well. Default:
    /// [`TlsMode::Prefer`].
    pub fn tls(mut self, mode: TlsMode) -> Self {
        self.tls.mode = Some(mode);
        self
    }

    /// A PEM file with the certificates of the authorities that are trusted, and no others. Default: those of the
    /// system. Only of use where something is [checked](Self::tls).
    pub fn tls_roots(mut self, file: impl Into<PathBuf>) -> Self {
        self.tls.roots = Some(file.into());
        self
    }

    /// PEM files with a certificate that says who this program is, and its key. Default: none.
    pub fn tls_identity(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.tls.certificate = Some(certificate.into());
        self.tls.key = Some(key.into());
        self
    }

    /// Refuses a schema that is not at the newest version, instead of migrating it. Default: it is migrated.
    pub fn without_migrations(mut self) -> Self {
        self.no_migrations = true;
        self
    }

    /// Calls `hook` just before every commit is sent and just after it is answered, for crash tests. It is called on the
    /// thread of the connections.
    pub fn on_commit(mut self, hook: impl Fn(CommitMoment) + Send + Sync + 'static) -> Self {
        self.hook.set(hook);
        self
    }

    /// Sends every batch in parts, also one that could be a single statement, so that a test can stop it in between.
    #[doc(hidden)]
    pub fn in_parts(mut self) -> Self {
        self.hook.in_parts = true;
        self
    }

    /// Opens the database.
    ///
    /// # Errors
    ///
    /// Says which database cannot be used, why, and what to do.
    pub async fn open(self, url: &str) -> Result<Postgres, OpenError> {
        Postgres::open_at(Location::of(url, self)?).await
    }
}
