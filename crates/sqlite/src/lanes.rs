//! Walking over the keys of a declared queue in which something waits.
//!
//! The keys that have something for a workflow are found one by one in an index. A key whose rate lets none begin leaves it: its
//! rows are marked as resting, and the table `resting` says until when. So however many keys rest, a walk does not meet them.

use rusqlite::{Connection, OptionalExtension, ToSql, params};
use windlass_core::Time;
use windlass_store::{QueueLimits, Rate};

use crate::queue;

/// How much is written at once to put keys to rest, and how many are woken: a hundredth of a second or two. What is left is met
/// again by the next claim.
const AT_ONCE: i64 = 2_000;

/// What waits in a queue.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Runs, in `ready`.
    Runs,
    /// Published attempts, in `spread`.
    Tasks,
}

/// What is asked of each kind. Given are the queue, a number for the workflow, a lane, and a number for the version, as far as
/// it is asked for.
struct Statements {
    /// Whether something without a key is there.
    keyless: &'static str,
    /// The first lane after one that has something which does not rest.
    open: &'static str,
    /// Until when the keys rest, and which lane is the first.
    next: &'static str,
    /// Forgets that a lane is not to be found in the index, if there is nothing.
    forget: &'static str,
}

const RUNS: Statements = Statements {
    keyless: "SELECT 1 FROM ready WHERE queue = ?1 AND lane = '' AND workflow = ?2 LIMIT 1",
    open: "\
        SELECT lane FROM ready WHERE queue = ?1 AND workflow = ?2 AND lane > ?3 AND lane <> '' AND resting = 0 \
        ORDER BY lane LIMIT 1",
    next: "\
        SELECT until, lane FROM resting AS s WHERE queue = ?1 AND tasks = 0 AND workflow = ?2 AND (until, lane) > (?3, ?4) \
          AND until <= ?6 AND EXISTS (SELECT 1 FROM ready AS r WHERE r.queue = ?1 AND r.lane = s.lane AND r.workflow = ?2) \
        ORDER BY until, lane LIMIT 1",
    forget: "\
        DELETE FROM resting WHERE queue = ?1 AND tasks = 0 AND workflow = ?2 AND lane = ?3 \
          AND NOT EXISTS (SELECT 1 FROM ready WHERE queue = ?1 AND lane = ?3 AND workflow = ?2)",
};
const TASKS: Statements = Statements {
    keyless: "SELECT 1 FROM spread WHERE node IS NULL AND queue = ?1 AND lane = '' AND workflow = ?2 AND definition = ?4 LIMIT 1",
    open: "\
        SELECT lane FROM spread WHERE node IS NULL AND queue = ?1 AND workflow = ?2 AND definition = ?4 AND lane > ?3 \
          AND lane <> '' AND resting = 0 ORDER BY lane LIMIT 1",
    next: "\
        SELECT until, lane FROM resting AS s WHERE queue = ?1 AND tasks = 1 AND workflow = ?2 AND (until, lane) > (?3, ?4) \
          AND until <= ?6 AND EXISTS (SELECT 1 FROM spread AS r WHERE r.node IS NULL AND r.queue = ?1 AND r.lane = s.lane \
              AND r.workflow = ?2 AND r.definition = ?5) \
        ORDER BY until, lane LIMIT 1",
    forget: "\
        DELETE FROM resting WHERE queue = ?1 AND tasks = 1 AND workflow = ?2 AND lane = ?3 \
          AND NOT EXISTS (SELECT 1 FROM spread WHERE node IS NULL AND queue = ?1 AND lane = ?3 AND workflow = ?2)",
};
/// What of a lane does not rest.
const AWAKE_RUNS: &str = "\
    SELECT priority, run FROM ready INDEXED BY ready_lanes \
    WHERE queue = ?1 AND workflow = ?2 AND lane = ?3 AND lane <> '' AND resting = 0 LIMIT ?4";
const AWAKE_TASKS: &str = "\
    SELECT run, step, attempt FROM spread INDEXED BY spread_lanes WHERE node IS NULL AND queue = ?1 AND workflow = ?2 AND definition = ?5 \
      AND lane = ?3 AND lane <> '' AND resting = 0 LIMIT ?4";
/// A lane that rested, and may have one begin.
const RISEN: &str = "\
    SELECT lane FROM resting WHERE queue = ?1 AND tasks = ?2 AND workflow = ?3 AND until = 0 AND lane > ?4 \
    ORDER BY lane LIMIT 1";
const DUE: &str = "\
    SELECT lane FROM resting WHERE queue = ?1 AND tasks = ?2 AND workflow = ?3 AND until > ?4 AND until <= ?5 LIMIT ?6";
const WAKE_ALL: &str = "UPDATE resting SET until = 0 WHERE queue = ?1 AND until <> 0";
const ANY: &str = "SELECT EXISTS (SELECT 1 FROM resting WHERE queue = ?1)";
const REST: &str = "\
    INSERT INTO resting (queue, tasks, workflow, lane, until) VALUES (?1, ?2, ?3, ?4, ?5) \
    ON CONFLICT (queue, tasks, workflow, lane) DO UPDATE SET until = excluded.until";
const REST_ON: &str =
    "UPDATE resting SET until = ?5 WHERE queue = ?1 AND tasks = ?2 AND workflow = ?3 AND lane = ?4";
const REST_RUN: &str = "UPDATE ready SET resting = 1 WHERE queue = ?1 AND lane = ?2 AND workflow = ?3 AND priority = ?4 AND run = ?5";
const REST_TASK: &str = "UPDATE spread SET resting = 1 WHERE run = ?1 AND step = ?2 AND attempt = ?3";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[
    RUNS.keyless,
    RUNS.open,
    RUNS.next,
    AWAKE_RUNS,
    RUNS.forget,
    TASKS.keyless,
    TASKS.open,
    TASKS.next,
    AWAKE_TASKS,
    TASKS.forget,
    RISEN,
    DUE,
    WAKE_ALL,
    ANY,
    REST,
    REST_ON,
    REST_RUN,
    REST_TASK,
];

impl Kind {
    const fn statements(self) -> &'static Statements {
        match self {
            Self::Runs => &RUNS,
            Self::Tasks => &TASKS,
        }
    }
}

/// Lets every key that rests be looked at again: what it was told has changed.
pub(crate) fn wake_all(conn: &Connection, queue: i64) -> rusqlite::Result<()> {
    conn.prepare_cached(WAKE_ALL)?.execute([queue])?;
    Ok(())
}

/// Between which times, the first of them left out, the keys of a queue rest that are looked at again: those that are due, and
/// those that were put to rest by a clock that has been put back since.
fn due(rate: Rate, now: Time) -> [(Time, Time); 2] {
    [(Time(0), now), (rate.latest(now), Time::MAX)]
}

/// The workflow of something that waits, by number, and its version.
pub(crate) type Line = (i64, i64);

/// A walk over the lanes of a queue that have something for somebody.
pub(crate) struct Walk<'a> {
    conn: &'a Connection,
    kind: Kind,
    queue: i64,
    limits: QueueLimits,
    now: Time,
    /// Whether there may be lanes that rest, or did: those of a rate that was taken away are found as if they were awake.
    rests: bool,
    lines: Vec<Line>,
    /// For each line, after which lane was asked last, and which was found.
    found: Vec<Option<(Option<String>, Option<String>)>>,
    /// Lanes that are due, and that nobody has woken yet.
    due: Vec<String>,
    /// Lanes that were woken, with their workflows, as far as they were met.
    risen: Vec<(i64, String)>,
}

impl<'a> Walk<'a> {
    /// Of one who may only look.
    pub(crate) fn new(
        conn: &'a Connection,
        kind: Kind,
        queue: i64,
        limits: QueueLimits,
        now: Time,
        lines: Vec<Line>,
    ) -> rusqlite::Result<Self> {
        let found = lines.iter().map(|_| None).collect();
        let rests = match limits.key_rate {
            Some(_) => true,
            None => conn.prepare_cached(ANY)?.query_row([queue], |row| row.get(0))?,
        };
        let (due, risen) = (Vec::new(), Vec::new());
        let mut walk = Self { conn, kind, queue, limits, now, rests, lines, found, due, risen };
        if let Some(rate) = limits.key_rate {
            walk.due = walk.find_due(rate)?;
        }
        Ok(walk)
    }

    fn find_due(&self, rate: Rate) -> rusqlite::Result<Vec<String>> {
        let (mut find, mut all) = (self.conn.prepare_cached(DUE)?, Vec::new());
        for (workflow, _) in &self.lines {
            for (from, to) in due(rate, self.now) {
                let asked = params![self.queue, self.kind == Kind::Tasks, workflow, from.0, to.0, -1];
                let due = find.query_map(asked, |row| row.get(0))?;
                all.extend(due.collect::<rusqlite::Result<Vec<String>>>()?);
            }
        }
        all.sort_unstable();
        Ok(all)
    }

    /// Wakes the keys of these lines that are due, and forgets what was begun of keys long ago, for a walk that may write.
    pub(crate) fn wake(
        conn: &Connection,
        kind: Kind,
        queue: i64,
        limits: &QueueLimits,
        now: Time,
        lines: &[Line],
    ) -> rusqlite::Result<()> {
        let Some(rate) = limits.key_rate else { return Ok(()) };
        let (mut find, mut wake) = (conn.prepare_cached(DUE)?, conn.prepare_cached(REST_ON)?);
        for (workflow, _) in lines {
            for (from, to) in due(rate, now) {
                let asked = params![queue, kind == Kind::Tasks, workflow, from.0, to.0, AT_ONCE];
                let lanes = find.query_map(asked, |row| row.get::<_, String>(0))?;
                for lane in lanes.collect::<rusqlite::Result<Vec<_>>>()? {
                    wake.execute(params![queue, kind == Kind::Tasks, workflow, lane, 0])?;
                }
            }
        }
        queue::forget_keys(conn, queue, rate.past(now)).map(drop)
    }

    /// The first lane after this one, or of all.
    pub(crate) fn after(&mut self, lane: Option<&str>) -> rusqlite::Result<Option<String>> {
        let mut first: Option<String> = None;
        for at in 0..self.lines.len() {
            let is_known = self.found[at].as_ref().is_some_and(|(asked, found)| {
                asked.as_deref() <= lane && found.as_deref().is_none_or(|found| Some(found) > lane)
            });
            if !is_known {
                let found = self.after_in(self.lines[at], lane)?;
                self.found[at] = Some((lane.map(str::to_owned), found));
            }
            let found = self.found[at].as_ref().and_then(|(_, found)| found.as_ref());
            if let Some(found) = found.filter(|found| first.as_ref().is_none_or(|first| found < &first)) {
                first = Some(found.clone());
            }
        }
        let due = self.due.iter().find(|due| Some(due.as_str()) > lane);
        Ok(first.into_iter().chain(due.cloned()).min())
    }

    /// The same of one line.
    fn after_in(
        &mut self,
        (workflow, version): Line,
        lane: Option<&str>,
    ) -> rusqlite::Result<Option<String>> {
        let statements = self.kind.statements();
        let from = lane.unwrap_or("");
        if lane.is_none()
            && self.ask(statements.keyless, &[&self.queue, &workflow, &from, &version], |_| Ok(()))?.is_some()
        {
            return Ok(Some(String::new()));
        }
        let open = self.ask(statements.open, &[&self.queue, &workflow, &from, &version], |row| row.get(0))?;
        if !self.rests {
            return Ok(open);
        }
        let tasks = self.kind == Kind::Tasks;
        let risen: Option<String> =
            self.ask(RISEN, &[&self.queue, &tasks, &workflow, &from], |row| row.get(0))?;
        self.risen.extend(risen.iter().map(|lane| (workflow, lane.clone())));
        Ok(open.into_iter().chain(risen).min())
    }

    /// How many of a lane the rate of its key lets be taken now, and, when that is none, when the next one may be.
    pub(crate) fn left(&self, lane: &str) -> rusqlite::Result<(usize, Option<Time>)> {
        let Some(rate) = self.limits.key_rate else { return Ok((usize::MAX, None)) };
        Ok(rate.left(self.now, &queue::begun(self.conn, self.queue, lane)?))
    }

    /// The lanes that rest and have something, the first to be due first.
    pub(crate) fn resting(&self, after: &(Time, String)) -> rusqlite::Result<Option<(Time, String)>> {
        let Some(rate) = self.limits.key_rate else { return Ok(None) };
        let latest = rate.latest(self.now).0;
        let mut first: Option<(Time, String)> = None;
        for (workflow, version) in &self.lines {
            let asked: [&dyn ToSql; 6] = [&self.queue, workflow, &after.0.0, &after.1, version, &latest];
            let next =
                self.ask(self.kind.statements().next, &asked, |row| Ok((Time(row.get(0)?), row.get(1)?)))?;
            first = first.into_iter().chain(next).min();
        }
        Ok(first)
    }

    /// When the first of the lanes that rest is due.
    pub(crate) fn next(&self) -> rusqlite::Result<Option<Time>> {
        Ok(self.resting(&(self.now, String::new()))?.map(|(until, _)| until))
    }

    /// Puts lanes to rest that a walk met, as many as may be at once, and forgets those that were woken and have nothing any more.
    pub(crate) fn settle(&self, resting: &[(String, Time)]) -> rusqlite::Result<()> {
        if !self.rests {
            return Ok(());
        }
        let mut left = AT_ONCE;
        for (lane, until) in resting {
            for line in &self.lines {
                if left <= 0 {
                    break;
                }
                left -= self.rest(*line, lane, *until, left)?;
            }
        }
        let mut forget = self.conn.prepare_cached(self.kind.statements().forget)?;
        for (workflow, lane) in self.risen.iter().take(AT_ONCE as usize) {
            forget.execute(params![self.queue, workflow, lane])?;
        }
        Ok(())
    }

    /// Puts so many of a lane to rest. Answers how much was written.
    fn rest(&self, (workflow, version): Line, lane: &str, until: Time, most: i64) -> rusqlite::Result<i64> {
        let rested = match self.kind {
            Kind::Runs => self.rest_runs(workflow, lane, most)?,
            Kind::Tasks => self.rest_tasks(workflow, version, lane, most)?,
        };
        let mut note = self.conn.prepare_cached(if rested > 0 { REST } else { REST_ON })?;
        let noted = note.execute(params![self.queue, self.kind == Kind::Tasks, workflow, lane, until.0])?;
        Ok((rested + noted) as i64)
    }

    /// Marks runs of a lane as resting. Answers how many.
    fn rest_runs(&self, workflow: i64, lane: &str, most: i64) -> rusqlite::Result<usize> {
        let mut find = self.conn.prepare_cached(AWAKE_RUNS)?;
        let asked = params![self.queue, workflow, lane, most];
        let rows = find.query_map(asked, |row| Ok((row.get(0)?, row.get(1)?)))?;
        let rows = rows.collect::<rusqlite::Result<Vec<(i64, [u8; 16])>>>()?;
        let mut rest = self.conn.prepare_cached(REST_RUN)?;
        for (priority, run) in &rows {
            rest.execute(params![self.queue, lane, workflow, priority, run])?;
        }
        Ok(rows.len())
    }

    /// The same of attempts.
    fn rest_tasks(&self, workflow: i64, version: i64, lane: &str, most: i64) -> rusqlite::Result<usize> {
        let mut find = self.conn.prepare_cached(AWAKE_TASKS)?;
        let asked = params![self.queue, workflow, lane, most, version];
        let rows = find.query_map(asked, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let rows = rows.collect::<rusqlite::Result<Vec<([u8; 16], String, u32)>>>()?;
        let mut rest = self.conn.prepare_cached(REST_TASK)?;
        for (run, step, attempt) in &rows {
            rest.execute(params![run, step, attempt])?;
        }
        Ok(rows.len())
    }

    /// The first row, given as many of these values as the statement asks for.
    fn ask<T>(
        &self,
        sql: &str,
        values: &[&dyn ToSql],
        read: impl FnOnce(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Option<T>> {
        let mut find = self.conn.prepare_cached(sql)?;
        let count = find.parameter_count();
        find.query_row(&values[..count], read).optional()
    }
}
