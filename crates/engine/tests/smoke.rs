//! The thinnest path through every room.

use windlass::prelude::*;

#[workflow(output = third)]
mod chain3 {
    use super::*;

    #[task]
    pub async fn first(input: u64) -> Result<u64> {
        Ok(input + 1)
    }

    #[task]
    pub async fn second(first: u64) -> Result<u64> {
        Ok(first * 2)
    }

    #[task]
    pub async fn third(second: &u64) -> Result<u64> {
        Ok(second + 1)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_runs_on_an_sqlite_file() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let url = format!("sqlite://{}", dir.path().join("app.db").display());
    let engine = Engine::open(url).workflow(chain3::workflow()).launch().await?;
    let run = engine.start(chain3::workflow(), 20).await?;
    assert_eq!(run.await?, 43);
    engine.stop().await?;
    Ok(())
}
