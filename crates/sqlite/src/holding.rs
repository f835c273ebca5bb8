//! What nodes hold, in the batches in which they got it.
//!
//! A node gets runs by the hundred and ends them one by one, so a row for each would be written only to be
//! deleted. Instead there is one row for all the runs that a node got in one transaction, and it is deleted when
//! the last of them has gone. In between it lists runs that have gone too, so what it says counts only for a run
//! that stands in none of the other three places; and of two rows that list such a run, the newer one is right.

use std::collections::{HashMap, HashSet};

use rusqlite::{Connection, OptionalExtension, params};
use windlass_core::{ClaimId, NodeId, RunId};

use crate::{
    column,
    place::{self, Carried},
    run::{self, Core},
};

const ADD: &str = "INSERT INTO holding (node, runs) VALUES (?1, ?2)";
const REPLACE: &str = "UPDATE holding SET runs = ?2 WHERE batch = ?1";
const REMOVE: &str = "DELETE FROM holding WHERE batch = ?1";
const NODE_ID: &str = "SELECT id FROM node WHERE no = ?1";
const NODE_NUMBER: &str = "SELECT no FROM node WHERE id = ?1";
pub(crate) const ALL: &str = "SELECT batch, node, runs FROM holding ORDER BY batch DESC";

const ALONE: &str = "SELECT NOT EXISTS (SELECT 1 FROM node AS n WHERE n.no <> ?1)";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[ADD, REPLACE, REMOVE, NODE_ID, NODE_NUMBER, ALONE];

/// A run as its holder got it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) run: RunId,
    pub(crate) claim: ClaimId,
    pub(crate) carried: Carried,
}

/// A run that a node holds.
pub(crate) struct Holding {
    pub(crate) entry: Entry,
    pub(crate) core: Core,
}

/// A row that still holds something, or does not any more.
pub(crate) struct Batch {
    pub(crate) no: i64,
    pub(crate) held: Vec<Holding>,
    /// How many runs it lists, gone ones included.
    pub(crate) listed: usize,
}

/// Adds a row for the runs that a node gets. Answers its number, which is higher than that of any other row.
pub(crate) fn add(conn: &Connection, node: i64, runs: &Listing) -> rusqlite::Result<i64> {
    conn.prepare_cached(ADD)?.insert(params![node, runs.0])
}

/// Rewrites a row with those of its runs that are still held.
pub(crate) fn replace(conn: &Connection, batch: i64, runs: &Listing) -> rusqlite::Result<()> {
    conn.prepare_cached(REPLACE)?.execute(params![batch, runs.0])?;
    Ok(())
}

/// Removes a row whose runs have all gone.
pub(crate) fn remove(conn: &Connection, batch: i64) -> rusqlite::Result<()> {
    conn.prepare_cached(REMOVE)?.execute([batch])?;
    Ok(())
}

/// The holder of a run that stands in none of the other places.
pub(crate) fn find(conn: &Connection, run: RunId) -> rusqlite::Result<Option<(i64, Entry)>> {
    let mut all = conn.prepare_cached(ALL)?;
    let mut rows = all.query([])?;
    while let Some(row) = rows.next()? {
        let entry = Entries(row.get_ref(2)?.as_blob()?).find(|entry| entry.run == run);
        if let Some(entry) = entry {
            return Ok(Some((row.get(1)?, entry)));
        }
    }
    Ok(None)
}

/// For every run that is listed, the node whose row is the newest. Those that stand in another place have gone.
pub(crate) fn newest(conn: &Connection) -> rusqlite::Result<HashMap<RunId, (i64, Entry)>> {
    let mut newest = HashMap::new();
    let mut all = conn.prepare_cached(ALL)?;
    let mut rows = all.query([])?;
    while let Some(row) = rows.next()? {
        let node = row.get(1)?;
        for entry in Entries(row.get_ref(2)?.as_blob()?) {
            newest.entry(entry.run).or_insert((node, entry));
        }
    }
    Ok(newest)
}

/// Keeps those of these runs that a node holds. All of them stand in none of the other places, so the only node that there is
/// holds them; where there are more, what all of them hold is looked through.
pub(crate) fn retain_held<T>(
    conn: &Connection,
    node: i64,
    runs: &mut HashMap<RunId, T>,
) -> rusqlite::Result<()> {
    if runs.is_empty() || conn.prepare_cached(ALONE)?.query_row([node], |row| row.get(0))? {
        return Ok(());
    }
    let mut theirs: HashSet<RunId> = runs.keys().copied().collect();
    let mut unknown = theirs.len();
    let mut seen = HashSet::new();
    let mut all = conn.prepare_cached(ALL)?;
    let mut rows = all.query([])?;
    while unknown > 0
        && let Some(row) = rows.next()?
    {
        let is_mine = row.get::<_, i64>(1)? == node;
        for entry in Entries(row.get_ref(2)?.as_blob()?) {
            if runs.contains_key(&entry.run) && seen.insert(entry.run) {
                unknown -= 1;
                if is_mine {
                    theirs.remove(&entry.run);
                }
            }
        }
    }
    runs.retain(|run, _| !theirs.contains(run));
    Ok(())
}

/// The rows of one node, each with what is still held of it.
pub(crate) fn of_node(conn: &Connection, node: i64) -> rusqlite::Result<Vec<Batch>> {
    let mut seen = HashMap::new();
    let mut batches = Vec::new();
    let mut all = conn.prepare_cached(ALL)?;
    let mut rows = all.query([])?;
    while let Some(row) = rows.next()? {
        let no = row.get(0)?;
        let is_mine = row.get::<_, i64>(1)? == node;
        let (mut held, mut listed) = (Vec::new(), 0);
        for entry in Entries(row.get_ref(2)?.as_blob()?) {
            listed += 1;
            if *seen.entry(entry.run).or_insert(no) == no
                && is_mine
                && let Some(core) = run::core(conn, entry.run)?
                && !place::is_elsewhere(conn, entry.run, &core)?
            {
                held.push(Holding { entry, core });
            }
        }
        if is_mine {
            batches.push(Batch { no, held, listed });
        }
    }
    Ok(batches)
}

/// The id of the node with a number.
pub(crate) fn node_id(conn: &Connection, node: i64) -> rusqlite::Result<NodeId> {
    conn.prepare_cached(NODE_ID)?.query_row([node], |row| column::node_id(row, 0))
}

/// The number of a node, if there is such a node.
pub(crate) fn node_number(conn: &Connection, node: NodeId) -> rusqlite::Result<Option<i64>> {
    conn.prepare_cached(NODE_NUMBER)?.query_row([node.as_bytes()], |row| row.get(0)).optional()
}

/// Runs as a row lists them: sixteen bytes of the run, eight of the claim, then small numbers as they come.
#[derive(Default)]
pub(crate) struct Listing(Vec<u8>);

impl Listing {
    /// Adds a run.
    pub(crate) fn add(&mut self, entry: &Entry) {
        let (Self(bytes), Entry { run, claim, carried }) = (self, entry);
        bytes.extend_from_slice(run.as_bytes());
        bytes.extend_from_slice(&claim.0.to_be_bytes());
        put(bytes, u64::from(carried.generation));
        put(bytes, u64::from(carried.recoveries));
        put_optional(bytes, carried.definition);
        put_optional(bytes, carried.opened_at);
    }
}

/// Seven bits a byte, the lowest first.
fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push((number as u8) | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// A zero for nothing; else a one and the number.
fn put_optional(bytes: &mut Vec<u8>, number: Option<i64>) {
    match number {
        None => bytes.push(0),
        Some(number) => {
            bytes.push(1);
            put(bytes, number.cast_unsigned());
        }
    }
}

/// What a [`Listing`] lists, one by one. It ends at the first entry that makes no sense: the rest of a damaged row
/// names no run, and a run without a place is reported where it is asked for.
struct Entries<'a>(&'a [u8]);

impl Iterator for Entries<'_> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        Some(Entry {
            run: RunId::from_bytes(self.array()?),
            claim: ClaimId(u64::from_be_bytes(self.array()?)),
            carried: Carried {
                generation: u32::try_from(self.number()?).ok()?,
                recoveries: u32::try_from(self.number()?).ok()?,
                definition: self.optional()?,
                opened_at: self.optional()?,
            },
        })
    }
}

impl Entries<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn optional(&mut self) -> Option<Option<i64>> {
        match self.array()? {
            [0] => Some(None),
            _ => self.number().map(|number| Some(number.cast_signed())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(entries: &[Entry]) -> Vec<u8> {
        let mut listing = Listing::default();
        entries.iter().for_each(|entry| listing.add(entry));
        listing.0
    }

    #[test]
    fn what_is_encoded_is_read_back() {
        let carried = |generation, definition, opened_at, recoveries| Carried {
            generation,
            definition,
            opened_at,
            recoveries,
        };
        let entries = [
            carried(1, Some(1), None, 0),
            carried(u32::MAX, Some(i64::MAX), Some(i64::MIN), u32::MAX),
            carried(300, None, Some(1_000_000_000_000_000), 128),
            carried(0, Some(-1), Some(0), 127),
        ]
        .map(|carried| Entry { run: RunId::new(), claim: ClaimId(u64::MAX), carried });
        let read: Vec<_> = Entries(&encode(&entries)).collect();
        assert_eq!(format!("{read:?}"), format!("{entries:?}"));
    }

    #[test]
    fn a_damaged_row_ends_where_it_makes_no_sense() {
        let entry = Entry { run: RunId::new(), claim: ClaimId::new(), carried: Carried::FRESH };
        let mut bytes = encode(&[entry, entry]);
        bytes.pop();
        assert_eq!(Entries(&bytes).count(), 1);
        let endless = [&entry.run.as_bytes()[..], &[0xff; 40]].concat();
        assert_eq!(Entries(&endless).count(), 0);
    }
}
