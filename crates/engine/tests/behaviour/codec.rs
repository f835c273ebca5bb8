//! A codec of the application's that panics.

use std::time::Duration;

use bytes::Bytes;
use windlass::{Codec, CodecError, RunState, prelude::*, testing::Lab};

/// Cannot stand a word.
struct Squeamish(&'static str);

impl Squeamish {
    fn look(&self, bytes: &Bytes) {
        let word = self.0.as_bytes();
        assert!(!bytes.windows(word.len()).any(|part| part == word), "not that word");
    }
}

impl Codec for Squeamish {
    fn encode(&self, json: Bytes) -> Result<Bytes, CodecError> {
        self.look(&json);
        Ok(json)
    }

    fn decode(&self, kept: Bytes) -> Result<Bytes, CodecError> {
        self.look(&kept);
        Ok(kept)
    }
}

#[workflow]
mod say {
    use super::*;

    #[task]
    pub async fn word(input: String) -> Result<String> {
        Ok(input)
    }
}

#[windlass::test]
async fn a_run_whose_payload_makes_the_codec_panic_is_blocked_and_takes_no_place(lab: Lab) -> Result<()> {
    let before = lab.engine().workflow(say::workflow()).launch().await?;
    let delay = Duration::from_secs(60);
    let bad = before.start(say::workflow(), "spider".to_owned()).delay(delay).await?.id();
    let good = before.start(say::workflow(), "kitten".to_owned()).delay(delay * 2).await?.id();
    before.stop().await?;
    let engine = lab.engine().codec(Squeamish("spider")).max_runs(1).workflow(say::workflow());
    let engine = engine.launch().await?;
    assert_eq!(engine.run(&say::workflow(), good).await?, "kitten");
    let status = engine.run(&say::workflow(), bad).status().await?;
    assert_eq!(status.state, RunState::Blocked);
    let why = status.wait.unwrap().reason.unwrap();
    assert!(why.contains("the run's input") && why.contains("the codec panicked: not that word"), "{why}");
    Ok(())
}

#[windlass::test]
async fn a_result_that_makes_the_codec_panic_fails_its_task(lab: Lab) -> Result<()> {
    #[workflow]
    mod find {
        use super::*;

        #[task]
        pub async fn look(input: u32) -> Result<String> {
            Ok(if input == 8 { "spider".to_owned() } else { "kitten".to_owned() })
        }
    }
    let engine = lab.engine().codec(Squeamish("\"spider")).max_runs(1).workflow(find::workflow());
    let engine = engine.launch().await?;
    let error = engine.start(find::workflow(), 8).await?.await.unwrap_err().to_string();
    assert!(error.contains("look") && error.contains("the codec panicked: not that word"), "{error}");
    let error = engine.client().start_by_name("find", "spider".into()).await.unwrap_err();
    assert!(error.to_string().contains("the codec panicked"), "{error}");
    assert_eq!(engine.start(find::workflow(), 4).await?.await?, "kitten");
    Ok(())
}
