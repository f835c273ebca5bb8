//! Transactions that come into each other's way.

use std::sync::atomic::{AtomicU32, Ordering};

use windlass::{postgres::Transaction, prelude::*};

use crate::database::{App, Database};

#[derive(Default)]
struct Executed(AtomicU32);

#[workflow]
mod count {
    use super::*;

    /// Reads, and writes what it has read plus one: lost updates are the rule unless transactions are kept apart.
    #[task(isolation = serializable, retry(attempts = 20, delay = "1ms"))]
    pub async fn up(cx: &Cx, tx: &Transaction, app: Res<App>, executed: Res<Executed>) -> Result<i64> {
        executed.0.fetch_add(1, Ordering::SeqCst);
        let read = format!("SELECT value FROM {}.counter", app.schema);
        let value: i64 = tx.query_one(&read, &[]).await?.get(0);
        tx.execute(&app.add(), &[&cx.run_id().to_string(), &"up"]).await?;
        tx.execute(&format!("UPDATE {}.counter SET value = $1", app.schema), &[&(value + 1)]).await?;
        Ok(value)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn serialisable_tasks_that_come_into_each_others_way_all_count_once() -> Result<()> {
    let database = Database::new().await;
    let engine = database.engine().workflow(count::workflow()).resource(Executed::default()).launch().await?;
    let started = engine.start_many(count::workflow(), vec![(); 60]).await?;
    for run in started {
        engine.run(&count::workflow(), run).await?;
    }
    let value = format!("SELECT value FROM {}.counter", database.schema);
    let value: i64 = database.client.query_one(&value, &[]).await.unwrap().get(0);
    assert_eq!((value, database.all_entries().await), (60, 60));
    engine.stop().await?;
    Ok(())
}

#[workflow]
mod quarrel {
    use super::*;

    #[task(retry(attempts = 2, delay = "1ms"))]
    pub async fn lose(
        input: String,
        cx: &Cx,
        tx: &Transaction,
        app: Res<App>,
        executed: Res<Executed>,
    ) -> Result<()> {
        executed.0.fetch_add(1, Ordering::SeqCst);
        tx.execute(&app.add(), &[&cx.run_id().to_string(), &"lose"]).await?;
        tx.execute(&format!("DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{input}'; END $$"), &[])
            .await?;
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conflict_is_tried_again_at_once_so_many_times_and_then_by_the_rule() -> Result<()> {
    for (code, executions) in [("40001", 12), ("40P01", 12), ("23505", 2)] {
        let database = Database::new().await;
        let executed = std::sync::Arc::new(Executed::default());
        let builder = database.engine().workflow(quarrel::workflow());
        let engine = builder.shared(std::sync::Arc::clone(&executed)).launch().await?;
        let run = engine.start(quarrel::workflow(), code.to_owned()).await?;
        assert_eq!(run.await.unwrap_err().code(), "run_failed");
        assert_eq!(executed.0.load(Ordering::SeqCst), executions, "{code}");
        assert_eq!(database.all_entries().await, 0);
        engine.stop().await?;
    }
    Ok(())
}

#[workflow]
mod snapshot {
    use super::*;

    #[task(isolation = repeatable_read)]
    pub async fn level(tx: &Transaction) -> Result<String> {
        Ok(tx.query_one("SHOW transaction_isolation", &[]).await?.get(0))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_has_the_isolation_that_it_names() -> Result<()> {
    let database = Database::new().await;
    let engine = database.engine().workflow(snapshot::workflow()).launch().await?;
    assert_eq!(engine.start(snapshot::workflow(), ()).await?.await?, "repeatable read");
    engine.stop().await?;
    Ok(())
}

#[workflow]
mod fragile {
    use super::*;

    #[task(retry(attempts = 1))]
    pub async fn lose(cx: &Cx, tx: &Transaction, app: Res<App>, executed: Res<Executed>) -> Result<u32> {
        tx.execute(&app.add(), &[&cx.run_id().to_string(), &"lose"]).await?;
        let executed = executed.0.fetch_add(1, Ordering::SeqCst) + 1;
        if executed < 3 {
            tx.execute("SELECT pg_terminate_backend(pg_backend_pid())", &[]).await?;
        }
        Ok(executed)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_whose_connection_is_lost_is_executed_again_in_the_same_attempt() -> Result<()> {
    let database = Database::new().await;
    let engine =
        database.engine().workflow(fragile::workflow()).resource(Executed::default()).launch().await?;
    assert_eq!(engine.start(fragile::workflow(), ()).await?.await?, 3);
    assert_eq!(database.all_entries().await, 1);
    engine.stop().await?;
    Ok(())
}
