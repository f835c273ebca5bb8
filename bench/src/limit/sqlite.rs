//! The raw limits on SQLite, through the driver that the store uses.

use std::time::{Duration, Instant};

use rusqlite::{CachedStatement, Connection, params};
use tempfile::TempDir;

use super::{BATCH, NOTHING, id, instant};
use crate::{Result, ground::Ground, latencies::Latencies};

const SCHEMA: &str = "
    CREATE TABLE run (id BLOB PRIMARY KEY, workflow INTEGER, at INTEGER, input BLOB) WITHOUT ROWID;
    CREATE TABLE ready (run BLOB PRIMARY KEY) WITHOUT ROWID;
    CREATE TABLE step (run BLOB, task INTEGER, at INTEGER, output BLOB, PRIMARY KEY (run, task)) WITHOUT ROWID;
    CREATE TABLE ended (run BLOB PRIMARY KEY, state INTEGER, at INTEGER, output BLOB) WITHOUT ROWID;
";

/// How many rows a multi-row insert writes: beyond some dozens, more rows gain nothing.
const ROWS: u64 = 50;

/// An empty database of its own, with the safe settings of the store.
pub(crate) struct Sqlite {
    connection: Connection,
    _directory: TempDir,
}

impl Sqlite {
    /// Opens a fresh file.
    pub(crate) fn open(ground: &Ground) -> Result<Self> {
        let directory = ground.directory()?;
        let connection = Connection::open(directory.path().join("limit.db"))?;
        connection.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -65536;",
        )?;
        connection.execute_batch(SCHEMA)?;
        Ok(Self { connection, _directory: directory })
    }

    /// Runs of so many steps: one run, the steps, one end each. Answers steps per second.
    pub(crate) fn chains(&self, steps: usize, span: Duration) -> Result<f64> {
        let mut run = self.connection.prepare_cached("INSERT INTO run VALUES (?, 1, ?, ?)")?;
        let mut step = self.step()?;
        let mut end = self.end()?;
        let begin = Instant::now();
        let mut runs = 0;
        while begin.elapsed() < span {
            let wave = runs..runs + BATCH;
            self.transaction(|| {
                wave.clone().try_for_each(|number| {
                    run.execute(params![id(number), instant(number), NOTHING]).map(drop)
                })
            })?;
            for task in 1..=steps {
                self.transaction(|| {
                    for number in wave.clone() {
                        step.execute(params![id(number), task as i64, instant(number), NOTHING])?;
                    }
                    if task == steps {
                        for number in wave.clone() {
                            end.execute(params![id(number), 1, instant(number), NOTHING])?;
                        }
                    }
                    Ok(())
                })?;
            }
            runs += BATCH;
        }
        let took = begin.elapsed();
        self.expect("ended", runs)?;
        Ok((runs * steps as u64) as f64 / took.as_secs_f64())
    }

    /// Pending runs, written with multi-row inserts: a run, and a row that says it is ready. Answers runs per
    /// second.
    pub(crate) fn enqueue(&self, runs: u64) -> Result<f64> {
        let values = |row: &str| vec![row; ROWS as usize].join(", ");
        let mut run =
            self.connection.prepare(&format!("INSERT INTO run VALUES {}", values("(?, 1, ?, ?)")))?;
        let mut ready = self.connection.prepare(&format!("INSERT INTO ready VALUES {}", values("(?)")))?;
        let begin = Instant::now();
        let mut written = 0;
        while written < runs {
            self.transaction(|| {
                for first in (written..written + BATCH).step_by(ROWS as usize) {
                    for row in 0..ROWS {
                        let (column, number) = (row as usize, first + row);
                        run.raw_bind_parameter(3 * column + 1, id(number))?;
                        run.raw_bind_parameter(3 * column + 2, instant(number))?;
                        run.raw_bind_parameter(3 * column + 3, NOTHING)?;
                        ready.raw_bind_parameter(column + 1, id(number))?;
                    }
                    run.raw_execute()?;
                    ready.raw_execute()?;
                }
                Ok(())
            })?;
            written += BATCH;
        }
        let took = begin.elapsed();
        self.expect("ready", written)?;
        Ok(written as f64 / took.as_secs_f64())
    }

    /// Works off what was enqueued: one claim, one step, one end each. Answers runs per second.
    pub(crate) fn burndown(&self) -> Result<f64> {
        let mut claim = self.connection.prepare(
            "DELETE FROM ready WHERE run IN (SELECT run FROM ready ORDER BY run LIMIT ?) RETURNING run",
        )?;
        let mut step = self.step()?;
        let mut end = self.end()?;
        let begin = Instant::now();
        let mut done: u64 = 0;
        loop {
            let claimed = self.transaction(|| {
                let claimed: Vec<[u8; 16]> =
                    claim.query_map([BATCH as i64], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
                for run in &claimed {
                    step.execute(params![run, 0, instant(done), NOTHING])?;
                }
                for run in &claimed {
                    end.execute(params![run, 1, instant(done), NOTHING])?;
                }
                Ok(claimed.len() as u64)
            })?;
            if claimed == 0 {
                break;
            }
            done += claimed;
        }
        let took = begin.elapsed();
        self.expect("ended", done)?;
        Ok(done as f64 / took.as_secs_f64())
    }

    /// Runs with one step whose result is a list, one step for each element, and one that joins them. Answers
    /// tasks per second.
    pub(crate) fn fanout(&self, width: u64, list: &[u8], joined: &[u8], span: Duration) -> Result<f64> {
        let mut run = self.connection.prepare_cached("INSERT INTO run VALUES (?, 1, ?, ?)")?;
        let mut step = self.step()?;
        let mut end = self.end()?;
        let begin = Instant::now();
        let mut runs: u64 = 0;
        while runs == 0 || begin.elapsed() < span {
            let (id, at) = (id(runs), instant(runs));
            self.transaction(|| {
                run.execute(params![id, at, NOTHING])?;
                step.execute(params![id, 0, at, list])
            })?;
            for first in (1..=width).step_by(BATCH as usize) {
                self.transaction(|| {
                    for task in first..(first + BATCH).min(width + 1) {
                        step.execute(params![id, task as i64, at, NOTHING])?;
                    }
                    Ok(())
                })?;
            }
            self.transaction(|| {
                step.execute(params![id, (width + 1) as i64, at, joined])?;
                end.execute(params![id, 1, at, joined])
            })?;
            runs += 1;
        }
        let took = begin.elapsed();
        self.expect("step", runs * (width + 2))?;
        Ok((runs * (width + 2)) as f64 / took.as_secs_f64())
    }

    /// Single rows, each in a transaction of its own. May be called again, and goes on where it stopped.
    pub(crate) fn commits(&self, span: Duration) -> Result<Latencies> {
        let mut run = self.connection.prepare_cached("INSERT INTO run VALUES (?, 1, ?, ?)")?;
        let begin = Instant::now();
        let mut latencies = Latencies::default();
        let mut number = self.count("run")?;
        while begin.elapsed() < span {
            let start = Instant::now();
            self.transaction(|| run.execute(params![id(number), instant(number), NOTHING]))?;
            latencies.push(start.elapsed());
            number += 1;
        }
        self.expect("run", number)?;
        Ok(latencies)
    }

    fn step(&self) -> Result<CachedStatement<'_>> {
        Ok(self.connection.prepare_cached("INSERT INTO step VALUES (?, ?, ?, ?)")?)
    }

    fn end(&self) -> Result<CachedStatement<'_>> {
        Ok(self.connection.prepare_cached("INSERT INTO ended VALUES (?, ?, ?, ?)")?)
    }

    fn transaction<T>(&self, work: impl FnOnce() -> rusqlite::Result<T>) -> Result<T> {
        self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let done = work()?;
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        Ok(done)
    }

    /// A figure is worth nothing when the rows are not there.
    fn expect(&self, table: &str, rows: u64) -> Result<()> {
        let found = self.count(table)?;
        if found == rows { Ok(()) } else { Err(format!("{table} has {found} rows, not {rows}").into()) }
    }

    fn count(&self, table: &str) -> Result<u64> {
        let sql = format!("SELECT count(*) FROM {table}");
        let count: i64 = self.connection.query_row(&sql, [], |row| row.get(0))?;
        Ok(u64::try_from(count)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_is_measured_and_counted() {
        let ground = Ground::find(None).expect("there is a disk");
        let open = || Sqlite::open(&ground).expect("it opens");
        let brief = Duration::from_millis(20);
        assert!(open().chains(3, brief).expect("it runs") > 0.0);
        assert!(open().fanout(2_500, b"[]", b"0", brief).expect("it runs") > 0.0);
        let single = open();
        for _ in 0..2 {
            assert!(single.commits(brief).expect("it runs").percentile_ms(0.5) > Some(0.0));
        }
        let queue = open();
        assert!(queue.enqueue(2_000).expect("it runs") > 0.0);
        assert!(queue.burndown().expect("it runs") > 0.0);
        queue.expect("ready", 0).expect("everything was claimed");
        queue.expect("ended", 2_000).expect("everything has ended");
    }
}
