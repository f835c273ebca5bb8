//! Databases that older versions made: what is in them goes on.

use std::{path::Path, time::Duration};

use tokio_util::sync::CancellationToken;
use windlass::{RunState, prelude::*};
use windlass_sqlite::rusqlite::Connection;
use windlass_store::Place;

use crate::{
    eventually::{PATIENCE, eventually, eventually_async},
    room::Room,
    stage::{Stage, What},
};

const MIGRATIONS: [&str; 6] = [
    include_str!("../../../sqlite/migrations/0001_tables.sql"),
    include_str!("../../../sqlite/migrations/0002_spread.sql"),
    include_str!("../../../sqlite/migrations/0003_parents.sql"),
    include_str!("../../../sqlite/migrations/0004_figures.sql"),
    include_str!("../../../sqlite/migrations/0005_stops.sql"),
    include_str!("../../../sqlite/migrations/0006_remains.sql"),
];

const PAID: Event<u32> = Event::new("paid");

#[flow]
async fn payment(cx: &Flow) -> windlass::Result<u32> {
    cx.event(PAID).await
}

/// One column of what a statement answers.
fn texts(conn: &Connection, sql: &str) -> Vec<String> {
    let mut statement = conn.prepare(sql).expect("the statement is sound");
    let rows = statement.query_map([], |row| row.get(0)).expect("it can be asked");
    rows.collect::<Result<_, _>>().expect("it answers texts")
}

/// A database as so many migrations made it, with what another one has in the same tables and columns.
fn age(today: &Path, old: &Path, schema: usize) {
    let conn = Connection::open(old).expect("the old database is made");
    let attach = format!("ATTACH '{}' AS today; BEGIN", today.display());
    conn.execute_batch(&attach).expect("the other one is read");
    let made = texts(&conn, "SELECT sql FROM today.sqlite_schema WHERE name = 'migration'");
    conn.execute_batch(&made[0]).expect("migrations are noted");
    conn.execute_batch(&MIGRATIONS[..schema].concat()).expect("the old tables are made");
    let noted = format!("INSERT INTO migration SELECT * FROM today.migration WHERE version <= {schema}");
    conn.execute_batch(&noted).expect("the migrations are those of the other one");
    let tables = "SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'";
    for table in texts(&conn, tables).into_iter().filter(|table| table != "migration") {
        let columns =
            texts(&conn, &format!("SELECT name FROM pragma_table_info('{table}', 'main')")).join(", ");
        let copy = format!("INSERT INTO main.{table} ({columns}) SELECT {columns} FROM today.{table}");
        conn.execute_batch(&copy).expect("the rows fit");
    }
    let marks =
        format!("COMMIT; PRAGMA main.application_id = 0x57494E44; PRAGMA main.user_version = {schema}");
    conn.execute_batch(&marks).expect("it is one of ours");
}

/// The locks of nodes as they are when their processes are gone.
fn leave_locks(today: &Room, old: &Room) {
    let directory = old.file("app.db-locks");
    std::fs::create_dir(&directory).expect("the directory is made");
    for lock in std::fs::read_dir(today.file("app.db-locks")).expect("the locks are there") {
        let name = lock.expect("a lock").file_name();
        if name.to_string_lossy().starts_with("node-") {
            std::fs::write(directory.join(name), "").expect("a file is written");
        }
    }
}

/// How everything in a database is declared.
fn declared(file: &Path) -> Vec<String> {
    let conn = Connection::open(file).expect("the database opens");
    texts(&conn, "SELECT type || ' ' || name || ' ' || coalesce(sql, '') FROM sqlite_schema ORDER BY 1")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_lives_waits_and_has_ended_in_a_database_of_any_older_schema_goes_on() {
    let (today, stage) = (Room::new(), Stage::default());
    let (falls, never) = (CancellationToken::new(), CancellationToken::new());
    falls.cancel();
    let quick = stage.engine("quick", today.store().await, &falls).launch().await.expect("it launches");
    let ended = quick.start(stage.workflow(), 0).await.expect("the run starts");
    let ended_id = ended.id();
    ended.await.expect("the run completes");
    quick.stop().await.expect("it stops");

    let slow = stage.engine("slow", today.store().await, &never).workflow(payment::workflow());
    let slow = slow.park_after(Duration::from_millis(1)).launch().await.expect("it launches");
    let live = slow.start(stage.workflow(), 0).await.expect("the run starts").id();
    let parked = slow.start(payment::workflow(), ()).await.expect("the run starts").id();
    let delayed = slow.start(stage.workflow(), 0).delay(Duration::from_secs(3600)).await;
    let delayed = delayed.expect("the run starts").id();
    let store = today.store().await;
    eventually("one executes", PATIENCE, || stage.when("slow", "first", What::Began).is_some());
    eventually_async("one is parked", PATIENCE, || async {
        let image = store.load(parked).await.expect("a run can be loaded").expect("it is there");
        matches!(image.standing.place, Place::Waiting(_))
    })
    .await;

    let fresh = declared(&today.database());
    let made = texts(&Connection::open(today.database()).unwrap(), "SELECT name FROM migration");
    assert_eq!(made.len(), MIGRATIONS.len(), "a migration that is not listed here: {made:?}");
    for schema in 1..=MIGRATIONS.len() {
        let room = Room::new();
        age(&today.database(), &room.database(), schema);
        leave_locks(&today, &room);
        let engine = stage.engine("newest", room.store().await, &falls).workflow(payment::workflow());
        let engine = engine.launch().await.expect("it launches");
        assert_eq!(declared(&room.database()), fresh, "from schema {schema}");
        let waiting = engine.run(&payment::workflow(), parked);
        waiting.send(PAID, &7).await.expect("the event is sent");
        assert_eq!(waiting.await.expect("what was parked completes"), 7, "from schema {schema}");
        let taken_over = tokio::time::timeout(PATIENCE, engine.run(&stage.workflow(), live)).await;
        assert_eq!(taken_over.expect("what lived goes on").expect("it completes"), 1);
        assert_eq!(engine.run(&stage.workflow(), ended_id).await.expect("its result is kept"), 1);
        let status = engine.run(&stage.workflow(), delayed).status().await.expect("it is there");
        assert_eq!(status.state, RunState::Pending);
        let runs = engine.runs().list().await.expect("runs can be found");
        assert_eq!(runs.len(), 4, "nothing is lost, and nothing came along");
        let recovered = runs.iter().find(|run| run.id == live).map(|run| run.standing.recoveries);
        assert_eq!(recovered, Some(1));
        engine.stop().await.expect("it stops");
    }
    never.cancel();
    slow.stop().await.expect("it stops");
}
