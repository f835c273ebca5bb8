//! Whose turn it is in a queue.

use std::collections::VecDeque;

use windlass_core::Time;

use crate::{Load, QueueState};

/// The lane that a run waits in: one for each key, and one for all that have none, which comes first.
#[must_use]
pub fn lane(queue_key: Option<&str>) -> String {
    queue_key.map_or_else(String::new, |key| format!("={key}"))
}

/// Where the ready runs of a queue are read from, lane by lane.
pub trait Lanes {
    /// A ready run.
    type Run;
    /// Why it cannot be read.
    type Error;

    /// The first lane after this one, or of all.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    fn after(&mut self, lane: Option<&str>) -> Result<Option<String>, Self::Error>;

    /// How many of a lane the rate of its key lets be taken now, and, when that is none, when the next one may be.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    fn left(&mut self, lane: &str) -> Result<(usize, Option<Time>), Self::Error>;

    /// The most urgent run of a lane that was not given before, if there is one.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    fn next(&mut self, lane: &str) -> Result<Option<Self::Run>, Self::Error>;
}

/// What was chosen from the lanes of a queue.
#[derive(Clone, Debug)]
pub struct Choice<R> {
    /// What was chosen, with its lane, in the order of turns.
    pub chosen: Vec<(String, R)>,
    /// The lanes that were passed over since the rate of their key lets none be taken before this.
    pub resting: Vec<(String, Time)>,
    /// Whether more would have been chosen if there were more: then every lane was looked at.
    pub is_all: bool,
}

impl<R> Choice<R> {
    /// When the rate of a key lets the next one be taken, if that is all that it waits for.
    #[must_use]
    pub fn next(&self) -> Option<Time> {
        self.resting.iter().map(|(_, until)| *until).min().filter(|_| self.is_all)
    }

    /// What was chosen, without the lanes.
    pub fn into_runs(self) -> impl Iterator<Item = R> {
        self.chosen.into_iter().map(|(_, run)| run)
    }
}

/// Chooses up to `most` runs: one of each lane in turn, beginning after the lane that had the last turn, and of each no
/// more than the limits allow.
///
/// # Errors
///
/// Those of the lanes.
pub fn choose<L: Lanes>(
    lanes: &mut L,
    state: &QueueState,
    load: &Load,
    most: usize,
) -> Result<Choice<L::Run>, L::Error> {
    let mut choice = Choice { chosen: Vec::new(), resting: Vec::new(), is_all: false };
    if most == 0 {
        return Ok(choice);
    }
    let mut open = VecDeque::new();
    let (mut last, mut is_around) = (state.cursor.clone(), state.cursor.is_none());
    loop {
        let lane = lanes.after(last.as_deref())?;
        let is_over = |lane: &String| is_around && state.cursor.as_ref().is_some_and(|cursor| lane > cursor);
        let Some(lane) = lane.filter(|lane| !is_over(lane)) else {
            if is_around {
                break;
            }
            (last, is_around) = (None, true);
            continue;
        };
        last = Some(lane.clone());
        let (allowed, next) = allowance(lanes, state, &lane)?;
        if allowed == 0 {
            choice.resting.push((lane, next.unwrap_or(Time::MAX)));
            continue;
        }
        let left = load.lane_left(&state.limits, &lane).min(allowed);
        if left > 0
            && let Some(run) = lanes.next(&lane)?
        {
            choice.chosen.push((lane.clone(), run));
            if choice.chosen.len() == most {
                return Ok(choice);
            }
            open.push_back((lane, left - 1));
        }
    }
    while let Some((lane, left)) = open.pop_front() {
        if left > 0
            && let Some(run) = lanes.next(&lane)?
        {
            choice.chosen.push((lane.clone(), run));
            if choice.chosen.len() == most {
                return Ok(choice);
            }
            open.push_back((lane, left - 1));
        }
    }
    choice.is_all = true;
    Ok(choice)
}

/// How many of a lane its key's rate allows. There is none for those without a key.
fn allowance<L: Lanes>(
    lanes: &mut L,
    state: &QueueState,
    lane: &str,
) -> Result<(usize, Option<Time>), L::Error> {
    match state.limits.key_rate {
        Some(_) if !lane.is_empty() => lanes.left(lane),
        _ => Ok((usize::MAX, None)),
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, time::Duration};

    use windlass_core::RunId;

    use super::*;
    use crate::{QueueLimits, Rate, TakenSlot};

    struct Rows(BTreeMap<String, VecDeque<u32>>);

    impl Rows {
        fn of(rows: &[(&str, &[u32])]) -> Self {
            Self(
                rows.iter()
                    .map(|(lane, runs)| ((*lane).to_owned(), runs.iter().copied().collect()))
                    .collect(),
            )
        }
    }

    impl Lanes for Rows {
        type Run = u32;
        type Error = std::convert::Infallible;

        fn after(&mut self, lane: Option<&str>) -> Result<Option<String>, Self::Error> {
            Ok(self.0.keys().find(|key| lane.is_none_or(|lane| key.as_str() > lane)).cloned())
        }

        /// A key's name says how many it may have.
        fn left(&mut self, lane: &str) -> Result<(usize, Option<Time>), Self::Error> {
            let count = lane.get(2..).and_then(|count| count.parse().ok()).unwrap_or(usize::MAX);
            Ok((count, (count == 0).then_some(Time(lane.as_bytes()[1].into()))))
        }

        fn next(&mut self, lane: &str) -> Result<Option<u32>, Self::Error> {
            Ok(self.0.get_mut(lane).and_then(VecDeque::pop_front))
        }
    }

    fn state(cursor: Option<&str>, per_key: Option<u32>) -> QueueState {
        let limits = QueueLimits { per_key, ..QueueLimits::default() };
        QueueState { limits, cursor: cursor.map(str::to_owned), ..QueueState::default() }
    }

    fn run(number: u8) -> RunId {
        RunId::from_bytes([number; 16])
    }

    fn chosen(rows: &[(&str, &[u32])], state: &QueueState, taken: &[&str], most: usize) -> Vec<u32> {
        let slot = |(no, lane): (usize, &&str)| TakenSlot {
            no: no as u32 + 1,
            run: run(no as u8),
            lane: (*lane).to_owned(),
            is_mine: false,
        };
        let load = Load::new(&state.limits, Time(0), taken.iter().enumerate().map(slot), [], &[]);
        let Ok(choice) = choose(&mut Rows::of(rows), state, &load, most);
        choice.into_runs().collect()
    }

    #[test]
    fn each_lane_has_its_turn() {
        let rows: &[(&str, &[u32])] = &[("=a", &[1, 2, 3]), ("=b", &[4]), ("=c", &[5, 6])];
        assert_eq!(chosen(rows, &state(None, None), &[], 10), [1, 4, 5, 2, 6, 3]);
        assert_eq!(chosen(rows, &state(Some("=a"), None), &[], 4), [4, 5, 1, 6]);
        assert_eq!(chosen(rows, &state(Some("=c"), None), &[], 2), [1, 4]);
        assert!(chosen(rows, &state(Some("=bb"), None), &[], 0).is_empty());
    }

    #[test]
    fn a_lane_at_its_limit_is_passed_over_and_those_without_a_key_have_none() {
        let rows: &[(&str, &[u32])] = &[("", &[7, 8, 9]), ("=a", &[1, 2, 3]), ("=b", &[4])];
        assert_eq!(chosen(rows, &state(None, Some(2)), &["=a"], 10), [7, 1, 4, 8, 9]);
        assert_eq!(chosen(rows, &state(None, Some(1)), &["=a", "", ""], 10), [7, 4, 8, 9]);
    }

    #[test]
    fn a_key_that_has_begun_enough_is_passed_over_and_says_when_it_is_due() {
        let rows: &[(&str, &[u32])] = &[("", &[7]), ("=a1", &[1, 2]), ("=b0", &[3]), ("=c2", &[4, 5, 6])];
        let key_rate = Some(Rate { count: 9, per: Duration::from_secs(1) });
        let limits = QueueLimits { key_rate, ..QueueLimits::NONE };
        let state = QueueState { limits, ..QueueState::default() };
        let load = Load::new(&limits, Time(0), [], [], &[]);
        let choose = |most| {
            let Ok(choice) = choose(&mut Rows::of(rows), &state, &load, most);
            (choice.next(), choice.into_runs().collect::<Vec<_>>())
        };
        assert_eq!(choose(9), (Some(Time(b'b'.into())), vec![7, 1, 4, 5]));
        assert_eq!(choose(4), (None, vec![7, 1, 4, 5]), "there may be more");
        assert_eq!(choose(0), (None, vec![]));
    }
}
