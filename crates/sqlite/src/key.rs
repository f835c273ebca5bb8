//! Keys that runs are known by.

use rusqlite::{Connection, OptionalExtension, params};
use windlass_core::{RunId, Time};
use windlass_store::{KeyLife, NewKey};

use crate::column;

const READ: &str = "SELECT run, digest, until IS NOT NULL FROM key WHERE workflow = ?1 AND key = ?2 AND (until IS NULL OR ?3 < until)";
const TAKE: &str = "\
    INSERT INTO key (workflow, key, run, digest, until) VALUES (?1, ?2, ?3, ?4, ?5) \
    ON CONFLICT (workflow, key) DO UPDATE SET run = excluded.run, digest = excluded.digest, until = excluded.until";

const CHANGE: &str = "UPDATE key SET digest = ?3 WHERE workflow = ?1 AND key = ?2";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[READ, TAKE, CHANGE];

/// The run that a key stands for now, the digest of its input, and whether the key was given a time.
pub(crate) fn read(
    conn: &Connection,
    workflow: i64,
    key: &str,
    now: Time,
) -> rusqlite::Result<Option<(RunId, [u8; 16], bool)>> {
    let mut find = conn.prepare_cached(READ)?;
    find.query_row(params![workflow, key, now.0], |row| {
        Ok((column::run_id(row, 0)?, row.get(1)?, row.get(2)?))
    })
    .optional()
}

/// Notes that the run of a key has another input now.
pub(crate) fn change(conn: &Connection, workflow: i64, new: &NewKey) -> rusqlite::Result<()> {
    conn.prepare_cached(CHANGE)?.execute(params![workflow, new.key, new.digest])?;
    Ok(())
}

/// Gives a key that is free, or has lapsed, to a run.
pub(crate) fn take(
    conn: &Connection,
    workflow: i64,
    new: &NewKey,
    run: RunId,
    now: Time,
) -> rusqlite::Result<()> {
    let until = match new.life {
        KeyLife::Kept => None,
        KeyLife::For(life) => Some((now + life).0),
    };
    conn.prepare_cached(TAKE)?.execute(params![workflow, new.key, run.as_bytes(), new.digest, until])?;
    Ok(())
}
