//! What is left when writing fails.

mod common;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use common::{count, start, write};
use rusqlite::Connection;
use windlass_sqlite::{CommitMoment, Sqlite, SqliteOptions};
use windlass_store::{Query, Store};

#[tokio::test]
async fn a_full_disk_is_said_loses_nothing_and_is_gone_when_there_is_room() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("app.db");
    let store = SqliteOptions::new().max_pages(120).open(file.to_str().unwrap()).await.unwrap();
    let mut written = 0;
    let error = loop {
        match write(&store, vec![start(10), start(10_000), start(10)]).await {
            Ok(()) => written += 3,
            Err(error) => break error,
        }
        assert!(written < 1000, "the disk never filled up");
    };
    let text = error.to_string();
    assert!(error.is_temporary(), "{error:?}");
    assert!(text.contains("no room left") && text.contains("app.db") && text.contains("make room"), "{text}");
    assert!(written > 0);
    assert_eq!(count(&store).await, written, "the failed batch left something behind");
    store.close().await;

    let store = Sqlite::open(file.to_str().unwrap()).await.unwrap();
    assert_eq!(count(&store).await, written);
    write(&store, vec![start(10_000)]).await.unwrap();
    assert_eq!(count(&store).await, written + 1);
    store.close().await;
    let check: String =
        Connection::open(&file).unwrap().query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
}

#[tokio::test]
async fn a_request_that_fails_takes_nobody_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("app.db");
    let store = SqliteOptions::new().max_pages(120).open(file.to_str().unwrap()).await.unwrap();
    write(&store, vec![start(10)]).await.unwrap();
    // Asked together, they may share a transaction.
    let (small, large, other) = tokio::join!(
        write(&store, vec![start(10)]),
        write(&store, vec![start(4_000_000)]),
        write(&store, vec![start(10)]),
    );
    small.unwrap();
    other.unwrap();
    assert!(large.unwrap_err().is_temporary());
    assert_eq!(count(&store).await, 3);
}

#[tokio::test]
async fn names_given_out_by_a_transaction_that_failed_are_not_believed() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("app.db");
    let store = SqliteOptions::new().max_pages(120).open(file.to_str().unwrap()).await.unwrap();
    write(&store, vec![start(4_000_000)]).await.unwrap_err();
    write(&store, vec![start(10)]).await.unwrap();
    let page = store.find(Query { workflow: Some(Arc::from("etl")), ..Query::default() }).await.unwrap();
    assert_eq!(page.runs.len(), 1);
    assert_eq!(&*page.runs[0].queue, "default");
}

#[tokio::test]
async fn the_hook_hears_of_every_commit_before_and_after() {
    let (before, after) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (said_before, said_after) = (Arc::clone(&before), Arc::clone(&after));
    let hook = move |moment| match moment {
        CommitMoment::Before(number) => {
            assert_eq!(number, said_after.load(Ordering::SeqCst) + 1);
            said_before.store(number, Ordering::SeqCst);
        }
        CommitMoment::After(number) => {
            assert_eq!(number, said_before.load(Ordering::SeqCst));
            said_after.store(number, Ordering::SeqCst);
        }
    };
    let store = SqliteOptions::new().on_commit(hook).open("sqlite::memory:").await.unwrap();
    for number in 1..=3 {
        write(&store, vec![start(1)]).await.unwrap();
        assert_eq!(after.load(Ordering::SeqCst), number);
    }
    assert_eq!(before.load(Ordering::SeqCst), 3);
}

/// What a process that dies just before its commit leaves is the file as it was: a copy of the files at that
/// moment, opened anew, holds everything that was acknowledged and nothing else.
#[tokio::test]
async fn a_crash_before_the_commit_leaves_nothing_and_one_after_it_leaves_everything() {
    let dir = tempfile::tempdir().unwrap();
    let copies = dir.path().to_owned();
    let hook = move |moment: CommitMoment| {
        let name = match moment {
            CommitMoment::Before(number) => format!("before-{number}"),
            CommitMoment::After(number) => format!("after-{number}"),
        };
        std::fs::create_dir(copies.join(&name)).unwrap();
        for file in ["app.db", "app.db-wal"] {
            std::fs::copy(copies.join(file), copies.join(&name).join(file)).unwrap();
        }
    };
    let store =
        SqliteOptions::new().on_commit(hook).open(dir.path().join("app.db").to_str().unwrap()).await.unwrap();
    write(&store, vec![start(10), start(10)]).await.unwrap();
    write(&store, vec![start(10), start(50_000), start(10)]).await.unwrap();
    for (moment, runs) in [("before-1", 0), ("after-1", 2), ("before-2", 2), ("after-2", 5)] {
        let copy = Sqlite::open(dir.path().join(moment).join("app.db").to_str().unwrap()).await.unwrap();
        assert_eq!(count(&copy).await, runs, "{moment}");
    }
}

#[tokio::test]
async fn dropping_the_answer_does_not_withdraw_the_commit() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("app.db");
    let store = Sqlite::open(file.to_str().unwrap()).await.unwrap();
    drop(store.commit(None, Arc::new(vec![start(1)])));
    store.close().await;
    let store = Sqlite::open(file.to_str().unwrap()).await.unwrap();
    assert_eq!(count(&store).await, 1);
}

/// The disk, or somebody, writes nonsense into the middle of a file that is open.
#[cfg(unix)]
#[tokio::test]
async fn a_file_that_is_damaged_while_it_is_open_is_reported_and_what_was_acknowledged_is_kept() {
    use std::{fs::File, os::unix::fs::FileExt};

    const PAGE: usize = 4096;
    let nonsense = [0xAB; PAGE];
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("app.db");
    let open = || Sqlite::open(file.to_str().unwrap());
    let store = open().await.unwrap();
    for _ in 0..100 {
        write(&store, vec![start(500), start(3_000)]).await.unwrap();
    }
    store.close().await;
    let whole = std::fs::read(&file).unwrap();
    // Whatever is first in a table of its own is known by then.
    let store = open().await.unwrap();
    let pages = 60..whole.len() / PAGE;
    assert!(pages.len() > 50, "there is nothing in the middle");
    let disk = File::options().read(true).write(true).open(&file).unwrap();
    for page in pages.clone() {
        disk.write_all_at(&nonsense, (page * PAGE) as u64).unwrap();
    }

    let says = |error: windlass_store::StoreError| {
        let text = error.to_string();
        assert!(!error.is_temporary(), "{error:?}");
        assert!(text.contains("app.db is damaged") && text.contains("from a backup"), "{text}");
    };
    says(store.find(Query { limit: 10_000, ..Query::default() }).await.unwrap_err());
    let mut acknowledged = 200;
    for _ in 0..50 {
        match write(&store, vec![start(2_000)]).await {
            Ok(()) => acknowledged += 1,
            Err(error) => says(error),
        }
    }
    store.close().await;

    // What is still nonsense comes from the backup.
    for page in pages {
        let (at, mut found) = (page * PAGE, [0; PAGE]);
        disk.read_exact_at(&mut found, at as u64).unwrap();
        if found == nonsense {
            disk.write_all_at(&whole[at..at + PAGE], at as u64).unwrap();
        }
    }
    let store = open().await.unwrap();
    assert_eq!(count(&store).await, acknowledged);
    store.close().await;
    let check: String =
        Connection::open(&file).unwrap().query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
}
