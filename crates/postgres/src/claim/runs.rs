//! The ready runs of a declared queue.

use std::collections::{HashMap, HashSet, VecDeque};

use tokio_postgres::{Row, types::ToSql};
use uuid::Uuid;
use windlass_core::RunId;
use windlass_store::{Arrival, QueueLimits};

use super::{
    large,
    statements::{HEADS, HEADS_OF_EACH},
};
use crate::{
    error::Fault,
    lanes::{self, Walk},
};

/// A ready run.
#[derive(Clone)]
pub(super) struct Candidate {
    pub(super) priority: i16,
    pub(super) run: Uuid,
    pub(super) queue: String,
    pub(super) lane: String,
    pub(super) workflow: String,
    pub(super) weight: i64,
    pub(super) arrival: Arrival,
}

impl Candidate {
    /// What the runs of a lane are ordered by.
    fn urgency(&self, limits: &QueueLimits) -> (i64, RunId) {
        let priority = u8::try_from(self.priority).unwrap_or(u8::MAX);
        limits.urgency(priority, RunId::from_bytes(*self.run.as_bytes()))
    }
}

pub(super) fn candidate(row: &Row) -> Result<Candidate, Fault> {
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

/// What was read of the lanes of a queue, without runs that have a slot.
#[derive(Default)]
pub(super) struct Heads {
    limits: QueueLimits,
    lanes: HashMap<String, VecDeque<Candidate>>,
    /// Up to where a lane was read.
    cut: HashMap<String, (i64, RunId)>,
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
        let (walk, depth) = (self.walk, large(depth));
        let (name, limits) = (&walk.queue.name, walk.queue.state.limits);
        let params: [&(dyn ToSql + Sync); 4] = [name, &lanes, &walk.workflows, &depth];
        let (sql, ages) = limits.ageing.map_or((HEADS, false), |_| (HEADS_OF_EACH, true));
        let mut heads = Heads { limits, ..Heads::default() };
        let mut counts: HashMap<(String, String, i16), i64> = HashMap::new();
        for row in walk.session.query(sql, &params).await? {
            let head = candidate(&row)?;
            let line = (head.lane.clone(), head.workflow.clone(), if ages { head.priority } else { 0 });
            let count = counts.entry(line).or_default();
            *count += 1;
            if *count == depth {
                // Beyond this one of the same line there may be more that are as urgent as the others.
                let last = head.urgency(&limits);
                let cut = heads.cut.entry(head.lane.clone()).or_insert(last);
                *cut = last.min(*cut);
            }
            if !self.known.contains(&head.run) {
                heads.lanes.entry(head.lane.clone()).or_default().push_back(head);
            }
        }
        for lane in heads.lanes.values_mut() {
            lane.make_contiguous().sort_by_key(|head| head.urgency(&limits));
        }
        Ok(heads)
    }
}

impl lanes::Heads for Heads {
    type Run = Candidate;

    fn next(&mut self, lane: &str) -> Option<Candidate> {
        let next = self.lanes.get_mut(lane).and_then(VecDeque::pop_front);
        let cut = self.cut.get(lane);
        self.is_short |= match &next {
            Some(next) => cut.is_some_and(|cut| next.urgency(&self.limits) > *cut),
            None => cut.is_some(),
        };
        next
    }

    fn is_short(&self) -> bool {
        self.is_short
    }
}
