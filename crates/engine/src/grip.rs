//! Finding code that keeps its thread.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::time::Instant;
use windlass_core::RunId;

use crate::Cx;

/// For how long code may keep its thread before somebody is told.
pub(crate) const LONG: Duration = Duration::from_secs(5);

/// An attempt whose code has a thread, and has not let go of it since it got it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Grip {
    pub(crate) run: RunId,
    pub(crate) workflow: Arc<str>,
    pub(crate) step: Arc<str>,
    pub(crate) attempt: u32,
    /// Which time it is that the code has a thread.
    turn: u32,
}

impl Grip {
    /// Of this attempt, if its code has a thread now. One that runs on the blocking pool keeps it from nobody.
    pub(crate) fn of(cx: &Cx) -> Option<Self> {
        let turn = cx.inner().pulse.turn()?;
        let (run, workflow) = (cx.run_id(), cx.workflow().into());
        Some(Self { run, workflow, step: cx.step(), attempt: cx.attempt(), turn })
    }
}

/// What had a thread when somebody last looked, and since when that is known.
///
/// The watchdog knows when an attempt should have ended. This finds code that no limit says anything about.
#[derive(Debug, Default)]
pub(crate) struct Grips {
    seen: HashMap<Grip, Seen>,
}

#[derive(Debug)]
struct Seen {
    since: Instant,
    is_told: bool,
}

impl Grips {
    /// Takes note of what has a thread now. Answers, once each, what has had it for long.
    pub(crate) fn look(&mut self, now: Instant, grips: Vec<Grip>) -> Vec<(Grip, Duration)> {
        let mut before = std::mem::take(&mut self.seen);
        let mut long = Vec::new();
        for grip in grips {
            let mut seen = before.remove(&grip).unwrap_or(Seen { since: now, is_told: false });
            let held = now - seen.since;
            if held > LONG && !seen.is_told {
                seen.is_told = true;
                long.push((grip.clone(), held));
            }
            self.seen.insert(grip, seen);
        }
        long
    }

    /// The steps whose code had a thread at the last look, for people.
    pub(crate) fn names(&self) -> String {
        let mut names: Vec<_> =
            self.seen.keys().map(|grip| format!("{}/{}", grip.workflow, grip.step)).collect();
        names.sort_unstable();
        names.dedup();
        names.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_that_lets_go_in_between_is_not_told_of_and_code_that_does_not_is_told_of_once() {
        let (mut grips, began) = (Grips::default(), Instant::now());
        let grip = |step: &str, turn| Grip {
            run: RunId::from_bytes([7; 16]),
            workflow: "etl".into(),
            step: step.into(),
            attempt: 1,
            turn,
        };
        let mut told = Vec::new();
        for second in 0..20 {
            let now = began + Duration::from_secs(second);
            let held = vec![grip("stuck", 1), grip("busy", 2 * second as u32 + 1)];
            told.extend(grips.look(now, held).into_iter().map(|(grip, held)| (grip.step, held)));
        }
        assert_eq!(told, [("stuck".into(), Duration::from_secs(6))]);
        assert_eq!(grips.names(), "etl/busy, etl/stuck");
        assert!(grips.look(began + LONG * 9, Vec::new()).is_empty());
        assert_eq!(grips.names(), "");
    }
}
