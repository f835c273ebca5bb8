//! Queues that were declared.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
    convert::Infallible,
    sync::Arc,
};

use windlass_core::{NodeId, RunId, Time};

use super::state::State;
use crate::{
    Arrival, Claim, Lanes, Load, Place, QueueChange, QueueChanged, QueueRow, QueueState, Rate, SpreadClaim,
    SpreadRow, TakenSlot, TakenTask, Waiter, choose, lane,
};

/// A declared queue.
#[derive(Default)]
pub(super) struct Queue {
    pub(super) state: QueueState,
    /// Whether the runs have their slots that were held before it was declared.
    is_counted: bool,
    /// Who has which slot.
    slots: BTreeMap<u32, Slot>,
    /// How many were taken when, as far back as the rate looks.
    begun: Vec<(Time, u32)>,
    /// The same of each key.
    begun_of: BTreeMap<String, Vec<(Time, u32)>>,
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
        let now = self.now;
        let queue = self.queues.entry(Arc::clone(name)).or_default();
        let before = queue.state.limits.key_rate;
        queue.state = state;
        if let Some(until) = Rate::forgotten(before, queue.state.limits.key_rate, now) {
            queue.forget_keys(until);
        }
        if !queue.state.limits.hold {
            queue.slots.retain(|_, slot| slot.node.is_some());
        }
        self.count_held(name);
        self.changed = true;
        changed
    }

    /// Gives a slot to each run of the queue that is held and has none.
    fn count_held(&mut self, name: &Arc<str>) {
        let queue = self.queues.get_mut(name).expect("it was just declared");
        if std::mem::replace(&mut queue.is_counted, true) {
            return;
        }
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
                oldest: ready.first().map(|run| self.runs[run].image.standing.opened_at),
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
        if room == 0 {
            return Turn { runs: VecDeque::new(), next: None };
        }
        let load = self.load(name, Some(request.node));
        let mut runs = self.claimable(request);
        runs.retain(|run| self.runs[run].image.run.queue == *name);
        let stops_at = |run: &RunId| self.runs[run].image.stops_at();
        let next_stop = runs.iter().filter_map(stops_at).filter(|at| *at > self.now).min();
        let mut stopping: Vec<_> = runs.iter().copied().filter(|run| self.is_stopping(*run)).collect();
        stopping.sort_by_key(|run| (stops_at(run), *run));
        stopping.truncate(room);
        if *paused {
            return Turn { runs: stopping.into(), next: next_stop };
        }
        runs.retain(|run| !stopping.contains(run));
        let room = room - stopping.len();
        let mut lines: BTreeMap<String, Vec<RunId>> = BTreeMap::new();
        let mut returning = VecDeque::new();
        for &run in &runs {
            let image = &self.runs[&run].image;
            let line = lines.entry(lane(image.run.queue_key.as_deref())).or_default();
            let has_slot = queue.slots.values().any(|slot| slot.run == run);
            if has_slot || load.arrival(run) == Arrival::Shared {
                returning.push_back(run);
            } else {
                line.push(run);
            }
        }
        let in_order = |line| limits.in_order(line, |run| self.waiter(*run));
        let lanes = lines.into_iter().map(|(lane, line)| (lane, in_order(line))).collect();
        let mut lanes = Rows { lanes, queue, now: self.now };
        let next = load.next.filter(|_| returning.len() < runs.len());
        let (returning, more) = load.admit(limits, room, returning, |run| *run);
        let most = (room - returning.len()).min(load.left(limits, more));
        let Ok(choice) = choose(&mut lanes, &queue.state, &load, most);
        let next = next.into_iter().chain(choice.next()).chain(next_stop).min();
        Turn { runs: stopping.into_iter().chain(returning).chain(choice.into_runs()).collect(), next }
    }

    fn is_stopping(&self, run: RunId) -> bool {
        self.runs[&run].image.stops_at().is_some_and(|at| at <= self.now)
    }

    pub(super) fn waiter(&self, run: RunId) -> Waiter {
        let image = &self.runs[&run].image;
        Waiter { priority: image.run.priority, run, since: image.standing.opened_at }
    }

    /// What something in a queue has come to by waiting.
    pub(super) fn urgency(&self, queue: &Arc<str>, waiter: Waiter) -> u8 {
        let queue = self.queues.get(queue);
        queue.map_or(waiter.priority, |queue| queue.state.limits.urgency(self.now, waiter))
    }

    /// Notes what was taken from declared queues, in the order in which it was.
    pub(super) fn seat(&mut self, node: NodeId, runs: &[RunId]) {
        let now = self.now;
        let mut begun: HashMap<Arc<str>, Vec<String>> = HashMap::new();
        for &run in runs {
            let row = &self.runs[&run].image.run;
            let lane = lane(row.queue_key.as_deref());
            let name = Arc::clone(&row.queue);
            if !self.queues.contains_key(&name) {
                continue;
            }
            let arrival = match self.is_stopping(run) {
                true => Arrival::Stopping,
                false => self.load(&name, Some(node)).arrival(run),
            };
            let queue = self.queues.get_mut(&name).expect("it was declared");
            if let Some(slot) = queue.slots.values_mut().find(|slot| slot.run == run) {
                slot.node = Some(node);
                continue;
            }
            if arrival == Arrival::Stopping {
                continue;
            }
            if arrival == Arrival::Fresh {
                queue.state.cursor = Some(lane.clone());
                begun.entry(name).or_default().push(lane.clone());
            }
            queue.occupy(run, lane, Some(node));
        }
        for (name, lanes) in begun {
            self.queues.get_mut(&name).expect("something was taken from it").begin(now, lanes);
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
        let queue = &self.queues[name];
        let state = &queue.state;
        if state.paused || room == 0 {
            return (VecDeque::new(), None);
        }
        let load = self.load(name, Some(request.node));
        let mut sharing: HashSet<RunId> = load.sharing().collect();
        let free = self.claimable_tasks(request).into_iter().filter(|row| row.queue == *name);
        let mut lines: BTreeMap<String, Vec<SpreadRow>> = BTreeMap::new();
        let (mut sharers, mut any) = (Vec::new(), false);
        for row in free {
            let line = lines.entry(String::from(&*row.lane)).or_default();
            if sharing.remove(&row.run) {
                sharers.push(row);
            } else {
                any = true;
                line.push(row);
            }
        }
        let mut tasks = Tasks::new(queue, request, self.now);
        let in_order = |line| state.limits.in_order(line, SpreadRow::waiter);
        tasks.lanes = lines.into_iter().map(|(lane, line)| (lane, in_order(line))).collect();
        let next = load.next.filter(|_| any);
        let Ok((sharers, choice)) = SpreadClaim::turn(&mut tasks, state, &load, sharers, room);
        let next = next.into_iter().chain(choice.next()).min();
        (sharers.into_iter().chain(choice.into_runs()).collect(), next)
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
            queue.begin(now, fresh.iter().map(|row| String::from(&*row.lane)).collect());
        }
    }
}

impl Queue {
    /// Notes that one of each of these lanes is taken, as far as a rate asks.
    fn begin(&mut self, now: Time, lanes: Vec<String>) {
        if let Some(rate) = self.state.limits.rate {
            self.begun.retain(|(at, _)| *at + rate.per > now);
            self.begun.push((rate.noted(now), u32::try_from(lanes.len()).unwrap_or(u32::MAX)));
        }
        let Some(rate) = self.state.limits.key_rate else { return };
        for lane in lanes {
            self.begun_of.entry(lane).or_default().push((rate.noted(now), 1));
        }
        self.forget_keys(rate.past(now));
    }

    /// Forgets what was begun of keys until then.
    fn forget_keys(&mut self, until: Time) {
        self.begun_of.retain(|_, begun| {
            begun.retain(|(at, _)| *at > until);
            !begun.is_empty()
        });
    }

    /// How many of a lane the rate of its key lets be taken.
    fn left_of(&self, now: Time, lane: &str) -> (usize, Option<Time>) {
        let begun = self.begun_of.get(lane).map_or(&[][..], Vec::as_slice);
        self.state.limits.key_rate.map_or((usize::MAX, None), |rate| rate.left(now, begun))
    }

    fn occupy(&mut self, run: RunId, lane: String, node: Option<NodeId>) {
        let free = (1..).find(|no| !self.slots.contains_key(no)).expect("memory is finite");
        self.slots.insert(free, Slot { run, lane, node });
    }
}

/// The ready runs of a queue by lane, the most urgent first.
struct Rows<'a> {
    lanes: BTreeMap<String, VecDeque<RunId>>,
    queue: &'a Queue,
    now: Time,
}

impl Lanes for Rows<'_> {
    type Run = RunId;
    type Error = Infallible;

    fn after(&mut self, lane: Option<&str>) -> Result<Option<String>, Infallible> {
        Ok(self.lanes.keys().find(|key| lane.is_none_or(|lane| key.as_str() > lane)).cloned())
    }

    fn left(&mut self, lane: &str) -> Result<(usize, Option<Time>), Infallible> {
        Ok(self.queue.left_of(self.now, lane))
    }

    fn next(&mut self, lane: &str) -> Result<Option<RunId>, Infallible> {
        Ok(self.lanes.get_mut(lane).and_then(VecDeque::pop_front))
    }
}

/// The published attempts of a queue by lane, the most urgent first, and how many suspects may still be given.
struct Tasks<'a> {
    lanes: BTreeMap<String, VecDeque<SpreadRow>>,
    queue: &'a Queue,
    request: &'a SpreadClaim,
    suspects: usize,
    now: Time,
}

impl<'a> Tasks<'a> {
    fn new(queue: &'a Queue, request: &'a SpreadClaim, now: Time) -> Self {
        Self { lanes: BTreeMap::new(), queue, request, suspects: request.suspects, now }
    }
}

impl Lanes for Tasks<'_> {
    type Run = SpreadRow;
    type Error = Infallible;

    fn after(&mut self, lane: Option<&str>) -> Result<Option<String>, Infallible> {
        Ok(self.lanes.keys().find(|key| lane.is_none_or(|lane| key.as_str() > lane)).cloned())
    }

    fn left(&mut self, lane: &str) -> Result<(usize, Option<Time>), Infallible> {
        Ok(self.queue.left_of(self.now, lane))
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
