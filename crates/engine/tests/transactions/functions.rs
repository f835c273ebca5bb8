//! Steps of durable functions whose writes and record are committed together.

use windlass::{Event, prelude::*};

/// Lets functions go on that have done all they write.
const GO: Event<()> = Event::new("go");

/// In which order things were heard of when they happened, and when the function was run again.
type Orders = (Vec<u32>, Vec<u32>);

#[cfg(feature = "sqlite")]
mod sqlite {
    use std::{
        path::Path,
        sync::atomic::{AtomicU32, Ordering},
        time::Duration,
    };

    use parking_lot::Mutex;
    use rusqlite::Connection;
    use tempfile::TempDir;
    use windlass::{
        CallStatus, RunId, TaskState,
        sqlite::{FlowExt, Transaction},
        testing::Lab,
    };

    use super::*;

    const ADD: &str = "INSERT INTO entry (run, step) VALUES (?1, ?2)";

    /// A file with a table of the application's.
    async fn file() -> (TempDir, String, Connection) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("app.db");
        let url = format!("sqlite://{}", path.display());
        drop(windlass::sqlite::Sqlite::open(&url).await.unwrap());
        let conn = connect(&path);
        conn.execute_batch("CREATE TABLE entry (run TEXT, step TEXT)").unwrap();
        (directory, url, conn)
    }

    fn connect(path: &Path) -> Connection {
        let conn = Connection::open(path).unwrap();
        conn.busy_timeout(Duration::from_secs(10)).unwrap();
        conn
    }

    fn entries(conn: &Connection, run: RunId) -> usize {
        let sql = "SELECT count(*) FROM entry WHERE run = ?1";
        conn.query_row(sql, [run.to_string()], |row| row.get::<_, u32>(0)).unwrap() as usize
    }

    /// Writes side by side with steps that write nothing, and says in which order it heard of them.
    #[flow]
    async fn book(_: &(), cx: &Flow) -> Result<Orders> {
        let heard = Mutex::new(Vec::new());
        let run = cx.run_id().to_string();
        cx.map(0..20_u32, 20, |number| {
            let (heard, run) = (&heard, run.clone());
            Box::pin(async move {
                if number % 4 == 0 {
                    let write = move |tx: &Transaction<'_>| tx.execute(ADD, (run, number));
                    cx.transaction(format!("write {number}"), write).await?;
                } else {
                    cx.step(format!("think {number}"), || async { Ok::<_, Failure>(()) }).await?;
                }
                heard.lock().push(number);
                Ok::<_, Failure>(())
            })
        })
        .await?;
        let order = heard.into_inner();
        let then = cx.step("look", || async { Ok::<_, Failure>(order.clone()) }).await?;
        cx.event(GO).await?;
        Ok((then, order))
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn writes_are_there_once_and_heard_of_in_the_same_order_when_the_function_is_run_again()
    -> Result<()> {
        let (_directory, url, conn) = file().await;
        let launch = async || Engine::open(&url).workflow(book::workflow()).launch().await;
        let engine = launch().await?;
        let mut runs = Vec::new();
        for _ in 0..20 {
            runs.push(engine.start(book::workflow(), ()).await?.id());
        }
        engine.stop().await?;
        let engine = launch().await?;
        for id in runs {
            let run = engine.run(&book::workflow(), id);
            run.send(GO, &()).await?;
            let (then, now) = run.await?;
            assert_eq!(then, now);
            assert_eq!((then.len(), entries(&conn, id)), (20, 5));
        }
        engine.stop().await?;
        Ok(())
    }

    #[derive(Default)]
    struct Executed(AtomicU32);

    #[flow]
    async fn stumble(_: &(), cx: &Flow, executed: Res<Executed>) -> Result<u32> {
        let (run, executed) = (cx.run_id().to_string(), Res::clone(&executed));
        let retry = Retry::attempts(4).delay(Duration::from_millis(1));
        let write = move |tx: &Transaction<'_>| -> Result<u32> {
            tx.execute(ADD, [run.as_str(), "write"])?;
            match executed.0.fetch_add(1, Ordering::SeqCst) {
                0 => Err("no".into()),
                1 => panic!("no"),
                2 => {
                    // Too long for its limit.
                    std::thread::sleep(Duration::from_millis(300));
                    Ok(0)
                }
                times => Ok(times),
            }
        };
        let times = cx.transaction("write", write).retry(retry).timeout(Duration::from_millis(200)).await?;
        let run = cx.run_id().to_string();
        cx.transaction("undo me", move |tx| tx.execute(ADD, [run.as_str(), "refused"])).await?;
        Ok(times)
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn failures_panics_and_time_limits_leave_nothing() -> Result<()> {
        let (_directory, url, conn) = file().await;
        conn.execute_batch("CREATE UNIQUE INDEX once ON entry (run, step)").unwrap();
        let engine = Engine::open(&url).workflow(stumble::workflow()).resource(Executed::default());
        let engine = engine.launch().await?;
        let run = engine.start(stumble::workflow(), ()).await?;
        let id = run.id();
        assert_eq!(run.await?, 3);
        assert_eq!(entries(&conn, id), 2);
        engine.stop().await?;
        Ok(())
    }

    /// Writes two things slowly, of which one has to wait for the other.
    #[flow]
    async fn both(_: &(), cx: &Flow) -> Result<()> {
        let write = |name: &'static str| {
            let run = cx.run_id().to_string();
            cx.transaction(name, move |tx| {
                std::thread::sleep(Duration::from_millis(1500));
                tx.execute(ADD, [run.as_str(), name])
            })
        };
        let (one, other) = tokio::join!(write("one"), write("other"));
        one.and(other)?;
        Ok(())
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_step_that_waits_for_its_turn_to_write_does_not_begin_once_its_run_is_stopped() -> Result<()> {
        let (_directory, url, conn) = file().await;
        let engine = Engine::open(&url).workflow(both::workflow()).launch().await?;
        let run = engine.start(both::workflow(), ()).timeout(Duration::from_millis(500)).await?;
        let id = run.id();
        assert_eq!(run.await.unwrap_err().code(), "run_timed_out");
        assert_eq!(entries(&conn, id), 1, "one was under way, and the other was not");
        engine.stop().await?;
        Ok(())
    }

    /// Goes on without the booking that could not be committed.
    #[flow]
    async fn orphan(_: &(), cx: &Flow, executed: Res<Executed>) -> Result<String> {
        let (run, executed) = (cx.run_id().to_string(), Res::clone(&executed));
        let write = move |tx: &Transaction<'_>| -> Result<()> {
            executed.0.fetch_add(1, Ordering::SeqCst);
            tx.execute(ADD, [run.as_str(), "orphan"])?;
            tx.execute("INSERT INTO child VALUES (7)", [])?;
            Ok(())
        };
        let retry = Retry::attempts(2).delay(Duration::from_millis(1));
        let error = cx.transaction("write", write).retry(retry).await.unwrap_err().to_string();
        let run = cx.run_id().to_string();
        cx.transaction("write instead", move |tx| tx.execute(ADD, [run.as_str(), "instead"])).await?;
        Ok(error)
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_constraint_that_fails_at_the_commit_is_a_failed_attempt_of_the_step() -> Result<()> {
        let (_directory, url, conn) = file().await;
        let tables = "CREATE TABLE parent (id INTEGER PRIMARY KEY); \
            CREATE TABLE child (parent INTEGER REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED)";
        conn.execute_batch(tables).unwrap();
        let engine = Engine::open(&url).workflow(orphan::workflow()).resource(Executed::default());
        let engine = engine.launch().await?;
        let run = engine.start(orphan::workflow(), ()).await?;
        let id = run.id();
        let error = tokio::time::timeout(Duration::from_secs(20), run).await.expect("it is not stranded")?;
        assert!(error.contains("could not be committed: FOREIGN KEY constraint failed"), "{error}");
        assert_eq!(entries(&conn, id), 1);
        engine.stop().await?;
        Ok(())
    }

    #[flow]
    async fn quick(pause: u64, cx: &Flow) -> Result<()> {
        let run = cx.run_id().to_string();
        cx.transaction("write", move |tx| {
            tx.execute(ADD, [run.as_str(), "write"])?;
            std::thread::sleep(Duration::from_micros(pause));
            Ok::<_, windlass::sqlite::rusqlite::Error>(())
        })
        .await?;
        Ok(())
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_cancel_that_races_with_the_commit_leaves_either_both_or_nothing() -> Result<()> {
        let (_directory, url, conn) = file().await;
        let grace = Duration::from_millis(1);
        let engine = Engine::open(&url).workflow(quick::workflow()).cancel_grace(grace).launch().await?;
        for round in 0..200_u64 {
            let run = engine.start(quick::workflow(), round * 20 % 3000).await?;
            let id = run.id();
            let handle = engine.run(&quick::workflow(), id);
            // It may have ended already.
            match round % 2 {
                0 => handle.cancel("enough").await.ok(),
                _ => handle.terminate("now").await.ok(),
            };
            let completed = run.await.is_ok();
            let calls = handle.status().await?.calls;
            let is_recorded = |call: &&CallStatus| call.state == TaskState::Completed;
            let recorded = calls.iter().filter(is_recorded).count();
            assert_eq!(entries(&conn, id), recorded, "run {id}: {calls:?}");
            assert!(recorded <= 1 && (!completed || recorded == 1), "run {id}: {calls:?}");
        }
        engine.stop().await?;
        Ok(())
    }

    #[flow]
    async fn first_of_two(_: &(), cx: &Flow) -> Result<bool> {
        let run = cx.run_id().to_string();
        let write = move |tx: &Transaction<'_>| tx.execute(ADD, [run.as_str(), "write"]);
        let written = windlass::select! {
            written = cx.transaction("write", write) => { written?; true },
            _ = cx.step("quick", || async { Ok::<_, Failure>(()) }) => false,
        };
        cx.event(GO).await?;
        Ok(written)
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_branch_that_loses_leaves_what_it_has_written_with_its_record() -> Result<()> {
        let (_directory, url, conn) = file().await;
        let launch = async || Engine::open(&url).workflow(first_of_two::workflow()).launch().await;
        let engine = launch().await?;
        let mut runs = Vec::new();
        for _ in 0..50 {
            runs.push(engine.start(first_of_two::workflow(), ()).await?.id());
        }
        engine.stop().await?;
        let engine = launch().await?;
        for id in runs {
            let run = engine.run(&first_of_two::workflow(), id);
            run.send(GO, &()).await?;
            let status = run.status().await?;
            let written = run.await?;
            let recorded = status.calls.iter().filter(|call| &*call.name == "write").count();
            assert_eq!(entries(&conn, id), recorded);
            assert!(!written || recorded == 1);
        }
        engine.stop().await?;
        Ok(())
    }

    #[windlass::test]
    async fn the_laboratory_has_no_database_and_the_step_says_so(lab: Lab) -> Result<()> {
        let engine = lab.engine().workflow(quick::workflow()).launch().await?;
        let error = engine.start(quick::workflow(), 0).await?.await.unwrap_err().to_string();
        assert!(error.contains("the step `write` takes a transaction on SQLite"), "{error}");
        Ok(())
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_large_result_is_refused_and_what_was_written_with_it_is_undone() -> Result<()> {
        let (_directory, url, conn) = file().await;
        let engine = Engine::open(&url).workflow(large::workflow()).launch().await?;
        let run = engine.start(large::workflow(), ()).await?;
        let id = run.id();
        let error = run.await.unwrap_err().to_string();
        assert!(error.contains("the result of `write`"), "{error}");
        assert_eq!(entries(&conn, id), 0);
        engine.stop().await?;
        Ok(())
    }

    #[flow]
    async fn large(_: &(), cx: &Flow) -> Result<()> {
        let run = cx.run_id().to_string();
        let write = move |tx: &Transaction<'_>| -> Result<String> {
            tx.execute(ADD, [run.as_str(), "write"])?;
            Ok("x".repeat(5 << 20))
        };
        cx.transaction("write", write).await?;
        Ok(())
    }
}

#[cfg(feature = "postgres")]
mod postgres {
    use std::time::Duration;

    use parking_lot::Mutex;
    use windlass::postgres::{FlowExt, Isolation};

    use super::*;
    use crate::{
        database::{App, Database},
        lost_answer::behind_a_proxy,
        proxy::Cut,
    };

    #[flow]
    async fn book(_: &(), cx: &Flow, app: Res<App>) -> Result<Orders> {
        let heard = Mutex::new(Vec::new());
        let (run, add) = (cx.run_id().to_string(), app.add());
        cx.map(0..12_u32, 12, |number| {
            let (heard, run, add) = (&heard, &run, &add);
            Box::pin(async move {
                if number % 4 == 0 {
                    cx.transaction(format!("write {number}"), move |tx| async move {
                        tx.execute(add, &[run, &number.to_string()]).await
                    })
                    .await?;
                } else {
                    cx.step(format!("think {number}"), || async { Ok::<_, Failure>(()) }).await?;
                }
                heard.lock().push(number);
                Ok::<_, Failure>(())
            })
        })
        .await?;
        let order = heard.into_inner();
        let then = cx.step("look", || async { Ok::<_, Failure>(order.clone()) }).await?;
        cx.event(GO).await?;
        Ok((then, order))
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn writes_are_there_once_and_heard_of_in_the_same_order_when_the_function_is_run_again()
    -> Result<()> {
        let database = Database::new().await;
        let engine = database.engine().workflow(book::workflow()).launch().await?;
        let mut runs = Vec::new();
        for _ in 0..20 {
            runs.push(engine.start(book::workflow(), ()).await?.id());
        }
        engine.stop().await?;
        let engine = database.engine().workflow(book::workflow()).launch().await?;
        for id in runs {
            let run = engine.run(&book::workflow(), id);
            run.send(GO, &()).await?;
            let (then, now) = run.await?;
            assert_eq!(then, now);
            assert_eq!((then.len(), database.entries(id).await), (12, 3));
        }
        engine.stop().await?;
        Ok(())
    }

    #[flow]
    async fn charge(_: &(), cx: &Flow, app: Res<App>) -> Result<u64> {
        let (run, add) = (cx.run_id().to_string(), app.add());
        let (run, add) = (&run, &add);
        let charge = move |tx: std::sync::Arc<windlass::postgres::Transaction>| async move {
            tx.execute(add, &[run, &"charge"]).await
        };
        cx.transaction("charge", charge).await
    }

    async fn lose(cut: Cut) -> Result<()> {
        let (database, proxy) = behind_a_proxy().await;
        let engine = database.engine().workflow(charge::workflow()).launch().await?;
        for number in 1..=10 {
            proxy.cut(cut);
            let run = engine.start(charge::workflow(), ()).await?;
            let id = run.id();
            assert_eq!(run.await?, 1);
            assert!(proxy.has_cut());
            assert_eq!((database.entries(id).await, database.records(id, "/charge").await), (1, 1));
            assert_eq!(database.all_entries().await, number);
        }
        engine.stop().await?;
        Ok(())
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_commit_whose_answer_was_lost_counts_and_is_not_done_again() -> Result<()> {
        lose(Cut::After).await
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_commit_that_never_arrived_is_done_again_and_counts_once() -> Result<()> {
        lose(Cut::Before).await
    }

    /// Goes on without the booking that could not be committed.
    #[flow]
    async fn orphan(_: &(), cx: &Flow, app: Res<App>) -> Result<String> {
        let (run, add) = (&cx.run_id().to_string(), &app.add());
        let wrong = &format!("INSERT INTO {}.child VALUES (7)", app.schema);
        let write = cx.transaction("write", |tx| async move {
            tx.execute(add, &[run, &"orphan"]).await?;
            tx.execute(wrong, &[]).await
        });
        let error = write.retry(Retry::attempts(2).delay(Duration::from_millis(1))).await.unwrap_err();
        cx.transaction("write instead", |tx| async move { tx.execute(add, &[run, &"instead"]).await })
            .await?;
        Ok(error.to_string())
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_constraint_that_fails_at_the_commit_is_a_failed_attempt_of_the_step() -> Result<()> {
        let database = Database::new().await;
        database.defer().await;
        let engine = database.engine().workflow(orphan::workflow()).launch().await?;
        let run = engine.start(orphan::workflow(), ()).await?;
        let id = run.id();
        let error = tokio::time::timeout(Duration::from_secs(20), run).await.expect("it is not stranded")?;
        assert!(error.contains("could not be committed") && error.contains("foreign key"), "{error}");
        assert_eq!(database.entries(id).await, 1);
        engine.stop().await?;
        Ok(())
    }

    #[flow]
    async fn count(_: &(), cx: &Flow, app: Res<App>) -> Result<()> {
        let schema = &app.schema;
        cx.transaction_at(Isolation::Serializable, "count", |tx| async move {
            let row = tx.query_one(&format!("SELECT value FROM {schema}.counter"), &[]).await?;
            let next = row.get::<_, i64>(0) + 1;
            tx.execute(&format!("UPDATE {schema}.counter SET value = $1"), &[&next]).await
        })
        .retry(Retry::attempts(50).delay(std::time::Duration::from_millis(1)))
        .await?;
        Ok(())
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn serialisable_steps_that_come_into_each_others_way_all_count_once() -> Result<()> {
        let database = Database::new().await;
        let engine = database.engine().workflow(count::workflow()).launch().await?;
        let mut runs = Vec::new();
        for _ in 0..30 {
            runs.push(engine.start(count::workflow(), ()).await?);
        }
        for run in runs {
            run.await?;
        }
        let sql = format!("SELECT value FROM {}.counter", database.schema);
        assert_eq!(database.client.query_one(&sql, &[]).await.unwrap().get::<_, i64>(0), 30);
        engine.stop().await?;
        Ok(())
    }
}
