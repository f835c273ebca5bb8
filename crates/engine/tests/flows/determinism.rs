//! Code that changes, and code that does not do the same twice.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use windlass::{Failure, Flow, ForeignWaits, Res, Result, RunState, testing::Lab};

use crate::{
    common::{Fut, Tally, function},
    logs::Ear,
};

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

async fn step(cx: &Flow, tally: &Tally, name: &'static str) -> Result<()> {
    cx.step(name, || async {
        tally.add(name);
        Ok::<_, Failure>(())
    })
    .await
}

fn before<'a>(cx: &'a Flow, (): (), tally: Res<Tally>) -> Fut<'a, ()> {
    Box::pin(async move {
        step(cx, &tally, "a").await?;
        step(cx, &tally, "b").await?;
        cx.sleep(secs(3600)).await?;
        step(cx, &tally, "c").await
    })
}

fn renamed<'a>(cx: &'a Flow, (): (), tally: Res<Tally>) -> Fut<'a, ()> {
    Box::pin(async move {
        step(cx, &tally, "a").await?;
        step(cx, &tally, "bee").await?;
        cx.sleep(secs(3600)).await?;
        step(cx, &tally, "c").await
    })
}

fn patched<'a>(cx: &'a Flow, (): (), tally: Res<Tally>) -> Fut<'a, ()> {
    Box::pin(async move {
        step(cx, &tally, "a").await?;
        if cx.patch("check") {
            step(cx, &tally, "check").await?;
        }
        step(cx, &tally, "b").await?;
        cx.sleep(secs(3600)).await?;
        step(cx, &tally, "c").await
    })
}

fn inserted<'a>(cx: &'a Flow, (): (), tally: Res<Tally>) -> Fut<'a, ()> {
    Box::pin(async move {
        step(cx, &tally, "a").await?;
        step(cx, &tally, "check").await?;
        step(cx, &tally, "b").await?;
        cx.sleep(secs(3600)).await?;
        step(cx, &tally, "c").await
    })
}

async fn parked_under_old_code(lab: &Lab, tally: &Tally) -> Result<windlass::RunId> {
    let flow = || function("changing", before);
    let engine = lab.engine().resource(tally.clone()).workflow(flow()).launch().await?;
    let run = engine.start(flow(), ()).await?;
    lab.advance(secs(60)).await;
    assert_eq!(run.status().await?.state, RunState::Suspended);
    engine.stop().await?;
    Ok(run.id())
}

#[windlass::test]
async fn a_renamed_step_blocks_the_run_with_both_sides_named_before_anything_runs(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let id = parked_under_old_code(&lab, &tally).await?;
    let flow = || function("changing", renamed);
    let engine = lab.engine().resource(tally.clone()).workflow(flow()).launch().await?;
    lab.advance(secs(4000)).await;
    let status = engine.run(&flow(), id).status().await?;
    assert_eq!(status.state, RunState::Blocked);
    let why = status.wait.and_then(|wait| wait.reason).unwrap_or_default();
    assert_eq!(why, "`b` is recorded as a step, but the code does not call it after `a`");
    assert_eq!(tally.all(), ["a", "b"]);
    engine.stop().await?;
    // It goes on by itself under code that agrees.
    let flow = || function("changing", before);
    let engine = lab.engine().resource(tally.clone()).workflow(flow()).launch().await?;
    engine.run(&flow(), id).await?;
    assert_eq!(tally.all(), ["a", "b", "c"]);
    Ok(())
}

#[windlass::test]
async fn a_step_that_is_inserted_before_recorded_ones_blocks_the_run_unless_it_is_a_patch(
    lab: Lab,
) -> Result<()> {
    let tally = Tally::default();
    let id = parked_under_old_code(&lab, &tally).await?;
    let flow = || function("changing", inserted);
    let engine = lab.engine().resource(tally.clone()).workflow(flow()).launch().await?;
    lab.advance(secs(4000)).await;
    assert_eq!(engine.run(&flow(), id).status().await?.state, RunState::Blocked);
    engine.stop().await?;
    let flow = || function("changing", patched);
    let engine = lab.engine().resource(tally.clone()).workflow(flow()).launch().await?;
    engine.run(&flow(), id).await?;
    assert_eq!(tally.all(), ["a", "b", "c"]);
    engine.start(flow(), ()).await?.await?;
    assert_eq!(tally.of("check"), 1);
    Ok(())
}

fn joined<'a>(cx: &'a Flow, (): (), tally: Res<Tally>) -> Fut<'a, (u64, u64)> {
    async fn fetch(cx: &Flow, tally: &Tally, after: u64) -> Result<u64> {
        cx.sleep(secs(after)).await?;
        // The same name in both branches: which is the first depends on which sleep ends first.
        cx.step("fetch", || async {
            tally.add("fetch");
            Ok::<_, Failure>(after)
        })
        .await
    }
    Box::pin(async move {
        let pair = tokio::try_join!(fetch(cx, &tally, 20), fetch(cx, &tally, 10))?;
        cx.sleep(secs(3600)).await?;
        Ok(pair)
    })
}

#[windlass::test]
async fn joined_branches_that_call_the_same_step_keep_their_results_when_they_are_run_again(
    lab: Lab,
) -> Result<()> {
    let tally = Tally::default();
    let flow = || function("joined", joined);
    let engine = lab.engine().resource(tally.clone()).workflow(flow()).launch().await?;
    assert_eq!(engine.start(flow(), ()).await?.await?, (20, 10));
    assert_eq!(tally.of("fetch"), 2);
    Ok(())
}

static TIMES: AtomicU32 = AtomicU32::new(0);

fn fickle<'a>(cx: &'a Flow, (): (), tally: Res<Tally>) -> Fut<'a, ()> {
    Box::pin(async move {
        let name = if TIMES.fetch_add(1, Ordering::Relaxed) == 0 { "heads" } else { "tails" };
        step(cx, &tally, name).await?;
        step(cx, &tally, "end").await
    })
}

#[windlass::test]
async fn a_laboratory_finds_code_that_does_not_do_the_same_when_it_is_run_again(lab: Lab) -> Result<()> {
    let flow = || function("fickle", fickle);
    let engine = lab.engine().resource(Tally::default()).workflow(flow()).launch().await?;
    let error = engine.start(flow(), ()).await?.await.unwrap_err().to_string();
    assert!(error.contains("does not do the same when it is run again"), "{error}");
    assert!(error.contains("`heads` is recorded as a step"), "{error}");
    Ok(())
}

fn foreign<'a>(cx: &'a Flow, (): (), tally: Res<Tally>) -> Fut<'a, ()> {
    Box::pin(async move {
        step(cx, &tally, "first").await?;
        tokio::time::sleep(secs(5)).await;
        step(cx, &tally, "second").await
    })
}

#[windlass::test]
async fn a_wait_for_something_that_is_not_recorded_fails_in_a_laboratory_and_names_the_step_before(
    lab: Lab,
) -> Result<()> {
    let flow = || function("foreign", foreign);
    let engine = lab.engine().resource(Tally::default()).workflow(flow()).launch().await?;
    let error = engine.start(flow(), ()).await?.await.unwrap_err().to_string();
    assert!(error.contains("waits after `first` for something that is not recorded"), "{error}");
    let other = lab.engine().resource(Tally::default()).workflow(flow());
    let other = other.foreign_waits(ForeignWaits::Warn).launch().await?;
    engine.stop().await?;
    other.start(flow(), ()).await?.await?;
    Ok(())
}

/// Waits for something that is not recorded, in this way, after a step.
fn strays<'a>(cx: &'a Flow, how: String, tally: Res<Tally>) -> Fut<'a, ()> {
    Box::pin(async move {
        step(cx, &tally, "first").await?;
        let later = || async {
            tokio::time::sleep(secs(1)).await;
        };
        match &*how {
            "a timer" => later().await,
            "a race" => tokio::select! {
                () = later() => {}
                // Far enough off to be second, and too near to be parked for.
                ended = cx.sleep(secs(2)) => ended?,
            },
            "a task" => tokio::spawn(later()).await.expect("it does not panic"),
            "a channel" => {
                let (sender, word) = tokio::sync::oneshot::channel();
                tokio::spawn(async move {
                    later().await;
                    sender.send(()).ok();
                });
                word.await.expect("the word is sent");
            }
            how => unreachable!("{how}"),
        }
        cx.sleep(secs(60)).await?;
        step(cx, &tally, "second").await
    })
}

const WAYS: [&str; 4] = ["a timer", "a race", "a task", "a channel"];

#[windlass::test]
async fn every_wait_for_something_that_is_not_recorded_is_an_error_in_a_laboratory(lab: Lab) -> Result<()> {
    let flow = || function("strays", strays);
    let tally = Tally::default();
    let engine = lab.engine().resource(tally.clone()).workflow(flow()).park_after(secs(3)).launch().await?;
    for how in WAYS {
        let error = engine.start(flow(), how.to_owned()).await?.await.unwrap_err().to_string();
        assert!(error.contains("waits after `first` for something that is not recorded"), "{how}: {error}");
    }
    assert_eq!((tally.of("first"), tally.of("second")), (WAYS.len(), 0));
    Ok(())
}

#[windlass::test]
async fn every_wait_for_something_that_is_not_recorded_is_one_warning_outside_and_is_never_parked(
    lab: Lab,
) -> Result<()> {
    let flow = || function("strays", strays);
    for how in WAYS {
        let ear = Ear::default();
        let _ear = tracing::subscriber::set_default(ear.clone());
        let engine =
            lab.engine().resource(Tally::default()).workflow(flow()).foreign_waits(ForeignWaits::Warn);
        let engine = engine.park_after(secs(3)).launch().await?;
        let mut run = engine.start(flow(), how.to_owned()).await?;
        let ended = &mut run;
        tokio::pin!(ended);
        let mut states = Vec::new();
        let result = loop {
            tokio::select! {
                biased;
                ended = &mut ended => break ended,
                () = lab.advance(Duration::from_millis(500)) => {
                    let found = engine.runs().list().await?;
                    states.push(found[0].standing.state());
                }
            }
        };
        result?;
        assert!(
            states.len() > 100 && states.iter().all(|state| *state == RunState::Running),
            "{how}: {states:?}"
        );
        assert_eq!(ear.times("waits after `first` for something that is not recorded"), 1, "{how}");
        engine.stop().await?;
    }
    Ok(())
}
