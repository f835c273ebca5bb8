//! Transactions in a SQLite file and in memory.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use rusqlite::Connection;
use tempfile::TempDir;
use windlass::{StepKind, prelude::*, sqlite::Transaction, testing::Lab};

/// A file with a table of the application's.
async fn file() -> (TempDir, String, Connection) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.db");
    let url = format!("sqlite://{}", path.display());
    drop(windlass::sqlite::Sqlite::open(&url).await.unwrap());
    let conn = Connection::open(path).unwrap();
    conn.busy_timeout(Duration::from_secs(10)).unwrap();
    conn.execute_batch("CREATE TABLE entry (run TEXT, step TEXT)").unwrap();
    (directory, url, conn)
}

const ADD: &str = "INSERT INTO entry (run, step) VALUES (?1, ?2)";

fn entries(conn: &Connection, run: windlass::RunId) -> i64 {
    conn.query_row("SELECT count(*) FROM entry WHERE run = ?1", [run.to_string()], |row| row.get(0)).unwrap()
}

#[workflow(output = total)]
mod order {
    use super::*;

    #[task]
    pub fn prepare(input: u32, tx: &Transaction) -> Result<Vec<u32>> {
        tx.execute("CREATE TABLE IF NOT EXISTS entry (run TEXT, step TEXT)", [])?;
        Ok((0..input).collect())
    }

    #[task(for_each = prepare)]
    pub fn line(item: u32, cx: &Cx, tx: &Transaction<'_>, context: &mut Context) -> Result<u32> {
        tx.execute(ADD, [cx.run_id().to_string(), format!("line {item}")])?;
        context.set(format!("line {item}"), tx.last_insert_rowid())?;
        Ok(item)
    }

    #[task]
    pub fn total(line: &[u32], cx: &Cx, tx: &Transaction) -> Result<(u32, u32)> {
        let made = "SELECT count(*) FROM entry WHERE run = ?1";
        let made = tx.query_row(made, [cx.run_id().to_string()], |row| row.get(0))?;
        Ok((line.iter().sum(), made))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_results_and_context_changes_are_there_once_in_a_file_and_in_memory() -> Result<()> {
    let (_directory, url, conn) = file().await;
    for url in [url.as_str(), "sqlite::memory:"] {
        let engine = Engine::open(url).workflow(order::workflow()).launch().await?;
        let mut runs = Vec::new();
        for _ in 0..10 {
            runs.push(engine.start(order::workflow(), 10).await?);
        }
        for run in runs {
            assert_eq!(run.await?, (45, 10));
        }
        engine.stop().await?;
    }
    assert_eq!(conn.query_row("SELECT count(*) FROM entry", [], |row| row.get::<_, u32>(0)).unwrap(), 100);
    Ok(())
}

#[workflow(spread)]
mod shared {
    use super::*;

    #[task]
    pub fn write(cx: &Cx, tx: &Transaction) -> Result<()> {
        tx.execute(ADD, [cx.run_id().to_string(), "write".into()])?;
        Ok(())
    }

    #[task(after = [write])]
    pub async fn rest() -> Result<()> {
        Ok(())
    }
}

#[workflow]
mod elsewhere {
    use super::*;

    #[task(queue = "gpu")]
    pub fn write(tx: &Transaction) -> Result<()> {
        tx.execute("SELECT 1", [])?;
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_with_a_transaction_is_executed_where_its_run_is() -> Result<()> {
    let (_directory, url, conn) = file().await;
    // Nobody serves this queue: what waits in it waits for ever.
    let engine =
        Engine::open(&url).workflow(shared::workflow()).route("shared.write", "nowhere").launch().await?;
    let run = engine.start(shared::workflow(), ()).await?;
    let id = run.id();
    tokio::time::timeout(Duration::from_secs(20), run).await.expect("it is not sent away")?;
    assert_eq!(entries(&conn, id), 1);
    engine.stop().await?;
    let error = Engine::open(&url).workflow(elsewhere::workflow()).launch().await.unwrap_err().to_string();
    assert!(error.contains("task `write` of `elsewhere`") && error.contains("`queue`"), "{error}");
    Ok(())
}

/// Tables of the application's with a constraint that is looked at when the transaction is committed.
const DEFERRED: &str = "CREATE TABLE parent (id INTEGER PRIMARY KEY); CREATE TABLE child (run TEXT, parent INTEGER \
    REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED)";

#[workflow(output = write)]
mod orphan {
    use super::*;

    #[task(retry(attempts = 3, delay = "1ms"))]
    pub fn write(input: bool, cx: &Cx, tx: &Transaction) -> Result<u32> {
        tx.execute(ADD, [cx.run_id().to_string(), cx.attempt().to_string()])?;
        tx.execute("INSERT INTO child VALUES (?1, 7)", [cx.run_id().to_string()])?;
        if input && cx.attempt() == 3 {
            tx.execute("INSERT OR IGNORE INTO parent VALUES (7)", [])?;
        }
        Ok(cx.attempt())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_constraint_that_fails_at_the_commit_is_a_failed_attempt_and_disturbs_no_neighbour() -> Result<()> {
    let (_directory, url, conn) = file().await;
    conn.execute_batch(DEFERRED).unwrap();
    let engine = Engine::open(&url).workflow(orphan::workflow()).workflow(order::workflow()).launch().await?;
    let hopeless = engine.start(orphan::workflow(), false).await?;
    let mut neighbours = Vec::new();
    for _ in 0..20 {
        neighbours.push(engine.start(order::workflow(), 3).await?);
    }
    let id = hopeless.id();
    let error = hopeless.await.unwrap_err().to_string();
    assert!(error.contains("could not be committed: FOREIGN KEY constraint failed"), "{error}");
    let status = engine.run(&orphan::workflow(), id).status().await?;
    assert_eq!(status.task("write").unwrap().attempts.len(), 3);
    assert_eq!(entries(&conn, id), 0);
    let saved = engine.start(orphan::workflow(), true).await?;
    let id = saved.id();
    assert_eq!(saved.await?, 3);
    assert_eq!(entries(&conn, id), 1);
    for neighbour in neighbours {
        let id = neighbour.id();
        assert_eq!(neighbour.await?, (3, 3));
        assert_eq!(entries(&conn, id), 3);
    }
    engine.stop().await?;
    Ok(())
}

#[workflow]
mod stumble {
    use super::*;

    #[task(timeout = "200ms", retry(attempts = 5, delay = "1ms"))]
    pub fn write(cx: &Cx, tx: &Transaction) -> Result<u32> {
        tx.execute(ADD, [cx.run_id().to_string(), cx.attempt().to_string()])?;
        match cx.attempt() {
            1 => Err("no".into()),
            2 => panic!("no"),
            3 => {
                // Too long for its limit.
                std::thread::sleep(Duration::from_millis(300));
                Ok(0)
            }
            4 => {
                tx.execute("ROLLBACK", [])?;
                Ok(0)
            }
            attempt => Ok(attempt),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_panics_and_time_limits_leave_nothing_and_disturb_no_neighbour() -> Result<()> {
    let (_directory, url, conn) = file().await;
    let engine =
        Engine::open(&url).workflow(stumble::workflow()).workflow(order::workflow()).launch().await?;
    let run = engine.start(stumble::workflow(), ()).await?;
    let id = run.id();
    let mut neighbours = Vec::new();
    for _ in 0..20 {
        neighbours.push(engine.start(order::workflow(), 3).await?);
    }
    assert_eq!(run.await?, 5);
    for neighbour in neighbours {
        let id = neighbour.id();
        assert_eq!(neighbour.await?, (3, 3));
        assert_eq!(entries(&conn, id), 3);
    }
    assert_eq!(entries(&conn, id), 1);
    let status = engine.run(&stumble::workflow(), id).status().await?;
    let attempts = &status.task("write").unwrap().attempts;
    let failures: Vec<String> =
        attempts.iter().filter_map(|attempt| attempt.failure.as_ref().map(ToString::to_string)).collect();
    assert!(failures[2].contains("timeout of 200ms"), "{failures:?}");
    assert!(failures[3].contains("a task cannot do ROLLBACK"), "{failures:?}");
    engine.stop().await?;
    Ok(())
}

#[workflow]
mod quick {
    use super::*;

    #[task(retry(attempts = 3, delay = "1ms"))]
    pub fn write(input: u64, cx: &Cx, tx: &Transaction) -> Result<u64> {
        tx.execute(ADD, [&cx.run_id().to_string(), "write"])?;
        std::thread::sleep(Duration::from_micros(input));
        Ok(input)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_that_races_with_the_commit_leaves_either_both_or_nothing() -> Result<()> {
    let (_directory, url, conn) = file().await;
    let grace = Duration::from_millis(1);
    let engine = Engine::open(&url).workflow(quick::workflow()).cancel_grace(grace).launch().await?;
    for round in 0..300_u64 {
        let run = engine.start(quick::workflow(), round * 20 % 3000).await?;
        let id = run.id();
        // It may have ended already.
        let cancel = engine.run(&quick::workflow(), id);
        if round % 2 == 0 {
            cancel.cancel("enough").await.ok()
        } else {
            cancel.terminate("now").await.ok()
        };
        let completed = run.await.is_ok();
        let (made, status) = (entries(&conn, id), engine.run(&quick::workflow(), id).status().await?);
        let attempts = status.task("write").map(|task| task.attempts.clone()).unwrap_or_default();
        let recorded = attempts.iter().filter(|attempt| attempt.kind == StepKind::Completed).count();
        assert_eq!(made as usize, recorded, "run {id}: {attempts:?}");
        assert!(recorded <= 1 && (!completed || recorded == 1), "run {id}: {attempts:?}");
    }
    engine.stop().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_undoes_the_whole_transaction_of_a_body_that_does_not_look_at_its_errors() -> Result<()> {
    let (_directory, url, conn) = file().await;
    let pages: u32 = conn.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
    let store = windlass::sqlite::SqliteOptions::new().max_pages(pages + 30).open(&url).await.unwrap();
    let executed = Arc::new(Executed::default());
    let engine = Engine::over(Arc::new(store)).workflow(large::workflow()).shared(Arc::clone(&executed));
    let engine = engine.launch().await?;
    let run = engine.start(large::workflow(), ()).await?;
    let id = run.id();
    let error = run.await.unwrap_err().to_string();
    assert!(error.contains("could not be committed"), "{error}");
    assert_eq!(entries(&conn, id), 0);
    assert_eq!(executed.0.load(Ordering::SeqCst), 12, "six times at once, and again by the rule");
    engine.stop().await?;
    Ok(())
}

#[derive(Default)]
struct Executed(AtomicU32);

#[workflow]
mod large {
    use super::*;

    #[task(retry(attempts = 2, delay = "1ms"))]
    pub fn fill(cx: &Cx, tx: &Transaction, executed: Res<Executed>) -> Result<()> {
        executed.0.fetch_add(1, Ordering::SeqCst);
        for _ in 0..100 {
            tx.execute(ADD, [&cx.run_id().to_string(), &"x".repeat(40_000)]).ok();
        }
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stores_of_other_kinds_are_refused_with_every_task_that_asks_for_a_transaction() {
    let error = Engine::over(Arc::new(windlass::store::Memory::new(|| windlass::Time(1))))
        .workflow(order::workflow())
        .workflow(quick::workflow())
        .launch()
        .await
        .unwrap_err()
        .to_string();
    for task in
        ["task `prepare` of `order`", "task `line` of `order`", "task `total` of `order`", "of `quick`"]
    {
        assert!(error.contains(task), "{error}");
    }
    assert!(error.contains("takes a transaction on SQLite"), "{error}");
}

#[windlass::test]
async fn the_laboratory_has_no_database_and_says_so(lab: Lab) -> Result<()> {
    let error = lab.engine().workflow(quick::workflow()).launch().await.unwrap_err().to_string();
    assert!(error.contains("task `write` of `quick` takes a transaction on SQLite"), "{error}");
    Ok(())
}
