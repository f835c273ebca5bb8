//! What a claim of published attempts may take from queues.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

use rusqlite::{Connection, OptionalExtension, params};
use windlass_core::{RunId, Time};
use windlass_store::{DefinitionId, Lanes, Load, QueueLimits, QueueState, SpreadClaim, SpreadKey, SpreadRow};

use crate::{
    book::Book,
    lanes::{self, Kind, Walk},
    name::Names,
    queue,
    spread::{self, Found},
};

/// The workflow of a run that has something for a queue.
const SHARER: &str = "SELECT workflow FROM spread WHERE run = ?1 AND queue = ?2 AND node IS NULL LIMIT 1";
/// The most urgent of them that a claim may have.
const SHARERS_TASK: &str = "\
    SELECT run, step, attempt, generation, workflow, definition, queue, lane, priority, at, deaths, node, claim \
    FROM spread WHERE run = ?1 AND queue = ?2 AND node IS NULL AND definition = ?3 AND (?4 OR deaths < ?5) \
    ORDER BY step, attempt LIMIT 1";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[SHARER, SHARERS_TASK];

/// What a claim may take: from all queues that were not declared together, and from each that was.
pub(crate) struct TaskOffer {
    pub(crate) streams: Vec<VecDeque<SpreadRow>>,
    turns: Vec<TaskTurn>,
    /// When the rate of one of them lets the next be taken.
    pub(crate) next: Option<Time>,
}

/// A declared queue, and what of it is under way.
struct TaskTurn {
    no: i64,
    name: Arc<str>,
    state: QueueState,
    load: Load,
}

impl TaskOffer {
    /// What there is for a node with this number, with so much room.
    pub(crate) fn new(
        book: &mut Book,
        node: i64,
        now: Time,
        request: &SpreadClaim,
        room: usize,
    ) -> rusqlite::Result<Self> {
        let mut offer = Self { streams: Vec::new(), turns: Vec::new(), next: None };
        let (any, mut plain) = (queue::any(&book.conn)?, Vec::new());
        for (name, limit) in &request.queues {
            let Some(no) = book.names.find(&book.conn, name)? else { continue };
            let state = if any { queue::read(&book.conn, no)? } else { None };
            let Some(state) = state else {
                plain.push((no, *limit));
                continue;
            };
            let load = queue::load(&book.conn, no, &state, node, now)?;
            let turn = TaskTurn { no, name: Arc::clone(name), state, load };
            let room = room.min(*limit).min(request.room);
            offer.add(book, request, turn, room, now)?;
        }
        offer.streams.push(spread::candidates(book, request, &plain)?.into());
        Ok(offer)
    }

    fn add(
        &mut self,
        book: &mut Book,
        request: &SpreadClaim,
        turn: TaskTurn,
        room: usize,
        now: Time,
    ) -> rusqlite::Result<()> {
        if room > 0 && !turn.state.paused {
            let sharers = turn.sharers(book, request)?;
            let lines = lines(book, request)?;
            Walk::wake(&book.conn, Kind::Tasks, turn.no, &turn.state.limits, now, &lines)?;
            if turn.load.next.is_some() && Rows::new(book, &turn, request, &sharers, &lines, now)?.any()? {
                self.next = self.next.into_iter().chain(turn.load.next).min();
            }
            let mut rows = Rows::new(book, &turn, request, &sharers, &lines, now)?;
            let (sharers, choice) =
                SpreadClaim::turn(&mut rows, &turn.state, &turn.load, sharers.clone(), room)?;
            rows.walk.settle(&choice.resting)?;
            if choice.is_all {
                self.next = self.next.into_iter().chain(choice.next()).chain(rows.walk.next()?).min();
            }
            self.streams.push(sharers.into_iter().chain(choice.into_runs()).collect());
        }
        self.turns.push(turn);
        Ok(())
    }

    /// Whether one of the queues was declared.
    pub(crate) const fn is_limited(&self) -> bool {
        !self.turns.is_empty()
    }

    pub(crate) fn any(&self) -> bool {
        self.streams.iter().any(|stream| !stream.is_empty())
    }

    /// What an attempt has come to by waiting.
    pub(crate) fn urgency(&self, now: Time, row: &SpreadRow) -> u8 {
        let turn = self.turns.iter().find(|turn| turn.name == row.queue);
        turn.map_or(row.priority, |turn| turn.state.limits.urgency(now, row.waiter()))
    }

    /// Notes what was taken from declared queues, in this order.
    pub(crate) fn note(&self, conn: &Connection, now: Time, taken: &[SpreadRow]) -> rusqlite::Result<()> {
        for TaskTurn { no, name, state, load } in &self.turns {
            let fresh = load.fresh(taken.iter().filter(|row| row.queue == *name));
            let lanes: Vec<&str> = fresh.iter().map(|row| &*row.lane).collect();
            queue::begin(conn, *no, &state.limits, now, &lanes)?;
        }
        Ok(())
    }
}

impl TaskTurn {
    /// Of each run that has a slot and could share it, the most urgent attempt that the claim may have.
    fn sharers(&self, book: &mut Book, request: &SpreadClaim) -> rusqlite::Result<Vec<SpreadRow>> {
        let Book { conn, names } = book;
        let mut sharers = Vec::new();
        for run in self.load.sharing() {
            let named = params![run.as_bytes(), self.no];
            let workflow = conn.prepare_cached(SHARER)?.query_row(named, |row| row.get(0)).optional()?;
            let Some(workflow) = workflow else { continue };
            let workflow = names.text(conn, workflow)?;
            let Some((_, version)) = request.workflows.iter().find(|(name, _)| *name == workflow) else {
                continue;
            };
            let asked =
                params![run.as_bytes(), self.no, version.0, request.suspects > 0, request.suspect_after];
            let found = conn.prepare_cached(SHARERS_TASK)?.query_row(asked, Found::read).optional()?;
            sharers.extend(found.map(|row| row.show(conn, names)).transpose()?);
        }
        sharers.sort_by(SpreadRow::by_urgency);
        Ok(sharers)
    }
}

/// The workflows of a request by number, with their versions.
fn lines(book: &mut Book, request: &SpreadClaim) -> rusqlite::Result<Vec<lanes::Line>> {
    let Book { conn, names } = book;
    let mut lines = Vec::new();
    for (workflow, version) in &request.workflows {
        lines.extend(names.find(conn, workflow)?.map(|workflow| (workflow, version.0)));
    }
    Ok(lines)
}

/// The attempts of a queue that nobody holds, by lane, without those that share the slots of their runs.
struct Rows<'a> {
    walk: Walk<'a>,
    conn: &'a Connection,
    names: &'a mut Names,
    queue: i64,
    limits: QueueLimits,
    request: &'a SpreadClaim,
    lines: &'a [lanes::Line],
    lanes: HashMap<String, Heads>,
    /// What was given, or is not to be.
    known: HashSet<(RunId, SpreadKey)>,
    /// How many suspects may still be given.
    suspects: usize,
}

/// What was read of a lane: so many of each line. The next so many are right.
#[derive(Default)]
struct Heads {
    rows: VecDeque<SpreadRow>,
    depth: usize,
    left: usize,
    is_all: bool,
}

impl<'a> Rows<'a> {
    fn new(
        book: &'a mut Book,
        turn: &TaskTurn,
        request: &'a SpreadClaim,
        sharers: &[SpreadRow],
        lines: &'a [lanes::Line],
        now: Time,
    ) -> rusqlite::Result<Self> {
        let Book { conn, names } = book;
        let (queue, limits) = (turn.no, turn.state.limits);
        let walk = Walk::new(conn, Kind::Tasks, queue, limits, now, lines.to_vec())?;
        let known = sharers.iter().map(|row| (row.run, row.key.clone())).collect();
        let (lanes, suspects) = (HashMap::new(), request.suspects);
        Ok(Self { walk, conn, names, queue, limits, request, lines, lanes, known, suspects })
    }

    /// Whether there is anything, also of keys that rest.
    fn any(&mut self) -> rusqlite::Result<bool> {
        let nobody = Load::new(&QueueLimits::NONE, Time(0), [], [], &[]);
        if !windlass_store::choose(self, &QueueState::default(), &nobody, 1)?.chosen.is_empty() {
            return Ok(true);
        }
        let mut last = (Time(0), String::new());
        while let Some((until, lane)) = self.walk.resting(&last)? {
            if self.next(&lane)?.is_some() {
                return Ok(true);
            }
            last = (until, lane);
        }
        Ok(false)
    }

    /// The next row of a lane.
    fn pop(&mut self, lane: &str) -> rusqlite::Result<Option<SpreadRow>> {
        loop {
            let heads = self.lanes.entry(lane.to_owned()).or_default();
            if heads.is_all || heads.left > 0 {
                heads.left = heads.left.saturating_sub(1);
                return Ok(heads.rows.pop_front());
            }
            // Mostly one of a lane is wanted; whoever wants more wants several.
            let depth = (heads.depth * 4).max(if heads.depth == 0 { 1 } else { 16 });
            let read = self.read(lane, depth)?;
            self.lanes.insert(lane.to_owned(), read);
        }
    }

    fn read(&mut self, lane: &str, depth: usize) -> rusqlite::Result<Heads> {
        let (mut rows, mut is_all) = (Vec::new(), true);
        let after = self.request.suspect_after;
        for (workflow, version) in self.lines {
            let (workflow, version) = (*workflow, DefinitionId(*version));
            for suspects in
                [false, true].into_iter().filter(|suspects| !suspects || self.request.suspects > 0)
            {
                let line = spread::Line { queue: self.queue, lane, workflow, version, suspects };
                let found = match self.limits.ageing {
                    None => vec![line.heads(self.conn, after, depth)?],
                    Some(_) => line.heads_of_each(self.conn, after, depth)?,
                };
                is_all &= found.iter().all(|found| found.len() < depth);
                rows.extend(found.into_iter().flatten());
            }
        }
        let shown = rows.into_iter().map(|row| row.show(self.conn, self.names));
        let mut rows = shown.collect::<rusqlite::Result<Vec<_>>>()?;
        let read = rows.len();
        rows.retain(|row| !self.known.contains(&(row.run, row.key.clone())));
        rows.sort_by(SpreadRow::by_urgency);
        let left = if is_all { rows.len() } else { depth.saturating_sub(read - rows.len()) };
        Ok(Heads { rows: self.limits.in_order(rows, SpreadRow::waiter), depth, left, is_all })
    }
}

impl Lanes for Rows<'_> {
    type Run = SpreadRow;
    type Error = rusqlite::Error;

    fn after(&mut self, lane: Option<&str>) -> rusqlite::Result<Option<String>> {
        self.walk.after(lane)
    }

    fn left(&mut self, lane: &str) -> rusqlite::Result<(usize, Option<Time>)> {
        self.walk.left(lane)
    }

    fn next(&mut self, lane: &str) -> rusqlite::Result<Option<SpreadRow>> {
        while let Some(row) = self.pop(lane)? {
            let is_suspect = self.request.is_suspect(&row);
            if !self.known.insert((row.run, row.key.clone())) || is_suspect && self.suspects == 0 {
                continue;
            }
            self.suspects -= usize::from(is_suspect);
            return Ok(Some(row));
        }
        Ok(None)
    }
}
