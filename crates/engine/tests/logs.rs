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

#[workflow]
mod parcels {
    use super::*;

    #[task]
    pub async fn pack() -> Result<()> {
        let long = "a".repeat(3_000);
        tracing::info!(one = long, two = long, three = long, "packed");
        Ok(())
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
async fn of_two_layers_one_keeps_the_lines_and_neither_stops_the_run(lab: Lab) -> Result<()> {
    let both = tracing_subscriber::registry().with(windlass::log_layer()).with(windlass::log_layer());
    let _listening = both.set_default();
    let engine = lab.engine().workflow(letters::workflow()).launch().await?;
    let run = engine.start(letters::workflow(), 3).await?;
    let lines = lines(&lab, run).await;
    assert!(lines.iter().any(|line| line.message == "out of ink"), "{lines:?}");
    Ok(())
}

/// A layer of the program's that has a fault.
struct Broken;

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Broken {
    fn on_new_span(
        &self,
        _: &tracing::span::Attributes<'_>,
        _: &tracing::span::Id,
        _: tracing_subscriber::layer::Context<'_, S>,
    ) {
        panic!("a layer of the program's");
    }
}

#[windlass::test]
async fn a_layer_that_panics_loses_no_run(lab: Lab) -> Result<()> {
    let _listening = tracing_subscriber::registry().with(windlass::log_layer()).with(Broken).set_default();
    let engine = lab.engine().workflow(chatter::workflow()).launch().await?;
    assert_eq!(engine.start(chatter::workflow(), 3).await?.await?, 3);
    Ok(())
}

#[windlass::test]
async fn all_fields_of_a_line_together_have_so_much_room(lab: Lab) -> Result<()> {
    let _listening = listen();
    let engine = lab.engine().workflow(parcels::workflow()).launch().await?;
    let run = engine.start(parcels::workflow(), ()).await?;
    let lines = lines(&lab, run).await;
    let fields = json!(lines[0].fields).to_string();
    assert!(fields.contains(r#""one":"aaa"#) && fields.contains(r#""three":"…""#), "{fields}");
    assert!((4_096..4_300).contains(&fields.len()), "{}", fields.len());
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
