//! A database for one test, with its tenants.

use std::time::Duration;

use tokio_postgres::Client;
use windlass_postgres::{Postgres, PostgresTenants};
use windlass_store::{Removal, Tenancy, TenantError, TenantName};

use crate::common::{cluster, connect, execute};

pub const SECRET: &str = "a secret that is only for the tests of tenants";

/// A database that is dropped with its roles when the test is over, whatever became of it.
pub struct Database {
    pub url: String,
    name: String,
    oid: u32,
}

impl Database {
    pub async fn new() -> Self {
        let name = format!("tenants_{}", uuid::Uuid::now_v7().simple());
        let server = connect(cluster().url()).await;
        server.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
        let oid = server
            .query_one("SELECT oid FROM pg_database WHERE datname = $1", &[&name])
            .await
            .unwrap()
            .get(0);
        Self { url: format!("{}/{name}", cluster().url().rsplit_once('/').unwrap().0), name, oid }
    }

    pub async fn tenants(&self) -> PostgresTenants {
        PostgresTenants::open(&self.url, SECRET.into()).await.unwrap()
    }

    /// A connection with all rights.
    pub async fn admin(&self) -> Client {
        connect(&self.url).await
    }

    /// The role of a tenant.
    pub fn role(&self, tenant: &str) -> String {
        format!("windlass_{tenant}_{}", self.oid)
    }

    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        execute(format!("DROP DATABASE {} WITH (FORCE)", self.name));
        let (oid, roles) = (self.oid, "SELECT rolname FROM pg_roles WHERE rolname LIKE 'windlass%");
        execute(format!(
            "DO $$ DECLARE role text; BEGIN FOR role IN {roles}\\_{oid}' LOOP \
             EXECUTE format('DROP ROLE %I', role); END LOOP; END $$"
        ));
    }
}

pub fn name(tenant: &str) -> TenantName {
    tenant.parse().unwrap()
}

/// The URL of a new tenant.
pub async fn created(tenants: &PostgresTenants, tenant: &str) -> String {
    tenants.create(name(tenant)).await.unwrap()
}

pub async fn removed(tenants: &PostgresTenants, tenant: &str) -> Result<bool, TenantError> {
    tenants.remove(name(tenant), Removal::Unserved).await
}

/// A connection as a tenant has it, without the options that are for Windlass alone.
pub async fn inside(url: &str) -> Client {
    connect(url.split_once('?').unwrap().0).await
}

/// Waits until the server has ended a session.
pub async fn ended(session: &Client) {
    for _ in 0..500 {
        if session.is_closed() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it was not ended");
}

pub async fn opened(url: &str) -> Postgres {
    Postgres::open(url).await.unwrap()
}

/// What SQL says to a statement that it refuses.
pub async fn refusal(client: &Client, sql: &str) -> String {
    match client.batch_execute(sql).await {
        Ok(()) => panic!("it was allowed: {sql}"),
        Err(error) => error.code().map(|state| state.code().to_owned()).unwrap_or_else(|| error.to_string()),
    }
}
