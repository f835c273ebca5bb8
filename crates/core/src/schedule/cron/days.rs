//! Which days of a month a cron expression means.

use crate::schedule::civil;

/// The weekdays from Monday to Friday.
const WORK: u8 = 0b011_1110;

/// The days of the month, as they are counted from its beginning or from its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MonthDays {
    /// Bit *d*: the day *d*.
    pub(super) plain: u32,
    /// Bit *d*: the weekday from Monday to Friday that is nearest to the day *d*, in the same month.
    pub(super) nearest: u32,
    /// Bit *n*: the day that has *n* days of the month after it.
    pub(super) from_last: u32,
    /// The last weekday from Monday to Friday.
    pub(super) last_work: bool,
    /// Whether the field begins with `*` or is `?`.
    pub(super) open: bool,
}

/// The days of the week, as all of them in the month or one of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WeekDays {
    /// Bit *d*: every such weekday; 0 is Sunday.
    pub(super) plain: u8,
    /// For the first to the fifth of a month: bit *d*: that weekday.
    pub(super) nth: [u8; 5],
    /// Bit *d*: the last such weekday of the month.
    pub(super) last: u8,
    /// Whether the field begins with `*` or is `?`.
    pub(super) open: bool,
}

/// A month: how long it is, and the weekday of its first day.
#[derive(Clone, Copy)]
pub(super) struct Month {
    length: u32,
    first: u32,
}

impl Month {
    pub(super) fn of(year: i64, month: u32) -> Self {
        Self { length: civil::length(year, month), first: civil::weekday(civil::first_day(year, month)) }
    }

    fn weekday(self, day: u32) -> u8 {
        ((self.first + day - 1) % 7) as u8
    }

    fn works(self, day: u32) -> bool {
        WORK >> self.weekday(day) & 1 == 1
    }

    /// All its days, as bits.
    fn all(self) -> u32 {
        (u32::MAX >> (31 - self.length)) & !1
    }

    /// Its days with these weekdays, as bits.
    fn days_with(self, weekdays: u8) -> u32 {
        let is_one = |day: &u32| weekdays >> self.weekday(*day) & 1 == 1;
        (1..=self.length).filter(is_one).fold(0, |days, day| days | 1 << day)
    }
}

/// The days on which both fields agree, as bits.
///
/// As everywhere, a day that either field names is meant when both name days: `0 0 13 * FRI` is every Friday and
/// every 13th. A field that begins with `*` names none, it only takes away.
pub(super) fn both(month_days: &MonthDays, week_days: &WeekDays, month: Month) -> u32 {
    let (of_month, of_week) = (month_days.of(month), week_days.of(month));
    if month_days.open || week_days.open { of_month & of_week } else { of_month | of_week }
}

impl MonthDays {
    fn of(&self, month: Month) -> u32 {
        let mut days = self.plain;
        for day in bits(self.nearest).filter(|day| *day <= month.length) {
            days |= 1 << nearest_work(month, day);
        }
        for back in bits(self.from_last).filter(|back| *back < month.length) {
            days |= 1 << (month.length - back);
        }
        if self.last_work {
            let last = (1..=month.length).rev().find(|day| month.works(*day));
            days |= 1 << last.unwrap_or_default();
        }
        days & month.all()
    }
}

impl WeekDays {
    fn of(&self, month: Month) -> u32 {
        let mut days = month.days_with(self.plain);
        for (before, weekdays) in self.nth.iter().enumerate().filter(|(_, weekdays)| **weekdays != 0) {
            let week = 0b1111_1110_u64 << (7 * before);
            days |= month.days_with(*weekdays) & week as u32;
        }
        if self.last != 0 {
            days |= month.days_with(self.last) & !(u32::MAX >> (31 - (month.length - 7)));
        }
        days
    }
}

/// The weekday from Monday to Friday that is nearest to a day, without leaving the month.
fn nearest_work(month: Month, day: u32) -> u32 {
    match month.weekday(day) {
        6 if day == 1 => 3,
        6 => day - 1,
        0 if day == month.length => day - 2,
        0 => day + 1,
        _ => day,
    }
}

/// The places of the bits that are set.
pub(super) fn bits(set: impl Into<u64>) -> impl Iterator<Item = u32> {
    let set = set.into();
    (0..64).filter(move |bit| set >> bit & 1 == 1)
}
