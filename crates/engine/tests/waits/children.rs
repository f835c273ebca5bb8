//! Tasks that start runs, and wait for them.

use windlass::{RunState, prelude::*, store::RunSummary, testing::Lab};

use crate::{Tally, hours, secs};

#[workflow]
mod child {
    use super::*;

    #[task(retry(attempts = 1))]
    pub async fn double(input: u32, cx: &Cx, tally: Res<Tally>) -> Result<u32> {
        cx.sleep(if input < 100 { secs(30) } else { hours(1) }).await?;
        tally.add("double");
        if input == 13 { Err("unlucky".into()) } else { Ok(input * 2) }
    }
}

#[workflow(output = sum)]
mod parent {
    use super::*;

    // Both tasks start a child of the same name.
    #[task]
    pub async fn left(input: u32, cx: &Cx) -> Result<u32> {
        cx.run(child::workflow(), input).await
    }

    #[task]
    pub async fn right(input: u32, cx: &Cx) -> Result<u32> {
        let doubled = cx.run(child::workflow(), input + 1).await?;
        Ok(doubled + cx.run(child::workflow(), input + 2).await?)
    }

    #[task]
    pub async fn sum(left: u32, right: u32) -> Result<u32> {
        Ok(left + right)
    }
}

#[windlass::test]
async fn children_run_once_and_their_results_come_back_wherever_it_is_crashed(lab: Lab) -> Result<()> {
    let boundaries = lab
        .crash_everywhere(|builder| async {
            let engine = builder.resource(Tally::default()).workflow(parent::workflow());
            let engine = engine.workflow(child::workflow()).launch().await?;
            let run = engine.start(parent::workflow(), 1).key("one").await?;
            assert_eq!(run.await?, 2 + 4 + 6);
            let children = engine.runs().workflow("child").list().await?;
            assert_eq!(children.len(), 3);
            engine.stop().await?;
            Ok::<_, Failure>(())
        })
        .await?;
    assert!(boundaries >= 30, "{boundaries}");
    Ok(())
}

#[windlass::test]
async fn a_child_that_fails_fails_its_task_and_says_why(lab: Lab) -> Result<()> {
    let engine = lab.engine().resource(Tally::default()).workflow(parent::workflow());
    let engine = engine.workflow(child::workflow()).launch().await?;
    let error = engine.start(parent::workflow(), 12).await?.await.unwrap_err().to_string();
    assert!(error.contains("right") && error.contains("failed: double: unlucky"), "{error}");
    Ok(())
}

fn states(page: Vec<RunSummary>) -> Vec<RunState> {
    let mut states: Vec<RunState> = page.iter().map(|run| run.standing.state()).collect();
    states.sort();
    states
}

#[windlass::test]
async fn cancelling_a_run_that_is_parked_cancels_its_children_wherever_it_is_crashed(lab: Lab) -> Result<()> {
    let boundaries = lab
        .crash_everywhere(|builder| async {
            let engine = builder.resource(Tally::default()).workflow(parent::workflow());
            let engine = engine.workflow(child::workflow()).launch().await?;
            let run = engine.start(parent::workflow(), 100).key("one").await?;
            tokio::time::sleep(secs(20)).await;
            run.cancel("no").await?;
            assert!(run.await.is_err_and(|error| error.to_string().contains("cancelled")));
            tokio::time::sleep(hours(2)).await;
            for state in states(engine.runs().workflow("child").list().await?) {
                assert_eq!(state, RunState::Cancelled);
            }
            engine.stop().await?;
            Ok::<_, Failure>(())
        })
        .await?;
    assert!(boundaries >= 20, "{boundaries}");
    Ok(())
}

#[windlass::test]
async fn terminating_a_run_cancels_its_children_wherever_it_is_crashed(lab: Lab) -> Result<()> {
    // It is held the first time, and parked the second.
    for after in [1, 20] {
        let boundaries = lab
            .crash_everywhere(|builder| async move {
                let engine = builder.resource(Tally::default()).workflow(parent::workflow());
                let engine = engine.workflow(child::workflow()).launch().await?;
                let run = engine.start(parent::workflow(), 100).key("one").await?;
                tokio::time::sleep(secs(after)).await;
                run.terminate("no").await?;
                assert!(run.await.is_err_and(|error| error.to_string().contains("cancelled")));
                tokio::time::sleep(secs(600)).await;
                for state in states(engine.runs().workflow("child").list().await?) {
                    assert_eq!(state, RunState::Cancelled);
                }
                engine.stop().await?;
                Ok::<_, Failure>(())
            })
            .await?;
        assert!(boundaries >= 8, "{boundaries}");
    }
    Ok(())
}

#[workflow]
mod guardian {
    use super::*;

    #[task]
    pub async fn watch(input: bool, cx: &Cx) -> Result<()> {
        let child = cx.run(child::workflow(), 1);
        let child = if input { child.leave() } else { child };
        windlass::select! {
            _ = child => Ok(()),
            slept = cx.sleep(secs(10)) => slept,
        }
    }
}

#[windlass::test]
async fn the_end_of_a_run_cancels_its_children_unless_they_are_to_be_left(lab: Lab) -> Result<()> {
    let engine = lab.engine().resource(Tally::default()).workflow(guardian::workflow());
    let engine = engine.workflow(child::workflow()).launch().await?;
    engine.start(guardian::workflow(), false).await?.await?;
    lab.advance(secs(60)).await;
    assert_eq!(states(engine.runs().workflow("child").list().await?), [RunState::Cancelled]);
    engine.start(guardian::workflow(), true).await?.await?;
    lab.advance(secs(60)).await;
    let all = states(engine.runs().workflow("child").list().await?);
    assert_eq!(all, [RunState::Completed, RunState::Cancelled]);
    Ok(())
}

#[windlass::test]
async fn an_attempt_that_follows_a_failure_waits_for_the_same_child(lab: Lab) -> Result<()> {
    #[workflow]
    mod stumble {
        use super::*;

        #[task(timeout = "5s", retry(attempts = 3, delay = "1s"))]
        pub async fn work(input: u32, cx: &Cx) -> Result<u32> {
            if cx.attempt() < 3 {
                // The child is under way when this attempt fails.
                let child = cx.run(child::workflow(), input);
                let trouble = async {
                    tokio::time::sleep(secs(1)).await;
                    Err::<u32, Failure>("trouble".into())
                };
                let (_, doubled) = tokio::try_join!(trouble, child)?;
                return Ok(doubled);
            }
            cx.run(child::workflow(), input).await
        }
    }
    let tally = Tally::default();
    let engine = lab.engine().resource(tally.clone()).workflow(stumble::workflow());
    let engine = engine.workflow(child::workflow()).launch().await?;
    assert_eq!(engine.start(stumble::workflow(), 4).await?.await?, 8);
    assert_eq!(tally.of("double"), 1);
    assert_eq!(engine.runs().workflow("child").list().await?.len(), 1);
    Ok(())
}
