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
