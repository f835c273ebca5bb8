//! When a schedule fires, before its bounds and its jitter are looked at.

use std::time::Duration;

use super::{
    Cron, Zone,
    zone::{FIRST, LAST},
};
use crate::{Time, format_duration};

/// When a schedule fires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Timing {
    /// Again and again, so long from one time to the next, whatever the runs do. Without a first time, the times are
    /// those that a clock would show that began with 1970: every 15 minutes is every quarter of an hour.
    Every(Duration),
    /// So long after a run has ended.
    AfterFinish(Duration),
    /// By the clocks of a zone.
    Cron(Cron, Zone),
    /// At these instants, in their order.
    At(Vec<Time>),
    /// Only when somebody says so.
    Manual,
}

/// The first and the last instant that is ever a time.
const SEARCHED: (Time, Time) = (Time(FIRST * 1_000_000), Time(LAST * 1_000_000));

impl Timing {
    /// The first time after an instant; `first` is where a fixed rate begins.
    pub(super) fn next(&self, after: Time, first: Option<Time>) -> Option<Time> {
        match self {
            Self::Every(period) => {
                let grid = Grid::new(*period, first);
                grid.time(grid.place(after.max(Time(SEARCHED.0.0 - 1))) + 1)
            }
            Self::Cron(cron, zone) => cron.next(after, zone),
            Self::At(times) => times.get(times.partition_point(|time| *time <= after)).copied(),
            Self::AfterFinish(_) | Self::Manual => None,
        }
    }

    /// The last time before an instant.
    pub(super) fn previous(&self, before: Time, first: Option<Time>) -> Option<Time> {
        match self {
            Self::Every(period) => {
                let grid = Grid::new(*period, first);
                let earlier = Time(before.0.saturating_sub(1)).min(SEARCHED.1);
                grid.time(grid.place(earlier))
            }
            Self::Cron(cron, zone) => cron.previous(before, zone),
            Self::At(times) => times[..times.partition_point(|time| *time < before)].last().copied(),
            Self::AfterFinish(_) | Self::Manual => None,
        }
    }

    /// In words: `every weekday at 09:00 in Europe/Berlin`.
    pub(super) fn in_words(&self) -> String {
        match self {
            Self::Every(period) => format!("every {}", format_duration(*period)),
            Self::AfterFinish(pause) => format!("{} after each run has ended", format_duration(*pause)),
            Self::Cron(cron, zone) if *zone == Zone::utc() && cron.goes_round_the_clock() => cron.in_words(),
            Self::Cron(cron, zone) => format!("{} in {zone}", cron.in_words()),
            Self::At(times) => match times.as_slice() {
                [only] => format!("once, at {only}"),
                [first, .., last] => format!("at {} instants from {first} to {last}", times.len()),
                [] => "never".to_owned(),
            },
            Self::Manual => "only by hand".to_owned(),
        }
    }

    /// As it was asked for: `cron 0 9 * * MON-FRI in Europe/Berlin`.
    pub(super) fn as_written(&self) -> String {
        match self {
            Self::Cron(cron, zone) => format!("cron `{cron}` in {zone}"),
            other => other.in_words(),
        }
    }
}

/// Instants that are equally far from each other.
struct Grid {
    first: i128,
    period: i128,
}

impl Grid {
    fn new(period: Duration, first: Option<Time>) -> Self {
        // A period is checked before a schedule is made of it; nothing is divided by zero even so.
        let period = i128::try_from(period.as_micros()).unwrap_or(i128::MAX).max(1);
        Self { first: first.unwrap_or_default().0.into(), period }
    }

    /// Which of the instants is the last that is not after this one.
    fn place(&self, at: Time) -> i128 {
        (i128::from(at.0) - self.first).div_euclid(self.period)
    }

    fn time(&self, place: i128) -> Option<Time> {
        let at = place.checked_mul(self.period)?.checked_add(self.first)?;
        i64::try_from(at).ok().map(Time).filter(|at| (SEARCHED.0..SEARCHED.1).contains(at))
    }
}
