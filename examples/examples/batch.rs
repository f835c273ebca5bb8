//! How do I hand many items to one run?

use std::time::Duration;

use windlass::{batch::Leftover, prelude::*};

#[workflow]
mod mailing {
    use super::*;

    /// One letter for all that happened.
    #[task]
    pub async fn send(input: Vec<String>) -> Result<String> {
        Ok(format!("{} things happened: {}", input.len(), input.join(", ")))
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let engine = Engine::open("sqlite::memory:").workflow(mailing::workflow()).launch().await?;

    // Declared at every start of the program: the second time, nothing changes.
    for _ in 0..2 {
        let news = engine.batch("news", mailing::workflow()).size(3).age(Duration::from_secs(60));
        println!("{:?}", news.await?);
    }
    let news = engine.batches().get("news").await?;

    // Three are enough. The same key is the same item.
    for (item, key) in [("a sale", "1"), ("a sale", "1"), ("a return", "2"), ("a complaint", "3")] {
        news.add(item.to_owned()).key(key).await?;
    }
    println!("{}", letter(&engine, &news, 1).await?);

    // One is not, but somebody cannot wait.
    news.add("a visit".to_owned()).await?;
    println!("{} waits", news.status().await?.waiting);
    news.flush().await?;
    println!("{}", letter(&engine, &news, 2).await?);

    news.remove(Leftover::Start).await?;
    engine.stop().await?;
    Ok(())
}

/// What the run came to that was started as the how many-th.
async fn letter(engine: &Engine, news: &windlass::batch::Batch<String>, number: u64) -> Result<String> {
    loop {
        let status = news.status().await?;
        match status.last_run {
            Some(last) if status.runs == number => {
                return Ok(engine.run(&mailing::workflow(), last.run).await?);
            }
            _ => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}
