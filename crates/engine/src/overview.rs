//! How a database does as a whole.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use windlass_core::{RunState, Time};
use windlass_store::Place;

use crate::{Client, Error, counts::StateCount};

/// How many minutes are shown.
const POINTS: i64 = 60;
/// How many runs are looked at.
const LATEST: usize = 1_000;

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
        let now = self.now();
        let states = self.runs().counts().await?;
        let step = Minute::SPAN.as_micros() as i64;
        let first = now.0.div_euclid(step) - POINTS + 1;
        let minute = |no| Minute { at: Time(no * step), started: 0, completed: 0, failed: 0 };
        let mut series: Vec<Minute> = (first..first + POINTS).map(minute).collect();
        let mut count = |at: Time, add: fn(&mut Minute)| {
            let place = usize::try_from(at.0.div_euclid(step) - first).ok();
            place.and_then(|place| series.get_mut(place)).into_iter().for_each(add);
        };
        let (mut queues, mut lateness) = (BTreeMap::<Arc<str>, QueueLoad>::new(), Duration::ZERO);
        for run in self.runs().limit(LATEST).list().await? {
            if run.standing.definition.is_some() {
                count(run.created_at, |minute| minute.started += 1);
            }
            let name = Arc::clone(&run.queue);
            let mut load = |waiting, running, oldest: Option<Duration>| {
                let new = QueueLoad { name: Arc::clone(&name), waiting: 0, running: 0, oldest: None };
                let queue = queues.entry(Arc::clone(&name)).or_insert(new);
                queue.waiting += waiting;
                queue.running += running;
                queue.oldest = queue.oldest.max(oldest);
            };
            match &run.standing.place {
                Place::Ready => load(1, 0, Some(now.since(run.standing.opened_at))),
                Place::Owned { .. } => load(0, 1, None),
                Place::Waiting(wait) => {
                    lateness = lateness.max(wait.until.map_or(Duration::ZERO, |until| now.since(until)));
                }
                Place::Ended(end) => match end.state {
                    RunState::Completed => count(end.at, |minute| minute.completed += 1),
                    RunState::Failed | RunState::Abandoned => count(end.at, |minute| minute.failed += 1),
                    _ => {}
                },
            }
        }
        Ok(Overview { states, series, queues: queues.into_values().collect(), lateness })
    }
}
