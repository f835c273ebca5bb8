//! Functions that are interfered with at the worst of times.

use std::time::Duration;

use windlass::{Cx, Engine, Event, Failure, Flow, Res, Result, Retry, RunState, testing::Lab};

use crate::common::{Fut, Tally, function};

const GO: Event<u32> = Event::new("go");

/// At how many points of a program something is done to it.
const TURNS: usize = 80;

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// A step that takes a second, can be undone, and notes both.
async fn work(cx: &Flow, tally: &Tally, name: &'static str, takes: Duration) -> Result<String> {
    let undoing = tally.clone();
    cx.step(name, move || async move {
        tally.add(name);
        if !takes.is_zero() {
            tokio::time::sleep(takes).await;
        }
        tally.add(format!("{name} done"));
        Ok::<_, Failure>(name.to_owned())
    })
    .undo(move |name: String| async move {
        undoing.add(format!("undo {name}"));
        Ok::<_, Failure>(())
    })
    .await
}

fn two_branches<'a>(cx: &'a Flow, (): (), tally: Res<Tally>) -> Fut<'a, ()> {
    Box::pin(async move {
        let quick = async {
            work(cx, &tally, "first", secs(1)).await?;
            work(cx, &tally, "second", secs(1)).await
        };
        tokio::try_join!(work(cx, &tally, "slow", secs(1000)), quick)?;
        Ok(())
    })
}

#[windlass::test]
async fn a_branch_goes_on_as_soon_as_the_run_is_resumed_though_another_was_at_work_all_along(
    lab: Lab,
) -> Result<()> {
    let tally = Tally::default();
    let flow = || function("branches", two_branches);
    let engine = lab.engine().resource(tally.clone()).workflow(flow()).launch().await?;
    let run = engine.start(flow(), ()).await?;
    lab.advance(Duration::from_millis(500)).await;
    run.pause().await?;
    lab.advance(secs(5)).await;
    assert_eq!((tally.of("first done"), tally.of("second")), (1, 0));
    run.resume().await?;
    lab.advance(secs(5)).await;
    assert_eq!(tally.of("second done"), 1);
    run.await?;
    assert_eq!(tally.of("slow"), 1);
    Ok(())
}

fn broken_pair<'a>(cx: &'a Flow, (): (), tally: Res<Tally>) -> Fut<'a, ()> {
    Box::pin(async move {
        let bad = cx.step("bad", || async { Err::<(), _>(Failure::permanent("no")) });
        let good = work(cx, &tally, "good", Duration::ZERO);
        tokio::try_join!(bad, good)?;
        Ok(())
    })
}

#[windlass::test]
async fn a_step_that_was_recorded_beside_a_failing_one_is_undone(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let flow = || function("pair", broken_pair);
    let engine = lab.engine().resource(tally.clone()).workflow(flow()).launch().await?;
    let run = engine.start(flow(), ()).await?;
    let id = run.id();
    assert!(run.await.is_err());
    assert_eq!(engine.run(&flow(), id).result::<String>("good").await?.as_deref(), Some("good"));
    assert_eq!(tally.of("undo good"), 1, "{:?}", tally.all());
    Ok(())
}

fn stubborn<'a>(cx: &'a Flow, (): (), tally: Res<Tally>) -> Fut<'a, ()> {
    Box::pin(async move {
        let (tally, undoing) = (&tally, Tally::clone(&tally));
        let step = cx.step("book", move || async move {
            tally.add("book");
            Ok::<_, Failure>(tally.of("book"))
        });
        let booked = step.undo_with(Retry::attempts(1), move |_: usize| async move {
            undoing.add("undo");
            if undoing.of("undo") == 1 { Err(Failure::new("not now")) } else { Ok(()) }
        });
        match booked.await? {
            1 => Err(Failure::permanent("sold out")),
            _ => Ok(()),
        }
    })
}

#[windlass::test]
async fn what_a_later_generation_undid_is_done_again_by_the_next(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let flow = || function("stubborn", stubborn);
    let engine = lab.engine().resource(tally.clone()).workflow(flow()).launch().await?;
    let mut run = engine.start(flow(), ()).await?;
    for undone in 1..=2 {
        lab.advance(secs(60)).await;
        assert_eq!(run.status().await?.state, RunState::Failed);
        // The first undo failed, so what was booked stands; the second one did not.
        assert_eq!((tally.of("book"), tally.of("undo")), (1, undone));
        run.retry().await?;
    }
    lab.advance(secs(60)).await;
    assert_eq!((run.status().await?.state, tally.of("book")), (RunState::Completed, 2));
    Ok(())
}

fn last_step<'a>(cx: &'a Flow, (): (), tally: Res<Tally>) -> Fut<'a, ()> {
    Box::pin(async move { work(cx, &tally, "charge", secs(1)).await.map(drop) })
}

#[windlass::test]
async fn a_cancelled_function_whose_last_step_still_ends_is_undone(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let flow = || function("last", last_step);
    let engine = lab.engine().resource(tally.clone()).workflow(flow()).launch().await?;
    let run = engine.start(flow(), ()).await?;
    lab.advance(Duration::from_millis(500)).await;
    run.cancel("no").await?;
    lab.advance(secs(60)).await;
    assert_eq!(run.status().await?.state, RunState::Cancelled);
    assert_eq!((tally.of("charge done"), tally.of("undo charge")), (1, 1), "{:?}", tally.all());
    Ok(())
}

fn child<'a>(cx: &'a Flow, (): (), tally: Res<Tally>) -> Fut<'a, ()> {
    Box::pin(async move {
        work(cx, &tally, "inner", Duration::from_millis(3)).await?;
        cx.sleep(Duration::from_millis(1)).await
    })
}

/// Something of everything.
fn everything<'a>(cx: &'a Flow, (): (), tally: Res<Tally>) -> Fut<'a, u32> {
    Box::pin(async move {
        let soon = Duration::from_millis(2);
        work(cx, &tally, "a", soon).await?;
        let (_, _, n) = tokio::try_join!(
            work(cx, &tally, "b", Duration::ZERO),
            work(cx, &tally, "c", soon),
            cx.event(GO),
        )?;
        cx.run(function("child", child), ()).await?;
        let won = windlass::select! {
            slept = cx.sleep(Duration::from_millis(1)) => { slept?; 1 }
            late = cx.event(GO) => late?,
        };
        work(cx, &tally, "d", soon).await?;
        Ok(n + won)
    })
}

async fn launch(lab: &Lab, tally: &Tally) -> Result<Engine> {
    let engine = lab.engine().resource(tally.clone()).workflow(function("everything", everything));
    Ok(engine.workflow(function("child", child)).launch().await?)
}

/// A run of everything that has been through a crash, so that each start is recorded too, and is now at some point of
/// its way.
async fn at_turn(lab: &Lab, tally: &Tally, turn: usize) -> Result<(Engine, windlass::Run<u32>)> {
    let first = launch(lab, tally).await?;
    let id = first.start(function("everything", everything), ()).await?.id();
    first.run(&function("everything", everything), id).send(GO, &7).await?;
    lab.crash(&first);
    let engine = launch(lab, tally).await?;
    let run = engine.run(&function("everything", everything), id);
    for _ in 0..turn {
        tokio::task::yield_now().await;
        if turn.is_multiple_of(2) {
            lab.advance(Duration::from_micros(300)).await;
        }
    }
    Ok((engine, run))
}

#[windlass::test]
async fn a_function_can_be_cancelled_at_any_point_and_undoes_just_what_it_did(_: Lab) -> Result<()> {
    let mut ends = (0, 0);
    for turn in 0..TURNS {
        let (lab, tally) = (Lab::new(), Tally::default());
        let (engine, run) = at_turn(&lab, &tally, turn).await?;
        run.cancel("no").await?;
        lab.advance(secs(60)).await;
        let status = run.status().await?;
        let is_over = status.state == RunState::Completed;
        assert!(is_over || status.state == RunState::Cancelled, "turn {turn}: {:?}", status.state);
        for step in ["a", "b", "c", "d"] {
            let recorded = run.result::<String>(step).await?.is_some();
            let undone = tally.of(&format!("undo {step}"));
            assert_eq!(undone, usize::from(recorded && !is_over), "turn {turn}, `{step}`: {:?}", tally.all());
        }
        let children = engine.runs().workflow("child").list().await?;
        assert!(children.iter().all(|run| run.standing.state().is_terminal()), "turn {turn}: {children:?}");
        if is_over {
            ends.0 += 1
        } else {
            ends.1 += 1
        }
        lab.crash(&engine);
    }
    assert!(ends.0 > 0 && ends.1 > 10, "{ends:?}");
    Ok(())
}

#[windlass::test]
async fn a_function_can_be_paused_at_any_point_and_goes_on_as_if_it_had_not_been(_: Lab) -> Result<()> {
    for turn in 0..TURNS {
        for pause in [0, 5, 1_000_000] {
            let (lab, tally) = (Lab::new(), Tally::default());
            let (engine, run) = at_turn(&lab, &tally, turn).await?;
            let paused = run.pause().await;
            lab.advance(Duration::from_micros(pause)).await;
            let resumed = run.resume().await;
            // It may have come to its end just before.
            let is_late = |order: &windlass::Error| order.code() == "already_ended";
            assert!(paused.as_ref().err().is_none_or(is_late), "{paused:?}");
            assert!(resumed.as_ref().err().is_none_or(is_late), "{resumed:?}");
            lab.advance(secs(60)).await;
            let story = format!("turn {turn}, {pause} us: {:?}", tally.all());
            assert_eq!(run.status().await?.state, RunState::Completed, "{story}");
            assert!(["b", "c", "d", "inner"].iter().all(|step| tally.of(step) == 1), "{story}");
            lab.crash(&engine);
        }
    }
    Ok(())
}

#[windlass::test]
async fn an_engine_can_be_stopped_at_any_point_and_the_next_one_repeats_nothing(_: Lab) -> Result<()> {
    for turn in 0..TURNS {
        let (lab, tally) = (Lab::new(), Tally::default());
        let (engine, run) = at_turn(&lab, &tally, turn).await?;
        let id = run.id();
        let begun = lab.now();
        engine.stop().await?;
        let took = lab.now().since(begun);
        assert!(took < secs(1), "turn {turn}: stopping took {took:?}");
        let other = launch(&lab, &tally).await?;
        lab.advance(secs(60)).await;
        let story = format!("turn {turn}: {:?}", tally.all());
        let run = other.run(&function("everything", everything), id);
        assert_eq!(run.status().await?.state, RunState::Completed, "{story}");
        assert!(["b", "c", "d", "inner"].iter().all(|step| tally.of(step) == 1), "{story}");
    }
    Ok(())
}

#[windlass::test]
async fn an_engine_can_be_stopped_while_it_undoes_and_the_next_one_goes_on(_: Lab) -> Result<()> {
    for turn in 0..TURNS {
        let (lab, tally) = (Lab::new(), Tally::default());
        let engine = lab.engine().resource(tally.clone()).workflow(function("branches", two_branches));
        let engine = engine.launch().await?;
        let run = engine.start(function("branches", two_branches), ()).await?;
        let id = run.id();
        lab.advance(secs(10)).await;
        run.cancel("no").await?;
        lab.advance(secs(10) - Duration::from_micros(500)).await;
        for _ in 0..turn {
            tokio::task::yield_now().await;
            lab.advance(Duration::from_micros(50)).await;
        }
        engine.stop().await?;
        let other = lab.engine().resource(tally.clone()).workflow(function("branches", two_branches));
        let other = other.launch().await?;
        lab.advance(secs(60)).await;
        let status = other.run(&function("branches", two_branches), id).status().await?;
        assert_eq!(status.state, RunState::Cancelled, "turn {turn}");
        let undone: Vec<String> = tally.all().into_iter().filter(|what| what.starts_with("undo")).collect();
        assert_eq!(undone, ["undo second", "undo first"], "turn {turn}");
    }
    Ok(())
}

fn patient<'a>(cx: &'a Flow, (): (), _: Res<Tally>) -> Fut<'a, ()> {
    Box::pin(async move { cx.run(function("long", long), ()).await })
}

fn long<'a>(cx: &'a Flow, (): (), _: Res<Tally>) -> Fut<'a, ()> {
    Box::pin(async move { cx.sleep(secs(3600)).await })
}

#[windlass::test]
async fn a_function_that_only_waits_for_a_child_is_not_abandoned_when_its_process_dies_often(
    lab: Lab,
) -> Result<()> {
    let mut id = None;
    for _ in 0..12 {
        let engine = lab.engine().resource(Tally::default()).workflow(function("patient", patient));
        let engine = engine.workflow(function("long", long)).max_recoveries(3).launch().await?;
        let run = match id {
            None => engine.start(function("patient", patient), ()).await?,
            Some(id) => engine.run(&function("patient", patient), id),
        };
        id = Some(run.id());
        lab.advance(secs(1)).await;
        let status = run.status().await?;
        assert_ne!(status.state, RunState::Abandoned, "{:?}", status.verdict);
        lab.crash(&engine);
    }
    Ok(())
}

fn panicking_pair<'a>(cx: &'a Flow, (): (), tally: Res<Tally>) -> Fut<'a, ()> {
    Box::pin(async move {
        let tally = &tally;
        let bad = cx
            .step("bad", |s: Cx| async move {
                tokio::time::sleep(secs(1)).await;
                assert!(s.attempt() > 1, "the first attempt fails");
                tally.add("bad");
                Ok::<_, Failure>(())
            })
            .retry(Retry::attempts(2));
        tokio::try_join!(bad, async { work(cx, tally, "good", secs(2)).await })?;
        Ok(())
    })
}

#[windlass::test]
async fn a_step_that_panics_is_tried_again_and_its_neighbour_goes_on(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let flow = || function("panics", panicking_pair);
    let engine = lab.engine().resource(tally.clone()).workflow(flow()).launch().await?;
    engine.start(flow(), ()).await?.await?;
    assert_eq!((tally.of("bad"), tally.of("good")), (1, 1));
    Ok(())
}

fn timed<'a>(cx: &'a Flow, (): (), _: Res<Tally>) -> Fut<'a, (Option<u32>, Option<u32>)> {
    Box::pin(async move {
        let first = cx.event(GO).timeout(secs(10)).await?;
        let second = cx.event(GO).timeout(secs(10)).await?;
        Ok((first, second))
    })
}

#[windlass::test]
async fn an_event_at_the_very_instant_of_a_timeout_is_received_once(_: Lab) -> Result<()> {
    for micros in 0..40 {
        let lab = Lab::new();
        let engine =
            lab.engine().resource(Tally::default()).workflow(function("timed", timed)).launch().await?;
        let run = engine.start(function("timed", timed), ()).await?;
        lab.advance(secs(10) - Duration::from_micros(20) + Duration::from_micros(micros)).await;
        run.send(GO, &1).await?;
        let got = run.await?;
        assert!([(Some(1), None), (None, Some(1))].contains(&got), "{micros} us: {got:?}");
    }
    Ok(())
}

#[windlass::test]
async fn a_wait_that_ran_out_while_the_run_was_paused_is_over_and_what_came_in_time_counts(
    lab: Lab,
) -> Result<()> {
    let engine = lab.engine().resource(Tally::default()).workflow(function("timed", timed)).launch().await?;
    let run = engine.start(function("timed", timed), ()).await?;
    lab.advance(secs(1)).await;
    run.pause().await?;
    lab.advance(secs(5)).await;
    run.send(GO, &1).await?;
    lab.advance(secs(100)).await;
    assert_eq!(run.status().await?.state, RunState::Paused);
    run.resume().await?;
    assert_eq!(run.await?, (Some(1), None));
    Ok(())
}

#[windlass::test]
async fn a_paused_function_whose_run_times_out_is_undone(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let flow = || function("branches", two_branches);
    let engine = lab.engine().resource(tally.clone()).workflow(flow()).launch().await?;
    let run = engine.start(flow(), ()).timeout(secs(60)).await?;
    lab.advance(Duration::from_millis(1500)).await;
    run.pause().await?;
    lab.advance(secs(100)).await;
    assert_eq!(run.status().await?.state, RunState::Failed);
    assert_eq!((tally.of("undo first"), tally.of("undo second"), tally.of("undo slow")), (1, 1, 0));
    Ok(())
}
