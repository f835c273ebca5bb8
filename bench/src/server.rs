//! The PostgreSQL server of the measurements, and a schema of its own for each of them.

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
    _own: Option<Cluster>,
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
        // The text may hold a password, so it is not repeated.
        let config = Config::from_str(&url).map_err(|error| format!("--url: {}", told(&error)))?;
        Ok(Self { url, config: Arc::new(config), _own: own })
    }

    /// A name for a schema that is not there yet.
    pub(crate) fn schema(&self) -> Schema {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("windlass_bench_{}_{next}", std::process::id());
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
    /// On a thread of its own, because nothing can be awaited here, and a measurement that failed drops it too.
    fn drop(&mut self) {
        let (config, name) = (Arc::clone(&self.config), self.name.clone());
        let work = move || -> Result<()> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let client = connect(&config).await?;
                let drop = format!("SET lock_timeout = '10s'; DROP SCHEMA IF EXISTS {name} CASCADE");
                Ok(client.batch_execute(&drop).await.map_err(|error| told(&error))?)
            })
        };
        let done = thread::spawn(work).join().unwrap_or_else(|_| Err("the thread panicked".into()));
        if let Err(error) = done {
            eprintln!("the schema {} is left behind: {error}", self.name);
        }
    }
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
