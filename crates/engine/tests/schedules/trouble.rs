//! Turns that fail: a schedule is put off, says why, and goes on by itself.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use windlass::{Codec, CodecError, Error, prelude::*, testing::Lab, trigger::Trigger};

use crate::world::*;

/// Cannot write or read what contains a word, while it has one.
#[derive(Clone, Default)]
struct Moody {
    unwritable: Arc<Mutex<Option<&'static str>>>,
    unreadable: Arc<Mutex<Option<&'static str>>>,
}

fn check(word: &Mutex<Option<&'static str>>, bytes: Bytes) -> Result<Bytes, CodecError> {
    match *word.lock() {
        Some(word) if String::from_utf8_lossy(&bytes).contains(word) => Err(CodecError::new("no key")),
        _ => Ok(bytes),
    }
}

impl Codec for Moody {
    fn encode(&self, json: Bytes) -> Result<Bytes, CodecError> {
        check(&self.unwritable, json)
    }

    fn decode(&self, kept: Bytes) -> Result<Bytes, CodecError> {
        check(&self.unreadable, kept)
    }
}

#[windlass::test]
async fn a_codec_that_fails_for_a_while_puts_a_schedule_off_and_no_more(lab: Lab) -> Result<()> {
    let (diary, codec) = (Diary::default(), Moody::default());
    let engine = with_job(lab.engine(), &diary).codec(codec.clone()).launch().await?;
    engine.schedule("poll").every(mins(10)).workflow(job::workflow(), takes(1)).await?;
    let poll = engine.schedules().get("poll").await?;
    lab.advance(secs(595)).await;
    *codec.unwritable.lock() = Some("");
    lab.advance(secs(10)).await;
    let trouble = poll.status().await?.trouble.expect("it has failed");
    assert!(trouble.contains("no key"), "{trouble}");
    *codec.unwritable.lock() = None;
    lab.advance(secs(10)).await;
    // It was tried after 1, 2 and 4 seconds.
    assert_eq!(diary.fires(), ["00:10 at 00:10:07"]);
    assert_eq!(poll.status().await?.trouble, None);
    lab.advance(mins(10)).await;
    assert_eq!(diary.fires()[1..], ["00:20"]);
    *codec.unreadable.lock() = Some("");
    assert!(engine.schedules().list().await?.is_empty(), "what cannot be read is left out");
    lab.advance(mins(10)).await;
    *codec.unreadable.lock() = None;
    lab.advance(mins(10)).await;
    assert_eq!(diary.fires().len(), 4, "{:?}", diary.fires());
    assert_eq!(engine.schedules().list().await?[0].trouble, None);
    Ok(())
}

#[windlass::test]
async fn what_cannot_be_read_for_a_while_is_done_when_it_can(lab: Lab) -> Result<()> {
    let (diary, codec) = (Diary::default(), Moody::default());
    let engine = with_job(lab.engine(), &diary).codec(codec.clone()).launch().await?;
    engine.schedule("poll").every(mins(10)).workflow(job::workflow(), takes(1)).await?;
    let poll = engine.schedules().get("poll").await?;
    *codec.unreadable.lock() = Some("stock-taking");
    poll.pause("stock-taking").await?;
    lab.advance(mins(5)).await;
    assert!(poll.status().await?.trouble.is_some());
    *codec.unreadable.lock() = None;
    lab.advance(mins(60)).await;
    let status = poll.status().await?;
    assert_eq!((status.paused.as_deref(), status.trouble), (Some("stock-taking"), None));
    assert!(diary.fires().is_empty());
    Ok(())
}

#[windlass::test]
async fn a_trigger_whose_turn_fails_is_put_off_too(lab: Lab) -> Result<()> {
    let (diary, codec) = (Diary::default(), Moody::default());
    let ask = |_| async { Ok(Fire::run(takes(1)).key("7")) };
    let engine = with_job(lab.engine(), &diary).codec(codec.clone());
    let engine = engine.trigger(Trigger::new("ask", job::workflow(), ask).every(secs(10))).launch().await?;
    lab.advance(secs(5)).await;
    *codec.unreadable.lock() = Some("");
    lab.advance(secs(6)).await;
    assert!(engine.runs().workflow("job").list().await?.is_empty());
    *codec.unreadable.lock() = None;
    assert!(engine.triggers().get("ask").await?.status().await?.trouble.is_some());
    lab.advance(secs(5)).await;
    assert_eq!(engine.runs().workflow("job").list().await?.len(), 1);
    Ok(())
}

/// A process is stopped a moment before its next time. The run ends a moment after it, and nobody is there until the
/// morning.
#[windlass::test]
async fn a_time_that_passed_while_a_run_ended_unheard_is_judged_by_the_clock_as_it_is(
    _lab: Lab,
) -> Result<()> {
    for (catch_up, expected) in
        [(CatchUp::Skip, vec!["00:10"]), (CatchUp::Latest, vec!["00:10", "08:10 at 08:15"])]
    {
        let (lab, diary) = (Lab::new(), Diary::default());
        let begun = lab.now();
        let engine = with_job(lab.engine(), &diary).launch().await?;
        let poll = engine.schedule("poll").every(mins(10)).catch_up(catch_up);
        poll.workflow(job::workflow(), takes(605)).await?;
        lab.advance(secs(1190)).await;
        engine.stop().await?;
        lab.advance(hours(8) + mins(15) - lab.now().since(begun)).await;
        let _engine = with_job(lab.engine(), &diary).launch().await?;
        lab.advance(secs(1)).await;
        assert_eq!(diary.fires(), expected, "{catch_up:?}");
    }
    Ok(())
}

#[windlass::test]
async fn long_words_are_cut_and_long_notes_are_refused(lab: Lab) -> Result<()> {
    let loud = Workflow::builder("loud")
        .task(Task::new("shout", |_| async { Err::<(), _>(Failure::permanent("a".repeat(100_000))) }))
        .build()?;
    let engine = lab.engine().workflow(loud.clone()).launch().await?;
    engine.schedule("poll").every(mins(10)).workflow(loud, serde_json::json!(null)).await?;
    lab.advance(mins(11)).await;
    let poll = engine.schedules().get("poll").await?;
    let longest = poll.history().await?.iter().map(|what| what.what.to_string().len()).max();
    assert!(longest.is_some_and(|longest| (1_000..1_200).contains(&longest)), "{longest:?}");
    let refused = poll.pause("a".repeat(1_001)).await;
    assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    poll.pause("a".repeat(1_000)).await?;
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
    let asked = || Trigger::new("look", job::workflow(), |_| async { Ok(Fire::run(takes(1))) });
    let with_all = || with_job(lab.engine(), &diary).trigger(asked().every(mins(10)));
    let newer = with_all().codec(Newer).launch().await?;
    newer.schedule("poll").every(mins(10)).workflow(job::workflow(), takes(1)).await?;
    lab.advance(mins(15)).await;
    assert_eq!(diary.fires(), ["00:10"]);
    lab.crash(&newer);
    let older = with_all().codec(Moody::default()).launch().await?;
    lab.advance(mins(30)).await;
    assert_eq!(diary.fires(), ["00:10"], "it does not know what it would do");
    assert_eq!(older.runs().list().await?.len(), 2, "nor does the trigger ask");
    let said = older.schedules().get("poll").await.expect_err("it cannot be read").to_string();
    assert!(said.contains("written by a newer program, in format 2"), "{said}");
    older.stop().await?;
    let newer = with_all().codec(Newer).launch().await?;
    lab.advance(mins(10)).await;
    assert_eq!(diary.fires()[1..], ["00:40 at 00:45:02", "00:50"], "the newer one goes on");
    assert!(newer.schedules().get("poll").await?.status().await?.runs >= 3);
    Ok(())
}
