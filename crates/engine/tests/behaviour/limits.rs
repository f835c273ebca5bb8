//! Timeouts, deadlines, beats, panics, payloads.

use std::time::Duration;

use windlass::{FailureKind, TaskState, Verdict, prelude::*, testing::Lab};

#[workflow]
mod slow {
    use super::*;

    #[task(timeout = "10s", retry(attempts = 2, delay = "1s", jitter = 0.0))]
    pub async fn sleepy(input: u64) -> Result<u64> {
        tokio::time::sleep(Duration::from_secs(input)).await;
        Ok(input)
    }
}

async fn outcome<I, O>(
    lab: &Lab,
    workflow: Workflow<I, O>,
    input: I,
) -> Result<(windlass::Error, windlass::RunStatus)>
where
    I: serde::Serialize + Send + Sync + 'static,
    O: serde::de::DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    let engine = lab.engine().workflow(workflow.clone()).launch().await?;
    let mut run = engine.start(workflow, input).await?;
    let error = (&mut run).await.unwrap_err();
    Ok((error, run.status().await?))
}

#[windlass::test]
async fn an_attempt_that_takes_too_long_is_dropped_and_counts(lab: Lab) -> Result<()> {
    let begun = lab.now();
    let (error, status) = outcome(&lab, slow::workflow(), 3600).await?;
    assert_eq!(error.code(), "run_failed");
    let attempts = &status.task("sleepy").unwrap().attempts;
    assert_eq!(attempts.len(), 2);
    assert!(attempts.iter().all(|attempt| attempt.failure.as_ref().unwrap().kind == FailureKind::TimedOut));
    let took = lab.now().since(begun);
    assert!(took >= Duration::from_secs(21) && took < Duration::from_secs(23), "{took:?}");
    Ok(())
}

#[windlass::test]
async fn an_attempt_within_its_timeout_is_left_alone(lab: Lab) -> Result<()> {
    let engine = lab.engine().workflow(slow::workflow()).launch().await?;
    assert_eq!(engine.start(slow::workflow(), 9).await?.await?, 9);
    Ok(())
}

#[windlass::test]
async fn a_deadline_bounds_a_task_with_all_its_retries(lab: Lab) -> Result<()> {
    #[workflow]
    mod bounded {
        use super::*;

        #[task(deadline = "10s", retry(attempts = 100, delay = "4s", backoff = fixed, jitter = 0.0))]
        pub async fn again() -> Result<()> {
            Err("not yet".into())
        }
    }
    let (_, status) = outcome(&lab, bounded::workflow(), ()).await?;
    assert_eq!(status.task("again").unwrap().attempts.len(), 3, "at 0 s, 4 s and 8 s");
    Ok(())
}

#[windlass::test]
async fn a_deadline_is_measured_across_restarts(lab: Lab) -> Result<()> {
    #[workflow]
    mod bounded {
        use super::*;

        #[task(deadline = "10s")]
        pub async fn wait() -> Result<()> {
            std::future::pending().await
        }
    }
    let begun = lab.now();
    let engine = lab.engine().workflow(bounded::workflow()).launch().await?;
    let id = engine.start(bounded::workflow(), ()).await?.id();
    lab.advance(Duration::from_secs(6)).await;
    lab.crash(&engine);
    let engine = lab.engine().workflow(bounded::workflow()).launch().await?;
    let error = engine.run(&bounded::workflow(), id).await.unwrap_err();
    assert!(error.to_string().contains("deadline"), "{error}");
    let took = lab.now().since(begun);
    assert!(took < Duration::from_secs(11), "{took:?}");
    Ok(())
}

#[windlass::test]
async fn a_run_that_takes_too_long_fails_with_what_was_unfinished(lab: Lab) -> Result<()> {
    let engine = lab.engine().workflow(slow::workflow()).launch().await?;
    let run = engine.start(slow::workflow(), 9).timeout(Duration::from_secs(5)).await?;
    let windlass::Error::Run(error) = run.await.unwrap_err() else { panic!("a run error") };
    assert_eq!(
        error.verdict,
        Verdict::TimedOut { after: Duration::from_secs(5), unfinished: vec!["sleepy".into()] }
    );
    Ok(())
}

#[windlass::test]
async fn a_time_limit_wakes_a_parked_and_a_paused_run(lab: Lab) -> Result<()> {
    lab.fail("sleepy", .., Failure::retry_after("later", Duration::from_secs(3600)));
    let engine = lab.engine().workflow(slow::workflow()).launch().await?;
    let parked = engine.start(slow::workflow(), 1).timeout(Duration::from_secs(60)).await?;
    let paused = engine.start(slow::workflow(), 1).timeout(Duration::from_secs(60)).await?;
    paused.pause().await?;
    lab.advance(Duration::from_secs(30)).await;
    assert_eq!(paused.status().await?.state, windlass::RunState::Paused);
    assert_eq!(parked.await.unwrap_err().code(), "run_timed_out");
    assert_eq!(paused.await.unwrap_err().code(), "run_timed_out");
    Ok(())
}

#[windlass::test]
async fn an_attempt_that_goes_quiet_fails(lab: Lab) -> Result<()> {
    #[workflow]
    mod quiet {
        use super::*;

        #[task(beat_timeout = "5s", retry(on = never))]
        pub async fn work(cx: &Cx) -> Result<()> {
            for done in 0..10 {
                cx.beat(f64::from(done) / 10.0);
                tokio::time::sleep(Duration::from_secs(4)).await;
            }
            tokio::time::sleep(Duration::from_secs(60)).await;
            Ok(())
        }
    }
    let begun = lab.now();
    let (_, status) = outcome(&lab, quiet::workflow(), ()).await?;
    let failure = status.task("work").unwrap().failure.clone().unwrap();
    assert_eq!(failure.kind, FailureKind::BeatLost);
    let took = lab.now().since(begun);
    assert!(took >= Duration::from_secs(41) && took < Duration::from_secs(43), "{took:?}");
    Ok(())
}

#[windlass::test]
async fn a_panic_is_a_failed_attempt_and_never_a_lost_engine(lab: Lab) -> Result<()> {
    #[workflow]
    mod panics {
        use super::*;

        #[task(retry(attempts = 2, delay = "1s"))]
        pub async fn boom(input: bool) -> Result<u32> {
            assert!(!input, "the sky fell");
            Ok(1)
        }
    }
    let engine = lab.engine().workflow(panics::workflow()).launch().await?;
    let mut run = engine.start(panics::workflow(), true).await?;
    let error = (&mut run).await.unwrap_err();
    assert!(error.to_string().contains("the sky fell"), "{error}");
    let status = run.status().await?;
    let attempts = &status.task("boom").unwrap().attempts;
    assert_eq!(attempts.len(), 2, "panics count as attempts");
    assert_eq!(attempts[0].failure.as_ref().unwrap().kind, FailureKind::Panic);
    assert_eq!(engine.start(panics::workflow(), false).await?.await?, 1);
    Ok(())
}

#[windlass::test]
async fn a_payload_over_the_limit_names_itself_and_the_way_out(lab: Lab) -> Result<()> {
    #[workflow]
    mod large {
        use super::*;

        #[task]
        pub async fn blow(input: String) -> Result<String> {
            Ok(input.repeat(1000))
        }
    }
    let engine = lab.engine().payload_limit(2000).workflow(large::workflow()).launch().await?;
    let error = engine.start(large::workflow(), "x".repeat(3000)).await.unwrap_err();
    assert_eq!(error.code(), "payload_too_large");
    assert!(
        error.to_string().contains("the input") && error.to_string().contains("payload_limit"),
        "{error}"
    );
    let mut run = engine.start(large::workflow(), "four".to_owned()).await?;
    let error = (&mut run).await.unwrap_err();
    assert!(error.to_string().contains("the result of `blow`"), "{error}");
    let status = run.status().await?;
    assert_eq!(status.task("blow").unwrap().state, TaskState::Failed);
    assert_eq!(status.task("blow").unwrap().attempts.len(), 1, "trying again would not help");
    Ok(())
}

#[windlass::test]
async fn a_nan_is_refused_with_the_name_of_its_field(lab: Lab) -> Result<()> {
    #[workflow]
    mod readings {
        use super::*;

        #[derive(serde::Serialize, serde::Deserialize)]
        pub struct Reading {
            celsius: f64,
        }

        #[task(retry(on = never))]
        pub async fn read() -> Result<Reading> {
            Ok(Reading { celsius: f64::NAN })
        }
    }
    let engine = lab.engine().workflow(readings::workflow()).launch().await?;
    let run = engine.start(readings::workflow(), ()).await?;
    let Err(error) = run.await else { panic!("it must fail") };
    assert!(error.to_string().contains("celsius"), "{error}");
    Ok(())
}

#[windlass::test]
async fn json_that_does_not_fit_the_type_is_a_failure_that_names_it(lab: Lab) -> Result<()> {
    let engine = lab.engine().workflow(slow::workflow()).launch().await?;
    let run = engine.start_by_name("slow", serde_json::json!("not a number")).await?;
    let error = run.await.unwrap_err();
    assert!(error.to_string().contains("u64"), "{error}");
    assert_eq!(lab.attempts("sleepy"), 1, "trying again would not help");
    Ok(())
}

#[windlass::test]
async fn waiting_for_a_slot_is_not_an_attempts_own_time(lab: Lab) -> Result<()> {
    #[workflow]
    mod brief {
        use super::*;

        #[task(timeout = "5s")]
        pub async fn work() -> Result<()> {
            tokio::time::sleep(Duration::from_secs(4)).await;
            Ok(())
        }
    }
    let engine = lab.engine().slots(1).workflow(brief::workflow()).launch().await?;
    let runs = [engine.start(brief::workflow(), ()).await?, engine.start(brief::workflow(), ()).await?];
    for run in runs {
        run.await?;
    }
    assert_eq!(lab.attempts("work"), 2, "neither was tried again");
    Ok(())
}
