//! Cancel, pause, resume, retry, fork: in every state.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::sync::Notify;
use windlass::{Cancelled, RunState, TaskState, prelude::*, testing::Lab};

/// Lets a test see and steer what a task does.
#[derive(Default)]
struct Gate {
    entered: Notify,
    open: Notify,
    tidied: AtomicBool,
    effects: AtomicUsize,
}

#[workflow(output = last)]
mod gated {
    use super::*;

    #[task]
    pub async fn first(gate: Res<Arc<Gate>>, cx: &Cx) -> Result<u32> {
        gate.entered.notify_one();
        tokio::select! {
            () = gate.open.notified() => {}
            () = cx.cancelled() => {
                gate.tidied.store(true, Ordering::SeqCst);
                return Err(Failure::new("asked to stop"));
            }
        }
        Ok(1)
    }

    #[task(retry(attempts = 2, delay = "1h", jitter = 0.0, max = "2h"))]
    pub async fn second(first: u32, gate: Res<Arc<Gate>>) -> Result<u32> {
        gate.effects.fetch_add(1, Ordering::SeqCst);
        Ok(first + 1)
    }

    #[task]
    pub async fn last(second: u32) -> Result<u32> {
        Ok(second + 1)
    }
}

async fn launch(lab: &Lab, gate: &Arc<Gate>) -> Result<Engine> {
    Ok(lab.engine().resource(Arc::clone(gate)).workflow(gated::workflow()).launch().await?)
}

#[windlass::test]
async fn a_pending_run_that_is_cancelled_never_starts(lab: Lab) -> Result<()> {
    let gate = Arc::new(Gate::default());
    let engine = launch(&lab, &gate).await?;
    let run = engine.start(gated::workflow(), ()).delay(Duration::from_secs(60)).await?;
    assert_eq!(run.cancel("no longer wanted").await?, Cancelled::Requested);
    let error = run.await.unwrap_err();
    assert_eq!(error.code(), "run_cancelled");
    assert!(error.to_string().contains("no longer wanted"));
    assert_eq!(lab.attempts("first"), 0);
    Ok(())
}

#[windlass::test]
async fn a_running_run_that_is_cancelled_lets_its_attempt_tidy_up_and_starts_nothing_more(
    lab: Lab,
) -> Result<()> {
    let gate = Arc::new(Gate::default());
    let engine = launch(&lab, &gate).await?;
    let mut run = engine.start(gated::workflow(), ()).await?;
    gate.entered.notified().await;
    assert_eq!(run.status().await?.task("first").unwrap().state, TaskState::Running);
    assert_eq!(run.cancel("stop").await?, Cancelled::Requested);
    assert_eq!((&mut run).await.unwrap_err().code(), "run_cancelled");
    assert!(gate.tidied.load(Ordering::SeqCst));
    assert_eq!(lab.attempts("second"), 0);
    assert_eq!(run.cancel("again").await?, Cancelled::AlreadyEnded(RunState::Cancelled));
    let status = run.status().await?;
    assert_eq!(status.task("last").unwrap().state, TaskState::Cancelled);
    Ok(())
}

#[windlass::test]
async fn a_parked_run_that_is_cancelled_wakes_only_to_end(lab: Lab) -> Result<()> {
    lab.fail("second", 1..=1, "busy");
    let gate = Arc::new(Gate::default());
    let engine = launch(&lab, &gate).await?;
    gate.open.notify_one();
    let run = engine.start(gated::workflow(), ()).await?;
    lab.advance(Duration::from_secs(10)).await;
    assert_eq!(run.status().await?.state, RunState::Suspended);
    let before = lab.now();
    run.cancel("enough").await?;
    assert_eq!(run.await.unwrap_err().code(), "run_cancelled");
    assert!(lab.now().since(before) < Duration::from_secs(1), "it did not wait for its retry");
    assert_eq!(gate.effects.load(Ordering::SeqCst), 0);
    Ok(())
}

#[windlass::test]
async fn an_attempt_that_ignores_the_signal_is_dropped_after_its_grace(lab: Lab) -> Result<()> {
    #[workflow]
    mod stubborn {
        use super::*;

        #[task]
        pub async fn wait() -> Result<()> {
            std::future::pending().await
        }
    }
    let engine =
        lab.engine().cancel_grace(Duration::from_secs(7)).workflow(stubborn::workflow()).launch().await?;
    let run = engine.start(stubborn::workflow(), ()).await?;
    lab.advance(Duration::from_secs(1)).await;
    let before = lab.now();
    run.cancel("stop").await?;
    assert_eq!(run.await.unwrap_err().code(), "run_cancelled");
    let took = lab.now().since(before);
    assert!(took >= Duration::from_secs(7) && took < Duration::from_secs(8), "{took:?}");
    Ok(())
}

#[windlass::test]
async fn a_paused_run_lets_what_runs_finish_and_starts_nothing_new(lab: Lab) -> Result<()> {
    let gate = Arc::new(Gate::default());
    let engine = launch(&lab, &gate).await?;
    let run = engine.start(gated::workflow(), ()).await?;
    gate.entered.notified().await;
    run.pause().await?;
    gate.open.notify_one();
    lab.advance(Duration::from_secs(3600)).await;
    let status = run.status().await?;
    assert_eq!(status.state, RunState::Paused);
    assert_eq!(status.task("first").unwrap().state, TaskState::Completed);
    assert_eq!(lab.attempts("second"), 0);
    run.resume().await?;
    assert_eq!(run.await?, 3);
    Ok(())
}

#[windlass::test]
async fn a_pause_outlives_the_process_that_obeyed_it(lab: Lab) -> Result<()> {
    let gate = Arc::new(Gate::default());
    let engine = launch(&lab, &gate).await?;
    let id = {
        let run = engine.start(gated::workflow(), ()).await?;
        gate.entered.notified().await;
        run.pause().await?;
        run.id()
    };
    lab.crash(&engine);
    let engine = launch(&lab, &gate).await?;
    lab.advance(Duration::from_secs(60)).await;
    let run = engine.run(&gated::workflow(), id);
    assert_eq!(run.status().await?.state, RunState::Paused);
    gate.open.notify_one();
    run.resume().await?;
    assert_eq!(run.await?, 3);
    Ok(())
}

#[windlass::test]
async fn a_retried_run_keeps_what_is_done_and_repeats_the_rest(lab: Lab) -> Result<()> {
    lab.fail("second", 1..=1, Failure::permanent("no"));
    let gate = Arc::new(Gate::default());
    gate.open.notify_one();
    let engine = launch(&lab, &gate).await?;
    let mut run = engine.start(gated::workflow(), ()).await?;
    assert_eq!((&mut run).await.unwrap_err().code(), "run_failed");
    assert_eq!(run.status().await?.task("last").unwrap().state, TaskState::Skipped);
    lab.forgive();
    run.retry().await?;
    assert_eq!((&mut run).await?, 3);
    assert_eq!(lab.attempts("first"), 1, "completed work is kept");
    let status = run.status().await?;
    assert_eq!((status.state, status.generation), (RunState::Completed, 2));
    assert_eq!(run.retry().await.unwrap_err().code(), "not_retryable");
    Ok(())
}

#[windlass::test]
async fn a_fork_copies_what_its_task_depends_on_and_leaves_the_original_alone(lab: Lab) -> Result<()> {
    let gate = Arc::new(Gate::default());
    gate.open.notify_one();
    let engine = launch(&lab, &gate).await?;
    let mut run = engine.start(gated::workflow(), ()).await?;
    assert_eq!((&mut run).await?, 3);
    let fork = run.fork_from("second").await?;
    assert_ne!(fork.id(), run.id());
    assert_eq!(fork.await?, 3);
    assert_eq!((lab.attempts("first"), lab.attempts("second")), (1, 2));
    let error = run.fork_from("secnod").await.unwrap_err();
    assert!(error.to_string().contains("did you mean `second`"), "{error}");
    Ok(())
}

#[windlass::test]
async fn orders_to_an_ended_or_unknown_run_are_clear_errors(lab: Lab) -> Result<()> {
    let gate = Arc::new(Gate::default());
    gate.open.notify_one();
    let engine = launch(&lab, &gate).await?;
    let mut run = engine.start(gated::workflow(), ()).await?;
    (&mut run).await?;
    assert_eq!(run.pause().await.unwrap_err().code(), "already_ended");
    let unknown = engine.run(&gated::workflow(), windlass::RunId::new());
    assert_eq!(unknown.pause().await.unwrap_err().code(), "unknown_run");
    assert_eq!(unknown.cancel("x").await.unwrap_err().code(), "unknown_run");
    assert_eq!(unknown.await.unwrap_err().code(), "unknown_run");
    Ok(())
}

#[windlass::test]
async fn cancel_against_complete_gives_exactly_one_end(lab: Lab) -> Result<()> {
    for _ in 0..50 {
        let gate = Arc::new(Gate::default());
        let engine = launch(&lab, &gate).await?;
        let mut run = engine.start(gated::workflow(), ()).await?;
        gate.entered.notified().await;
        gate.open.notify_one();
        let (answer, ended) = tokio::join!(run.cancel("race"), engine.run(&gated::workflow(), run.id()));
        let state = run.status().await?.state;
        match answer? {
            Cancelled::AlreadyEnded(state) => assert_eq!(state, RunState::Completed),
            Cancelled::Requested | Cancelled::Blocked => {
                assert!(matches!(state, RunState::Cancelled | RunState::Completed))
            }
        }
        assert_eq!(ended.is_ok(), state == RunState::Completed);
        assert_eq!((&mut run).await.is_ok(), ended.is_ok());
        engine.stop().await?;
    }
    Ok(())
}

#[workflow]
mod easy {
    use super::*;

    #[task]
    pub async fn only() -> Result<u32> {
        Ok(1)
    }
}

/// More than one portion of them.
const MANY: usize = 250;

#[windlass::test]
async fn many_runs_are_paused_resumed_cancelled_and_retried_by_a_filter(lab: Lab) -> Result<()> {
    let engine = lab.engine().workflow(easy::workflow()).launch().await?;
    let hour = Duration::from_secs(3600);
    let all = ["paused", "cancelled"];
    for tag in all {
        engine.start_many(easy::workflow(), vec![(); MANY]).delay(hour).tag(tag).await?;
    }
    engine.start_many(easy::workflow(), vec![(); 10]).delay(hour).tag("other").await?;
    let [paused, cancelled] = all.map(|tag| move |engine: &Engine| engine.runs().workflow("easy").tag(tag));
    let whole = |bulk: windlass::Bulk| assert_eq!((bulk.done, bulk.passed_over), (MANY, 0));
    let count = async |runs: windlass::Runs| runs.limit(1000).list().await.map(|runs| runs.len());

    whole(paused(&engine).pause_all().await?);
    whole(cancelled(&engine).cancel_all("clean-up").await?);
    lab.advance(hour * 2).await;
    assert_eq!(count(paused(&engine).state(RunState::Paused)).await?, MANY);
    assert_eq!(count(cancelled(&engine).state(RunState::Cancelled)).await?, MANY);
    assert_eq!(count(engine.runs().completed()).await?, 10, "the others went on");

    assert_eq!(paused(&engine).retry_all().await?.done, 0, "none of them has ended");
    assert_eq!(cancelled(&engine).resume_all().await?.done, 0, "all of them have ended");
    whole(paused(&engine).resume_all().await?);
    whole(cancelled(&engine).retry_all().await?);
    lab.advance(Duration::from_secs(1)).await;
    assert_eq!(count(engine.runs().completed()).await?, MANY * 2 + 10);
    assert_eq!(engine.runs().cancel_all("nothing to do").await?.done, 0);
    assert_eq!(engine.runs().retry_all().await?.done, 0);
    Ok(())
}

/// What a watcher sees, up to the end.
async fn states(mut watch: windlass::Watch) -> windlass::Result<Vec<RunState>, windlass::Error> {
    let mut states = Vec::new();
    while let Some(update) = watch.next().await {
        match update? {
            windlass::Update::State(state) | windlass::Update::Ended { state, .. } => states.push(state),
            _ => {}
        }
    }
    Ok(states)
}

#[windlass::test]
async fn every_state_that_a_watcher_sees_may_follow_the_one_before(lab: Lab) -> Result<()> {
    let gate = Arc::new(Gate::default());
    let engine = launch(&lab, &gate).await?;
    let mut run = engine.start(gated::workflow(), ()).delay(Duration::from_secs(60)).await?;
    let first = tokio::spawn(states(run.watch()));
    lab.advance(Duration::from_secs(1)).await;
    run.pause().await?;
    // It is paused when its time has come.
    lab.advance(Duration::from_secs(120)).await;
    run.resume().await?;
    lab.advance(Duration::from_secs(1)).await;
    gate.entered.notified().await;
    run.cancel("once").await?;
    lab.advance(Duration::from_secs(60)).await;
    let first = first.await.expect("nothing panics")?;
    run.retry().await?;
    let second = tokio::spawn(states(run.watch()));
    gate.open.notify_one();
    assert_eq!((&mut run).await?, 3);
    let second = second.await.expect("nothing panics")?;
    for state in [RunState::Pending, RunState::Paused, RunState::Running, RunState::Cancelled] {
        assert!(first.contains(&state), "{state} was not seen: {first:?}");
    }
    assert_eq!(second.last(), Some(&RunState::Completed));
    let mut before = RunState::Pending;
    for (number, after) in first.iter().chain(&second).enumerate() {
        let is_retried = number == first.len();
        assert!(
            before.leads_to(*after, |step| !step.is_retry() || is_retried),
            "{before} does not lead to {after}: {first:?}, then {second:?}"
        );
        before = *after;
    }
    Ok(())
}
