//! Waits that hold no slot, and values that outlive an attempt.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use windlass::{RunState, prelude::*, testing::Lab};

#[derive(Default)]
struct Weather {
    asked: AtomicUsize,
}

#[workflow]
mod picnic {
    use super::*;

    #[task(timeout = "5s")]
    pub async fn go(cx: &Cx, weather: Res<Arc<Weather>>) -> Result<usize> {
        cx.defer_until(Duration::from_secs(600), || async {
            weather.asked.fetch_add(1, Ordering::SeqCst) >= 3
        })
        .await?;
        Ok(weather.asked.load(Ordering::SeqCst))
    }
}

#[windlass::test]
async fn a_deferred_task_parks_its_run_between_questions(lab: Lab) -> Result<()> {
    let weather = Arc::new(Weather::default());
    let engine = lab.engine().resource(Arc::clone(&weather)).workflow(picnic::workflow()).launch().await?;
    let begun = lab.now();
    let run = engine.start(picnic::workflow(), ()).await?;
    lab.advance(Duration::from_secs(60)).await;
    assert_eq!(run.status().await?.state, RunState::Suspended);
    assert_eq!(run.await?, 4);
    let took = lab.now().since(begun);
    assert!(took >= Duration::from_secs(1800) && took < Duration::from_secs(1810), "{took:?}");
    Ok(())
}

#[windlass::test]
async fn a_short_wait_stays_in_memory_and_frees_its_slot(lab: Lab) -> Result<()> {
    #[workflow]
    mod brief {
        use super::*;

        #[task]
        pub async fn wait(input: bool, cx: &Cx) -> Result<u32> {
            let mut asked = 0;
            cx.defer_until(Duration::from_secs(1), || {
                asked += 1;
                let over = !input || asked > 3;
                async move { over }
            })
            .await?;
            Ok(asked)
        }
    }
    let engine = lab.engine().queue("default", 1).workflow(brief::workflow()).launch().await?;
    let waiting = engine.start(brief::workflow(), true).await?;
    lab.advance(Duration::from_millis(100)).await;
    let begun = lab.now();
    assert_eq!(engine.start(brief::workflow(), false).await?.await?, 1, "the only slot is free meanwhile");
    assert!(lab.now().since(begun) < Duration::from_millis(500));
    assert_eq!(waiting.await?, 4, "its body did not begin again");
    Ok(())
}

#[windlass::test]
async fn what_an_attempt_saved_reaches_the_next_even_in_another_process(lab: Lab) -> Result<()> {
    #[workflow]
    mod cursor {
        use super::*;

        #[task(retry(attempts = 9, delay = "1h", backoff = fixed))]
        pub async fn count(cx: &Cx) -> Result<u32> {
            let at = cx.saved::<u32>()?.unwrap_or(0);
            cx.save(at + 1).await?;
            if at < 3 { Err("more".into()) } else { Ok(at) }
        }
    }
    let engine = lab.engine().workflow(cursor::workflow()).launch().await?;
    let id = engine.start(cursor::workflow(), ()).await?.id();
    lab.advance(Duration::from_secs(60)).await;
    lab.crash(&engine);
    let engine = lab.engine().workflow(cursor::workflow()).launch().await?;
    assert_eq!(engine.run(&cursor::workflow(), id).await?, 3);
    assert_eq!(lab.attempts("count"), 4);
    Ok(())
}

#[windlass::test]
async fn what_an_attempt_saved_reaches_the_next_in_the_same_process(lab: Lab) -> Result<()> {
    #[workflow]
    mod cursor {
        use super::*;

        #[task(retry(attempts = 9, delay = "1ms", backoff = fixed))]
        pub async fn count(cx: &Cx) -> Result<u32> {
            let at = cx.saved::<u32>()?.unwrap_or(0);
            cx.save(at + 1).await?;
            if at < 3 { Err("more".into()) } else { Ok(at) }
        }
    }
    let engine = lab.engine().workflow(cursor::workflow()).launch().await?;
    assert_eq!(engine.start(cursor::workflow(), ()).await?.await?, 3);
    Ok(())
}

#[windlass::test]
async fn a_delayed_run_begins_when_it_is_due_and_not_before(lab: Lab) -> Result<()> {
    let weather = Arc::new(Weather { asked: AtomicUsize::new(3) });
    let engine = lab.engine().resource(weather).workflow(picnic::workflow()).launch().await?;
    let begun = lab.now();
    let run = engine.start(picnic::workflow(), ()).delay(Duration::from_secs(14 * 24 * 3600)).await?;
    run.await?;
    let took = lab.now().since(begun);
    assert!(
        took >= Duration::from_secs(14 * 24 * 3600) && took < Duration::from_secs(14 * 24 * 3600 + 1),
        "{took:?}"
    );
    Ok(())
}

#[windlass::test]
async fn a_node_without_room_waits_for_room_and_not_for_what_is_due(lab: Lab) -> Result<()> {
    #[workflow]
    mod nap {
        use super::*;

        #[task]
        pub async fn sleep(input: u64) -> Result<()> {
            tokio::time::sleep(Duration::from_secs(input)).await;
            Ok(())
        }
    }
    let engine = lab.engine().max_runs(1).workflow(nap::workflow()).launch().await?;
    let long = engine.start(nap::workflow(), 3600).await?;
    let due = engine.start(nap::workflow(), 1).delay(Duration::from_secs(1)).await?;
    // Asking again and again would never let the time pass.
    lab.advance(Duration::from_secs(60)).await;
    assert_eq!(due.status().await?.state, windlass::RunState::Pending);
    long.await?;
    let ended = lab.now();
    due.await?;
    assert!(lab.now().since(ended) < Duration::from_secs(2), "the next one begins as soon as there is room");
    Ok(())
}

#[windlass::test]
async fn the_same_key_gives_the_same_run_and_another_input_is_an_error(lab: Lab) -> Result<()> {
    #[workflow]
    mod echo {
        use super::*;

        #[task]
        pub async fn say(input: u32) -> Result<u32> {
            Ok(input)
        }
    }
    let engine = lab.engine().workflow(echo::workflow()).launch().await?;
    let first = engine.start(echo::workflow(), 7).key("seven").await?;
    let id = first.id();
    assert_eq!(first.await?, 7);
    let again = engine.start(echo::workflow(), 7).key("seven").await?;
    assert_eq!(again.id(), id);
    assert_eq!(again.await?, 7);
    let error = engine.start(echo::workflow(), 8).key("seven").await.unwrap_err();
    assert_eq!(error.code(), "key_taken");
    assert!(error.to_string().contains("seven") && error.to_string().contains(&id.to_string()), "{error}");
    assert_eq!(engine.start(echo::workflow(), 8).key("seven").or_existing().await?.id(), id);
    assert_eq!(engine.run_by_key(&echo::workflow(), "seven").await?.unwrap().id(), id);
    assert_eq!(lab.attempts("say"), 1);
    Ok(())
}
