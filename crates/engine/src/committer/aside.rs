//! What waits for a stranger's transaction.

use std::{
    collections::{HashMap, VecDeque},
    mem,
};

use parking_lot::Mutex;
use tokio::sync::Notify;
use windlass_store::{Act, Refusal, Unit, Written};

use super::{
    Way,
    queue::{Batch, Replier},
};

/// How many units may be set aside. More of them hold up those that come after them, until callers have to wait.
const MOST: usize = 10_000;
/// How many are written again at once: each may have to wait, and what was written before it waits with it.
const AT_ONCE: usize = 16;

/// Units that have met a transaction of a stranger's, which may never end. They are written again and again, apart from
/// all others, so that nobody waits behind them.
#[derive(Default)]
pub(super) struct Aside {
    state: Mutex<State>,
    added: Notify,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<(Unit, Replier)>,
    /// What these want, and how many want it, with those that are being written.
    wanted: HashMap<Wanted, usize>,
    /// What is being written.
    written: Vec<Wanted>,
    closed: bool,
}

/// What a unit has to wait for while somebody else has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Wanted {
    /// The key of a workflow, or of a run's messages.
    Key(String, String),
    /// A queue that is not declared yet.
    Queue(String),
}

impl Wanted {
    fn of(unit: &Unit) -> Option<Self> {
        match &unit.act {
            Act::Start(new) => match &new.key {
                Some(key) => Some(Self::Key(new.workflow.to_string(), key.key.clone())),
                None => Some(Self::Queue(new.queue.to_string())),
            },
            Act::Send(message) => Some(Self::Key(unit.run.to_string(), message.key.clone()?)),
            _ => None,
        }
    }
}

impl State {
    fn add(&mut self, unit: Unit, replier: Replier) {
        if let Some(wanted) = Wanted::of(&unit) {
            *self.wanted.entry(wanted).or_default() += 1;
        }
        self.waiting.push_back((unit, replier));
    }

    /// What was being written is so no more: it has its answers, or was added again.
    fn done(&mut self) {
        for wanted in mem::take(&mut self.written) {
            let Some(count) = self.wanted.get_mut(&wanted) else { continue };
            *count -= 1;
            if *count == 0 {
                self.wanted.remove(&wanted);
            }
        }
    }
}

impl Aside {
    /// Sets aside what wants the same as something here, and gives back the rest.
    pub(super) fn divert(&self, batch: Batch) -> Batch {
        let mut state = self.state.lock();
        if state.wanted.is_empty() {
            return batch;
        }
        let mut rest = Batch::default();
        for (unit, replier) in batch.units.into_iter().zip(batch.repliers) {
            let is_wanted = Wanted::of(&unit).is_some_and(|wanted| state.wanted.contains_key(&wanted));
            if is_wanted && state.has_room() {
                state.add(unit, replier);
            } else {
                rest.units.push(unit);
                rest.repliers.push(replier);
            }
        }
        drop(state);
        self.added.notify_one();
        rest
    }

    /// Sets aside what had to wait for too long. Gives back the repliers and the answers of all else, whose units stay,
    /// and what there is no room for.
    pub(super) fn set_aside(
        &self,
        units: &mut Vec<Unit>,
        repliers: Vec<Replier>,
        answers: Vec<Result<Written, Refusal>>,
    ) -> (Vec<Replier>, Vec<Result<Written, Refusal>>, Batch) {
        if !answers.contains(&Err(Refusal::Busy)) {
            return (repliers, answers, Batch::default());
        }
        let (mut answered, mut rest, mut again) = ((Vec::new(), Vec::new()), Vec::new(), Batch::default());
        let mut state = self.state.lock();
        let is_first = state.wanted.is_empty();
        for ((unit, replier), answer) in mem::take(units).into_iter().zip(repliers).zip(answers) {
            if answer != Err(Refusal::Busy) {
                rest.push(unit);
                answered.0.push(replier);
                answered.1.push(answer);
            } else if state.has_room() {
                state.add(unit, replier);
            } else {
                again.units.push(unit);
                again.repliers.push(replier);
            }
        }
        if is_first {
            tracing::warn!(
                units = state.waiting.len(),
                "a transaction of somebody else's has taken keys and does not end; whoever wants these waits for it"
            );
        }
        drop(state);
        self.added.notify_one();
        *units = rest;
        (answered.0, answered.1, again)
    }

    /// Takes what has waited longest, and says how it is written: what speaks for a node is written in its name, and
    /// apart from what needs none.
    pub(super) fn take(&self) -> (Batch, Way) {
        let mut state = self.state.lock();
        state.done();
        let speaks = |replier: &Replier| replier.speaks_for.is_some();
        let way = match state.waiting.front() {
            Some((_, replier)) if speaks(replier) => Way::Keyed,
            _ => Way::Nameless,
        };
        let mut batch = Batch::default();
        while batch.units.len() < AT_ONCE
            && state.waiting.front().is_some_and(|(_, replier)| speaks(replier) == (way == Way::Keyed))
        {
            let Some((unit, replier)) = state.waiting.pop_front() else { break };
            state.written.extend(Wanted::of(&unit));
            batch.units.push(unit);
            batch.repliers.push(replier);
        }
        (batch, way)
    }

    /// Takes back what could not be written.
    pub(super) fn put_back(&self, batch: Batch) {
        let mut state = self.state.lock();
        for (unit, replier) in batch.units.into_iter().zip(batch.repliers) {
            state.add(unit, replier);
        }
    }

    /// Waits until there may be more.
    pub(super) async fn added(&self) {
        self.added.notified().await;
    }

    /// Takes nothing any more, and gives back what is here.
    pub(super) fn close(&self) -> Batch {
        let mut state = self.state.lock();
        state.closed = true;
        let (units, repliers) = mem::take(&mut state.waiting).into_iter().unzip();
        Batch { units, repliers }
    }
}

impl State {
    fn has_room(&self) -> bool {
        !self.closed && self.waiting.len() < MOST
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::RunId;
    use windlass_store::NewMessage;

    use super::*;
    use crate::committer::Reply;

    fn batch(keys: &[&str], run: RunId) -> Batch {
        let mut batch = Batch::default();
        for key in keys {
            let message = NewMessage { topic: "go".into(), body: "1".into(), key: Some((*key).into()) };
            let reply = Reply::Then(Box::new(|_, _| {}));
            batch.units.push(Unit { run, act: Act::Send(message) });
            batch.repliers.push(Replier {
                reply,
                speaks_for: None,
                holder: None,
                is_caller: true,
                is_bound: false,
            });
        }
        batch
    }

    fn keys(batch: &Batch) -> Vec<&str> {
        batch
            .units
            .iter()
            .filter_map(|unit| match &unit.act {
                Act::Send(message) => message.key.as_deref(),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn whoever_wants_a_key_that_is_waited_for_waits_for_it_aside() {
        let (aside, run) = (Aside::default(), RunId::new());
        let Batch { mut units, repliers } = batch(&["a", "b"], run);
        let done = Ok(Written::TooLate);
        let (answered, answers, again) =
            aside.set_aside(&mut units, repliers, vec![Err(Refusal::Busy), done.clone()]);
        assert!(answered.len() == 1 && answers == [done] && units.len() == 1 && again.is_empty());
        assert_eq!(keys(&aside.divert(batch(&["b", "a", "c"], run))), ["b", "c"]);
        assert_eq!(
            keys(&aside.divert(batch(&["a"], RunId::new()))),
            ["a"],
            "another run's key is another key"
        );

        // While they are written, and when some of them have to wait again.
        let (Batch { mut units, repliers }, way) = aside.take();
        assert_eq!((units.len(), way), (2, Way::Nameless));
        assert!(aside.divert(batch(&["a"], run)).is_empty());
        let all = vec![Err(Refusal::Busy), Ok(Written::TooLate)];
        aside.set_aside(&mut units, repliers, all);
        assert_eq!(keys(&aside.take().0), ["a", "a"]);
        assert!(aside.take().0.is_empty());
        assert_eq!(keys(&aside.divert(batch(&["a"], run))), ["a"], "nobody waits for it any more");
    }
}
