//! Many concurrent runs of three tasks in a row, started through the public API.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::task::JoinSet;
use windlass::prelude::*;

use super::{Bench, mean, roll::Roll};
use crate::{
    Error, Result, commits, database::Database, latencies::Latencies, options::Store, process, report::Line,
};

/// Three tasks that do nothing, one after the other.
#[workflow(output = third)]
pub(crate) mod chain {
    use windlass::prelude::*;

    #[task]
    pub(crate) async fn first() -> Result<()> {
        Ok(())
    }

    #[task(after = [first])]
    pub(crate) async fn second() -> Result<()> {
        Ok(())
    }

    #[task(after = [second])]
    pub(crate) async fn third() -> Result<()> {
        Ok(())
    }
}

/// A workflow that does one thing after the other, and how many.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) workflow: fn() -> Workflow<(), ()>,
    pub(crate) tasks: usize,
}

/// The workflow of `chain3`.
pub(crate) const CHAIN: Row = Row { workflow: chain::workflow, tasks: 3 };

/// Measures the limit, ours, and the limit again.
pub(crate) async fn measure(bench: &Bench<'_>, row: Row) -> Result<Line> {
    let limit = async || bench.limits(async |limit| Ok([limit.chains(row.tasks, bench.half()).await?])).await;
    let [before] = limit().await?;
    let database = bench.database().await?;
    let mut ours = work(row, &database, bench.concurrency(), bench.span(), &Roll::endless()).await?;
    drop(database);
    let [after] = limit().await?;
    let share = match bench.store {
        Store::Sqlite => 0.5,
        Store::Postgres => 0.3,
    };
    let line = bench
        .line(&format!("of_limit >= {share}"))
        .rates(ours.tasks_per_s, mean(before, after))
        .latencies(ours.latencies.percentile_ms(0.5), ours.latencies.percentile_ms(0.99))
        .costs(Some(ours.commits_per_task), Some(ours.bytes_per_task));
    let line = ours.cpu_us_per_task.into_iter().fold(line, |line, cpu| line.also("cpu_us_per_task", cpu));
    let within = line.of_limit() >= share;
    Ok(line.holds(within))
}

/// What came of it.
pub(crate) struct Outcome {
    /// Tasks of runs that have ended, by the database's count, in each second.
    pub(crate) tasks_per_s: f64,
    /// From each start to its result.
    pub(crate) latencies: Latencies,
    /// Transactions written.
    pub(crate) commits_per_task: f64,
    /// Processor time of the whole process, where the system tells. It says more than the rate does when
    /// others use the machine too.
    pub(crate) cpu_us_per_task: Option<f64>,
    /// Growth of the database.
    pub(crate) bytes_per_task: f64,
}

/// Keeps `concurrency` runs under way for a time, and lets them all end. Each that has ended answers on the roll.
pub(crate) async fn work(
    row: Row,
    database: &Database,
    concurrency: usize,
    span: Duration,
    roll: &Arc<Roll>,
) -> Result<Outcome> {
    commits::listen()?;
    let engine = super::engine(&database.url(), concurrency).workflow((row.workflow)()).launch().await?;
    let (ended_before, bytes_before) = (database.ended().await?, database.bytes().await?);
    let commits_before = commits::written();

    let cpu_before = process::cpu_seconds();
    let begin = Instant::now();
    let latencies = keep_busy(row, &engine, concurrency, span, roll).await?;
    let took = begin.elapsed();
    let cpu = process::cpu_seconds().zip(cpu_before).map(|(now, before)| now - before);

    let commits = commits::written() - commits_before;
    let runs = latencies.len() as u64;
    let ended = database.ended().await? - ended_before;
    if ended != runs {
        return Err(format!("{runs} results were awaited, but the database has {ended} ended runs").into());
    }
    engine.stop().await?;
    let tasks = (ended * row.tasks as u64) as f64;
    Ok(Outcome {
        tasks_per_s: tasks / took.as_secs_f64(),
        latencies,
        commits_per_task: commits as f64 / tasks,
        cpu_us_per_task: cpu.map(|seconds| seconds * 1e6 / tasks),
        bytes_per_task: database.bytes().await?.saturating_sub(bytes_before) as f64 / tasks,
    })
}

/// Keeps `concurrency` runs under way for a time, and answers from each start to its result.
pub(crate) async fn keep_busy(
    row: Row,
    engine: &Engine,
    concurrency: usize,
    span: Duration,
    roll: &Arc<Roll>,
) -> Result<Latencies> {
    let begin = Instant::now();
    let mut loops = JoinSet::new();
    for _ in 0..concurrency {
        let (engine, roll) = (engine.clone(), Arc::clone(roll));
        loops.spawn(async move {
            let mut latencies = Latencies::with_room();
            while begin.elapsed() < span {
                let start = Instant::now();
                engine.start((row.workflow)(), ()).await?.await?;
                latencies.push(start.elapsed());
                roll.answer();
            }
            Ok::<_, Error>(latencies)
        });
    }
    let mut latencies = Latencies::default();
    while let Some(done) = loops.join_next().await {
        latencies.append(done??);
    }
    Ok(latencies)
}
