//! Setting an engine up, and taking it down.

use std::{sync::Arc, time::Duration};

use windlass::{RunState, prelude::*, testing::Lab};

struct Database;

#[workflow]
mod needy {
    use super::*;

    #[task]
    pub async fn read(input: u32, _database: Res<Database>) -> Result<u32> {
        Ok(input)
    }
}

#[workflow]
mod patient {
    use super::*;

    #[task]
    pub async fn wait(input: u64) -> Result<u64> {
        tokio::time::sleep(Duration::from_secs(input)).await;
        Ok(input)
    }

    #[task]
    pub async fn after(wait: u64) -> Result<u64> {
        Ok(wait)
    }
}

#[windlass::test]
async fn every_problem_of_a_launch_is_listed_at_once(lab: Lab) {
    let error = lab
        .engine()
        .workflow(needy::workflow())
        .workflow(needy::workflow())
        .heartbeat(Duration::from_secs(20))
        .stale_after(Duration::from_secs(30))
        .queue("empty", 0)
        .var::<u16>("SURELY_NOT_SET")
        .launch()
        .await
        .unwrap_err()
        .to_string();
    for part in ["`needy` is registered 2 times", "Database", "`read`", "lease", "`empty`", "SURELY_NOT_SET"]
    {
        assert!(error.contains(part), "{part} is missing from:\n{error}");
    }
}

#[windlass::test]
async fn an_unknown_workflow_is_an_error_with_the_nearest_spelling(lab: Lab) -> Result<()> {
    let engine = lab.engine().workflow(patient::workflow()).launch().await?;
    let error = engine.start_by_name("patinet", serde_json::json!(1)).await.unwrap_err();
    assert_eq!(error.code(), "unknown_workflow");
    assert!(error.to_string().contains("did you mean `patient`"), "{error}");
    Ok(())
}

#[windlass::test]
async fn a_graceful_stop_lets_what_runs_finish_and_hands_over_the_rest(lab: Lab) -> Result<()> {
    let first = lab.engine().workflow(patient::workflow()).launch().await?;
    let id = first.start(patient::workflow(), 10).await?.id();
    lab.advance(Duration::from_secs(1)).await;
    first.stop().await?;
    first.stop().await?;
    let second = lab.engine().workflow(patient::workflow()).launch().await?;
    let run = second.run(&patient::workflow(), id);
    let status = run.status().await?;
    assert_eq!(status.recoveries, 0, "a hand-over is not a death");
    assert_eq!(run.await?, 10);
    assert_eq!((lab.attempts("wait"), lab.attempts("after")), (1, 1));
    Ok(())
}

#[windlass::test]
async fn what_does_not_finish_in_its_grace_is_stopped_and_does_not_count(lab: Lab) -> Result<()> {
    let first =
        lab.engine().stop_grace(Duration::from_secs(5)).workflow(patient::workflow()).launch().await?;
    let id = first.start(patient::workflow(), 3600).await?.id();
    lab.advance(Duration::from_secs(1)).await;
    let begun = lab.now();
    first.stop().await?;
    assert!(lab.now().since(begun) < Duration::from_secs(9));
    assert_eq!(first.start(patient::workflow(), 1).await.unwrap_err().code(), "stopped");
    let second = lab.engine().workflow(patient::workflow()).launch().await?;
    let run = second.run(&patient::workflow(), id);
    assert!(run.status().await?.task("wait").unwrap().attempts.is_empty());
    assert_eq!(run.await?, 3600);
    Ok(())
}

#[windlass::test]
async fn a_node_never_claims_more_than_it_has_room_for(lab: Lab) -> Result<()> {
    let small = lab.engine().max_runs(3).workflow(patient::workflow()).launch().await?;
    small.start_many(patient::workflow(), vec![60; 10]).await?;
    lab.advance(Duration::from_secs(1)).await;
    assert_eq!(small.runs().running().list().await?.len(), 3);
    assert_eq!(small.runs().pending().list().await?.len(), 7);
    let other = lab.engine().workflow(patient::workflow()).launch().await?;
    lab.advance(Duration::from_secs(1)).await;
    assert_eq!(other.runs().pending().list().await?.len(), 0, "another node takes the rest");
    Ok(())
}

#[windlass::test]
async fn a_queue_that_nobody_serves_keeps_its_runs(lab: Lab) -> Result<()> {
    let engine = lab.engine().workflow(patient::workflow()).launch().await?;
    let run = engine.start(patient::workflow(), 1).queue("mail").await?;
    lab.advance(Duration::from_secs(60)).await;
    assert_eq!(run.status().await?.state, RunState::Pending);
    let postman = lab.engine().queue("mail", 2).workflow(patient::workflow()).launch().await?;
    assert_eq!(postman.run(&patient::workflow(), run.id()).await?, 1);
    Ok(())
}

#[windlass::test]
async fn a_watcher_sees_every_step_and_the_end(lab: Lab) -> Result<()> {
    let engine = lab.engine().workflow(patient::workflow()).launch().await?;
    let run = engine.start(patient::workflow(), 5).await?;
    let mut watch = run.watch();
    let mut steps = Vec::new();
    loop {
        match watch.next().await.expect("the end comes last")? {
            windlass::Update::Step { name, .. } => steps.push(name),
            windlass::Update::Ended { state, .. } => {
                assert_eq!(state, RunState::Completed);
                break;
            }
            _ => {}
        }
    }
    assert_eq!(steps, [Arc::from("wait"), Arc::from("after")]);
    assert!(watch.next().await.is_none());
    Ok(())
}
