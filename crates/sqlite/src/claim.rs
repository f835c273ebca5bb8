//! Handing out runs.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, VecDeque},
    sync::Arc,
};

use rusqlite::{Connection, params};
use serde_json::Value;
use windlass_core::{NodeId, RunId, RunState, Time};
use windlass_store::{Claim, Claimed, DefinitionId, Looked, Place, RunImage};

use crate::{
    book::Book,
    column,
    desk::Desk,
    error::Fault,
    held::{Held, Mirror},
    holding, image, inbox,
    name::Names,
    node,
    pen::Pen,
    place::Carried,
    queue,
    ready::{self, ReadyRow},
    run::{self, Started},
    saved,
    sheet::Sheet,
    spread, step,
    turn::{Asker, Candidate, Leave, Turn},
    waiting::{self, Waiter},
};

/// How many due runs one claim makes ready: enough to drain thousands at once, and no more than a few
/// hundredths of a second of writing.
const DUE_AT_ONCE: usize = 10_000;

/// Whatever a claim could find, in one statement, because it is asked again and again while there is nothing. It is given
/// the queues that there is room in, the workflows with their versions, and all the queues. Those that were declared are
/// only named.
const LOOK: &str = "\
    SELECT (SELECT until FROM waiting WHERE until IS NOT NULL ORDER BY until LIMIT 1), \
        EXISTS (SELECT 1 FROM json_each(?1) AS q CROSS JOIN json_each(?2) AS v \
            CROSS JOIN ready AS r ON r.queue = q.value AND r.lane = '' AND r.workflow = v.value ->> 0 \
            WHERE NOT EXISTS (SELECT 1 FROM queue AS d WHERE d.no = q.value)), \
        EXISTS (SELECT 1 FROM json_each(?2) AS v \
            CROSS JOIN waiting AS w ON w.workflow = v.value ->> 0 AND w.state = ?3 \
            WHERE w.definition = v.value ->> 1 AND w.blocked_by IS NOT v.value ->> 1), \
        EXISTS (SELECT 1 FROM json_each(?4) AS q CROSS JOIN queue AS d ON d.no = q.value)";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[LOOK];

/// Looks for what a claim would find.
pub(crate) fn look(book: &mut Book, now: Time, request: &Claim) -> Result<Looked, Fault> {
    let mut looked = look_plainly(book, now, request)?;
    if looked.limited {
        let node = holding::node_number(&book.conn, request.node)?.unwrap_or(-1);
        let workflows = numbered(book, request)?;
        let asker = Asker { node, now, workflows: &workflows };
        let offer = Offer::new(book, asker, request, 1, Leave::Read)?;
        looked.work |= offer.any();
        looked.next_due = looked.next_due.into_iter().chain(offer.next()).min();
    }
    Ok(looked)
}

/// The same, but for queues that were declared.
pub(crate) fn look_plainly(book: &mut Book, now: Time, request: &Claim) -> rusqlite::Result<Looked> {
    let Book { conn, names } = book;
    let (mut queues, mut all, mut versions) = (Vec::new(), Vec::new(), Vec::new());
    for (queue, room) in &request.queues {
        let Some(queue) = names.find(conn, queue)? else { continue };
        all.push(queue);
        queues.extend((*room > 0).then_some(queue));
    }
    for (workflow, version) in &request.versions() {
        versions.extend(names.find(conn, workflow)?.map(|workflow| vec![workflow, version.0]));
    }
    let (queues, versions) = (Value::from(queues).to_string(), Value::from(versions).to_string());
    let (blocked, all) = (RunState::Blocked as u8, Value::from(all).to_string());
    conn.prepare_cached(LOOK)?.query_row(params![queues, versions, blocked, all], |row| {
        let next_due = row.get::<_, Option<i64>>(0)?.map(Time);
        let is_due = next_due.is_some_and(|due| due <= now);
        let (work, limited) = (is_due || row.get(1)?, row.get(3)?);
        Ok(Looked { now, next_due, work, own_blocked: row.get(2)?, limited })
    })
}

/// The workflows of a request by number, with their versions.
fn numbered(book: &mut Book, request: &Claim) -> rusqlite::Result<Vec<(i64, DefinitionId)>> {
    let Book { conn, names } = book;
    let mut workflows = Vec::new();
    for (workflow, version) in &request.workflows {
        workflows.extend(names.find(conn, workflow)?.map(|workflow| (workflow, *version)));
    }
    Ok(workflows)
}

/// What the declared queues of a request have for it.
#[derive(Default)]
struct Offer {
    turns: Vec<Turn>,
}

impl Offer {
    fn new(
        book: &mut Book,
        asker: Asker<'_>,
        request: &Claim,
        room: usize,
        leave: Leave,
    ) -> rusqlite::Result<Self> {
        let Book { conn, names } = book;
        let mut turns = Vec::new();
        for (queue, limit) in &request.queues {
            if let Some(queue) = names.find(conn, queue)?
                && let Some(state) = queue::read(conn, queue)?
            {
                turns.push(Turn::new(conn, asker, queue, state, room.min(*limit), leave)?);
            }
        }
        Ok(Self { turns })
    }

    fn any(&self) -> bool {
        self.turns.iter().any(|turn| !turn.runs.is_empty())
    }

    /// When the rate of one of them lets the next be taken.
    fn next(&self) -> Option<Time> {
        self.turns.iter().filter_map(|turn| turn.next).min()
    }
}

/// Makes due runs ready, and takes ready runs for a node.
pub(crate) fn claim(desk: &mut Desk, request: &Claim) -> Result<Claimed, Fault> {
    let mut mirror = node::fence(desk, request.node)?;
    let now = desk.clock.now();
    let due = waiting::due(&desk.book.conn, now, DUE_AT_ONCE)?;
    wake(&desk.book.conn, &due)?;
    let freed = if request.free_own { free_own(&mut desk.book, &request.versions())? } else { 0 };

    let any_queue = mirror.any_queue;
    let workflows = if any_queue { numbered(&mut desk.book, request)? } else { Vec::new() };
    let asker = Asker { node: mirror.no, now, workflows: &workflows };
    let offer = |book: &mut Book, room| match any_queue {
        true => Offer::new(book, asker, request, room, Leave::Write),
        false => Ok(Offer::default()),
    };
    let held = mirror.of_claim(request.claim);
    let mut runs = Vec::new();
    let mut offered = offer(&mut desk.book, if held.is_empty() { request.room } else { 1 })?;
    let declared: Vec<i64> = offered.turns.iter().map(|turn| turn.queue).collect();
    let mut taking = Taking::new(&mut desk.book, request, &declared)?;
    if held.is_empty() {
        runs = taking.take(&mut desk.book, &mut mirror, request, &mut offered, asker)?;
        if !declared.is_empty() {
            offered = offer(&mut desk.book, 1)?;
        }
    } else {
        for run in held {
            runs.extend(image::load(&mut desk.book, run)?);
        }
    }
    let more = request.room > 0
        && (due.len() == DUE_AT_ONCE || offered.any() || taking.has_more(&desk.book.conn)?);
    let next_due = waiting::next_due(&desk.book.conn)?.into_iter().chain(offered.next()).min();
    mirror.write(&desk.book.conn)?;
    desk.mirrors.insert(request.node, mirror);
    if !due.is_empty() || freed > 0 {
        desk.stir(Some(request.node));
    }
    Ok(Claimed { now, runs, next_due, more, limited: !declared.is_empty() })
}

/// Makes the runs ready that are recorded under these very versions and were blocked by others. Answers how many.
fn free_own(book: &mut Book, workflows: &[(Arc<str>, DefinitionId)]) -> rusqlite::Result<usize> {
    let Book { conn, names } = book;
    let mut count = 0;
    for (workflow, version) in workflows {
        let Some(workflow) = names.find(conn, workflow)? else { continue };
        let mut own = waiting::blocked(conn, workflow, *version)?;
        own.retain(|run| run.carried.definition == Some(version.0));
        wake(conn, &own)?;
        count += own.len();
    }
    Ok(count)
}

/// Makes the runs ready that were blocked by other versions than these.
pub(crate) fn unblock(
    desk: &mut Desk,
    node: NodeId,
    workflows: &[(Arc<str>, DefinitionId)],
) -> Result<usize, Fault> {
    node::check(desk, node)?;
    let Book { conn, names } = &mut desk.book;
    let mut count = 0;
    for (workflow, version) in workflows {
        if let Some(workflow) = names.find(conn, workflow)? {
            let blocked = waiting::blocked(conn, workflow, *version)?;
            wake(conn, &blocked)?;
            count += blocked.len();
        }
    }
    if count > 0 {
        desk.stir(Some(node));
    }
    Ok(count)
}

fn wake(conn: &Connection, waiters: &[Waiter]) -> rusqlite::Result<()> {
    let (mut sheet, mut remove) = (Sheet::new(conn), Pen::new(conn, waiting::REMOVE));
    for &Waiter { run, core, carried } in waiters {
        waiting::remove(&mut remove, run)?;
        sheet.add(ReadyRow::of(conn, run, core, carried)?);
    }
    sheet.write()?;
    Ok(())
}

/// Ready runs of one workflow in one queue, the most urgent first, read a few at a time.
pub(crate) struct Line {
    queue: i64,
    /// Empty for runs without keys.
    lane: String,
    /// `None` for all of them.
    priority: Option<u8>,
    pub(crate) workflow: i64,
    pub(crate) version: DefinitionId,
    /// The row that was read last.
    last: (i64, [u8; 16]),
    /// The row that was taken last: everything before it was taken too.
    taken: Option<(u8, RunId)>,
    pub(crate) rows: VecDeque<(u8, RunId, Carried)>,
    is_read_out: bool,
}

impl Line {
    pub(crate) fn in_lane(queue: i64, lane: String, workflow: i64, version: DefinitionId) -> Self {
        let (last, rows) = ((-1, [0; 16]), VecDeque::new());
        let priority = None;
        Self { queue, lane, priority, workflow, version, last, taken: None, rows, is_read_out: false }
    }

    /// The runs of one priority alone.
    pub(crate) fn of(self, priority: u8) -> Self {
        Self { priority: Some(priority), ..self }
    }

    /// Whether nothing was read yet.
    pub(crate) const fn is_untouched(&self) -> bool {
        self.last.0 < 0
    }

    /// Reads on, unless rows are at hand or there are no more.
    pub(crate) fn fill(&mut self, conn: &Connection, chunk: usize) -> rusqlite::Result<()> {
        if !self.rows.is_empty() || self.is_read_out {
            return Ok(());
        }
        let limit = i64::try_from(chunk).unwrap_or(i64::MAX);
        let (priority, run) = self.last;
        let priority = self.priority.map_or(priority, i64::from);
        let first = if self.priority.is_some() { ready::FIRST_OF } else { ready::FIRST };
        let mut first = conn.prepare_cached(first)?;
        let mut rows = first.query(params![self.queue, self.workflow, priority, run, limit, self.lane])?;
        while let Some(row) = rows.next()? {
            self.rows.push_back((row.get(0)?, column::run_id(row, 1)?, Carried::read(row, 2)?));
        }
        self.is_read_out = self.rows.len() < chunk;
        if let Some((priority, run, _)) = self.rows.back() {
            self.last = (i64::from(*priority), *run.as_bytes());
        }
        Ok(())
    }

    pub(crate) fn head(&self) -> Option<(u8, RunId)> {
        self.rows.front().map(|(priority, run, _)| (*priority, *run))
    }
}

/// The lines that a request asks, and how far it got in them.
struct Taking {
    lines: Vec<Line>,
    chunk: usize,
}

impl Taking {
    fn new(book: &mut Book, request: &Claim, declared: &[i64]) -> rusqlite::Result<Self> {
        let Book { conn, names } = book;
        let queues: HashMap<_, _> = request.queues.iter().map(|(queue, room)| (queue, *room)).collect();
        let versions: HashMap<_, _> =
            request.workflows.iter().map(|(name, version)| (name, *version)).collect();
        let mut lines = Vec::new();
        for (queue, _) in queues.into_iter().filter(|(_, room)| *room > 0) {
            let Some(queue) = names.find(conn, queue)?.filter(|queue| !declared.contains(queue)) else {
                continue;
            };
            for (workflow, version) in &versions {
                let Some(workflow) = names.find(conn, workflow)? else { continue };
                lines.push(Line::in_lane(queue, String::new(), workflow, *version));
            }
        }
        // A single line is read in one go; many are read in small pieces, for few of them give much.
        let chunk = (request.room.min(4096) / lines.len().max(1) + 1).max(16);
        Ok(Self { lines, chunk })
    }

    /// Takes what the request has room for.
    fn take(
        &mut self,
        book: &mut Book,
        mirror: &mut Mirror,
        request: &Claim,
        offer: &mut Offer,
        asker: Asker<'_>,
    ) -> Result<Vec<RunImage>, Fault> {
        let mut room: HashMap<i64, usize> = HashMap::new();
        for (queue, limit) in &request.queues {
            if let Some(queue) = book.names.find(&book.conn, queue)? {
                room.insert(queue, *limit);
            }
        }
        let mut heads = BinaryHeap::new();
        for (at, line) in self.lines.iter_mut().enumerate() {
            line.fill(&book.conn, self.chunk)?;
            heads.extend(line.head().map(|head| Reverse((head, at))));
        }
        // The turns are numbered after the lines.
        let first_turn = self.lines.len();
        let head_of = |turn: &Turn| turn.runs.front().map(|next| (next.urgency, next.run));
        for (at, turn) in offer.turns.iter().enumerate() {
            heads.extend(head_of(turn).map(|head| Reverse((head, first_turn + at))));
        }
        let mut seated: Vec<Vec<Candidate>> = offer.turns.iter().map(|_| Vec::new()).collect();
        let Book { conn, names } = book;
        let mut chosen = Chosen::new(conn, request)?;
        let mut bytes = 0;
        while let Some(Reverse((_, at))) = heads.pop() {
            if chosen.runs.len() >= request.room || (bytes >= request.bytes && !chosen.runs.is_empty()) {
                break;
            }
            if let Some(at) = at.checked_sub(first_turn) {
                let turn = &mut offer.turns[at];
                let Some(next) = turn.runs.pop_front() else { continue };
                bytes += chosen.take(names, mirror, next.version, next.run, next.carried)?;
                seated[at].push(next);
                heads.extend(head_of(turn).map(|head| Reverse((head, first_turn + at))));
                continue;
            }
            let line = &mut self.lines[at];
            let left = room.get_mut(&line.queue).filter(|left| **left > 0);
            let Some(left) = left else { continue };
            *left -= 1;
            let Some((priority, run, carried)) = line.rows.pop_front() else { continue };
            line.taken = Some((priority, run));
            bytes += chosen.take(names, mirror, line.version, run, carried)?;
            line.fill(conn, self.chunk)?;
            heads.extend(line.head().map(|head| Reverse((head, at))));
        }
        for line in &self.lines {
            if let Some((priority, run)) = line.taken {
                ready::remove_up_to(conn, line.queue, line.workflow, priority, run)?;
            }
        }
        let mut runs = chosen.runs;
        for (turn, seated) in offer.turns.iter().zip(&seated) {
            turn.seat(conn, asker, seated)?;
        }
        if !offer.turns.is_empty() {
            // Each key has its turn, but the answer is by urgency.
            runs.sort_by_key(|image| (image.run.priority, image.run.id));
        }
        Ok(runs)
    }

    /// Whether the same request could take something now.
    fn has_more(&mut self, conn: &Connection) -> rusqlite::Result<bool> {
        for line in &mut self.lines {
            line.fill(conn, self.chunk)?;
            if line.head().is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The runs that a claim took.
struct Chosen<'a> {
    request: &'a Claim,
    runs: Vec<RunImage>,
    /// Whether any run has something in its inbox.
    messages: bool,
    /// Whether any run's attempts saved something.
    saved: bool,
    /// Whether any run has published something.
    spread: bool,
    read_run: Pen<'a>,
    read_steps: Pen<'a>,
}

impl<'a> Chosen<'a> {
    fn new(conn: &'a Connection, request: &'a Claim) -> rusqlite::Result<Self> {
        Ok(Self {
            request,
            runs: Vec::new(),
            messages: inbox::any(conn)?,
            saved: saved::any(conn)?,
            spread: spread::any(conn)?,
            read_run: Pen::new(conn, run::READ),
            read_steps: Pen::new(conn, step::READ),
        })
    }

    /// Gives a ready run to the claiming node. Answers how many bytes it carries.
    fn take(
        &mut self,
        names: &mut Names,
        mirror: &mut Mirror,
        version: DefinitionId,
        id: RunId,
        mut carried: Carried,
    ) -> Result<usize, Fault> {
        let Claim { node, claim, .. } = *self.request;
        let started = run::read(&mut self.read_run, names, id)?;
        let Started { core, row, has_steps } = started.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        // A run that nobody held has no records but those that it started with.
        let has_steps = has_steps || carried.definition.is_some();
        carried.definition.get_or_insert(version.0);

        let conn = self.read_run.conn();
        let image = RunImage {
            run: row,
            standing: carried.standing(&core, Place::Owned { node, claim }),
            steps: if has_steps { step::read(&mut self.read_steps, id)? } else { Vec::new() },
            inbox: if self.messages { inbox::read(conn, id)? } else { Vec::new() },
            saved: if self.saved { saved::read(conn, id)? } else { Vec::new() },
            published: if self.spread { spread::of_run(conn, names, id)? } else { Vec::new() },
        };
        let mut held = Held::with(claim, core, carried, &image.steps, !image.saved.is_empty());
        held.spread = !image.published.is_empty();
        mirror.add(id, held);
        let bytes = payload(&image);
        self.runs.push(image);
        Ok(bytes)
    }
}

/// About how many bytes a claim carries for this run.
fn payload(image: &RunImage) -> usize {
    let size = |bytes: &Option<bytes::Bytes>| bytes.as_ref().map_or(0, bytes::Bytes::len);
    let steps: usize = image.steps.iter().map(|step| size(&step.output) + size(&step.detail)).sum();
    let inbox: usize = image.inbox.iter().map(|row| row.body.len()).sum();
    image.run.input.len() + size(&image.run.context) + steps + inbox
}
