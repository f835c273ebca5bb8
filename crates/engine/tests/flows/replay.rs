//! What is recorded is not done again.

use std::time::Duration;

use windlass::{Engine, Event, Failure, Flow, Res, Result, Retry, RunState, testing::Lab};

use crate::common::{Fut, Tally, function};

const APPROVED: Event<String> = Event::new("approved");

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn order<'a>(cx: &'a Flow, amount: u32, tally: Res<Tally>) -> Fut<'a, String> {
    Box::pin(async move {
        let charge = cx
            .step("charge", || async {
                tally.add("charge");
                Ok::<_, Failure>(amount * 2)
            })
            .await?;
        let (label, invoice) = tokio::try_join!(
            cx.step("label", || async {
                tally.add("label");
                Ok::<_, Failure>("L".to_owned())
            }),
            cx.step("invoice", || async {
                tally.add("invoice");
                Ok::<_, Failure>(format!("I{charge}"))
            }),
        )?;
        let who = match cx.event(APPROVED).timeout(secs(48 * 3600)).await? {
            Some(who) => who,
            None => return Err(Failure::permanent("nobody approved it")),
        };
        cx.sleep(secs(14 * 86_400)).await?;
        let shipped = cx
            .step("ship", || async {
                tally.add("ship");
                Ok::<_, Failure>(who.len())
            })
            .await?;
        Ok(format!("{label} {invoice} {who} {shipped}"))
    })
}

#[windlass::test]
async fn a_function_runs_to_its_end_and_does_each_step_once(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let flow = || function("order", order);
    let engine = lab.engine().resource(tally.clone()).workflow(flow()).launch().await?;
    let run = engine.start(flow(), 21).await?;
    lab.advance(secs(60)).await;
    assert_eq!(run.status().await?.state, RunState::Suspended);
    run.send(APPROVED, &"Ada".to_owned()).await?;
    lab.advance(secs(60)).await;
    assert_eq!(run.status().await?.state, RunState::Suspended);
    assert_eq!(run.await?, "L I42 Ada 3");
    assert!(
        ["charge", "label", "invoice", "ship"].iter().all(|step| tally.of(step) == 1),
        "{:?}",
        tally.all()
    );
    Ok(())
}

#[windlass::test]
async fn an_event_that_comes_before_the_wait_is_kept(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let flow = || function("order", order);
    let engine = lab.engine().resource(tally.clone()).workflow(flow()).launch().await?;
    let run = engine.start(flow(), 21).await?;
    run.send(APPROVED, &"Ada".to_owned()).await?;
    assert_eq!(run.await?, "L I42 Ada 3");
    Ok(())
}

#[windlass::test]
async fn an_event_that_does_not_come_is_an_outcome(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let flow = || function("order", order);
    let engine = lab.engine().resource(tally.clone()).workflow(flow()).launch().await?;
    let begun = lab.now();
    let run = engine.start(flow(), 21).await?;
    let error = run.await.unwrap_err().to_string();
    assert!(error.contains("nobody approved it"), "{error}");
    assert!(lab.now().since(begun) >= secs(48 * 3600));
    Ok(())
}

#[windlass::test]
async fn a_function_is_crashed_everywhere_and_repeats_nothing_that_is_recorded(lab: Lab) -> Result<()> {
    let boundaries = lab
        .crash_everywhere(|builder| async {
            let tally = Tally::default();
            let engine = builder.resource(tally.clone()).workflow(function("order", order)).launch().await?;
            let run = engine.start(function("order", order), 21).key("one").await?;
            // A repeat of this program finds the run further on, or at its end.
            let sent = run.send(APPROVED, &"Ada".to_owned()).key("once").await;
            assert!(sent.is_ok() || sent.unwrap_err().code() == "already_ended");
            assert_eq!(run.await?, "L I42 Ada 3");
            assert!(tally.all().iter().all(|step| tally.of(step) == 1), "{:?}", tally.all());
            engine.stop().await?;
            Ok::<_, Failure>(())
        })
        .await?;
    assert!(boundaries >= 12, "{boundaries}");
    Ok(())
}

fn flaky<'a>(cx: &'a Flow, failures: u32, tally: Res<Tally>) -> Fut<'a, u32> {
    Box::pin(async move {
        let tally = &tally;
        cx.step("try", move |s: windlass::Cx| async move {
            tally.add("try");
            if s.attempt() <= failures { Err(Failure::new("not yet")) } else { Ok(s.attempt()) }
        })
        .retry(Retry::attempts(5))
        .await
    })
}

#[windlass::test]
async fn a_step_is_tried_again_by_its_policy(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let flow = || function("flaky", flaky);
    let engine = lab.engine().resource(tally.clone()).workflow(flow()).launch().await?;
    assert_eq!(engine.start(flow(), 3).await?.await?, 4);
    assert!(engine.start(flow(), 9).await?.await.unwrap_err().to_string().contains("not yet"));
    assert_eq!(tally.of("try"), 9);
    Ok(())
}

fn saga<'a>(cx: &'a Flow, fail: bool, tally: Res<Tally>) -> Fut<'a, ()> {
    Box::pin(async move {
        for name in ["flight", "hotel", "car"] {
            let (doing, undoing) = (Tally::clone(&tally), Tally::clone(&tally));
            cx.step(name, || async {
                doing.add(name);
                Ok::<_, Failure>(name.to_owned())
            })
            .undo(move |booked: String| async move {
                undoing.add(format!("undo {booked}"));
                Ok::<_, Failure>(())
            })
            .await?;
        }
        if fail {
            return Err(Failure::permanent("no seats"));
        }
        cx.sleep(secs(86_400)).await
    })
}

#[windlass::test]
async fn a_failed_function_is_undone_newest_first(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let flow = || function("saga", saga);
    let engine = lab.engine().resource(tally.clone()).workflow(flow()).launch().await?;
    let run = engine.start(flow(), true).await?;
    assert!(run.await.unwrap_err().to_string().contains("no seats"));
    assert_eq!(tally.all(), ["flight", "hotel", "car", "undo car", "undo hotel", "undo flight"]);
    Ok(())
}

#[windlass::test]
async fn a_cancelled_function_that_is_parked_is_undone(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let flow = || function("saga", saga);
    let engine = lab.engine().resource(tally.clone()).workflow(flow()).launch().await?;
    let run = engine.start(flow(), false).await?;
    lab.advance(secs(60)).await;
    assert_eq!(run.status().await?.state, RunState::Suspended);
    run.cancel("changed my mind").await?;
    assert!(run.await.unwrap_err().to_string().contains("changed my mind"));
    assert_eq!(tally.all(), ["flight", "hotel", "car", "undo car", "undo hotel", "undo flight"]);
    Ok(())
}

#[windlass::test]
async fn a_function_whose_run_times_out_is_undone(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let flow = || function("saga", saga);
    let engine = lab.engine().resource(tally.clone()).workflow(flow()).launch().await?;
    let run = engine.start(flow(), false).timeout(secs(3600)).await?;
    assert_eq!(run.await.unwrap_err().code(), "run_timed_out");
    assert_eq!(tally.all(), ["flight", "hotel", "car", "undo car", "undo hotel", "undo flight"]);
    Ok(())
}

#[windlass::test]
async fn a_saga_is_crashed_everywhere_and_no_recorded_undo_runs_again(lab: Lab) -> Result<()> {
    let boundaries = lab
        .crash_everywhere(|builder| async {
            let tally = Tally::default();
            let engine = builder.resource(tally.clone()).workflow(function("saga", saga)).launch().await?;
            let run = engine.start(function("saga", saga), true).key("one").await?;
            assert!(run.await.unwrap_err().to_string().contains("no seats"));
            assert!(tally.all().iter().all(|step| tally.of(step) == 1), "{:?}", tally.all());
            engine.stop().await?;
            Ok::<_, Failure>(())
        })
        .await?;
    assert!(boundaries >= 16, "{boundaries}");
    Ok(())
}

#[windlass::test]
async fn a_retried_function_does_again_what_was_undone(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let flow = || function("saga", saga);
    let engine = lab.engine().resource(tally.clone()).workflow(flow()).launch().await?;
    let mut run = engine.start(flow(), false).timeout(secs(3600)).await?;
    lab.advance(secs(4000)).await;
    assert_eq!(run.status().await?.state, RunState::Failed);
    run.retry().await?;
    lab.advance(secs(4000)).await;
    assert_eq!(tally.of("flight"), 2);
    assert_eq!(tally.of("undo flight"), 2);
    Ok(())
}

fn paid<'a>(cx: &'a Flow, (): (), tally: Res<Tally>) -> Fut<'a, ()> {
    Box::pin(async move {
        let tally = &tally;
        cx.step("charge", |s: windlass::Cx| async move {
            tally.add(s.key());
            Ok::<_, Failure>(())
        })
        .undo(|()| async { Ok::<_, Failure>(()) })
        .await?;
        Err(Failure::permanent("no"))
    })
}

#[windlass::test]
async fn a_step_that_is_done_again_after_its_undo_has_another_key(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let flow = || function("paid", paid);
    let engine = lab.engine().resource(tally.clone()).workflow(flow()).launch().await?;
    let mut run = engine.start(flow(), ()).await?;
    let charge = format!("{}:charge", run.id());
    for _ in 0..2 {
        lab.advance(secs(1)).await;
        run.retry().await?;
    }
    lab.advance(secs(1)).await;
    // Under the key of a charge that was refunded a bank would answer with that charge.
    assert_eq!(tally.all(), [charge.clone(), format!("{charge}:2"), format!("{charge}:3")]);
    Ok(())
}

fn cleaned<'a>(cx: &'a Flow, (): (), tally: Res<Tally>) -> Fut<'a, ()> {
    Box::pin(async move {
        let tally = &tally;
        let charged = cx
            .step("charge", || async move {
                tally.add("charge");
                if tally.of("charge") == 1 { Err(Failure::permanent("no")) } else { Ok(()) }
            })
            .await;
        cx.step("clean", || async move {
            tally.add("clean");
            Ok::<_, Failure>(())
        })
        .await?;
        charged
    })
}

// Not in a laboratory, which would run the function from its top after the first step.
#[tokio::test]
async fn a_step_that_an_earlier_generation_completed_is_not_done_again_behind_a_new_one() -> Result<()> {
    let tally = Tally::default();
    let flow = || function("cleaned", cleaned);
    let engine = Engine::open("sqlite::memory:").resource(tally.clone()).workflow(flow()).launch().await?;
    let run = engine.start(flow(), ()).await?;
    let mut again = engine.client().run(&flow(), run.id());
    assert!(run.await.is_err());
    again.retry().await?;
    again.await?;
    assert_eq!((tally.of("charge"), tally.of("clean")), (2, 1));
    engine.stop().await?;
    Ok(())
}
