//! What goes together: writes and record, in every shape of a task.

use windlass::{postgres::Transaction, prelude::*};

use crate::database::{App, Database};

#[workflow(output = total)]
mod order {
    use super::*;

    #[task]
    pub async fn charge(input: u32, cx: &Cx, tx: &Transaction, app: Res<App>) -> Result<Vec<u32>> {
        tx.execute(&app.add(), &[&cx.run_id().to_string(), &"charge"]).await?;
        Ok((0..input).collect())
    }

    #[task(for_each = charge, limit = 3)]
    pub async fn line(
        item: u32,
        cx: &Cx,
        tx: &Transaction,
        context: &mut Context,
        app: Res<App>,
    ) -> Result<u32> {
        let statement = tx.prepare(&app.add()).await?;
        tx.execute(&statement, &[&cx.run_id().to_string(), &format!("line {item}")]).await?;
        context.set(format!("line {item}"), item)?;
        Ok(item)
    }

    #[task]
    pub async fn total(line: &[u32], context: &Context) -> Result<u32> {
        let noted: u32 =
            line.iter().map(|line| context.get::<u32>(&format!("line {line}"))).sum::<Result<_, _>>()?;
        Ok(line.iter().sum::<u32>() + noted)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_results_and_context_changes_of_a_graph_are_there_once() -> Result<()> {
    let database = Database::new().await;
    let engine = database.engine().workflow(order::workflow()).launch().await?;
    let run = engine.start(order::workflow(), 10).await?;
    let id = run.id();
    assert_eq!(run.await?, 90);
    assert_eq!(database.entries(id).await, 11);
    assert_eq!((database.records(id, "charge").await, database.records(id, "line").await), (1, 10));
    engine.stop().await?;
    Ok(())
}
