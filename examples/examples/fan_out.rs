//! How do I run one task per element of a list?

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use windlass::prelude::*;

/// Counts how many instances are in flight.
#[derive(Default)]
struct Gauge {
    now: AtomicUsize,
    most: AtomicUsize,
}

#[workflow(output = total)]
mod thumbnails {
    use super::*;

    #[task]
    pub async fn list(input: u32) -> Result<Vec<u32>> {
        Ok((1..=input).collect())
    }

    /// Every element is a durable step of its own: it is retried alone, and after a crash only those without a
    /// record run again. At most three are in flight.
    #[task(for_each = list, limit = 3, retry(attempts = 1), allow_failure)]
    pub async fn shrink(item: u32, cx: &Cx, gauge: Res<Gauge>) -> Result<u32> {
        let now = gauge.now.fetch_add(1, Ordering::SeqCst) + 1;
        gauge.most.fetch_max(now, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(5)).await;
        gauge.now.fetch_sub(1, Ordering::SeqCst);
        if item.is_multiple_of(5) {
            return Err(Failure::permanent(format!("picture {item} (element {:?}) is damaged", cx.item())));
        }
        Ok(item * 10)
    }

    /// The results arrive in the order of the list. Because of `allow_failure` they are outcomes.
    #[task]
    pub async fn total(shrink: &[Outcome<u32>], gauge: Res<Gauge>) -> Result<String> {
        let sum: u32 = shrink.iter().filter_map(|outcome| outcome.as_ref().completed()).sum();
        let damaged: Vec<String> =
            shrink.iter().filter_map(|outcome| outcome.failure()).map(ToString::to_string).collect();
        let most = gauge.most.load(Ordering::SeqCst);
        Ok(format!("sum {sum}, at most {most} at once\n{}", damaged.join("\n")))
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let engine = Engine::open("sqlite::memory:")
        .resource(Gauge::default())
        .workflow(thumbnails::workflow())
        .launch()
        .await?;
    println!("{}", engine.start(thumbnails::workflow(), 12).await?.await?);
    engine.stop().await?;
    Ok(())
}
