//! Claims that meet declared queues.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    time::Duration,
};

use parking_lot::Mutex;
use tokio_postgres::{Row, types::ToSql};
use uuid::Uuid;
use windlass_core::{RunId, Time};
use windlass_store::{Arrival, Claim};

use super::{
    ALONE, DUE, DUE_AT_ONCE, FREE_OWN, Hold, MINE, NEXT_DUE, Taken, columns, large, repeat,
    runs::{Candidate, Runs, candidate},
    sort,
    statements::{BACK, LINES, STOPPING, TAKE_THESE},
    take_plainly,
};
use crate::{
    column,
    error::Fault,
    frontier::Frontier,
    image,
    lanes::{Kind, Leave, Walk},
    queue::{self, NewSlot, Queue, Seats},
    session::Session,
};

/// How often, and how soon, a claim asks again for a queue that somebody else takes from: that takes a moment, unless
/// whoever it is has died.
const AGAIN: usize = 20;
const SOON: Duration = Duration::from_millis(2);

/// What a claim may take: from all queues that were not declared together, and from each that was.
struct Offer {
    streams: Vec<VecDeque<Candidate>>,
    turns: Vec<(Queue, Seats)>,
    /// When the rate of one of them lets the next be taken.
    next: Option<Time>,
}

/// Makes due runs ready, and takes what a node has room for.
pub(super) async fn claim(
    session: &Session,
    frontier: &Mutex<Frontier>,
    request: &Claim,
) -> Result<Taken, Fault> {
    let work = async |now| take(session, frontier, request, now).await;
    let mut took = session.transact(Some(request.node), work).await?;
    sort(&mut took.rows);
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

async fn take(
    session: &Session,
    frontier: &Mutex<Frontier>,
    request: &Claim,
    now: Time,
) -> Result<Took, Fault> {
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
        let mut turns = turns;
        if turns.len() < declared.len() {
            // What is in other queues does not wait until one comes free that somebody else takes from.
            let names: Vec<String> = declared.iter().map(|queue| queue.name.clone()).collect();
            if let Some(plain) = plainly(request, &names, &[]) {
                (took.rows, took.passed) = skim(session, frontier, &plain).await?;
            }
            if took.rows.is_empty() {
                turns = in_turn(session, &declared, turns).await?;
            }
            took.passed |= turns.len() < declared.len();
        }
        let request = &rest(request, &took.rows);
        for turn in turns.iter().filter(|turn| !turn.state.limits.hold) {
            queue::tidy(session, turn).await?;
        }
        // One may have been declared just now.
        let all = declared.iter().chain(&turns);
        let declared: Vec<String> = all.map(|queue| queue.name.clone()).collect();
        let mut offer = in_limits(session, request, request.room, turns, Leave::Write).await?;
        let mut is_all = !took.rows.is_empty();
        let mut skimmed = Vec::new();
        if let Some(plain) = plainly(request, &declared, &offer.streams).filter(|_| !is_all) {
            let (rows, may_be_behind) = skim(session, frontier, &plain).await?;
            is_all = rows.len() < plain.room;
            skimmed = rows;
            took.passed |= may_be_behind;
        }
        let rest = rest(request, &skimmed);
        took.rows.extend(skimmed);
        if !is_all && rest.room > 0 {
            offer.streams.push(self::plain(session, &rest, rest.room, &declared).await?);
        }
        let chosen = choose_from(&rest, offer.streams);
        let seated = seat(session, request, &offer.turns, &chosen).await?;
        took.passed |= seated.len() < chosen.len();
        took.rows.extend(seated);
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
    let mut offer = in_limits(session, request, 1, turns, Leave::Read).await?;
    offer.streams.push(plain(session, request, 1, &declared).await?);
    Ok(Found { any: offer.streams.iter().any(|stream| !stream.is_empty()), next: offer.next, limited })
}

/// So much of a claim is weighed run by run: what is taken together may go over it.
const LIGHT: usize = 1 << 20;

/// What can be taken from queues that were not declared without weighing it against others: as many as there is room for
/// when all that the declared ones offer is taken, for so many are among the most urgent in any case.
fn plainly(request: &Claim, declared: &[String], streams: &[VecDeque<Candidate>]) -> Option<Claim> {
    let offered = streams.iter().flatten();
    let (count, weight) = offered.fold((0, 0), |(count, weight), next| (count + 1, weight + next.weight));
    let room = request.room.saturating_sub(count);
    let bytes = request.bytes.saturating_sub(usize::try_from(weight).unwrap_or(usize::MAX));
    let is_plain = |name: &str| declared.iter().all(|declared| declared != name);
    let queues: Vec<_> =
        request.queues.iter().filter(|(name, room)| *room > 0 && is_plain(name)).cloned().collect();
    let is_worth_it = room > 0 && bytes >= LIGHT && !queues.is_empty();
    is_worth_it.then(|| Claim { room, bytes, queues, ..request.clone() })
}

/// What a request asks for when it has got this.
fn rest(request: &Claim, taken: &[Row]) -> Claim {
    let of = |queue: &str| taken.iter().filter(|row| row.get::<_, &str>(2) == queue).count();
    let queues = request.queues.iter().map(|(queue, room)| (queue.clone(), room.saturating_sub(of(queue))));
    Claim { room: request.room - taken.len(), queues: queues.collect(), ..request.clone() }
}

/// Takes from queues that were not declared as a claim does that meets no others. Answers whether there may be some that it did
/// not see.
async fn skim(
    session: &Session,
    frontier: &Mutex<Frontier>,
    request: &Claim,
) -> Result<(Vec<Row>, bool), Fault> {
    let from = frontier.lock().begin();
    let mut rows = take_plainly(session, &from, request).await?;
    sort(&mut rows);
    let ahead = frontier.lock().end(&rows)?;
    let may_be_behind = !(from.is_empty() && ahead.is_empty()) && rows.len() < request.room;
    if may_be_behind {
        frontier.lock().forget();
    }
    Ok((rows, may_be_behind))
}

/// What the declared queues offer that may be taken from.
async fn in_limits(
    session: &Session,
    request: &Claim,
    room: usize,
    turns: Vec<Queue>,
    leave: Leave,
) -> Result<Offer, Fault> {
    let mut offer = Offer { streams: Vec::new(), turns: Vec::new(), next: None };
    for queue in turns {
        let limit =
            request.queues.iter().find(|(name, _)| **name == *queue.name).map_or(0, |(_, limit)| *limit);
        let Queue { name, state, at, .. } = &queue;
        let seats = queue::seats(session, name, state, Some(request.node), *at).await?;
        let (stream, next) = turn(session, request, &queue, &seats, room.min(limit), leave).await?;
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

/// What a declared queue has for somebody with so much room, in its order.
async fn turn(
    session: &Session,
    request: &Claim,
    queue: &Queue,
    seats: &Seats,
    room: usize,
    leave: Leave,
) -> Result<(VecDeque<Candidate>, Option<Time>), Fault> {
    let (Queue { name, state, .. }, Seats { load, idle }) = (queue, seats);
    if room == 0 {
        return Ok((VecDeque::new(), None));
    }
    let (workflows, versions) = columns(&request.workflows);
    let (stopping, next_stop) = stopping(session, queue, idle, &workflows, room).await?;
    if state.paused {
        return Ok((stopping.into(), next_stop));
    }
    let room = room - stopping.len();
    let mut known: HashSet<Uuid> = stopping.iter().map(|stopping| stopping.run).collect();
    let mut back = Vec::new();
    let counted = idle.iter().copied().chain(load.owed().map(column::run));
    let counted: Vec<Uuid> = counted.filter(|run| !known.contains(run)).collect();
    if !counted.is_empty() {
        for row in session.query(BACK, &[&counted, &workflows, name]).await? {
            let next = candidate(&row)?;
            let arrival = if idle.contains(&next.run) { Arrival::Back } else { Arrival::Shared };
            back.push(Candidate { arrival, ..next });
        }
    }
    known.extend(back.iter().map(|back| back.run));
    let walk = Walk { session, kind: Kind::Runs, queue, workflows, versions };
    if leave == Leave::Write {
        walk.wake().await?;
    }
    let runs = Runs { walk: &walk, known: &known };
    let mut next = None;
    if load.next.is_some() && walk.any(&runs).await? {
        next = load.next;
    }
    let (back, more) = load.admit(&state.limits, room, back, |next| RunId::from_bytes(*next.run.as_bytes()));
    let most = (room - back.len()).min(load.left(&state.limits, more));
    let choice = walk.choose(&runs, state, load, most).await?;
    if leave == Leave::Write {
        walk.settle(&choice).await?;
    }
    let next = next.into_iter().chain(walk.next(&choice).await?).chain(next_stop).min();
    let stream = back.into_iter().chain(choice.into_runs());
    let stream = stream.map(|run| run.aged(&state.limits, queue.at));
    Ok((stopping.into_iter().chain(stream).collect(), next))
}

/// The ready runs of a queue that have to stop by now, so many, the first that had to before the others; and when the next
/// one has to.
async fn stopping(
    session: &Session,
    queue: &Queue,
    idle: &[Uuid],
    workflows: &[&str],
    room: usize,
) -> Result<(Vec<Candidate>, Option<Time>), Fault> {
    let (mut runs, mut next): (Vec<Uuid>, Option<Time>) = Default::default();
    let asked: [&(dyn ToSql + Sync); 4] = [&queue.name, &workflows, &queue.at.0, &large(room)];
    for row in session.query(STOPPING, &asked).await? {
        match row.try_get(0)? {
            Some(run) => runs.push(run),
            None => next = next.into_iter().chain([column::time(&row, 1)?]).min(),
        }
    }
    if runs.is_empty() {
        return Ok((Vec::new(), next));
    }
    let mut found = HashMap::new();
    for row in session.query(BACK, &[&runs, &workflows, &queue.name]).await? {
        let next = candidate(&row)?;
        let arrival = if idle.contains(&next.run) { Arrival::Back } else { Arrival::Stopping };
        found.insert(next.run, Candidate { arrival, ..next }.aged(&queue.state.limits, queue.at));
    }
    // One that somebody took meanwhile is not there.
    Ok((runs.iter().filter_map(|run| found.remove(run)).collect(), next))
}

/// Takes from the streams what there is room for: always the most urgent of those that come next.
fn choose_from(request: &Claim, mut streams: Vec<VecDeque<Candidate>>) -> Vec<Candidate> {
    let (mut chosen, mut weight) = (Vec::new(), 0);
    while chosen.len() < request.room && (chosen.is_empty() || weight < large(request.bytes)) {
        let heads = streams.iter().enumerate();
        let heads =
            heads.filter_map(|(at, stream)| stream.front().map(|next| ((next.urgency, next.run), at)));
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
        let fresh = new.iter().filter(|next| next.arrival == Arrival::Fresh);
        let begun: Vec<&str> = fresh.map(|next| next.lane.as_str()).collect();
        let new = new.into_iter().filter(|next| next.arrival != Arrival::Stopping);
        let slot = |next: &Candidate| NewSlot { run: next.run, lane: next.lane.clone(), node };
        let (noted, seated) = tokio::join!(
            queue::note(session, queue, &begun),
            queue::take(session, &queue.name, &seats.load, new.map(slot).collect()),
        );
        noted?;
        seated?;
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use windlass_core::{ClaimId, NodeId};

    use super::*;

    fn request(room: usize) -> Claim {
        Claim {
            node: NodeId::from_bytes([1; 16]),
            claim: ClaimId(1),
            room,
            queues: vec![("plain".into(), 1000), ("tight".into(), 1000)],
            workflows: Vec::new(),
            kept: Vec::new(),
            bytes: 16 << 20,
            free_own: false,
        }
    }

    fn offered(count: usize, weight: i64) -> VecDeque<Candidate> {
        let next = Candidate {
            priority: 5,
            urgency: 5,
            since: Time(0),
            run: Uuid::nil(),
            queue: "tight".into(),
            lane: String::new(),
            workflow: "etl".into(),
            weight,
            arrival: Arrival::Fresh,
        };
        (0..count).map(|_| next.clone()).collect()
    }

    #[test]
    fn queues_that_were_not_declared_keep_their_way_beside_one_that_was() {
        let tight = ["tight".to_owned()];
        let room = |room, streams: &[VecDeque<Candidate>]| {
            plainly(&request(room), &tight, streams).map(|plain| (plain.room, plain.queues))
        };
        let plain: Vec<(std::sync::Arc<str>, usize)> = vec![("plain".into(), 1000)];
        assert_eq!(room(100, &[]), Some((100, plain.clone())), "nothing else is there");
        assert_eq!(room(100, &[offered(3, 10), offered(4, 10)]), Some((93, plain)));
        assert_eq!(room(5, &[offered(7, 10)]), None, "what is there has to be weighed");
        assert_eq!(room(100, &[offered(1, 16 << 20)]), None, "it may well be enough");
        assert!(plainly(&request(9), &["tight".into(), "plain".into()], &[]).is_none());
    }
}
