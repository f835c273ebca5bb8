//! How an engine behaves, with its defaults.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::{ForeignWaits, Retention, discard::Archive};

/// The queue that runs and tasks are in when nobody says otherwise.
pub(crate) const DEFAULT_QUEUE: &str = "default";

/// How an engine behaves. The builder documents each.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) name: Option<String>,
    pub(crate) version: String,
    pub(crate) heartbeat: Duration,
    pub(crate) stale_after: Duration,
    pub(crate) max_runs: usize,
    pub(crate) queues: BTreeMap<Arc<str>, usize>,
    pub(crate) slots: usize,
    pub(crate) park_after: Duration,
    pub(crate) cancel_grace: Duration,
    pub(crate) stop_grace: Duration,
    pub(crate) max_recoveries: u32,
    pub(crate) poll: Duration,
    /// Whether tokio's clock is the only one there is.
    pub(crate) virtual_time: bool,
    /// Whether durable functions are run again from their top after every step.
    pub(crate) rehearse: bool,
    pub(crate) foreign: ForeignWaits,
    pub(crate) retention: Retention,
    pub(crate) archive: Archive,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            name: None,
            version: String::new(),
            heartbeat: Duration::from_secs(5),
            stale_after: Duration::from_secs(30),
            max_runs: 1000,
            queues: BTreeMap::new(),
            slots: 1000,
            park_after: Duration::from_secs(2),
            cancel_grace: Duration::from_secs(10),
            stop_grace: Duration::from_secs(30),
            max_recoveries: 5,
            poll: Duration::from_secs(5),
            virtual_time: false,
            rehearse: false,
            foreign: ForeignWaits::default(),
            retention: Retention::default(),
            archive: Archive::default(),
        }
    }
}

impl Options {
    /// Every problem with these options.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.heartbeat.is_zero() {
            problems.push("the heartbeat must be longer than zero".to_owned());
        }
        if self.stale_after < self.heartbeat * 3 {
            problems.push(format!(
                "a lease of {:?} is too short for a heartbeat of {:?}: it must be at least three times as long",
                self.stale_after, self.heartbeat
            ));
        }
        if self.max_runs == 0 {
            problems.push("max_runs is zero: the engine could never run anything".to_owned());
        }
        if self.slots == 0 {
            problems.push("slots is zero: no task could ever run".to_owned());
        }
        if self.queues.is_empty() {
            problems.push("the engine serves no queue: name one, or use a client".to_owned());
        }
        #[cfg(feature = "schedule")]
        if self.queues.contains_key(crate::schedule::QUEUE) {
            let own = crate::schedule::QUEUE;
            problems
                .push(format!("queue `{own}` is the engine's own, and served by every engine: leave it out"));
        }
        let empty = self.queues.iter().filter(|(_, slots)| **slots == 0);
        problems
            .extend(empty.map(|(queue, _)| format!("queue `{queue}` has no slots: leave it out instead")));
        problems
    }

    /// How long after the last answered heartbeat this node stops acting by itself: well before others may
    /// declare it dead.
    pub(crate) fn lease(&self) -> Duration {
        self.stale_after - (self.stale_after / 6).min(Duration::from_secs(5))
    }
}
