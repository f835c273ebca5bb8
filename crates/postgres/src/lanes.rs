//! Walking over the keys of a declared queue in which something waits.
//!
//! The keys that have something for a workflow are found one by one in an index. A key whose rate lets none begin leaves it: its
//! rows are marked as resting, and the table `resting` says until when. So however many keys rest, a walk does not meet them.
//! Nobody marks rows but whoever has the queue to himself, and what others are moving is passed over.

use std::{
    collections::{BTreeMap, HashSet},
    convert::Infallible,
    ops::Bound,
};

use tokio_postgres::types::ToSql;
use windlass_core::Time;
use windlass_store::{Choice, Lanes, Load, QueueState, Rate, choose};

use crate::{
    column,
    error::Fault,
    queue::{self, Queue},
    session::Session,
    spread::large,
};

/// What waits in a queue.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Runs, in `ready`.
    Runs,
    /// Published attempts, in `spread`.
    Tasks,
}

/// What one may do who asks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leave {
    Read,
    Write,
}

/// What is asked of each kind.
struct Statements {
    /// The lanes of a queue from one on, so many for each line, by skipping from one to the next.
    lanes: &'static str,
    /// The lanes that rest and have something, the first to be due first.
    resting: &'static str,
    /// Puts lanes to rest.
    rest: &'static str,
    /// Forgets lanes that were woken and have nothing any more.
    forget: &'static str,
}

const RUNS: Statements = Statements {
    lanes: "\
        SELECT '' FROM unnest($4::text[], $5::bigint[]) AS v (workflow, version) WHERE $2 = '' AND EXISTS (\
            SELECT FROM {s}.ready AS a WHERE a.queue = $1 AND a.lane = '' AND a.workflow = v.workflow OFFSET 0) \
        UNION SELECT w.lane FROM unnest($4::text[], $5::bigint[]) AS v (workflow, version) CROSS JOIN LATERAL (\
            WITH RECURSIVE walk (lane, no) AS (\
                (SELECT a.lane, 1::bigint FROM {s}.ready AS a \
                 WHERE a.queue = $1 AND a.workflow = v.workflow AND a.lane >= $2 AND a.lane <> '' AND NOT a.resting \
                 ORDER BY a.lane LIMIT 1) \
                UNION ALL \
                SELECT (SELECT a.lane FROM {s}.ready AS a \
                        WHERE a.queue = $1 AND a.workflow = v.workflow AND a.lane > w.lane AND a.lane <> '' AND NOT a.resting \
                        ORDER BY a.lane LIMIT 1), w.no + 1 \
                FROM walk AS w WHERE w.lane IS NOT NULL AND w.no < $3) \
            SELECT lane FROM walk WHERE lane IS NOT NULL) AS w",
    resting: "\
        SELECT s.until, s.lane FROM unnest($2::text[], $3::bigint[]) AS v (workflow, version) CROSS JOIN LATERAL (\
            SELECT s.until, s.lane FROM {s}.resting AS s \
            WHERE s.queue = $1 AND NOT s.tasks AND s.workflow = v.workflow AND s.until > $4 AND s.until <= $6 \
              AND EXISTS (SELECT FROM {s}.ready AS a \
                  WHERE a.queue = s.queue AND a.lane = s.lane AND a.workflow = s.workflow OFFSET 0) \
            ORDER BY s.until LIMIT $5) AS s ORDER BY s.until LIMIT $5",
    rest: "\
        WITH open AS MATERIALIZED (\
            SELECT a.entry, v.workflow, l.lane, l.until FROM unnest($2::text[], $3::bigint[]) AS l (lane, until) \
            CROSS JOIN unnest($4::text[], $5::bigint[]) AS v (workflow, version) CROSS JOIN LATERAL (\
                SELECT a.ctid AS entry FROM {s}.ready AS a \
                WHERE a.queue = $1 AND a.workflow = v.workflow AND a.lane = l.lane AND a.lane <> '' AND NOT a.resting \
                LIMIT $6 FOR UPDATE SKIP LOCKED) AS a LIMIT $6), \
        marked AS (\
            UPDATE {s}.ready SET resting = true WHERE ctid = ANY (ARRAY (SELECT entry FROM open))), \
        longer AS (\
            UPDATE {s}.resting AS s SET until = l.until FROM unnest($2::text[], $3::bigint[]) AS l (lane, until) \
            WHERE s.queue = $1 AND NOT s.tasks AND s.workflow = ANY ($4) AND s.lane = l.lane RETURNING s.workflow, s.lane) \
        INSERT INTO {s}.resting (queue, tasks, workflow, lane, until) \
        SELECT DISTINCT $1, false, o.workflow, o.lane, o.until FROM open AS o \
        WHERE NOT EXISTS (SELECT FROM longer AS s WHERE s.workflow = o.workflow AND s.lane = o.lane)",
    forget: "\
        DELETE FROM {s}.resting AS s WHERE s.queue = $1 AND NOT s.tasks AND s.workflow = ANY ($2) AND s.lane = ANY ($3) \
          AND s.until = 0 AND NOT EXISTS (\
              SELECT FROM {s}.ready AS a WHERE a.queue = s.queue AND a.lane = s.lane AND a.workflow = s.workflow OFFSET 0)",
};
const TASKS: Statements = Statements {
    lanes: "\
        SELECT '' FROM unnest($4::text[], $5::bigint[]) AS v (workflow, version) WHERE $2 = '' AND EXISTS (\
            SELECT FROM {s}.spread AS a WHERE a.node IS NULL AND a.queue = $1 AND a.lane = '' AND a.workflow = v.workflow \
              AND a.definition = v.version OFFSET 0) \
        UNION SELECT w.lane FROM unnest($4::text[], $5::bigint[]) AS v (workflow, version) CROSS JOIN LATERAL (\
            WITH RECURSIVE walk (lane, no) AS (\
                (SELECT a.lane, 1::bigint FROM {s}.spread AS a \
                 WHERE a.node IS NULL AND a.queue = $1 AND a.workflow = v.workflow AND a.definition = v.version \
                   AND a.lane >= $2 AND a.lane <> '' AND NOT a.resting ORDER BY a.lane LIMIT 1) \
                UNION ALL \
                SELECT (SELECT a.lane FROM {s}.spread AS a \
                        WHERE a.node IS NULL AND a.queue = $1 AND a.workflow = v.workflow AND a.definition = v.version \
                          AND a.lane > w.lane AND a.lane <> '' AND NOT a.resting ORDER BY a.lane LIMIT 1), w.no + 1 \
                FROM walk AS w WHERE w.lane IS NOT NULL AND w.no < $3) \
            SELECT lane FROM walk WHERE lane IS NOT NULL) AS w",
    resting: "\
        SELECT s.until, s.lane FROM unnest($2::text[], $3::bigint[]) AS v (workflow, version) CROSS JOIN LATERAL (\
            SELECT s.until, s.lane FROM {s}.resting AS s \
            WHERE s.queue = $1 AND s.tasks AND s.workflow = v.workflow AND s.until > $4 AND s.until <= $6 \
              AND EXISTS (SELECT FROM {s}.spread AS a WHERE a.node IS NULL AND a.queue = s.queue AND a.lane = s.lane \
                  AND a.workflow = s.workflow AND a.definition = v.version OFFSET 0) \
            ORDER BY s.until LIMIT $5) AS s ORDER BY s.until LIMIT $5",
    rest: "\
        WITH open AS MATERIALIZED (\
            SELECT a.entry, v.workflow, l.lane, l.until FROM unnest($2::text[], $3::bigint[]) AS l (lane, until) \
            CROSS JOIN unnest($4::text[], $5::bigint[]) AS v (workflow, version) CROSS JOIN LATERAL (\
                SELECT a.ctid AS entry FROM {s}.spread AS a \
                WHERE a.node IS NULL AND a.queue = $1 AND a.workflow = v.workflow AND a.definition = v.version \
                  AND a.lane = l.lane AND a.lane <> '' AND NOT a.resting LIMIT $6 FOR UPDATE SKIP LOCKED) AS a LIMIT $6), \
        marked AS (\
            UPDATE {s}.spread SET resting = true WHERE ctid = ANY (ARRAY (SELECT entry FROM open))), \
        longer AS (\
            UPDATE {s}.resting AS s SET until = l.until FROM unnest($2::text[], $3::bigint[]) AS l (lane, until) \
            WHERE s.queue = $1 AND s.tasks AND s.workflow = ANY ($4) AND s.lane = l.lane RETURNING s.workflow, s.lane) \
        INSERT INTO {s}.resting (queue, tasks, workflow, lane, until) \
        SELECT DISTINCT $1, true, o.workflow, o.lane, o.until FROM open AS o \
        WHERE NOT EXISTS (SELECT FROM longer AS s WHERE s.workflow = o.workflow AND s.lane = o.lane)",
    forget: "\
        DELETE FROM {s}.resting AS s WHERE s.queue = $1 AND s.tasks AND s.workflow = ANY ($2) AND s.lane = ANY ($3) \
          AND s.until = 0 AND NOT EXISTS (\
              SELECT FROM {s}.spread AS a \
              WHERE a.node IS NULL AND a.queue = s.queue AND a.lane = s.lane AND a.workflow = s.workflow OFFSET 0)",
};
/// Lanes that rested, and may have one begin: those that were woken, and those that nobody has woken yet, among them what a
/// clock put to rest that has been put back since.
const RISEN: &str = "\
    SELECT s.lane FROM unnest($3::text[]) AS v (workflow) CROSS JOIN LATERAL (\
        SELECT s.lane FROM {s}.resting AS s \
        WHERE s.queue = $1 AND s.tasks = $2 AND s.workflow = v.workflow AND s.until = 0 AND s.lane >= $4 \
        ORDER BY s.lane LIMIT $5) AS s \
    UNION SELECT s.lane FROM {s}.resting AS s \
    WHERE s.queue = $1 AND s.tasks = $2 AND s.workflow = ANY ($3) AND s.until > 0 AND s.until <= $6 AND s.lane >= $4 \
    UNION SELECT s.lane FROM {s}.resting AS s \
    WHERE s.queue = $1 AND s.tasks = $2 AND s.workflow = ANY ($3) AND s.until > $7 AND s.lane >= $4";
const WAKE: &str = "\
    UPDATE {s}.resting SET until = 0 WHERE ctid = ANY (ARRAY (\
        (SELECT ctid FROM {s}.resting \
         WHERE queue = $1 AND tasks = $2 AND workflow = ANY ($3) AND until > 0 AND until <= $4 LIMIT $6) \
        UNION ALL (SELECT ctid FROM {s}.resting \
         WHERE queue = $1 AND tasks = $2 AND workflow = ANY ($3) AND until > $5 LIMIT $6)))";
const WAKE_ALL: &str = "UPDATE {s}.resting SET until = 0 WHERE queue = $1 AND until > 0";

/// How much is written at once to put keys to rest, and how many are woken. What is left is met again by the next claim.
const AT_ONCE: i64 = 2_000;

impl Kind {
    const fn statements(self) -> &'static Statements {
        match self {
            Self::Runs => &RUNS,
            Self::Tasks => &TASKS,
        }
    }
}

/// Lets every key that rests be looked at again: what it was told has changed.
pub(crate) async fn wake_all(session: &Session, queue: &str) -> Result<(), Fault> {
    session.execute(WAKE_ALL, &[&queue]).await?;
    Ok(())
}

/// What was read of some lanes.
pub(crate) trait Heads {
    type Run;

    /// The most urgent of a lane that was not given before.
    fn next(&mut self, lane: &str) -> Option<Self::Run>;

    /// Whether somebody asked for what was not read.
    fn is_short(&self) -> bool;
}

/// Where what waits in lanes is read.
pub(crate) trait Source: Sync {
    type Heads: Heads + Send;

    /// Reads the most urgent of these lanes, so many of each line, or of each of its priorities if they age.
    fn read(
        &self,
        lanes: Vec<String>,
        depth: usize,
    ) -> impl Future<Output = Result<Self::Heads, Fault>> + Send;

    /// How many are not taken, of those that are read.
    fn known(&self) -> usize;
}

/// What a source gives.
type RunOf<S> = <<S as Source>::Heads as Heads>::Run;

/// A walk over the lanes of a queue that have something for somebody.
pub(crate) struct Walk<'a> {
    pub(crate) session: &'a Session,
    pub(crate) kind: Kind,
    pub(crate) queue: &'a Queue,
    /// The workflows that somebody has, with their versions.
    pub(crate) workflows: Vec<&'a str>,
    pub(crate) versions: Vec<i64>,
}

/// The lanes that were read, in their order, and what was read of them.
struct Read<H> {
    lanes: BTreeMap<String, (usize, Option<Time>)>,
    heads: H,
}

impl<H: Heads> Lanes for Read<H> {
    type Run = H::Run;
    type Error = Infallible;

    fn after(&mut self, lane: Option<&str>) -> Result<Option<String>, Infallible> {
        let from = lane.map_or(Bound::Unbounded, Bound::Excluded);
        Ok(self.lanes.range::<str, _>((from, Bound::Unbounded)).next().map(|(lane, _)| lane.clone()))
    }

    fn left(&mut self, lane: &str) -> Result<(usize, Option<Time>), Infallible> {
        Ok(self.lanes.get(lane).copied().unwrap_or((0, None)))
    }

    fn next(&mut self, lane: &str) -> Result<Option<H::Run>, Infallible> {
        Ok(self.heads.next(lane))
    }
}

impl Walk<'_> {
    /// Whether there may be lanes that rest, or did: those of a rate that was taken away are found as if they were awake.
    fn rests(&self) -> bool {
        self.queue.rests || self.queue.state.limits.key_rate.is_some()
    }

    /// Until when a lane rests at the most.
    fn latest(&self) -> Time {
        self.queue.state.limits.key_rate.map_or(Time::MAX, |rate| rate.latest(self.queue.at))
    }

    /// Wakes the keys that are due, and forgets what was begun of keys long ago, for a walk that may write.
    pub(crate) async fn wake(&self) -> Result<(), Fault> {
        let Some(rate) = self.queue.state.limits.key_rate else { return Ok(()) };
        let Queue { name, at, .. } = self.queue;
        let (tasks, latest) = (self.kind == Kind::Tasks, self.latest());
        self.session.execute(WAKE, &[name, &tasks, &self.workflows, &at.0, &latest.0, &AT_ONCE]).await?;
        queue::forget_keys(self.session, name, rate.past(*at)).await?;
        Ok(())
    }

    /// Chooses so many. As much is read as seems to be needed, and more when it was not enough.
    pub(crate) async fn choose<S: Source>(
        &self,
        source: &S,
        state: &QueueState,
        load: &Load,
        most: usize,
    ) -> Result<Choice<RunOf<S>>, Fault> {
        if most == 0 {
            return Ok(Choice { chosen: Vec::new(), resting: Vec::new(), is_all: false });
        }
        let most = most.min(10_000);
        let (mut width, mut depth) = (most + load.under_way() + 8, 0);
        loop {
            let (lanes, is_all) = self.lanes(state, width).await?;
            let lanes = self.allowed(lanes, state.limits.key_rate).await?;
            let is_open = |lane: &str, left: usize| left > 0 && load.lane_left(&state.limits, lane) > 0;
            let open = lanes.iter().filter(|(lane, (left, _))| is_open(lane, *left));
            let open: Vec<String> = open.map(|(lane, _)| lane.clone()).collect();
            depth = depth.max(most.div_ceil(open.len().max(1)) + source.known() + 1);
            let heads = source.read(open, depth).await?;
            let mut lanes = Read { lanes, heads };
            let Ok(mut choice) = choose(&mut lanes, state, load, most);
            // A lane has a second turn only when all have had their first.
            let firsts: HashSet<&String> = choice.chosen.iter().map(|(lane, _)| lane).collect();
            if !lanes.heads.is_short() && (is_all || firsts.len() == most) {
                choice.is_all &= is_all;
                return Ok(choice);
            }
            (width, depth) = (width * 4, depth * 4);
        }
    }

    /// Whether there is anything, also of keys that rest.
    pub(crate) async fn any<S: Source>(&self, source: &S) -> Result<bool, Fault> {
        let nobody = Load::new(&windlass_store::QueueLimits::NONE, Time(0), [], [], &[]);
        if !self.choose(source, &QueueState::default(), &nobody, 1).await?.chosen.is_empty() {
            return Ok(true);
        }
        let depth = source.known() + 1;
        let lanes: Vec<String> =
            self.resting(Time(0), depth).await?.into_iter().map(|(_, lane)| lane).collect();
        if lanes.is_empty() {
            return Ok(false);
        }
        let mut heads = source.read(lanes.clone(), depth).await?;
        Ok(lanes.iter().any(|lane| heads.next(lane).is_some()))
    }

    /// The lanes after the one that had the last turn, and then those up to it; and whether these are all.
    async fn lanes(&self, state: &QueueState, width: usize) -> Result<(Vec<String>, bool), Fault> {
        // No text sorts between another and the same with this at its end.
        let after = state.cursor.as_ref().map(|cursor| format!("{cursor}\u{1}"));
        let mut lanes = Vec::new();
        for from in [after.as_deref(), Some("")].into_iter().flatten() {
            let mut found = self.lanes_from(from, width).await?;
            found.truncate(width);
            let is_cut = found.len() >= width;
            lanes.append(&mut found);
            if is_cut {
                return Ok((lanes, false));
            }
        }
        Ok((lanes, true))
    }

    async fn lanes_from(&self, from: &str, width: usize) -> Result<Vec<String>, Fault> {
        let (name, width) = (&self.queue.name, large(width));
        let asked: [&(dyn ToSql + Sync); 5] = [name, &from, &width, &self.workflows, &self.versions];
        let mut lanes = Vec::new();
        for row in self.session.query(self.kind.statements().lanes, &asked).await? {
            lanes.push(row.try_get(0)?);
        }
        if self.rests() {
            let (tasks, now, latest) = (self.kind == Kind::Tasks, self.queue.at.0, self.latest().0);
            let asked: [&(dyn ToSql + Sync); 7] =
                [name, &tasks, &self.workflows, &from, &width, &now, &latest];
            for row in self.session.query(RISEN, &asked).await? {
                lanes.push(row.try_get(0)?);
            }
        }
        lanes.sort();
        lanes.dedup();
        Ok(lanes)
    }

    /// How many of each lane the rate of its key lets be taken, and, when that is none, when the next one may be. What has no
    /// key has no such rate: under the empty lane it is noted what the whole queue began.
    async fn allowed(
        &self,
        lanes: Vec<String>,
        key_rate: Option<Rate>,
    ) -> Result<BTreeMap<String, (usize, Option<Time>)>, Fault> {
        let Some(rate) = key_rate else {
            return Ok(lanes.into_iter().map(|lane| (lane, (usize::MAX, None))).collect());
        };
        let begun = queue::begun(self.session, &self.queue.name, &lanes).await?;
        let left = |lane: &String| match lane.as_str() {
            "" => (usize::MAX, None),
            _ => rate.left(self.queue.at, begun.get(lane).map_or(&[][..], Vec::as_slice)),
        };
        Ok(lanes.into_iter().map(|lane| (left(&lane), lane)).map(|(left, lane)| (lane, left)).collect())
    }

    /// So many lanes that rest until some time after this one, the first to be due first.
    async fn resting(&self, after: Time, count: usize) -> Result<Vec<(Time, String)>, Fault> {
        if self.queue.state.limits.key_rate.is_none() {
            return Ok(Vec::new());
        }
        let (name, count, latest) = (&self.queue.name, large(count), self.latest());
        let asked: [&(dyn ToSql + Sync); 6] =
            [name, &self.workflows, &self.versions, &after.0, &count, &latest.0];
        let rows = self.session.query(self.kind.statements().resting, &asked).await?;
        rows.iter().map(|row| Ok((column::time(row, 0)?, row.try_get(1)?))).collect()
    }

    /// When the rate of a key lets the next one be taken, if that is all that it waits for.
    pub(crate) async fn next<R>(&self, choice: &Choice<R>) -> Result<Option<Time>, Fault> {
        if !choice.is_all {
            return Ok(None);
        }
        let resting = self.resting(self.queue.at, 1).await?;
        Ok(resting.into_iter().map(|(until, _)| until).chain(choice.next()).min())
    }

    /// Puts lanes to rest that a walk met, as many as may be at once, and forgets those that were woken and have nothing any more.
    pub(crate) async fn settle<R>(&self, choice: &Choice<R>) -> Result<(), Fault> {
        if !self.rests() {
            return Ok(());
        }
        let (name, statements) = (&self.queue.name, self.kind.statements());
        if !choice.resting.is_empty() {
            let resting = choice.resting.iter().take(AT_ONCE as usize);
            let (lanes, untils): (Vec<&str>, Vec<i64>) =
                resting.map(|(lane, until)| (lane.as_str(), until.0)).unzip();
            let asked: [&(dyn ToSql + Sync); 6] =
                [name, &lanes, &untils, &self.workflows, &self.versions, &AT_ONCE];
            self.session.execute(statements.rest, &asked).await?;
        }
        let met = self.lanes_from("", 1_000).await?;
        self.session.execute(statements.forget, &[name, &self.workflows, &met]).await?;
        Ok(())
    }
}
