//! What came to runs from outside.

use std::collections::HashMap;

use rusqlite::{Connection, Row, params};
use windlass_core::{NodeId, RunId, Time};
use windlass_store::{InboxRow, NewMessage};

use crate::{column, holding, place, run};

const ADD: &str = "INSERT INTO inbox (run, topic, key, body, at) VALUES (?1, ?2, ?3, ?4, ?5)";
const KNOWN: &str = "\
    SELECT EXISTS (SELECT 1 FROM inbox WHERE run = ?1 AND topic = ?2 AND key = ?3) \
        OR EXISTS (SELECT 1 FROM delivered WHERE run = ?1 AND topic = ?2 AND key = ?3)";
const HOLDS: &str = "SELECT EXISTS (SELECT 1 FROM inbox WHERE run = ?1 AND topic = ?2 AND key = ?3)";
const READ: &str = "SELECT seq, run, topic, body, at FROM inbox WHERE run = ?1 ORDER BY seq";
const TOPICS: &str = "SELECT topic FROM inbox WHERE run = ?1";
const RECEIVERS: &str = "SELECT DISTINCT run FROM inbox";
const COUNT: &str = "SELECT count(*) FROM (SELECT 1 FROM inbox LIMIT ?1)";
const ANY: &str = "SELECT EXISTS (SELECT 1 FROM inbox)";
const DELIVER: &str = "\
    INSERT INTO delivered (run, topic, key) \
    SELECT run, topic, key FROM inbox WHERE seq = ?1 AND run = ?2 AND key IS NOT NULL AND topic NOT GLOB '>*' \
    ON CONFLICT DO NOTHING";
const REMOVE: &str = "DELETE FROM inbox WHERE seq = ?1 AND run = ?2";
const CLEAR: &str = "DELETE FROM inbox WHERE run = ?1";

/// Up to how many messages are looked through one by one.
const FEW: i64 = 1000;

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[ADD, KNOWN, HOLDS, READ, TOPICS, DELIVER, REMOVE, CLEAR];

/// Adds a row.
pub(crate) fn add(conn: &Connection, run: RunId, message: &NewMessage, at: Time) -> rusqlite::Result<()> {
    let NewMessage { topic, body, key } = message;
    conn.prepare_cached(ADD)?.execute(params![run.as_bytes(), topic, key, &**body, at.0])?;
    Ok(())
}

/// Whether a message with this key lies in the inbox of a run or was taken in.
pub(crate) fn knows(conn: &Connection, run: RunId, topic: &str, key: &str) -> rusqlite::Result<bool> {
    conn.prepare_cached(KNOWN)?.query_row(params![run.as_bytes(), topic, key], |row| row.get(0))
}

/// Whether a message with this key lies in the inbox of a run.
pub(crate) fn holds(conn: &Connection, run: RunId, topic: &str, key: &str) -> rusqlite::Result<bool> {
    conn.prepare_cached(HOLDS)?.query_row(params![run.as_bytes(), topic, key], |row| row.get(0))
}

/// The inbox of a run, oldest first.
pub(crate) fn read(conn: &Connection, run: RunId) -> rusqlite::Result<Vec<InboxRow>> {
    conn.prepare_cached(READ)?.query_map([run.as_bytes()], inbox_row)?.collect()
}

/// Whether a row with one of these topics lies in the inbox of a run.
pub(crate) fn has_topic(conn: &Connection, run: RunId, topics: &[impl AsRef<str>]) -> rusqlite::Result<bool> {
    if topics.is_empty() {
        return Ok(false);
    }
    let mut find = conn.prepare_cached(TOPICS)?;
    let mut rows = find.query([run.as_bytes()])?;
    while let Some(row) = rows.next()? {
        let topic = row.get_ref(0)?.as_str()?;
        if topics.iter().any(|wanted| wanted.as_ref() == topic) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What lies in the inboxes of the runs that a node holds, or only of those among these, oldest first.
pub(crate) fn of_node(
    conn: &Connection,
    node: NodeId,
    only: Option<&[RunId]>,
) -> rusqlite::Result<Vec<InboxRow>> {
    let count: i64 = conn.prepare_cached(COUNT)?.query_row([FEW], |row| row.get(0))?;
    if count == 0 {
        return Ok(Vec::new());
    }
    let Some(no) = holding::node_number(conn, node)? else { return Ok(Vec::new()) };
    let asked: Vec<RunId> = if let Some(only) = only {
        only.to_vec()
    } else if count < FEW {
        conn.prepare_cached(RECEIVERS)?
            .query_map([], |row| column::run_id(row, 0))?
            .collect::<Result<_, _>>()?
    } else {
        let listed = holding::newest(conn)?.into_iter();
        listed.filter(|(_, (holder, _))| *holder == no).map(|(run, _)| run).collect()
    };
    let mut held = HashMap::new();
    for run in asked {
        let inbox = read(conn, run)?;
        if !inbox.is_empty()
            && let Some(core) = run::core(conn, run)?
            && !place::is_elsewhere(conn, run, &core)?
        {
            held.insert(run, inbox);
        }
    }
    // Most of what something has come for waits for that, so that there is nobody to be found.
    holding::retain_held(conn, no, &mut held)?;
    let mut rows: Vec<InboxRow> = held.into_values().flatten().collect();
    rows.sort_by_key(|row| row.seq);
    Ok(rows)
}

/// Whether any run has anything in its inbox.
pub(crate) fn any(conn: &Connection) -> rusqlite::Result<bool> {
    conn.prepare_cached(ANY)?.query_row([], |row| row.get(0))
}

/// Deletes rows that a run took in, and remembers their keys: but for those of its children, each of which ends once.
pub(crate) fn consume(conn: &Connection, run: RunId, seqs: &[i64]) -> rusqlite::Result<()> {
    if seqs.is_empty() {
        return Ok(());
    }
    let (mut deliver, mut remove) = (conn.prepare_cached(DELIVER)?, conn.prepare_cached(REMOVE)?);
    for seq in seqs {
        deliver.execute(params![seq, run.as_bytes()])?;
        remove.execute(params![seq, run.as_bytes()])?;
    }
    Ok(())
}

/// Throws away what a run did not take in.
pub(crate) fn clear(conn: &Connection, run: RunId) -> rusqlite::Result<()> {
    conn.prepare_cached(CLEAR)?.execute([run.as_bytes()])?;
    Ok(())
}

fn inbox_row(row: &Row<'_>) -> rusqlite::Result<InboxRow> {
    Ok(InboxRow {
        seq: row.get(0)?,
        run: column::run_id(row, 1)?,
        topic: row.get(2)?,
        body: column::bytes(row, 3)?,
        at: Time(row.get(4)?),
    })
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::*;
    use crate::{
        clock::Clock,
        holding::{Entry, Listing},
        open,
        place::Carried,
    };

    /// Nodes that hold a thousand runs each. The first run of each has a message.
    fn nodes(count: u8) -> (Connection, Vec<(NodeId, RunId)>) {
        let setup = open::Setup { synchronous: crate::Synchronous::Full, max_pages: None, makes: true };
        let conn = open::open_memory(setup, &Clock::system()).unwrap();
        let mut first = Vec::new();
        for no in 1..=count {
            let node = NodeId::new();
            conn.execute(
                "INSERT INTO node (no, id, pid, host, version, queues, started_at, heartbeat_at, stale_after) \
                 VALUES (?1, ?2, 1, '', '1', '[]', 0, 0, 1)",
                params![no, node.as_bytes()],
            )
            .unwrap();
            let runs: Vec<RunId> = (0..1_000).map(|_| RunId::new()).collect();
            let mut listing = Listing::default();
            for run in &runs {
                listing.add(&Entry { run: *run, claim: windlass_core::ClaimId(1), carried: Carried::FRESH });
                let add = "INSERT INTO run (id, workflow, queue, priority, created_at, input) VALUES (?1, 1, 1, 5, 0, x'31')";
                conn.execute(add, [run.as_bytes()]).unwrap();
            }
            holding::add(&conn, i64::from(no), &listing).unwrap();
            let message = NewMessage { topic: "paid".into(), body: b"1".as_slice().into(), key: None };
            add(&conn, runs[0], &message, Time(1)).unwrap();
            first.push((node, runs[0]));
        }
        (conn, first)
    }

    /// How many times what nodes hold was looked through.
    fn looks(conn: &Connection) -> i32 {
        conn.prepare_cached(holding::ALL).unwrap().get_status(StatementStatus::Run)
    }

    #[test]
    fn a_look_into_inboxes_does_not_read_what_the_only_node_holds() {
        let (conn, first) = nodes(1);
        let (node, run) = first[0];
        for only in [None, Some(&[run][..])] {
            assert_eq!(of_node(&conn, node, only).unwrap().len(), 1);
        }
        assert_eq!(looks(&conn), 0);
    }

    #[test]
    fn a_look_into_inboxes_among_nodes_reads_what_they_hold_only_for_what_one_of_them_holds() {
        let (conn, first) = nodes(3);
        let (node, own) = first[0];
        let parked = first[1].1;
        let park =
            "INSERT INTO waiting (run, workflow, state, generation, recoveries) VALUES (?1, 1, 2, 1, 0)";
        conn.execute(park, [parked.as_bytes()]).unwrap();
        assert!(of_node(&conn, node, Some(&[parked])).unwrap().is_empty());
        assert_eq!(looks(&conn), 0, "it waits, and nobody holds it");
        let all: Vec<RunId> = of_node(&conn, node, None).unwrap().iter().map(|row| row.run).collect();
        assert_eq!(all, [own], "that of the third node is not its own");
        assert_eq!(looks(&conn), 1);
    }
}
