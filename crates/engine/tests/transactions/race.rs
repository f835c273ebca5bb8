//! A cancel or a time limit that comes while a commit is on its way: the record and the run never disagree.

use std::time::Duration;

use windlass::{StepKind, postgres::Transaction, prelude::*};

use crate::database::{App, Database};

#[workflow]
mod slow {
    use super::*;

    #[task(timeout = "20ms", retry(attempts = 3, delay = "1ms"))]
    pub async fn write(input: u64, cx: &Cx, tx: &Transaction, app: Res<App>) -> Result<u64> {
        tx.execute(&app.add(), &[&cx.run_id().to_string(), &"write"]).await?;
        tokio::time::sleep(Duration::from_micros(input)).await;
        Ok(input)
    }
}

/// What the records say of a run must be what is in the table, and what whoever waits for the run hears.
async fn agrees(database: &Database, engine: &Engine, run: windlass::RunId, completed: bool) -> Result<()> {
    let (entries, records) = (database.entries(run).await, database.records(run, "write").await);
    assert_eq!(entries, records, "run {run}: {entries} entries, and {records} records of it");
    let status = engine.run(&slow::workflow(), run).status().await?;
    assert!(records <= 1, "run {run} took effect {records} times");
    let last = status.task("write").and_then(|task| task.attempts.last()).map(|attempt| attempt.kind);
    assert_eq!(records == 1, last == Some(StepKind::Completed), "run {run}: {last:?}");
    assert!(!completed || records == 1, "run {run} completed without its record");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_that_races_with_the_commit_leaves_either_both_or_nothing() -> Result<()> {
    let database = Database::new().await;
    let grace = Duration::from_millis(1);
    let engine = database.engine().workflow(slow::workflow()).cancel_grace(grace).launch().await?;
    let (mut both, mut nothing) = (0, 0);
    for round in 0..300_u64 {
        let run = engine.start(slow::workflow(), round * 40 % 8000).await?;
        let id = run.id();
        // It may have ended already.
        engine.run(&slow::workflow(), id).cancel("enough").await.ok();
        let completed = run.await.is_ok();
        agrees(&database, &engine, id, completed).await?;
        match database.entries(id).await {
            0 => nothing += 1,
            _ => both += 1,
        }
    }
    assert!(both > 10 && nothing > 10, "{both} and {nothing}: the race was not close");
    engine.stop().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_time_limit_that_races_with_the_commit_leaves_either_both_or_nothing() -> Result<()> {
    let database = Database::new().await;
    let engine = database.engine().workflow(slow::workflow()).launch().await?;
    let mut runs = Vec::new();
    for round in 0..200_u64 {
        runs.push(engine.start(slow::workflow(), 12_000 + round * 50).await?);
    }
    for run in runs {
        let id = run.id();
        let completed = run.await.is_ok();
        agrees(&database, &engine, id, completed).await?;
    }
    engine.stop().await?;
    Ok(())
}
