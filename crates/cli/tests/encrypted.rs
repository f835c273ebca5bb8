//! A database whose payloads are encrypted, seen from a terminal.

use std::process::Command;

use windlass::{Encrypted, prelude::*};

#[workflow]
mod letters {
    use super::*;

    #[task]
    pub async fn write(input: String) -> Result<String> {
        Err(Failure::permanent(format!("dear {input}")))
    }
}

#[tokio::test]
async fn whoever_has_the_key_in_the_environment_reads_payloads_and_whoever_has_not_sees_why() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let url = format!("sqlite://{}", folder.path().join("app.db").display());
    let key = "5e".repeat(32);
    let engine =
        Engine::open(url.as_str()).codec(Encrypted::with(&key.parse()?)).workflow(letters::workflow());
    let engine = engine.launch().await?;
    let run = engine.start(letters::workflow(), "ann".to_owned()).await?;
    let id = run.id().to_string();
    run.await.unwrap_err();
    engine.stop().await?;

    let show = |keys: Option<&str>| {
        let mut windlass = Command::new(env!("CARGO_BIN_EXE_windlass"));
        windlass.args(["--url", &url, "runs", "show", &id]).env_remove("WINDLASS_ENCRYPTION_KEYS");
        let output = windlass.envs(keys.map(|keys| ("WINDLASS_ENCRYPTION_KEYS", keys))).output();
        let output = output.expect("the program starts");
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).expect("it says words"))
    };
    let (code, text) = show(Some(&key));
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("dear ann"), "{text}");
    let (_, text) = show(None);
    assert!(!text.contains("dear ann") && text.contains("a key that this program was not given"), "{text}");
    let (code, text) = show(Some("not a key"));
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("WINDLASS_ENCRYPTION_KEYS") && text.contains("64 hexadecimal digits"), "{text}");
    Ok(())
}
