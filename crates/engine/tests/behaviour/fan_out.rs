//! One instance per element.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use windlass::{Outcome, TaskState, prelude::*, testing::Lab};

#[derive(Default)]
struct Crowd {
    inside: AtomicUsize,
    most: AtomicUsize,
}

#[workflow(output = total)]
mod squares {
    use super::*;

    #[task]
    pub async fn numbers(input: u32) -> Result<Vec<u32>> {
        Ok((0..input).collect())
    }

    #[task(for_each = numbers, limit = 3, retry(attempts = 2, delay = "1s"))]
    pub async fn square(item: &u32, crowd: Res<Arc<Crowd>>) -> Result<u32> {
        let inside = crowd.inside.fetch_add(1, Ordering::SeqCst) + 1;
        crowd.most.fetch_max(inside, Ordering::SeqCst);
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        crowd.inside.fetch_sub(1, Ordering::SeqCst);
        Ok(item * item)
    }

    #[task]
    pub async fn total(square: &[u32]) -> Result<u32> {
        Ok(square.iter().sum())
    }
}

async fn launch(lab: &Lab, crowd: &Arc<Crowd>) -> Result<Engine> {
    Ok(lab.engine().resource(Arc::clone(crowd)).workflow(squares::workflow()).launch().await?)
}

#[windlass::test]
async fn every_element_gets_its_instance_and_the_results_keep_their_order(lab: Lab) -> Result<()> {
    let crowd = Arc::new(Crowd::default());
    let engine = launch(&lab, &crowd).await?;
    let mut run = engine.start(squares::workflow(), 10).await?;
    assert_eq!((&mut run).await?, 285);
    assert_eq!(crowd.most.load(Ordering::SeqCst), 3, "the limit is used, and holds");
    assert_eq!(run.result::<u32>("square[7]").await?, Some(49));
    assert_eq!(run.status().await?.task("square").unwrap().items, Some((10, 10)));
    Ok(())
}

#[windlass::test]
async fn no_elements_are_no_instances_and_an_empty_result(lab: Lab) -> Result<()> {
    let engine = launch(&lab, &Arc::default()).await?;
    assert_eq!(engine.start(squares::workflow(), 0).await?.await?, 0);
    Ok(())
}

#[windlass::test]
async fn a_failed_instance_is_retried_by_itself(lab: Lab) -> Result<()> {
    lab.fail("square[2]", 1..=1, "busy");
    let engine = launch(&lab, &Arc::default()).await?;
    assert_eq!(engine.start(squares::workflow(), 5).await?.await?, 30);
    assert_eq!(lab.attempts("square"), 6);
    assert_eq!(lab.attempts("square[2]"), 2);
    Ok(())
}

#[windlass::test]
async fn when_one_has_failed_the_others_finish_and_retry_runs_only_the_failed(lab: Lab) -> Result<()> {
    lab.fail("square[2]", .., Failure::permanent("no"));
    let engine = launch(&lab, &Arc::default()).await?;
    let mut run = engine.start(squares::workflow(), 5).await?;
    let error = (&mut run).await.unwrap_err();
    assert!(error.to_string().contains("square[2]: no"), "{error}");
    assert_eq!(run.status().await?.task("square").unwrap().items, Some((5, 5)));
    lab.forgive();
    run.retry().await?;
    assert_eq!(run.await?, 30);
    assert_eq!(lab.attempts("square"), 6);
    Ok(())
}

#[windlass::test]
async fn a_crash_in_the_middle_repeats_no_recorded_instance(lab: Lab) -> Result<()> {
    let boundaries = lab
        .crash_everywhere(|engine| async move {
            let engine =
                engine.resource(Arc::new(Crowd::default())).workflow(squares::workflow()).launch().await?;
            let run = engine.start(squares::workflow(), 4).key("four").await?;
            assert_eq!(run.await?, 14);
            Ok::<_, Failure>(())
        })
        .await?;
    assert!(boundaries >= 8, "{boundaries}");
    Ok(())
}

#[windlass::test]
async fn allowed_failures_are_handed_on_as_outcomes(lab: Lab) -> Result<()> {
    #[workflow(output = count)]
    mod tolerant {
        use super::*;

        #[task]
        pub async fn numbers() -> Result<Vec<u32>> {
            Ok(vec![1, 2, 3])
        }

        #[task(for_each = numbers, allow_failure, retry(on = never))]
        pub async fn check(item: &u32) -> Result<u32> {
            if *item == 2 { Err("two is odd".into()) } else { Ok(*item) }
        }

        #[task]
        pub async fn count(check: &[Outcome<u32>]) -> Result<(usize, Vec<String>)> {
            let failures =
                check.iter().filter_map(|outcome| outcome.failure().map(|f| f.message.to_string()));
            let failures: Vec<String> = failures.collect();
            Ok((check.len(), failures))
        }
    }
    let engine = lab.engine().workflow(tolerant::workflow()).launch().await?;
    let mut run = engine.start(tolerant::workflow(), ()).await?;
    assert_eq!((&mut run).await?, (3, vec!["two is odd".to_owned()]));
    assert_eq!(run.status().await?.task("check").unwrap().state, TaskState::Completed);
    Ok(())
}
