//! How do I start, find and act on thousands of runs?

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use windlass::{RunState, prelude::*};

/// Whether the service that the tasks need is there.
static UP: AtomicBool = AtomicBool::new(false);

#[workflow]
mod invoice {
    use super::*;

    #[task(retry(attempts = 1))]
    pub async fn send(input: u32) -> Result<u32> {
        if input.is_multiple_of(10) && !UP.load(Ordering::Relaxed) {
            return Err("the mail server is down".into());
        }
        Ok(input)
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let engine = Engine::open("sqlite::memory:").workflow(invoice::workflow()).launch().await?;

    // A thousand runs in few transactions. Started again with the same keys, they are the same runs.
    let start =
        || engine.start_many(invoice::workflow(), 1..=1000).key(|n| format!("invoice-{n}")).tag("may");
    let ids = start().await?;
    println!("{} runs started; started again they are the same: {}", ids.len(), start().await? == ids);
    for id in &ids {
        // Some fail, and that is seen to below.
        if let Err(error) = engine.run(&invoice::workflow(), *id).await {
            assert_eq!(error.code(), "run_failed");
        }
    }

    let failed = || engine.runs().workflow("invoice").tag("may").failed();
    println!(
        "{} failed, the newest with key {:?}",
        failed().limit(1000).list().await?.len(),
        newest(&failed()).await?
    );

    // A filter and an action: it works in portions, and says how many.
    UP.store(true, Ordering::Relaxed);
    println!("retried: {}", failed().retry_all().await?.done);
    let retried = engine.runs().key("invoice-1000").list().await?[0].id;
    println!("invoice-1000 gives {}", engine.run(&invoice::workflow(), retried).await?);

    let later =
        engine.start_many(invoice::workflow(), 2001..=2300).delay(Duration::from_secs(3600)).tag("june");
    later.await?;
    println!(
        "waiting: {}",
        engine.runs().state(RunState::Pending).tag("june").limit(500).list().await?.len()
    );
    println!("cancelled: {}", engine.runs().tag("june").cancel_all("there is no June this year").await?.done);
    engine.stop().await?;
    Ok(())
}

async fn newest(found: &windlass::Runs) -> Result<Option<String>> {
    Ok(found.clone().limit(1).list().await?.pop().and_then(|run| run.key))
}
