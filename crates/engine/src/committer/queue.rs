//! What waits to be written.

use parking_lot::Mutex;
use windlass_core::{NodeId, RunId};
use windlass_store::{Act, Unit};

use super::{Lost, Reply};

/// How many units one transaction takes at most. A busy engine commits thousands together, but a bound
/// keeps the memory of one transaction, and the wait of whoever comes next, small.
const LARGEST: usize = 4096;

/// The units that wait to be written, in the order in which they came.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: Batch,
    closed: bool,
}

/// Units, and who waits for their answers.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) units: Vec<Unit>,
    pub(super) repliers: Vec<Replier>,
}

/// Who waits for the answer to a unit.
pub(super) struct Replier {
    pub(super) reply: Reply,
    /// The node that the unit speaks for: set for units that carry a claim.
    pub(super) speaks_for: Option<NodeId>,
    /// The node that would hold the run that a start makes.
    pub(super) holder: Option<NodeId>,
    /// Whether it holds one of the turns of callers while it waits.
    pub(super) is_caller: bool,
    /// Whether the unit is written in one transaction with the one before it.
    pub(super) is_bound: bool,
}

impl Queue {
    /// Adds a unit. Answers whether it is the first; gives the replier back when nothing is written any more.
    pub(super) fn push(&self, unit: Unit, replier: Replier) -> Result<bool, Replier> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(replier);
        }
        state.waiting.units.push(unit);
        state.waiting.repliers.push(replier);
        Ok(state.waiting.units.len() == 1)
    }

    /// Adds units that are written in one transaction. Answers whether they are the first; gives the repliers back when
    /// nothing is written any more.
    #[cfg(feature = "schedule")]
    pub(super) fn push_all(&self, group: Vec<(Unit, Replier)>) -> Result<bool, Vec<Replier>> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(group.into_iter().map(|(_, replier)| replier).collect());
        }
        let is_first = state.waiting.units.is_empty();
        for (at, (unit, replier)) in group.into_iter().enumerate() {
            state.waiting.units.push(unit);
            state.waiting.repliers.push(Replier { is_bound: at > 0, ..replier });
        }
        Ok(is_first && !state.waiting.is_empty())
    }

    /// Takes what waits; but first what has to be written again, alone: with what came since it would grow each time,
    /// and make room for more to come.
    pub(super) fn take(&self, again: Batch) -> Batch {
        if !again.is_empty() {
            return again;
        }
        let mut state = self.state.lock();
        let waiting = &mut state.waiting;
        let rest = if waiting.units.len() > LARGEST {
            let cut = waiting.cut();
            Batch { units: waiting.units.split_off(cut), repliers: waiting.repliers.split_off(cut) }
        } else {
            // The next batch will be about as large.
            let room = waiting.units.len();
            Batch { units: Vec::with_capacity(room), repliers: Vec::with_capacity(room) }
        };
        std::mem::replace(waiting, rest)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.state.lock().waiting.is_empty()
    }

    /// Takes nothing any more, and gives back what still waits.
    pub(super) fn close(&self) -> Batch {
        let mut state = self.state.lock();
        state.closed = true;
        std::mem::take(&mut state.waiting)
    }
}

impl Batch {
    /// Where a batch that is too large is cut: what belongs into one transaction stays together.
    fn cut(&self) -> usize {
        let is_free = |at: &usize| self.repliers.get(*at).is_none_or(|replier| !replier.is_bound);
        let before = (1..=LARGEST).rev().find(is_free);
        before.or_else(|| (LARGEST..).find(is_free)).unwrap_or(LARGEST)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.units.is_empty()
    }

    /// Whose units these are, if somebody wants to know.
    pub(super) fn runs(&self, is_wanted: bool) -> Vec<RunId> {
        if is_wanted { self.units.iter().map(|unit| unit.run).collect() } else { Vec::new() }
    }

    /// How much it brings: one run that goes on in many places at once is as busy as many runs.
    pub(super) fn weight(&self) -> usize {
        let weight = |unit: &Unit| match &unit.act {
            Act::Record { steps, .. } | Act::End { steps, .. } => steps.len().max(1),
            _ => 1,
        };
        self.units.iter().map(weight).sum()
    }

    /// Whether all of it is what takes runs further, handed in by code of ours, which gives its thread up between one
    /// commit and the next. Code of the user's that saves or sends in a loop might not.
    pub(super) fn is_progress(&self) -> bool {
        self.units.iter().all(|unit| matches!(unit.act, Act::Start(_) | Act::Record { .. } | Act::End { .. }))
    }

    /// How many callers' turns are free again, now that this is being written.
    pub(super) fn callers(&mut self) -> usize {
        self.repliers.iter_mut().map(|replier| usize::from(std::mem::take(&mut replier.is_caller))).sum()
    }

    /// What may be written in the name of this node: the rest speaks for one that is gone, and is refused.
    pub(super) fn spoken_for_by(self, is_current: impl Fn(NodeId) -> bool) -> Self {
        if self.repliers.iter().all(|replier| replier.speaks_for.is_none_or(&is_current)) {
            return self;
        }
        let mut current = Self::default();
        for (unit, replier) in self.units.into_iter().zip(self.repliers) {
            if replier.speaks_for.is_none_or(&is_current) {
                current.units.push(unit);
                current.repliers.push(replier);
            } else {
                replier.reply.refuse(Lost::Fenced);
            }
        }
        current
    }

    /// A run that is not started by the node that would hold it is pending for anyone.
    pub(super) fn held_by(mut self, node: Option<NodeId>) -> Self {
        for (unit, replier) in self.units.iter_mut().zip(&self.repliers) {
            if let Act::Start(new) = &mut unit.act
                && replier.holder != node
            {
                new.owner = None;
            }
        }
        self
    }

    pub(super) fn refuse(self, why: &Lost) {
        refuse(self.repliers, why);
    }
}

pub(super) fn refuse(repliers: Vec<Replier>, why: &Lost) {
    for replier in repliers {
        replier.reply.refuse(why.clone());
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::ClaimId;

    use super::*;

    #[test]
    fn what_has_to_be_written_again_does_not_grow() {
        let queue = Queue::default();
        let push = || {
            let run = RunId::new();
            let unit = Unit { run, act: Act::Release { claim: ClaimId::first(run) } };
            let reply = Reply::Then(Box::new(|_, _| {}));
            let replier = Replier { reply, speaks_for: None, holder: None, is_caller: true, is_bound: false };
            assert!(queue.push(unit, replier).is_ok());
        };
        push();
        let again = queue.take(Batch::default());
        (0..LARGEST + 1).for_each(|_| push());
        let again = queue.take(again);
        assert_eq!(again.units.len(), 1);
        assert_eq!(queue.take(Batch::default()).units.len(), LARGEST);
        assert_eq!(queue.take(Batch::default()).units.len(), 1);
    }

    #[cfg(feature = "schedule")]
    #[test]
    fn what_belongs_into_one_transaction_is_never_cut() {
        let queue = Queue::default();
        let group = |units: usize| {
            let one = || {
                let run = RunId::new();
                let unit = Unit { run, act: Act::Release { claim: ClaimId::first(run) } };
                let reply = Reply::Then(Box::new(|_, _| {}));
                (unit, Replier { reply, speaks_for: None, holder: None, is_caller: false, is_bound: false })
            };
            assert!(queue.push_all((0..units).map(|_| one()).collect()).is_ok());
        };
        let taken = || queue.take(Batch::default()).units.len();
        group(LARGEST - 1);
        group(3);
        group(LARGEST + 10);
        assert_eq!(taken(), LARGEST - 1);
        assert_eq!(taken(), 3);
        assert_eq!(taken(), LARGEST + 10, "a group that is larger than any batch is a batch");
        assert_eq!(taken(), 0);
    }
}
