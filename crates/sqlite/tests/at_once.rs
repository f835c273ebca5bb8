//! Commits on the thread that asks for them.

mod common;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use common::{count, start, write};
use rusqlite::Connection;
use windlass_core::Time;
use windlass_sqlite::{CommitMoment, Sqlite, SqliteOptions};
use windlass_store::{Store, StoreError, Written};

/// Starts a run at once, as soon as the machine is quick enough for that. Answers how many it took.
async fn start_at_once(store: &Sqlite) -> usize {
    for others in 1..1_000 {
        if let Some(answers) = store.commit_at_once(None, &[start(10)]) {
            assert!(matches!(*answers, [Ok(Written::Started { .. })]), "{answers:?}");
            return others;
        }
        write(store, vec![start(10)]).await.unwrap();
    }
    panic!("nothing was ever committed at once");
}

async fn open(dir: &tempfile::TempDir) -> Sqlite {
    Sqlite::open(dir.path().join("app.db").to_str().unwrap()).await.unwrap()
}

#[tokio::test]
async fn what_was_committed_at_once_is_there_for_everyone() {
    let dir = tempfile::tempdir().unwrap();
    let (store, other) = (open(&dir).await, open(&dir).await);
    let written = start_at_once(&store).await;
    assert_eq!((count(&store).await, count(&other).await), (written, written));
}

#[tokio::test]
async fn nothing_is_committed_at_once_while_another_program_has_locked_the_database() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir).await;
    let written = start_at_once(&store).await;
    let program = Connection::open(dir.path().join("app.db")).unwrap();
    program.execute_batch("BEGIN IMMEDIATE").unwrap();
    let asked = Instant::now();
    assert!(store.commit_at_once(None, &[start(10)]).is_none());
    assert!(asked.elapsed() < Duration::from_secs(2), "it waited for the lock");
    // Whoever has a thread for that waits, and gets its turn.
    let waiting = write(&store, vec![start(10)]);
    program.execute_batch("COMMIT").unwrap();
    waiting.await.unwrap();
    assert_eq!(count(&store).await, written + 1);
}

#[tokio::test]
async fn nothing_is_committed_at_once_while_another_process_has_its_turn() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("app.db");
    let (entered, inside) = mpsc::channel();
    let (leave, left) = mpsc::channel::<()>();
    let (armed, left) = (Arc::new(AtomicBool::new(false)), parking_lot::Mutex::new(left));
    let hook = {
        let armed = Arc::clone(&armed);
        move |moment: CommitMoment| {
            if matches!(moment, CommitMoment::Before(_)) && armed.swap(false, Ordering::SeqCst) {
                entered.send(()).unwrap();
                left.lock().recv().unwrap();
            }
        }
    };
    let slow = SqliteOptions::new().on_commit(hook).open(file.to_str().unwrap()).await.unwrap();
    let store = open(&dir).await;
    let written = start_at_once(&store).await;
    armed.store(true, Ordering::SeqCst);
    let writing = slow.commit(None, Arc::new(vec![start(10)]));
    inside.recv().unwrap();
    assert!(store.commit_at_once(None, &[start(10)]).is_none());
    leave.send(()).unwrap();
    writing.await.unwrap();
    assert_eq!(count(&store).await, written + 1);
}

#[tokio::test]
async fn where_commits_are_slow_they_are_left_to_the_thread_that_is_there_for_them() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("app.db");
    let slow = |_: CommitMoment| std::thread::sleep(Duration::from_millis(5));
    let store = SqliteOptions::new().on_commit(slow).open(file.to_str().unwrap()).await.unwrap();
    for _ in 0..3 {
        write(&store, vec![start(10)]).await.unwrap();
    }
    assert!(store.commit_at_once(None, &[start(10)]).is_none());
    assert_eq!(count(&store).await, 3);
}

#[tokio::test]
async fn a_closed_store_commits_nothing_at_once() {
    let store = Sqlite::open("sqlite::memory:").await.unwrap();
    store.close().await;
    assert!(store.commit_at_once(None, &[start(10)]).is_none());
}

/// A store whose next transaction panics at its end, each time that the other half is set.
async fn open_fragile(dir: &tempfile::TempDir) -> (Sqlite, Arc<AtomicBool>) {
    let armed = Arc::new(AtomicBool::new(false));
    let hook = {
        let armed = Arc::clone(&armed);
        move |moment: CommitMoment| {
            let is_due = matches!(moment, CommitMoment::Before(_)) && armed.swap(false, Ordering::SeqCst);
            assert!(!is_due, "as planned");
        }
    };
    let file = dir.path().join("app.db");
    (SqliteOptions::new().on_commit(hook).open(file.to_str().unwrap()).await.unwrap(), armed)
}

#[tokio::test]
async fn a_panic_on_the_thread_of_a_caller_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let (store, armed) = open_fragile(&dir).await;
    let mut written = start_at_once(&store).await;
    loop {
        armed.store(true, Ordering::SeqCst);
        let fate = catch_unwind(AssertUnwindSafe(|| store.commit_at_once(None, &[start(10)])));
        assert!(matches!(fate, Ok(None)), "it reached the caller");
        if !armed.swap(false, Ordering::SeqCst) {
            break;
        }
        // It was not tried at all this time.
        write(&store, vec![start(10)]).await.unwrap();
        written += 1;
    }
    // Neither an open transaction nor a wait that ends at once is left to whoever writes next.
    let program = Connection::open(dir.path().join("app.db")).unwrap();
    program.execute_batch("BEGIN IMMEDIATE").unwrap();
    let waiting = write(&store, vec![start(10)]);
    let letting_go = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        program.execute_batch("COMMIT").unwrap();
    });
    waiting.await.unwrap();
    letting_go.join().unwrap();
    assert_eq!(count(&store).await, written + 1);
}

#[tokio::test]
async fn a_writer_that_panicked_keeps_nobody_else_from_writing() {
    let dir = tempfile::tempdir().unwrap();
    let (store, armed) = open_fragile(&dir).await;
    let other = open(&dir).await;
    let written = start_at_once(&store).await;
    armed.store(true, Ordering::SeqCst);
    assert!(matches!(write(&store, vec![start(10)]).await, Err(StoreError::Closed)));
    write(&other, vec![start(10)]).await.unwrap();
    // A store is closed as a whole.
    assert!(matches!(write(&store, vec![start(10)]).await, Err(StoreError::Closed)));
    for _ in 0..3 {
        assert!(store.commit_at_once(None, &[start(10)]).is_none());
    }
    assert_eq!(count(&other).await, written + 1);
}

#[tokio::test]
async fn a_transaction_that_was_slow_and_failed_counts_as_slow() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("app.db");
    let slow = Arc::new(AtomicBool::new(false));
    let clock = {
        let slow = Arc::clone(&slow);
        move || {
            if slow.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(50));
            }
            Time(1_000_000)
        }
    };
    let store = SqliteOptions::new().clock(clock).open(file.to_str().unwrap()).await.unwrap();
    start_at_once(&store).await;
    let twice = start(10);
    write(&store, vec![twice.clone()]).await.unwrap();
    start_at_once(&store).await;
    slow.store(true, Ordering::SeqCst);
    // Only the store's own thread can tell a start that is sent again.
    assert!(store.commit_at_once(None, std::slice::from_ref(&twice)).is_none());
    let asked = Instant::now();
    assert!(store.commit_at_once(None, std::slice::from_ref(&twice)).is_none());
    assert!(asked.elapsed() < Duration::from_millis(50), "it was tried again on the thread of the caller");
}

#[tokio::test]
async fn nobody_who_commits_at_once_moves_the_log_or_makes_room_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir).await;
    let length = |name: &str| std::fs::metadata(dir.path().join(name)).map_or(0, |file| file.len());
    let (mut at_once, mut moved) = (0, false);
    for _ in 0..2_000 {
        let (file, log) = (length("app.db"), length("app.db-wal"));
        if store.commit_at_once(None, &[start(12_000)]).is_some() {
            at_once += 1;
            assert_eq!(length("app.db"), file, "the log was moved to the database");
            let longer = length("app.db-wal") - log;
            assert!(longer < 64 << 10, "{longer} bytes of room were made in the log");
        } else {
            write(&store, vec![start(12_000)]).await.unwrap();
            moved |= length("app.db") > file;
        }
    }
    assert!(moved && at_once > 0, "{at_once} commits at once; moved: {moved}");
}

#[tokio::test]
async fn what_is_large_is_not_committed_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir).await;
    start_at_once(&store).await;
    assert!(store.commit_at_once(None, &[start(4 << 20)]).is_none());
    start_at_once(&store).await;
}
