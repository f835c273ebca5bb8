//! A disk that is full in the middle of work.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use rusqlite::Connection;
use tokio_util::sync::CancellationToken;
use windlass_sqlite::{Sqlite, SqliteOptions};
use windlass_store::{Query, Store};

use crate::{
    eventually::{PATIENCE, eventually_async},
    faulty::Faulty,
    room::Room,
    stage::Stage,
};

/// Fills the database with something that can be thrown away.
fn fill(room: &Room) -> u32 {
    let conn = Connection::open(room.database()).expect("the file opens");
    conn.execute_batch("CREATE TABLE ballast (bytes BLOB); INSERT INTO ballast VALUES (zeroblob(4000000));")
        .expect("the file takes ballast");
    conn.query_row("PRAGMA page_count", [], |row| row.get(0)).expect("the pages can be counted")
}

fn make_room(room: &Room) {
    let conn = Connection::open(room.database()).expect("the file opens");
    conn.busy_timeout(PATIENCE).expect("a timeout is set");
    conn.execute_batch("DELETE FROM ballast").expect("the ballast goes");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_holds_work_up_and_loses_and_acknowledges_nothing() {
    let (room, stage, falls) = (Room::new(), Stage::default(), CancellationToken::new());
    falls.cancel();
    Sqlite::open(&room.url()).await.expect("the database is made").close().await;
    let pages = fill(&room);
    let store = SqliteOptions::new().max_pages(pages + 40).open(&room.url()).await.expect("it opens");
    let store = Arc::new(Faulty::new(Arc::new(store)));
    let failures = Arc::new(AtomicUsize::new(0));
    let noted = Arc::clone(&failures);
    store.on_commit(move |_, _, fate| {
        if let Err(error) = fate {
            assert!(error.to_string().contains("no room left"), "{error}");
            noted.fetch_add(1, Ordering::SeqCst);
        }
    });
    let engine = stage.engine("only", store, &falls).launch().await.expect("it launches");
    let starts: Vec<_> = (0..2000)
        .map(|number| {
            let (engine, workflow) = (engine.clone(), stage.workflow());
            tokio::spawn(async move { engine.start(workflow, number).await })
        })
        .collect();
    eventually_async("the disk is full", PATIENCE, || async {
        // Several failures in a row: the engine keeps trying.
        failures.load(Ordering::SeqCst) > 3
    })
    .await;
    let acknowledged = starts.iter().filter(|start| start.is_finished()).count();
    let reader = room.store().await;
    let written = count(&*reader).await;
    assert!(acknowledged < 2000, "everything fitted, so this shows nothing");
    assert!(acknowledged <= written, "{acknowledged} starts were acknowledged and {written} are written");

    make_room(&room);
    let mut runs = Vec::new();
    for start in starts {
        let start = tokio::time::timeout(PATIENCE, start).await.expect("in time").expect("no panic");
        runs.push(start.expect("the run starts"));
    }
    for run in runs {
        let run = tokio::time::timeout(PATIENCE, run).await.expect("in time");
        assert_eq!(run.expect("the run completes"), 1);
    }
    assert_eq!(count(&*reader).await, 2000);
    engine.stop().await.expect("it stops");
}

async fn count(store: &dyn Store) -> usize {
    let query = Query { limit: 10_000, ..Query::default() };
    store.find(query).await.expect("runs can be found").runs.len()
}
