//! Chain3 on durare: a workflow of three steps that do nothing. Settings are its own defaults, which on SQLite are
//! `synchronous = NORMAL`: a power cut may take what it has acknowledged.

use std::sync::Arc;

use durare::{DurableContext, DurableEngine, WorkflowOptions};
use yardstick::{Asked, Result, keep_busy};

const PEER: &str = "durare 0.5.0";

/// Does nothing.
#[durare::step]
async fn nothing(ctx: &DurableContext) -> durare::Result<()> {
    Ok(())
}

/// Three steps that do nothing, one after the other.
#[durare::workflow]
async fn chain(ctx: DurableContext, _input: ()) -> durare::Result<()> {
    nothing(&ctx).await?;
    nothing(&ctx).await?;
    nothing(&ctx).await
}

#[tokio::main]
async fn main() -> Result<()> {
    let asked = Asked::read()?;
    if !matches!(asked.workload.as_str(), "chain3" | "chain3-latency") {
        return asked.unknown();
    }
    let engine = Arc::new(DurableEngine::connect(&asked.url).await?.build().await?);
    let run = {
        let engine = Arc::clone(&engine);
        move || {
            let engine = Arc::clone(&engine);
            async move { Ok(engine.start_with(Chain, (), WorkflowOptions::default()).await?.await?) }
        }
    };
    let answer = keep_busy(PEER, &asked, 3, run).await?;
    engine.shutdown(asked.span).await?;
    answer.print()
}
