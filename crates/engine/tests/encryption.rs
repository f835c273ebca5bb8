//! What the database sees of payloads that are encrypted: nothing.
#![cfg(all(feature = "encryption", feature = "logs", feature = "sqlite"))]

use tracing_subscriber::{prelude::*, util::SubscriberInitExt};
use windlass::{Client, Encrypted, EncryptionKey, RunState, prelude::*};

/// Is in everything that must not be seen.
const SECRET: &str = "tulip-bulb";
const ANSWER: Event<String> = Event::new("answer");

#[workflow]
mod tell {
    use super::*;

    #[task]
    pub async fn whisper(input: String, context: &mut Context, cx: &Cx) -> Result<String> {
        tracing::info!(what = input, "heard {input}");
        context.set("heard", &input)?;
        cx.save(input.clone()).await?;
        Ok(input)
    }

    #[task(retry(attempts = 1))]
    pub async fn stumble(whisper: &str) -> Result<()> {
        Err(Failure::new(format!("cannot say {whisper}")))
    }
}

#[flow]
async fn listen(cx: &Flow, secret: String) -> Result<String> {
    cx.publish("progress", &secret)?;
    let kept = cx.step("keep", || async { Ok::<_, Failure>(secret.clone()) }).await?;
    let heard = cx.event(ANSWER).await?;
    Ok(kept + &heard)
}

fn key(digit: &str) -> EncryptionKey {
    digit.repeat(64).parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_database_sees_nothing_and_whoever_has_the_key_sees_all() -> Result<()> {
    tracing_subscriber::registry().with(windlass::log_layer()).init();
    let directory = tempfile::tempdir()?;
    let url = format!("sqlite://{}/app.db", directory.path().display());
    let open = |codec: Encrypted| {
        Engine::open(url.as_str()).codec(codec).workflow(tell::workflow()).workflow(listen::workflow())
    };
    let engine = open(Encrypted::with(&key("a"))).launch().await?;
    let told = engine.start(tell::workflow(), SECRET.to_owned()).await?.id();
    assert!(engine.run(&tell::workflow(), told).await.is_err());
    let listening = engine.start(listen::workflow(), SECRET.to_owned()).await?;
    let listened = listening.id();
    listening.send(ANSWER, &SECRET.to_owned()).await?;
    assert_eq!(listening.await?, SECRET.repeat(2));
    engine.stop().await?;

    for name in ["app.db", "app.db-wal"] {
        let path = directory.path().join(name);
        if name != "app.db" && !path.exists() {
            continue;
        }
        let bytes = std::fs::read(&path)?;
        let is_seen = bytes.windows(SECRET.len()).any(|part| part == SECRET.as_bytes());
        assert!(!is_seen, "{} shows it", path.display());
    }

    // Another key writes from here on, and the old one is still known.
    let engine = open(Encrypted::with(&key("b")).and_reads(&key("a"))).launch().await?;
    let run = engine.run(&tell::workflow(), told);
    let status = run.status().await?;
    assert_eq!(status.state, RunState::Failed);
    assert!(format!("{status:?}").contains(SECRET), "{status:?}");
    let logs = run.logs().await?;
    assert_eq!((&*logs[0].message, &logs[0].fields["what"]), ("heard tulip-bulb", &SECRET.into()));
    assert_eq!(engine.run(&listen::workflow(), listened).await?, SECRET.repeat(2));
    engine.stop().await?;

    // Who has no key sees that there are runs, and why there is no more to see.
    let stranger = Client::connect(&url).await?;
    assert_eq!(stranger.runs().list().await?.len(), 2);
    let error = stranger.run(&listen::workflow(), listened).await.unwrap_err().to_string();
    assert!(!error.contains(SECRET), "{error}");
    let logs = stranger.run(&tell::workflow(), told).logs().await?;
    assert!(!format!("{logs:?}").contains(SECRET), "{logs:?}");
    Ok(())
}
