//! A cron expression in words.

use super::{Cron, days::bits};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const PLACES: [&str; 5] = ["first", "second", "third", "fourth", "fifth"];

/// More times of day than this are not listed one by one.
const LISTED: u32 = 6;

/// When in a day.
enum Times {
    /// At these times.
    At(String),
    /// Again and again.
    Every(String),
}

impl Cron {
    /// What it means, in words: `every weekday at 09:00`.
    #[must_use]
    pub fn in_words(&self) -> String {
        match (self.days_in_words(), self.times_in_words()) {
            (None, Times::At(times)) => format!("every day at {times}"),
            (None, Times::Every(times)) => times,
            (Some(days), Times::At(times)) => format!("{days} at {times}"),
            (Some(days), Times::Every(times)) => format!("{days}, {times}"),
        }
    }

    /// Whether what it means is the same in every zone with whole hours.
    pub(in crate::schedule) fn goes_round_the_clock(&self) -> bool {
        let whole_day = self.hours.count_ones() == 24;
        whole_day && self.days_in_words().is_none()
    }

    fn times_in_words(&self) -> Times {
        let (hours, minutes, seconds) = (u64::from(self.hours), self.minutes, self.seconds);
        let times = hours.count_ones() * minutes.count_ones() * seconds.count_ones();
        if times <= LISTED {
            return Times::At(listed(bits(hours).flat_map(|hour| {
                bits(minutes).flat_map(move |minute| {
                    bits(seconds).map(move |second| match seconds {
                        1 => format!("{hour:02}:{minute:02}"),
                        _ => format!("{hour:02}:{minute:02}:{second:02}"),
                    })
                })
            })));
        }
        if seconds == 1 {
            return Times::Every(self.minutes_in_words());
        }
        let mut words = repeated(seconds, 60, "second");
        if minutes.count_ones() < 60 {
            words += &format!(" of {}", few(minutes, "minute"));
        }
        if hours.count_ones() < 24 {
            words += &format!(" of {}", few(hours, "hour"));
        }
        Times::Every(words)
    }

    /// For whole minutes.
    fn minutes_in_words(&self) -> String {
        let (hours, minutes) = (u64::from(self.hours), self.minutes);
        let every_hour = match (hours.count_ones(), regular(hours, 24)) {
            (24, _) => Some("every hour".to_owned()),
            (_, Some(step)) => Some(format!("every {step} hours")),
            _ => None,
        };
        let first = minutes.trailing_zeros();
        match (minutes.count_ones(), every_hour) {
            (1, Some(every)) if first == 0 => every,
            (1, Some(every)) => format!("{every} at minute {first}"),
            (_, Some(every)) if regular(minutes, 60).is_none() && minutes.count_ones() < 60 => {
                format!("{every} at {}", few(minutes, "minute").trim_start_matches("the "))
            }
            _ if hours.count_ones() == 24 => repeated(minutes, 60, "minute"),
            (count, _) => match contiguous(hours) {
                Some((from, to)) if count == 1 => {
                    format!("every hour from {from:02}:{first:02} to {to:02}:{first:02}")
                }
                Some((from, to)) if count == 60 || regular(minutes, 60).is_some() => {
                    let last = 63 - minutes.leading_zeros();
                    format!("{} from {from:02}:00 to {to:02}:{last:02}", repeated(minutes, 60, "minute"))
                }
                _ => format!("{} of {}", repeated(minutes, 60, "minute"), few(hours, "hour")),
            },
        }
    }

    /// `None` for every day.
    fn days_in_words(&self) -> Option<String> {
        let all_of_month = self.month_days.plain == u32::MAX - 1;
        let all_of_week = self.week_days.plain == 0x7f;
        let either = !self.month_days.open && !self.week_days.open;
        let months = self.months_in_words();
        let of_months = months.clone().unwrap_or_else(|| "every month".to_owned());
        let of_month = || format!("on {} of {of_months}", listed(self.month_days_in_words()));
        let mut weekly = self.weekly_in_words();
        if let (Some(words), Some(months)) = (&mut weekly, &months) {
            *words += &format!(" in {months}");
        }
        let monthly = listed(self.nth_in_words());
        let monthly = (!monthly.is_empty()).then(|| format!("on {monthly} of {of_months}"));
        let of_week = || listed([weekly.clone(), monthly.clone()].into_iter().flatten());
        match (all_of_month, all_of_week) {
            (true, true) => months.map(|months| format!("every day in {months}")),
            // A day is always one of all.
            (true, false) | (false, true) if either => months.map(|months| format!("every day in {months}")),
            (true, false) => Some(of_week()),
            (false, true) => Some(of_month()),
            (false, false) if either => Some(format!("{} and {}", of_month(), of_week())),
            (false, false) => Some(format!("{}, if that is also {}", of_month(), of_week())),
        }
    }

    /// `None` for all of them.
    fn months_in_words(&self) -> Option<String> {
        let months = u64::from(self.months);
        let name = |month: u32| MONTHS[month as usize - 1].to_owned();
        match (months.count_ones(), contiguous(months)) {
            (12, _) => None,
            (3.., Some((from, to))) => Some(format!("{} to {}", name(from), name(to))),
            _ => Some(listed(bits(months).map(name))),
        }
    }

    fn month_days_in_words(&self) -> Vec<String> {
        let days = &self.month_days;
        let mut words = Vec::new();
        if let (4.., Some((from, to))) = (days.plain.count_ones(), contiguous(days.plain)) {
            words.push(format!("the {} to {}", ordinal(from), ordinal(to)));
        } else {
            words.extend(bits(days.plain).map(|day| format!("the {}", ordinal(day))));
        }
        words.extend(bits(days.nearest).map(|day| format!("the weekday nearest to the {}", ordinal(day))));
        words.extend(bits(days.from_last).map(|back| match back {
            0 => "the last day".to_owned(),
            1 => "the day before the last".to_owned(),
            _ => format!("the {} day before the last", ordinal(back)),
        }));
        words.extend(days.last_work.then(|| "the last weekday".to_owned()));
        words
    }

    /// The weekdays that are meant every week.
    fn weekly_in_words(&self) -> Option<String> {
        let name = |day: u32| WEEKDAYS[day as usize].to_owned();
        match self.week_days.plain {
            0 => None,
            0b011_1110 => Some("every weekday".to_owned()),
            days => Some(format!("every {}", listed(bits(days).map(name)))),
        }
    }

    /// The weekdays that are meant once a month.
    fn nth_in_words(&self) -> Vec<String> {
        let name = |day: u32| WEEKDAYS[day as usize];
        let days = &self.week_days;
        let nth = PLACES.iter().zip(days.nth).flat_map(|(place, days)| {
            bits(days).map(move |day| format!("the {place} {}", name(day))).collect::<Vec<_>>()
        });
        nth.chain(bits(days.last).map(|day| format!("the last {}", name(day)))).collect()
    }
}

/// `every 15 minutes`, or at which of them.
fn repeated(set: u64, size: u32, unit: &str) -> String {
    match (set.count_ones() == size, regular(set, size)) {
        (true, _) => format!("every {unit}"),
        (false, Some(step)) => format!("every {step} {unit}s"),
        (false, None) => format!("at {}", few(set, unit).trim_start_matches("the ")),
    }
}

/// `the minutes 5 to 10`
fn few(set: u64, unit: &str) -> String {
    match (set.count_ones(), contiguous(set)) {
        (1, _) => format!("the {unit} {}", set.trailing_zeros()),
        (3.., Some((from, to))) => format!("the {unit}s {from} to {to}"),
        _ => format!("the {unit}s {}", listed(bits(set).map(|value| value.to_string()))),
    }
}

/// The step, if the values follow each other by the same step all round.
fn regular(set: u64, size: u32) -> Option<u32> {
    (2..=size / 2).filter(|step| size.is_multiple_of(*step)).find(|step| {
        let all = (0..size).step_by(*step as usize).fold(0_u64, |set, value| set | 1 << value);
        set == all
    })
}

/// The first and the last value, if none between them is missing.
fn contiguous(set: impl Into<u64>) -> Option<(u32, u32)> {
    let set = set.into();
    let (first, last) = (set.trailing_zeros(), 63_u32.checked_sub(set.leading_zeros())?);
    (last - first + 1 == set.count_ones()).then_some((first, last))
}

/// `a, b and c`
fn listed(items: impl IntoIterator<Item = String>) -> String {
    let mut items: Vec<String> = items.into_iter().collect();
    let last = items.pop().unwrap_or_default();
    if items.is_empty() { last } else { format!("{} and {last}", items.join(", ")) }
}

fn ordinal(number: u32) -> String {
    let end = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{end}")
}
