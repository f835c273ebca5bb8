//! New code under old runs.

use std::{sync::Arc, time::Duration};

use windlass::{RunState, TaskCx, Workflow, prelude::*, testing::Lab};

/// A graph of tasks that pass time and return nothing, by name and dependencies.
fn graph(tasks: &[(&str, &[&str])]) -> Workflow {
    let tasks = tasks.iter().map(|(name, after)| {
        let body = |_: TaskCx| async {
            tokio::time::sleep(Duration::from_secs(10)).await;
            Ok::<_, Failure>(())
        };
        Task::new(*name, body).after(after.iter().copied())
    });
    Workflow::builder("graph").tasks(tasks).build().expect("the graph is sound")
}

/// Starts a run, lets its first task be recorded, and crashes.
async fn interrupted(lab: &Lab, workflow: Workflow) -> Result<windlass::RunId> {
    let engine = lab.engine().workflow(workflow.clone()).launch().await?;
    let id = engine.start(workflow, serde_json::Value::Null).await?.id();
    lab.advance(Duration::from_secs(15)).await;
    lab.crash(&engine);
    Ok(id)
}

#[windlass::test]
async fn a_run_goes_on_under_code_that_still_has_what_is_recorded(lab: Lab) -> Result<()> {
    let id = interrupted(&lab, graph(&[("a", &[]), ("b", &["a"])])).await?;
    let new = graph(&[("a", &[]), ("b", &["a"]), ("c", &["b"])]);
    let engine = lab.engine().workflow(new.clone()).launch().await?;
    engine.run(&new, id).await?;
    assert_eq!((lab.attempts("a"), lab.attempts("c")), (1, 1));
    Ok(())
}

#[windlass::test]
async fn a_run_that_went_on_under_changed_code_is_read_and_forked_by_what_it_follows_now(
    lab: Lab,
) -> Result<()> {
    let old = graph(&[("a", &[]), ("b", &["a"])]);
    let id = interrupted(&lab, old.clone()).await?;
    let new = graph(&[("a", &[]), ("b", &["a"]), ("c", &["b"])]);
    let engine = lab.engine().workflow(new.clone()).launch().await?;
    let mut watch = engine.run(&new, id).watch();
    engine.run(&new, id).await?;
    let (from, to) = (Arc::<str>::from(old.version()), Arc::<str>::from(new.version()));
    // A process that does not hold it, and one that does not even have the newer code.
    let older = lab.engine().workflow(old.clone()).launch().await?;
    for engine in [&engine, &older] {
        let status = engine.run(&new, id).status().await?;
        assert_eq!(status.task("c").unwrap().state, windlass::TaskState::Completed);
        assert_eq!(&*status.definition.unwrap().version, new.version());
        let [seen] = &status.versions[..] else { panic!("it changed once: {:?}", status.versions) };
        assert_eq!((&seen.from, &seen.to), (&from, &to));
        assert!(status.calls.is_empty(), "a change is no call: {:?}", status.calls);
    }
    let mut heard = Vec::new();
    while let Some(update) = watch.next().await {
        if let windlass::Update::Version(change) = update? {
            heard.push((change.from, change.to));
        }
    }
    assert_eq!(heard, [(from, to)]);
    older.stop().await?;
    let before = lab.attempts("b");
    let fork = engine.run(&new, id).fork_from("c").await?;
    fork.await?;
    assert_eq!((lab.attempts("b"), lab.attempts("c")), (before, 2));
    Ok(())
}

/// Waits until the run has gone on under changed code so many times.
async fn changed(lab: &Lab, run: &windlass::Run<serde_json::Value>, times: usize) -> Result<()> {
    while run.status().await?.versions.len() < times {
        lab.advance(Duration::from_secs(1)).await;
    }
    Ok(())
}

#[windlass::test]
async fn a_run_goes_on_from_changed_code_to_changed_code_and_back_if_it_can(lab: Lab) -> Result<()> {
    let old = graph(&[("a", &[]), ("b", &["a"])]);
    let id = interrupted(&lab, old.clone()).await?;
    let new = graph(&[("a", &[]), ("b", &["a"]), ("c", &["b"])]);
    let engine = lab.engine().workflow(new.clone()).launch().await?;
    changed(&lab, &engine.run(&new, id), 1).await?;
    lab.crash(&engine);
    // Nothing is recorded yet that the old code would not have.
    let engine = lab.engine().workflow(old.clone()).launch().await?;
    changed(&lab, &engine.run(&old, id), 2).await?;
    lab.crash(&engine);
    let engine = lab.engine().workflow(new.clone()).launch().await?;
    engine.run(&new, id).await?;
    let versions = engine.run(&new, id).status().await?.versions;
    let to: Vec<&str> = versions.iter().map(|change| &*change.to).collect();
    assert_eq!(to, [new.version(), old.version(), new.version()]);
    Ok(())
}

#[windlass::test]
async fn a_run_of_which_nothing_was_recorded_is_read_by_the_code_that_went_on_with_it(
    lab: Lab,
) -> Result<()> {
    let old = graph(&[("a", &[])]);
    let engine = lab.engine().workflow(old.clone()).launch().await?;
    let id = engine.start(old, serde_json::Value::Null).await?.id();
    lab.advance(Duration::from_secs(5)).await;
    lab.crash(&engine);
    let new = graph(&[("z", &[])]);
    let engine = lab.engine().workflow(new.clone()).launch().await?;
    engine.run(&new, id).await?;
    let status = engine.run(&new, id).status().await?;
    assert_eq!(status.task("z").unwrap().state, windlass::TaskState::Completed);
    Ok(())
}

#[windlass::test]
async fn a_run_whose_recorded_task_is_gone_is_blocked_and_unblocks_by_itself(lab: Lab) -> Result<()> {
    let old = graph(&[("a", &[]), ("b", &["a"])]);
    let id = interrupted(&lab, old.clone()).await?;
    let new = graph(&[("x", &[]), ("b", &["x"])]);
    let engine = lab.engine().workflow(new.clone()).launch().await?;
    lab.advance(Duration::from_secs(60)).await;
    let status = engine.run(&new, id).status().await?;
    assert_eq!(status.state, RunState::Blocked);
    let reason = status.wait.unwrap().reason.unwrap();
    assert!(reason.contains("`a` is recorded"), "{reason}");
    engine.stop().await?;
    let engine = lab.engine().workflow(old.clone()).launch().await?;
    engine.run(&old, id).await?;
    assert_eq!(lab.attempts("a"), 1);
    Ok(())
}

#[windlass::test]
async fn a_run_that_a_newer_process_cannot_continue_goes_on_in_an_older_one_that_is_still_there(
    lab: Lab,
) -> Result<()> {
    let old = graph(&[("a", &[]), ("b", &["a"])]);
    let first = lab.engine().workflow(old.clone()).launch().await?;
    // The second process of the old version has room for one run, and is busy with it.
    let second = lab.engine().workflow(old.clone()).max_runs(1).launch().await?;
    let busy = second.start(old.clone(), serde_json::Value::Null).await?;
    let id = first.start(old.clone(), serde_json::Value::Null).await?.id();
    lab.advance(Duration::from_secs(12)).await;
    let new = graph(&[("x", &[]), ("b", &["x"])]);
    let newer = lab.engine().workflow(new.clone()).launch().await?;
    lab.crash(&first);
    lab.advance(Duration::from_secs(1)).await;
    let state = newer.run(&new, id).status().await?.state;
    assert_eq!(state, RunState::Blocked, "the newer process took it, and cannot continue it");
    busy.await?;
    second.run(&old, id).await?;
    assert_eq!(lab.attempts("a"), 2, "once for each of the two runs");
    Ok(())
}

#[windlass::test]
async fn a_run_whose_recorded_task_waits_for_other_tasks_now_is_blocked(lab: Lab) -> Result<()> {
    let old = graph(&[("a", &[]), ("z", &[]), ("b", &["a"])]);
    let engine = lab.engine().workflow(old.clone()).launch().await?;
    let id = engine.start(old, serde_json::Value::Null).await?.id();
    lab.advance(Duration::from_secs(15)).await;
    lab.crash(&engine);
    let new = graph(&[("z", &[]), ("a", &["z"]), ("b", &["a"])]);
    let engine = lab.engine().workflow(new.clone()).launch().await?;
    lab.advance(Duration::from_secs(60)).await;
    let run = engine.run(&new, id);
    let status = run.status().await?;
    assert_eq!(status.state, RunState::Blocked);
    assert!(status.wait.unwrap().reason.unwrap().contains("dependencies"));
    run.terminate("nobody needs it").await?;
    assert_eq!(run.await.unwrap_err().code(), "run_cancelled");
    Ok(())
}

#[windlass::test]
async fn a_time_limit_ends_a_blocked_run(lab: Lab) -> Result<()> {
    let old = graph(&[("a", &[]), ("b", &["a"])]);
    let engine = lab.engine().workflow(old.clone()).launch().await?;
    let id = engine.start(old, serde_json::Value::Null).timeout(Duration::from_secs(600)).await?.id();
    lab.advance(Duration::from_secs(15)).await;
    lab.crash(&engine);
    let new = graph(&[("x", &[])]);
    let engine = lab.engine().workflow(new.clone()).launch().await?;
    assert_eq!(engine.run(&new, id).await.unwrap_err().code(), "run_timed_out");
    Ok(())
}

/// Books something that can be undone, starts a run, and waits.
fn booking(undo: bool) -> Workflow {
    let book = Task::new("book", |_: TaskCx| async { Ok::<_, Failure>(()) });
    let book = if undo { book.undo(|_: TaskCx| async { Ok::<_, Failure>(()) }) } else { book };
    let call = |cx: TaskCx| async move { cx.run(graph_of_one(), serde_json::Value::Null).await };
    Workflow::builder("booking").task(book).task(Task::new("call", call)).build().expect("it is sound")
}

/// What it starts.
fn graph_of_one() -> Workflow {
    let body = |cx: TaskCx| async move { cx.sleep(Duration::from_secs(86_400)).await };
    Workflow::builder("child").task(Task::new("sleep", body)).build().expect("it is sound")
}

/// Another workflow of that name, which has nothing of what is recorded.
fn stranger() -> Workflow {
    let body = |_: TaskCx| async { Ok::<_, Failure>(()) };
    Workflow::builder("booking").task(Task::new("x", body)).build().expect("it is sound")
}

/// Has a run of the booking blocked, with its child under way. Answers what blocks it.
async fn blocked_booking(lab: &Lab, undo: bool) -> Result<(windlass::Engine, windlass::RunId)> {
    let old = booking(undo);
    let engine = lab.engine().workflow(old.clone()).workflow(graph_of_one()).launch().await?;
    let run = engine.start(old, serde_json::Value::Null).timeout(Duration::from_secs(600)).await?;
    let id = run.id();
    lab.advance(Duration::from_secs(60)).await;
    lab.crash(&engine);
    let engine = lab.engine().workflow(stranger()).workflow(graph_of_one()).launch().await?;
    while engine.run(&stranger(), id).status().await?.state != RunState::Blocked {
        // What happens to its child has it looked at.
        engine.run(&stranger(), id).pause().await?;
        engine.run(&stranger(), id).resume().await?;
        lab.advance(Duration::from_secs(1)).await;
    }
    Ok((engine, id))
}

async fn child_state(engine: &windlass::Engine) -> Result<RunState> {
    Ok(engine.runs().workflow("child").list().await?[0].standing.state())
}

#[windlass::test]
async fn a_blocked_run_that_times_out_is_undone_when_there_is_code_that_agrees(lab: Lab) -> Result<()> {
    let (engine, id) = blocked_booking(&lab, true).await?;
    lab.advance(Duration::from_secs(700)).await;
    let status = engine.run(&stranger(), id).status().await?;
    assert_eq!(status.state, RunState::Blocked, "its undo waits");
    assert!(matches!(status.verdict, Some(windlass::Verdict::TimedOut { .. })), "{:?}", status.verdict);
    let reason = status.wait.unwrap().reason.unwrap();
    assert!(reason.contains("is recorded") && reason.contains("undone"), "{reason}");
    assert_eq!(child_state(&engine).await?, RunState::Cancelled, "what it has started does not wait");
    engine.stop().await?;
    let old = booking(true);
    let engine = lab.engine().workflow(old.clone()).workflow(graph_of_one()).launch().await?;
    assert_eq!(engine.run(&old, id).await.unwrap_err().code(), "run_timed_out");
    lab.assert_undone("book");
    assert_eq!(lab.undos("book"), 1);
    Ok(())
}

#[windlass::test]
async fn a_blocked_run_that_is_cancelled_is_undone_when_there_is_code_that_agrees(lab: Lab) -> Result<()> {
    let (engine, id) = blocked_booking(&lab, true).await?;
    let answer = engine.run(&stranger(), id).cancel("enough").await?;
    assert_eq!(answer, windlass::Cancelled::Blocked);
    lab.advance(Duration::from_secs(10)).await;
    assert_eq!(engine.run(&stranger(), id).status().await?.state, RunState::Blocked);
    assert_eq!(child_state(&engine).await?, RunState::Cancelled);
    engine.stop().await?;
    // Its time is over too when somebody can undo it, and how it ends is settled.
    lab.advance(Duration::from_secs(700)).await;
    let old = booking(true);
    let engine = lab.engine().workflow(old.clone()).workflow(graph_of_one()).launch().await?;
    assert_eq!(engine.run(&old, id).await.unwrap_err().code(), "run_cancelled");
    assert_eq!(lab.undos("book"), 1);
    Ok(())
}

#[windlass::test]
async fn a_blocked_run_that_has_nothing_to_undo_ends_at_once_with_its_children(lab: Lab) -> Result<()> {
    for cancels in [true, false] {
        let (engine, id) = blocked_booking(&lab, false).await?;
        let run = engine.run(&stranger(), id);
        if cancels {
            run.cancel("enough").await?;
        }
        let code = run.await.unwrap_err().code();
        assert_eq!(code, if cancels { "run_cancelled" } else { "run_timed_out" });
        lab.advance(Duration::from_secs(10)).await;
        assert_eq!(child_state(&engine).await?, RunState::Cancelled);
        engine.stop().await?;
    }
    Ok(())
}

#[windlass::test]
async fn a_blocked_function_that_is_cancelled_takes_its_children_along_and_waits_for_its_code(
    lab: Lab,
) -> Result<()> {
    mod old {
        use super::*;

        #[flow]
        pub async fn errand(cx: &Flow) -> Result<()> {
            cx.step("charge", || async { Ok::<_, Failure>(()) })
                .undo(|()| async { Ok::<_, Failure>(()) })
                .await?;
            cx.run(graph_of_one(), serde_json::Value::Null).await?;
            Ok(())
        }
    }
    #[flow]
    async fn errand(cx: &Flow) -> Result<()> {
        cx.sleep(Duration::from_secs(1)).await
    }
    let engine = lab.engine().workflow(old::errand::workflow()).workflow(graph_of_one()).launch().await?;
    let id = engine.start(old::errand::workflow(), ()).await?.id();
    lab.advance(Duration::from_secs(60)).await;
    engine.stop().await?;
    let engine = lab.engine().workflow(errand::workflow()).workflow(graph_of_one()).launch().await?;
    let run = engine.run(&errand::workflow(), id);
    run.cancel("enough").await?;
    lab.advance(Duration::from_secs(10)).await;
    let status = run.status().await?;
    assert_eq!(status.state, RunState::Blocked);
    assert!(status.wait.unwrap().reason.unwrap().contains("undone when"));
    assert_eq!(child_state(&engine).await?, RunState::Cancelled);
    assert_eq!(run.cancel("enough").await?, windlass::Cancelled::Blocked);
    engine.stop().await?;
    let engine = lab.engine().workflow(old::errand::workflow()).workflow(graph_of_one()).launch().await?;
    let run = engine.run(&old::errand::workflow(), id);
    assert_eq!(run.await.unwrap_err().code(), "run_cancelled");
    assert_eq!(lab.undos("charge"), 1);
    Ok(())
}

#[windlass::test]
async fn a_blocked_run_that_is_terminated_takes_its_children_along(lab: Lab) -> Result<()> {
    let (engine, id) = blocked_booking(&lab, true).await?;
    engine.run(&stranger(), id).terminate("enough").await?;
    assert_eq!(engine.run(&stranger(), id).await.unwrap_err().code(), "run_cancelled");
    lab.advance(Duration::from_secs(10)).await;
    assert_eq!(child_state(&engine).await?, RunState::Cancelled);
    assert_eq!(lab.undos("book"), 0);
    Ok(())
}

#[windlass::test]
async fn a_step_that_kills_its_process_again_and_again_is_abandoned_and_its_neighbour_is_not(
    lab: Lab,
) -> Result<()> {
    #[workflow]
    mod deadly {
        use super::*;

        #[task(retry(on = never))]
        pub async fn act(input: bool, lethal: Res<Arc<tokio::sync::Notify>>) -> Result<u32> {
            if input {
                lethal.notify_one();
            }
            tokio::time::sleep(Duration::from_secs(3600)).await;
            Ok(1)
        }
    }
    let lethal = Arc::new(tokio::sync::Notify::new());
    let launch =
        || lab.engine().max_recoveries(2).resource(Arc::clone(&lethal)).workflow(deadly::workflow()).launch();
    let engine = launch().await?;
    let poison = engine.start(deadly::workflow(), true).await?.id();
    let neighbour = engine.start(deadly::workflow(), false).await?.id();
    let mut engine = engine;
    let mut deaths = 0;
    loop {
        tokio::select! {
            () = lethal.notified() => {}
            error = engine.run(&deadly::workflow(), poison) => {
                assert_eq!(error.unwrap_err().code(), "run_abandoned");
                break;
            }
        }
        deaths += 1;
        lab.crash(&engine);
        engine = launch().await?;
    }
    assert_eq!(deaths, 4, "one before starts are recorded, and one more than two in a row after");
    let status = engine.run(&deadly::workflow(), poison).status().await?;
    assert_eq!(status.task("act").unwrap().state, windlass::TaskState::Abandoned);
    // The neighbour died along with it, and is not the one to blame for it.
    assert_eq!(engine.run(&deadly::workflow(), neighbour).await?, 1);
    Ok(())
}
