//! A database with a table of the application's, for one test.

use std::sync::{
    LazyLock,
    atomic::{AtomicU32, Ordering},
};

use tokio_postgres::{Client, NoTls};
use windlass::{Engine, EngineBuilder, RunId};
use windlass_cluster::Cluster;

/// A schema for the engine, and another one with a table `entry` of the application's.
pub struct Database {
    /// Where the engine finds its own.
    pub url: String,
    /// The application's schema.
    pub schema: String,
    /// A connection of the application's own.
    pub client: Client,
}

impl Database {
    pub async fn new() -> Self {
        Self::through(|server| server).await
    }

    /// The same, reached by the engine another way; the application goes straight to the server.
    pub async fn through(way: impl FnOnce(String) -> String) -> Self {
        static CLUSTER: LazyLock<Cluster> = LazyLock::new(|| Cluster::find().unwrap());
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let (process, next) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let schema = format!("app_{process}_{next}");
        let client = connect(CLUSTER.url()).await;
        let make = format!(
            "DROP SCHEMA IF EXISTS {schema} CASCADE; DROP SCHEMA IF EXISTS tx_{schema} CASCADE; CREATE SCHEMA {schema}; \
             CREATE TABLE {schema}.entry (run text NOT NULL, step text NOT NULL); \
             CREATE TABLE {schema}.counter (value bigint NOT NULL); INSERT INTO {schema}.counter VALUES (0)"
        );
        client.batch_execute(&make).await.unwrap();
        let url = format!("{}?schema=tx_{schema}", way(CLUSTER.url().to_owned()));
        Self { url, schema, client }
    }

    pub fn engine(&self) -> EngineBuilder {
        Engine::open(self.url.as_str()).resource(App { schema: self.schema.clone() })
    }

    /// Adds a table `child` with a constraint that is looked at when the transaction is committed.
    pub async fn defer(&self) {
        let schema = &self.schema;
        let make = format!(
            "CREATE TABLE {schema}.parent (id int PRIMARY KEY); \
             CREATE TABLE {schema}.child (parent int REFERENCES {schema}.parent DEFERRABLE INITIALLY DEFERRED)"
        );
        self.client.batch_execute(&make).await.unwrap();
    }

    /// How many entries there are of a run.
    pub async fn entries(&self, run: RunId) -> i64 {
        let sql = format!("SELECT count(*) FROM {}.entry WHERE run = $1", self.schema);
        self.client.query_one(&sql, &[&run.to_string()]).await.unwrap().get(0)
    }

    /// How many entries there are of all runs.
    pub async fn all_entries(&self) -> i64 {
        self.client
            .query_one(&format!("SELECT count(*) FROM {}.entry", self.schema), &[])
            .await
            .unwrap()
            .get(0)
    }

    /// How many records there are of completed attempts of a task.
    pub async fn records(&self, run: RunId, task: &str) -> i64 {
        let sql = format!(
            "SELECT count(*) FROM tx_{}.step WHERE run::text = $1 AND kind = 0 AND split_part(name, '[', 1) = $2",
            self.schema
        );
        self.client.query_one(&sql, &[&run.to_string(), &task]).await.unwrap().get(0)
    }
}

pub async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// The application, as its tasks know it.
pub struct App {
    pub schema: String,
}

impl App {
    /// What adds an entry.
    pub fn add(&self) -> String {
        format!("INSERT INTO {}.entry (run, step) VALUES ($1, $2)", self.schema)
    }
}
