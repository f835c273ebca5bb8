//! How do I test a workflow?
//!
//! ```sh
//! cargo test --example testing
//! ```

use std::time::Duration;

use windlass::prelude::*;

/// What the workflow needs of the world. A test gives it another one.
struct Mail {
    answered: bool,
}

#[workflow(output = remind)]
mod reminder {
    use super::*;

    #[task(retry(attempts = 3, delay = "1h", backoff = fixed))]
    pub async fn write(input: &str) -> Result<String> {
        Ok(format!("Dear {input}, …"))
    }

    /// Asks once a day whether there is an answer, for two weeks at most.
    #[task(after = [write], deadline = "14d", allow_failure)]
    pub async fn answer(cx: &Cx, mail: Res<Mail>) -> Result<()> {
        cx.defer_until(Duration::from_secs(24 * 3600), || async { mail.answered }).await
    }

    #[task(when = done(answer))]
    pub async fn remind(answer: Outcome<()>, input: &str) -> Result<String> {
        Ok(format!("{} {input}", if answer.is_completed() { "thanked" } else { "reminded" }))
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    // Nobody waits for two weeks here: the tests below do.
    let mail = Mail { answered: true };
    let engine =
        Engine::open("sqlite::memory:").resource(mail).workflow(reminder::workflow()).launch().await?;
    let said = engine.start(reminder::workflow(), "ada".to_owned()).await?.await?;
    println!("{said}; `cargo test --example testing` runs the tests");
    engine.stop().await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use windlass::testing::Lab;

    use super::*;

    /// Time is virtual: it jumps to the next timer when nothing can run. Two weeks take milliseconds.
    #[windlass::test]
    async fn whoever_does_not_answer_is_reminded(lab: Lab) -> Result<()> {
        let mail = Mail { answered: false };
        let engine = lab.engine().resource(mail).workflow(reminder::workflow()).launch().await?;
        let begun = lab.now();
        let run = engine.start(reminder::workflow(), "ada".to_owned()).await?;
        assert_eq!(run.await?, "reminded ada");
        assert_eq!(lab.now().since(begun).as_secs() / 3600, 14 * 24);
        Ok(())
    }

    /// An attempt can be made to fail without touching the code.
    #[windlass::test]
    async fn a_letter_that_cannot_be_written_is_tried_again(lab: Lab) -> Result<()> {
        lab.fail("write", 1..=2, "there is no ink");
        let mail = Mail { answered: true };
        let engine = lab.engine().resource(mail).workflow(reminder::workflow()).launch().await?;
        let run = engine.start(reminder::workflow(), "ada".to_owned()).await?;
        assert_eq!(run.await?, "thanked ada");
        assert_eq!(lab.attempts("write"), 3);
        Ok(())
    }

    /// The program is crashed before and after every commit in turn, and has to finish each time.
    #[windlass::test]
    async fn a_crash_at_any_moment_changes_nothing(lab: Lab) -> Result<()> {
        let crashes = lab
            .crash_everywhere(|engine| async move {
                let engine =
                    engine.resource(Mail { answered: true }).workflow(reminder::workflow()).launch().await?;
                let run = engine.start(reminder::workflow(), "ada".to_owned()).key("ada").await?;
                assert_eq!(run.await?, "thanked ada");
                Ok::<_, Failure>(())
            })
            .await?;
        assert!(
            crashes >= 8,
            "a start and three results are four commits, with two boundaries each: {crashes}"
        );
        Ok(())
    }

    /// A task is still a function.
    #[test]
    fn a_letter_is_polite() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert_eq!(runtime.block_on(reminder::write("ada")).unwrap(), "Dear ada, …");
    }
}
