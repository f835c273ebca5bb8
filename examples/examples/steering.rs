//! How do I cancel, retry, pause, resume and fork a run?

use tokio::sync::Semaphore;
use windlass::{RunState, Update, prelude::*};

/// One dish is cooked for each permit, so that it is certain below what has happened and what has not.
static STOVE: Semaphore = Semaphore::const_new(0);

#[workflow(output = serve)]
mod dinner {
    use super::*;

    #[task]
    pub async fn shop(input: &str) -> Result<String> {
        println!("  shopping for {input}");
        Ok(format!("fresh {input}"))
    }

    /// A task that is asked to stop has `cancel_grace` (10 s) to tidy up. One that listens need not use it all.
    #[task]
    pub async fn cook(shop: &str, cx: &Cx) -> Result<String> {
        tokio::select! {
            turn = STOVE.acquire() => turn?.forget(),
            () = cx.cancelled() => return Err("the stove was turned off".into()),
        }
        println!("  cooking {shop}");
        Ok(format!("cooked {shop}"))
    }

    #[task]
    pub async fn serve(cook: &str) -> Result<String> {
        println!("  serving {cook}");
        Ok(format!("{cook}, on a plate"))
    }
}

/// Waits until the run is in this state.
async fn reach(run: &Run<String>, wanted: RunState) -> Result<()> {
    let mut updates = run.watch();
    while let Some(update) = updates.next().await {
        if matches!(update?, Update::State(state) if state == wanted) {
            break;
        }
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let engine = Engine::open("sqlite::memory:").workflow(dinner::workflow()).launch().await?;

    // Cancelling works in every state and from every process. Awaiting the run says how it ended.
    println!("cancel");
    let mut soup = engine.start(dinner::workflow(), "soup".to_owned()).await?;
    while soup.result::<String>("shop").await?.is_none() {
        tokio::task::yield_now().await;
    }
    println!("  {:?}", soup.cancel("nobody is hungry").await?);
    if let Err(error) = (&mut soup).await {
        println!("  {}: {error}", error.code());
    }

    // What was recorded is kept: nobody goes shopping again.
    println!("retry");
    soup.retry().await?;
    STOVE.add_permits(1);
    println!("  {}", (&mut soup).await?);

    // What executes may finish, and nothing new starts.
    println!("pause");
    let mut rice = engine.start(dinner::workflow(), "rice".to_owned()).await?;
    rice.pause().await?;
    STOVE.add_permits(1);
    reach(&rice, RunState::Paused).await?;
    println!("  it is {}, and nothing was served", rice.status().await?.state);

    println!("resume");
    rice.resume().await?;
    println!("  {}", (&mut rice).await?);

    // A new run with a copy of what `cook` depends on. The old run is left alone.
    println!("fork");
    let fork = rice.fork_from("cook").await?;
    STOVE.add_permits(1);
    println!("  another run: {}", fork.id() != rice.id());
    println!("  {}", fork.await?);

    engine.stop().await?;
    Ok(())
}
