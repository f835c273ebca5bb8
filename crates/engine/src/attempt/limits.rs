//! How long an attempt may take.

use std::{future::Future, time::Duration};

use tokio::time::sleep;
use windlass_core::{Failure, Time};

use crate::{Cx, cx::Pulse, node::Node};

/// How long an attempt may take.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limits {
    pub(crate) timeout: Option<Duration>,
    pub(crate) beat_timeout: Option<Duration>,
    /// When its task has taken too long, with all its attempts, and how long that is.
    pub(crate) deadline: Option<(Time, Duration)>,
}

impl Limits {
    pub(crate) const fn is_none(&self) -> bool {
        self.timeout.is_none() && self.beat_timeout.is_none() && self.deadline.is_none()
    }
}

/// Waits for an attempt, but not beyond its limits.
pub(crate) async fn within<F, T>(mut body: F, node: &Node, cx: &Cx) -> Result<T, Failure>
where
    F: Future<Output = Result<T, Failure>> + Unpin,
{
    let (limits, pulse) = (&cx.inner().limits, &cx.inner().pulse);
    if limits.is_none() {
        return body.await;
    }
    loop {
        let wait = match next_check(limits, pulse, node.hub.clock.now()) {
            Ok(wait) => wait,
            Err(failure) => {
                cx.inner().stop.set();
                return Err(failure);
            }
        };
        tokio::select! {
            biased;
            outcome = &mut body => return outcome,
            () = sleep(wait) => {}
        }
    }
}

/// Refuses an attempt that is past a limit.
#[cfg(feature = "sqlite")]
pub(super) fn check(node: &Node, cx: &Cx) -> Result<(), Failure> {
    next_check(&cx.inner().limits, &cx.inner().pulse, node.hub.clock.now()).map(drop)
}

/// How long until a limit may be passed, or the failure when one is.
fn next_check(limits: &Limits, pulse: &Pulse, now: Time) -> Result<Duration, Failure> {
    /// While an attempt is deferred, its limits stand still; look again after a while.
    const LATER: Duration = Duration::from_secs(1);
    let mut wait = Duration::MAX;
    if let Some(limit) = limits.timeout {
        match pulse.worked() {
            Some(worked) if worked >= limit => return Err(Failure::timed_out(limit)),
            worked => wait = wait.min(worked.map_or(LATER, |worked| limit - worked)),
        }
    }
    if let Some(limit) = limits.beat_timeout {
        match pulse.quiet() {
            Some(quiet) if quiet >= limit => return Err(Failure::beat_lost(limit)),
            quiet => wait = wait.min(quiet.map_or(LATER, |quiet| limit - quiet)),
        }
    }
    if let Some((at, after)) = limits.deadline {
        if at <= now {
            return Err(Failure::deadline_exceeded(after));
        }
        wait = wait.min(at.since(now));
    }
    // Timers have a resolution of a millisecond, and waking early would only mean asking again.
    Ok(wait.saturating_add(Duration::from_micros(500)))
}
