//! How a measurement went, slice by slice.

use std::{
    collections::BTreeMap,
    future::Future,
    pin::pin,
    time::{Duration, Instant},
};

use serde::Serialize;
use tokio::time::{MissedTickBehavior, interval};

use crate::{Result, database::Postgres, report::round, workload::roll::Roll};

/// The shortest slice: looking costs something too.
const SHORTEST: Duration = Duration::from_millis(100);

/// How wide the longest bar of a chart is.
const WIDTH: f64 = 30.0;

/// What happened in a stretch of time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Slice {
    /// When it ended, from the beginning.
    pub(crate) until_s: f64,
    /// How much was done in it.
    pub(crate) tasks_per_s: f64,
    /// The rows that nobody can see any more and that are still there at its end, by table.
    pub(crate) dead_rows: BTreeMap<String, u64>,
}

impl Slice {
    fn dead(&self) -> u64 {
        self.dead_rows.values().sum()
    }
}

/// Does the work, and looks at it every so often. `tasks` is how many each answer on the roll stands for.
pub(crate) async fn watch<T>(
    database: &Postgres,
    roll: &Roll,
    tasks: u64,
    every: Duration,
    work: impl Future<Output = Result<T>>,
) -> Result<(T, Vec<Slice>)> {
    let (begin, mut slices) = (Instant::now(), Vec::new());
    let mut ticks = interval(every.max(SHORTEST));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first comes at once.
    ticks.tick().await;
    let mut work = pin!(work);
    let (mut then, mut before) = (0.0, 0);
    loop {
        tokio::select! {
            // What is shorter than a slice says nothing.
            done = &mut work => return Ok((done?, slices)),
            _ = ticks.tick() => {
                let (now, present) = (begin.elapsed().as_secs_f64(), roll.present());
                let tasks_per_s = round(((present - before) * tasks) as f64 / (now - then));
                let dead_rows = database.dead_rows().await?;
                slices.push(Slice { until_s: round(now), tasks_per_s, dead_rows });
                (then, before) = (now, present);
            }
        }
    }
}

/// What the last third did, as a part of what the first third did: less than 1 is slower. Nothing when there are too
/// few slices to tell. Those in which everything begins are left out.
pub(crate) fn late_of_early(slices: &[Slice]) -> Option<f64> {
    let begun = slices.iter().position(|slice| slice.tasks_per_s > 0.0)?;
    let steady = &slices[begun + 1..];
    let third = steady.len() / 3;
    if third == 0 {
        return None;
    }
    let sum = |part: &[Slice]| part.iter().map(|slice| slice.tasks_per_s).sum::<f64>();
    Some(sum(&steady[steady.len() - third..]) / sum(&steady[..third]))
}

/// The slices for people: a line for each, with two bars.
pub(crate) fn chart(slices: &[Slice]) -> String {
    let most = |value: fn(&Slice) -> f64| slices.iter().map(value).fold(1.0, f64::max);
    let (rate, dead) = (|slice: &Slice| slice.tasks_per_s, |slice: &Slice| slice.dead() as f64);
    let (most_rate, most_dead) = (most(rate), most(dead));
    let mut text = format!("  {:>7}  {:>9}  {:<30}  {:>9}\n", "until s", "tasks/s", "", "dead rows");
    for slice in slices {
        let line = format!(
            "  {:>7.1}  {:>9.0}  {:<30}  {:>9}  {}",
            slice.until_s,
            slice.tasks_per_s,
            bar(rate(slice), most_rate),
            slice.dead(),
            bar(dead(slice), most_dead),
        );
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn bar(value: f64, most: f64) -> String {
    "█".repeat((value / most * WIDTH).round() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slices(rates: &[f64]) -> Vec<Slice> {
        let slice = |(at, rate): (usize, &f64)| Slice {
            until_s: at as f64 + 1.0,
            tasks_per_s: *rate,
            dead_rows: BTreeMap::from([("ready".to_string(), at as u64 * 100)]),
        };
        rates.iter().enumerate().map(slice).collect()
    }

    #[test]
    fn a_rate_that_falls_is_seen_whatever_the_beginning_was_like() {
        assert_eq!(late_of_early(&slices(&[1.0, 100.0, 80.0, 60.0, 50.0])), Some(0.5));
        assert_eq!(late_of_early(&slices(&[0.0, 0.0, 1.0, 100.0, 10.0, 100.0])), Some(1.0));
        assert_eq!(late_of_early(&slices(&[1.0, 100.0, 80.0])), None, "two slices are no course");
        assert_eq!(late_of_early(&[]), None);
    }

    #[test]
    fn the_longest_bars_are_those_of_the_most() {
        let chart = chart(&slices(&[1_000.0, 500.0]));
        let widths: Vec<usize> = chart.lines().map(|line| line.matches('█').count()).collect();
        assert_eq!(widths, [0, 30, 15 + 30], "{chart}");
    }
}
