//! Tables that an older program made and filled: they are changed as they stand, and what was under way goes on.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use rusqlite::Connection;
use windlass::{RunId, RunState, prelude::*};

use crate::{
    eventually::{PATIENCE, eventually, eventually_async},
    room::Room,
};

const GO: Event<u32> = Event::new("go");

/// How often each step of each run was executed, and whether second steps end.
#[derive(Default)]
struct Work {
    executed: Mutex<HashMap<(RunId, &'static str), u32>>,
    ends: bool,
}

impl Work {
    fn note(&self, run: RunId, step: &'static str) {
        *self.executed.lock().entry((run, step)).or_default() += 1;
    }

    fn has(&self, run: RunId, step: &'static str) -> bool {
        self.executed.lock().contains_key(&(run, step))
    }
}

/// Two steps, with a wait between them if that is wanted.
#[flow]
async fn journey(cx: &Flow, kind: String, work: Res<Arc<Work>>) -> Result<u32> {
    let (run, first) = (cx.run_id(), Arc::clone(&work));
    let first = cx.step("first", || async move {
        first.note(run, "first");
        Ok::<_, Failure>(1)
    });
    let first = first.await?;
    let word = if kind == "waits" { cx.event(GO).await? } else { 0 };
    let blocks = kind == "blocks" && !work.ends;
    let second = cx.step("second", || async move {
        work.note(run, "second");
        if blocks {
            std::future::pending::<()>().await;
        }
        Ok::<_, Failure>(10)
    });
    Ok(first + word + second.await?)
}

async fn engine(room: &Room, work: &Arc<Work>) -> Engine {
    Engine::over(room.store().await)
        .workflow(journey::workflow())
        .resource(Arc::clone(work))
        .park_after(Duration::from_millis(50))
        .stop_grace(Duration::ZERO)
        .launch()
        .await
        .expect("the engine launches")
}

/// Runs in every place that a run can stand in while no process lives.
#[derive(Clone, Copy)]
struct Runs {
    ended: RunId,
    waits: RunId,
    handed_over: RunId,
    delayed: RunId,
    fresh: RunId,
}

async fn fill(room: &Room) -> Runs {
    let work = Arc::new(Work::default());
    let engine = engine(room, &work).await;
    let start = async |kind: &str| {
        engine.start(journey::workflow(), kind.to_owned()).key(kind).await.expect("the run starts").id()
    };
    let (ended, waits, handed_over) = (start("ends").await, start("waits").await, start("blocks").await);
    let delayed = engine.start(journey::workflow(), "waits".to_owned()).delay(Duration::from_secs(3600));
    let delayed = delayed.await.expect("the run starts").id();
    let store = room.store().await;
    let stands = async |run, state| {
        let image = store.load(run).await.expect("a run can be loaded").expect("the run is there");
        image.standing.state() == state
    };
    eventually("a second step begins", PATIENCE, || work.has(handed_over, "second"));
    eventually_async("a run waits", PATIENCE, || stands(waits, RunState::Suspended)).await;
    eventually_async("a run ends", PATIENCE, || stands(ended, RunState::Completed)).await;
    engine.stop().await.expect("it stops");
    let client = room.client().await;
    let fresh = client
        .start(journey::workflow(), "fresh".to_owned())
        .key("fresh")
        .await
        .expect("the run starts")
        .id();
    client.run(&journey::workflow(), delayed).send(GO, &100).await.expect("the event is sent");
    Runs { ended, waits, handed_over, delayed, fresh }
}

async fn go_on(room: &Room, runs: Runs) {
    let work = Arc::new(Work { ends: true, ..Work::default() });
    let engine = engine(room, &work).await;
    let ended =
        engine.start(journey::workflow(), "ends".to_owned()).key("ends").await.expect("the key is known");
    assert_eq!(ended.id(), runs.ended);
    engine.run(&journey::workflow(), runs.waits).send(GO, &1000).await.expect("the event is sent");
    let delayed = engine.run(&journey::workflow(), runs.delayed);
    assert_eq!(delayed.pending_events().await.expect("they can be listed").len(), 1);
    for (run, output) in [(runs.ended, 11), (runs.waits, 1011), (runs.handed_over, 11), (runs.fresh, 11)] {
        let ended = tokio::time::timeout(PATIENCE, engine.run(&journey::workflow(), run)).await;
        assert_eq!(ended.expect("in time").expect("the run completes"), output);
    }
    for run in [runs.ended, runs.waits, runs.handed_over] {
        assert!(!work.has(run, "first"), "a step that was recorded before is executed again");
    }
    delayed.cancel("it is enough").await.expect("it is cancelled");
    engine.stop().await.expect("it stops");
}

/// The migrations of a store, in order.
fn migrations(of: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(of).join("migrations");
    let files = std::fs::read_dir(folder).expect("the migrations are there");
    let mut files: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    files.sort();
    assert!(files.len() > 1, "there is no older program");
    files.iter().map(|file| std::fs::read_to_string(file).expect("a migration can be read")).collect()
}

/// Makes tables as this many migrations leave them, and fills them with what they have room for of another file.
fn copy_file(from: &Path, to: &Path, migrations: &[String]) {
    let file = Connection::open(to).expect("a file opens");
    file.execute("ATTACH ?1 AS newer", [from.to_str().expect("a path is text")])
        .expect("the other file opens");
    let pragma = |name: &str| -> i64 {
        file.query_row(&format!("PRAGMA newer.{name}"), [], |row| row.get(0)).expect("it has a value")
    };
    let table = "SELECT sql FROM newer.sqlite_schema WHERE name = 'migration'";
    let table: String = file.query_row(table, [], |row| row.get(0)).expect("it notes its migrations");
    let all = format!(
        "{table}; {}; PRAGMA application_id = {}; PRAGMA user_version = {}",
        migrations.join("\n;"),
        pragma("application_id"),
        migrations.len()
    );
    file.execute_batch(&all).expect("the migrations can be applied");
    let names = |sql: &str| -> Vec<String> {
        let mut statement = file.prepare(sql).expect("it can be asked");
        let rows = statement.query_map([], |row| row.get(0)).expect("it can be asked");
        rows.map(|row| row.expect("a name")).collect()
    };
    for table in
        names("SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    {
        let columns = names(&format!("SELECT name FROM pragma_table_info('{table}', 'main')")).join(", ");
        let known = format!("WHERE version <= {}", migrations.len());
        let which = if table == "migration" { known.as_str() } else { "" };
        file.execute_batch(&format!(
            "INSERT OR IGNORE INTO main.{table} ({columns}) SELECT {columns} FROM newer.{table} {which}"
        ))
        .expect("the rows fit");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_any_older_program_is_opened_with_all_that_is_in_it_and_its_runs_go_on() {
    let newer = Room::new();
    let runs = fill(&newer).await;
    let migrations = migrations("sqlite");
    for known in 1..migrations.len() {
        let older = Room::new();
        copy_file(&newer.database(), &older.database(), &migrations[..known]);
        go_on(&older, runs).await;
    }
}

/// The same in a schema of a server.
#[cfg(feature = "postgres")]
async fn copy_schema(client: &tokio_postgres::Client, from: &str, to: &str, known: usize) {
    let dump = windlass_postgres::Postgres::dump(to);
    let older = dump.split(&format!("\n-- Version {}:", known + 1)).next().expect("it begins somehow");
    // What is filled in is as it was left, whatever would follow from it.
    client
        .batch_execute(&format!("{older}; SET session_replication_role = replica"))
        .await
        .expect("it is made");
    let tables = "SELECT table_name::text FROM information_schema.tables WHERE table_schema = $1 \
                  AND table_type = 'BASE TABLE' AND table_name <> 'migration'";
    let columns = "SELECT string_agg(quote_ident(column_name), ', '), min(column_name) FILTER (WHERE is_identity = 'YES') \
                   FROM information_schema.columns WHERE table_schema = $1 AND table_name = $2";
    for table in client.query(tables, &[&to]).await.expect("tables can be listed") {
        let table: String = table.get(0);
        let row = client.query_one(columns, &[&to, &table]).await.expect("columns can be listed");
        let (all, number): (String, Option<String>) = (row.get(0), row.get(1));
        let mut fill = format!(
            "INSERT INTO {to}.{table} ({all}) OVERRIDING SYSTEM VALUE SELECT {all} FROM {from}.{table} \
             ON CONFLICT DO NOTHING"
        );
        if let Some(number) = number {
            fill.push_str(&format!(
                "; SELECT setval(pg_get_serial_sequence('{to}.{table}', '{number}'), \
                 (SELECT coalesce(max({number}), 0) + 1 FROM {to}.{table}))"
            ));
        }
        client.batch_execute(&fill).await.expect("the rows fit");
    }
}

#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread")]
async fn a_schema_of_any_older_program_is_opened_with_all_that_is_in_it_and_its_runs_go_on() {
    let cluster = windlass_cluster::Cluster::find().expect("a cluster is there");
    let (client, connection) =
        tokio_postgres::connect(cluster.url(), tokio_postgres::NoTls).await.expect("the server is there");
    tokio::spawn(connection);
    let schema = |room: &Room| room.url().split_once("schema=").expect("it has one").1.to_owned();
    let newer = Room::on_postgres(cluster.url());
    let runs = fill(&newer).await;
    for known in 1..migrations("postgres").len() {
        let older = Room::on_postgres(cluster.url());
        copy_schema(&client, &schema(&newer), &schema(&older), known).await;
        go_on(&older, runs).await;
    }
}
