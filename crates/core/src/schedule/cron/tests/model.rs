//! The same rules, asked minute by minute.

use jiff::{
    Timestamp,
    civil::DateTime,
    tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase},
};
use proptest::prelude::*;

use crate::{
    Time,
    schedule::{Cron, Zone, tests::cases},
};

/// A field as it is written, and what it means.
type Field = (&'static str, fn(DateTime) -> bool);

fn weekday(at: DateTime) -> i8 {
    at.date().weekday().to_sunday_zero_offset()
}

fn works(at: DateTime) -> bool {
    (1..=5).contains(&weekday(at))
}

fn last(at: DateTime) -> i8 {
    at.date().days_in_month()
}

/// Whether no day from Monday to Friday of the same month is nearer to this one.
fn is_nearest_to(at: DateTime, day: i8) -> bool {
    let distance = |candidate: i8| (candidate - day).abs();
    day <= last(at)
        && works(at)
        && (1..=last(at)).all(|other| {
            let there = at.with().day(other).build().unwrap();
            !works(there) || distance(other) >= distance(at.day())
        })
}

const MINUTES: &[Field] = &[
    ("0", |at| at.minute() == 0),
    ("30", |at| at.minute() == 30),
    ("*/15", |at| at.minute() % 15 == 0),
    ("7,33", |at| matches!(at.minute(), 7 | 33)),
    ("*", |_| true),
    ("20-40/10", |at| matches!(at.minute(), 20 | 30 | 40)),
    ("50/5", |at| matches!(at.minute(), 50 | 55)),
];

const HOURS: &[Field] = &[
    ("2", |at| at.hour() == 2),
    ("0", |at| at.hour() == 0),
    ("*", |_| true),
    ("*/2", |at| at.hour() % 2 == 0),
    ("1-3", |at| (1..=3).contains(&at.hour())),
    ("0,12,23", |at| matches!(at.hour(), 0 | 12 | 23)),
    ("8-18/3", |at| matches!(at.hour(), 8 | 11 | 14 | 17)),
];

const MONTH_DAYS: &[Field] = &[
    ("*", |_| true),
    ("?", |_| true),
    ("1", |at| at.day() == 1),
    ("29", |at| at.day() == 29),
    ("L", |at| at.day() == last(at)),
    ("L-2", |at| last(at) - at.day() == 2),
    ("LW", |at| works(at) && (at.day() + 1..=last(at)).all(|d| !works(at.with().day(d).build().unwrap()))),
    ("1W", |at| is_nearest_to(at, 1)),
    ("15W", |at| is_nearest_to(at, 15)),
    ("30W", |at| is_nearest_to(at, 30)),
    ("*/2", |at| at.day() % 2 == 1),
    ("20-31", |at| at.day() >= 20),
];

const MONTHS: &[Field] = &[
    ("*", |_| true),
    ("3,4,10,11", |at| matches!(at.month(), 3 | 4 | 10 | 11)),
    ("FEB-JUN", |at| (2..=6).contains(&at.month())),
    ("*/3", |at| at.month() % 3 == 1),
];

const WEEK_DAYS: &[Field] = &[
    ("*", |_| true),
    ("?", |_| true),
    ("MON-FRI", works),
    ("0", |at| weekday(at) == 0),
    ("7", |at| weekday(at) == 0),
    ("6-7", |at| matches!(weekday(at), 0 | 6)),
    ("FRI#2", |at| weekday(at) == 5 && (8..=14).contains(&at.day())),
    ("SUN#5", |at| weekday(at) == 0 && at.day() >= 29),
    ("SUNL", |at| weekday(at) == 0 && at.day() + 7 > last(at)),
    ("*/2", |at| matches!(weekday(at), 0 | 2 | 4 | 6)),
];

const ZONES: &[&str] = &[
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Africa/Cairo",
    "America/Havana",
    "Asia/Kathmandu",
    "Africa/Casablanca",
    "Pacific/Apia",
    "America/St_Johns",
];

struct Model {
    fields: [Field; 5],
    zone: TimeZone,
}

impl Model {
    fn text(&self) -> String {
        self.fields.map(|(text, _)| text).join(" ")
    }

    fn begins_with_a_star(&self, field: usize) -> bool {
        self.fields[field].0.starts_with('*')
    }

    fn fits(&self, at: DateTime) -> bool {
        let [minute, hour, day, month, week] = self.fields.map(|(_, fits)| fits(at));
        let open = |field: usize| matches!(self.fields[field].0.as_bytes()[0], b'*' | b'?');
        let days = if open(2) || open(4) { day && week } else { day || week };
        minute && hour && days && month
    }

    /// Whether it fires at a whole minute.
    fn fires(&self, at: Timestamp) -> bool {
        let local = self.zone.to_datetime(at);
        let is_repeated = || match self.zone.to_ambiguous_timestamp(local).offset() {
            AmbiguousOffset::Fold { after, .. } => after == self.zone.to_offset(at),
            _ => false,
        };
        let intervals = self.begins_with_a_star(0) || self.begins_with_a_star(1);
        if self.fits(local) && (intervals || !is_repeated()) {
            return true;
        }
        // The minutes that local clocks left out just now.
        let minute = jiff::SignedDuration::from_mins(1);
        let mut skipped = self.zone.to_datetime(at - minute) + minute;
        while !self.begins_with_a_star(1) && skipped < local {
            if self.fits(skipped) {
                return true;
            }
            skipped += minute;
        }
        false
    }
}

fn any_field(of: &'static [Field]) -> impl Strategy<Value = Field> {
    (0..of.len()).prop_map(|at| of[at])
}

proptest! {
    #![proptest_config(cases(150))]

    /// Three days, most of them around a change of clocks.
    #[test]
    fn jumping_from_field_to_field_finds_what_asking_every_minute_finds(
        minute in any_field(MINUTES),
        hour in any_field(HOURS),
        day in any_field(MONTH_DAYS),
        month in any_field(MONTHS),
        week in any_field(WEEK_DAYS),
        zone in 0..ZONES.len(),
        start in 1_200_000_000_i64..2_500_000_000,
        near_a_change in prop::bool::weighted(0.8),
    ) {
        let name = ZONES[zone];
        let zone = TimeZoneDatabase::bundled().get(name).unwrap();
        let mut begin = Timestamp::from_second(start / 60 * 60).unwrap();
        if let (true, Some(change)) = (near_a_change, zone.following(begin).next()) {
            begin = change.timestamp() - jiff::SignedDuration::from_hours(30);
        }
        let model = Model { fields: [minute, hour, day, month, week], zone };
        let cron: Cron = model.text().parse().unwrap();
        let zone = Zone::named(name).unwrap();
        let minutes = (0..3 * 24 * 60).map(|minute| begin + jiff::SignedDuration::from_mins(minute));
        let expected: Vec<Time> =
            minutes.filter(|at| model.fires(*at)).map(|at| Time(at.as_microsecond())).collect();

        let (before, end) = (Time(begin.as_microsecond() - 1), Time(begin.as_microsecond() + 259_200_000_000));
        let forward: Vec<Time> = std::iter::successors(cron.next(before, &zone), |at| cron.next(*at, &zone))
            .take_while(|at| *at < end)
            .collect();
        prop_assert_eq!(&forward, &expected, "{} in {}", model.text(), name);
        let mut backward: Vec<Time> =
            std::iter::successors(cron.previous(end, &zone), |at| cron.previous(*at, &zone))
                .take_while(|at| *at > before)
                .collect();
        backward.reverse();
        prop_assert_eq!(&backward, &expected, "back: {} in {}", model.text(), name);
    }

    #[test]
    fn the_next_time_is_after_and_the_one_before_it_is_not(
        minute in any_field(MINUTES),
        hour in any_field(HOURS),
        day in any_field(MONTH_DAYS),
        month in any_field(MONTHS),
        week in any_field(WEEK_DAYS),
        zone in 0..ZONES.len(),
        after in -3_000_000_000_000_000_i64..8_000_000_000_000_000,
    ) {
        let text = [minute, hour, day, month, week].map(|(text, _)| text).join(" ");
        let (cron, zone) = (text.parse::<Cron>().unwrap(), Zone::named(ZONES[zone]).unwrap());
        let next = cron.next(Time(after), &zone).unwrap();
        prop_assert!(next > Time(after));
        prop_assert!(cron.previous(next, &zone).unwrap() <= Time(after), "{} skipped one before {}", text, next);
        let before = cron.previous(Time(after), &zone).unwrap();
        prop_assert!(before < Time(after));
        prop_assert!(cron.next(before, &zone).unwrap() >= Time(after), "{} skipped one after {}", text, before);
    }
}
