//! Runs that this process holds by the store, and has dropped from its memory.

use std::collections::HashMap;

use parking_lot::Mutex;
use windlass_core::{ClaimId, RunId};

/// For how many heartbeats one that is dropped again and again is left alone at most, and how soon what goes on is
/// forgotten.
const MOST: u32 = 64;

/// Runs that were dropped although they are this node's: a record could not be written, or the engine itself failed in
/// one. Nobody else may go on with them while this process lives, so it does.
///
/// One that is dropped again at once would be executed again with every heartbeat, so each time it is left alone for twice
/// as long.
#[derive(Default)]
pub(crate) struct Forsaken {
    runs: Mutex<HashMap<(RunId, ClaimId), Turn>>,
}

#[derive(Default)]
struct Turn {
    /// How many times it was dropped.
    times: u32,
    /// Whether it is dropped now.
    is_dropped: bool,
    /// How many heartbeats are left until it is taken up, or forgotten.
    left: u32,
}

impl Forsaken {
    /// Notes that a run was dropped.
    pub(crate) fn add(&self, run: RunId, claim: ClaimId) {
        let mut runs = self.runs.lock();
        let turn = runs.entry((run, claim)).or_default();
        let left = 1_u32.checked_shl(turn.times).unwrap_or(MOST).min(MOST);
        *turn = Turn { times: turn.times + 1, is_dropped: true, left };
    }

    /// Counts a heartbeat. Answers what is to be taken up now.
    pub(crate) fn beat(&self) -> Vec<(RunId, ClaimId)> {
        let mut runs = self.runs.lock();
        for turn in runs.values_mut() {
            turn.left = turn.left.saturating_sub(1);
        }
        runs.retain(|_, turn| turn.is_dropped || turn.left > 0);
        runs.iter().filter(|(_, turn)| turn.is_dropped && turn.left == 0).map(|(run, _)| *run).collect()
    }

    /// Notes that a run was taken up, or is somebody else's.
    pub(crate) fn settled(&self, run: RunId, claim: ClaimId) {
        if let Some(turn) = self.runs.lock().get_mut(&(run, claim)) {
            (turn.is_dropped, turn.left) = (false, MOST);
        }
    }

    /// Forgets all of them: they were held under a name that this process has lost.
    pub(crate) fn clear(&self) {
        self.runs.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_is_dropped_again_and_again_is_left_alone_for_longer_each_time() {
        let (forsaken, run) = (Forsaken::default(), (RunId::new(), ClaimId::new()));
        let mut waits = Vec::new();
        for _ in 0..9 {
            forsaken.add(run.0, run.1);
            waits.push((1..).find(|_| forsaken.beat() == [run]));
            assert_eq!(forsaken.beat(), [run], "until it is taken up, it is asked for again");
            forsaken.settled(run.0, run.1);
            assert_eq!(forsaken.beat(), []);
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 64, 64].map(Some));
        (0..MOST).for_each(|_| assert_eq!(forsaken.beat(), []));
        assert!(forsaken.runs.lock().is_empty(), "what goes on is forgotten");
    }
}
