//! Declaring batches, again and again.

use windlass::{
    Client, Error,
    batch::{Declared, Leftover},
    prelude::*,
    testing::Lab,
};

use crate::world::*;

#[windlass::test]
async fn declaring_it_again_changes_nothing_or_says_what_changed(lab: Lab) -> Result<()> {
    let engine = with_index(lab.engine(), &Diary::default()).launch().await?;
    let declare = |size| engine.batch("index", index::workflow()).size(size).age(secs(5));
    assert_eq!(declare(10).await?, Declared::Created);
    assert_eq!(declare(10).await?, Declared::Unchanged);
    let what = vec!["the size was 10, and is 20".to_owned(), "the queue was the default, and is slow".into()];
    assert_eq!(declare(20).queue("slow").await?, Declared::Updated { what });
    assert_eq!(declare(20).queue("slow").await?, Declared::Unchanged, "also before it was taken in");
    lab.advance(secs(1)).await;
    assert_eq!(declare(20).queue("slow").await?, Declared::Unchanged);
    Ok(())
}

#[windlass::test]
async fn a_smaller_size_takes_what_waits(lab: Lab) -> Result<()> {
    let diary = Diary::default();
    let engine = with_index(lab.engine(), &diary).launch().await?;
    engine.batch("index", index::workflow()).size(100).age(secs(60)).await?;
    engine.batches().get("index").await?.add_many(0..5_u32).await?;
    lab.advance(secs(1)).await;
    engine.batch("index", index::workflow()).size(2).age(secs(60)).await?;
    lab.advance(secs(1)).await;
    assert_eq!(diary.batches(), [[0, 1], [2, 3]]);
    Ok(())
}

#[windlass::test]
async fn everything_that_is_wrong_is_said_at_once_and_nothing_is_stored(lab: Lab) -> Result<()> {
    let engine = with_index(lab.engine(), &Diary::default()).launch().await?;
    #[workflow]
    mod indexx {
        use windlass::prelude::*;

        #[task]
        pub async fn write(input: Vec<u32>) -> windlass::Result<Vec<u32>> {
            Ok(input)
        }
    }
    let batch = engine.batch("an index", indexx::workflow()).size(0).age(secs(0)).priority(10).tag("");
    let refused = batch.await.expect_err("nothing about it is right");
    let Error::Batch { problems, .. } = &refused else { panic!("{refused}") };
    assert_eq!(problems.len(), 6, "{refused}");
    assert!(refused.to_string().contains("did you mean `index`?"), "{refused}");
    let own = engine.batch("index", index::workflow()).queue("windlass").await;
    assert!(own.is_err_and(|refused| refused.to_string().contains("the engine's own")));
    assert!(engine.batch("index", index::workflow()).size(10_001).await.is_err());
    assert!(engine.batch("index", index::workflow()).size(10_000).await.is_ok());
    let unknown = engine.batches().get::<u32>("idnex").await.expect_err("there is none");
    assert_eq!(unknown.to_string(), "there is no batch `idnex`; did you mean `index`?");
    assert_eq!(unknown.code(), "unknown_batch");
    Ok(())
}

#[windlass::test]
async fn a_removed_name_may_be_declared_again(lab: Lab) -> Result<()> {
    let diary = Diary::default();
    let engine = with_index(lab.engine(), &diary).launch().await?;
    let declare = || engine.batch("index", index::workflow()).size(2);
    declare().await?;
    let index = engine.batches().get("index").await?;
    index.remove(Leftover::Start).await?;
    assert!(matches!(index.add(1_u32).await, Err(Error::UnknownBatch { .. })));
    assert!(matches!(index.status().await, Err(Error::UnknownBatch { .. })));
    assert!(engine.batches().list().await?.is_empty());
    assert_eq!(declare().await?, Declared::Created);
    index.add_many([1, 2]).await?;
    lab.advance(secs(1)).await;
    assert_eq!(diary.batches(), [[1, 2]]);
    assert_eq!(engine.batches().list().await?[0].name, "index");
    Ok(())
}

#[windlass::test]
async fn what_was_flushed_goes_as_it_was_declared_then(lab: Lab) -> Result<()> {
    let engine = with_index(lab.engine(), &Diary::default()).launch().await?;
    let declare = |tag| engine.batch("index", index::workflow()).size(100).age(secs(60)).tag(tag);
    declare("old").await?;
    let index = engine.batches().get("index").await?;
    for leftover in [None, Some(Leftover::Start)] {
        declare("old").await?;
        index.add_many([1_u32, 2]).await?;
        match leftover {
            None => index.flush().await?,
            Some(leftover) => index.remove(leftover).await?,
        }
        // All of it comes before the batch takes a turn.
        declare("new").await?;
        index.add(3).await?;
        assert_eq!(declare("new").await?, Declared::Unchanged);
        lab.advance(secs(61)).await;
    }
    for (tag, items) in [("old", [1, 2].as_slice()), ("new", &[3])] {
        let runs = engine.runs().tag(tag).list().await?;
        assert_eq!(runs.len(), 2, "{tag}");
        for run in runs {
            assert_eq!(engine.run(&index::workflow(), run.id).await?, items, "{tag}");
        }
    }
    Ok(())
}

#[windlass::test]
async fn a_client_declares_for_engines_that_come_later(lab: Lab) -> Result<()> {
    let diary = Diary::default();
    let first = lab.engine().launch().await?;
    let refused = first.batch("index", index::workflow()).await;
    assert!(matches!(refused, Err(Error::Batch { .. })), "an engine knows that nobody here has it");
    let second = with_index(lab.engine(), &diary).launch().await?;
    let client: &Client = &second;
    client.batch("index", index::workflow()).size(1).await?;
    first.batches().get("index").await?.add(7_u32).await?;
    lab.advance(secs(1)).await;
    assert_eq!(diary.batches(), [[7]]);
    Ok(())
}
