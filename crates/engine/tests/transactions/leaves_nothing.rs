//! What fails leaves nothing behind, and says why.

use std::time::{Duration, Instant};

use windlass::{postgres::Transaction, prelude::*};

use crate::database::{App, Database};

#[workflow]
mod stumble {
    use super::*;

    #[task(timeout = "2s", retry(attempts = 5, delay = "1ms"))]
    pub async fn write(cx: &Cx, tx: &Transaction, app: Res<App>) -> Result<u32> {
        tx.execute(&app.add(), &[&cx.run_id().to_string(), &format!("{}", cx.attempt())]).await?;
        match cx.attempt() {
            1 => Err("no".into()),
            2 => panic!("no"),
            3 => {
                tx.execute("SELECT pg_sleep(60)", &[]).await?;
                Ok(0)
            }
            4 => {
                tx.execute("INSERT INTO no_such_table VALUES (1)", &[]).await.ok();
                Ok(0)
            }
            attempt => Ok(attempt),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_panics_time_limits_and_swallowed_errors_leave_nothing() -> Result<()> {
    let mut database = Database::new().await;
    // One connection: whoever is stopped has to give it back.
    database.url += "&transactions=1";
    let engine = database.engine().workflow(stumble::workflow()).launch().await?;
    let began = Instant::now();
    let run = engine.start(stumble::workflow(), ()).await?;
    let id = run.id();
    assert_eq!(run.await?, 5);
    assert!(began.elapsed() < Duration::from_secs(20), "a statement that was given up is cancelled");
    assert_eq!(database.entries(id).await, 1);
    let status = engine.run(&stumble::workflow(), id).status().await?;
    let attempts = &status.task("write").unwrap().attempts;
    let failures: Vec<String> =
        attempts.iter().filter_map(|attempt| attempt.failure.as_ref().map(ToString::to_string)).collect();
    assert_eq!(failures.len(), 4, "{failures:?}");
    assert!(failures[2].contains("timeout of 2s"), "{failures:?}");
    assert!(failures[3].contains("go back to a savepoint"), "{failures:?}");
    engine.stop().await?;
    Ok(())
}

#[workflow]
mod orphan {
    use super::*;

    #[task(retry(attempts = 3, delay = "1ms"))]
    pub async fn write(cx: &Cx, tx: &Transaction, app: Res<App>) -> Result<u32> {
        tx.execute(&app.add(), &[&cx.run_id().to_string(), &"write"]).await?;
        if cx.attempt() < 3 {
            tx.execute(&format!("INSERT INTO {}.child VALUES (7)", app.schema), &[]).await?;
        }
        Ok(cx.attempt())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_constraint_that_fails_at_the_commit_is_a_failed_attempt() -> Result<()> {
    let database = Database::new().await;
    database.defer().await;
    let engine = database.engine().workflow(orphan::workflow()).launch().await?;
    let run = engine.start(orphan::workflow(), ()).await?;
    let id = run.id();
    assert_eq!(run.await?, 3);
    assert_eq!(database.entries(id).await, 1);
    let status = engine.run(&orphan::workflow(), id).status().await?;
    let failure = status.task("write").unwrap().attempts[0].failure.as_ref().unwrap().to_string();
    assert!(failure.contains("could not be committed") && failure.contains("foreign key"), "{failure}");
    engine.stop().await?;
    Ok(())
}

#[workflow]
mod control {
    use super::*;

    #[task(retry(attempts = 1))]
    pub async fn write(input: String, cx: &Cx, tx: &Transaction, app: Res<App>) -> Result<()> {
        tx.execute(&app.add(), &[&cx.run_id().to_string(), &"kept"]).await?;
        tx.execute("SAVEPOINT before", &[]).await?;
        tx.execute(&app.add(), &[&cx.run_id().to_string(), &"not kept"]).await?;
        tx.execute("ROLLBACK TO SAVEPOINT before", &[]).await?;
        match input.as_str() {
            "save" => cx.save(1).await?,
            "sleep" => cx.sleep(Duration::from_secs(1)).await?,
            "defer" => cx.defer_until(Duration::from_secs(1), || async { false }).await?,
            "" => {}
            sql => {
                // Even one whose error is thrown away.
                tx.execute(sql, &[]).await.ok();
            }
        }
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_go_together_with_a_transaction_is_refused_and_leaves_nothing() -> Result<()> {
    let database = Database::new().await;
    let engine = database.engine().workflow(control::workflow()).launch().await?;
    let cases = [
        ("save", "`cx.save` is not for a task with a `tx`"),
        ("sleep", "`cx.sleep` is not for a task with a `tx`"),
        ("defer", "`cx.defer_until` is not for a task with a `tx`"),
        ("COMMIT", "a statement of its transaction had failed"),
        (" rollback", "a statement of its transaction had failed"),
    ];
    for (input, why) in cases {
        let error = engine.start(control::workflow(), input.to_owned()).await?.await.unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
    assert_eq!(database.all_entries().await, 0);
    engine.start(control::workflow(), String::new()).await?.await?;
    assert_eq!(database.all_entries().await, 1, "what was undone up to the savepoint is not there");
    engine.stop().await?;
    Ok(())
}

#[workflow]
mod told {
    use super::*;

    #[task(retry(attempts = 1))]
    pub async fn end(tx: &Transaction) -> Result<()> {
        tx.execute("/* now */ commit", &[]).await?;
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_commits_itself_is_told_who_does() -> Result<()> {
    let database = Database::new().await;
    let engine = database.engine().workflow(told::workflow()).launch().await?;
    let error = engine.start(told::workflow(), ()).await?.await.unwrap_err();
    assert!(error.to_string().contains("a task cannot send COMMIT"), "{error}");
    engine.stop().await?;
    Ok(())
}

#[workflow]
mod session {
    use super::*;

    #[task]
    pub async fn leave(tx: &Transaction) -> Result<()> {
        tx.execute("SET statement_timeout = '7s'", &[]).await?;
        tx.execute("CREATE TEMP TABLE left_behind ()", &[]).await?;
        Ok(())
    }

    #[task(after = [leave])]
    pub async fn find(tx: &Transaction) -> Result<(String, bool)> {
        let setting = tx.query_one("SHOW statement_timeout", &[]).await?.get(0);
        Ok((setting, tx.query_one("SELECT to_regclass('left_behind') IS NOT NULL", &[]).await?.get(0)))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_body_does_to_its_session_does_not_reach_the_next() -> Result<()> {
    let mut database = Database::new().await;
    database.url += "&transactions=1";
    let engine = database.engine().workflow(session::workflow()).launch().await?;
    assert_eq!(engine.start(session::workflow(), ()).await?.await?, ("0".to_owned(), false));
    engine.stop().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_without_such_transactions_is_refused_with_every_task_that_asks_for_one() {
    let engine = Engine::open("sqlite::memory:").workflow(session::workflow()).workflow(told::workflow());
    let error = engine.launch().await.unwrap_err().to_string();
    for task in ["task `leave` of `session`", "task `find` of `session`", "task `end` of `told`"] {
        assert!(error.contains(&format!("{task} takes a transaction on PostgreSQL")), "{error}");
    }
    assert!(error.contains("sqlite::memory:"), "{error}");
}

#[workflow(durability = "pipelined")]
mod ahead {
    use super::*;

    #[task]
    pub async fn write(tx: &Transaction) -> Result<()> {
        tx.execute("SELECT 1", &[]).await?;
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_is_never_committed_before_what_it_builds_on() {
    let database = Database::new().await;
    let error = database.engine().workflow(ahead::workflow()).launch().await.unwrap_err().to_string();
    assert!(error.contains("task `write` of `ahead`") && error.contains("pipelined"), "{error}");
}

#[workflow]
mod silent {
    use super::*;

    #[task(retry(attempts = 1))]
    pub async fn wait(tx: &Transaction) -> Result<()> {
        // As short as a test can wait for.
        tx.execute("SET LOCAL idle_in_transaction_session_timeout = '50ms'", &[]).await?;
        tokio::time::sleep(Duration::from_millis(300)).await;
        tx.execute("SELECT 1", &[]).await?;
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_says_nothing_loses_its_transaction() -> Result<()> {
    let database = Database::new().await;
    let engine = database.engine().workflow(silent::workflow()).launch().await?;
    assert_eq!(engine.start(silent::workflow(), ()).await?.await.unwrap_err().code(), "run_failed");
    engine.stop().await?;
    Ok(())
}
