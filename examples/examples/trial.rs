//! How do I test a function that takes two weeks?
//!
//! ```sh
//! cargo test --example trial
//! ```

use std::time::Duration;

use windlass::prelude::*;

const CANCELLED: Event<()> = Event::new("cancelled");
const DAY: Duration = Duration::from_secs(24 * 3600);

/// A trial of two weeks: a reminder after ten days, and a charge at its end, unless somebody cancels it.
#[flow]
async fn trial(cx: &Flow, customer: String) -> Result<String> {
    let mail = |what: &'static str| {
        let customer = customer.clone();
        move || async move { Ok::<_, Failure>(format!("{what}, {customer}")) }
    };
    cx.step("welcome", mail("welcome")).await?;
    if cx.event(CANCELLED).timeout(10 * DAY).await?.is_some() {
        return cx.step("goodbye", mail("goodbye")).await;
    }
    cx.step("remind", mail("four days left")).await?;
    if cx.event(CANCELLED).timeout(4 * DAY).await?.is_some() {
        return cx.step("goodbye", mail("goodbye")).await;
    }
    cx.step("charge", mail("charged")).await
}

#[tokio::main]
async fn main() -> Result<()> {
    // Nobody waits for two weeks here: the tests below do, in a millisecond.
    let engine = Engine::open("sqlite::memory:").workflow(trial::workflow()).launch().await?;
    let run = engine.start(trial::workflow(), "ada".to_owned()).await?;
    run.send(CANCELLED, &()).await?;
    println!("{}", run.await?);
    engine.stop().await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use windlass::testing::Lab;

    use super::*;

    #[windlass::test]
    async fn whoever_stays_is_reminded_and_charged(lab: Lab) -> Result<()> {
        let engine = lab.engine().workflow(trial::workflow()).launch().await?;
        let begun = lab.now();
        let run = engine.start(trial::workflow(), "ada".to_owned()).await?;
        assert_eq!(run.await?, "charged, ada");
        assert_eq!(lab.attempts("remind"), 1);
        assert!(lab.now().since(begun) >= 14 * DAY);
        Ok(())
    }

    #[windlass::test]
    async fn whoever_cancels_in_time_is_not_charged(lab: Lab) -> Result<()> {
        let engine = lab.engine().workflow(trial::workflow()).launch().await?;
        let run = engine.start(trial::workflow(), "bob".to_owned()).await?;
        lab.advance(12 * DAY).await;
        run.send(CANCELLED, &()).await?;
        assert_eq!(run.await?, "goodbye, bob");
        assert_eq!(lab.attempts("charge"), 0);
        Ok(())
    }
}
