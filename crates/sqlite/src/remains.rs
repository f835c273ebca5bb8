//! What is left of runs that were discarded.
//!
//! Nobody meets it: whoever reads the rows of a run has read the run before. So it may go a little at a time, and what a crash
//! leaves of it goes later.

use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension, params};
use windlass_core::RunId;

use crate::column;

const ANY: &str = "SELECT EXISTS (SELECT 1 FROM remains)";
const HAS: &str = "SELECT EXISTS (SELECT 1 FROM remains WHERE run = ?1)";
const FIRST: &str = "SELECT run FROM remains ORDER BY run LIMIT 1";
const ADD: &str = "INSERT INTO remains (run) VALUES (?1) ON CONFLICT DO NOTHING";
const REMOVE: &str = "DELETE FROM remains WHERE run = ?1";
/// Some rows of a run, of each kind of which there may be many.
const SOME: [&str; 4] = [
    "DELETE FROM step WHERE run = ?1 AND seq IN (SELECT seq FROM step WHERE run = ?1 ORDER BY seq LIMIT ?2)",
    "DELETE FROM past_end WHERE run = ?1 AND generation IN (\
        SELECT generation FROM past_end WHERE run = ?1 ORDER BY generation LIMIT ?2)",
    "DELETE FROM delivered WHERE run = ?1 AND (topic, key) IN (\
        SELECT topic, key FROM delivered WHERE run = ?1 ORDER BY topic, key LIMIT ?2)",
    "DELETE FROM log WHERE seq IN (SELECT seq FROM log WHERE run = ?1 LIMIT ?2)",
];

/// Without those that look at the first row of all.
#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[HAS, ADD, REMOVE, SOME[0], SOME[1], SOME[2], SOME[3]];

/// How many rows go between two looks at the clock: a millisecond's worth, of small ones.
const AT_ONCE: usize = 200;

/// For how long one may go on.
#[derive(Clone, Copy)]
pub(crate) struct Spell {
    pub(crate) began: Instant,
    pub(crate) within: Duration,
}

impl Spell {
    pub(crate) fn is_over(self) -> bool {
        self.began.elapsed() > self.within
    }
}

/// Whether anything is left of any run.
pub(crate) fn any(conn: &Connection) -> rusqlite::Result<bool> {
    conn.prepare_cached(ANY)?.query_row([], |row| row.get(0))
}

/// Whether something is left of this one.
pub(crate) fn has(conn: &Connection, run: RunId) -> rusqlite::Result<bool> {
    conn.prepare_cached(HAS)?.query_row([run.as_bytes()], |row| row.get(0))
}

/// Removes what is left of a run whose own row is gone, as far as there is time, but some in any case. Answers whether all is
/// gone.
pub(crate) fn clear(conn: &Connection, run: RunId, spell: Spell) -> rusqlite::Result<bool> {
    for some in SOME {
        let mut some = conn.prepare_cached(some)?;
        while some.execute(params![run.as_bytes(), AT_ONCE as i64])? == AT_ONCE {
            if spell.is_over() {
                conn.prepare_cached(ADD)?.execute([run.as_bytes()])?;
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// The same of one that is known to have left something.
pub(crate) fn go_on(conn: &Connection, run: RunId, spell: Spell) -> rusqlite::Result<bool> {
    let is_all = clear(conn, run, spell)?;
    if is_all {
        conn.prepare_cached(REMOVE)?.execute([run.as_bytes()])?;
    }
    Ok(is_all)
}

/// The same of all that have left something. Answers whether all is gone.
pub(crate) fn go_on_with_all(conn: &Connection, spell: Spell) -> rusqlite::Result<bool> {
    let mut first = conn.prepare_cached(FIRST)?;
    while let Some(run) = first.query_row([], |row| column::run_id(row, 0)).optional()? {
        if !go_on(conn, run, spell)? || spell.is_over() {
            return Ok(!any(conn)?);
        }
    }
    Ok(true)
}

/// Removes all that is left of a run of this id, for one of the same id is about to begin.
pub(crate) fn make_way(conn: &Connection, run: RunId) -> rusqlite::Result<()> {
    if has(conn, run)? {
        go_on(conn, run, Spell { began: Instant::now(), within: Duration::MAX })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{clock::Clock, open};

    const STEPS: &str = "\
        WITH RECURSIVE n (no) AS (SELECT 1 UNION ALL SELECT no + 1 FROM n WHERE no < 10000) \
        INSERT INTO step (run, seq, generation, name, attempt, epoch, kind, started_at, took) \
        SELECT ?1, no, 1, 'a' || no, 1, 0, 0, 0, 0 FROM n";

    fn steps(conn: &Connection) -> usize {
        conn.query_row("SELECT count(*) FROM step", [], |row| row.get::<_, u32>(0)).unwrap() as usize
    }

    #[test]
    fn a_run_of_ten_thousand_records_goes_a_few_at_a_time_whoever_goes_on_with_it() {
        let setup = open::Setup { synchronous: crate::Synchronous::Full, max_pages: None, makes: true };
        let conn = open::open_memory(setup, &Clock::system()).unwrap();
        let run = RunId::from_bytes([7; 16]);
        conn.execute(STEPS, [run.as_bytes()]).unwrap();
        let spell = || Spell { began: Instant::now(), within: Duration::ZERO };
        assert!(!clear(&conn, run, spell()).unwrap());
        assert!(has(&conn, run).unwrap(), "somebody else may go on");
        let (mut left, mut calls) = (steps(&conn), 1);
        while !go_on_with_all(&conn, spell()).unwrap() {
            let now = steps(&conn);
            assert!(now < left && left - now <= AT_ONCE, "from {left} to {now}");
            (left, calls) = (now, calls + 1);
        }
        assert_eq!(steps(&conn), 0);
        assert!(calls >= 10_000 / AT_ONCE && !any(&conn).unwrap(), "{calls} calls");
    }
}
