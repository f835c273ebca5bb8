//! What a claim may take from a declared queue.

use std::collections::{HashMap, HashSet, VecDeque};

use rusqlite::Connection;
use windlass_core::{RunId, Time};
use windlass_store::{Arrival, DefinitionId, Lanes, Load, QueueLimits, QueueState, Waiter, choose};

use crate::{
    claim::Line,
    lanes::{Kind, Walk},
    place::Carried,
    queue, ready,
    run::{self, Core},
};

/// A ready run of a declared queue.
pub(crate) struct Candidate {
    pub(crate) priority: u8,
    /// What it has come to by waiting.
    pub(crate) urgency: u8,
    pub(crate) run: RunId,
    pub(crate) carried: Carried,
    pub(crate) workflow: i64,
    pub(crate) version: DefinitionId,
    lane: String,
    arrival: Arrival,
}

/// What a claim may take from a declared queue, in its order.
pub(crate) struct Turn {
    pub(crate) queue: i64,
    state: QueueState,
    load: Load,
    pub(crate) runs: VecDeque<Candidate>,
    /// When the rate lets the next one be taken, if it lets none now and there is one.
    pub(crate) next: Option<Time>,
}

/// What one may do who asks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leave {
    Read,
    Write,
}

/// Who asks.
#[derive(Clone, Copy)]
pub(crate) struct Asker<'a> {
    /// The claiming node's number.
    pub(crate) node: i64,
    pub(crate) now: Time,
    /// Its workflows and their versions.
    pub(crate) workflows: &'a [(i64, DefinitionId)],
}

impl Turn {
    /// What there is in a queue for somebody with so much room.
    pub(crate) fn new(
        conn: &Connection,
        asker: Asker<'_>,
        queue: i64,
        state: QueueState,
        room: usize,
        leave: Leave,
    ) -> rusqlite::Result<Self> {
        let load = queue::load(conn, queue, &state, asker.node, asker.now)?;
        let mut turn = Self { queue, state, load, runs: VecDeque::new(), next: None };
        if room == 0 {
            return Ok(turn);
        }
        let limits = turn.state.limits;
        let stopping = turn.stopping(conn, asker, room)?;
        let mut known: HashSet<RunId> = stopping.iter().map(|candidate| candidate.run).collect();
        let next_stop =
            asker.workflows.iter().map(|(workflow, _)| ready::next_stop(conn, queue, *workflow, asker.now));
        let next_stop = next_stop.collect::<rusqlite::Result<Vec<_>>>()?.into_iter().flatten().min();
        if turn.state.paused {
            return Ok(Self { runs: stopping.into(), next: next_stop, ..turn });
        }
        let room = room - stopping.len();
        let mut back = turn.coming_back(conn, asker)?;
        back.retain(|candidate| !known.contains(&candidate.run));
        known.extend(back.iter().map(|candidate| candidate.run));
        let lines: Vec<_> =
            asker.workflows.iter().map(|(workflow, version)| (*workflow, version.0)).collect();
        if leave == Leave::Write {
            Walk::wake(conn, Kind::Runs, queue, &limits, asker.now, &lines)?;
        }
        let walk = Walk::new(conn, Kind::Runs, queue, limits, asker.now, lines)?;
        let mut rows =
            Rows { walk, conn, asker, queue, limits, lines: HashMap::new(), created: HashMap::new(), known };
        if turn.load.next.is_some() && rows.any()? {
            turn.next = turn.load.next;
        }
        let (back, more) = turn.load.admit(&limits, room, back, |candidate| candidate.run);
        let most = (room - back.len()).min(turn.load.left(&limits, more));
        let choice = choose(&mut rows, &turn.state, &turn.load, most)?;
        if leave == Leave::Write {
            rows.walk.settle(&choice.resting)?;
        }
        if choice.is_all {
            turn.next = turn.next.into_iter().chain(choice.next()).chain(rows.walk.next()?).min();
        }
        turn.next = turn.next.into_iter().chain(next_stop).min();
        turn.runs = stopping.into_iter().chain(back).chain(choice.into_runs()).collect();
        Ok(turn)
    }

    /// The ready runs that have to stop by now, so many, the first that had to before the others.
    fn stopping(&self, conn: &Connection, asker: Asker<'_>, room: usize) -> rusqlite::Result<Vec<Candidate>> {
        let mut due = Vec::new();
        for (workflow, version) in asker.workflows {
            let found = ready::stopping(conn, self.queue, *workflow, asker.now, room)?;
            due.extend(found.into_iter().map(|(at, run)| (at, run, *version)));
        }
        due.sort_unstable_by_key(|(at, run, _)| (*at, *run));
        due.truncate(room);
        if due.is_empty() {
            return Ok(Vec::new());
        }
        let kept: HashSet<RunId> = queue::idle(conn, self.queue)?.into_iter().collect();
        let mut stopping = Vec::with_capacity(due.len());
        for (_, run, version) in due {
            let arrival = if kept.contains(&run) { Arrival::Back } else { Arrival::Stopping };
            let core = run::core(conn, run)?;
            stopping.extend(
                core.map(|core| self.candidate(conn, asker, run, &core, version, arrival))
                    .transpose()?
                    .flatten(),
            );
        }
        Ok(stopping)
    }

    /// A ready run of the queue, as it stands.
    fn candidate(
        &self,
        conn: &Connection,
        asker: Asker<'_>,
        run: RunId,
        core: &Core,
        version: DefinitionId,
        arrival: Arrival,
    ) -> rusqlite::Result<Option<Candidate>> {
        let Some(carried) = ready::read(conn, run, core)? else { return Ok(None) };
        let (workflow, priority) = (core.workflow, core.priority);
        let lane = if core.has_lane { run::lane(conn, run)? } else { String::new() };
        let since = carried.opened_at.map_or(core.created_at, Time);
        let urgency = self.state.limits.urgency(asker.now, Waiter { priority, run, since });
        Ok(Some(Candidate { priority, urgency, run, carried, workflow, version, lane, arrival }))
    }

    /// The ready runs that have a slot already, or share one, the most urgent first.
    fn coming_back(&self, conn: &Connection, asker: Asker<'_>) -> rusqlite::Result<Vec<Candidate>> {
        let mut back = Vec::new();
        let kept = queue::idle(conn, self.queue)?.into_iter().map(|run| (run, Arrival::Back));
        let owed = self.load.owed().map(|run| (run, Arrival::Shared));
        for (run, arrival) in kept.chain(owed) {
            let Some(core) = run::core(conn, run)?.filter(|core| core.queue == self.queue) else { continue };
            let version = asker.workflows.iter().find(|(workflow, _)| *workflow == core.workflow);
            if let Some((_, version)) = version {
                back.extend(self.candidate(conn, asker, run, &core, *version, arrival)?);
            }
        }
        back.sort_unstable_by_key(|candidate| (candidate.priority, candidate.run));
        Ok(back)
    }

    /// Seats what was taken, in that order.
    pub(crate) fn seat(
        &self,
        conn: &Connection,
        asker: Asker<'_>,
        taken: &[Candidate],
    ) -> rusqlite::Result<()> {
        let (mut numbers, mut begun) = (self.load.free_numbers(), Vec::new());
        for Candidate { run, lane, workflow, priority, arrival, .. } in taken {
            ready::remove_from(conn, self.queue, lane, *workflow, *priority, *run)?;
            match arrival {
                Arrival::Fresh | Arrival::Shared => {}
                Arrival::Back => {
                    queue::retake(conn, *run, asker.node)?;
                    continue;
                }
                Arrival::Stopping => continue,
            }
            let Some(no) = numbers.next() else { continue };
            queue::take(conn, self.queue, no, lane, *run, asker.node)?;
            if *arrival == Arrival::Fresh {
                begun.push(lane.as_str());
            }
        }
        queue::begin(conn, self.queue, &self.state.limits, asker.now, &begun)
    }
}

/// The ready runs of a queue by lane.
struct Rows<'a> {
    walk: Walk<'a>,
    conn: &'a Connection,
    asker: Asker<'a>,
    queue: i64,
    limits: QueueLimits,
    /// For each lane that was asked, a line for each workflow; where runs age, one for each of its priorities.
    lines: HashMap<String, Vec<Line>>,
    /// When runs were started, as far as it was asked.
    created: HashMap<RunId, Time>,
    /// Those that have a slot already.
    known: HashSet<RunId>,
}

impl Rows<'_> {
    /// Whether there is anything that has no slot yet, also of keys that rest.
    fn any(&mut self) -> rusqlite::Result<bool> {
        let mut last = None;
        while let Some(lane) = self.after(last.as_deref())? {
            if self.head(&lane)?.is_some() {
                return Ok(true);
            }
            last = Some(lane);
        }
        let mut last = (Time(0), String::new());
        while let Some((until, lane)) = self.walk.resting(&last)? {
            if self.head(&lane)?.is_some() {
                return Ok(true);
            }
            last = (until, lane);
        }
        Ok(false)
    }

    fn lines_of(&self, lane: &str) -> rusqlite::Result<Vec<Line>> {
        let mut lines = Vec::new();
        for (workflow, version) in self.asker.workflows {
            let line = || Line::in_lane(self.queue, lane.to_owned(), *workflow, *version);
            match self.limits.ageing {
                None => lines.push(line()),
                Some(_) => {
                    let priorities = ready::priorities(self.conn, self.queue, lane, *workflow)?;
                    lines.extend(priorities.into_iter().map(|priority| line().of(priority)));
                }
            }
        }
        Ok(lines)
    }

    /// Which line of a lane has the most urgent run.
    fn head(&mut self, lane: &str) -> rusqlite::Result<Option<usize>> {
        if !self.lines.contains_key(lane) {
            let lines = self.lines_of(lane)?;
            self.lines.insert(lane.to_owned(), lines);
        }
        let Self { conn, limits, lines, created, known, .. } = self;
        let Some(lines) = lines.get_mut(lane) else { return Ok(None) };
        for line in lines.iter_mut() {
            loop {
                // Mostly one of a lane is wanted; whoever wants more wants several.
                let chunk = if line.is_untouched() { 1 } else { 16 };
                line.fill(conn, chunk)?;
                match line.head() {
                    Some((_, run)) if known.contains(&run) => drop(line.rows.pop_front()),
                    _ => break,
                }
            }
        }
        let (mut heads, mut places) = (Vec::new(), Vec::new());
        for (at, line) in lines.iter().enumerate() {
            if let Some((priority, run, carried)) = line.rows.front() {
                let since = since(conn, limits, created, *run, carried)?;
                heads.push(Waiter { priority: *priority, run: *run, since });
                places.push(at);
            }
        }
        Ok(limits.first(heads).map(|first| places[first]))
    }
}

impl Lanes for Rows<'_> {
    type Run = Candidate;
    type Error = rusqlite::Error;

    fn after(&mut self, lane: Option<&str>) -> rusqlite::Result<Option<String>> {
        self.walk.after(lane)
    }

    fn left(&mut self, lane: &str) -> rusqlite::Result<(usize, Option<Time>)> {
        self.walk.left(lane)
    }

    fn next(&mut self, lane: &str) -> rusqlite::Result<Option<Candidate>> {
        let Some(at) = self.head(lane)? else { return Ok(None) };
        let Some(line) = self.lines.get_mut(lane).and_then(|lines| lines.get_mut(at)) else {
            return Ok(None);
        };
        let (workflow, version) = (line.workflow, line.version);
        let Some((priority, run, carried)) = line.rows.pop_front() else { return Ok(None) };
        let since = since(self.conn, &self.limits, &mut self.created, run, &carried)?;
        let urgency = self.limits.urgency(self.asker.now, Waiter { priority, run, since });
        let (lane, arrival) = (lane.to_owned(), Arrival::Fresh);
        Ok(Some(Candidate { priority, urgency, run, carried, workflow, version, lane, arrival }))
    }
}

/// Since when a ready run might have been taken, where that matters.
fn since(
    conn: &Connection,
    limits: &QueueLimits,
    created: &mut HashMap<RunId, Time>,
    run: RunId,
    carried: &Carried,
) -> rusqlite::Result<Time> {
    if let (Some(_), None) = (limits.ageing, carried.opened_at) {
        if let Some(known) = created.get(&run) {
            return Ok(*known);
        }
        let at = run::core(conn, run)?.map_or(Time(0), |core| core.created_at);
        created.insert(run, at);
        return Ok(at);
    }
    Ok(Time(carried.opened_at.unwrap_or(0)))
}
