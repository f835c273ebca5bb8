//! Letters to customers: a schedule, children, and a queue with limits.

use serde::{Deserialize, Serialize};
use windlass::prelude::*;

/// The queue of letters.
pub(crate) const LETTERS: &str = "letters";

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Letter {
    pub(crate) to: String,
    pub(crate) subject: String,
}

/// Sends a letter.
#[workflow(output = send, description = "Sends a letter")]
pub(crate) mod email {
    use super::super::shop::Shop;
    use super::*;

    #[task]
    pub async fn render(input: &Letter) -> Result<String> {
        Ok(format!("Dear {},\n{}", input.to, input.subject))
    }

    /// What fails for good may well work when somebody tries it again.
    #[task(retry(attempts = 3, delay = "600ms"))]
    pub async fn send(render: &str, input: &Letter, shop: Res<Shop>) -> Result<usize> {
        tracing::info!(to = input.to, bytes = render.len(), "sending");
        shop.work(500).await;
        shop.mishap(5, "451 try again later")?;
        shop.mishap(25, "552 the mailbox is full").map_err(|failure| Failure::permanent(failure.message))?;
        Ok(render.len() + input.to.len())
    }
}

/// Writes to all who want to be written to.
#[workflow(output = summary, description = "Writes to all who want to be written to")]
pub(crate) mod newsletter {
    use super::*;

    const SUBSCRIBERS: [&str; 12] = [
        "ada@north.example",
        "bo@north.example",
        "chen@north.example",
        "dia@north.example",
        "eve@south.example",
        "finn@south.example",
        "gul@south.example",
        "hana@south.example",
        "ivo@east.example",
        "jun@east.example",
        "kai@east.example",
        "lea@east.example",
    ];

    #[task]
    pub async fn subscribers() -> Result<Vec<String>> {
        Ok(SUBSCRIBERS.map(str::to_owned).into())
    }

    /// A run of its own for each letter, in a queue that lets few of them begin at once.
    #[task(for_each = subscribers, allow_failure)]
    pub async fn letters(item: &str, input: &str, cx: &Cx) -> Result<usize> {
        let host = item.rsplit('@').next().unwrap_or_default();
        let letter = Letter { to: item.to_owned(), subject: input.to_owned() };
        cx.run(email::workflow(), letter).queue(LETTERS).queue_key(host).await
    }

    #[task]
    pub async fn summary(letters: &[Outcome<usize>]) -> Result<String> {
        let sent = letters.iter().filter(|letter| letter.as_ref().completed().is_some()).count();
        Ok(format!("{sent} of {} letters sent", letters.len()))
    }
}

#[cfg(test)]
mod tests {
    use windlass::testing::Lab;

    use super::super::shop::Shop;
    use super::*;

    #[windlass::test]
    async fn a_letter_that_cannot_be_sent_keeps_no_other_back(lab: Lab) -> Result<()> {
        let engine = lab.engine().resource(Shop::without_mishaps()).queue(LETTERS, 4);
        let engine = engine.workflow(email::workflow()).workflow(newsletter::workflow()).launch().await?;
        engine.queue(LETTERS).concurrency(3).per_key(2).await?;
        lab.fail("render", 1..=1, Failure::permanent("the template is broken"));
        assert_eq!(
            engine.start(newsletter::workflow(), "news".to_owned()).await?.await?,
            "0 of 12 letters sent"
        );
        lab.forgive();
        assert_eq!(
            engine.start(newsletter::workflow(), "news".to_owned()).await?.await?,
            "12 of 12 letters sent"
        );
        Ok(())
    }
}
