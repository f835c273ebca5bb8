//! Each item is in exactly one run, whatever happens.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::Notify;
use windlass::{
    Client, Compressed, Time,
    batch::Declared,
    prelude::*,
    store::{Call, Memory, Moment, Side, Store, Verdict},
    testing::Lab,
};

use crate::world::*;

#[windlass::test]
async fn a_crash_at_any_boundary_neither_loses_an_item_nor_takes_it_twice(lab: Lab) -> Result<()> {
    let boundaries = lab
        .crash_everywhere(|engine| async move {
            let engine = with_index(engine, &Diary::default()).launch().await?;
            let declared = engine.batch("index", index::workflow()).size(3).age(secs(5)).await?;
            assert!(!matches!(declared, Declared::Updated { .. }));
            let index = engine.batches().get("index").await?;
            for item in 0..4_u32 {
                index.add(item).key(item.to_string()).await?;
            }
            index.add_many(4..8).keys(ToString::to_string).await?;
            while index.status().await?.items < 8 {
                tokio::time::sleep(secs(1)).await;
            }
            assert_each_once(&inputs(&engine).await?, 8);
            Ok::<_, Failure>(())
        })
        .await?;
    assert!(boundaries > 20, "{boundaries}");
    Ok(())
}

#[windlass::test]
async fn two_engines_share_a_batch_and_go_on_without_each_other(lab: Lab) -> Result<()> {
    let diary = Diary::default();
    let first = with_index(lab.engine(), &diary).launch().await?;
    let second = with_index(lab.engine(), &diary).launch().await?;
    first.batch("index", index::workflow()).size(10).age(secs(1)).await?;
    let (one, two) = (first.batches().get("index").await?, second.batches().get("index").await?);
    for item in 0..50 {
        if item % 2 == 0 {
            one.add(item).await?
        } else {
            two.add(item).await?
        };
        lab.advance(millis(7)).await;
    }
    lab.crash(&first);
    for item in 50..100 {
        two.add(item).await?;
        lab.advance(millis(7)).await;
    }
    lab.advance(secs(2)).await;
    assert_each_once(&inputs(&second).await?, 100);
    Ok(())
}

#[windlass::test]
async fn an_outage_while_a_batch_is_due_is_made_up_for(lab: Lab) -> Result<()> {
    let diary = Diary::default();
    let engine = with_index(lab.engine(), &diary).launch().await?;
    engine.batch("index", index::workflow()).size(10).age(secs(10)).await?;
    engine.batches().get("index").await?.add_many(0..5_u32).await?;
    lab.advance(secs(9)).await;
    lab.cut_off(&engine);
    lab.advance(secs(5)).await;
    lab.reconnect(&engine);
    lab.advance(secs(5)).await;
    assert_eq!(diary.batches(), [[0, 1, 2, 3, 4]]);
    Ok(())
}

/// Every third answer to a commit is lost: what was written is written again, and is there once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_answer_is_lost_takes_no_item_twice() -> Result<()> {
    let begun = std::time::Instant::now();
    let store = Memory::new(move || Time(1_767_225_600_000_000) + begun.elapsed());
    let commits = AtomicUsize::new(0);
    store.on_call(move |Moment { call, side, .. }| match (call, side) {
        (Call::Commit, Side::After) if commits.fetch_add(1, Ordering::Relaxed).is_multiple_of(3) => {
            Verdict::Unavailable
        }
        _ => Verdict::Proceed,
    });
    let engine = with_index(Engine::over(Arc::new(store)), &Diary::default()).launch().await?;
    engine.batch("index", index::workflow()).size(7).age(millis(20)).await?;
    let index = engine.batches().get("index").await?;
    for item in 0..100_u32 {
        if item % 2 == 0 {
            index.add(item).key(item.to_string()).await?
        } else {
            index.add(item).await?
        };
    }
    until_taken(&engine, "index", 100).await?;
    assert_each_once(&inputs(&engine).await?, 100);
    engine.stop().await?;
    Ok(())
}

/// The answer to an order is lost, somebody else says otherwise meanwhile, and then the order is sent again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_whose_answer_is_lost_does_not_undo_what_was_told_since() -> Result<()> {
    const SOUND: usize = 0;
    const LOSES_ONE: usize = 1;
    const AWAY: usize = 2;
    let begun = std::time::Instant::now();
    let store = Memory::new(move || Time(1_767_225_600_000_000) + begun.elapsed());
    let (line, lost) = (Arc::new(AtomicUsize::new(SOUND)), Arc::new(Notify::new()));
    let (trap, heard) = (Arc::clone(&line), Arc::clone(&lost));
    store.on_call(move |Moment { call, side, node }| match (call, side, node, trap.load(Ordering::SeqCst)) {
        (Call::Commit, Side::After, None, LOSES_ONE) => {
            trap.store(AWAY, Ordering::SeqCst);
            heard.notify_one();
            Verdict::Unavailable
        }
        (Call::Commit, Side::Before, None, AWAY) => Verdict::Unavailable,
        _ => Verdict::Proceed,
    });
    let store: Arc<dyn Store> = Arc::new(store);
    let engine = with_index(Engine::over(Arc::clone(&store)), &Diary::default()).launch().await?;
    let client = Client::over(store, Arc::new(Compressed::default())).await?;
    engine.batch("index", index::workflow()).size(100).age(secs(3_600)).await?;
    let (here, there) =
        (engine.batches().get::<u32>("index").await?, client.batches().get::<u32>("index").await?);
    line.store(LOSES_ONE, Ordering::SeqCst);
    let pausing = tokio::spawn(async move { there.pause("for a moment").await });
    lost.notified().await;
    here.resume().await?;
    line.store(SOUND, Ordering::SeqCst);
    pausing.await??;
    assert_eq!(here.status().await?.paused, None);
    engine.stop().await?;
    Ok(())
}
