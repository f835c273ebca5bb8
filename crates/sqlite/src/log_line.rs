//! What was logged while runs were executed.

use std::collections::HashMap;

use rusqlite::{Connection, params};
use windlass_core::{RunId, Time};
use windlass_store::LogLine;

use crate::run;

const ADD: &str = "\
    INSERT INTO log (run, at, level, task, attempt, message, fields, dropped) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
const COUNT: &str = "SELECT count(*) FROM log WHERE run = ?1";
const DROP: &str = "\
    UPDATE log SET dropped = dropped + ?2 \
    WHERE seq = (SELECT seq FROM log WHERE run = ?1 ORDER BY seq DESC LIMIT 1)";
const READ: &str =
    "SELECT at, level, task, attempt, message, fields, dropped FROM log WHERE run = ?1 ORDER BY seq";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[ADD, COUNT, DROP, READ];

/// Keeps lines, of each run no more than may be.
pub(crate) fn add(conn: &Connection, lines: &[LogLine]) -> rusqlite::Result<()> {
    // How many each run has; none of those that are not there.
    let mut kept: HashMap<RunId, Option<usize>> = HashMap::new();
    let (mut add, mut drop) = (conn.prepare_cached(ADD)?, conn.prepare_cached(DROP)?);
    for line in lines {
        let run = line.run.as_bytes();
        let kept = match kept.get_mut(&line.run) {
            Some(kept) => kept,
            None => {
                let is_there = run::core(conn, line.run)?.is_some();
                let count: i64 = conn.prepare_cached(COUNT)?.query_row([run], |row| row.get(0))?;
                kept.entry(line.run).or_insert(is_there.then_some(count.unsigned_abs() as usize))
            }
        };
        let Some(count) = kept else { continue };
        if *count >= LogLine::MOST {
            drop.execute(params![run, line.dropped + 1])?;
            continue;
        }
        *count += 1;
        let LogLine { at, level, task, attempt, message, fields, dropped, .. } = line;
        add.execute(params![run, at.0, level, task, attempt, message, fields, dropped])?;
    }
    Ok(())
}

/// What was logged for a run.
pub(crate) fn read(conn: &Connection, run: RunId) -> rusqlite::Result<Vec<LogLine>> {
    let line = |row: &rusqlite::Row<'_>| {
        Ok(LogLine {
            run,
            at: Time(row.get(0)?),
            level: row.get(1)?,
            task: row.get(2)?,
            attempt: row.get(3)?,
            message: row.get(4)?,
            fields: row.get(5)?,
            dropped: row.get(6)?,
        })
    };
    conn.prepare_cached(READ)?.query_map([run.as_bytes()], line)?.collect()
}
