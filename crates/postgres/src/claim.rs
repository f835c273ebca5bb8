//! Handing out runs.

mod limited;
mod runs;
mod statements;

use std::sync::Arc;

pub(crate) use limited::in_turn;
use parking_lot::Mutex;
use statements::{ALONE, DUE, FREE_OWN, LOOK, MINE, MORE, NEXT_DUE, TAKE, UNBLOCK};
use tokio_postgres::{Row, types::ToSql};
use uuid::Uuid;
use windlass_core::{NodeId, Time};
use windlass_store::{Claim, Claimed, DefinitionId, Looked};

use crate::{
    column,
    error::Fault,
    frontier::{Bounds, Frontier},
    image,
    queue::Declared,
    session::Session,
    tenure::Tenure,
};

/// How many due runs one claim makes ready at most.
const DUE_AT_ONCE: i64 = 10_000;

/// What a claim did.
pub(crate) struct Taken {
    pub(crate) claimed: Claimed,
    pub(crate) holds: Vec<Hold>,
}

/// The row of `holding` that a run came with, and its tenure.
type Hold = (i64, Tenure);

/// Looks for what a claim would find.
pub(crate) async fn look(session: &Session, known: &Declared, request: &Claim) -> Result<Looked, Fault> {
    let all = request.versions();
    let (queues, (workflows, versions)) = (open_queues(request), columns(&all));
    let row = session.one(LOOK, &[&queues, &workflows, &versions, &all_queues(request)]).await?;
    let now = column::time(&row, 0)?;
    let next_due = row.try_get::<_, Option<i64>>(1)?.map(Time);
    let is_due = next_due.is_some_and(|due| due <= now);
    let (work, own_blocked) = (is_due || row.try_get(2)?, row.try_get(3)?);
    let limited = known.learn(row.try_get(4)?);
    let mut looked = Looked { now, next_due, work, own_blocked, limited };
    if limited {
        let found = session.look(async || limited::look(session, request).await).await?;
        looked.work |= found.any;
        looked.next_due = next_due.into_iter().chain(found.next).min();
    }
    Ok(looked)
}

/// Makes due runs ready, and takes what a node has room for.
///
/// Queues that were declared are left out, unless it is known that there are any, which each claim finds out. With them it is
/// several round trips. Otherwise it is two: one that takes, and one that reads what came with that and looks for more, when it is taken for good.
/// Whatever comes to a run before it is read is in the answer, and whatever comes after it finds the node that holds it.
pub(crate) async fn claim(
    session: &Session,
    frontier: &Mutex<Frontier>,
    known: &Declared,
    request: &Claim,
) -> Result<Taken, Fault> {
    if known.has(request) {
        return limited::claim(session, frontier, request).await;
    }
    let from = frontier.lock().begin();
    let Opened { now, is_full, next_due, declared, mut taken } = take(session, &from, request).await?;
    let limited = known.learn(declared);
    if limited && taken.is_empty() {
        return limited::claim(session, frontier, request).await;
    }
    sort(&mut taken);
    let ahead = frontier.lock().end(&taken)?;
    session.statement(MORE).await?;
    let read = async {
        // Also without room: what was taken before is held.
        if taken.is_empty() {
            let again = async |_| {
                let (runs, holds) = repeat(session, request).await?;
                Ok((image::load(session, &runs).await?, holds))
            };
            return session.transact(Some(request.node), again).await;
        }
        let holds = image::holds(request, &taken)?;
        Ok((image::claimed(session, request, &taken).await?, holds))
    };
    let (more, read) = tokio::join!(is_more(session, &ahead, request), read);
    let (mut more, (runs, holds)) = (more?, read?);
    let is_bounded = !(from.is_empty() && ahead.is_empty());
    if is_bounded && (runs.len() < request.room || !more) {
        // There may be some behind.
        frontier.lock().forget();
        more = true;
    }
    Ok(Taken { claimed: Claimed { now, runs, next_due, more: more || is_full || limited, limited }, holds })
}

/// What the first round trip brought.
struct Opened {
    now: Time,
    /// Whether more may be due than was made ready.
    is_full: bool,
    next_due: Option<Time>,
    /// The queues that were declared.
    declared: Vec<String>,
    taken: Vec<Row>,
}

async fn take(session: &Session, from: &Bounds, request: &Claim) -> Result<Opened, Fault> {
    let lock = session.lock_of(&request.claim.0.to_be_bytes());
    let lock: [&(dyn ToSql + Sync); 1] = [&lock];
    let limit: [&(dyn ToSql + Sync); 1] = [&DUE_AT_ONCE];
    let all = request.versions();
    let own = columns(&all);
    let own: [&(dyn ToSql + Sync); 2] = [&own.0, &own.1];
    let names = all_queues(request);
    let asked: [&(dyn ToSql + Sync); 1] = [&names];
    let opening = session.opening(Some(request.node)).await?;
    for sql in [ALONE, DUE, FREE_OWN, TAKE, NEXT_DUE] {
        session.statement(sql).await?;
    }
    // They travel together. When one of them fails, the server rolls back what it is then told to commit.
    let (now, alone, due, own, taken, next_due, committed) = tokio::join!(
        opening.send(),
        session.execute(ALONE, &lock),
        session.execute(DUE, &limit),
        async { if request.free_own { session.execute(FREE_OWN, &own).await } else { Ok(0) } },
        take_plainly(session, from, request),
        session.one(NEXT_DUE, &asked),
        session.commit(),
    );
    let now = now?;
    alone?;
    let is_full = due? >= DUE_AT_ONCE.cast_unsigned();
    own?;
    let taken = taken?;
    let next = next_due?;
    let (next_due, declared) = (next.try_get::<_, Option<i64>>(0)?.map(Time), next.try_get(1)?);
    committed?;
    Ok(Opened { now, is_full, next_due, declared, taken })
}

/// Takes from queues that were not declared what a request asks for. Others are left out.
async fn take_plainly(session: &Session, from: &Bounds, request: &Claim) -> Result<Vec<Row>, Fault> {
    let (node, claim) = (column::node(request.node), column::claim(request.claim));
    let (workflows, versions) = columns(&request.workflows);
    let (queues, rooms): (Vec<&str>, Vec<i64>) =
        request.queues.iter().map(|(queue, room)| (&**queue, large(*room))).unzip();
    let (room, bytes) = (large(request.room), large(request.bytes));
    let [queue, workflow, priority, run] = from.columns();
    let take: [&(dyn ToSql + Sync); 12] = [
        &node, &claim, &queues, &rooms, &workflows, &versions, &room, &bytes, queue, workflow, priority, run,
    ];
    session.query(TAKE, &take).await
}

/// The most urgent first, then the oldest.
fn sort(rows: &mut [Row]) {
    rows.sort_by_cached_key(|row| (row.get::<_, i16>(3), row.get::<_, Uuid>(0)));
}

/// What was taken under the same claim before, and is still held.
async fn repeat(session: &Session, request: &Claim) -> Result<(Vec<Uuid>, Vec<Hold>), Fault> {
    let (node, claim) = (column::node(request.node), column::claim(request.claim));
    let (mut runs, mut holds): (Vec<Uuid>, Vec<Hold>) = Default::default();
    for row in session.query(MINE, &[&node, &claim]).await? {
        runs.push(row.try_get(0)?);
        holds.push((row.try_get(1)?, Tenure { no: row.try_get(2)?, definition: row.try_get(3)? }));
    }
    Ok((runs, holds))
}

async fn is_more(session: &Session, ahead: &Bounds, request: &Claim) -> Result<bool, Fault> {
    if request.room == 0 {
        return Ok(false);
    }
    let queues = open_queues(request);
    let (workflows, _) = columns(&request.workflows);
    let [queue, workflow, priority, run] = ahead.columns();
    let row = session.one(MORE, &[&queues, &workflows, queue, workflow, priority, run]).await?;
    Ok(row.try_get(0)?)
}

/// Makes runs ready that another version may continue.
pub(crate) async fn unblock(
    session: &Session,
    node: NodeId,
    workflows: &[(Arc<str>, DefinitionId)],
) -> Result<usize, Fault> {
    let (workflows, versions) = columns(workflows);
    let freed = session
        .transact(Some(node), async |_| session.execute(UNBLOCK, &[&workflows, &versions]).await)
        .await?;
    Ok(usize::try_from(freed).unwrap_or(usize::MAX))
}

fn all_queues(request: &Claim) -> Vec<&str> {
    request.queues.iter().map(|(queue, _)| &**queue).collect()
}

/// The queues that there is room in.
fn open_queues(request: &Claim) -> Vec<&str> {
    request.queues.iter().filter(|(_, room)| *room > 0).map(|(queue, _)| &**queue).collect()
}

fn columns(workflows: &[(Arc<str>, DefinitionId)]) -> (Vec<&str>, Vec<i64>) {
    workflows.iter().map(|(workflow, version)| (&**workflow, version.0)).unzip()
}

fn large(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
