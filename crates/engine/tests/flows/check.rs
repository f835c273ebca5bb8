//! Looking at what new code would do to runs in flight.

use std::time::Duration;

use windlass::{
    Error, Event, Failure, Flow, Forecast, Res, Result, RunState, Task, TaskCx, Workflow, testing::Lab,
};

use crate::common::{Fut, Tally, function};

const GO: Event<u32> = Event::new("go");

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

fn plain<'a>(cx: &'a Flow, (): (), tally: Res<Tally>) -> Fut<'a, ()> {
    Box::pin(async move {
        step(cx, &tally, "a").await?;
        cx.event(GO).await?;
        step(cx, &tally, "b").await
    })
}

#[windlass::test]
async fn a_check_names_what_comes_next_and_nothing_happens(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let flow = || function("plain", plain);
    let engine = lab.engine().resource(tally.clone()).workflow(flow()).launch().await?;
    let run = engine.start(flow(), ()).key("one").await?;
    lab.advance(secs(60)).await;
    run.send(GO, &1).await?;
    let report = engine.check(flow()).await?;
    let [checked] = &report.runs[..] else { panic!("{report}") };
    assert_eq!((checked.id, checked.key.as_deref(), &*checked.workflow), (run.id(), Some("one"), "plain"));
    assert!(matches!(&checked.forecast, Forecast::GoesOn { next } if *next == ["go"]), "{report}");
    run.await?;
    assert_eq!(tally.all(), ["a", "b"]);
    Ok(())
}

#[windlass::test]
async fn a_run_that_has_ended_is_only_looked_at_when_it_is_named(lab: Lab) -> Result<()> {
    let flow = || function("plain", plain);
    let engine = lab.engine().resource(Tally::default()).workflow(flow()).launch().await?;
    let run = engine.start(flow(), ()).await?;
    run.send(GO, &1).await?;
    let id = run.id();
    run.await?;
    assert_eq!(engine.check(flow()).await?.runs.len(), 0);
    let report = engine.check(flow()).run(id).await?;
    assert!(matches!(report.runs[0].forecast, Forecast::Ended), "{report}");
    assert_eq!(report.runs[0].state, RunState::Completed);
    Ok(())
}

#[windlass::test]
async fn a_check_of_a_run_that_it_cannot_look_at_is_an_error(lab: Lab) -> Result<()> {
    let flow = || function("plain", plain);
    let engine = lab.engine().resource(Tally::default()).workflow(flow()).launch().await?;
    let nobody = windlass::RunId::new();
    let error = engine.check(flow()).run(nobody).await.unwrap_err();
    assert!(matches!(error, Error::UnknownRun(id) if id == nobody), "{error}");
    let run = engine.start(flow(), ()).await?;
    let error = engine.check(function("plane", plain)).run(run.id()).await.unwrap_err().to_string();
    assert!(error.contains("workflow `plain` is not registered"), "{error}");
    let empty = lab.engine().workflow(graph(&["x"])).launch().await?;
    let error = empty.check(flow()).await.unwrap_err().to_string();
    assert!(error.contains("Tally"), "{error}");
    Ok(())
}

fn panics_early<'a>(_: &'a Flow, (): (), _: Res<Tally>) -> Fut<'a, ()> {
    Box::pin(async move { panic!("no such luck") })
}

fn panics_late<'a>(cx: &'a Flow, (): (), tally: Res<Tally>) -> Fut<'a, ()> {
    Box::pin(async move {
        step(cx, &tally, "a").await?;
        panic!("no such luck")
    })
}

fn returns_late<'a>(cx: &'a Flow, (): (), tally: Res<Tally>) -> Fut<'a, ()> {
    Box::pin(async move { step(cx, &tally, "a").await })
}

type Code = for<'a> fn(&'a Flow, (), Res<Tally>) -> Fut<'a, ()>;

#[windlass::test]
async fn code_that_panics_or_returns_when_it_is_replayed_is_foretold(lab: Lab) -> Result<()> {
    let old = || function("plain", plain);
    let cases: [(Code, RunState); 3] = [
        (panics_early, RunState::Blocked),
        (panics_late, RunState::Failed),
        (returns_late, RunState::Completed),
    ];
    for (code, state) in cases {
        let new = || function("plain", code);
        let engine = lab.engine().resource(Tally::default()).workflow(old()).launch().await?;
        let run = engine.start(old(), ()).await?;
        lab.advance(secs(60)).await;
        let report = engine.check(new()).run(run.id()).await?;
        engine.stop().await?;
        let foretold = match &report.runs[0].forecast {
            Forecast::Blocked { reason } if reason.contains("`a` is recorded") => RunState::Blocked,
            Forecast::Fails(failure) if failure.message.contains("no such luck") => RunState::Failed,
            Forecast::Completes => RunState::Completed,
            other => panic!("{other}"),
        };
        assert_eq!(foretold, state);
        let engine = lab.engine().resource(Tally::default()).workflow(new()).launch().await?;
        let run = engine.run(&new(), run.id());
        // It is taken up when what it waits for is there.
        run.send(GO, &1).await?;
        lab.advance(secs(60)).await;
        assert_eq!(run.status().await?.state, state);
        engine.stop().await?;
    }
    Ok(())
}

fn strays<'a>(cx: &'a Flow, (): (), tally: Res<Tally>) -> Fut<'a, ()> {
    Box::pin(async move {
        step(cx, &tally, "a").await?;
        tokio::time::sleep(secs(5)).await;
        step(cx, &tally, "b").await
    })
}

#[windlass::test]
async fn a_wait_for_something_that_is_not_recorded_makes_the_answer_unclear(lab: Lab) -> Result<()> {
    let old = || function("plain", plain);
    let engine = lab.engine().resource(Tally::default()).workflow(old()).launch().await?;
    let run = engine.start(old(), ()).await?;
    lab.advance(secs(60)).await;
    let report = engine.check(function("plain", strays)).await?;
    let said = report.to_string();
    assert!(said.contains("unclear: the function waits after `a`"), "{said}");
    assert!(said.ends_with("1 run: 0 compatible, 0 would be blocked, 1 unclear"), "{said}");
    run.terminate("enough").await?;
    Ok(())
}

fn tells<'a>(cx: &'a Flow, (): (), tally: Res<Tally>) -> Fut<'a, ()> {
    Box::pin(async move {
        step(cx, &tally, "a").await?;
        if cx.patch("new") {
            cx.publish("path", &"new")?;
        }
        cx.event(GO).await?;
        step(cx, &tally, "b").await
    })
}

#[windlass::test]
async fn a_patch_is_not_decided_and_nothing_is_published_by_a_look(lab: Lab) -> Result<()> {
    let old = || function("plain", plain);
    let engine = lab.engine().resource(Tally::default()).workflow(old()).launch().await?;
    let run = engine.start(old(), ()).await?;
    lab.advance(secs(60)).await;
    let report = engine.check(function("plain", tells)).await?;
    assert_eq!(report.compatible().count(), 1, "{report}");
    let status = run.status().await?;
    assert!(status.published.is_empty() && status.call("new").is_none(), "{status:?}");
    run.send(GO, &1).await?;
    run.await?;
    Ok(())
}

fn daily<'a>(cx: &'a Flow, day: u32, tally: Res<Tally>) -> Fut<'a, u32> {
    Box::pin(async move {
        step(cx, &tally, "work").await?;
        cx.event(GO).await?;
        step(cx, &tally, "report").await?;
        cx.event(GO).await?;
        cx.continue_with(day + 1).await
    })
}

fn hasty<'a>(cx: &'a Flow, day: u32, tally: Res<Tally>) -> Fut<'a, u32> {
    Box::pin(async move {
        step(cx, &tally, "work").await?;
        cx.event(GO).await?;
        cx.continue_with(day + 1).await
    })
}

#[windlass::test]
async fn a_round_that_ends_before_what_is_recorded_of_it_blocks_the_run(lab: Lab) -> Result<()> {
    let (old, new) = (|| function("daily", daily), || function("daily", hasty));
    let tally = Tally::default();
    let engine = lab.engine().resource(tally.clone()).workflow(old()).launch().await?;
    let (run, early) = (engine.start(old(), 1).await?, engine.start(old(), 1).await?);
    run.send(GO, &1).await?;
    lab.advance(secs(60)).await;
    let report = engine.check(new()).run(run.id()).run(early.id()).await?;
    engine.stop().await?;
    let why = "`report` is recorded as a step, but the code does not call it after `go`";
    assert!(matches!(&report.runs[0].forecast, Forecast::Blocked { reason } if reason == why), "{report}");
    assert!(report.runs[1].forecast.is_compatible(), "{report}");
    let engine = lab.engine().resource(tally.clone()).workflow(new()).launch().await?;
    let run = engine.run(&new(), run.id());
    run.send(GO, &1).await?;
    lab.advance(secs(60)).await;
    let status = run.status().await?;
    assert_eq!(status.state, RunState::Blocked);
    assert_eq!(status.wait.and_then(|wait| wait.reason).as_deref(), Some(why));
    Ok(())
}

fn parent<'a>(cx: &'a Flow, (): (), tally: Res<Tally>) -> Fut<'a, ()> {
    Box::pin(async move {
        step(cx, &tally, "a").await?;
        cx.run(function("plain", plain), ()).await?;
        step(cx, &tally, "z").await
    })
}

#[windlass::test]
async fn a_child_is_not_started_by_a_look(lab: Lab) -> Result<()> {
    let (old, new) = (|| function("parent", plain), || function("parent", parent));
    let engine = lab.engine().resource(Tally::default()).workflow(old()).launch().await?;
    engine.start(old(), ()).await?;
    lab.advance(secs(60)).await;
    let report = engine.check(new()).await?;
    assert!(matches!(&report.runs[0].forecast, Forecast::GoesOn { next } if *next == ["plain"]), "{report}");
    assert_eq!(engine.runs().list().await?.len(), 1);
    Ok(())
}

fn undone<'a>(cx: &'a Flow, (): (), tally: Res<Tally>) -> Fut<'a, ()> {
    Box::pin(async move {
        let undo = |()| async {
            tokio::time::sleep(secs(3600)).await;
            Ok::<_, Failure>(())
        };
        cx.step("a", || async { Ok::<_, Failure>(()) }).undo(undo).await?;
        cx.event(GO).await?;
        step(cx, &tally, "b").await
    })
}

#[windlass::test]
async fn a_run_that_is_being_undone_goes_on_with_that_if_its_code_fits(lab: Lab) -> Result<()> {
    let flow = || function("plain", undone);
    let engine = lab.engine().resource(Tally::default()).workflow(flow()).launch().await?;
    let run = engine.start(flow(), ()).await?;
    lab.advance(secs(60)).await;
    run.cancel("enough").await?;
    lab.advance(secs(60)).await;
    assert_eq!(run.status().await?.state, RunState::Undoing);
    let report = engine.check(flow()).await?;
    assert!(matches!(report.runs[0].forecast, Forecast::Undoes), "{report}");
    let report = engine.check(function("plain", panics_early)).await?;
    assert!(matches!(report.runs[0].forecast, Forecast::Blocked { .. }), "{report}");
    Ok(())
}

/// A graph of tasks one after the other, which take ten seconds each.
fn graph(tasks: &[&str]) -> Workflow {
    let mut built = Workflow::builder("graph");
    for (at, name) in tasks.iter().enumerate() {
        let body = |_: TaskCx| async {
            tokio::time::sleep(secs(10)).await;
            Ok::<_, Failure>(())
        };
        built = built.task(Task::new(*name, body).after(at.checked_sub(1).map(|before| tasks[before])));
    }
    built.build().expect("the graph is sound")
}

#[windlass::test]
async fn a_graph_is_compared_with_what_is_recorded_of_it(lab: Lab) -> Result<()> {
    let engine = lab.engine().workflow(graph(&["a", "b"])).launch().await?;
    engine.start(graph(&["a", "b"]), serde_json::Value::Null).await?;
    lab.advance(secs(15)).await;
    assert_eq!(engine.check(graph(&["a", "c"])).await?.compatible().count(), 1);
    let report = engine.check(graph(&["x", "b"])).await?;
    let why = "`a` is recorded, but the code has no such task";
    assert!(matches!(&report.runs[0].forecast, Forecast::Blocked { reason } if reason == why), "{report}");
    assert_eq!((lab.attempts("a"), lab.attempts("x")), (1, 0));
    Ok(())
}

#[windlass::test]
async fn a_graph_that_is_being_undone_goes_on_with_that(lab: Lab) -> Result<()> {
    let book = Task::new("book", |_| async { Ok(()) }).undo(|_| async {
        tokio::time::sleep(secs(3600)).await;
        Ok::<_, Failure>(())
    });
    let end = Task::new("end", |_| async { Err::<(), _>(Failure::permanent("no")) }).after(["book"]);
    let graph = Workflow::builder("graph").tasks([book, end]).build()?;
    let engine = lab.engine().workflow(graph.clone()).launch().await?;
    let run = engine.start(graph.clone(), serde_json::Value::Null).await?;
    lab.advance(secs(60)).await;
    assert_eq!(run.status().await?.state, RunState::Undoing);
    let report = engine.check(graph).await?;
    assert!(matches!(report.runs[0].forecast, Forecast::Undoes), "{report}");
    Ok(())
}
