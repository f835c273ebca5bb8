//! Chain3 on dbos: a workflow of three steps that do nothing. Settings are its own defaults.

use dbos::{Config, DBOS};
use yardstick::{Asked, Result, keep_busy};

const PEER: &str = "dbos 0.5.0";

/// Three steps that do nothing, one after the other.
async fn chain(_: ()) -> dbos::Result<()> {
    dbos::step("first", || async { dbos::Result::Ok(()) }).await?;
    dbos::step("second", || async { dbos::Result::Ok(()) }).await?;
    dbos::step("third", || async { dbos::Result::Ok(()) }).await
}

#[tokio::main]
async fn main() -> Result<()> {
    let asked = Asked::read()?;
    if !matches!(asked.workload.as_str(), "chain3" | "chain3-latency") {
        return asked.unknown();
    }
    let config = Config { app_version: Some("1".to_string()), ..Config::new("chain", asked.url.as_str()) };
    let dbos = DBOS::new(config);
    let chain = dbos.register_workflow("chain", chain)?;
    dbos.launch().await?;
    let run = move || {
        let chain = chain.clone();
        async move { Ok(chain.run(()).await?) }
    };
    let answer = keep_busy(PEER, &asked, 3, run).await?;
    dbos.shutdown().await;
    answer.print()
}
