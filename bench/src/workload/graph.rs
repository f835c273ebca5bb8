//! A graph of ten thousand tasks, from its description to its first task.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::Notify;
use windlass::prelude::*;

use super::Bench;
use crate::{Result, report::Line};

/// How many tasks, in rows of so many.
const TASKS: f64 = 10_000.0;
const ROW: usize = 100;

/// How long it may take until the first task runs.
const SECONDS: f64 = 1.0;

/// How long to wait for the whole graph.
const PATIENCE: Duration = Duration::from_secs(120);

/// Describes the graph, launches an engine that has it, starts one run, and lets it end.
pub(crate) async fn measure(bench: &Bench<'_>) -> Result<Line> {
    let tasks = ((TASKS * bench.options.scale) as usize).max(ROW);
    let database = bench.database().await?;
    let begin = Instant::now();
    let first = Arc::new(Notify::new());
    let workflow = rows(tasks, &first)?;
    let built = begin.elapsed();
    let engine = super::engine(&database.url(), 1_000).workflow(workflow.clone()).launch().await?;
    let launched = begin.elapsed();
    let run = engine.start(workflow, serde_json::Value::Null).await?;
    let started = begin.elapsed();
    first.notified().await;
    let running = begin.elapsed();
    tokio::time::timeout(PATIENCE, run)
        .await
        .map_err(|_| format!("the graph had not ended after {} s", PATIENCE.as_secs()))??;
    let ended = begin.elapsed();
    database.until_ended(1).await?;
    engine.stop().await?;
    let seconds = |at: Duration| at.as_secs_f64();
    Ok(bench
        .line("first_task_s < 1")
        .also("tasks", tasks as f64)
        .also("built_s", seconds(built))
        .also("launched_s", seconds(launched))
        .also("started_s", seconds(started))
        .also("first_task_s", seconds(running))
        .also("ended_s", seconds(ended))
        .holds(seconds(running) < SECONDS))
}

/// Rows of tasks, each of which waits for three of the row before.
fn rows(tasks: usize, first: &Arc<Notify>) -> Result<Workflow> {
    let name = |row: usize, column: usize| format!("task-{row}-{column}");
    let mut builder = Workflow::builder("rows");
    for (row, column) in (0..tasks).map(|at| (at / ROW, at % ROW)) {
        let first = Arc::clone(first);
        let task = Task::new(name(row, column), move |_| {
            first.notify_one();
            async { Ok(()) }
        });
        let before = (0..3).map(|step| (column + step) % ROW);
        let task = if row == 0 { task } else { task.after(before.map(|column| name(row - 1, column))) };
        builder = builder.task(task);
    }
    let last = (tasks - 1) / ROW;
    // One task is the end of all others, so that the run has a result.
    let end = Task::new("end", |_| async { Ok(()) })
        .after((0..tasks).filter(|at| at / ROW == last).map(|at| name(last, at % ROW)));
    Ok(builder.task(end).output("end").build().map_err(|problems| problems.to_string())?)
}
