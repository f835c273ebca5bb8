//! The laboratory itself.

use std::time::Duration;

use windlass::{RunState, prelude::*, testing::Lab};

#[workflow(output = second)]
mod pair {
    use super::*;

    #[task]
    pub async fn first(input: u64) -> Result<u64> {
        Ok(input + 1)
    }

    #[task(retry(attempts = 4, delay = "1h", backoff = fixed))]
    pub async fn second(first: u64) -> Result<u64> {
        Ok(first * 2)
    }
}

#[windlass::test]
async fn a_task_that_fails_on_purpose_is_tried_again_tomorrow_in_no_time(lab: Lab) -> Result<()> {
    lab.fail("second", 1..=3, "the line is busy");
    let begun = lab.now();
    let engine = lab.engine().workflow(pair::workflow()).launch().await?;
    let run = engine.start(pair::workflow(), 1).await?;
    assert_eq!(run.await?, 4);
    assert_eq!(lab.attempts("second"), 4);
    assert!(lab.now().since(begun) > Duration::from_secs(2 * 3600));
    Ok(())
}

#[windlass::test]
async fn a_crashed_engine_is_taken_over_by_the_next(lab: Lab) -> Result<()> {
    lab.fail("second", 1..=1, "the line is busy");
    let first = lab.engine().workflow(pair::workflow()).launch().await?;
    let id = first.start(pair::workflow(), 1).await?.id();
    lab.advance(Duration::from_secs(1)).await;
    lab.crash(&first);
    let second = lab.engine().workflow(pair::workflow()).launch().await?;
    let run = second.run(&pair::workflow(), id);
    assert_eq!(run.await?, 4);
    assert_eq!(lab.attempts("first"), 1);
    Ok(())
}

#[windlass::test]
async fn a_program_survives_a_crash_at_every_boundary(lab: Lab) -> Result<()> {
    let boundaries = lab
        .crash_everywhere(|engine| async move {
            let engine = engine.workflow(pair::workflow()).launch().await?;
            let run = engine.start(pair::workflow(), 5).key("five").await?;
            assert_eq!(run.await?, 12);
            Ok::<_, Failure>(())
        })
        .await?;
    assert_eq!(boundaries, 6, "a start and two results are three commits");
    Ok(())
}

#[windlass::test]
async fn a_failed_run_says_which_step_and_why(lab: Lab) -> Result<()> {
    lab.fail("second", .., Failure::permanent("no such account"));
    let engine = lab.engine().workflow(pair::workflow()).launch().await?;
    let mut run = engine.start(pair::workflow(), 1).await?;
    let error = (&mut run).await.unwrap_err();
    assert_eq!(error.code(), "run_failed");
    assert!(error.to_string().contains("second: no such account"), "{error}");
    let status = run.status().await?;
    assert_eq!(status.state, RunState::Failed);
    assert_eq!(status.task("second").unwrap().attempts.len(), 1);
    Ok(())
}
