//! Turns that fail: a batch is put off, says why, and goes on by itself.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use bytes::Bytes;
use windlass::{Codec, CodecError, batch::Leftover, prelude::*, testing::Lab};

use crate::world::*;

/// Reads nothing while it is in a mood.
#[derive(Clone, Default)]
struct Moody(Arc<AtomicBool>);

impl Codec for Moody {
    fn encode(&self, json: Bytes) -> Result<Bytes, CodecError> {
        Ok(json)
    }

    fn decode(&self, kept: Bytes) -> Result<Bytes, CodecError> {
        let is_item = kept.len() == 1;
        if is_item && self.0.load(Ordering::Relaxed) { Err(CodecError::new("no key")) } else { Ok(kept) }
    }
}

#[windlass::test]
async fn items_that_cannot_be_read_for_a_while_go_when_they_can(lab: Lab) -> Result<()> {
    let (diary, codec) = (Diary::default(), Moody::default());
    let engine = with_index(lab.engine(), &diary).codec(codec.clone()).launch().await?;
    engine.batch("index", index::workflow()).size(2).age(secs(5)).await?;
    let index = engine.batches().get("index").await?;
    codec.0.store(true, Ordering::Relaxed);
    index.add_many([1, 2, 3]).await?;
    lab.advance(secs(10)).await;
    let status = index.status().await?;
    assert!(status.trouble.is_some_and(|trouble| trouble.contains("no key")));
    assert_eq!(status.waiting, 3);
    codec.0.store(false, Ordering::Relaxed);
    lab.advance(secs(20)).await;
    assert_eq!(diary.batches(), [vec![1, 2], vec![3]]);
    assert_eq!(index.status().await?.trouble, None);
    Ok(())
}

/// Does not read twos while it has no key for them.
#[derive(Clone, Default)]
struct Blind(Arc<AtomicBool>);

impl Codec for Blind {
    fn encode(&self, json: Bytes) -> Result<Bytes, CodecError> {
        Ok(json)
    }

    fn decode(&self, kept: Bytes) -> Result<Bytes, CodecError> {
        if kept == "2" && self.0.load(Ordering::Relaxed) { Err(CodecError::new("no key")) } else { Ok(kept) }
    }
}

#[windlass::test]
async fn an_item_that_cannot_be_read_stays_behind_and_goes_once_when_it_can(lab: Lab) -> Result<()> {
    let (diary, codec) = (Diary::default(), Blind::default());
    let engine = with_index(lab.engine(), &diary).codec(codec.clone()).launch().await?;
    engine.batch("index", index::workflow()).size(100).age(secs(5)).await?;
    let index = engine.batches().get("index").await?;
    codec.0.store(true, Ordering::Relaxed);
    index.add_many([1, 2, 3]).await?;
    lab.advance(secs(6)).await;
    assert_eq!(diary.batches(), [[1, 3]], "the others go");
    let status = index.status().await?;
    assert_eq!(status.waiting, 1);
    assert!(status.trouble.is_some_and(|trouble| trouble.contains("no key")));
    index.add(4).await?;
    lab.advance(secs(6)).await;
    assert_eq!(diary.batches()[1..], [[4]]);
    index.pause("to see whether it is still known").await?;
    codec.0.store(false, Ordering::Relaxed);
    lab.advance(secs(600)).await;
    index.pause("still").await?;
    lab.advance(secs(1)).await;
    assert_eq!(index.status().await?.waiting, 1);
    index.resume().await?;
    lab.advance(secs(1)).await;
    assert_eq!(diary.batches()[2..], [[2]]);
    assert_eq!(index.status().await?.trouble, None);
    Ok(())
}

#[windlass::test]
async fn an_item_that_nobody_will_ever_read_is_discarded_as_others_are(lab: Lab) -> Result<()> {
    let (diary, codec) = (Diary::default(), Blind::default());
    let engine = with_index(lab.engine(), &diary).codec(codec.clone()).launch().await?;
    engine.batch("index", index::workflow()).size(100).age(secs(5)).await?;
    let index = engine.batches().get("index").await?;
    codec.0.store(true, Ordering::Relaxed);
    index.add(2).await?;
    lab.advance(secs(6)).await;
    index.remove(Leftover::Discard).await?;
    lab.advance(secs(600)).await;
    engine.batch("index", index::workflow()).size(100).age(secs(5)).await?;
    let status = index.status().await?;
    assert_eq!((status.waiting, status.trouble), (0, None));
    Ok(())
}

/// A program of a later release: what it writes has another format.
#[derive(Clone)]
struct Newer;

fn swap(bytes: &Bytes, from: &str, to: &str) -> Bytes {
    String::from_utf8_lossy(bytes).replace(from, to).into()
}

impl Codec for Newer {
    fn encode(&self, json: Bytes) -> Result<Bytes, CodecError> {
        Ok(swap(&json, "\"format\":1", "\"format\":2"))
    }

    fn decode(&self, kept: Bytes) -> Result<Bytes, CodecError> {
        Ok(swap(&kept, "\"format\":2", "\"format\":1"))
    }
}

#[windlass::test]
async fn what_a_newer_program_wrote_is_left_to_it(lab: Lab) -> Result<()> {
    let diary = Diary::default();
    let newer = with_index(lab.engine(), &diary).codec(Newer).launch().await?;
    newer.batch("index", index::workflow()).size(10).age(secs(60)).await?;
    newer.batches().get("index").await?.add_many([1, 2, 3]).await?;
    lab.crash(&newer);
    let older = with_index(lab.engine(), &diary).codec(Moody::default()).launch().await?;
    lab.advance(secs(120)).await;
    assert!(diary.batches().is_empty(), "it does not know what it would do");
    let said = older.batches().get::<u32>("index").await.expect_err("it cannot be read").to_string();
    assert!(said.contains("written by a newer program, in format 2"), "{said}");
    older.stop().await?;
    let _newer = with_index(lab.engine(), &diary).codec(Newer).launch().await?;
    lab.advance(secs(600)).await;
    assert_eq!(diary.batches(), [[1, 2, 3]]);
    Ok(())
}
