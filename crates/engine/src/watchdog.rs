//! Finding code that never yields.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use windlass_core::{RunId, Time};

use crate::{Cx, metric};

/// An attempt that is past its limit and cannot be stopped, because its code does not yield.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overdue {
    /// The run.
    pub run: RunId,
    /// The workflow.
    pub workflow: String,
    /// The task, with the element's place in a `for_each`.
    pub step: String,
    /// Which attempt.
    pub attempt: u32,
    /// When it should have ended.
    pub due: Time,
}

/// Knows the attempts that have a limit, and reports those that are past it.
///
/// An attempt's own timer stops it when it yields. This finds those that do not: it runs on a thread that
/// user code cannot hold up.
#[derive(Debug, Default)]
pub(crate) struct Watchdog {
    watched: Arc<Mutex<HashMap<u64, Entry>>>,
    next: AtomicU64,
}

#[derive(Debug)]
struct Entry {
    overdue: Overdue,
    reported: bool,
    cx: Cx,
}

impl Entry {
    /// Whether it is past its limit. What waits without a slot is not, and has as much more time afterwards.
    fn is_late(&self, now: Time) -> bool {
        let waited = self.cx.inner().pulse.waited();
        waited.is_some_and(|waited| self.overdue.due + waited + MARGIN < now)
    }
}

/// How long an attempt may be late before it is reported: its own timer comes first.
const MARGIN: Duration = Duration::from_millis(1000);

/// One attempt that is watched, until this is dropped.
#[derive(Debug)]
pub(crate) struct Watched {
    number: u64,
    watched: Arc<Mutex<HashMap<u64, Entry>>>,
}

impl Watchdog {
    pub(crate) fn watch(&self, cx: &Cx, started_at: impl FnOnce() -> Time) -> Option<Watched> {
        let limits = &cx.inner().limits;
        let by_timeout = limits.timeout.map(|limit| started_at() + limit);
        let due = [by_timeout, limits.deadline.map(|(at, _)| at)].into_iter().flatten().min()?;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let overdue = Overdue {
            run: cx.run_id(),
            workflow: cx.workflow().to_owned(),
            step: cx.step().to_string(),
            attempt: cx.attempt(),
            due,
        };
        self.watched.lock().insert(number, Entry { overdue, reported: false, cx: cx.clone() });
        Some(Watched { number, watched: Arc::clone(&self.watched) })
    }

    /// The attempts that are past their limit.
    pub(crate) fn overdue(&self, now: Time) -> Vec<Overdue> {
        let watched = self.watched.lock();
        let late = watched.values().filter(|entry| entry.is_late(now));
        late.map(|entry| entry.overdue.clone()).collect()
    }

    /// Reports, once each, the attempts that are past their limit.
    pub(crate) fn report(&self, now: Time) {
        let mut watched = self.watched.lock();
        let mut late = 0;
        for entry in watched.values_mut().filter(|entry| entry.is_late(now)) {
            late += 1;
            if !entry.reported {
                entry.reported = true;
                let Overdue { run, workflow, step, attempt, due } = &entry.overdue;
                tracing::error!(
                    %run, workflow, step, attempt, overdue_by = ?now.since(*due),
                    "the attempt is past its limit and cannot be stopped, because its code does not yield; its slot \
                     stays taken until it does"
                );
            }
        }
        metric::attempts_overdue(late);
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.watched.lock().remove(&self.number);
    }
}
