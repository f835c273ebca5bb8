//! What was logged while runs were executed.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use tokio_postgres::Row;
use uuid::Uuid;
use windlass_core::RunId;
use windlass_store::LogLine;

use crate::{column, error::Fault, session::Session};

/// Runs that are there, and how many lines each has.
const KEPT: &str = "\
    SELECT r.id, (SELECT count(*) FROM {s}.log WHERE run = r.id) FROM {s}.run AS r WHERE r.id = ANY ($1)";
const ADD: &str = "\
    INSERT INTO {s}.log (run, at, level, task, attempt, message, fields, dropped) \
    SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::smallint[], $4::text[], $5::int[], $6::text[], $7::text[], $8::bigint[])";
const DROP: &str = "\
    UPDATE {s}.log SET dropped = dropped + $2 \
    WHERE seq = (SELECT seq FROM {s}.log WHERE run = $1 ORDER BY seq DESC LIMIT 1)";
/// Those that are still there stay as long as the transaction does. It comes last, because whoever parks one of them, or sends
/// it something, waits for this lock.
const STAY: &str = "SELECT id FROM {s}.run WHERE id = ANY ($1) ORDER BY id FOR KEY SHARE";
const TAKE_BACK: &str = "DELETE FROM {s}.log WHERE run = ANY ($1)";
const READ: &str =
    "SELECT at, level, task, attempt, message, fields, dropped FROM {s}.log WHERE run = $1 ORDER BY seq";

#[derive(Default)]
struct Columns<'l> {
    runs: Vec<Uuid>,
    ats: Vec<i64>,
    levels: Vec<i16>,
    tasks: Vec<&'l str>,
    attempts: Vec<i32>,
    messages: Vec<&'l str>,
    fields: Vec<Option<&'l str>>,
    dropped: Vec<i64>,
}

/// Keeps lines, of each run no more than may be.
pub(crate) async fn add(session: &Session, lines: &[LogLine]) -> Result<(), Fault> {
    session.transact(None, async |_| add_within(session, lines).await).await
}

async fn add_within(session: &Session, lines: &[LogLine]) -> Result<(), Fault> {
    let mut asked: Vec<_> = lines.iter().map(|line| column::run(line.run)).collect();
    asked.sort_unstable();
    asked.dedup();
    let mut kept: HashMap<RunId, i64> = HashMap::new();
    for row in session.query(KEPT, &[&asked]).await? {
        kept.insert(column::run_id(&row, 0)?, row.try_get(1)?);
    }
    // In the order of runs, so that two who write of the same runs never wait for each other.
    let (mut new, mut dropped) = (Columns::default(), BTreeMap::<Uuid, i64>::new());
    for line in lines {
        let Some(count) = kept.get_mut(&line.run) else { continue };
        let run = column::run(line.run);
        if *count >= LogLine::MOST as i64 {
            *dropped.entry(run).or_default() += i64::from(line.dropped) + 1;
            continue;
        }
        *count += 1;
        new.runs.push(run);
        new.ats.push(line.at.0);
        new.levels.push(i16::from(line.level));
        new.tasks.push(&line.task);
        new.attempts.push(column::count(line.attempt));
        new.messages.push(&line.message);
        new.fields.push(line.fields.as_deref());
        new.dropped.push(i64::from(line.dropped));
    }
    let Columns { runs, ats, levels, tasks, attempts, messages, fields, dropped: before } = &new;
    session.execute(ADD, &[runs, ats, levels, tasks, attempts, messages, fields, before]).await?;
    for (run, count) in dropped {
        session.execute(DROP, &[&run, &count]).await?;
    }
    let stay = session.query(STAY, &[&asked]).await?;
    let stay = stay.iter().map(|row| row.try_get(0)).collect::<Result<HashSet<Uuid>, _>>()?;
    asked.retain(|run| !stay.contains(run));
    if !asked.is_empty() {
        session.execute(TAKE_BACK, &[&asked]).await?;
    }
    Ok(())
}

/// What was logged for a run.
pub(crate) async fn read(session: &Session, run: RunId) -> Result<Vec<LogLine>, Fault> {
    let line = |row: &Row| {
        Ok(LogLine {
            run,
            at: column::time(row, 0)?,
            level: u8::try_from(row.try_get::<_, i16>(1)?).unwrap_or(u8::MAX),
            task: Arc::from(row.try_get::<_, &str>(2)?),
            attempt: column::number(row, 3)?,
            message: row.try_get(4)?,
            fields: row.try_get(5)?,
            dropped: u32::try_from(row.try_get::<_, i64>(6)?).unwrap_or(u32::MAX),
        })
    };
    session.query(READ, &[&column::run(run)]).await?.iter().map(line).collect()
}
