//! Runs that a function starts, and functions that never end.

use std::time::Duration;

use windlass::{Event, Failure, Flow, Res, Result, RunState, testing::Lab};

use crate::common::{Fut, Tally, function};

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn child<'a>(cx: &'a Flow, n: u32, tally: Res<Tally>) -> Fut<'a, u32> {
    Box::pin(async move {
        cx.sleep(secs(30)).await?;
        cx.step("double", || async {
            tally.add("double");
            Ok::<_, Failure>(n)
        })
        .await?;
        if n == 13 { Err(Failure::permanent("unlucky")) } else { Ok(n * 2) }
    })
}

fn parent<'a>(cx: &'a Flow, ns: Vec<u32>, tally: Res<Tally>) -> Fut<'a, Vec<u32>> {
    Box::pin(async move {
        let doubled = cx.map(ns, 2, |n| cx.run(function("child", child), n)).await?;
        tally.add("joined");
        Ok(doubled)
    })
}

#[windlass::test]
async fn children_run_and_their_results_come_back(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let flow = || function("parent", parent);
    let engine = lab.engine().resource(tally.clone()).workflow(flow()).workflow(function("child", child));
    let engine = engine.launch().await?;
    let run = engine.start(flow(), vec![1, 2, 3]).await?;
    assert_eq!(run.await?, [2, 4, 6]);
    assert_eq!(tally.of("double"), 3);
    let error = engine.start(flow(), vec![1, 13]).await?.await.unwrap_err().to_string();
    assert!(error.contains("failed: child: unlucky"), "{error}");
    Ok(())
}

#[windlass::test]
async fn a_parent_is_crashed_everywhere_and_each_child_runs_once(lab: Lab) -> Result<()> {
    let boundaries = lab
        .crash_everywhere(|builder| async {
            let tally = Tally::default();
            let engine = builder.resource(tally.clone()).workflow(function("parent", parent));
            let engine = engine.workflow(function("child", child)).launch().await?;
            let run = engine.start(function("parent", parent), vec![1, 2]).key("one").await?;
            assert_eq!(run.await?, [2, 4]);
            let children = engine.runs().workflow("child").list().await?;
            assert_eq!(children.len(), 2);
            engine.stop().await?;
            Ok::<_, Failure>(())
        })
        .await?;
    assert!(boundaries >= 16, "{boundaries}");
    Ok(())
}

fn guardian<'a>(cx: &'a Flow, leave: bool, _: Res<Tally>) -> Fut<'a, ()> {
    Box::pin(async move {
        let child = cx.run(function("child", child), 1);
        let child = if leave { child.leave() } else { child };
        windlass::select! {
            _ = child => Ok(()),
            slept = cx.sleep(secs(10)) => slept,
        }
    })
}

#[windlass::test]
async fn the_end_of_a_parent_cancels_its_children_unless_they_are_to_be_left(lab: Lab) -> Result<()> {
    let flow = || function("guardian", guardian);
    let engine = lab.engine().resource(Tally::default()).workflow(flow()).workflow(function("child", child));
    let engine = engine.launch().await?;
    engine.start(flow(), false).await?.await?;
    lab.advance(secs(60)).await;
    let states = |page: Vec<windlass::store::RunSummary>| {
        page.iter().map(|run| run.standing.state()).collect::<Vec<_>>()
    };
    assert_eq!(states(engine.runs().workflow("child").list().await?), [RunState::Cancelled]);
    engine.start(flow(), true).await?.await?;
    lab.advance(secs(60)).await;
    let mut all = states(engine.runs().workflow("child").list().await?);
    all.sort();
    assert_eq!(all, [RunState::Completed, RunState::Cancelled]);
    Ok(())
}

#[windlass::test]
async fn a_cancelled_parent_that_is_parked_cancels_its_children(lab: Lab) -> Result<()> {
    let flow = || function("parent", parent);
    let engine = lab.engine().resource(Tally::default()).workflow(flow()).workflow(function("child", child));
    let engine = engine.launch().await?;
    let run = engine.start(flow(), vec![1]).await?;
    lab.advance(secs(20)).await;
    assert_eq!(run.status().await?.state, RunState::Suspended);
    run.cancel("no").await?;
    lab.advance(secs(60)).await;
    let page = engine.runs().workflow("child").list().await?;
    assert_eq!(page[0].standing.state(), RunState::Cancelled);
    Ok(())
}

fn mother<'a>(cx: &'a Flow, (): (), _: Res<Tally>) -> Fut<'a, ()> {
    Box::pin(async move {
        tokio::try_join!(cx.run(function("sleeper", sleeper), ()), cx.run(function("sleeper", sleeper), ()))?;
        Ok(())
    })
}

#[windlass::test]
async fn a_parent_that_is_terminated_cancels_its_children_wherever_it_is_crashed(lab: Lab) -> Result<()> {
    // It is held the first time, and parked the second.
    for after in [1, 20] {
        let boundaries = lab
            .crash_everywhere(|builder| async move {
                let engine = builder.resource(Tally::default()).workflow(function("mother", mother));
                let engine = engine.workflow(function("sleeper", sleeper)).launch().await?;
                let run = engine.start(function("mother", mother), ()).key("one").await?;
                tokio::time::sleep(secs(after)).await;
                run.terminate("no").await?;
                assert!(run.await.is_err_and(|error| error.to_string().contains("cancelled")));
                tokio::time::sleep(secs(600)).await;
                for child in engine.runs().workflow("sleeper").list().await? {
                    assert_eq!(child.standing.state(), RunState::Cancelled);
                }
                engine.stop().await?;
                Ok::<_, Failure>(())
            })
            .await?;
        assert!(boundaries >= 5, "{boundaries}");
    }
    Ok(())
}

fn sleeper<'a>(cx: &'a Flow, (): (), _: Res<Tally>) -> Fut<'a, ()> {
    Box::pin(async move { cx.sleep(secs(86_400)).await })
}

/// Starts a child, and then kills its process.
fn doomed<'a>(cx: &'a Flow, leave: bool, tally: Res<Tally>) -> Fut<'a, ()> {
    Box::pin(async move {
        let child = cx.run(function("sleeper", sleeper), ());
        let child = if leave { child.leave() } else { child };
        let lethal = cx.step("act", || async {
            tally.add("act");
            tokio::time::sleep(secs(86_400)).await;
            Ok::<_, Failure>(())
        });
        windlass::select! {
            ended = child => ended,
            done = lethal => done,
        }
    })
}

#[windlass::test]
async fn a_parent_that_is_abandoned_cancels_its_children_unless_they_are_to_be_left(lab: Lab) -> Result<()> {
    for leave in [false, true] {
        let tally = Tally::default();
        let (flow, child) = (|| function("doomed", doomed), || function("sleeper", sleeper));
        let launch = || {
            let engine = lab.engine().max_recoveries(2).resource(tally.clone());
            engine.workflow(flow()).workflow(child()).launch()
        };
        let mut engine = launch().await?;
        let id = engine.start(flow(), leave).await?.id();
        let (mut deaths, mut state) = (0, RunState::Pending);
        while !state.is_terminal() {
            if tally.of("act") > deaths {
                deaths += 1;
                lab.crash(&engine);
                engine = launch().await?;
            }
            lab.advance(secs(1)).await;
            state = engine.run(&flow(), id).status().await?.state;
        }
        assert_eq!(state, RunState::Abandoned);
        lab.advance(secs(60)).await;
        let children = engine.runs().workflow("sleeper").list().await?;
        // Newest first.
        let expected = if leave { RunState::Suspended } else { RunState::Cancelled };
        assert_eq!(children[0].standing.state(), expected);
        engine.stop().await?;
    }
    Ok(())
}

fn orphan<'a>(cx: &'a Flow, (): (), _: Res<Tally>) -> Fut<'a, u32> {
    Box::pin(async move { cx.run(function("child", child), 1).await })
}

#[windlass::test]
async fn a_child_whose_workflow_the_engine_does_not_know_is_an_error_that_names_it(lab: Lab) -> Result<()> {
    let flow = || function("orphan", orphan);
    let engine = lab.engine().resource(Tally::default()).workflow(flow()).launch().await?;
    let error = engine.start(flow(), ()).await?.await.unwrap_err().to_string();
    assert!(error.contains("workflow `child` is not registered"), "{error}");
    Ok(())
}

const STOP: Event<()> = Event::new("stop");

fn endless<'a>(cx: &'a Flow, day: u32, tally: Res<Tally>) -> Fut<'a, (u32, String)> {
    Box::pin(async move {
        let id = cx.uuid();
        cx.step("day", || async {
            tally.add(format!("day {day}"));
            Ok::<_, Failure>(())
        })
        .await?;
        match cx.event(STOP).timeout(secs(86_400)).await? {
            Some(()) => Ok((day, id.to_string())),
            None => cx.continue_with(day + 1).await,
        }
    })
}

#[windlass::test]
async fn an_endless_function_keeps_the_records_of_its_last_round_only(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let flow = || function("endless", endless);
    let engine = lab.engine().resource(tally.clone()).workflow(flow()).launch().await?;
    let run = engine.start(flow(), 1).await?;
    lab.advance(secs(20 * 86_400 + 60)).await;
    let status = run.status().await?;
    assert_eq!(status.state, RunState::Suspended);
    assert!(status.calls.len() <= 2, "{:?}", status.calls);
    lab.crash(&engine);
    let engine = lab.engine().resource(tally.clone()).workflow(flow()).launch().await?;
    let run = engine.run(&flow(), run.id());
    run.send(STOP, &()).await?;
    assert_eq!(run.await?.0, 21);
    assert!((1..=21).all(|day| tally.of(&format!("day {day}")) == 1), "{:?}", tally.all());
    Ok(())
}
