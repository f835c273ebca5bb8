//! How a database does as a whole.

use std::{sync::Arc, time::Duration};

use windlass_core::{RunState, Time};
use windlass_store::QueueBacklog;

use crate::{
    Client, Error,
    counts::StateCount,
    reserved::{is_reserved, wrong_queue},
};

/// How many minutes are shown.
const POINTS: i64 = 60;
/// About how many runs are looked at.
const LOOK: usize = 5_000;

/// How a database does as a whole.
#[derive(Clone, Debug)]
pub struct Overview {
    /// How many runs there are, by state.
    pub states: Vec<StateCount>,
    /// The last hour, minute by minute, the oldest first. The last minute has not passed yet.
    pub series: Vec<Minute>,
    /// Every queue in which runs wait or are under way, by name, whether or not it was declared.
    pub queues: Vec<QueueLoad>,
    /// How late the run is that should have gone on first of those that wait for a time; zero when none is late.
    pub lateness: Duration,
}

/// What happened in a minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Minute {
    /// When it began.
    pub at: Time,
    /// How many runs began.
    pub started: u64,
    /// How many runs completed.
    pub completed: u64,
    /// How many runs failed or were abandoned.
    pub failed: u64,
}

impl Minute {
    /// How long one is.
    pub const SPAN: Duration = Duration::from_secs(60);
}

/// What is in a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueLoad {
    /// Its name.
    pub name: Arc<str>,
    /// How many of its runs could begin, or go on, but for limits and room.
    pub waiting: u64,
    /// How many of its runs are under way.
    pub running: u64,
    /// For how long the one of those that wait could have begun that was started first.
    pub oldest: Option<Duration>,
}

impl Client {
    /// How this database does as a whole. It takes no longer when there are millions of runs.
    ///
    /// # Errors
    ///
    /// When the store cannot be asked.
    pub async fn overview(&self) -> Result<Overview, Error> {
        let (store, now) = (&self.hub().store, self.now());
        let states = self.runs().counts().await?;
        let step = Minute::SPAN.as_micros() as i64;
        let first = now.0.div_euclid(step) - POINTS + 1;
        let minute = |no| Minute { at: Time(no * step), started: 0, completed: 0, failed: 0 };
        let mut series: Vec<Minute> = (first..first + POINTS).map(minute).collect();
        let tallies = store.tallies(Time(first * step)).await?;
        for tally in tallies.into_iter().filter(|tally| !is_reserved(&tally.workflow)) {
            let place = usize::try_from(tally.at.0.div_euclid(step) - first).ok();
            let Some(minute) = place.and_then(|place| series.get_mut(place)) else { continue };
            let count = u64::try_from(tally.count).unwrap_or(0);
            match tally.state {
                RunState::Running => minute.started += count,
                RunState::Completed => minute.completed += count,
                RunState::Failed | RunState::Abandoned => minute.failed += count,
                _ => {}
            }
        }
        let backlog = store.backlog(LOOK).await?;
        let load = |queue: QueueBacklog| QueueLoad {
            name: queue.name,
            waiting: queue.ready,
            running: queue.held,
            oldest: queue.oldest.map(|oldest| now.since(oldest)),
        };
        let queues = backlog.queues.into_iter().filter(|queue| wrong_queue(&queue.name).is_none());
        let lateness = backlog.due.map_or(Duration::ZERO, |due| now.since(due));
        Ok(Overview { states, series, queues: queues.map(load).collect(), lateness })
    }
}
