//! Tasks that sleep.

use windlass::{CallKind, RunState, TaskState, prelude::*, testing::Lab};

use crate::{Tally, hours, secs};

#[workflow]
mod nap {
    use super::*;

    #[task]
    pub async fn work(input: u64, cx: &Cx, tally: Res<Tally>) -> Result<u64> {
        tally.add("before");
        // What comes before the sleep takes its time too, and the sleep begins after it.
        tokio::time::sleep(secs(input)).await;
        cx.sleep(hours(1)).await?;
        tally.add("between");
        cx.sleep(hours(1)).await?;
        tally.add("after");
        Ok(input)
    }
}

#[windlass::test]
async fn a_sleep_lasts_as_long_as_it_says_and_its_run_is_parked(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let engine = lab.engine().resource(tally.clone()).workflow(nap::workflow()).launch().await?;
    let begun = lab.now();
    let run = engine.start(nap::workflow(), 600).await?;
    lab.advance(secs(1000)).await;
    let status = run.status().await?;
    assert_eq!(status.state, RunState::Suspended);
    let sleep = status.call("work/sleep").expect("it is recorded when the sleep ends");
    assert_eq!((sleep.kind, sleep.state), (CallKind::Sleep, TaskState::Ready));
    assert_eq!(sleep.retry_at.expect("it says when").since(begun).as_secs(), 4200);
    assert_eq!(run.await?, 600);
    // Before each sleep the body works, again and again from its top: 600 s the first time, 600 s after each sleep.
    assert_eq!(lab.now().since(begun).as_secs(), 600 + 3600 + 600 + 3600 + 600);
    assert_eq!((tally.of("before"), tally.of("between"), tally.of("after")), (3, 2, 1));
    Ok(())
}

#[windlass::test]
async fn a_short_sleep_stays_in_memory_and_frees_its_slot(lab: Lab) -> Result<()> {
    #[workflow]
    mod brief {
        use super::*;

        #[task]
        pub async fn wait(input: u64, cx: &Cx, tally: Res<Tally>) -> Result<()> {
            tally.add("begun");
            cx.sleep(std::time::Duration::from_millis(input)).await
        }
    }
    let tally = Tally::default();
    let engine = lab.engine().queue("default", 1).resource(tally.clone()).workflow(brief::workflow());
    let engine = engine.launch().await?;
    let begun = lab.now();
    let waiting = engine.start(brief::workflow(), 1500).await?;
    lab.advance(std::time::Duration::from_millis(100)).await;
    engine.start(brief::workflow(), 1).await?.await?;
    assert!(lab.now().since(begun).as_millis() < 500, "the only slot is free meanwhile");
    waiting.await?;
    assert_eq!(lab.now().since(begun).as_millis(), 1500);
    assert_eq!(tally.of("begun"), 2, "no body began again");
    Ok(())
}

#[windlass::test]
async fn a_sleep_is_not_longer_after_a_crash_and_not_slept_again(lab: Lab) -> Result<()> {
    let boundaries = lab
        .crash_everywhere(|builder| async {
            let tally = Tally::default();
            let engine = builder.resource(tally.clone()).workflow(nap::workflow()).launch().await?;
            let run = engine.start(nap::workflow(), 0).key("one").await?;
            let id = run.id();
            assert_eq!(run.await?, 0);
            let status = engine.run(&nap::workflow(), id).status().await?;
            let took = status.ended_at.expect("it has ended").since(status.created_at);
            assert_eq!(took.as_secs(), 7200, "{took:?}");
            engine.stop().await?;
            Ok::<_, Failure>(())
        })
        .await?;
    assert!(boundaries >= 14, "{boundaries}");
    Ok(())
}

#[windlass::test]
async fn an_attempt_that_follows_a_failure_does_not_sleep_again(lab: Lab) -> Result<()> {
    #[workflow]
    mod stumble {
        use super::*;

        #[task(retry(attempts = 3, delay = "1s", backoff = fixed, jitter = 0.0))]
        pub async fn work(input: u64, cx: &Cx, tally: Res<Tally>) -> Result<u32> {
            cx.sleep(secs(input)).await?;
            tally.add("awake");
            if cx.attempt() < 3 { Err("not yet".into()) } else { Ok(cx.attempt()) }
        }
    }
    for span in [1, 3600] {
        let tally = Tally::default();
        let engine = lab.engine().resource(tally.clone()).workflow(stumble::workflow()).launch().await?;
        let begun = lab.now();
        assert_eq!(engine.start(stumble::workflow(), span).await?.await?, 3);
        assert_eq!(lab.now().since(begun).as_secs(), span + 2);
        assert_eq!(tally.of("awake"), 3);
        engine.stop().await?;
    }
    Ok(())
}

#[windlass::test]
async fn the_time_limit_of_an_attempt_does_not_count_its_sleep_and_the_deadline_does(lab: Lab) -> Result<()> {
    #[workflow]
    mod limits {
        use super::*;

        #[task(timeout = "10s")]
        pub async fn patient(cx: &Cx) -> Result<()> {
            cx.sleep(hours(5)).await?;
            tokio::time::sleep(secs(9)).await;
            cx.sleep(std::time::Duration::from_millis(1900)).await?;
            Ok(())
        }

        #[task(deadline = "1h", allow_failure, after = [patient])]
        pub async fn late(cx: &Cx) -> Result<()> {
            cx.event(Event::<()>::new("never")).await
        }

        #[task(when = always)]
        pub async fn end(late: Outcome<()>) -> Result<String> {
            Ok(format!("{late:?}"))
        }
    }
    let engine = lab.engine().workflow(limits::workflow()).launch().await?;
    let begun = lab.now();
    let run = engine.start(limits::workflow(), ()).await?;
    let outcome = run.await?;
    assert!(outcome.contains("deadline"), "{outcome}");
    let took = lab.now().since(begun).as_secs();
    assert!((hours(6).as_secs()..hours(6).as_secs() + 15).contains(&took), "{took}");
    Ok(())
}

#[windlass::test]
async fn the_elements_of_a_for_each_sleep_side_by_side(lab: Lab) -> Result<()> {
    #[workflow(output = rest)]
    mod many {
        use super::*;

        #[task]
        pub async fn list() -> Result<Vec<u64>> {
            Ok((1..=6).collect())
        }

        #[task(for_each = list)]
        pub async fn rest(item: u64, cx: &Cx) -> Result<u64> {
            cx.sleep(secs(item * 60)).await?;
            Ok(item * 2)
        }
    }
    let boundaries = lab
        .crash_everywhere(|builder| async {
            let engine = builder.queue("default", 2).workflow(many::workflow()).launch().await?;
            let run = engine.start(many::workflow(), ()).key("one").await?;
            let id = run.id();
            assert_eq!(run.await?, (1..=6).map(|n| n * 2).collect::<Vec<u64>>());
            let status = engine.run(&many::workflow(), id).status().await?;
            let took = status.ended_at.expect("it has ended").since(status.created_at);
            assert_eq!(took.as_secs(), 360);
            assert_eq!(status.task("rest").expect("it is there").attempts.len(), 6);
            engine.stop().await?;
            Ok::<_, Failure>(())
        })
        .await?;
    assert!(boundaries >= 30, "{boundaries}");
    Ok(())
}

#[windlass::test]
async fn a_task_of_the_same_run_goes_on_while_another_sleeps(lab: Lab) -> Result<()> {
    #[workflow(output = both)]
    mod pair {
        use super::*;

        #[task]
        pub async fn asleep(cx: &Cx, tally: Res<Tally>) -> Result<u32> {
            tally.add("asleep");
            cx.sleep(hours(1)).await?;
            Ok(1)
        }

        #[task]
        pub async fn awake(tally: Res<Tally>) -> Result<u32> {
            tokio::time::sleep(hours(2)).await;
            tally.add("awake");
            Ok(2)
        }

        #[task]
        pub async fn both(asleep: u32, awake: u32) -> Result<u32> {
            Ok(asleep + awake)
        }
    }
    let tally = Tally::default();
    let engine = lab.engine().resource(tally.clone()).workflow(pair::workflow()).launch().await?;
    let begun = lab.now();
    let run = engine.start(pair::workflow(), ()).await?;
    lab.advance(secs(1800)).await;
    assert_eq!(run.status().await?.state, RunState::Running, "something of it executes");
    assert_eq!(run.await?, 3);
    assert_eq!(lab.now().since(begun).as_secs(), 7200);
    assert_eq!((tally.of("asleep"), tally.of("awake")), (1, 1), "nothing began again");
    Ok(())
}

#[windlass::test]
async fn a_sleep_until_a_time_ends_at_that_time(lab: Lab) -> Result<()> {
    #[workflow]
    mod alarm {
        use super::*;

        #[task]
        pub async fn wait(input: windlass::Time, cx: &Cx) -> Result<()> {
            cx.sleep_until(input).await
        }
    }
    let engine = lab.engine().workflow(alarm::workflow()).launch().await?;
    let at = lab.now() + hours(30);
    engine.start(alarm::workflow(), at).await?.await?;
    assert_eq!(lab.now().since(at).as_secs(), 0);
    let before = lab.now();
    engine.start(alarm::workflow(), at).await?.await?;
    assert_eq!(lab.now().since(before).as_secs(), 0, "a time that has passed is not waited for");
    Ok(())
}
