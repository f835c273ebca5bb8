//! What happens when the key of a start is taken.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use windlass::{Error, IfTaken, RunState, prelude::*, testing::Lab};

const SECOND: Duration = Duration::from_secs(1);

/// What was indexed.
#[derive(Clone, Default)]
struct Index(Arc<Mutex<Vec<String>>>);

#[workflow]
mod reindex {
    use super::*;

    #[task]
    pub async fn index(input: String, index: Res<Index>) -> Result<String> {
        index.0.lock().push(input.clone());
        tokio::time::sleep(SECOND * 10).await;
        Ok(input)
    }
}

async fn launch(lab: &Lab, index: &Index) -> Result<Engine> {
    Ok(lab.engine().resource(index.clone()).workflow(reindex::workflow()).launch().await?)
}

async fn start(engine: &Engine, input: &str, then: IfTaken) -> windlass::Result<Run<String>, Error> {
    engine.start(reindex::workflow(), input.to_owned()).key("page-7").if_taken(then).await
}

#[windlass::test]
async fn a_start_is_rejected_while_a_run_with_its_key_is_live(lab: Lab) -> Result<()> {
    let engine = launch(&lab, &Index::default()).await?;
    let run = start(&engine, "a", IfTaken::Reject).await?;
    let Err(Error::KeyTaken { run: taken, .. }) = start(&engine, "a", IfTaken::Reject).await else {
        panic!("it was not rejected");
    };
    assert_eq!(taken, run.id());
    run.await?;
    assert_eq!(start(&engine, "b", IfTaken::Reject).await?.await?, "b");
    Ok(())
}

#[windlass::test]
async fn a_run_that_is_replaced_before_it_begins_never_does(lab: Lab) -> Result<()> {
    let index = Index::default();
    let engine = launch(&lab, &index).await?;
    engine.queues().pause("default").await?;
    let first = start(&engine, "a", IfTaken::Replace).await?;
    let second = start(&engine, "b", IfTaken::Replace).await?;
    assert_eq!(first.status().await?.state, RunState::Cancelled);
    engine.queues().resume("default").await?;
    assert_eq!(second.await?, "b");
    assert_eq!(*index.0.lock(), ["b"]);
    let why = first.await.unwrap_err().to_string();
    assert!(why.contains("replaced by a later start with the key `page-7`"), "{why}");
    Ok(())
}

#[windlass::test]
async fn a_run_that_is_replaced_after_it_has_begun_is_cancelled(lab: Lab) -> Result<()> {
    let index = Index::default();
    let engine = launch(&lab, &index).await?;
    let first = start(&engine, "a", IfTaken::Replace).await?;
    lab.advance(SECOND).await;
    let second = start(&engine, "b", IfTaken::Replace).await?;
    assert_eq!(second.await?, "b");
    assert!(first.await.is_err());
    assert_eq!(*index.0.lock(), ["a", "b"]);
    Ok(())
}

#[windlass::test]
async fn many_starts_in_a_row_that_are_debounced_are_one_run_with_the_last_input(lab: Lab) -> Result<()> {
    let index = Index::default();
    let engine = launch(&lab, &index).await?;
    let begun = lab.now();
    let debounce = IfTaken::Debounce(SECOND * 5);
    let first = start(&engine, "0", debounce).await?;
    for input in ["1", "2", "3"] {
        lab.advance(SECOND * 3).await;
        assert_eq!(start(&engine, input, debounce).await?.id(), first.id());
    }
    lab.advance(SECOND * 6).await;
    assert_eq!(*index.0.lock(), ["3"]);
    let next = start(&engine, "4", debounce).await?;
    assert_ne!(next.id(), first.id(), "one that has begun is left alone");
    assert_eq!(first.await?, "3");
    assert_eq!(next.await?, "4");
    assert!(lab.now().since(begun) >= SECOND * 25);
    Ok(())
}

#[windlass::test]
async fn starts_in_bulk_replace_and_debounce_too(lab: Lab) -> Result<()> {
    let index = Index::default();
    let engine = launch(&lab, &index).await?;
    for then in [IfTaken::Replace, IfTaken::Debounce(SECOND)] {
        engine.queues().pause("default").await?;
        let inputs = ["a1", "b1", "a2", "b2", "a3"].map(str::to_owned);
        let bulk = engine.start_many(reindex::workflow(), inputs).key(|input: &String| input[..1].to_owned());
        bulk.if_taken(then).await?;
        lab.advance(SECOND * 2).await;
        engine.queues().resume("default").await?;
        lab.advance(SECOND * 20).await;
        let mut done = std::mem::take(&mut *index.0.lock());
        done.sort();
        assert_eq!(done, ["a3", "b2"], "{then:?}");
    }
    Ok(())
}

#[windlass::test]
async fn saying_what_happens_without_a_key_is_an_error(lab: Lab) -> Result<()> {
    let engine = launch(&lab, &Index::default()).await?;
    let start = engine.start(reindex::workflow(), String::new()).if_taken(IfTaken::Reject);
    let why = start.await.unwrap_err().to_string();
    assert!(why.contains("name one with `.key(…)`"), "{why}");
    Ok(())
}
