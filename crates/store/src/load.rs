//! What of a queue is under way.

use std::collections::{HashMap, HashSet};

use windlass_core::{RunId, Time};

use crate::{QueueLimits, SpreadRow};

/// What of a queue is under way, as a claim finds it.
#[derive(Clone, Debug)]
pub struct Load {
    /// The numbers that are taken.
    numbers: Vec<u32>,
    /// How many slots are taken, those of attempts included, which have no numbers.
    under_way: usize,
    mine: usize,
    lanes: HashMap<String, usize>,
    /// The runs that have a slot while none of their attempts is executed in this queue, and whether the claiming node
    /// has it.
    sharing: HashMap<RunId, bool>,
    /// The runs that have no slot while an attempt of theirs is executed in this queue.
    owed: HashSet<RunId>,
    /// The runs of which the claiming node executes an attempt here without having their slot.
    here: HashSet<RunId>,
    /// How many may still be taken now, as far as the rate goes.
    rate_left: usize,
    /// When the rate lets the next one be taken, if it lets none now.
    pub next: Option<Time>,
}

/// How a ready run comes to its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It takes one, and begins.
    Fresh,
    /// It shares the one that an attempt of its has: it takes a number, and nothing more is under way than before.
    Shared,
    /// It has kept one.
    Back,
    /// It has to [stop](crate::RunImage::stops_at), and needs none.
    Stopping,
}

/// A slot that a run has.
#[derive(Clone, Debug)]
pub struct TakenSlot {
    /// Which one, counted from 1.
    pub no: u32,
    /// The run.
    pub run: RunId,
    /// The lane of its run.
    pub lane: String,
    /// Whether it is the claiming node's.
    pub is_mine: bool,
}

/// A published attempt that a node executes.
#[derive(Clone, Debug)]
pub struct TakenTask {
    /// The run that it belongs to.
    pub run: RunId,
    /// Its lane.
    pub lane: String,
    /// Whether it is the claiming node's.
    pub is_mine: bool,
}

impl Load {
    /// What is under way, by the slots that runs have, the attempts that are executed, and the times at which so many were
    /// taken of late.
    ///
    /// A run and one of its attempts share a slot; a second attempt at the same time takes one of its own. So neither ever
    /// waits for the slot that the other has.
    #[must_use]
    pub fn new(
        limits: &QueueLimits,
        now: Time,
        slots: impl IntoIterator<Item = TakenSlot>,
        tasks: impl IntoIterator<Item = TakenTask>,
        begun: &[(Time, u32)],
    ) -> Self {
        let (rate_left, next) = limits.rate.map_or((usize::MAX, None), |rate| rate.left(now, begun));
        let mut load = Self {
            numbers: Vec::new(),
            under_way: 0,
            mine: 0,
            lanes: HashMap::new(),
            sharing: HashMap::new(),
            owed: HashSet::new(),
            here: HashSet::new(),
            rate_left,
            next,
        };
        for slot in slots {
            load.numbers.push(slot.no);
            load.sharing.insert(slot.run, slot.is_mine);
            load.count(slot.lane);
            load.mine += usize::from(slot.is_mine);
        }
        load.numbers.sort_unstable();
        let (mut shared, mut counted) = (HashSet::new(), HashSet::new());
        for task in tasks {
            let slot = load.sharing.get(&task.run).copied();
            if slot.is_none() {
                load.owed.insert(task.run);
            }
            if task.is_mine && slot != Some(true) {
                load.here.insert(task.run);
            }
            if slot.is_none() || !shared.insert(task.run) {
                load.count(task.lane);
            }
            // What a node has is counted by itself: a run may be at one, and its attempt at another.
            if task.is_mine && (slot != Some(true) || !counted.insert(task.run)) {
                load.mine += 1;
            }
        }
        load.sharing.retain(|run, _| !shared.contains(run));
        load
    }

    fn count(&mut self, lane: String) {
        self.under_way += 1;
        *self.lanes.entry(lane).or_default() += 1;
    }

    /// How many there are.
    #[must_use]
    pub const fn under_way(&self) -> usize {
        self.under_way
    }

    /// The runs of which one attempt more needs no slot, since it shares that of its run.
    pub fn sharing(&self) -> impl Iterator<Item = RunId> + '_ {
        self.sharing.keys().copied()
    }

    /// The runs that have no slot, and need none but the one that an attempt of theirs has. Some are in other queues.
    pub fn owed(&self) -> impl Iterator<Item = RunId> + '_ {
        self.owed.iter().copied()
    }

    /// How a ready run that has no slot comes to one.
    #[must_use]
    pub fn arrival(&self, run: RunId) -> Arrival {
        if self.owed.contains(&run) { Arrival::Shared } else { Arrival::Fresh }
    }

    /// Of runs that are counted already, those that a node with so much room is given, and how many more it has then: what
    /// it executes an attempt of counts as its own.
    pub fn admit<R>(
        &self,
        limits: &QueueLimits,
        room: usize,
        back: impl IntoIterator<Item = R>,
        id: impl Fn(&R) -> RunId,
    ) -> (Vec<R>, usize) {
        let (mut admitted, mut more) = (Vec::new(), 0);
        for run in back {
            let is_here = self.here.contains(&id(&run));
            if admitted.len() < room && (is_here || more < self.node_left(limits)) {
                more += usize::from(!is_here);
                admitted.push(run);
            }
        }
        (admitted, more)
    }

    /// Of attempts that were taken in this order, those that took a slot of their own.
    #[must_use]
    pub fn fresh<'a>(&self, taken: impl IntoIterator<Item = &'a SpreadRow>) -> Vec<&'a SpreadRow> {
        let mut shared = HashSet::new();
        let mut shares = |run| self.sharing.contains_key(&run) && shared.insert(run);
        taken.into_iter().filter(|row| !shares(row.run)).collect()
    }

    /// Whether the node has the slot that the attempts of this run share.
    pub(crate) fn is_here(&self, run: RunId) -> bool {
        self.sharing.get(&run) == Some(&true)
    }

    /// How many more the claiming node may have, however many others have.
    #[must_use]
    pub fn node_left(&self, limits: &QueueLimits) -> usize {
        left(limits.per_node, self.mine)
    }

    /// How many more may be under way when the node is given `returning` that are under way already.
    #[must_use]
    pub fn left(&self, limits: &QueueLimits, returning: usize) -> usize {
        let node = self.node_left(limits).saturating_sub(returning);
        node.min(left(limits.concurrency, self.under_way)).min(self.rate_left)
    }

    /// How many more of one lane may be under way.
    #[must_use]
    pub fn lane_left(&self, limits: &QueueLimits, lane: &str) -> usize {
        if lane.is_empty() {
            return usize::MAX;
        }
        left(limits.per_key, self.lanes.get(lane).copied().unwrap_or(0))
    }

    /// The lowest numbers that are free.
    pub fn free_numbers(&self) -> impl Iterator<Item = u32> + '_ {
        let mut taken = self.numbers.iter().copied().peekable();
        (1..).filter(move |no| taken.next_if_eq(no).is_none())
    }
}

fn left(limit: Option<u32>, taken: usize) -> usize {
    limit.map_or(usize::MAX, |limit| (limit as usize).saturating_sub(taken))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(number: u8) -> RunId {
        RunId::from_bytes([number; 16])
    }

    #[test]
    fn the_lowest_free_numbers_come_first() {
        let slot = |no: u8| TakenSlot { no: no.into(), run: run(no), lane: String::new(), is_mine: no == 3 };
        let limits = QueueLimits { concurrency: Some(5), per_node: Some(2), ..QueueLimits::default() };
        let load = Load::new(&limits, Time(0), [3, 1, 4].map(slot), [], &[]);
        assert_eq!(load.free_numbers().take(3).collect::<Vec<_>>(), [2, 5, 6]);
        assert_eq!((load.left(&limits, 0), load.left(&limits, 1), load.node_left(&limits)), (1, 0, 1));
    }

    #[test]
    fn a_run_shares_its_slot_with_one_of_its_attempts() {
        let slot = |no: u8| TakenSlot { no: no.into(), run: run(no), lane: "=a".into(), is_mine: no == 1 };
        let task = |(no, is_mine)| TakenTask { run: run(no), lane: "=a".into(), is_mine };
        let load = |tasks: &[(u8, bool)]| {
            let limits = QueueLimits { per_node: Some(9), per_key: Some(9), ..QueueLimits::default() };
            let load = Load::new(&limits, Time(0), [1, 2].map(slot), tasks.iter().copied().map(task), &[]);
            let mut sharing: Vec<_> = load.sharing().collect();
            sharing.sort();
            (load.under_way(), 9 - load.node_left(&limits), 9 - load.lane_left(&limits, "=a"), sharing)
        };
        assert_eq!(load(&[]), (2, 1, 2, vec![run(1), run(2)]));
        assert_eq!(load(&[(1, true)]), (2, 1, 2, vec![run(2)]));
        assert_eq!(load(&[(1, true), (1, true), (1, false)]), (4, 2, 4, vec![run(2)]));
        assert_eq!(load(&[(2, true)]), (2, 2, 2, vec![run(1)]), "the run is elsewhere");
        assert_eq!(load(&[(3, true), (3, false)]), (4, 2, 4, vec![run(1), run(2)]), "the run is parked");
    }

    #[test]
    fn a_run_comes_back_to_the_slot_that_its_attempt_has() {
        let limits = QueueLimits { concurrency: Some(1), per_node: Some(1), ..QueueLimits::default() };
        let admit = |tasks: &[(u8, bool)], back: &[u8], room| {
            let task = |(no, is_mine)| TakenTask { run: run(no), lane: String::new(), is_mine };
            let load = Load::new(&limits, Time(0), [], tasks.iter().copied().map(task), &[]);
            assert!(back.iter().all(|no| load.arrival(run(*no)) == Arrival::Shared));
            load.admit(&limits, room, back.iter().copied(), |no| run(*no))
        };
        assert_eq!(admit(&[(1, false)], &[1], 9), (vec![1], 1));
        assert_eq!(admit(&[(1, true)], &[1], 9), (vec![1], 0), "what is here counts already");
        assert_eq!(admit(&[(1, false), (2, true)], &[1, 2], 9), (vec![2], 0), "this node has enough");
        assert_eq!(admit(&[(1, true)], &[1], 0), (vec![], 0));
    }
}
