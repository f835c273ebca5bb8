//! The ready runs of a declared queue.

use std::collections::{HashMap, HashSet, VecDeque};

use tokio_postgres::{Row, types::ToSql};
use uuid::Uuid;
use windlass_core::{RunId, Time};
use windlass_store::{Arrival, QueueLimits, Waiter};

use super::{
    large,
    statements::{HEADS, HEADS_OF_EACH},
};
use crate::{
    column,
    error::Fault,
    lanes::{self, Walk},
};

/// A ready run.
#[derive(Clone)]
pub(super) struct Candidate {
    pub(super) priority: i16,
    /// What it has come to by waiting.
    pub(super) urgency: i16,
    /// Since when it might have been taken, where that matters.
    pub(super) since: Time,
    pub(super) run: Uuid,
    pub(super) queue: String,
    pub(super) lane: String,
    pub(super) workflow: String,
    pub(super) weight: i64,
    pub(super) arrival: Arrival,
}

impl Candidate {
    fn waiter(&self) -> Waiter {
        let priority = u8::try_from(self.priority).unwrap_or(u8::MAX);
        Waiter { priority, run: RunId::from_bytes(*self.run.as_bytes()), since: self.since }
    }

    /// The same with what it has come to by waiting in a queue with such limits.
    pub(super) fn aged(self, limits: &QueueLimits, now: Time) -> Self {
        Self { urgency: limits.urgency(now, self.waiter()).into(), ..self }
    }
}

pub(super) fn candidate(row: &Row) -> Result<Candidate, Fault> {
    Ok(Candidate {
        priority: row.try_get(0)?,
        urgency: row.try_get(0)?,
        since: column::time(row, 6)?,
        run: row.try_get(1)?,
        queue: row.try_get(2)?,
        lane: row.try_get(3)?,
        workflow: row.try_get(4)?,
        weight: row.try_get(5)?,
        arrival: Arrival::Fresh,
    })
}

/// What was read of the lanes of a queue, without runs that have a slot.
#[derive(Default)]
pub(super) struct Heads {
    lanes: HashMap<String, VecDeque<Candidate>>,
    /// How many more are right, of lanes that were not read to their end.
    left: HashMap<String, usize>,
    is_short: bool,
}

/// The ready runs of a queue.
pub(super) struct Runs<'a> {
    pub(super) walk: &'a Walk<'a>,
    /// Those that have a slot.
    pub(super) known: &'a HashSet<Uuid>,
}

impl lanes::Source for Runs<'_> {
    type Heads = Heads;

    fn known(&self) -> usize {
        self.known.len()
    }

    async fn read(&self, lanes: Vec<String>, depth: usize) -> Result<Heads, Fault> {
        let (walk, most) = (self.walk, large(depth));
        let (name, limits) = (&walk.queue.name, walk.queue.state.limits);
        let params: [&(dyn ToSql + Sync); 4] = [name, &lanes, &walk.workflows, &most];
        let (sql, ages) = limits.ageing.map_or((HEADS, false), |_| (HEADS_OF_EACH, true));
        let mut heads = Heads::default();
        let (mut rows, mut counts): (HashMap<String, Vec<Candidate>>, HashMap<_, usize>) = Default::default();
        for row in walk.session.query(sql, &params).await? {
            let head = candidate(&row)?;
            let line = (head.lane.clone(), head.workflow.clone(), if ages { head.priority } else { 0 });
            let count = counts.entry(line).or_default();
            *count += 1;
            if *count == depth {
                // Beyond these of the same line there may be more that are as urgent as the others.
                heads.left.insert(head.lane.clone(), depth.saturating_sub(self.known.len()));
            }
            if !self.known.contains(&head.run) {
                rows.entry(head.lane.clone()).or_default().push(head);
            }
        }
        let in_order = |line| limits.in_order(line, Candidate::waiter);
        heads.lanes = rows.into_iter().map(|(lane, line)| (lane, in_order(line))).collect();
        Ok(heads)
    }
}

impl lanes::Heads for Heads {
    type Run = Candidate;

    fn next(&mut self, lane: &str) -> Option<Candidate> {
        match self.left.get_mut(lane) {
            Some(0) => self.is_short = true,
            Some(left) => *left -= 1,
            None => {}
        }
        self.lanes.get_mut(lane).and_then(VecDeque::pop_front)
    }

    fn is_short(&self) -> bool {
        self.is_short
    }
}
