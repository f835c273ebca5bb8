//! A schema with two ways to it, one of which can be stopped at every statement.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio_postgres::{Client, Statement};
use windlass_core::Time;
use windlass_postgres::{Postgres, PostgresOptions};

use crate::{
    common::{cluster, connect, execute},
    proxy::Proxy,
};

/// All that operations change.
const TABLES: [&str; 20] = [
    "node",
    "run",
    "ready",
    "waiting",
    "holding",
    "ended",
    "step",
    "inbox",
    "delivered",
    "saved",
    "spread",
    "key",
    "tag",
    "definition",
    "queue",
    "slot",
    "begun",
    "resting",
    "cell",
    "posted",
];

const CONTENTS: &str = "\
    SELECT concat_ws(E'\\n', \
        (SELECT string_agg(t::text, E'\\n' ORDER BY t.id) FROM {s}.node AS t), '#', \
        (SELECT string_agg(t::text, E'\\n' ORDER BY t.id) FROM {s}.run AS t), '#', \
        (SELECT string_agg(t::text, E'\\n' ORDER BY t.run) FROM {s}.ready AS t), '#', \
        (SELECT string_agg(t::text, E'\\n' ORDER BY t.run) FROM {s}.waiting AS t), '#', \
        (SELECT string_agg(concat_ws(' ', node, claims, runs, tenures, definitions), E'\\n' ORDER BY node, claims, runs) \
            FROM {s}.holding), '#', \
        (SELECT string_agg(t::text, E'\\n' ORDER BY t.run, t.generation) FROM {s}.ended AS t), '#', \
        (SELECT string_agg(concat_ws(' ', run, generation, name, attempt, kind), E'\\n' ORDER BY seq) FROM {s}.step), '#', \
        (SELECT string_agg(concat_ws(' ', run, topic, key, body, at), E'\\n' ORDER BY seq) FROM {s}.inbox), '#', \
        (SELECT string_agg(t::text, E'\\n' ORDER BY t.*) FROM {s}.delivered AS t), '#', \
        (SELECT string_agg(t::text, E'\\n' ORDER BY t.*) FROM {s}.saved AS t), '#', \
        (SELECT string_agg(t::text, E'\\n' ORDER BY t.*) FROM {s}.spread AS t), '#', \
        (SELECT string_agg(t::text, E'\\n' ORDER BY t.*) FROM {s}.key AS t), '#', \
        (SELECT string_agg(t::text, E'\\n' ORDER BY t.name) FROM {s}.queue AS t), '#', \
        (SELECT string_agg(t::text, E'\\n' ORDER BY t.*) FROM {s}.slot AS t), '#', \
        (SELECT string_agg(t::text, E'\\n' ORDER BY t.*) FROM {s}.begun AS t), '#', \
        (SELECT string_agg(t::text, E'\\n' ORDER BY t.*) FROM {s}.resting AS t), '#', \
        (SELECT string_agg(t::text, E'\\n' ORDER BY t.*) FROM {s}.cell AS t), '#', \
        (SELECT string_agg(concat_ws(' ', run, topic, key, body), E'\\n' ORDER BY no) FROM {s}.posted))";

const WAITS: &str =
    "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock')";

/// Connections of applications, one of which can be stopped.
pub struct Applications {
    pub stopped: Arc<Client>,
    pub free: Arc<Client>,
}

/// A schema of its own, whose clock stands still until it is set.
pub struct Database {
    pub schema: String,
    /// Reaches the server through the proxy.
    pub stopped: Arc<Postgres>,
    pub proxy: Proxy,
    /// Reaches it directly.
    pub free: Arc<Postgres>,
    /// Makes what is there at the beginning: the others know nothing of that, as the tables are put back to it behind
    /// their backs.
    pub maker: Arc<Postgres>,
    /// Applications that reach it in the same two ways.
    pub applications: Applications,
    /// Looks at the server from outside.
    pub client: Client,
    contents: Statement,
    waits: Statement,
}

impl Database {
    pub async fn new() -> Self {
        Self::with("").await
    }

    /// One whose connections begin with these options, as a database or a role may set them for all that connect.
    pub async fn with(options: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let schema = format!("meet_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let (front, place) = cluster().url().split_once('@').expect("it names a user");
        let (server, back) = place.split_once('/').expect("it names a database");
        let proxy = Proxy::start(server.to_owned()).await;
        let client = connect(cluster().url()).await;
        client.batch_execute("SET synchronous_commit = off").await.unwrap();
        let free = open(&schema, cluster().url(), "free", options).await;
        client
            .batch_execute(&format!(
                "CREATE TABLE {schema}.test_clock (now bigint NOT NULL); INSERT INTO {schema}.test_clock VALUES (0); \
                 CREATE OR REPLACE FUNCTION {schema}.clock() RETURNS bigint LANGUAGE sql STABLE AS \
                 'SELECT now FROM {schema}.test_clock'; \
                 CREATE OR REPLACE FUNCTION {schema}.moment() RETURNS bigint LANGUAGE sql VOLATILE AS \
                 'SELECT {schema}.clock()'; \
                 CREATE OR REPLACE FUNCTION {schema}.new_id() RETURNS uuid LANGUAGE sql VOLATILE AS \
                 $$ SELECT current_setting('test.id')::uuid $$"
            ))
            .await
            .unwrap();
        let maker = open(&schema, &format!("{front}@{server}/{back}"), "maker", options).await;
        let through = format!("{front}@127.0.0.1:{}/{back}", proxy.port());
        let stopped = PostgresOptions::new().schema(&schema).connections(2).in_parts();
        let stopped = stopped.open(&url(&schema, &through, "stopped", options)).await.unwrap();
        let stopped = Arc::new(stopped);
        let applications = Applications {
            stopped: Arc::new(connect(&url(&schema, &through, "stopped", options)).await),
            free: Arc::new(connect(&url(&schema, cluster().url(), "free", options)).await),
        };
        let contents = client.prepare(&CONTENTS.replace("{s}", &schema)).await.unwrap();
        let waits = client.prepare(WAITS).await.unwrap();
        Self { schema, stopped, proxy, free, maker, applications, client, contents, waits }
    }

    /// Remembers what the tables hold.
    pub async fn remember(&self) {
        let s = &self.schema;
        let copy = |table| format!("CREATE TABLE {s}.kept_{table} AS SELECT * FROM {s}.{table};");
        // Rows of `holding` get new numbers: a store knows the old ones, and what became of them.
        let put_back = |table: &&str| {
            let (into, from) = match *table {
                "holding" => (
                    "holding (node, claims, runs, tenures, definitions)",
                    "node, claims, runs, tenures, definitions",
                ),
                table => (table, "*"),
            };
            format!(
                "DELETE FROM {s}.{table}; \
                 INSERT INTO {s}.{into} OVERRIDING SYSTEM VALUE SELECT {from} FROM {s}.kept_{table};"
            )
        };
        let copies: String = TABLES.iter().map(copy).collect();
        let restore: String = TABLES.iter().map(put_back).collect();
        let sql = format!(
            "{copies} CREATE FUNCTION {s}.restore() RETURNS void LANGUAGE plpgsql AS $$ BEGIN {restore} END $$"
        );
        self.client.batch_execute(&sql).await.unwrap();
    }

    /// Puts the tables back to what was remembered.
    pub async fn restore(&self) {
        self.client.batch_execute(&format!("SELECT {}.restore()", self.schema)).await.unwrap();
    }

    /// What the tables hold, in words, but for numbers that nobody sees. Two stores whose tables hold the same cannot be
    /// told apart.
    pub async fn contents(&self) -> String {
        self.client.query_one(&self.contents, &[]).await.unwrap().get(0)
    }

    pub async fn set_clock(&self, now: Time) {
        let sql = format!("UPDATE {}.test_clock SET now = {}", self.schema, now.0);
        self.client.batch_execute(&sql).await.unwrap();
    }

    /// Whether a connection of one of the two ways waits for a lock.
    pub async fn waits(&self, way: &str) -> bool {
        let name = format!("{}.{way}", self.schema);
        self.client.query_one(&self.waits, &[&name]).await.unwrap().get(0)
    }

    /// Waits until a connection of one of the two ways waits for a lock.
    pub async fn until_it_waits(&self, way: &str) {
        for _ in 0..5000 {
            tokio::time::sleep(Duration::from_millis(2)).await;
            if self.waits(way).await {
                return;
            }
        }
        panic!("nobody waits");
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.proxy.go_on();
        execute(format!("DROP SCHEMA {} CASCADE", self.schema));
    }
}

async fn open(schema: &str, server: &str, way: &str, options: &str) -> Arc<Postgres> {
    let url = url(schema, server, way, options);
    Arc::new(PostgresOptions::new().schema(schema).connections(2).open(&url).await.unwrap())
}

fn url(schema: &str, server: &str, way: &str, options: &str) -> String {
    // What is tried here has nothing to do with the disk, and the proxy must be able to read it.
    format!(
        "{server}?sslmode=disable&application_name={schema}.{way}&options=-c%20synchronous_commit%3Doff{options}"
    )
}
