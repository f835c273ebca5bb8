//! Queues that were declared.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
    convert::Infallible,
    sync::Arc,
};

use windlass_core::{NodeId, RunId, Time};

use super::state::State;
use crate::{
    Arrival, Claim, Lanes, Load, Place, QueueChange, QueueChanged, QueueRow, QueueState, SpreadClaim,
    SpreadRow, TakenSlot, TakenTask, choose, lane,
};

/// A declared queue.
#[derive(Default)]
pub(super) struct Queue {
    pub(super) state: QueueState,
    /// Who has which slot.
    slots: BTreeMap<u32, Slot>,
    /// How many were taken when, as far back as the rate looks.
    begun: Vec<(Time, u32)>,
}

struct Slot {
    run: RunId,
    lane: String,
    /// `None` while nobody holds the run.
    node: Option<NodeId>,
}

/// What a claim would take from a declared queue, in its order.
pub(super) struct Turn {
    pub(super) runs: VecDeque<RunId>,
    /// When the rate lets the next one be taken.
    pub(super) next: Option<Time>,
}

impl State {
    pub(super) fn change_queue(&mut self, name: &Arc<str>, change: QueueChange) -> QueueChanged {
        let before = self.queues.get(name).map(|queue| &queue.state);
        let Some((state, changed)) = QueueState::change(before, change) else {
            return QueueChanged::Unchanged;
        };
        let queue = self.queues.entry(Arc::clone(name)).or_default();
        queue.state = state;
        if !queue.state.limits.hold {
            queue.slots.retain(|_, slot| slot.node.is_some());
        }
        self.count_held(name);
        self.changed = true;
        changed
    }

    /// Gives a slot to each run of the queue that is held and has none.
    fn count_held(&mut self, name: &Arc<str>) {
        let held = self.open_where(|kept| kept.image.run.queue == *name && kept.holder().is_some());
        for run in held {
            let image = &self.runs[&run];
            let node = image.holder().map(|(node, _)| node);
            let lane = lane(image.image.run.queue_key.as_deref());
            let queue = self.queues.get_mut(name).expect("it was just declared");
            if queue.slots.values().all(|slot| slot.run != run) {
                queue.occupy(run, lane, node);
            }
        }
    }

    pub(super) fn queue_rows(&self, only: Option<&Arc<str>>) -> Vec<QueueRow> {
        let wanted = self.queues.iter().filter(|(_, queue)| !queue.state.removed);
        let wanted = wanted.filter(|(name, _)| only.is_none_or(|only| only == *name));
        let row = |(name, queue): (&Arc<str>, &Queue)| {
            let ready = self.open_where(|kept| {
                kept.image.run.queue == *name && kept.image.standing.place == Place::Ready
            });
            QueueRow {
                limits: queue.state.limits,
                paused: queue.state.paused,
                depth: ready.len() as u64,
                oldest: ready.first().map(|run| self.runs[run].image.run.created_at),
                running: self.load(name, None).under_way() as u64,
                ..QueueRow::new(Arc::clone(name))
            }
        };
        wanted.map(row).collect()
    }

    /// Gives back the slot of a run that has ended.
    pub(super) fn free_slot(&mut self, run: RunId) {
        let name = Arc::clone(&self.runs[&run].image.run.queue);
        if let Some(queue) = self.queues.get_mut(&name) {
            queue.slots.retain(|_, slot| slot.run != run);
        }
    }

    /// Gives back the slot of a run that nobody holds any more, unless its queue says `hold`.
    pub(super) fn vacate(&mut self, run: RunId) {
        let name = Arc::clone(&self.runs[&run].image.run.queue);
        let Some(queue) = self.queues.get_mut(&name) else { return };
        if !queue.state.limits.hold {
            queue.slots.retain(|_, slot| slot.run != run);
        }
        for slot in queue.slots.values_mut().filter(|slot| slot.run == run) {
            slot.node = None;
        }
    }

    /// What a request would take from a declared queue.
    pub(super) fn turn(&self, request: &Claim, name: &Arc<str>, room: usize) -> Turn {
        let queue = &self.queues[name];
        let QueueState { limits, paused, .. } = &queue.state;
        if *paused || room == 0 {
            return Turn { runs: VecDeque::new(), next: None };
        }
        let load = self.load(name, Some(request.node));
        let mut lanes = Rows(BTreeMap::new());
        let mut returning = VecDeque::new();
        for run in self.claimable(request) {
            let image = &self.runs[&run].image;
            if image.run.queue != *name {
                continue;
            }
            let has_slot = queue.slots.values().any(|slot| slot.run == run);
            if has_slot || load.arrival(run) == Arrival::Shared {
                returning.push_back(run);
            } else {
                lanes.0.entry(lane(image.run.queue_key.as_deref())).or_default().push_back(run);
            }
        }
        let next = load.next.filter(|_| !lanes.0.is_empty());
        let (returning, more) = load.admit(limits, room, returning, |run| *run);
        let mut returning = VecDeque::from(returning);
        let most = (room - returning.len()).min(load.left(limits, more));
        let Ok(chosen) = choose(&mut lanes, &queue.state, &load, most);
        returning.extend(chosen.into_iter().map(|(_, run)| run));
        Turn { runs: returning, next }
    }

    /// Notes what was taken from declared queues, in the order in which it was.
    pub(super) fn seat(&mut self, node: NodeId, runs: &[RunId]) {
        let now = self.now;
        let mut counts: HashMap<Arc<str>, u32> = HashMap::new();
        for &run in runs {
            let row = &self.runs[&run].image.run;
            let lane = lane(row.queue_key.as_deref());
            let name = Arc::clone(&row.queue);
            if !self.queues.contains_key(&name) {
                continue;
            }
            let arrival = self.load(&name, Some(node)).arrival(run);
            let queue = self.queues.get_mut(&name).expect("it was declared");
            if let Some(slot) = queue.slots.values_mut().find(|slot| slot.run == run) {
                slot.node = Some(node);
                continue;
            }
            if arrival == Arrival::Fresh {
                queue.state.cursor = Some(lane.clone());
                *counts.entry(name).or_default() += 1;
            }
            queue.occupy(run, lane, Some(node));
        }
        for (name, count) in counts {
            self.queues.get_mut(&name).expect("something was taken from it").begin(now, count);
        }
    }

    /// What of a declared queue is under way, as a node sees it.
    pub(super) fn load(&self, name: &Arc<str>, node: Option<NodeId>) -> Load {
        let queue = &self.queues[name];
        let slots = queue.slots.iter().map(|(no, slot)| TakenSlot {
            no: *no,
            run: slot.run,
            lane: slot.lane.clone(),
            is_mine: node.is_some() && slot.node == node,
        });
        let tasks = self.tasks_where(|row| row.queue == *name && row.holder.is_some());
        let tasks = tasks.into_iter().map(|row| TakenTask {
            run: row.run,
            lane: String::from(&*row.lane),
            is_mine: row.holder.is_some_and(|(holder, _)| Some(holder) == node),
        });
        Load::new(&queue.state.limits, self.now, slots, tasks, &queue.begun)
    }

    /// What a request for published attempts would take from a declared queue, and when the rate lets the next be taken.
    pub(super) fn task_turn(
        &self,
        request: &SpreadClaim,
        name: &Arc<str>,
        room: usize,
    ) -> (VecDeque<SpreadRow>, Option<Time>) {
        let state = &self.queues[name].state;
        if state.paused || room == 0 {
            return (VecDeque::new(), None);
        }
        let load = self.load(name, Some(request.node));
        let mut sharing: HashSet<RunId> = load.sharing().collect();
        let free = self.claimable_tasks(request).into_iter().filter(|row| row.queue == *name);
        let (sharers, others): (Vec<_>, Vec<_>) = free.partition(|row| sharing.remove(&row.run));
        let next = load.next.filter(|_| !others.is_empty());
        let mut tasks = Tasks { lanes: BTreeMap::new(), request, suspects: request.suspects };
        for row in others {
            tasks.lanes.entry(String::from(&*row.lane)).or_default().push_back(row);
        }
        let Ok(turn) = SpreadClaim::turn(&mut tasks, state, &load, sharers, room);
        (turn, next)
    }

    /// Notes which attempts are taken from declared queues, in this order, before they are.
    pub(super) fn note_tasks(&mut self, node: NodeId, tasks: &[SpreadRow]) {
        let now = self.now;
        let names: BTreeSet<_> = tasks.iter().map(|row| Arc::clone(&row.queue)).collect();
        for name in names.into_iter().filter(|name| self.queues.contains_key(name)).collect::<Vec<_>>() {
            let load = self.load(&name, Some(node));
            let fresh = load.fresh(tasks.iter().filter(|row| row.queue == name));
            let Some(last) = fresh.last() else { continue };
            let queue = self.queues.get_mut(&name).expect("it was declared");
            queue.state.cursor = Some(String::from(&*last.lane));
            queue.begin(now, u32::try_from(fresh.len()).unwrap_or(u32::MAX));
        }
    }
}

impl Queue {
    /// Notes that so many are taken, if there is a rate.
    fn begin(&mut self, now: Time, count: u32) {
        if let Some(rate) = self.state.limits.rate {
            self.begun.retain(|(at, _)| *at + rate.per > now);
            self.begun.push((rate.noted(now), count));
        }
    }

    fn occupy(&mut self, run: RunId, lane: String, node: Option<NodeId>) {
        let free = (1..).find(|no| !self.slots.contains_key(no)).expect("memory is finite");
        self.slots.insert(free, Slot { run, lane, node });
    }
}

/// The ready runs of a queue by lane, the most urgent first.
struct Rows(BTreeMap<String, VecDeque<RunId>>);

impl Lanes for Rows {
    type Run = RunId;
    type Error = Infallible;

    fn after(&mut self, lane: Option<&str>) -> Result<Option<String>, Infallible> {
        Ok(self.0.keys().find(|key| lane.is_none_or(|lane| key.as_str() > lane)).cloned())
    }

    fn next(&mut self, lane: &str) -> Result<Option<RunId>, Infallible> {
        Ok(self.0.get_mut(lane).and_then(VecDeque::pop_front))
    }
}

/// The published attempts of a queue by lane, the most urgent first, and how many suspects may still be given.
struct Tasks<'a> {
    lanes: BTreeMap<String, VecDeque<SpreadRow>>,
    request: &'a SpreadClaim,
    suspects: usize,
}

impl Lanes for Tasks<'_> {
    type Run = SpreadRow;
    type Error = Infallible;

    fn after(&mut self, lane: Option<&str>) -> Result<Option<String>, Infallible> {
        Ok(self.lanes.keys().find(|key| lane.is_none_or(|lane| key.as_str() > lane)).cloned())
    }

    fn next(&mut self, lane: &str) -> Result<Option<SpreadRow>, Infallible> {
        while let Some(row) = self.lanes.get_mut(lane).and_then(VecDeque::pop_front) {
            if !self.request.is_suspect(&row) {
                return Ok(Some(row));
            }
            if self.suspects > 0 {
                self.suspects -= 1;
                return Ok(Some(row));
            }
        }
        Ok(None)
    }
}
