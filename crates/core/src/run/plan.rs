//! A definition with what is derived from it.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::LaneId;
use crate::{Definition, Graph, TaskIx};

/// A definition with what is derived from it, made once and shared by all its runs.
#[derive(Debug)]
pub struct Plan {
    /// The definition.
    pub definition: Arc<Definition>,
    /// Who waits for whom.
    pub graph: Graph,
    by_name: HashMap<Arc<str>, TaskIx>,
    handed_out: HashSet<TaskIx>,
    flow: Option<TaskIx>,
}

impl Plan {
    /// Derives what runs of this definition need.
    #[must_use]
    pub fn new(definition: Arc<Definition>) -> Self {
        let graph = Graph::of(&definition);
        let by_name = definition.indices().map(|at| (Arc::clone(&definition.task(at).name), at)).collect();
        let handed_out = definition.tasks.iter().filter_map(|task| Some(task.for_each?.over)).collect();
        let flow = definition.indices().find(|at| definition.task(*at).flow);
        Self { definition, graph, by_name, handed_out, flow }
    }

    /// The durable function that runs of this plan are, if they are one.
    #[must_use]
    pub const fn flow(&self) -> Option<TaskIx> {
        self.flow
    }

    /// The lane whose code made the call that a record of this name is about: `pay/approved` is what `pay` called,
    /// and `/charge` what the durable function did. `None` for what is no call, or has no place in this plan.
    #[must_use]
    pub fn caller(&self, record: &str) -> Option<LaneId> {
        match record.split_once('/')? {
            ("", _) => self.flow.map(LaneId::of),
            (lane, _) => self.lane(lane),
        }
    }

    /// Whether a `for_each` hands out the elements of this lane's result, so that they have to be counted.
    ///
    /// The elements of a `for_each` are its instances' results, which are counted already.
    #[must_use]
    pub fn hands_out(&self, lane: LaneId) -> bool {
        lane.item.is_none() && self.handed_out.contains(&lane.task)
    }

    /// The lane that a step's name stands for.
    #[must_use]
    pub fn lane(&self, step: &str) -> Option<LaneId> {
        let (name, item) = match step.strip_suffix(']').and_then(|rest| rest.split_once('[')) {
            Some((name, item)) => (name, Some(item.parse().ok()?)),
            None => (step, None),
        };
        let task = *self.by_name.get(name)?;
        Some(LaneId { task, item })
    }
}
