//! How do I not overrun a partner's API?

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use windlass::prelude::*;

/// The partner, who allows two calls at once, and no more than five in a fifth of a second.
#[derive(Default)]
struct Partner {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Partner {
    /// Answers how many calls there were at once, at most.
    async fn call(&self) -> usize {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(5)).await;
        self.now.fetch_sub(1, Ordering::SeqCst);
        self.most.load(Ordering::SeqCst)
    }
}

#[workflow]
mod sync {
    use super::*;

    /// The queue is the partner's: whatever calls it names this queue, in whichever workflow and process.
    #[task(queue = "partner")]
    pub async fn push(input: String, partner: Res<Partner>) -> Result<String> {
        let most = partner.call().await;
        Ok(format!("{input}: {most}"))
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let engine = Engine::open("sqlite::memory:")
        .resource(Partner::default())
        .queue("partner", 100)
        .workflow(sync::workflow())
        .launch()
        .await?;

    // Declared at every start of the program, for all processes together. The second time, nothing changes.
    for _ in 0..2 {
        let limits = engine.queue("partner").concurrency(2).per_key(1).rate(5, Duration::from_millis(200));
        println!("{:?}", limits.await?);
    }

    // Each customer is a key: one with much to do does not keep the others waiting.
    let began = std::time::Instant::now();
    let mut runs = Vec::new();
    for customer in ["ada", "ada", "ada", "ada", "ada", "ada", "ada", "ada", "bob", "eve"] {
        runs.push(engine.start(sync::workflow(), customer.to_owned()).queue_key(customer).await?);
    }
    let mut is_kept = true;
    for run in runs {
        let answer = run.await?;
        is_kept &= answer.ends_with(": 1") || answer.ends_with(": 2");
    }
    println!("10 calls, never more than two at once: {is_kept}");
    println!(
        "never more than five in a fifth of a second: {}",
        began.elapsed() >= Duration::from_millis(200)
    );

    // The partner is down: nothing new begins, anywhere.
    engine.queues().pause("partner").await?;
    let run = engine.start(sync::workflow(), "ada".to_owned()).queue_key("ada").await?;
    let status = engine.queues().get("partner").await?;
    println!("paused: {}", status.is_some_and(|status| status.paused));
    engine.queues().resume("partner").await?;
    run.await?;
    println!("resumed");
    engine.stop().await?;
    Ok(())
}
