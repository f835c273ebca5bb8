//! The PostgreSQL server of the measurements, and a schema or a database of its own for each of them.

use std::{
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread,
};

use tokio_postgres::{Client, Config, NoTls};
use windlass_cluster::Cluster;

use crate::{Result, ground::Ground};

/// A server that somebody named, or a cluster of our own.
pub(crate) struct Server {
    url: String,
    config: Arc<Config>,
    /// `None` for one that somebody named. Goes when the value is dropped.
    own: Option<Cluster>,
}

impl Server {
    /// The server at this URL, or a fresh cluster with the settings of a fresh one: what it commits is safe.
    pub(crate) fn find(asked: Option<&str>, ground: &Ground) -> Result<Self> {
        let (url, own) = match asked {
            Some(url) => (url.to_string(), None),
            None => {
                let cluster = Cluster::start_in(ground.base(), &[])
                    .map_err(|why| format!("{why}\n`--store sqlite` measures without PostgreSQL"))?;
                (cluster.url().to_string(), Some(cluster))
            }
        };
        Ok(Self { own, ..Self::at(url)? })
    }

    fn at(url: String) -> Result<Self> {
        // The text may hold a password, so it is not repeated.
        let config = Config::from_str(&url).map_err(|error| format!("--url: {}", told(&error)))?;
        Ok(Self { url, config: Arc::new(config), own: None })
    }

    /// A server that counts statements, which is not how a fresh one is set: a cluster of its own, unless a server was
    /// named. Where PostgreSQL was installed without what it takes, it is one that does not count.
    pub(crate) async fn counting(&self, ground: &Ground) -> Result<Self> {
        let plain = || Self { url: self.url.clone(), config: Arc::clone(&self.config), own: None };
        if self.own.is_none() {
            return Ok(plain());
        }
        let setting = "shared_preload_libraries = 'pg_stat_statements'";
        let Ok(cluster) = Cluster::start_in(ground.base(), &[setting]) else { return Ok(plain()) };
        let at = Self::at(cluster.url().to_string())?;
        let server = Self { own: Some(cluster), ..at };
        server.connect().await?.batch_execute("CREATE EXTENSION pg_stat_statements").await?;
        Ok(server)
    }

    /// A connection to the database that the URL names.
    pub(crate) async fn connect(&self) -> Result<Client> {
        connect(&self.config).await
    }

    /// Makes a database that is dropped when the value is.
    pub(crate) async fn database(&self) -> Result<OwnDatabase> {
        let name = fresh_name();
        self.connect().await?.batch_execute(&format!("CREATE DATABASE {name}")).await?;
        let server = Self::at(with_database(&self.url, &name)?)?;
        Ok(OwnDatabase { name, server, config: Arc::clone(&self.config) })
    }

    /// A name for a schema that is not there yet.
    pub(crate) fn schema(&self) -> Schema {
        let name = fresh_name();
        let mark = if self.url.contains('?') { '&' } else { '?' };
        Schema { url: format!("{}{mark}schema={name}", self.url), config: Arc::clone(&self.config), name }
    }
}

/// A schema that is dropped, with all that is in it, when the value is.
pub(crate) struct Schema {
    name: String,
    url: String,
    config: Arc<Config>,
}

impl Schema {
    /// Its name, which needs no quotes.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// What an engine opens.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// A connection for which the names of tables are those of this schema.
    pub(crate) async fn connect(&self) -> Result<Client> {
        let client = connect(&self.config).await?;
        client.batch_execute(&format!("SET search_path = {}", self.name)).await?;
        Ok(client)
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        let statement = format!("DROP SCHEMA IF EXISTS {} CASCADE", self.name);
        if let Err(error) = execute(Arc::clone(&self.config), statement) {
            eprintln!("the schema {} is left behind: {error}", self.name);
        }
    }
}

/// A database that is dropped, with all that is in it, when the value is.
pub(crate) struct OwnDatabase {
    name: String,
    server: Server,
    /// Another database of the same server, from which this one can be dropped.
    config: Arc<Config>,
}

impl OwnDatabase {
    /// Its name, as the server's statistics have it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Where it is.
    pub(crate) fn url(&self) -> &str {
        &self.server.url
    }

    /// The server, seen from this database.
    pub(crate) fn server(&self) -> &Server {
        &self.server
    }
}

impl Drop for OwnDatabase {
    fn drop(&mut self) {
        let statement = format!("DROP DATABASE {} WITH (FORCE)", self.name);
        if let Err(error) = execute(Arc::clone(&self.config), statement) {
            eprintln!("the database {} is left behind: {error}", self.name);
        }
    }
}

/// Executes a statement where nothing can be awaited, on a thread of its own: a measurement that failed drops its values
/// too.
fn execute(config: Arc<Config>, statement: String) -> Result<()> {
    let work = move || -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let client = connect(&config).await?;
            for part in ["SET lock_timeout = '10s'", &statement] {
                client.batch_execute(part).await.map_err(|error| told(&error))?;
            }
            Ok(())
        })
    };
    thread::spawn(work).join().unwrap_or_else(|_| Err("the thread panicked".into()))
}

/// A name that nobody else has, and that needs no quotes.
fn fresh_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("windlass_bench_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The URL of another database of the same server.
fn with_database(url: &str, name: &str) -> Result<String> {
    let (place, options) = url.split_once('?').map_or((url, None), |(place, options)| (place, Some(options)));
    let begin = place.find("://").ok_or("--url: it does not begin with postgres://")? + 3;
    let host = place[begin..].find('/').map_or(place, |slash| &place[..begin + slash]);
    Ok(match options {
        Some(options) => format!("{host}/{name}?{options}"),
        None => format!("{host}/{name}"),
    })
}

async fn connect(config: &Config) -> Result<Client> {
    let (client, connection) =
        config.connect(NoTls).await.map_err(|error| format!("PostgreSQL: {}", told(&error)))?;
    tokio::spawn(async move {
        // Whoever uses the connection hears of it too.
        drop(connection.await);
    });
    Ok(client)
}

/// An error with its reason: the text of the driver's own names only the kind of it.
pub(crate) fn told(error: &(dyn std::error::Error + 'static)) -> String {
    match error.source().filter(|_| error.is::<tokio_postgres::Error>()) {
        Some(reason) => format!("{error}: {reason}"),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_that_is_none_is_refused_without_its_password() {
        let ground = Ground::find(None).expect("there is a disk");
        let why = Server::find(Some("postgres://me:secret@db/x?shema=y"), &ground).map(|_| ());
        let why = why.expect_err("there is no such option").to_string();
        assert!(why.contains("--url") && why.contains("shema") && !why.contains("secret"), "{why}");
    }

    #[test]
    fn another_database_of_a_server_keeps_everything_else() {
        for (url, other) in [
            ("postgres://me@db:1/x", "postgres://me@db:1/y"),
            ("postgres://me@db", "postgres://me@db/y"),
            ("postgresql://db/x?connect_timeout=1", "postgresql://db/y?connect_timeout=1"),
        ] {
            assert_eq!(with_database(url, "y").expect("it is a URL"), other);
        }
        assert!(with_database("host=db", "y").is_err());
    }

    #[test]
    fn every_schema_has_a_name_of_its_own_and_its_url_names_it() {
        let ground = Ground::find(None).expect("there is a disk");
        for (url, mark) in [
            ("postgres://127.0.0.1:1/x", "?schema="),
            ("postgres://127.0.0.1:1/x?connect_timeout=1", "&schema="),
        ] {
            let server = Server::find(Some(url), &ground).expect("it is a URL");
            let (one, other) = (server.schema(), server.schema());
            assert_ne!(one.name(), other.name());
            assert_eq!(one.url(), format!("{url}{mark}{}", one.name()));
        }
    }
}
