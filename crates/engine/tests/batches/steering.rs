//! Flushing, pausing and removing batches.

use windlass::{batch::Leftover, prelude::*, testing::Lab};

use crate::world::*;

#[windlass::test]
async fn a_flush_starts_a_run_with_what_waits(lab: Lab) -> Result<()> {
    let diary = Diary::default();
    let engine = with_index(lab.engine(), &diary).launch().await?;
    engine.batch("index", index::workflow()).size(100).age(secs(3_600)).await?;
    let index = engine.batches().get("index").await?;
    index.flush().await?;
    index.add_many([1, 2, 3]).await?;
    lab.advance(secs(1)).await;
    assert!(diary.batches().is_empty(), "what comes after a flush waits");
    index.flush().await?;
    let status = index.status().await?;
    assert!(status.next_due <= Some(lab.now()), "{status:?}");
    lab.advance(secs(1)).await;
    assert_eq!(diary.batches(), [[1, 2, 3]]);
    assert_eq!(index.status().await?.waiting, 0);
    Ok(())
}

#[windlass::test]
async fn a_paused_batch_takes_items_and_starts_nothing_until_it_is_resumed(lab: Lab) -> Result<()> {
    let diary = Diary::default();
    let engine = with_index(lab.engine(), &diary).launch().await?;
    engine.batch("index", index::workflow()).size(2).age(secs(5)).await?;
    let index = engine.batches().get("index").await?;
    index.pause("the index is moved").await?;
    index.add_many([1, 2, 3]).await?;
    lab.advance(secs(60)).await;
    let status = index.status().await?;
    assert_eq!((status.paused.as_deref(), status.waiting), (Some("the index is moved"), 3));
    assert_eq!(status.next_due, None);
    assert!(diary.batches().is_empty());
    index.flush().await?;
    lab.advance(secs(1)).await;
    assert_eq!(diary.batches(), [vec![1, 2], vec![3]], "a flush passes through");
    index.add_many([4, 5]).await?;
    index.resume().await?;
    lab.advance(secs(1)).await;
    assert_eq!(diary.batches()[2..], [[4, 5]]);
    assert!(index.pause("x".repeat(1_001)).await.is_err());
    Ok(())
}

#[windlass::test]
async fn removing_starts_what_waits_or_throws_it_away_as_it_is_told(lab: Lab) -> Result<()> {
    let diary = Diary::default();
    let engine = with_index(lab.engine(), &diary).launch().await?;
    for (name, leftover) in [("kept", Leftover::Start), ("dropped", Leftover::Discard)] {
        engine.batch(name, index::workflow()).size(100).age(secs(60)).await?;
        let batch = engine.batches().get(name).await?;
        let number = u32::from(name == "kept");
        batch.add_many([number, number]).await?;
        batch.pause("it is about to go").await?;
        batch.remove(leftover).await?;
    }
    lab.advance(secs(120)).await;
    assert_eq!(diary.batches(), [[1, 1]]);
    Ok(())
}

/// A handle that has looked just before the removal may still add: what was acknowledged is in a run.
#[windlass::test]
async fn what_is_added_while_a_batch_is_removed_is_not_lost(lab: Lab) -> Result<()> {
    let diary = Diary::default();
    let engine = with_index(lab.engine(), &diary).launch().await?;
    engine.batch("index", index::workflow()).size(100).age(secs(5)).await?;
    let one = engine.batches().get::<u32>("index").await?;
    let other = engine.batches().get("index").await?;
    one.remove(Leftover::Discard).await?;
    other.add(1_u32).await?;
    lab.advance(secs(6)).await;
    assert_eq!(diary.batches(), [[1]]);
    assert!(other.add(2).await.is_err(), "it has looked again");
    Ok(())
}

#[windlass::test]
async fn the_key_of_a_discarded_item_may_be_used_again(lab: Lab) -> Result<()> {
    let diary = Diary::default();
    let engine = with_index(lab.engine(), &diary).launch().await?;
    for wait in [secs(0), secs(1)] {
        let declare = || engine.batch("index", index::workflow()).size(100).age(secs(5));
        declare().await?;
        let index = engine.batches().get("index").await?;
        index.add(1).key("one").await?;
        lab.advance(wait).await;
        index.remove(Leftover::Discard).await?;
        lab.advance(wait).await;
        declare().await?;
        for item in [2, 3] {
            index.add(item).key("one").await?;
        }
        lab.advance(secs(6)).await;
        index.remove(Leftover::Discard).await?;
    }
    assert_eq!(diary.batches(), [[2], [2]], "what was thrown away is no repeat's first");
    Ok(())
}

#[windlass::test]
async fn the_same_key_is_one_item_also_after_that_has_gone(lab: Lab) -> Result<()> {
    let diary = Diary::default();
    let engine = with_index(lab.engine(), &diary).launch().await?;
    engine.batch("index", index::workflow()).size(2).age(secs(5)).await?;
    let index = engine.batches().get("index").await?;
    for _ in 0..3 {
        index.add(1).key("one").await?;
    }
    assert_eq!(index.status().await?.waiting, 1);
    index.add_many([1, 2, 3]).keys(|item| if *item == 1 { "one".into() } else { item.to_string() }).await?;
    lab.advance(secs(6)).await;
    index.add(1).key("one").await?;
    lab.advance(secs(6)).await;
    assert_eq!(diary.batches(), [vec![1, 2], vec![3]]);
    Ok(())
}
