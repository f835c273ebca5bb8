//! Bare loops.

use std::path::Path;

use rusqlite::Connection;
use windlass_core::RunId;

use crate::{Failure, watch::my_seconds};

/// How many of each kind a transaction holds.
const TOGETHER: usize = 1_000;
/// How many rows a multi-row insert writes.
const ROWS: usize = 50;
const AT: i64 = 1_700_000_000_000_000;

/// Does the bare loop on a thread with a name, so that a profiler can tell it from ours.
fn alone<T: Send + 'static>(
    bare: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let thread = std::thread::Builder::new().name("limit".into()).spawn(bare)?;
    thread.join().map_err(|_| "the bare loop panicked")?
}

fn bare(path: &Path) -> Result<Connection, Failure> {
    let conn = Connection::open(path)?;
    conn.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -65536;
         CREATE TABLE run (id BLOB PRIMARY KEY, workflow INTEGER, input BLOB, at INTEGER) WITHOUT ROWID;
         CREATE TABLE step (run BLOB, no INTEGER, output BLOB, at INTEGER, PRIMARY KEY (run, no)) WITHOUT ROWID;
         CREATE TABLE ended (run BLOB PRIMARY KEY, state INTEGER, output BLOB, at INTEGER) WITHOUT ROWID;
         CREATE TABLE ready (run BLOB PRIMARY KEY) WITHOUT ROWID;",
    )?;
    Ok(conn)
}

/// One run, three steps and one end, in transactions of a thousand of each. Answers microseconds for a task.
pub(crate) fn chain3(runs: usize) -> Result<f64, Failure> {
    alone(move || {
        let dir = tempfile::tempdir()?;
        let conn = bare(&dir.path().join("limit.db"))?;
        let since = my_seconds();
        for _ in 0..runs / TOGETHER {
            let ids: Vec<_> = (0..TOGETHER).map(|_| RunId::new()).collect();
            conn.execute_batch("BEGIN IMMEDIATE")?;
            insert(&conn, &ids, "INSERT INTO run VALUES (?1, ?2, ?3, ?4)", 1)?;
            for no in 0..3 {
                insert(&conn, &ids, "INSERT INTO step VALUES (?1, ?2, ?3, ?4)", no)?;
            }
            insert(&conn, &ids, "INSERT INTO ended VALUES (?1, ?2, ?3, ?4)", 6)?;
            conn.execute_batch("COMMIT")?;
        }
        Ok(micros(since, runs) / 3.0)
    })
}

fn micros(since: f64, runs: usize) -> f64 {
    (my_seconds() - since) * 1e6 / runs as f64
}

fn insert(conn: &Connection, ids: &[RunId], sql: &str, number: i64) -> Result<(), Failure> {
    let mut add = conn.prepare_cached(sql)?;
    for (id, at) in ids.iter().zip(AT..) {
        add.execute((id.as_bytes(), number, b"{\"n\":1}", at))?;
    }
    Ok(())
}

/// Enqueues runs with multi-row inserts, then claims each, and writes one step and one end. Answers
/// microseconds for a run, of each.
pub(crate) fn burndown(runs: usize) -> Result<(f64, f64), Failure> {
    alone(move || {
        let dir = tempfile::tempdir()?;
        let conn = bare(&dir.path().join("limit.db"))?;
        let since = my_seconds();
        let mut all = Vec::new();
        for _ in 0..runs / TOGETHER {
            let ids: Vec<_> = (0..TOGETHER).map(|_| RunId::new()).collect();
            conn.execute_batch("BEGIN IMMEDIATE")?;
            enqueue(&conn, &ids)?;
            conn.execute_batch("COMMIT")?;
            all.push(ids);
        }
        let enqueued = micros(since, runs);
        let since = my_seconds();
        for ids in all {
            conn.execute_batch("BEGIN IMMEDIATE")?;
            let mut claim = conn.prepare_cached("DELETE FROM ready WHERE run = ?1")?;
            for id in &ids {
                claim.execute([id.as_bytes()])?;
            }
            insert(&conn, &ids, "INSERT INTO step VALUES (?1, ?2, ?3, ?4)", 0)?;
            insert(&conn, &ids, "INSERT INTO ended VALUES (?1, ?2, ?3, ?4)", 6)?;
            conn.execute_batch("COMMIT")?;
        }
        Ok((enqueued, micros(since, runs)))
    })
}

fn enqueue(conn: &Connection, ids: &[RunId]) -> Result<(), Failure> {
    let values = |row: &str| vec![row; ROWS].join(", ");
    let mut run = conn.prepare_cached(&format!("INSERT INTO run VALUES {}", values("(?, 1, ?, ?)")))?;
    let mut ready = conn.prepare_cached(&format!("INSERT INTO ready VALUES {}", values("(?)")))?;
    for some in ids.chunks_exact(ROWS) {
        for (row, id) in some.iter().enumerate() {
            run.raw_bind_parameter(3 * row + 1, id.as_bytes())?;
            run.raw_bind_parameter(3 * row + 2, b"{\"n\":1}")?;
            run.raw_bind_parameter(3 * row + 3, AT)?;
            ready.raw_bind_parameter(row + 1, id.as_bytes())?;
        }
        run.raw_execute()?;
        ready.raw_execute()?;
    }
    Ok(())
}
