//! Commits on the thread that asks for them.

mod common;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use common::{count, start, write};
use rusqlite::Connection;
use windlass_sqlite::{CommitMoment, Sqlite, SqliteOptions};
use windlass_store::{Store, Written};

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
