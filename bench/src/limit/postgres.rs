//! The raw limits on PostgreSQL, through the driver that the store uses.

mod desk;

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use desk::Desk;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::BATCH;
use crate::{
    Result,
    latencies::Latencies,
    server::{Schema, Server},
};

const TABLES: &str = "
    CREATE TABLE run (id uuid PRIMARY KEY, workflow integer, at bigint, input bytea);
    CREATE TABLE ready (run uuid PRIMARY KEY);
    CREATE TABLE step (run uuid, task integer, at bigint, output bytea, PRIMARY KEY (run, task));
    CREATE TABLE ended (run uuid PRIMARY KEY, state smallint, at bigint, output bytea);
";

/// An empty schema of its own, with the settings that the server has.
pub(crate) struct Postgres {
    // Dropped first, so that nothing is held when the schema goes.
    desks: Vec<Arc<Desk>>,
    _schema: Schema,
}

impl Postgres {
    /// Makes a fresh schema, and connects to it so many times.
    pub(crate) async fn open(server: &Server, connections: usize) -> Result<Self> {
        let schema = server.schema();
        let client = schema.connect().await?;
        client.batch_execute(&format!("CREATE SCHEMA {}", schema.name())).await?;
        client.batch_execute(TABLES).await?;
        let mut desks = Vec::new();
        for _ in 0..connections {
            desks.push(Arc::new(Desk::open(schema.connect().await?).await?));
        }
        Ok(Self { desks, _schema: schema })
    }

    pub(super) async fn chains(&self, steps: usize, span: Duration) -> Result<f64> {
        let (begin, next) = (Instant::now(), Arc::new(AtomicU64::new(0)));
        let work = |desk: Arc<Desk>| {
            let next = Arc::clone(&next);
            async move {
                while begin.elapsed() < span {
                    desk.chains(next.fetch_add(BATCH, Ordering::Relaxed), steps).await?;
                }
                Ok(0)
            }
        };
        self.everywhere(work).await?;
        let (took, runs) = (begin.elapsed(), next.load(Ordering::Relaxed));
        self.expect("ended", runs).await?;
        Ok((runs * steps as u64) as f64 / took.as_secs_f64())
    }

    pub(super) async fn enqueue(&self, runs: u64) -> Result<f64> {
        let (begin, next) = (Instant::now(), Arc::new(AtomicU64::new(0)));
        let work = |desk: Arc<Desk>| {
            let next = Arc::clone(&next);
            async move {
                let mut written = 0;
                loop {
                    let first = next.fetch_add(BATCH, Ordering::Relaxed);
                    if first >= runs {
                        return Ok(written);
                    }
                    desk.enqueue(first).await?;
                    written += BATCH;
                }
            }
        };
        let written = self.everywhere(work).await?;
        let took = begin.elapsed();
        self.expect("ready", written).await?;
        Ok(written as f64 / took.as_secs_f64())
    }

    /// What is written of one batch travels with the claim of the next: one transaction, one round trip.
    pub(super) async fn burndown(&self) -> Result<f64> {
        // A backlog that came slowly would have been looked at by the server.
        self.desks[0].analyze("ready").await?;
        let begin = Instant::now();
        let work = |desk: Arc<Desk>| async move {
            let (mut done, mut claimed) = (0, Vec::new());
            // Whatever is older has been claimed, here or on another connection: dead rows are not looked at again.
            let mut after = Uuid::nil();
            loop {
                let next = desk.work_off(&claimed, after).await?;
                done += claimed.len() as u64;
                let Some(last) = next.iter().max() else { return Ok(done) };
                after = *last;
                claimed = next;
            }
        };
        let done = self.everywhere(work).await?;
        let took = begin.elapsed();
        self.expect("ready", 0).await?;
        self.expect("ended", done).await?;
        Ok(done as f64 / took.as_secs_f64())
    }

    pub(super) async fn fanout(&self, width: u64, list: &[u8], joined: &[u8], span: Duration) -> Result<f64> {
        let begin = Instant::now();
        let mut runs: u64 = 0;
        while runs == 0 || begin.elapsed() < span {
            self.desks[0].feed(runs, list).await?;
            let next = Arc::new(AtomicU64::new(1));
            let work = |desk: Arc<Desk>| {
                let next = Arc::clone(&next);
                async move {
                    loop {
                        let first = next.fetch_add(BATCH, Ordering::Relaxed);
                        if first > width {
                            return Ok(0);
                        }
                        desk.instances(runs, first..(first + BATCH).min(width + 1)).await?;
                    }
                }
            };
            self.everywhere(work).await?;
            self.desks[0].join(runs, width + 1, joined).await?;
            runs += 1;
        }
        let took = begin.elapsed();
        self.expect("step", runs * (width + 2)).await?;
        Ok((runs * (width + 2)) as f64 / took.as_secs_f64())
    }

    pub(super) async fn commits(&self, span: Duration) -> Result<Latencies> {
        let desk = &self.desks[0];
        let mut number = desk.count("run").await?;
        let begin = Instant::now();
        let mut latencies = Latencies::default();
        while begin.elapsed() < span {
            let start = Instant::now();
            desk.single(number).await?;
            latencies.push(start.elapsed());
            number += 1;
        }
        self.expect("run", number).await?;
        Ok(latencies)
    }

    /// Does this on every connection at once, and adds up what comes of it.
    async fn everywhere<F>(&self, work: impl Fn(Arc<Desk>) -> F) -> Result<u64>
    where
        F: Future<Output = Result<u64>> + Send + 'static,
    {
        let mut all = JoinSet::new();
        for desk in &self.desks {
            all.spawn(work(Arc::clone(desk)));
        }
        let mut sum = 0;
        while let Some(done) = all.join_next().await {
            sum += done??;
        }
        Ok(sum)
    }

    /// A figure is worth nothing when the rows are not there.
    async fn expect(&self, table: &str, rows: u64) -> Result<()> {
        let found = self.desks[0].count(table).await?;
        if found == rows { Ok(()) } else { Err(format!("{table} has {found} rows, not {rows}").into()) }
    }
}

#[cfg(test)]
mod tests {
    use windlass_cluster::Cluster;

    use super::*;
    use crate::ground::Ground;

    #[tokio::test]
    async fn every_limit_is_measured_and_counted() {
        let cluster = Cluster::find().expect("PostgreSQL is there");
        let ground = Ground::find(None).expect("there is a disk");
        let server = Server::find(Some(cluster.url()), &ground).expect("it is a URL");
        let open = async |connections| Postgres::open(&server, connections).await.expect("it opens");
        let brief = Duration::from_millis(20);
        for connections in [1, 2] {
            assert!(open(connections).await.chains(3, brief).await.expect("it runs") > 0.0);
            assert!(open(connections).await.fanout(2_500, b"[]", b"0", brief).await.expect("it runs") > 0.0);
            let queue = open(connections).await;
            assert!(queue.enqueue(3_000).await.expect("it runs") > 0.0);
            assert!(queue.burndown().await.expect("it runs") > 0.0);
            queue.expect("ended", 3_000).await.expect("everything has ended");
        }
        let single = open(1).await;
        for _ in 0..2 {
            assert!(single.commits(brief).await.expect("it runs").percentile_ms(0.5) > Some(0.0));
        }
    }
}
