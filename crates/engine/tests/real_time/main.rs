//! Code that does not yield, and code that cannot be stopped: on real threads, in real time.

mod at_once;
mod grip;
mod hog;
mod hostile;
mod replaced;
mod undo;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use hog::{Hog, LetGo, eventually};
use windlass::{FailureKind, prelude::*};

#[workflow]
mod greedy {
    use super::*;

    #[task(timeout = "50ms", retry(on = never))]
    pub async fn grab(hog: Res<Hog>) -> Result<u32> {
        hog.hold();
        Ok(1)
    }
}

#[workflow]
mod blocking {
    use super::*;

    #[task(timeout = "50ms", retry(on = never), queue = "narrow")]
    pub fn grab(hog: Res<Hog>) -> Result<u32> {
        hog.hold();
        Ok(1)
    }
}

#[workflow]
mod modest {
    use super::*;

    #[task(queue = "narrow")]
    pub async fn ask() -> Result<u32> {
        Ok(2)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn code_that_never_yields_is_reported_by_name_and_loses_nothing() -> Result<()> {
    let hog = Arc::new(Hog::default());
    let _let_go = LetGo(Arc::clone(&hog));
    let engine = Engine::open("sqlite::memory:")
        .shared(Arc::clone(&hog))
        .workflow(greedy::workflow())
        .launch()
        .await?;
    let run = engine.start(greedy::workflow(), ()).await?;
    eventually("the report", || !engine.overdue().is_empty()).await;
    let overdue = engine.overdue().remove(0);
    assert_eq!((overdue.run, overdue.step.as_str(), overdue.attempt), (run.id(), "grab", 1));
    hog.let_go.store(true, Ordering::SeqCst);
    // Its result came late, but before anything could stop it: it is kept.
    assert_eq!(run.await?, 1);
    eventually("the end of the report", || engine.overdue().is_empty()).await;
    engine.stop().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocking_code_past_its_timeout_fails_its_attempt_and_keeps_its_slot() -> Result<()> {
    let hog = Arc::new(Hog::default());
    let _let_go = LetGo(Arc::clone(&hog));
    let engine = Engine::open("sqlite::memory:")
        .queue("narrow", 1)
        .shared(Arc::clone(&hog))
        .workflow(blocking::workflow())
        .workflow(modest::workflow())
        .launch()
        .await?;
    let mut run = engine.start(blocking::workflow(), ()).await?;
    assert_eq!((&mut run).await.unwrap_err().code(), "run_failed");
    let status = run.status().await?;
    assert_eq!(status.task("grab").unwrap().failure.as_ref().unwrap().kind, FailureKind::TimedOut);
    let mut other = engine.start(modest::workflow(), ()).await?;
    let waited = tokio::time::timeout(Duration::from_millis(100), &mut other).await;
    assert!(waited.is_err(), "the only slot is still taken");
    hog.let_go.store(true, Ordering::SeqCst);
    assert_eq!(other.await?, 2);
    engine.stop().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_blocking_code_still_runs_is_not_handed_over() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let url = format!("sqlite://{}", dir.path().join("app.db").display());
    #[workflow]
    mod stubborn {
        use super::*;

        #[task]
        pub fn grab(hog: Res<Hog>) -> Result<u32> {
            hog.hold();
            Ok(1)
        }
    }
    let hog = Arc::new(Hog::default());
    let _let_go = LetGo(Arc::clone(&hog));
    let launch =
        || Engine::open(url.clone()).shared(Arc::clone(&hog)).workflow(stubborn::workflow()).launch();
    let engine = launch().await?;
    let run = engine.start(stubborn::workflow(), ()).await?;
    eventually("the start", || hog.entered.load(Ordering::SeqCst) > 0).await;
    let error = engine.stop_now().await.unwrap_err();
    assert!(error.to_string().contains("blocking"), "{error}");
    let other = launch().await?;
    assert_eq!(other.run(&stubborn::workflow(), run.id()).status().await?.state, windlass::RunState::Running);
    hog.let_go.store(true, Ordering::SeqCst);
    other.stop().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_slow_task_holds_up_no_other_run() -> Result<()> {
    #[workflow]
    mod mixed {
        use super::*;

        #[task]
        pub async fn work(input: bool) -> Result<u32> {
            if input {
                std::future::pending::<()>().await;
            }
            Ok(3)
        }
    }
    let engine = Engine::open("sqlite::memory:").workflow(mixed::workflow()).launch().await?;
    let _slow = engine.start(mixed::workflow(), true).await?;
    for _ in 0..100 {
        assert_eq!(engine.start(mixed::workflow(), false).await?.await?, 3);
    }
    engine.stop_now().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_is_woken_by_the_end_of_its_run_and_never_polls_for_it() -> Result<()> {
    let engine =
        Engine::open("sqlite::memory:").queue("narrow", 1).workflow(modest::workflow()).launch().await?;
    engine.start(modest::workflow(), ()).await?.await?;
    let begun = Instant::now();
    for _ in 0..20 {
        engine.start(modest::workflow(), ()).await?.await?;
    }
    // A caller that looked twice a second would need ten seconds.
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    engine.stop().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quiet_engine_that_commits_on_the_threads_of_others_lets_them_have_their_turn() -> Result<()> {
    const TASKS: usize = 1_000;
    let (hog, ticks) = (Arc::new(Hog::default()), Arc::new(AtomicUsize::new(0)));
    let _let_go = LetGo(Arc::clone(&hog));
    // Each task is recorded before the next begins, and none ever waits for anything else.
    let tasks = (0..TASKS).map(|at| {
        let ticks = Arc::clone(&ticks);
        let task = Task::new(format!("t{at}"), move |_| {
            if at == 0 {
                ticks.store(0, Ordering::SeqCst);
            }
            let seen = ticks.load(Ordering::SeqCst);
            async move { Ok(seen) }
        });
        if at == 0 { task } else { task.after([format!("t{}", at - 1)]) }
    });
    let chain = Workflow::builder("chain").tasks(tasks).build()?;
    let engine = Engine::open("sqlite::memory:").workflow(chain).launch().await?;
    // One of the two threads is kept busy, so the other has everything else to do.
    tokio::spawn({
        let hog = Arc::clone(&hog);
        async move { hog.hold() }
    });
    eventually("one thread is busy", || hog.entered.load(Ordering::SeqCst) == 1).await;
    let ticking = tokio::spawn({
        let ticks = Arc::clone(&ticks);
        async move {
            loop {
                ticks.fetch_add(1, Ordering::SeqCst);
                tokio::task::yield_now().await;
            }
        }
    });
    let ticks = engine.start_by_name("chain", serde_json::Value::Null).await?.await?;
    ticking.abort();
    let ticks = ticks.as_u64().unwrap();
    assert!(ticks > 5, "{TASKS} commits left others {ticks} turns");
    hog.let_go.store(true, Ordering::SeqCst);
    engine.stop().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backlog_behind_long_runs_is_worked_off_as_places_come_free() -> Result<()> {
    #[workflow]
    mod mixed {
        use super::*;

        #[task]
        pub async fn work(input: u64) -> Result<()> {
            tokio::time::sleep(Duration::from_millis(input)).await;
            Ok(())
        }
    }
    // Most of the room is taken for an hour, so that a quarter of it is never free; and nobody looks by himself.
    let engine = Engine::open("sqlite::memory:").max_runs(20).poll(Duration::from_secs(3600));
    let engine = engine.workflow(mixed::workflow()).launch().await?;
    engine.start_many(mixed::workflow(), vec![3_600_000; 17]).await?;
    let backlog = engine.start_many(mixed::workflow(), vec![1; 100]).await?;
    let all = async {
        for run in backlog {
            engine.run(&mixed::workflow(), run).await?;
        }
        Ok::<_, windlass::Error>(())
    };
    tokio::time::timeout(Duration::from_secs(20), all).await.expect("places that come free are used")?;
    engine.stop_now().await?;
    Ok(())
}
