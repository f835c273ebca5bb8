//! Queues with limits: what they are told, and whose turn it is.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use serde::{Deserialize, Serialize};
use windlass_core::{RunId, Time};

use crate::SpreadRow;

/// How much of a queue may be under way, over all nodes together. `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct QueueLimits {
    /// How many of its runs are held at once.
    pub concurrency: Option<u32>,
    /// How many of them one node holds.
    pub per_node: Option<u32>,
    /// How many of them have the same [key](crate::NewRun::queue_key). Those without a key are not counted.
    pub per_key: Option<u32>,
    /// How many are taken in a span of time.
    pub rate: Option<Rate>,
    /// Whether a run that was taken once counts until it ends, also while nobody holds it.
    pub hold: bool,
}

/// So many in any span of this length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// How many.
    pub count: u32,
    /// The length of the span.
    pub per: Duration,
}

/// A change of what a queue is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueChange {
    /// Sets all limits.
    Limits(QueueLimits),
    /// Lets nobody take anything from it, or lets them again. What was taken is left alone.
    Paused(bool),
    /// Takes back all that it was told: it has no limits, is not paused, and is not shown. Its runs are still handed out as
    /// those of a declared queue are, since some may have keys.
    Removed,
}

/// What a change did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueChanged {
    /// The queue was not declared before.
    Created,
    /// It was so before.
    Unchanged,
    /// It was otherwise before.
    Updated,
}

/// A queue that was declared, and what is in it.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueRow {
    /// Its name.
    pub name: Arc<str>,
    /// Its limits.
    pub limits: QueueLimits,
    /// Whether nobody takes anything from it.
    pub paused: bool,
    /// How many of its runs are ready. Those that wait for a time or a message are not counted.
    pub depth: u64,
    /// Since when the oldest of them might have run.
    pub oldest: Option<Time>,
    /// How many of its runs count against its limits.
    pub running: u64,
}

impl QueueRow {
    /// A queue with nothing in it.
    #[must_use]
    pub const fn new(name: Arc<str>) -> Self {
        let limits =
            QueueLimits { concurrency: None, per_node: None, per_key: None, rate: None, hold: false };
        Self { name, limits, paused: false, depth: 0, oldest: None, running: 0 }
    }
}

/// What a store keeps of a queue to know whose turn it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueState {
    /// Its limits.
    pub limits: QueueLimits,
    /// Whether nobody takes anything from it.
    pub paused: bool,
    /// The lane that had the last turn; `None` before the first.
    pub cursor: Option<String>,
    /// Whether what it was told was taken back.
    pub removed: bool,
}

impl QueueState {
    /// What a change makes of a queue, which is `None` if it was not declared, and what it is to be called. `None` when it
    /// changes nothing.
    #[must_use]
    pub fn change(before: Option<&Self>, change: QueueChange) -> Option<(Self, QueueChanged)> {
        let is_there = before.is_some_and(|before| !before.removed);
        let mut state = Self { removed: false, ..before.cloned().unwrap_or_default() };
        match change {
            QueueChange::Limits(limits) => state.limits = limits,
            QueueChange::Paused(false) | QueueChange::Removed if !is_there => return None,
            QueueChange::Paused(paused) => state.paused = paused,
            QueueChange::Removed => {
                state = Self { cursor: state.cursor, removed: true, ..Self::default() };
            }
        }
        match is_there {
            false => Some((state, QueueChanged::Created)),
            true => (before != Some(&state)).then_some((state, QueueChanged::Updated)),
        }
    }
}

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

impl Rate {
    /// The time under which it is noted that something is taken now: a little later, so that there are no more than a
    /// thousand of them in a span, however long that is.
    #[must_use]
    pub fn noted(&self, now: Time) -> Time {
        let grain = i64::try_from(self.per.as_micros() / 1000).unwrap_or(i64::MAX).max(1);
        let over = now.0.rem_euclid(grain);
        if over == 0 { now } else { Time(now.0.saturating_add(grain - over)) }
    }

    /// How many may be taken now, and, when that is none, when the next one may be: in no span of this length are more
    /// taken than so many. `begun` says how many were taken when, oldest first.
    ///
    /// What lies more than a span ahead was noted by a clock that has been put back since, and is not counted: or nothing
    /// would begin until the clock is there again.
    #[must_use]
    pub fn left(&self, now: Time, begun: &[(Time, u32)]) -> (usize, Option<Time>) {
        let is_recent = |at: Time| at + self.per > now && at <= now + self.per;
        let recent: Vec<_> = begun.iter().filter(|(at, _)| is_recent(*at)).collect();
        let count: u64 = recent.iter().map(|(_, count)| u64::from(*count)).sum();
        let limit = u64::from(self.count);
        if count < limit {
            return (usize::try_from(limit - count).unwrap_or(usize::MAX), None);
        }
        // So many have to be longer ago before one more may come.
        let mut over = count - limit + 1;
        for (at, count) in recent {
            match over.checked_sub(u64::from(*count)) {
                Some(rest @ 1..) => over = rest,
                _ => return (0, Some(*at + self.per)),
            }
        }
        (0, None)
    }
}

/// The lane that a run waits in: one for each key, and one for all that have none, which comes first.
#[must_use]
pub fn lane(queue_key: Option<&str>) -> String {
    queue_key.map_or_else(String::new, |key| format!("={key}"))
}

/// Where the ready runs of a queue are read from, lane by lane.
pub trait Lanes {
    /// A ready run.
    type Run;
    /// Why it cannot be read.
    type Error;

    /// The first lane after this one, or of all.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    fn after(&mut self, lane: Option<&str>) -> Result<Option<String>, Self::Error>;

    /// The most urgent run of a lane that was not given before, if there is one.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    fn next(&mut self, lane: &str) -> Result<Option<Self::Run>, Self::Error>;
}

/// Chooses up to `most` runs: one of each lane in turn, beginning after the lane that had the last turn, and of each no
/// more than the limit allows.
///
/// # Errors
///
/// Those of the lanes.
pub fn choose<L: Lanes>(
    lanes: &mut L,
    state: &QueueState,
    load: &Load,
    most: usize,
) -> Result<Vec<(String, L::Run)>, L::Error> {
    let (mut chosen, mut open) = (Vec::new(), VecDeque::new());
    if most == 0 {
        return Ok(chosen);
    }
    let (mut last, mut is_around) = (state.cursor.clone(), state.cursor.is_none());
    loop {
        let lane = lanes.after(last.as_deref())?;
        let is_over = |lane: &String| is_around && state.cursor.as_ref().is_some_and(|cursor| lane > cursor);
        let Some(lane) = lane.filter(|lane| !is_over(lane)) else {
            if is_around {
                break;
            }
            (last, is_around) = (None, true);
            continue;
        };
        last = Some(lane.clone());
        let left = load.lane_left(&state.limits, &lane);
        if left > 0
            && let Some(run) = lanes.next(&lane)?
        {
            chosen.push((lane.clone(), run));
            if chosen.len() == most {
                return Ok(chosen);
            }
            open.push_back((lane, left - 1));
        }
    }
    while let Some((lane, left)) = open.pop_front() {
        if left > 0
            && let Some(run) = lanes.next(&lane)?
        {
            chosen.push((lane.clone(), run));
            if chosen.len() == most {
                break;
            }
            open.push_back((lane, left - 1));
        }
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, VecDeque};

    use super::*;

    struct Rows(BTreeMap<String, VecDeque<u32>>);

    impl Rows {
        fn of(rows: &[(&str, &[u32])]) -> Self {
            Self(
                rows.iter()
                    .map(|(lane, runs)| ((*lane).to_owned(), runs.iter().copied().collect()))
                    .collect(),
            )
        }
    }

    impl Lanes for Rows {
        type Run = u32;
        type Error = std::convert::Infallible;

        fn after(&mut self, lane: Option<&str>) -> Result<Option<String>, Self::Error> {
            Ok(self.0.keys().find(|key| lane.is_none_or(|lane| key.as_str() > lane)).cloned())
        }

        fn next(&mut self, lane: &str) -> Result<Option<u32>, Self::Error> {
            Ok(self.0.get_mut(lane).and_then(VecDeque::pop_front))
        }
    }

    fn state(cursor: Option<&str>, per_key: Option<u32>) -> QueueState {
        let limits = QueueLimits { per_key, ..QueueLimits::default() };
        QueueState { limits, cursor: cursor.map(str::to_owned), ..QueueState::default() }
    }

    fn run(number: u8) -> RunId {
        RunId::from_bytes([number; 16])
    }

    fn chosen(rows: &[(&str, &[u32])], state: &QueueState, taken: &[&str], most: usize) -> Vec<u32> {
        let slot = |(no, lane): (usize, &&str)| TakenSlot {
            no: no as u32 + 1,
            run: run(no as u8),
            lane: (*lane).to_owned(),
            is_mine: false,
        };
        let load = Load::new(&state.limits, Time(0), taken.iter().enumerate().map(slot), [], &[]);
        let Ok(chosen) = choose(&mut Rows::of(rows), state, &load, most);
        chosen.into_iter().map(|(_, run)| run).collect()
    }

    #[test]
    fn each_lane_has_its_turn() {
        let rows: &[(&str, &[u32])] = &[("=a", &[1, 2, 3]), ("=b", &[4]), ("=c", &[5, 6])];
        assert_eq!(chosen(rows, &state(None, None), &[], 10), [1, 4, 5, 2, 6, 3]);
        assert_eq!(chosen(rows, &state(Some("=a"), None), &[], 4), [4, 5, 1, 6]);
        assert_eq!(chosen(rows, &state(Some("=c"), None), &[], 2), [1, 4]);
        assert!(chosen(rows, &state(Some("=bb"), None), &[], 0).is_empty());
    }

    #[test]
    fn a_lane_at_its_limit_is_passed_over_and_those_without_a_key_have_none() {
        let rows: &[(&str, &[u32])] = &[("", &[7, 8, 9]), ("=a", &[1, 2, 3]), ("=b", &[4])];
        assert_eq!(chosen(rows, &state(None, Some(2)), &["=a"], 10), [7, 1, 4, 8, 9]);
        assert_eq!(chosen(rows, &state(None, Some(1)), &["=a", "", ""], 10), [7, 4, 8, 9]);
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

    #[test]
    fn in_no_span_more_are_taken_than_the_rate_says() {
        let rate = Rate { count: 3, per: Duration::from_micros(100) };
        let begun = [(Time(0), 1), (Time(50), 2)];
        assert_eq!(rate.left(Time(50), &begun), (0, Some(Time(100))));
        assert_eq!(rate.left(Time(99), &begun), (0, Some(Time(100))));
        assert_eq!(rate.left(Time(100), &begun), (1, None));
        assert_eq!(rate.left(Time(150), &begun), (3, None));
        let lowered = Rate { count: 1, ..rate };
        assert_eq!(lowered.left(Time(60), &begun), (0, Some(Time(150))));
    }

    #[test]
    fn a_clock_that_is_put_back_stops_a_queue_for_two_spans_at_most() {
        let rate = Rate { count: 1, per: Duration::from_micros(100) };
        assert_eq!(rate.left(Time(1_000), &[(Time(1_100), 1)]), (0, Some(Time(1_200))));
        assert_eq!(rate.left(Time(1_000), &[(Time(1_101), 1)]), (1, None));
    }

    #[test]
    fn a_long_span_is_noted_in_a_thousand_parts_and_never_too_early() {
        let day = Rate { count: 1, per: Duration::from_secs(86_400) };
        let grain = 86_400_000;
        assert_eq!(day.noted(Time(0)), Time(0));
        assert_eq!((day.noted(Time(1)), day.noted(Time(grain))), (Time(grain), Time(grain)));
        assert_eq!(Rate { count: 1, per: Duration::from_micros(999) }.noted(Time(7)), Time(7));
    }
}
