//! How do I run a task only sometimes, and what does it see of a dependency that has no result?

use windlass::prelude::*;

#[workflow(output = receipt)]
mod order {
    use super::*;

    #[task(retry(attempts = 1))]
    pub async fn charge(input: i64, context: &mut Context) -> Result<i64> {
        context.set("amount", input)?;
        if input > 0 { Ok(input) } else { Err(Failure::permanent("the card was refused")) }
    }

    /// The default rule: it runs when everything it depends on has completed.
    #[task]
    pub async fn ship(charge: i64) -> Result<String> {
        Ok(format!("shipped for {charge}"))
    }

    /// A rule on the context.
    #[task(when = all(succeeded(charge), context("amount") >= 100))]
    pub async fn gift(charge: i64) -> Result<String> {
        Ok(format!("a gift worth {}", charge / 50))
    }

    /// A rule on how a task ended. It runs without the value, so it sees an `Outcome`.
    #[task(when = failed(charge))]
    pub async fn apologise(charge: Outcome<i64>) -> Result<String> {
        let why = charge.failure().map(ToString::to_string).unwrap_or_default();
        Ok(format!("sorry: {why}"))
    }

    /// Whatever happened. What may be absent is an `Option`.
    #[task(when = always)]
    pub async fn receipt(ship: Option<&str>, gift: Option<&str>, apologise: Option<&str>) -> Result<String> {
        let parts: Vec<&str> = [ship, gift, apologise].into_iter().flatten().collect();
        Ok(parts.join(", "))
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let engine = Engine::open("sqlite::memory:").workflow(order::workflow()).launch().await?;
    for amount in [20, 500, -1] {
        let mut run = engine.start(order::workflow(), amount).await?;
        let ended = (&mut run).await;
        println!("{amount}: {}", run.result::<String>("receipt").await?.unwrap_or_default());
        if let Err(error) = ended {
            println!("  the run itself: {error}");
        }
        for task in run.status().await?.tasks {
            if let Some(why) = task.skip {
                println!("  {} was skipped: {why}", task.name);
            }
        }
    }
    engine.stop().await?;
    Ok(())
}
