//! What an application calls in a transaction of its own: who may call it, with what, and who waits for whom.

#[path = "../common/mod.rs"]
mod common;
mod messages;
mod options;
mod page;
mod rights;
mod turns;

use std::sync::atomic::{AtomicU32, Ordering};

use common::{cluster, connect, execute};
use tokio_postgres::Client;
use windlass_core::RunId;
use windlass_postgres::{Postgres, PostgresOptions};

/// A schema of its own, and an application's connection to it.
struct Schema {
    name: String,
    store: Postgres,
    application: Client,
}

impl Schema {
    async fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("call_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let url = format!("{}?application_name={name}.store", cluster().url());
        let store = PostgresOptions::new().schema(&name).connections(2).open(&url).await.unwrap();
        Self { name, store, application: connect(cluster().url()).await }
    }

    /// Asks for one value, as text; an error is its SQLSTATE and what it says.
    async fn ask(&self, expression: &str) -> Result<Option<String>, String> {
        ask(&self.application, &self.name, expression).await
    }

    /// Asks for one value that is there.
    async fn one(&self, expression: &str) -> String {
        self.ask(expression).await.unwrap().expect("a value")
    }

    /// Starts something.
    async fn start(&self, arguments: &str) -> RunId {
        self.one(&format!("{{s}}.start({arguments})")).await.parse().unwrap()
    }

    async fn execute(&self, sql: &str) {
        self.application.batch_execute(&sql.replace("{s}", &self.name)).await.unwrap();
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        execute(format!("DROP SCHEMA {} CASCADE", self.name));
    }
}

async fn ask(client: &Client, schema: &str, expression: &str) -> Result<Option<String>, String> {
    let sql = format!("SELECT ({expression})::text").replace("{s}", schema);
    match client.query_one(&sql, &[]).await {
        Ok(row) => Ok(row.get(0)),
        Err(error) => {
            let error = error.as_db_error().expect("the server says it");
            Err(format!("{} {}", error.code().code(), error.message()))
        }
    }
}
