//! Which failures are tried again, and when?

use std::time::Duration;

use windlass::prelude::*;

fn is_busy(failure: &Failure) -> bool {
    failure.message.contains("busy")
}

#[workflow(output = report)]
mod retries {
    use super::*;

    /// Any failure is tried again. The default is 3 attempts, from 1 s on, twice as long each time.
    #[task(retry(attempts = 4, delay = "20ms", backoff = fixed, jitter = 0))]
    pub async fn flaky(cx: &Cx) -> Result<u32> {
        if cx.attempt() < 3 {
            return Err(format!("attempt {} did not work", cx.attempt()).into());
        }
        Ok(cx.attempt())
    }

    /// A failure may say itself when to come back.
    #[task(retry(attempts = 2, on = never))]
    pub async fn polite(cx: &Cx) -> Result<u32> {
        if cx.attempt() == 1 {
            return Err(Failure::retry_after("come back in 50 ms", Duration::from_millis(50)));
        }
        Ok(cx.attempt())
    }

    /// Only what the predicate accepts is tried again.
    #[task(retry(attempts = 5, delay = "10ms", on = predicate(is_busy)), allow_failure)]
    pub async fn picky(cx: &Cx) -> Result<u32> {
        let message = if cx.attempt() == 1 { "the printer is busy" } else { "the printer is on fire" };
        Err(message.into())
    }

    /// No further attempt would help, whatever the policy says.
    #[task(retry(attempts = 5), allow_failure)]
    pub async fn hopeless() -> Result<u32> {
        Err(Failure::permanent("there is no such account"))
    }

    #[task(when = always)]
    pub async fn report(
        flaky: Outcome<u32>,
        polite: Outcome<u32>,
        picky: Outcome<u32>,
        hopeless: Outcome<u32>,
    ) -> Result<Vec<String>> {
        let outcomes = [("flaky", flaky), ("polite", polite), ("picky", picky), ("hopeless", hopeless)];
        let line = |(task, outcome): (&str, Outcome<u32>)| match outcome.into_result() {
            Ok(attempt) => format!("{task} worked at attempt {attempt}"),
            Err(failure) => format!("{task} failed: {failure}"),
        };
        Ok(outcomes.map(line).into())
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let engine = Engine::open("sqlite::memory:").workflow(retries::workflow()).launch().await?;
    let mut run = engine.start(retries::workflow(), ()).await?;
    for line in (&mut run).await? {
        println!("{line}");
    }
    let status = run.status().await?;
    let picky = status.task("picky").map_or(0, |task| task.attempts.len());
    println!("picky took {picky} attempts: the second failure was not worth a third");
    engine.stop().await?;
    Ok(())
}
