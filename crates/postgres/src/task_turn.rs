//! Claims of published attempts that meet declared queues.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    convert::Infallible,
};

use tokio_postgres::types::ToSql;
use uuid::Uuid;
use windlass_core::{RunId, Time};
use windlass_store::{Lanes, Load, QueueLimits, QueueState, SpreadClaim, SpreadKey, SpreadRow, choose};

use crate::{
    claim::in_turn,
    column,
    error::Fault,
    queue::{self, Queue, Seats},
    session::Session,
    spread::{self, large, spread_row},
};

/// The lanes of a queue from one on in which something waits, by skipping from one to the next.
const LANES: &str = "\
    WITH RECURSIVE walk (lane, no) AS (\
        (SELECT a.lane, 1::bigint FROM {s}.spread AS a WHERE a.node IS NULL AND a.queue = $1 AND a.lane >= $2 \
         ORDER BY a.lane LIMIT 1) \
        UNION ALL \
        SELECT (SELECT a.lane FROM {s}.spread AS a WHERE a.node IS NULL AND a.queue = $1 AND a.lane > w.lane \
                ORDER BY a.lane LIMIT 1), w.no + 1 \
        FROM walk AS w WHERE w.lane IS NOT NULL AND w.no < $3) \
    SELECT lane FROM walk WHERE lane IS NOT NULL";
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
        let Queue { name, state, at } = &turn;
        let seats = queue::seats(session, name, state, Some(request.node), *at).await?;
        if room > 0 && !state.paused {
            let load = &seats.load;
            let sharers = sharers(session, request, name, load).await?;
            let known = sharers.iter().map(|row| (row.run, row.key.clone())).collect();
            let rows = Rows { session, queue: name, request, known };
            if load.next.is_some() && rows.any().await? {
                self.next = self.next.into_iter().chain(load.next).min();
            }
            let (sharers, most) = SpreadClaim::admit(load, &state.limits, sharers, room);
            let chosen = rows.choose(state, load, most).await?;
            self.streams.push(sharers.into_iter().chain(chosen).collect());
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

    /// Notes what was taken from declared queues, in this order.
    pub(crate) async fn note(&self, session: &Session, taken: &[SpreadRow]) -> Result<(), Fault> {
        for (queue, seats) in &self.turns {
            let fresh = seats.load.fresh(taken.iter().filter(|row| *row.queue == *queue.name));
            if let Some(last) = fresh.last() {
                queue::note(session, queue, &last.lane, fresh.len()).await?;
            }
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

/// The attempts of a queue that nobody holds, without those that share the slots of their runs.
struct Rows<'a> {
    session: &'a Session,
    queue: &'a str,
    request: &'a SpreadClaim,
    known: HashSet<(RunId, SpreadKey)>,
}

impl Rows<'_> {
    /// Whether there is anything.
    async fn any(&self) -> Result<bool, Fault> {
        let nobody = Load::new(&QueueLimits::default(), Time(0), [], [], &[]);
        Ok(!self.choose(&QueueState::default(), &nobody, 1).await?.is_empty())
    }

    /// Chooses so many. As much is read as seems to be needed, and more when it was not enough.
    async fn choose(&self, state: &QueueState, load: &Load, most: usize) -> Result<Vec<SpreadRow>, Fault> {
        if most == 0 {
            return Ok(Vec::new());
        }
        let most = most.min(10_000);
        let (mut width, mut depth) = (most + load.under_way() + 8, 0);
        loop {
            let (lanes, is_all) = self.lanes(state, width).await?;
            let open = lanes.iter().filter(|lane| load.lane_left(&state.limits, lane) > 0);
            let open: Vec<&str> = open.map(String::as_str).collect();
            depth = depth.max(most.div_ceil(open.len().max(1)) + self.known.len() + 1);
            let mut heads = self.heads(&lanes, &open, depth).await?;
            let Ok(chosen) = choose(&mut heads, state, load, most);
            // A lane has a second turn only when all have had their first.
            let lanes: HashSet<&String> = chosen.iter().map(|(lane, _)| lane).collect();
            if !heads.is_short && (is_all || lanes.len() == most) {
                return Ok(chosen.into_iter().map(|(_, row)| row).collect());
            }
            (width, depth) = (width * 4, depth * 4);
        }
    }

    /// The lanes after the one that had the last turn, and then those up to it; and whether these are all.
    async fn lanes(&self, state: &QueueState, width: usize) -> Result<(Vec<String>, bool), Fault> {
        let width = large(width);
        // No text sorts between another and the same with this at its end.
        let after = state.cursor.as_ref().map(|cursor| format!("{cursor}\u{1}"));
        let mut lanes = Vec::new();
        for from in [after.as_deref(), Some("")].into_iter().flatten() {
            for row in self.session.query(LANES, &[&self.queue, &from, &width]).await? {
                lanes.push(row.try_get(0)?);
            }
            if large(lanes.len()) >= width {
                return Ok((lanes, false));
            }
        }
        lanes.sort();
        lanes.dedup();
        Ok((lanes, true))
    }

    /// The most urgent attempts of these lanes, so many of each line.
    async fn heads(&self, lanes: &[String], open: &[&str], depth: usize) -> Result<Heads<'_>, Fault> {
        let (_, _, workflows, versions) = spread::lines(self.request);
        let (most, suspects) = (large(depth), large(depth.min(self.request.suspects)));
        let from = column::count(self.request.suspect_after);
        let params: [&(dyn ToSql + Sync); 7] =
            [&self.queue, &open, &workflows, &versions, &most, &suspects, &from];
        let found = self.session.query(HEADS, &params).await?;
        let mut rows = found.iter().map(spread_row).collect::<Result<Vec<_>, _>>()?;
        rows.sort_by(SpreadRow::by_urgency);
        let mut heads = Heads {
            request: self.request,
            lanes: lanes.iter().map(|lane| (lane.clone(), VecDeque::new())).collect(),
            left: HashMap::new(),
            known: &self.known,
            suspects: self.request.suspects,
            is_short: false,
        };
        let mut counts: HashMap<_, usize> = HashMap::new();
        for row in rows {
            let line = (row.lane.clone(), row.workflow.clone(), self.request.is_suspect(&row));
            let count = counts.entry(line).or_default();
            *count += 1;
            if *count == depth {
                // Beyond these there may be more that are as urgent as the others.
                heads.left.insert(String::from(&*row.lane), depth);
            }
            heads.lanes.entry(String::from(&*row.lane)).or_default().push_back(row);
        }
        Ok(heads)
    }
}

/// What was read of the lanes of a queue.
struct Heads<'a> {
    request: &'a SpreadClaim,
    lanes: BTreeMap<String, VecDeque<SpreadRow>>,
    /// How many more are right, of lanes that were not read to their end.
    left: HashMap<String, usize>,
    known: &'a HashSet<(RunId, SpreadKey)>,
    /// How many suspects may still be given.
    suspects: usize,
    /// Whether somebody asked for what was not read.
    is_short: bool,
}

impl Lanes for Heads<'_> {
    type Run = SpreadRow;
    type Error = Infallible;

    fn after(&mut self, lane: Option<&str>) -> Result<Option<String>, Infallible> {
        let lane = match lane {
            None => self.lanes.keys().next(),
            Some(lane) => {
                let after = (std::ops::Bound::Excluded(lane), std::ops::Bound::Unbounded);
                self.lanes.range::<str, _>(after).next().map(|(lane, _)| lane)
            }
        };
        Ok(lane.cloned())
    }

    fn next(&mut self, lane: &str) -> Result<Option<SpreadRow>, Infallible> {
        loop {
            match self.left.get_mut(lane) {
                Some(0) => self.is_short = true,
                Some(left) => *left -= 1,
                None => {}
            }
            let Some(row) = self.lanes.get_mut(lane).and_then(VecDeque::pop_front) else { return Ok(None) };
            let is_suspect = self.request.is_suspect(&row);
            if self.known.contains(&(row.run, row.key.clone())) || is_suspect && self.suspects == 0 {
                continue;
            }
            self.suspects -= usize::from(is_suspect);
            return Ok(Some(row));
        }
    }
}
