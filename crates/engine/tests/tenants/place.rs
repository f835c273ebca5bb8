//! Where the tenants of one test live.

use windlass::{Tenants, prelude::*};

#[cfg(feature = "postgres")]
pub const SECRET: &str = "a secret that is only for the tests of tenants";

/// A folder or a database of a test's own.
pub struct Place {
    pub tenants: Tenants,
    pub kind: Kind,
}

pub enum Kind {
    Folder(tempfile::TempDir),
    #[cfg(feature = "postgres")]
    Database(database::Database),
}

impl Place {
    pub async fn folder() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let tenants = Tenants::open(format!("sqlite://{}/", folder.path().display())).await?;
        Ok(Self { tenants, kind: Kind::Folder(folder) })
    }

    #[cfg(feature = "postgres")]
    pub async fn database() -> Result<Self> {
        let database = database::Database::new();
        // Every engine has connections of its own, and a server has a hundred.
        let url = format!("{}?connections=3", database.url);
        let tenants = Tenants::open(url).secret(SECRET).await?;
        Ok(Self { tenants, kind: Kind::Database(database) })
    }
}

#[workflow]
pub mod double {
    use super::*;

    #[task]
    pub async fn twice(input: u32) -> Result<u32> {
        Ok(input * 2)
    }
}

#[cfg(feature = "postgres")]
pub mod database {
    use std::{
        sync::{
            LazyLock,
            atomic::{AtomicU32, Ordering},
        },
        thread,
    };

    use tokio_postgres::NoTls;
    use windlass_cluster::Cluster;

    /// A database that is dropped, with its roles, when the test is over.
    pub struct Database {
        pub url: String,
        name: String,
    }

    static CLUSTER: LazyLock<Cluster> = LazyLock::new(|| Cluster::find().unwrap());

    impl Database {
        pub fn new() -> Self {
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let (process, next) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
            let name = format!("tenants_{process}_{next}");
            execute(format!("CREATE DATABASE {name}"));
            Self { url: format!("{}/{name}", CLUSTER.url().rsplit_once('/').unwrap().0), name }
        }
    }

    impl Drop for Database {
        fn drop(&mut self) {
            let oid = format!("(SELECT oid FROM pg_database WHERE datname = '{}')", self.name);
            let roles = format!("SELECT rolname FROM pg_roles WHERE rolname LIKE 'windlass\\_%\\_' || {oid}");
            execute(format!("CREATE TABLE {0}_roles AS {roles}", self.name));
            execute(format!("DROP DATABASE {} WITH (FORCE)", self.name));
            execute(format!(
                "DO $$ DECLARE role text; BEGIN FOR role IN SELECT rolname FROM {0}_roles LOOP \
                 EXECUTE format('DROP ROLE %I', role); END LOOP; DROP TABLE {0}_roles; END $$",
                self.name
            ));
        }
    }

    /// Has something done, and waits for it where nothing can be awaited.
    fn execute(sql: String) {
        let work = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let (client, connection) = tokio_postgres::connect(CLUSTER.url(), NoTls).await.unwrap();
                tokio::spawn(connection);
                client.batch_execute(&sql).await.unwrap();
            });
        };
        thread::spawn(work).join().unwrap();
    }
}
