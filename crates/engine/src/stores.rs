//! From a URL to a store.

use std::sync::Arc;

use windlass_store::{Store, Tenancy};

use crate::Error;

/// Opens the store that a URL names.
pub(crate) async fn open(url: &str) -> Result<Arc<dyn Store>, Error> {
    let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
    match scheme {
        #[cfg(feature = "sqlite")]
        // A plain path is a file.
        "sqlite" | "" => {
            let store = windlass_sqlite::Sqlite::open(url).await;
            store
                .map(|store| Arc::new(store) as Arc<dyn Store>)
                .map_err(|error| Error::Store(error.to_string()))
        }
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => {
            let store = windlass_postgres::Postgres::open(url).await;
            store
                .map(|store| Arc::new(store) as Arc<dyn Store>)
                .map_err(|error| Error::Store(error.to_string()))
        }
        other => Err(unknown(url, other)),
    }
}

/// Opens the tenants of the place that a URL names.
pub(crate) async fn open_tenants(url: &str, secret: Option<String>) -> Result<Arc<dyn Tenancy>, Error> {
    let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
    match (scheme, secret) {
        #[cfg(feature = "sqlite")]
        ("sqlite" | "", None) => Ok(Arc::new(windlass_sqlite::Folder::open(url).await?)),
        #[cfg(feature = "sqlite")]
        ("sqlite" | "", Some(_)) => {
            Err(Error::Invalid("the tenants of a folder have no passwords: leave `secret` out".to_owned()))
        }
        #[cfg(feature = "postgres")]
        ("postgres" | "postgresql", Some(secret)) => {
            Ok(Arc::new(windlass_postgres::PostgresTenants::open(url, secret).await?))
        }
        #[cfg(feature = "postgres")]
        ("postgres" | "postgresql", None) => Err(Error::Invalid(
            "the passwords of the tenants are made from a secret: give `Tenants::open` a `.secret(…)`, made with \
             `openssl rand -hex 32` and kept where you keep the password of the database"
                .to_owned(),
        )),
        (other, _) => Err(unknown(url, other)),
    }
}

fn unknown(url: &str, scheme: &str) -> Error {
    Error::Store(format!(
        "`{}` does not name a store that this program has: {}",
        without_password(url),
        advice(scheme)
    ))
}

fn advice(scheme: &str) -> String {
    match scheme {
        "sqlite" => "build windlass with its feature `sqlite`".to_owned(),
        "postgres" | "postgresql" => "build windlass with its feature `postgres`".to_owned(),
        _ => "use `sqlite://path/to/file.db`, or `sqlite::memory:` for a trial".to_owned(),
    }
}

/// A URL that may be shown to people.
fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    match rest.rsplit_once('@') {
        Some((_, place)) => format!("{scheme}://…@{place}"),
        None => url.to_owned(),
    }
}
