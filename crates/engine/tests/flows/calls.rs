//! What a function may call.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};
use windlass::{CallKind, Cx, Event, Failure, Flow, Res, Result, Retry, RunState, TaskState, testing::Lab};

use crate::common::{Fut, Tally, function};

const WORD: Event<String> = Event::new("word");

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn two_words<'a>(cx: &'a Flow, (): (), _: Res<Tally>) -> Fut<'a, Vec<String>> {
    Box::pin(async move {
        let first = cx.event(WORD).await?;
        let second = cx.event(WORD).timeout(secs(3600)).await?;
        let third = cx.event(WORD).timeout(secs(60)).await?;
        Ok([Some(first), second, third].into_iter().flatten().collect())
    })
}

#[windlass::test]
async fn two_waits_on_one_name_get_two_events_in_order(lab: Lab) -> Result<()> {
    let flow = || function("words", two_words);
    let engine = lab.engine().resource(Tally::default()).workflow(flow()).launch().await?;
    let run = engine.start(flow(), ()).await?;
    run.send(WORD, &"a".to_owned()).await?;
    run.send(WORD, &"b".to_owned()).key("b").await?;
    run.send(WORD, &"b".to_owned()).key("b").await?;
    assert_eq!(run.await?, ["a", "b"]);
    Ok(())
}

#[windlass::test]
async fn events_that_nobody_received_are_listed_and_a_sent_one_to_an_ended_run_is_refused(
    lab: Lab,
) -> Result<()> {
    let flow = || function("words", two_words);
    let engine = lab.engine().resource(Tally::default()).workflow(flow()).launch().await?;
    let run = engine.start(flow(), ()).delay(secs(60)).await?;
    run.send(WORD, &"a".to_owned()).await?;
    let pending = run.pending_events().await?;
    assert_eq!((pending.len(), pending[0].name.as_str(), &pending[0].payload), (1, "word", &"a".into()));
    assert_eq!(run.send(Event::<()>::new("!cancel"), &()).await.unwrap_err().code(), "event_name");
    run.cancel("no").await?;
    assert_eq!(run.send(WORD, &"b".to_owned()).await.unwrap_err().code(), "already_ended");
    Ok(())
}

#[windlass::test]
async fn an_event_of_the_wrong_type_is_an_error_in_the_receiver_and_stays_in_the_record(
    lab: Lab,
) -> Result<()> {
    let flow = || function("words", two_words);
    let engine = lab.engine().resource(Tally::default()).workflow(flow()).launch().await?;
    let run = engine.start(flow(), ()).await?;
    run.send(Event::<u32>::new("word"), &7).await?;
    lab.advance(secs(1)).await;
    let status = run.status().await?;
    assert_eq!(status.state, RunState::Failed);
    assert_eq!(run.result::<u32>("word").await?, Some(7));
    assert_eq!(
        status.call("word").map(|call| (call.kind, call.state)),
        Some((CallKind::Event, TaskState::Completed))
    );
    Ok(())
}

fn two_sleeps<'a>(cx: &'a Flow, (): (), tally: Res<Tally>) -> Fut<'a, ()> {
    Box::pin(async move {
        cx.sleep(secs(2)).await?;
        tally.add("between");
        cx.sleep(secs(3)).await
    })
}

#[windlass::test]
async fn two_sleeps_are_slept_each_across_restarts(lab: Lab) -> Result<()> {
    let flow = || function("naps", two_sleeps);
    let tally = Tally::default();
    let begun = lab.now();
    let first = lab.engine().resource(tally.clone()).workflow(flow()).launch().await?;
    let run = first.start(flow(), ()).key("one").await?;
    lab.advance(secs(1)).await;
    lab.crash(&first);
    let second = lab.engine().resource(tally.clone()).workflow(flow()).launch().await?;
    lab.advance(secs(2)).await;
    lab.crash(&second);
    let third = lab.engine().resource(tally.clone()).workflow(flow()).launch().await?;
    third.run(&flow(), run.id()).await?;
    let took = lab.now().since(begun);
    assert!(took >= secs(5) && took < Duration::from_millis(5500), "{took:?}");
    Ok(())
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Declined {
    Funds(u32),
}

impl fmt::Display for Declined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("declined")
    }
}

impl std::error::Error for Declined {}

fn typed<'a>(cx: &'a Flow, (): (), _: Res<Tally>) -> Fut<'a, u32> {
    Box::pin(async move {
        let charged = cx
            .step("charge", || async { Err::<u32, _>(Declined::Funds(7)) })
            .retry(Retry::attempts(1))
            .typed::<Declined>()
            .await?;
        cx.sleep(secs(3600)).await?;
        match charged {
            Err(Declined::Funds(missing)) => Ok(missing),
            Ok(_) => Err(Failure::new("it was not declined")),
        }
    })
}

#[windlass::test]
async fn an_error_that_the_function_looks_at_comes_back_as_it_was_also_from_the_record(
    lab: Lab,
) -> Result<()> {
    let flow = || function("typed", typed);
    let engine = lab.engine().resource(Tally::default()).workflow(flow()).launch().await?;
    assert_eq!(engine.start(flow(), ()).await?.await?, 7);
    Ok(())
}

fn race<'a>(cx: &'a Flow, (): (), _: Res<Tally>) -> Fut<'a, String> {
    Box::pin(async move {
        let won = windlass::select! {
            word = cx.event(WORD) => word?,
            slept = cx.sleep(secs(10)) => { slept?; "nothing".to_owned() }
        };
        let next = cx.event(WORD).timeout(secs(3600)).await?;
        Ok(format!("{won} {next:?}"))
    })
}

#[windlass::test]
async fn a_losing_event_stays_in_the_mailbox(lab: Lab) -> Result<()> {
    let flow = || function("race", race);
    let engine = lab.engine().resource(Tally::default()).workflow(flow()).launch().await?;
    let run = engine.start(flow(), ()).await?;
    lab.advance(secs(11)).await;
    run.send(WORD, &"late".to_owned()).await?;
    assert_eq!(run.await?, "nothing Some(\"late\")");
    let run = engine.start(flow(), ()).await?;
    run.send(WORD, &"early".to_owned()).await?;
    assert_eq!(run.await?, "early None");
    Ok(())
}

fn squares<'a>(cx: &'a Flow, n: u32, tally: Res<Tally>) -> Fut<'a, Vec<u32>> {
    Box::pin(async move {
        let tally = &tally;
        cx.map(0..n, 3, |i| {
            cx.step("square", move || async move {
                tally.add("begin");
                tokio::time::sleep(secs(u64::from(10 - i % 10))).await;
                tally.add("end");
                Ok::<_, Failure>(i * i)
            })
        })
        .await
    })
}

#[windlass::test]
async fn a_map_gives_results_in_the_order_of_its_items_and_holds_its_limit(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let flow = || function("squares", squares);
    let engine = lab.engine().resource(tally.clone()).workflow(flow()).launch().await?;
    assert_eq!(engine.start(flow(), 10).await?.await?, (0..10).map(|i| i * i).collect::<Vec<u32>>());
    let (mut now, mut most) = (0, 0);
    for what in tally.all() {
        now = if what == "begin" { now + 1 } else { now - 1 };
        most = most.max(now);
    }
    assert_eq!(most, 3);
    Ok(())
}

fn bad_names<'a>(cx: &'a Flow, (): (), _: Res<Tally>) -> Fut<'a, Vec<String>> {
    Box::pin(async move {
        let ok = || async { Ok::<_, Failure>(()) };
        let mut errors = Vec::new();
        for name in ["", "a/b", "a#2"] {
            errors.push(cx.step(name, ok).await.unwrap_err().message);
        }
        cx.step("word", ok).await?;
        errors.push(cx.event(WORD).await.unwrap_err().message);
        let inner = cx.step("outer", || async { cx.step("inner", ok).await }).retry(Retry::attempts(1)).await;
        errors.push(inner.unwrap_err().message);
        Ok(errors)
    })
}

#[windlass::test]
async fn calls_that_cannot_be_made_say_why(lab: Lab) -> Result<()> {
    let flow = || function("names", bad_names);
    let engine = lab.engine().resource(Tally::default()).workflow(flow()).launch().await?;
    let errors = engine.start(flow(), ()).await?.await?;
    assert!(errors[0].contains("at least one character"), "{errors:?}");
    assert!(errors[1].contains("`a/b` cannot be the name"), "{errors:?}");
    assert!(
        errors[3].contains("`word` is the name of a step, and cannot be that of an event too"),
        "{errors:?}"
    );
    assert!(errors[4].contains("`inner` is called inside the step `outer`"), "{errors:?}");
    Ok(())
}

fn saving<'a>(cx: &'a Flow, (): (), _: Res<Tally>) -> Fut<'a, u32> {
    Box::pin(async move {
        cx.progress(0.5, "half way")?;
        cx.step("count", |s: Cx| async move {
            let before = s.saved::<u32>()?.unwrap_or(0);
            s.save(before + 1).await?;
            if before < 2 { Err(Failure::new("again")) } else { Ok(before) }
        })
        .await
    })
}

#[windlass::test]
async fn a_step_finds_what_its_last_attempt_saved_and_the_function_shows_its_progress(
    lab: Lab,
) -> Result<()> {
    let flow = || function("saving", saving);
    let engine = lab.engine().resource(Tally::default()).workflow(flow()).launch().await?;
    let run = engine.start(flow(), ()).await?;
    lab.advance(Duration::from_millis(100)).await;
    let status = run.status().await?;
    assert_eq!(status.published["progress"], serde_json::json!({ "done": 0.5, "note": "half way" }));
    assert_eq!(run.await?, 2);
    Ok(())
}

fn dice<'a>(cx: &'a Flow, (): (), tally: Res<Tally>) -> Fut<'a, bool> {
    Box::pin(async move {
        let drawn = (cx.now(), cx.random().to_bits(), cx.uuid(), cx.uuid());
        assert_ne!(drawn.2, drawn.3);
        tally.add(format!("{drawn:?}"));
        cx.sleep(secs(3600)).await?;
        cx.step("one", || async { Ok::<_, Failure>(()) }).await?;
        Ok(cx.now() > drawn.0)
    })
}

#[windlass::test]
async fn time_and_chance_are_the_same_whenever_the_function_is_run_again(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let flow = || function("dice", dice);
    let engine = lab.engine().resource(tally.clone()).workflow(flow()).launch().await?;
    assert!(engine.start(flow(), ()).await?.await?);
    let all = tally.all();
    assert!(all.len() > 1 && all.iter().all(|drawn| *drawn == all[0]), "{all:?}");
    Ok(())
}
