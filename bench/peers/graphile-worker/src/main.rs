//! Burndown on graphile_worker: jobs that do nothing, added in bulk, then worked off by one process.
//!
//! It keeps no history: a job that is done is deleted. The settings are those of its own benchmark of throughput, which
//! has as many jobs, with a connection pool of its default size.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use graphile_worker::{
    IntoTaskHandlerResult, JobSpec, LocalQueueConfig, TaskHandler, WorkerContext, WorkerOptions,
};
use serde::{Deserialize, Serialize};
use sqlx::{PgPool, postgres::PgPoolOptions};
use yardstick::{Answer, Asked, Result};

const PEER: &str = "graphile_worker 0.14.1";

/// How many jobs one call adds, as many as one call of Windlass's own workload.
const CALL: u64 = 10_000;

/// How many jobs execute at once, how many are fetched at once, and for how long those that are done wait for company.
const CONCURRENCY: usize = 500;
const FETCHED: usize = 5_000;
const DELAY: Duration = Duration::from_millis(5);

/// How long to wait for the last job.
const PATIENCE: Duration = Duration::from_secs(600);

#[derive(Clone, Debug)]
struct Done(Arc<AtomicU64>);

/// A job that does nothing but count.
#[derive(Clone, Deserialize, Serialize)]
struct Nothing {}

impl TaskHandler for Nothing {
    const IDENTIFIER: &'static str = "nothing";

    async fn run(self, context: WorkerContext) -> impl IntoTaskHandlerResult {
        if let Some(done) = context.get_ext::<Done>() {
            done.0.fetch_add(1, Ordering::Relaxed);
        }
        Ok::<(), String>(())
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let asked = Asked::read()?;
    if asked.workload != "burndown" {
        return asked.unknown();
    }
    let pool = PgPoolOptions::new().max_connections(20).connect(&asked.url).await?;
    let done = Done(Arc::default());
    let options = || {
        WorkerOptions::default()
            .pg_pool(pool.clone())
            .schema("graphile_worker")
            .concurrency(CONCURRENCY)
            .poll_interval(DELAY)
            .complete_job_batch_delay(DELAY)
            .local_queue(LocalQueueConfig::default().with_size(FETCHED))
            .listen_os_shutdown_signals(false)
            .add_extension(done.clone())
            .define_job::<Nothing>()
    };
    // A worker that is not run, so that the backlog is whole before anyone works on it.
    let utils = options().init().await?.create_utils();
    let spec = JobSpec::default();
    let jobs: Vec<_> = (0..CALL).map(|_| (Nothing {}, &spec)).collect();
    let calls = asked.runs.div_ceil(CALL);
    let begin = Instant::now();
    for _ in 0..calls {
        utils.add_jobs::<Nothing>(&jobs).await?;
    }
    let enqueued = begin.elapsed();
    let runs = calls * CALL;
    if left(&pool).await? != runs {
        return Err(format!("{runs} jobs were added, but the database has {}", left(&pool).await?).into());
    }

    let begin = Instant::now();
    let worker = Arc::new(options().init().await?);
    let working = tokio::spawn({
        let worker = Arc::clone(&worker);
        async move { worker.run().await }
    });
    // Counting takes time, so the database is asked when everything was executed.
    while done.0.load(Ordering::Relaxed) < runs || left(&pool).await? > 0 {
        if working.is_finished() || begin.elapsed() > PATIENCE {
            return Err(format!("{} jobs are left", left(&pool).await?).into());
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let took = begin.elapsed();
    worker.request_shutdown();
    working.await??;
    Answer {
        peer: PEER.to_string(),
        concurrency: CONCURRENCY,
        runs,
        tasks_per_s: runs as f64 / took.as_secs_f64(),
        enqueued_per_s: Some(runs as f64 / enqueued.as_secs_f64()),
        ..Answer::default()
    }
    .print()
}

async fn left(pool: &PgPool) -> Result<u64> {
    let left: i64 =
        sqlx::query_scalar("SELECT count(*) FROM graphile_worker._private_jobs").fetch_one(pool).await?;
    Ok(u64::try_from(left)?)
}
