//! Claims that meet declared queues.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    convert::Infallible,
    time::Duration,
};

use tokio_postgres::{Row, types::ToSql};
use uuid::Uuid;
use windlass_core::{RunId, Time};
use windlass_store::{Arrival, Claim, Lanes, Load, QueueState, choose};

use super::{
    ALONE, DUE, DUE_AT_ONCE, FREE_OWN, Hold, MINE, NEXT_DUE, Taken, columns, large, repeat,
    statements::{BACK, HEADS, LANES, LINES, TAKE_THESE},
};
use crate::{
    column,
    error::Fault,
    image,
    queue::{self, NewSlot, Queue, Seats},
    session::Session,
};

/// How often, and how soon, a claim asks again for a queue that somebody else takes from: that takes a moment, unless
/// whoever it is has died.
const AGAIN: usize = 20;
const SOON: Duration = Duration::from_millis(2);

/// A ready run.
#[derive(Clone)]
struct Candidate {
    priority: i16,
    run: Uuid,
    queue: String,
    lane: String,
    workflow: String,
    weight: i64,
    arrival: Arrival,
}

/// What a claim may take: from all queues that were not declared together, and from each that was.
struct Offer {
    streams: Vec<VecDeque<Candidate>>,
    turns: Vec<(Queue, Seats)>,
    /// When the rate of one of them lets the next be taken.
    next: Option<Time>,
}

/// Makes due runs ready, and takes what a node has room for.
pub(super) async fn claim(session: &Session, request: &Claim) -> Result<Taken, Fault> {
    let work = async |now| take(session, request, now).await;
    let mut took = session.transact(Some(request.node), work).await?;
    took.rows.sort_by_cached_key(|row| (row.get::<_, i16>(3), row.get::<_, Uuid>(0)));
    let (runs, holds) = match took.repeated {
        Some(runs) => {
            session
                .transact(Some(request.node), async |_| Ok((image::load(session, &runs.0).await?, runs.1)))
                .await?
        }
        None => (image::claimed(session, request, &took.rows).await?, image::holds(request, &took.rows)?),
    };
    let after = session.look(async || look(session, request).await).await?;
    let more = request.room > 0 && (took.is_full || took.passed || after.any);
    let next_due = took.next_due.into_iter().chain(after.next).min();
    Ok(Taken {
        claimed: windlass_store::Claimed { now: took.now, runs, next_due, more, limited: after.limited },
        holds,
    })
}

/// What a transaction took.
struct Took {
    now: Time,
    rows: Vec<Row>,
    repeated: Option<(Vec<Uuid>, Vec<Hold>)>,
    next_due: Option<Time>,
    is_full: bool,
    /// Whether something was left to whoever was just moving it.
    passed: bool,
}

async fn take(session: &Session, request: &Claim, now: Time) -> Result<Took, Fault> {
    let names: Vec<&str> = request.queues.iter().map(|(queue, _)| &**queue).collect();
    let all = request.versions();
    let own = columns(&all);
    let lock = session.lock_of(&request.claim.0.to_be_bytes());
    let (lock, limit): ([&(dyn ToSql + Sync); 1], [&(dyn ToSql + Sync); 1]) = ([&lock], [&DUE_AT_ONCE]);
    let own: [&(dyn ToSql + Sync); 2] = [&own.0, &own.1];
    for sql in [ALONE, DUE, FREE_OWN, MINE] {
        session.statement(sql).await?;
    }
    queue::prepare(session).await?;
    // They travel together, in this order.
    let (alone, due, freed, repeated, declared, turns) = tokio::join!(
        session.execute(ALONE, &lock),
        session.execute(DUE, &limit),
        async { if request.free_own { session.execute(FREE_OWN, &own).await } else { Ok(0) } },
        repeat(session, request),
        queue::declared(session, &names),
        queue::turn(session, &names),
    );
    alone?;
    let is_full = due? >= DUE_AT_ONCE.cast_unsigned();
    freed?;
    let (repeated, declared, turns) = (repeated?, declared?, turns?);
    let mut took = Took { now, rows: Vec::new(), repeated: None, next_due: None, is_full, passed: false };
    if repeated.0.is_empty() {
        let turns = in_turn(session, &declared, turns).await?;
        took.passed = turns.len() < declared.len();
        for turn in turns.iter().filter(|turn| !turn.state.limits.hold) {
            queue::tidy(session, turn).await?;
        }
        // One may have been declared just now.
        let all = declared.iter().chain(&turns);
        let declared: Vec<String> = all.map(|queue| queue.name.clone()).collect();
        let offer = offer(session, request, request.room, turns, &declared).await?;
        let chosen = choose_from(request, offer.streams);
        took.rows = seat(session, request, &offer.turns, &chosen).await?;
        took.passed |= took.rows.len() < chosen.len();
    } else {
        took.repeated = Some(repeated);
    }
    let next = session.one(NEXT_DUE, &[&names]).await?;
    took.next_due = next.try_get::<_, Option<i64>>(0)?.map(Time);
    Ok(took)
}

/// Waits a moment for the declared queues that somebody else takes from, and leaves them to him after that: one that
/// cannot be had does not keep the others waiting.
pub(crate) async fn in_turn(
    session: &Session,
    declared: &[Queue],
    turns: Vec<Queue>,
) -> Result<Vec<Queue>, Fault> {
    let names: Vec<&str> = declared.iter().map(|queue| queue.name.as_str()).collect();
    let mut turns = turns;
    for _ in 0..AGAIN {
        if turns.len() >= names.len() {
            break;
        }
        tokio::time::sleep(SOON).await;
        turns = queue::turn(session, &names).await?;
    }
    Ok(turns)
}

/// What a look finds in queues.
pub(super) struct Found {
    pub(super) any: bool,
    pub(super) next: Option<Time>,
    pub(super) limited: bool,
}

/// Looks what the same request could take now.
pub(super) async fn look(session: &Session, request: &Claim) -> Result<Found, Fault> {
    let names: Vec<&str> = request.queues.iter().map(|(queue, _)| &**queue).collect();
    let turns = queue::declared(session, &names).await?;
    let limited = !turns.is_empty();
    let declared: Vec<String> = turns.iter().map(|queue| queue.name.clone()).collect();
    let offer = offer(session, request, 1, turns, &declared).await?;
    Ok(Found { any: offer.streams.iter().any(|stream| !stream.is_empty()), next: offer.next, limited })
}

/// What there is: `turns` are the declared queues that may be taken from, `declared` all of them.
async fn offer(
    session: &Session,
    request: &Claim,
    room: usize,
    turns: Vec<Queue>,
    declared: &[String],
) -> Result<Offer, Fault> {
    let mut offer = Offer { streams: Vec::new(), turns: Vec::new(), next: None };
    offer.streams.push(plain(session, request, room, declared).await?);
    for queue in turns {
        let limit =
            request.queues.iter().find(|(name, _)| **name == *queue.name).map_or(0, |(_, limit)| *limit);
        let Queue { name, state, at } = &queue;
        let seats = queue::seats(session, name, state, Some(request.node), *at).await?;
        let (stream, next) = turn(session, request, &queue, &seats, room.min(limit)).await?;
        offer.streams.push(stream);
        offer.next = offer.next.into_iter().chain(next).min();
        offer.turns.push((queue, seats));
    }
    Ok(offer)
}

/// The heads of all lines of queues that were not declared, the most urgent first.
async fn plain(
    session: &Session,
    request: &Claim,
    room: usize,
    declared: &[String],
) -> Result<VecDeque<Candidate>, Fault> {
    let is_plain = |name: &str| declared.iter().all(|declared| declared != name);
    let queues = request.queues.iter().filter(|(name, limit)| *limit > 0 && is_plain(name));
    let (names, limits): (Vec<&str>, Vec<i64>) =
        queues.map(|(name, limit)| (&**name, large((*limit).min(room)))).unzip();
    if names.is_empty() {
        return Ok(VecDeque::new());
    }
    let (workflows, _) = columns(&request.workflows);
    let rows = session.query(LINES, &[&names, &limits, &workflows]).await?;
    let mut left: HashMap<String, i64> = names.iter().map(|name| (*name).to_owned()).zip(limits).collect();
    let mut heads = VecDeque::new();
    for row in &rows {
        let head = candidate(row)?;
        if let Some(left) = left.get_mut(&head.queue).filter(|left| **left > 0) {
            *left -= 1;
            heads.push_back(head);
        }
    }
    Ok(heads)
}

fn candidate(row: &Row) -> Result<Candidate, Fault> {
    Ok(Candidate {
        priority: row.try_get(0)?,
        run: row.try_get(1)?,
        queue: row.try_get(2)?,
        lane: row.try_get(3)?,
        workflow: row.try_get(4)?,
        weight: row.try_get(5)?,
        arrival: Arrival::Fresh,
    })
}

/// What a declared queue has for somebody with so much room, in its order.
async fn turn(
    session: &Session,
    request: &Claim,
    queue: &Queue,
    seats: &Seats,
    room: usize,
) -> Result<(VecDeque<Candidate>, Option<Time>), Fault> {
    let (Queue { name, state, .. }, Seats { load, idle }) = (queue, seats);
    if state.paused || room == 0 {
        return Ok((VecDeque::new(), None));
    }
    let (workflows, _) = columns(&request.workflows);
    let mut back = Vec::new();
    let counted: Vec<Uuid> = idle.iter().copied().chain(load.owed().map(column::run)).collect();
    if !counted.is_empty() {
        for row in session.query(BACK, &[&counted, &workflows, name]).await? {
            let next = candidate(&row)?;
            let arrival = if idle.contains(&next.run) { Arrival::Back } else { Arrival::Shared };
            back.push(Candidate { arrival, ..next });
        }
    }
    let known: Vec<Uuid> = back.iter().map(|back| back.run).collect();
    let rows = Rows { session, queue: name, workflows, known };
    let mut next = None;
    if load.next.is_some() {
        let free = Load::new(&windlass_store::QueueLimits::default(), Time(0), [], [], &[]);
        let nobody = QueueState::default();
        if !rows.choose(&nobody, &free, 1).await?.is_empty() {
            next = load.next;
        }
    }
    let (back, more) = load.admit(&state.limits, room, back, |next| RunId::from_bytes(*next.run.as_bytes()));
    let most = (room - back.len()).min(load.left(&state.limits, more));
    let mut stream: VecDeque<Candidate> = back.into();
    stream.extend(rows.choose(state, load, most).await?);
    Ok((stream, next))
}

/// The ready runs of a queue that have no slot.
struct Rows<'a> {
    session: &'a Session,
    queue: &'a str,
    workflows: Vec<&'a str>,
    known: Vec<Uuid>,
}

impl Rows<'_> {
    /// Chooses so many. As much is read as seems to be needed, and more when it was not enough.
    async fn choose(&self, state: &QueueState, load: &Load, most: usize) -> Result<Vec<Candidate>, Fault> {
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
                return Ok(chosen.into_iter().map(|(_, run)| run).collect());
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
            if lanes.len() as i64 >= width {
                return Ok((lanes, false));
            }
        }
        lanes.sort();
        lanes.dedup();
        Ok((lanes, true))
    }

    /// The most urgent runs of these lanes, so many of each workflow.
    async fn heads(&self, lanes: &[String], open: &[&str], depth: usize) -> Result<Heads, Fault> {
        let depth = large(depth);
        let params: [&(dyn ToSql + Sync); 4] = [&self.queue, &open, &self.workflows, &depth];
        let mut heads = Heads { lanes: BTreeMap::new(), cut: HashMap::new(), is_short: false };
        for lane in lanes {
            heads.lanes.insert(lane.clone(), VecDeque::new());
        }
        let mut counts: HashMap<(String, String), i64> = HashMap::new();
        for row in self.session.query(HEADS, &params).await? {
            let head = candidate(&row)?;
            let count = counts.entry((head.lane.clone(), head.workflow.clone())).or_default();
            *count += 1;
            if *count == depth {
                // Beyond this one of the same workflow there may be more that are as urgent as the others.
                let last = (head.priority, head.run);
                let cut = heads.cut.entry(head.lane.clone()).or_insert(last);
                *cut = last.min(*cut);
            }
            if !self.known.contains(&head.run) {
                heads.lanes.entry(head.lane.clone()).or_default().push_back(head);
            }
        }
        Ok(heads)
    }
}

/// What was read of the lanes of a queue.
struct Heads {
    lanes: BTreeMap<String, VecDeque<Candidate>>,
    /// Up to where a lane was read.
    cut: HashMap<String, (i16, Uuid)>,
    /// Whether somebody asked for what was not read.
    is_short: bool,
}

impl Lanes for Heads {
    type Run = Candidate;
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

    fn next(&mut self, lane: &str) -> Result<Option<Candidate>, Infallible> {
        let next = self.lanes.get_mut(lane).and_then(VecDeque::pop_front);
        let cut = self.cut.get(lane);
        let is_beyond = match &next {
            Some(next) => cut.is_some_and(|cut| (next.priority, next.run) > *cut),
            None => cut.is_some(),
        };
        self.is_short |= is_beyond;
        Ok(next)
    }
}

/// Takes from the streams what there is room for: always the most urgent of those that come next.
fn choose_from(request: &Claim, mut streams: Vec<VecDeque<Candidate>>) -> Vec<Candidate> {
    let (mut chosen, mut weight) = (Vec::new(), 0);
    while chosen.len() < request.room && (chosen.is_empty() || weight < large(request.bytes)) {
        let heads = streams.iter().enumerate();
        let heads =
            heads.filter_map(|(at, stream)| stream.front().map(|next| ((next.priority, next.run), at)));
        let Some((_, at)) = heads.min() else { break };
        let Some(next) = streams[at].pop_front() else { break };
        weight += next.weight;
        chosen.push(next);
    }
    chosen
}

/// Gives the node what was chosen, but for what somebody else is just moving, and seats it.
async fn seat(
    session: &Session,
    request: &Claim,
    turns: &[(Queue, Seats)],
    chosen: &[Candidate],
) -> Result<Vec<Row>, Fault> {
    if chosen.is_empty() {
        return Ok(Vec::new());
    }
    let (node, claim) = (column::node(request.node), column::claim(request.claim));
    let versions: HashMap<&str, i64> =
        request.workflows.iter().map(|(name, version)| (&**name, version.0)).collect();
    let runs: Vec<Uuid> = chosen.iter().map(|next| next.run).collect();
    let queues: Vec<&str> = chosen.iter().map(|next| next.queue.as_str()).collect();
    let lanes: Vec<&str> = chosen.iter().map(|next| next.lane.as_str()).collect();
    let workflows: Vec<&str> = chosen.iter().map(|next| next.workflow.as_str()).collect();
    let priorities: Vec<i16> = chosen.iter().map(|next| next.priority).collect();
    let versions: Vec<i64> = workflows.iter().map(|workflow| versions[workflow]).collect();
    let is_turn = |name: &str| turns.iter().any(|(queue, _)| queue.name == name);
    let seated: Vec<bool> = queues.iter().map(|queue| is_turn(queue)).collect();
    let params: [&(dyn ToSql + Sync); 9] =
        [&node, &claim, &queues, &lanes, &workflows, &priorities, &runs, &versions, &seated];
    let rows = session.query(TAKE_THESE, &params).await?;
    let taken: HashSet<Uuid> = rows.iter().map(|row| row.get(0)).collect();
    for (queue, seats) in turns {
        let mine = chosen.iter().filter(|next| next.queue == queue.name && taken.contains(&next.run));
        let (back, new): (Vec<&Candidate>, Vec<&Candidate>) =
            mine.partition(|next| next.arrival == Arrival::Back);
        let back: Vec<Uuid> = back.iter().map(|next| next.run).collect();
        queue::retake(session, &back, request.node).await?;
        let fresh: Vec<_> = new.iter().filter(|next| next.arrival == Arrival::Fresh).collect();
        let note = async || match fresh.last() {
            Some(last) => queue::note(session, queue, &last.lane, fresh.len()).await,
            None => Ok(()),
        };
        let slot = |next: &&Candidate| NewSlot { run: next.run, lane: next.lane.clone(), node };
        let (noted, seated) = tokio::join!(
            note(),
            queue::take(session, &queue.name, &seats.load, new.iter().map(slot).collect()),
        );
        noted?;
        seated?;
    }
    Ok(rows)
}
