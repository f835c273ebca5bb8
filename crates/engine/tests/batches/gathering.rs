//! When a run is started, and with what.

use serde::{Deserialize, Serialize};
use windlass::{
    Error,
    machine::MachineState,
    prelude::*,
    store::{Call, Memory, Moment, Side, Verdict},
    testing::Lab,
};

use crate::world::*;

#[windlass::test]
async fn enough_items_go_at_once_in_the_order_in_which_they_came(lab: Lab) -> Result<()> {
    let diary = Diary::default();
    let engine = with_index(lab.engine(), &diary).launch().await?;
    engine.batch("index", index::workflow()).size(3).age(secs(60)).await?;
    let index = engine.batches().get("index").await?;
    for item in 0..7 {
        index.add(item).await?;
    }
    lab.advance(millis(200)).await;
    assert_eq!(diary.batches(), [[0, 1, 2], [3, 4, 5]]);
    let status = index.status().await?;
    assert_eq!((status.waiting, status.runs, status.items), (1, 2, 6));
    assert_eq!(status.last_run.map(|last| last.items), Some(3));
    assert_eq!(status.next_due, status.oldest.map(|oldest| oldest + secs(60)));
    Ok(())
}

#[windlass::test]
async fn the_rest_goes_when_the_oldest_has_waited_long_enough(lab: Lab) -> Result<()> {
    let diary = Diary::default();
    let engine = with_index(lab.engine(), &diary).launch().await?;
    engine.batch("index", index::workflow()).size(100).age(secs(5)).await?;
    let index = engine.batches().get("index").await?;
    index.add(1).await?;
    lab.advance(secs(4)).await;
    index.add(2).await?;
    lab.advance(millis(999)).await;
    assert!(diary.batches().is_empty());
    lab.advance(millis(2)).await;
    assert_eq!(diary.batches(), [[1, 2]]);
    let last = index.status().await?.last_run.expect("a run was started");
    let started = engine.runs().workflow("index").list().await?;
    assert_eq!((last.run, last.items, last.at), (started[0].id, 2, started[0].created_at));
    assert_eq!(index.status().await?.next_due, None);
    lab.advance(secs(3_600)).await;
    assert_eq!(diary.batches().len(), 1, "nothing waits, nothing is started");
    Ok(())
}

#[windlass::test]
async fn many_items_at_once_are_cut_into_batches(lab: Lab) -> Result<()> {
    let diary = Diary::default();
    let engine = with_index(lab.engine(), &diary).launch().await?;
    engine.batch("index", index::workflow()).size(100).age(secs(5)).await?;
    engine.batches().get("index").await?.add_many(0..2_550).await?;
    lab.advance(secs(6)).await;
    let sizes: Vec<usize> = diary.batches().iter().map(Vec::len).collect();
    assert_eq!(sizes.iter().filter(|size| **size == 100).count(), 25);
    assert_eq!(sizes.iter().sum::<usize>(), 2_550);
    assert_each_once(&diary.batches(), 2_550);
    Ok(())
}

#[windlass::test]
async fn a_batch_is_cut_earlier_when_its_items_are_too_long_together(lab: Lab) -> Result<()> {
    let diary = Diary::default();
    let engine = with_index(lab.engine(), &diary).payload_limit(1_000).launch().await?;
    engine.batch("index", index::workflow()).size(10_000).age(secs(5)).await?;
    // Each takes ten bytes with its comma.
    let index = engine.batches().get("index").await?;
    index.add_many(100_000_000..100_000_250).await?;
    lab.advance(secs(1)).await;
    let sizes: Vec<usize> = diary.batches().iter().map(Vec::len).collect();
    assert_eq!(sizes, [99, 99], "the rest has room");
    lab.advance(secs(5)).await;
    assert_eq!(diary.batches().concat().len(), 250);
    Ok(())
}

#[windlass::test]
async fn an_item_that_no_run_could_get_is_refused_before_anything_is_stored(lab: Lab) -> Result<()> {
    let engine = with_index(lab.engine(), &Diary::default()).payload_limit(1_000).launch().await?;
    engine.batch("index", index::workflow()).await?;
    let index = engine.batches().get::<String>("index").await?;
    let refused = index.add_many(["short".to_owned(), "x".repeat(997)]).await;
    assert!(matches!(refused, Err(Error::PayloadTooLarge { size: 1_001, .. })), "{refused:?}");
    assert!(matches!(index.add("k".into()).key("k".repeat(501)).await, Err(Error::Invalid(_))));
    assert!(matches!(index.add("k".into()).key("").await, Err(Error::Invalid(_))));
    assert_eq!(index.status().await?.waiting, 0);
    index.add("x".repeat(996)).await?;
    assert_eq!(index.status().await?.waiting, 1);
    Ok(())
}

#[flow]
async fn gathered(cx: &Flow, items: Vec<u32>) -> Result<u32> {
    cx.step("sum", || async { Ok::<_, Failure>(items.iter().sum()) }).await
}

#[derive(MachineState, Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Stage {
    Begun,
    Done,
}

struct Sorter;

#[machine(state = Stage, data = Vec<u32>, initial = Begun, terminal = [Done])]
impl Sorter {
    #[on(Begun, to = [Done])]
    async fn sort(&self, data: &mut Vec<u32>) -> Result<Stage> {
        data.sort_unstable();
        data.dedup();
        Ok(Stage::Done)
    }
}

#[windlass::test]
async fn durable_functions_and_machines_take_batches_too(lab: Lab) -> Result<()> {
    let engine = lab.engine().resource(Sorter).workflow(gathered::workflow()).workflow(Sorter::workflow());
    let engine = engine.launch().await?;
    engine.batch("sum", gathered::workflow()).size(2).await?;
    engine.batch("sort", Sorter::workflow()).size(2).await?;
    engine.batches().get("sum").await?.add_many([20_u32, 22]).await?;
    engine.batches().get("sort").await?.add_many([2_u32, 1]).await?;
    lab.advance(secs(1)).await;
    let run = |list: Vec<windlass::store::RunSummary>| list[0].id;
    let sum = run(engine.runs().workflow("gathered").list().await?);
    assert_eq!(engine.run(&gathered::workflow(), sum).await?, 42);
    assert_eq!(engine.runs().completed().list().await?.len(), 2);
    Ok(())
}

#[windlass::test]
async fn its_runs_are_started_as_it_says(lab: Lab) -> Result<()> {
    let engine = with_index(lab.engine(), &Diary::default()).serve(["slow"]).launch().await?;
    let batch = engine.batch("index", index::workflow()).size(1).queue("slow").priority(2).tag("nightly");
    batch.timeout(secs(9)).await?;
    engine.batches().get("index").await?.add(1_u32).await?;
    lab.advance(secs(1)).await;
    let runs = engine.runs().queue("slow").tag("nightly").list().await?;
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0].priority, 2);
    Ok(())
}

/// Ten thousand items one after the other: what it costs is bounded by the items' own commits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_that_come_in_a_stream_do_not_take_a_turn_each() -> Result<()> {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };
    let begun = std::time::Instant::now();
    let store = Memory::new(move || windlass::Time(1_767_225_600_000_000) + begun.elapsed());
    let claims = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&claims);
    store.on_call(move |Moment { call, side, .. }| {
        if *call == Call::Claim && *side == Side::After {
            counted.fetch_add(1, Ordering::Relaxed);
        }
        Verdict::Proceed
    });
    let engine = with_index(Engine::over(Arc::new(store)), &Diary::default()).launch().await?;
    engine.batch("index", index::workflow()).size(100).age(secs(1)).await?;
    let index = engine.batches().get("index").await?;
    for item in 0..10_000_u32 {
        index.add(item).await?;
    }
    until_taken(&engine, "index", 10_000).await?;
    assert_each_once(&inputs(&engine).await?, 10_000);
    let claims = claims.load(Ordering::Relaxed);
    assert!(claims < 3_000, "{claims} claims for 10,000 items");
    engine.stop().await?;
    Ok(())
}
