//! Runs whose starts were not answered in time.

use windlass::prelude::*;

/// The output of such a run: its start is sent again, and may come after what was asked later.
pub async fn late(engine: &Engine, workflow: Workflow<u32, u32>, id: windlass::RunId) -> Result<u32> {
    let begun = std::time::Instant::now();
    loop {
        match engine.run(&workflow, id).await {
            Err(error) if error.code() == "unknown_run" && begun.elapsed().as_secs() < 10 => {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
            ended => return Ok(ended?),
        }
    }
}
