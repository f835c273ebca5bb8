//! What tasks log is kept with their runs.
#![cfg(feature = "logs")]

use std::time::Duration;

use serde_json::json;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::{prelude::*, util::SubscriberInitExt};
use windlass::{LoggedLine, prelude::*, testing::Lab};

#[workflow]
mod letters {
    use super::*;

    #[task(retry(attempts = 2, delay = "1s"))]
    pub async fn write(input: u32, cx: &Cx) -> Result<u32> {
        tracing::info!(to = "ann", pages = input, is_long = false, "writing");
        tracing::debug!("of no interest");
        if cx.attempt() == 1 {
            tracing::error!(why = %"ink", "out of ink");
            return Err(Failure::new("out of ink"));
        }
        Ok(input)
    }
}

#[workflow]
mod chatter {
    use super::*;

    #[task]
    pub async fn talk(input: u32) -> Result<u32> {
        for word in 0..input {
            tracing::info!(word, "said");
        }
        tracing::warn!("hoarse");
        Ok(input)
    }
}

#[flow]
async fn checkout(cx: &Flow, cents: u32) -> Result<u32> {
    tracing::info!("before");
    cx.step("charge", || async move {
        tracing::info!(cents, "charging");
        Ok::<_, Failure>(cents)
    })
    .await
}

fn listen() -> DefaultGuard {
    tracing_subscriber::registry().with(windlass::log_layer()).set_default()
}

async fn lines<O>(lab: &Lab, run: Run<O>) -> Vec<LoggedLine> {
    lab.advance(Duration::from_secs(5)).await;
    run.logs().await.unwrap()
}

fn said(lines: &[LoggedLine]) -> Vec<(&str, u32, &str, &str)> {
    lines.iter().map(|line| (&*line.task, line.attempt, line.level, &*line.message)).collect()
}

#[windlass::test]
async fn a_line_is_kept_with_its_attempt_and_its_fields(lab: Lab) -> Result<()> {
    let _listening = listen();
    let engine = lab.engine().workflow(letters::workflow()).launch().await?;
    let run = engine.start(letters::workflow(), 3).await?;
    let own = lines(&lab, run).await;
    assert_eq!(
        said(&own),
        [
            ("write", 1, "INFO", "writing"),
            ("write", 1, "ERROR", "out of ink"),
            ("write", 2, "INFO", "writing"),
        ]
    );
    assert_eq!(json!(own[0].fields), json!({"to": "ann", "pages": 3, "is_long": false}));
    assert_eq!(json!(own[1].fields), json!({"why": "ink"}));
    Ok(())
}

#[windlass::test]
async fn of_an_attempt_that_logs_much_some_lines_are_kept_and_the_others_counted(lab: Lab) -> Result<()> {
    let _listening = listen();
    let engine = lab.engine().workflow(chatter::workflow()).launch().await?;
    let run = engine.start(chatter::workflow(), 10_000).await?;
    let lines = lines(&lab, run).await;
    assert!((200..=500).contains(&lines.len()), "{}", lines.len());
    assert_eq!(lines.last().unwrap().message, "hoarse", "a warning is kept however much was said before it");
    let dropped: u32 = lines.iter().map(|line| line.dropped).sum();
    assert_eq!(dropped as usize + lines.len(), 10_001);
    Ok(())
}

#[windlass::test]
async fn a_line_of_a_step_bears_its_name_and_is_not_said_again_on_replay(lab: Lab) -> Result<()> {
    let _listening = listen();
    let engine = lab.engine().workflow(checkout::workflow()).launch().await?;
    let run = engine.start(checkout::workflow(), 420).await?;
    let lines = lines(&lab, run).await;
    assert_eq!(said(&lines), [("checkout", 1, "INFO", "before"), ("charge", 1, "INFO", "charging")]);
    Ok(())
}
