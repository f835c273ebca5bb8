//! What about code that computes for long, or blocks?

use std::time::{Duration, Instant};

use windlass::prelude::*;

#[workflow(output = join)]
mod work {
    use super::*;

    /// A plain `fn` runs on the blocking pool, so that it holds up no other task.
    #[task]
    pub fn compute(input: u64) -> Result<u64> {
        std::thread::sleep(Duration::from_millis(200));
        Ok((1..=input).sum())
    }

    /// Meanwhile this one goes on.
    #[task]
    pub async fn tick() -> Result<u32> {
        let began = Instant::now();
        let mut ticks = 0;
        while began.elapsed() < Duration::from_millis(100) {
            tokio::time::sleep(Duration::from_millis(10)).await;
            ticks += 1;
        }
        Ok(ticks)
    }

    #[task]
    pub async fn join(compute: u64, tick: u32) -> Result<String> {
        let verdict = if tick > 1 { "went on" } else { "was held up" };
        Ok(format!("the sum is {compute}, and the other task {verdict}"))
    }
}

// One thread for all async tasks: a blocking call in one of them would stop the others.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let engine = Engine::open("sqlite::memory:").workflow(work::workflow()).launch().await?;
    println!("{}", engine.start(work::workflow(), 1_000).await?.await?);
    engine.stop().await?;
    Ok(())
}
