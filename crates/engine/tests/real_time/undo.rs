//! Stopping an engine while it undoes something.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use windlass::prelude::*;

use crate::hog::{Hog, LetGo, eventually};

#[workflow]
mod trip {
    use super::*;

    #[task]
    pub async fn book() -> Result<()> {
        Ok(())
    }

    #[undo(book)]
    pub async fn cancel(hog: Res<Hog>) -> Result<()> {
        hog.hold();
        // Here it can be stopped.
        tokio::task::yield_now().await;
        Ok(())
    }

    #[task(after = [book], retry(attempts = 1))]
    pub async fn end() -> Result<()> {
        Err("no seats".into())
    }
}

/// The same as a durable function.
#[flow]
async fn journey(_: &(), cx: &Flow, hog: Res<Hog>) -> Result<()> {
    let hog = Res::clone(&hog);
    let undo = move |()| async move {
        hog.hold();
        tokio::task::yield_now().await;
        Ok::<_, Failure>(())
    };
    cx.step("book", || async { Ok::<_, Failure>(()) }).undo(undo).await?;
    Err("no seats".into())
}

async fn stop_hard(workflow: Workflow<(), ()>) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let url = format!("sqlite://{}", dir.path().join("app.db").display());
    let hog = Arc::new(Hog::default());
    let _let_go = LetGo(Arc::clone(&hog));
    let launch = || Engine::open(url.clone()).shared(Arc::clone(&hog)).workflow(workflow.clone()).launch();
    let engine = launch().await?;
    let run = engine.start(workflow.clone(), ()).await?.id();
    let entered = || hog.entered.load(Ordering::SeqCst);
    eventually("the undo", || entered() == 1).await;
    let other = launch().await?;
    let stopping = tokio::spawn(async move { engine.stop_now().await });
    let twice = tokio::time::timeout(Duration::from_secs(1), eventually("", || entered() == 2)).await;
    assert!(twice.is_err(), "another engine undoes what this one still does");
    hog.let_go.store(true, Ordering::SeqCst);
    stopping.await??;
    assert_eq!(other.run(&workflow, run).await.unwrap_err().code(), "run_failed");
    other.stop().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_run_whose_undo_cannot_be_stopped_yet_is_not_handed_over() -> Result<()> {
    stop_hard(trip::workflow()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_function_whose_undo_cannot_be_stopped_yet_is_not_handed_over() -> Result<()> {
    stop_hard(journey::workflow()).await
}

/// Terminates a run while its undo executes, and cannot be stopped yet.
async fn terminate(workflow: Workflow<(), ()>) -> Result<()> {
    let hog = Arc::new(Hog::default());
    let _let_go = LetGo(Arc::clone(&hog));
    let engine = Engine::open("sqlite::memory:").shared(Arc::clone(&hog)).workflow(workflow.clone()).launch();
    let engine = engine.await?;
    let mut run = engine.start(workflow, ()).await?;
    eventually("the undo", || hog.entered.load(Ordering::SeqCst) == 1).await;
    run.terminate("enough").await?;
    let ended = tokio::time::timeout(Duration::from_millis(500), &mut run).await;
    assert!(ended.is_err(), "it has ended while its undo still executes: a retry would do it twice at once");
    hog.let_go.store(true, Ordering::SeqCst);
    assert_eq!(run.await.unwrap_err().code(), "run_cancelled");
    engine.stop().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_run_that_is_terminated_ends_when_its_undo_has_stopped() -> Result<()> {
    terminate(trip::workflow()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_function_that_is_terminated_ends_when_its_undo_has_stopped() -> Result<()> {
    terminate(journey::workflow()).await
}
