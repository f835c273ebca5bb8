//! How do I start runs by the clock?

use std::time::Duration;

use windlass::prelude::*;

#[workflow]
mod backup {
    use super::*;

    /// Every run gets the same input; what is different from one to the next is asked of `cx`.
    #[task]
    pub async fn copy(input: String, cx: &Cx) -> Result<String> {
        let why = cx.fired().map_or("nobody knows why".to_owned(), |fired| format!("{:?}", fired.origin));
        Ok(format!("copied {input}: {why}"))
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let engine = Engine::open("sqlite::memory:").workflow(backup::workflow()).launch().await?;

    // Declared at every start of the program: the second time, nothing changes.
    for _ in 0..2 {
        let nightly = engine.schedule("nightly").cron("30 2 * * mon-fri").timezone("Europe/Paris");
        println!("{:?}", nightly.workflow(backup::workflow(), "photos".to_owned()).await?);
    }
    let nightly = engine.schedules().get("nightly").await?;
    println!("{}", nightly.in_words().await?);

    // A run now, whatever the clock shows.
    let key = nightly.trigger().await?;
    println!("{}", end_of(&engine, &key).await?);

    nightly.pause("the disk is full").await?;
    println!("paused: {}", nightly.status().await?.paused.unwrap_or_default());

    // A schedule of its own for what happens often.
    engine
        .schedule("often")
        .every(Duration::from_millis(50))
        .count(3)
        .workflow(backup::workflow(), "mail".to_owned())
        .await?;
    let often = engine.schedules().get("often").await?;
    while often.status().await?.runs < 3 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    println!(
        "often has run {} times, and has {} times left",
        often.status().await?.runs,
        often.next(10).await?.len()
    );
    often.remove().await?;
    engine.stop().await?;
    Ok(())
}

/// Waits until the run of a key is there, and has ended.
async fn end_of(engine: &Engine, key: &str) -> Result<String> {
    loop {
        if let Some(run) = engine.run_by_key(&backup::workflow(), key).await? {
            return Ok(run.await?);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
