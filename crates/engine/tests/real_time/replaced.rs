//! A start that changes another run has that seen at once in its own process too, and not when it next looks.

use std::{future::Future, time::Duration};

use tokio::time::timeout;
use windlass::{IfTaken, RunState, prelude::*};

/// Longer than anybody here waits.
const RARELY: Duration = Duration::from_secs(600);

#[workflow]
mod page {
    use super::*;

    #[task]
    pub async fn index(input: &str) -> Result<String> {
        if input == "endless" {
            std::future::pending::<()>().await;
        }
        Ok(input.to_owned())
    }
}

async fn launch() -> Result<Engine> {
    let engine = Engine::open("sqlite::memory:").poll(RARELY).heartbeat(RARELY).stale_after(RARELY * 3);
    // Code that waits for ever does not end by itself when it is told to.
    let engine = engine.cancel_grace(Duration::from_millis(1));
    Ok(engine.workflow(page::workflow()).launch().await?)
}

async fn start(engine: &Engine, input: &str, then: IfTaken) -> Result<Run<String>> {
    Ok(engine.start(page::workflow(), input.to_owned()).key("k").if_taken(then).await?)
}

async fn soon<T>(what: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(20), what).await.expect("nobody was told")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_replaced_where_it_runs_is_told_at_once() -> Result<()> {
    let engine = launch().await?;
    let first = start(&engine, "endless", IfTaken::Replace).await?;
    let second = start(&engine, "endless", IfTaken::Replace).await?;
    assert!(soon(first).await.is_err());
    let bulk = engine.start_many(page::workflow(), ["c".to_owned()]).key(|_| "k".to_owned());
    bulk.if_taken(IfTaken::Replace).await?;
    assert!(soon(second).await.is_err());
    engine.stop().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_for_a_run_that_is_replaced_before_it_begins_hears_of_it_at_once() -> Result<()> {
    let engine = launch().await?;
    engine.queues().pause("default").await?;
    let first = start(&engine, "a", IfTaken::Replace).await?;
    let waiting = tokio::spawn(soon(first));
    start(&engine, "b", IfTaken::Replace).await?;
    assert!(waiting.await.unwrap().is_err());
    engine.stop().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_moved_to_an_earlier_time_begins_then() -> Result<()> {
    let engine = launch().await?;
    let first = start(&engine, "a", IfTaken::Debounce(RARELY)).await?;
    assert_eq!(first.status().await?.state, RunState::Pending);
    let again = start(&engine, "b", IfTaken::Debounce(Duration::from_millis(50))).await?;
    assert_eq!(again.id(), first.id());
    assert_eq!(soon(again).await?, "b");
    engine.stop().await?;
    Ok(())
}
