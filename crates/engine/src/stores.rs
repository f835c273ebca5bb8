//! From a URL to a store.

use std::sync::Arc;

use windlass_store::Store;

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
        other => Err(Error::Store(format!(
            "`{}` does not name a store that this program has: {}",
            without_password(url),
            advice(other)
        ))),
    }
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
