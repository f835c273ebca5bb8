//! Rate limits: how often a handler may begin in this process.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use windlass_core::{RunId, Time};

/// How often a handler may begin.
#[derive(Clone, Copy, Debug)]
pub struct RateParts {
    /// So many times.
    pub times: u32,
    /// In every span of this length.
    pub per: Duration,
}

/// Who asks: a run, its visit of the state, and when the attempt was due. It may ask again when it was parked meanwhile.
pub(super) type Asker = (RunId, Arc<str>, Time);

/// The latest turns, of which no more than a number lie in any span of a length.
#[derive(Default)]
pub(super) struct Rate {
    turns: VecDeque<(Time, Asker)>,
    given: HashMap<Asker, Time>,
}

impl Rate {
    /// The time at which the asker may begin. It is taken by asking.
    pub(super) fn turn(&mut self, parts: &RateParts, asker: Asker, now: Time) -> Time {
        while let Some((_, gone)) = self.turns.pop_front_if(|(turn, _)| *turn + parts.per <= now) {
            self.given.remove(&gone);
        }
        if let Some(turn) = self.given.get(&asker) {
            return *turn;
        }
        let before = self.turns.len().checked_sub(parts.times as usize).and_then(|at| self.turns.get(at));
        let turn = before.map_or(now, |(before, _)| now.max(*before + parts.per));
        self.turns.push_back((turn, asker.clone()));
        self.given.insert(asker, turn);
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: RateParts = RateParts { times: 2, per: Duration::from_secs(1) };

    fn asker() -> Asker {
        (RunId::new(), "Paid".into(), Time(0))
    }

    #[test]
    fn no_more_than_so_many_begin_in_any_span() {
        let mut rate = Rate::default();
        let now = Time(10_000_000);
        let turns: Vec<u64> = (0..5).map(|_| rate.turn(&PARTS, asker(), now).since(now).as_secs()).collect();
        assert_eq!(turns, [0, 0, 1, 1, 2]);
        let later = now + Duration::from_secs(10);
        assert_eq!(rate.turn(&PARTS, asker(), later), later);
        assert_eq!((rate.turns.len(), rate.given.len()), (1, 1));
    }

    #[test]
    fn one_that_was_parked_keeps_its_turn() {
        let mut rate = Rate::default();
        let (now, parked) = (Time(10_000_000), asker());
        rate.turn(&PARTS, asker(), now);
        rate.turn(&PARTS, asker(), now);
        let turn = rate.turn(&PARTS, parked.clone(), now);
        assert_eq!(turn, now + PARTS.per);
        assert_eq!(rate.turn(&PARTS, parked, turn), turn);
    }
}
