//! How does a task wait for hours, or do hours of work, without losing its place?

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use windlass::prelude::*;

/// A courier who has arrived when asked for the third time.
#[derive(Default)]
struct Courier {
    asked: AtomicU32,
}

#[workflow(output = import)]
mod delivery {
    use super::*;

    /// Between two questions it holds no slot. A wait that is longer than `park_after` parks the whole run: its
    /// future is dropped, and the body begins again at its top when it is time to ask. So ask first, work after.
    #[task]
    pub async fn arrival(cx: &Cx, courier: Res<Courier>) -> Result<()> {
        println!("the body begins");
        cx.defer_until(Duration::from_millis(120), || async {
            let asked = courier.asked.fetch_add(1, Ordering::Relaxed) + 1;
            println!("  question {asked}");
            asked == 3
        })
        .await
    }

    /// Long work keeps its place with `save`. The next attempt, here or in another process, begins there.
    #[task(after = [arrival], retry(delay = "10ms"), beat_timeout = "10s")]
    pub async fn import(input: u32, cx: &Cx) -> Result<String> {
        let begin: u32 = cx.saved()?.unwrap_or(0);
        for row in begin..input {
            if row == 6 && cx.attempt() == 1 {
                return Err("the connection was lost at row 6".into());
            }
            cx.beat(f64::from(row) / f64::from(input));
            cx.save(row + 1).await?;
        }
        Ok(format!("attempt {} began at row {begin} and reached row {input}", cx.attempt()))
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let engine = Engine::open("sqlite::memory:")
        .resource(Courier::default())
        .park_after(Duration::from_millis(50))
        .workflow(delivery::workflow())
        .launch()
        .await?;
    println!("{}", engine.start(delivery::workflow(), 10).await?.await?);
    engine.stop().await?;
    Ok(())
}
