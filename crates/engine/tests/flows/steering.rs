//! Orders to a durable function, and what happens when its node goes away.

use std::time::Duration;

use windlass::{Cx, Failure, Flow, Res, Result, Retry, RunState, TaskState, testing::Lab};

use crate::common::{Fut, Tally, function};

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn long<'a>(cx: &'a Flow, steps: u32, tally: Res<Tally>) -> Fut<'a, u32> {
    Box::pin(async move {
        let tally = &tally;
        for i in 0..steps {
            let undoing = Tally::clone(tally);
            cx.step("work", move || async move {
                tally.add("work");
                tokio::time::sleep(secs(1)).await;
                Ok::<_, Failure>(i)
            })
            .undo_with(Retry::attempts(3), move |i: u32| async move {
                undoing.add(format!("undo {i}"));
                if i == 1 { Err(Failure::new("cannot undo")) } else { Ok(()) }
            })
            .await?;
        }
        Ok(steps)
    })
}

#[windlass::test]
async fn a_paused_function_finishes_its_step_and_goes_on_when_it_is_resumed(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let flow = || function("long", long);
    let engine = lab.engine().resource(tally.clone()).workflow(flow()).launch().await?;
    let run = engine.start(flow(), 5).await?;
    lab.advance(Duration::from_millis(1500)).await;
    run.pause().await?;
    lab.advance(secs(60)).await;
    assert_eq!(run.status().await?.state, RunState::Paused);
    assert_eq!(tally.of("work"), 2);
    run.resume().await?;
    assert_eq!(run.await?, 5);
    assert_eq!(tally.of("work"), 5);
    Ok(())
}

#[windlass::test]
async fn a_function_that_is_resumed_at_once_goes_on(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let flow = || function("long", long);
    let engine = lab.engine().resource(tally.clone()).workflow(flow()).launch().await?;
    let run = engine.start(flow(), 9).await?;
    for millis in [500, 600, 601] {
        lab.advance(Duration::from_millis(millis)).await;
        // A step ends meanwhile, and the next one may not begin.
        run.pause().await?;
        lab.advance(Duration::from_millis(500)).await;
        run.resume().await?;
    }
    lab.advance(secs(60)).await;
    assert_eq!(run.await?, 9);
    assert_eq!(tally.of("work"), 9);
    Ok(())
}

fn idle<'a>(cx: &'a Flow, (): (), _: Res<Tally>) -> Fut<'a, ()> {
    Box::pin(async move { cx.sleep(secs(3_600)).await })
}

#[windlass::test]
async fn a_run_at_work_is_found_at_once_behind_others_that_are_parked(lab: Lab) -> Result<()> {
    let (work, rest) = (|| function("long", long), || function("idle", idle));
    let engine = lab.engine().resource(Tally::default()).workflow(work()).workflow(rest()).launch().await?;
    let run = engine.start(work(), 1_000).await?;
    for _ in 0..300 {
        engine.start(rest(), ()).await?;
    }
    lab.advance(Duration::from_millis(59_500)).await;
    let busy = || engine.runs().running().state(RunState::Undoing).limit(8);
    let found = |page: windlass::store::Page| page.runs.iter().map(|run| run.id).collect::<Vec<_>>();
    assert_eq!(found(busy().portion().await?), [run.id()]);
    run.cancel("enough").await?;
    lab.advance(secs(1)).await;
    assert_eq!(run.status().await?.state, RunState::Undoing);
    assert_eq!(found(engine.runs().state(RunState::Undoing).limit(8).portion().await?), [run.id()]);
    Ok(())
}

fn greedy<'a>(cx: &'a Flow, (): (), _: Res<Tally>) -> Fut<'a, ()> {
    Box::pin(async move {
        cx.step("greedy", || async {
            for _ in 0..1_000 {
                tokio::task::consume_budget().await;
            }
            Ok::<_, Failure>(())
        })
        .await
    })
}

#[windlass::test]
async fn a_step_that_has_used_up_its_turn_gets_another_one(lab: Lab) -> Result<()> {
    let flow = || function("greedy", greedy);
    let engine = lab.engine().resource(Tally::default()).workflow(flow()).launch().await?;
    engine.start(flow(), ()).await?.await?;
    Ok(())
}

#[windlass::test]
async fn a_stopped_engine_hands_its_functions_over_between_two_steps(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let flow = || function("long", long);
    let engine = lab.engine().resource(tally.clone()).workflow(flow()).launch().await?;
    let run = engine.start(flow(), 5).await?;
    lab.advance(Duration::from_millis(1500)).await;
    engine.stop().await?;
    let other = lab.engine().resource(tally.clone()).workflow(flow()).launch().await?;
    assert_eq!(other.run(&flow(), run.id()).await?, 5);
    assert_eq!(tally.of("work"), 5);
    Ok(())
}

#[windlass::test]
async fn a_cancelled_function_stops_its_step_after_its_grace_and_undoes_the_rest(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let flow = || function("long", long);
    let engine = lab.engine().resource(tally.clone()).workflow(flow()).launch().await?;
    let run = engine.start(flow(), 9).await?;
    lab.advance(Duration::from_millis(3500)).await;
    run.cancel("enough").await?;
    lab.advance(secs(1)).await;
    let status = run.status().await?;
    assert_eq!(status.state, RunState::Undoing);
    let other = engine.start(flow(), 9).await?;
    let undoing = engine.runs().state(RunState::Undoing).list().await?;
    assert_eq!(undoing.iter().map(|found| found.id).collect::<Vec<_>>(), [run.id()]);
    assert_eq!(engine.runs().live().list().await?.len(), 2);
    other.terminate("enough").await?;
    lab.advance(secs(60)).await;
    assert!(engine.runs().state(RunState::Undoing).list().await?.is_empty());
    let status = run.status().await?;
    assert_eq!(status.state, RunState::Cancelled);
    // The step that was running had time to end within its grace, so it is undone too.
    let undone: Vec<String> = tally.all().into_iter().filter(|what| what.starts_with("undo")).collect();
    assert_eq!(undone, ["undo 3", "undo 2", "undo 1", "undo 1", "undo 1", "undo 0"]);
    assert_eq!(status.call("work#2").and_then(|call| call.undo), Some(TaskState::Failed));
    assert_eq!(status.call("work#3").and_then(|call| call.undo), Some(TaskState::Completed));
    Ok(())
}

#[windlass::test]
async fn a_forked_function_keeps_what_came_before_and_never_undoes_it(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let flow = || function("long", long);
    let engine = lab.engine().resource(tally.clone()).workflow(flow()).launch().await?;
    let run = engine.start(flow(), 4).await?;
    let id = run.id();
    run.await?;
    let fork = engine.run(&flow(), id).fork_from("work#3").await?;
    lab.advance(Duration::from_millis(500)).await;
    fork.cancel("no").await?;
    lab.advance(secs(60)).await;
    assert_eq!(tally.of("work"), 5);
    assert_eq!(tally.all().last().map(String::as_str), Some("undo 2"));
    let error = engine.run(&flow(), id).fork_from("wrok").await.unwrap_err().to_string();
    assert!(error.contains("work"), "{error}");
    let error = engine.run(&flow(), fork.id()).fork_from("work#4").await;
    assert!(error.is_err());
    Ok(())
}

fn deadly<'a>(cx: &'a Flow, (): (), tally: Res<Tally>) -> Fut<'a, ()> {
    Box::pin(async move {
        let tally = &tally;
        cx.step("fine", || async { Ok::<_, Failure>(()) }).await?;
        cx.step("deadly", |s: Cx| async move {
            tally.add("deadly");
            s.cancelled().await;
            Ok::<_, Failure>(())
        })
        .await
    })
}

#[windlass::test]
async fn a_step_that_kills_its_process_too_often_abandons_the_run_and_is_named(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let flow = || function("deadly", deadly);
    let mut id = None;
    for _ in 0..12 {
        let engine = lab.engine().resource(tally.clone()).workflow(flow()).max_recoveries(3).launch().await?;
        let run = match id {
            None => engine.start(flow(), ()).await?,
            Some(id) => engine.run(&flow(), id),
        };
        id = Some(run.id());
        lab.advance(secs(1)).await;
        let status = run.status().await?;
        if status.state == RunState::Abandoned {
            assert!(format!("{:?}", status.verdict).contains("/deadly"), "{:?}", status.verdict);
            // The first death is not known to be this step's, as nothing was recorded of its start.
            assert_eq!(tally.of("deadly"), 5);
            return Ok(());
        }
        lab.crash(&engine);
    }
    panic!("the run was never abandoned")
}
