//! Ended runs: how long they are kept, who may look at them last, and how they are thrown away by hand.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::Value;
use windlass::{Bulk, Error, Retention, RunState, prelude::*, testing::Lab};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

#[workflow]
mod half {
    use super::*;

    #[task(retry(attempts = 1))]
    pub async fn divide(input: u32) -> Result<u32> {
        if input.is_multiple_of(2) { Ok(input / 2) } else { Err(Failure::permanent("it is odd")) }
    }
}

#[flow]
async fn child(cx: &Flow, input: u32) -> Result<u32> {
    cx.sleep(HOUR).await?;
    Ok(input / 2)
}

#[flow]
async fn parent(cx: &Flow, input: u32) -> Result<u32> {
    cx.run(child::workflow(), input).await
}

async fn state(run: &Run<u32>) -> Option<RunState> {
    run.status().await.ok().map(|status| status.state)
}

#[windlass::test]
async fn a_run_goes_when_its_time_is_over_and_each_state_has_its_own(lab: Lab) -> Result<()> {
    let retention = Retention::forever().completed(HOUR).failed(3 * HOUR);
    let engine = lab.engine().retention(retention).workflow(half::workflow()).launch().await?;
    let [done, failed] = [engine.start(half::workflow(), 2).await?, engine.start(half::workflow(), 1).await?];
    let cancelled = engine.start(half::workflow(), 4).delay(HOUR).await?;
    cancelled.cancel("nobody wants it").await?;
    lab.advance(HOUR - MINUTE).await;
    assert_eq!(state(&done).await, Some(RunState::Completed));
    lab.advance(3 * MINUTE).await;
    assert_eq!(state(&done).await, None);
    assert_eq!(state(&failed).await, Some(RunState::Failed));
    lab.advance(2 * HOUR).await;
    assert_eq!(state(&failed).await, None);
    lab.advance(100 * HOUR).await;
    assert_eq!(state(&cancelled).await, Some(RunState::Cancelled));
    Ok(())
}

#[windlass::test]
async fn nothing_goes_within_the_first_hour_whatever_is_said(lab: Lab) -> Result<()> {
    let retention = Retention::all(Duration::ZERO);
    let engine = lab.engine().retention(retention).workflow(half::workflow()).launch().await?;
    let run = engine.start(half::workflow(), 2).await?;
    lab.advance(HOUR - MINUTE).await;
    assert_eq!(state(&run).await, Some(RunState::Completed));
    lab.advance(3 * MINUTE).await;
    assert_eq!(state(&run).await, None);
    Ok(())
}

#[windlass::test]
async fn a_run_is_kept_as_long_as_its_key_was_promised(lab: Lab) -> Result<()> {
    let engine = lab.engine().retention(Retention::all(HOUR)).workflow(half::workflow()).launch().await?;
    let start = || engine.start(half::workflow(), 2).key("order-7").key_for(10 * HOUR);
    let run = start().await?;
    lab.advance(9 * HOUR).await;
    assert_eq!(start().await?.id(), run.id());
    lab.advance(2 * HOUR).await;
    assert_eq!(state(&run).await, None);
    assert_ne!(start().await?.id(), run.id());
    Ok(())
}

#[windlass::test]
async fn whoever_awaits_a_run_that_is_discarded_is_told(lab: Lab) -> Result<()> {
    let engine = || lab.engine().workflow(half::workflow()).poll(MINUTE);
    let (first, second) = (engine().launch().await?, engine().launch().await?);
    let run = first.start(half::workflow(), 2).delay(HOUR).await?;
    let elsewhere = second.run(&half::workflow(), run.id());
    let awaited = tokio::spawn(elsewhere);
    lab.advance(MINUTE).await;
    lab.cut_off(&second);
    run.cancel("nobody wants it").await?;
    run.discard("nobody will ask").await?;
    lab.reconnect(&second);
    lab.advance(10 * MINUTE).await;
    assert!(awaited.is_finished());
    assert_eq!(awaited.await.unwrap().unwrap_err().code(), "unknown_run");
    Ok(())
}

#[windlass::test]
async fn a_run_that_was_retried_is_kept_from_its_last_end_on(lab: Lab) -> Result<()> {
    let engine = lab.engine().retention(Retention::all(HOUR)).workflow(half::workflow()).launch().await?;
    let mut run = engine.start(half::workflow(), 1).await?;
    lab.advance(HOUR - MINUTE).await;
    run.retry().await?;
    lab.advance(HOUR - 2 * MINUTE).await;
    assert_eq!(state(&run).await, Some(RunState::Failed));
    lab.advance(5 * MINUTE).await;
    assert_eq!(state(&run).await, None);
    Ok(())
}

#[windlass::test]
async fn what_a_live_run_has_still_to_hear_of_is_kept(lab: Lab) -> Result<()> {
    let engine = lab
        .engine()
        .retention(Retention::all(Duration::ZERO))
        .workflow(child::workflow())
        .workflow(parent::workflow())
        .launch()
        .await?;
    let run = engine.start(parent::workflow(), 8).await?;
    lab.advance(MINUTE).await;
    run.pause().await?;
    lab.advance(10 * HOUR).await;
    assert_eq!(engine.runs().completed().list().await?.len(), 1, "the child has ended");
    run.resume().await?;
    assert_eq!(run.await?, 4);
    lab.advance(2 * HOUR).await;
    assert!(engine.runs().list().await?.is_empty());
    Ok(())
}

#[windlass::test]
async fn a_thousand_old_runs_go_in_portions_and_live_ones_stay(lab: Lab) -> Result<()> {
    let engine = lab.engine().retention(Retention::all(HOUR)).workflow(half::workflow()).launch().await?;
    engine.start_many(half::workflow(), (0..1000).map(|n| n * 2)).await?;
    let waits = engine.start(half::workflow(), 2).delay(10 * HOUR).await?;
    lab.advance(MINUTE).await;
    assert_eq!(engine.runs().completed().limit(5000).list().await?.len(), 1000);
    lab.advance(2 * HOUR).await;
    let left: Vec<_> = engine.runs().list().await?.iter().map(|run| run.id).collect();
    assert_eq!(left, [waits.id()]);
    Ok(())
}

#[windlass::test]
async fn of_two_processes_one_discards_and_the_other_takes_its_place(lab: Lab) -> Result<()> {
    let archived = Arc::new(Mutex::new(Vec::new()));
    let engine = |name: &'static str| {
        let archived = Arc::clone(&archived);
        lab.engine().retention(Retention::all(HOUR)).workflow(half::workflow()).archive(move |run: Value| {
            archived.lock().push((name, run["input"].clone()));
            async { Ok(()) }
        })
    };
    let (first, second) = (engine("first").launch().await?, engine("second").launch().await?);
    first.start(half::workflow(), 2).await?.await?;
    lab.advance(2 * HOUR).await;
    assert_eq!(*archived.lock(), [("first", 2.into())]);
    first.stop().await?;
    second.start(half::workflow(), 4).await?.await?;
    lab.advance(2 * HOUR).await;
    assert_eq!(*archived.lock(), [("first", 2.into()), ("second", 4.into())]);
    Ok(())
}

#[windlass::test]
async fn the_archive_gets_the_whole_run_before_it_goes(lab: Lab) -> Result<()> {
    let archived = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&archived);
    let engine = lab
        .engine()
        .retention(Retention::all(HOUR))
        .workflow(half::workflow())
        .archive(move |run| {
            keep.lock().push(run);
            async { Ok(()) }
        })
        .launch()
        .await?;
    let run = engine.start(half::workflow(), 42).key("the answer").tag("eu").await?;
    let by_hand = {
        lab.advance(MINUTE).await;
        run.export().await?
    };
    lab.advance(2 * HOUR).await;
    let archived = std::mem::take(&mut *archived.lock());
    assert_eq!(archived, [by_hand]);
    let [document] = &archived[..] else { panic!("one run") };
    assert_eq!(document["id"], run.id().to_string());
    assert_eq!((&document["workflow"], &document["state"]), (&"half".into(), &"Completed".into()));
    assert_eq!((&document["input"], &document["output"]), (&42.into(), &21.into()));
    assert_eq!((&document["key"], &document["tags"][0]), (&"the answer".into(), &"eu".into()));
    let step = &document["steps"][0];
    assert_eq!(
        (&step["name"], &step["output"], &step["kind"]),
        (&"divide".into(), &21.into(), &"Completed".into())
    );
    Ok(())
}

#[windlass::test]
async fn a_run_that_cannot_be_archived_is_kept_and_tried_again(lab: Lab) -> Result<()> {
    let (is_full, asked) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicUsize::new(0)));
    let (disk, times) = (Arc::clone(&is_full), Arc::clone(&asked));
    let engine = lab
        .engine()
        .retention(Retention::all(HOUR))
        .workflow(half::workflow())
        .archive(move |_| {
            let (number, is_full) = (times.fetch_add(1, Ordering::SeqCst), disk.load(Ordering::SeqCst));
            async move {
                assert!(number > 0, "the first time it panics");
                if is_full { Err(Failure::new("disk full")) } else { Ok(()) }
            }
        })
        .launch()
        .await?;
    let run = engine.start(half::workflow(), 2).await?;
    lab.advance(2 * HOUR).await;
    assert!(asked.load(Ordering::SeqCst) > 1);
    assert_eq!(state(&run).await, Some(RunState::Completed));
    assert_eq!(run.discard("by hand").await.unwrap_err().code(), "not_discardable");
    is_full.store(false, Ordering::SeqCst);
    lab.advance(2 * HOUR).await;
    assert_eq!(state(&run).await, None);
    Ok(())
}

#[windlass::test]
async fn dead_letters_are_listed_retried_and_discarded_by_filter(lab: Lab) -> Result<()> {
    let engine = lab.engine().workflow(half::workflow()).launch().await?;
    for input in 0..10 {
        engine.start(half::workflow(), input).tag(if input < 4 { "old" } else { "new" }).await?;
    }
    lab.advance(MINUTE).await;
    let dead = || engine.runs().dead();
    assert_eq!(dead().list().await?.len(), 5);
    assert_eq!(dead().tag("old").retry_all().await?, Bulk { done: 2, passed_over: 0 });
    lab.advance(MINUTE).await;
    assert_eq!(dead().tag("old").discard_all("they are odd").await?, Bulk { done: 2, passed_over: 0 });
    assert_eq!(dead().list().await?.len(), 3);
    assert_eq!(engine.runs().list().await?.len(), 8);
    assert_eq!(engine.runs().running().discard_all("nothing runs").await?, Bulk::default());
    Ok(())
}

#[windlass::test]
async fn a_run_that_has_not_ended_cannot_be_discarded(lab: Lab) -> Result<()> {
    let engine = lab.engine().workflow(half::workflow()).launch().await?;
    let mut run = engine.start(half::workflow(), 1).delay(HOUR).key("one").await?;
    let error = run.discard("too early").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("run {} cannot be discarded: it is Pending; cancel it first, or wait for its end", run.id())
    );
    lab.advance(2 * HOUR).await;
    run.retry().await?;
    lab.advance(MINUTE).await;
    run.discard("it is odd").await?;
    assert!(matches!(run.discard("again").await, Err(Error::UnknownRun(_))));
    assert!(matches!(run.retry().await, Err(Error::UnknownRun(_))));
    // Its key is free again.
    let again = engine.start(half::workflow(), 2).key("one").await?;
    assert_ne!(again.id(), run.id());
    assert_eq!(again.await?, 1);
    Ok(())
}
