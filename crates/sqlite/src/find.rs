//! Finding runs.

use rusqlite::{Connection, OptionalExtension, params};
use windlass_core::{RunId, RunState, Time};
use windlass_store::{Page, Query, RunSummary};

use crate::{
    book::Book, column, ended, error::Fault, holding, name::Names, place::locate, ready, run::Core, waiting,
};

const RUNS: &str = "SELECT id FROM run WHERE id < ?1 ORDER BY id DESC LIMIT ?2";
const KEYED: &str = "SELECT id FROM run WHERE key = ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3";
const TAGGED: &str = "SELECT run FROM tag WHERE tag = ?1 AND run < ?2 ORDER BY run DESC LIMIT ?3";
const NEXT_LINE: &str = "\
    SELECT queue, workflow, priority FROM ready WHERE queue = ?1 AND lane = '' AND (workflow, priority) > (?2, ?3) \
    ORDER BY workflow, priority LIMIT 1";
const NEXT_QUEUE: &str = "SELECT queue FROM ready WHERE queue > ?1 ORDER BY queue LIMIT 1";
/// Ready runs with keys within their queues.
const READY_KEYED: &str = "SELECT run FROM ready WHERE lane <> '' AND run < ?1 ORDER BY run DESC LIMIT ?2";
const SUMMARY: &str = "\
    SELECT workflow, queue, priority, created_at, parent IS NOT NULL, key, tags, queue_key IS NOT NULL, timeout \
    FROM run WHERE id = ?1";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[RUNS, KEYED, TAGGED, NEXT_LINE, NEXT_QUEUE, READY_KEYED, SUMMARY];

/// The states in which runs wait.
pub(crate) const WAITING: [RunState; 5] =
    [RunState::Pending, RunState::Suspended, RunState::Paused, RunState::Blocked, RunState::Undoing];
/// The ends that have an index of their own.
const OTHERWISE: [RunState; 3] = [RunState::Failed, RunState::Cancelled, RunState::Abandoned];

/// Sorts after every id.
const AFTER_ALL: [u8; 17] = [0xff; 17];

/// A stream of candidates, newest first.
enum Source<'q> {
    Runs,
    Key(&'q str),
    Tag(&'q str),
    Ready {
        queue: i64,
        workflow: i64,
        priority: i64,
    },
    ReadyKeyed,
    Waiting {
        workflow: i64,
        state: RunState,
    },
    /// What nodes hold: as much as is running.
    Held(Vec<RunId>),
    Ended {
        workflow: i64,
    },
    Otherwise {
        workflow: i64,
        state: RunState,
    },
}

/// Runs that fit a query, newest first.
pub(crate) fn find(book: &mut Book, query: &Query) -> Result<Page, Fault> {
    let sources = sources(book, query)?;
    let chunk = i64::try_from(query.limit.clamp(15, 999).min(query.look)).unwrap_or(999) + 1;
    let mut page = Page { runs: Vec::new(), more: false, next: None };
    let (mut last, mut looked) = (query.after, 0);
    loop {
        let before = last.map_or(AFTER_ALL.to_vec(), |last| last.as_bytes().to_vec());
        let candidates = candidates(&book.conn, &sources, &before, chunk)?;
        if candidates.is_empty() {
            return Ok(page);
        }
        for id in candidates {
            let summary = summary(book, id, query)?;
            if looked >= query.look || summary.is_some() && page.runs.len() == query.limit {
                return Ok(Page { more: true, next: last, ..page });
            }
            page.runs.extend(summary);
            last = Some(id);
            looked += 1;
        }
    }
}

/// The streams that together hold every run that fits, and as few others as the indexes allow.
fn sources<'q>(book: &mut Book, query: &'q Query) -> Result<Vec<Source<'q>>, Fault> {
    let Book { conn, names } = book;
    if let Some(key) = &query.key {
        return Ok(vec![Source::Key(key)]);
    }
    if let Some(tag) = &query.tag {
        return Ok(vec![Source::Tag(tag)]);
    }
    if query.workflow.is_none() && query.states.is_empty() {
        return Ok(vec![Source::Runs]);
    }
    let workflows = match &query.workflow {
        Some(workflow) => names.find(conn, workflow)?.into_iter().collect(),
        None => Names::all(conn)?,
    };
    let wants = |state: RunState| query.states.is_empty() || query.states.contains(&state);
    let mut sources = Vec::new();
    if wants(RunState::Running) {
        let mut listed: Vec<_> = holding::newest(conn)?.into_keys().collect();
        listed.sort_unstable_by(|a, b| b.cmp(a));
        sources.push(Source::Held(listed));
    }
    if wants(RunState::Pending) || wants(RunState::Suspended) {
        ready_lines(conn, &workflows, &mut sources)?;
    }
    for &workflow in &workflows {
        sources.extend(
            WAITING
                .into_iter()
                .filter(|state| wants(*state))
                .map(|state| Source::Waiting { workflow, state }),
        );
        if wants(RunState::Completed) {
            sources.push(Source::Ended { workflow });
        } else {
            let others = OTHERWISE.into_iter().filter(|state| wants(*state));
            sources.extend(others.map(|state| Source::Otherwise { workflow, state }));
        }
    }
    Ok(sources)
}

/// Every queue, workflow and priority that has ready runs, by skipping from one to the next.
fn ready_lines(conn: &Connection, workflows: &[i64], sources: &mut Vec<Source<'_>>) -> rusqlite::Result<()> {
    let (mut next_queue, mut next) = (conn.prepare_cached(NEXT_QUEUE)?, conn.prepare_cached(NEXT_LINE)?);
    let mut last_queue: i64 = -1;
    while let Some(queue) = next_queue.query_row([last_queue], |row| row.get(0)).optional()? {
        last_queue = queue;
        let mut last = (queue, -1, -1);
        while let Some(line) =
            next.query_row(last, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).optional()?
        {
            last = line;
            let (queue, workflow, priority) = line;
            if workflows.contains(&workflow) {
                sources.push(Source::Ready { queue, workflow, priority });
            }
        }
    }
    sources.push(Source::ReadyKeyed);
    Ok(())
}

/// The next runs of all streams together, newest first.
fn candidates(
    conn: &Connection,
    sources: &[Source<'_>],
    before: &[u8],
    chunk: i64,
) -> rusqlite::Result<Vec<RunId>> {
    let mut ids = Vec::new();
    for source in sources {
        ids.extend(source.read(conn, before, chunk)?);
    }
    ids.sort_unstable_by(|a, b| b.cmp(a));
    // A run that has gone from its node may still be listed there.
    ids.dedup();
    // The first of the whole are among the first of each stream; later ones may lack a neighbour.
    ids.truncate(usize::try_from(chunk).unwrap_or(usize::MAX));
    Ok(ids)
}

impl Source<'_> {
    fn read(&self, conn: &Connection, before: &[u8], chunk: i64) -> rusqlite::Result<Vec<RunId>> {
        let read = |sql: &str, params: &[&dyn rusqlite::ToSql]| {
            conn.prepare_cached(sql)?.query_map(params, |row| column::run_id(row, 0))?.collect()
        };
        match self {
            Self::Runs => read(RUNS, params![before, chunk]),
            Self::Key(key) => read(KEYED, params![key, before, chunk]),
            Self::Tag(tag) => read(TAGGED, params![tag, before, chunk]),
            Self::Ready { queue, workflow, priority } => {
                read(ready::BACKWARDS, params![queue, workflow, priority, before, chunk])
            }
            Self::ReadyKeyed => read(READY_KEYED, params![before, chunk]),
            Self::Waiting { workflow, state } => {
                read(waiting::BACKWARDS, params![workflow, *state as u8, before, chunk])
            }
            Self::Held(listed) => {
                let older = listed.iter().filter(|run| &run.as_bytes()[..] < before);
                Ok(older.take(usize::try_from(chunk).unwrap_or(usize::MAX)).copied().collect())
            }
            Self::Ended { workflow } => read(ended::BACKWARDS, params![workflow, before, chunk]),
            Self::Otherwise { workflow, state } => {
                read(ended::OTHERWISE_BACKWARDS, params![workflow, *state as u8, before, chunk])
            }
        }
    }
}

/// A run for a listing, if it fits.
fn summary(book: &mut Book, id: RunId, query: &Query) -> rusqlite::Result<Option<RunSummary>> {
    let Book { conn, names } = book;
    let mut find = conn.prepare_cached(SUMMARY)?;
    let mut rows = find.query([id.as_bytes()])?;
    // One that was held, ended and was discarded may still be listed.
    let Some(row) = rows.next()? else { return Ok(None) };
    let core = Core {
        workflow: row.get(0)?,
        queue: row.get(1)?,
        priority: row.get(2)?,
        created_at: Time(row.get(3)?),
        has_parent: row.get(4)?,
        has_lane: row.get(7)?,
        timeout: row.get(8)?,
    };
    let (key, tags): (Option<String>, Vec<String>) = (row.get(5)?, column::items(row, 6)?);
    let (workflow, queue) = (names.text(conn, core.workflow)?, names.text(conn, core.queue)?);
    let fits = query.workflow.as_ref().is_none_or(|wanted| *wanted == workflow)
        && query.without.as_ref().is_none_or(|beginning| !workflow.starts_with(&**beginning))
        && query.queue.as_ref().is_none_or(|wanted| *wanted == queue)
        && query.tag.as_ref().is_none_or(|wanted| tags.contains(wanted))
        && query.key.as_ref().is_none_or(|wanted| key.as_ref() == Some(wanted))
        && query.since.is_none_or(|since| core.created_at >= since)
        && query.until.is_none_or(|until| core.created_at < until);
    if !fits {
        return Ok(None);
    }
    let standing = locate(conn, id, &core)?.standing(conn, &core, || holding::find(conn, id))?;
    if !query.states.is_empty() && !query.states.contains(&standing.state()) {
        return Ok(None);
    }
    let (priority, created_at) = (core.priority, core.created_at);
    Ok(Some(RunSummary { id, workflow, queue, priority, key, tags, created_at, standing }))
}
