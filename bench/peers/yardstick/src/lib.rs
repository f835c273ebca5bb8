//! What every peer is asked, how it is kept busy, and how it answers.
//!
//! A peer is a program. It is started once for each workload, on an empty database, and prints one line of JSON. What it
//! claims to have done is counted in the database by whoever started it.

use std::{
    env,
    future::Future,
    time::{Duration, Instant},
};

use serde::Serialize;
use tokio::task::JoinSet;

/// What goes wrong is told to a person.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// The result of everything here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The command line of a peer: `WORKLOAD URL SECONDS CONCURRENCY RUNS`.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The name of the workload, as that of Windlass's own.
    pub workload: String,
    /// The database, which is empty and nobody else's.
    pub url: String,
    /// How long to go on, for workloads that last for a time.
    pub span: Duration,
    /// How many runs are under way at once.
    pub concurrency: usize,
    /// How many runs, for workloads that are a number of them.
    pub runs: u64,
}

impl Asked {
    /// Reads the command line.
    ///
    /// # Errors
    ///
    /// When it is not what a peer is asked with.
    pub fn read() -> Result<Self> {
        let words: Vec<String> = env::args().skip(1).collect();
        let [workload, url, seconds, concurrency, runs] = &words[..] else {
            return Err(format!("WORKLOAD URL SECONDS CONCURRENCY RUNS, not {words:?}").into());
        };
        Ok(Self {
            workload: workload.clone(),
            url: url.clone(),
            span: Duration::from_secs_f64(seconds.parse()?),
            concurrency: concurrency.parse()?,
            runs: runs.parse()?,
        })
    }

    /// For a workload that the peer does not have.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn unknown<T>(&self) -> Result<T> {
        Err(format!("there is no workload called `{}` here", self.workload).into())
    }
}

/// What a peer answers.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Answer {
    /// The crate and its version.
    pub peer: String,
    /// How many were under way at once.
    pub concurrency: usize,
    /// How many runs or jobs have ended. The database is asked whether that is true.
    pub runs: u64,
    /// Tasks, steps or jobs in each second.
    pub tasks_per_s: f64,
    /// From a start to its awaited result, at the median, where results are awaited.
    pub p50_ms: Option<f64>,
    /// The same, for all but one of a hundred.
    pub p99_ms: Option<f64>,
    /// How many were enqueued in each second, where that is a part of the workload.
    pub enqueued_per_s: Option<f64>,
}

impl Answer {
    /// Prints the one line.
    ///
    /// # Errors
    ///
    /// When a figure is not a number.
    pub fn print(&self) -> Result<()> {
        println!("{}", serde_json::to_string(self)?);
        Ok(())
    }
}

/// Keeps so many runs under way for a time, lets them all end, and says how long each took. `tasks` is how many a run
/// has.
///
/// # Errors
///
/// The first that a run fails with.
pub async fn keep_busy<F, R>(peer: &str, asked: &Asked, tasks: u64, run: F) -> Result<Answer>
where
    F: Fn() -> R + Clone + Send + 'static,
    R: Future<Output = Result<()>> + Send,
{
    let (begin, span) = (Instant::now(), asked.span);
    let mut loops = JoinSet::new();
    for _ in 0..asked.concurrency {
        let run = run.clone();
        loops.spawn(async move {
            let mut times = Vec::new();
            while times.is_empty() || begin.elapsed() < span {
                let start = Instant::now();
                run().await?;
                times.push(start.elapsed());
            }
            Ok::<_, Error>(times)
        });
    }
    let mut times = Vec::new();
    while let Some(done) = loops.join_next().await {
        times.extend(done??);
    }
    let took = begin.elapsed();
    times.sort_unstable();
    let runs = times.len() as u64;
    Ok(Answer {
        peer: peer.to_string(),
        concurrency: asked.concurrency,
        runs,
        tasks_per_s: (runs * tasks) as f64 / took.as_secs_f64(),
        p50_ms: percentile(&times, 0.5),
        p99_ms: percentile(&times, 0.99),
        enqueued_per_s: None,
    })
}

/// The smallest time that `part` of all times do not exceed, in milliseconds.
fn percentile(sorted: &[Duration], part: f64) -> Option<f64> {
    let rank = (part * sorted.len() as f64).ceil() as usize;
    Some(sorted.get(rank.max(1) - 1)?.as_secs_f64() * 1e3)
}
