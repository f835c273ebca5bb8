//! Claims of published attempts that meet declared queues.

use std::collections::{HashMap, HashSet, VecDeque};

use tokio_postgres::types::ToSql;
use uuid::Uuid;
use windlass_core::{RunId, Time};
use windlass_store::{Load, SpreadClaim, SpreadKey, SpreadRow};

use crate::{
    claim::in_turn,
    column,
    error::Fault,
    lanes::{self, Kind, Walk},
    queue::{self, Queue, Seats},
    session::Session,
    spread::{self, large, spread_row},
};

/// The most urgent attempts of some lanes, so many of each version, those that nearly killed too often apart from the
/// others.
const HEADS: &str = "\
    SELECT head.* \
    FROM unnest($2::text[]) AS l (lane) \
    CROSS JOIN unnest($3::text[], $4::bigint[]) AS v (workflow, version) \
    CROSS JOIN (VALUES (false, $5::bigint), (true, $6::bigint)) AS k (suspect, most) \
    CROSS JOIN LATERAL (\
        SELECT s.run, s.step, s.attempt, s.generation, s.workflow, s.definition, s.queue, s.lane, s.priority, s.at, \
               s.deaths, s.node, s.claim \
        FROM {s}.spread AS s \
        WHERE s.node IS NULL AND s.queue = $1 AND s.lane = l.lane AND s.workflow = v.workflow AND s.definition = v.version \
          AND (s.deaths >= $7) = k.suspect \
        ORDER BY s.priority, s.run, s.step, s.attempt LIMIT k.most) AS head";
/// The same of each priority, for a queue in which they age.
const HEADS_OF_EACH: &str = "\
    SELECT head.* \
    FROM unnest($2::text[]) AS l (lane) \
    CROSS JOIN unnest($3::text[], $4::bigint[]) AS v (workflow, version) \
    CROSS JOIN (VALUES (false, $5::bigint), (true, $6::bigint)) AS k (suspect, most) \
    CROSS JOIN generate_series(0, 9) AS p (priority) \
    CROSS JOIN LATERAL (\
        SELECT s.run, s.step, s.attempt, s.generation, s.workflow, s.definition, s.queue, s.lane, s.priority, s.at, \
               s.deaths, s.node, s.claim \
        FROM {s}.spread AS s \
        WHERE s.node IS NULL AND s.queue = $1 AND s.lane = l.lane AND s.workflow = v.workflow AND s.definition = v.version \
          AND (s.deaths >= $7) = k.suspect \
        AND s.priority = p.priority::smallint \
        ORDER BY s.run, s.step, s.attempt LIMIT k.most) AS head";
/// Of some runs the most urgent attempt that a claim may have.
const SHARERS: &str = "\
    SELECT head.* FROM unnest($1::uuid[]) AS u (run) CROSS JOIN LATERAL (\
        SELECT s.run, s.step, s.attempt, s.generation, s.workflow, s.definition, s.queue, s.lane, s.priority, s.at, \
               s.deaths, s.node, s.claim \
        FROM {s}.spread AS s WHERE s.run = u.run AND s.queue = $2 AND s.node IS NULL AND ($5 OR s.deaths < $6) \
          AND EXISTS (SELECT FROM unnest($3::text[], $4::bigint[]) AS v (workflow, version) \
              WHERE v.workflow = s.workflow AND v.version = s.definition) \
        ORDER BY s.step, s.attempt LIMIT 1) AS head";

/// What a claim may take: from all queues that were not declared together, and from each that was.
pub(crate) struct TaskOffer {
    pub(crate) streams: Vec<VecDeque<SpreadRow>>,
    turns: Vec<(Queue, Seats)>,
    /// When the rate of one of them lets the next be taken.
    pub(crate) next: Option<Time>,
    /// Whether a queue was left to whoever takes from it just now.
    pub(crate) passed: bool,
}

impl TaskOffer {
    /// What there is for somebody with so much room, in queues that nobody else takes from until the transaction is over.
    pub(crate) async fn new(session: &Session, request: &SpreadClaim, room: usize) -> Result<Self, Fault> {
        let names: Vec<&str> = request.queues.iter().map(|(queue, _)| &**queue).collect();
        let declared = queue::declared(session, &names).await?;
        let turns = in_turn(session, &declared, queue::turn(session, &names).await?).await?;
        let passed = turns.len() < declared.len();
        let is_plain = |name: &str| declared.iter().chain(&turns).all(|queue| queue.name != name);
        let plain = request.queues.iter().filter(|(name, _)| is_plain(name)).cloned().collect();
        let plain = SpreadClaim { queues: plain, ..request.clone() };
        let streams = vec![spread::candidates(session, &plain).await?.into()];
        let mut offer = Self { streams, turns: Vec::new(), next: None, passed };
        for turn in turns {
            let room = room.min(request.room_in(&turn.name));
            offer.add(session, request, turn, room).await?;
        }
        Ok(offer)
    }

    async fn add(
        &mut self,
        session: &Session,
        request: &SpreadClaim,
        turn: Queue,
        room: usize,
    ) -> Result<(), Fault> {
        let Queue { name, state, at, .. } = &turn;
        let seats = queue::seats(session, name, state, Some(request.node), *at).await?;
        if room > 0 && !state.paused {
            let load = &seats.load;
            let sharers = sharers(session, request, name, load).await?;
            let known = sharers.iter().map(|row| (row.run, row.key.clone())).collect();
            let (_, _, workflows, versions) = spread::lines(request);
            let walk = Walk { session, kind: Kind::Tasks, queue: &turn, workflows, versions };
            walk.wake().await?;
            let tasks = Tasks { walk: &walk, request, known: &known };
            if load.next.is_some() && walk.any(&tasks).await? {
                self.next = self.next.into_iter().chain(load.next).min();
            }
            let (sharers, most) = SpreadClaim::admit(load, &state.limits, sharers, room);
            let choice = walk.choose(&tasks, state, load, most).await?;
            walk.settle(&choice).await?;
            self.next = self.next.into_iter().chain(walk.next(&choice).await?).min();
            self.streams.push(sharers.into_iter().chain(choice.into_runs()).collect());
        }
        self.turns.push((turn, seats));
        Ok(())
    }

    /// The declared queues that may be taken from.
    pub(crate) fn in_turn(&self) -> Vec<&str> {
        self.turns.iter().map(|(queue, _)| queue.name.as_str()).collect()
    }

    pub(crate) fn any(&self) -> bool {
        self.streams.iter().any(|stream| !stream.is_empty())
    }

    /// What an attempt has come to by waiting.
    pub(crate) fn urgency(&self, row: &SpreadRow) -> u8 {
        let turn = self.turns.iter().find(|(queue, _)| *queue.name == *row.queue);
        turn.map_or(row.priority, |(queue, _)| queue.state.limits.urgency(queue.at, row.waiter()))
    }

    /// Notes what was taken from declared queues, in this order.
    pub(crate) async fn note(&self, session: &Session, taken: &[SpreadRow]) -> Result<(), Fault> {
        for (queue, seats) in &self.turns {
            let fresh = seats.load.fresh(taken.iter().filter(|row| *row.queue == *queue.name));
            let lanes: Vec<&str> = fresh.iter().map(|row| &*row.lane).collect();
            queue::note(session, queue, &lanes).await?;
        }
        Ok(())
    }
}

/// Of each run that has a slot and could share it, the most urgent attempt that the claim may have.
async fn sharers(
    session: &Session,
    request: &SpreadClaim,
    queue: &str,
    load: &Load,
) -> Result<Vec<SpreadRow>, Fault> {
    let runs: Vec<Uuid> = load.sharing().map(column::run).collect();
    if runs.is_empty() {
        return Ok(Vec::new());
    }
    let (_, _, workflows, versions) = spread::lines(request);
    let (suspects, from) = (request.suspects > 0, column::count(request.suspect_after));
    let params: [&(dyn ToSql + Sync); 6] = [&runs, &queue, &workflows, &versions, &suspects, &from];
    let found = session.query(SHARERS, &params).await?;
    let mut sharers = found.iter().map(spread_row).collect::<Result<Vec<_>, _>>()?;
    sharers.sort_by(SpreadRow::by_urgency);
    Ok(sharers)
}

/// What was read of the lanes of a queue, without attempts that share the slots of their runs.
struct Heads<'a> {
    request: &'a SpreadClaim,
    lanes: HashMap<String, VecDeque<SpreadRow>>,
    /// How many more are right, of lanes that were not read to their end.
    left: HashMap<String, usize>,
    /// How many suspects may still be given.
    suspects: usize,
    is_short: bool,
}

/// The attempts of a queue that nobody holds.
struct Tasks<'a> {
    walk: &'a Walk<'a>,
    request: &'a SpreadClaim,
    /// Those that share the slots of their runs.
    known: &'a HashSet<(RunId, SpreadKey)>,
}

impl<'a> lanes::Source for Tasks<'a> {
    type Heads = Heads<'a>;

    fn known(&self) -> usize {
        self.known.len()
    }

    async fn read(&self, lanes: Vec<String>, depth: usize) -> Result<Heads<'a>, Fault> {
        let Self { walk, request, known } = *self;
        let (from, limits) = (column::count(request.suspect_after), &walk.queue.state.limits);
        // Where they age, also one that is not given comes before others.
        let suspects = match limits.ageing {
            Some(_) if request.suspects > 0 => depth,
            _ => depth.min(request.suspects),
        };
        let (most, suspects) = (large(depth), large(suspects));
        let (name, workflows, versions) = (&walk.queue.name, &walk.workflows, &walk.versions);
        let params: [&(dyn ToSql + Sync); 7] = [name, &lanes, workflows, versions, &most, &suspects, &from];
        let sql = if limits.ageing.is_some() { HEADS_OF_EACH } else { HEADS };
        let found = walk.session.query(sql, &params).await?;
        let mut rows = found.iter().map(spread_row).collect::<Result<Vec<_>, _>>()?;
        rows.sort_by(SpreadRow::by_urgency);
        let suspects = request.suspects;
        let (lanes, left) = (HashMap::new(), HashMap::new());
        let mut heads = Heads { request, lanes, left, suspects, is_short: false };
        let (mut lines, mut counts): (HashMap<_, Vec<_>>, HashMap<_, usize>) = Default::default();
        for row in rows {
            let priority = if limits.ageing.is_some() { row.priority } else { 0 };
            let line = (row.lane.clone(), row.workflow.clone(), request.is_suspect(&row), priority);
            let count = counts.entry(line).or_default();
            *count += 1;
            if *count == depth {
                // Beyond these there may be more that are as urgent as the others.
                heads.left.insert(String::from(&*row.lane), depth.saturating_sub(known.len()));
            }
            if !known.contains(&(row.run, row.key.clone())) {
                lines.entry(String::from(&*row.lane)).or_default().push(row);
            }
        }
        let in_order = |line| limits.in_order(line, SpreadRow::waiter);
        heads.lanes = lines.into_iter().map(|(lane, line)| (lane, in_order(line))).collect();
        Ok(heads)
    }
}

impl lanes::Heads for Heads<'_> {
    type Run = SpreadRow;

    fn next(&mut self, lane: &str) -> Option<SpreadRow> {
        loop {
            match self.left.get_mut(lane) {
                Some(0) => self.is_short = true,
                Some(left) => *left -= 1,
                None => {}
            }
            let row = self.lanes.get_mut(lane).and_then(VecDeque::pop_front)?;
            let is_suspect = self.request.is_suspect(&row);
            if is_suspect && self.suspects == 0 {
                continue;
            }
            self.suspects -= usize::from(is_suspect);
            return Some(row);
        }
    }

    fn is_short(&self) -> bool {
        self.is_short
    }
}
