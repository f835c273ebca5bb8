//! The time that comes next, and the one before.
//!
//! Time is cut where a zone changes its clocks. Between two cuts local time is plain counting, and the search jumps
//! from field to field. What the change itself means is said at the cut.

use super::{Cron, days};
use crate::{
    Time,
    schedule::{
        civil,
        zone::{FIRST, LAST, Segment, Zone},
    },
    time::date,
};

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400;

impl Cron {
    /// The first time after an instant, by the clocks of a zone. `None` when the calendar ends before it.
    ///
    /// A time that a change of clocks leaves out is the first instant after the change, unless the hours begin with
    /// `*`: then others come soon enough. A time that occurs twice is the first of both, unless the seconds, minutes or
    /// hours begin with `*`: then it goes on as if nothing had been changed.
    #[must_use]
    pub fn next(&self, after: Time, zone: &Zone) -> Option<Time> {
        let mut at = (after.0.div_euclid(SECOND) + 1).max(FIRST);
        while at < LAST {
            let segment = zone.segment(at);
            if at == segment.begin && self.is_left_out(&segment) {
                return Some(Time(at * SECOND));
            }
            let from = (at + segment.offset).max(self.first_local(&segment));
            if let Some(found) = self.next_local(from, segment.end + segment.offset) {
                return Some(Time((found - segment.offset) * SECOND));
            }
            at = segment.end;
        }
        None
    }

    /// The last time before an instant, by the clocks of a zone. `None` when the calendar begins after it.
    #[must_use]
    pub fn previous(&self, before: Time, zone: &Zone) -> Option<Time> {
        let mut at = before.0.saturating_sub(1).div_euclid(SECOND).min(LAST - 1);
        while at >= FIRST {
            let segment = zone.segment(at);
            let found = self.previous_local(at + segment.offset, self.first_local(&segment));
            if let Some(found) = found {
                return Some(Time((found - segment.offset) * SECOND));
            }
            if self.is_left_out(&segment) {
                return Some(Time(segment.begin * SECOND));
            }
            at = segment.begin - 1;
        }
        None
    }

    /// The first local second of a span that is not there for the second time.
    fn first_local(&self, segment: &Segment) -> i64 {
        let offset = if self.repeats { segment.offset } else { segment.offset.max(segment.before) };
        segment.begin + offset
    }

    /// Whether one of its times is left out where a span begins, and has to be made up for.
    fn is_left_out(&self, segment: &Segment) -> bool {
        let (from, to) = (segment.begin + segment.before, segment.begin + segment.offset);
        !self.hourly && from < to && self.next_local(from, to).is_some()
    }

    /// The first local second from one on that fits, if it is before another.
    fn next_local(&self, from: i64, end: i64) -> Option<i64> {
        let (day, second) = (from.div_euclid(DAY), from.rem_euclid(DAY));
        if day * DAY < end
            && self.fits(day)
            && let Some(found) = self.next_of_day(second)
        {
            return Some(day * DAY + found).filter(|found| *found < end);
        }
        let day = self.next_day(day + 1, end.div_euclid(DAY))?;
        Some(day * DAY + self.next_of_day(0)?).filter(|found| *found < end)
    }

    /// The last local second up to one that fits, if it is not before another.
    fn previous_local(&self, to: i64, begin: i64) -> Option<i64> {
        let (day, second) = (to.div_euclid(DAY), to.rem_euclid(DAY));
        if (day + 1) * DAY > begin
            && self.fits(day)
            && let Some(found) = self.previous_of_day(second)
        {
            return Some(day * DAY + found).filter(|found| *found >= begin);
        }
        let day = self.previous_day(day - 1, begin.div_euclid(DAY))?;
        Some(day * DAY + self.previous_of_day(DAY - 1)?).filter(|found| *found >= begin)
    }

    /// Whether it has times on a day.
    fn fits(&self, day: i64) -> bool {
        let (year, month, of_month) = date(day);
        self.days_of(year, month as u32) >> of_month & 1 == 1
    }

    /// Its days in a month, as bits.
    fn days_of(&self, year: i64, month: u32) -> u32 {
        if self.months >> month & 1 == 0 {
            return 0;
        }
        days::both(&self.month_days, &self.week_days, days::Month::of(year, month))
    }

    /// The first day from one to another that fits, month by month.
    fn next_day(&self, from: i64, to: i64) -> Option<i64> {
        let (mut year, month, of_month) = date(from);
        let mut month = month as u32;
        let mut left = !0_u32 << of_month;
        loop {
            let first = civil::first_day(year, month);
            if first > to {
                return None;
            }
            let days = self.days_of(year, month) & left;
            if days != 0 {
                return Some(first - 1 + i64::from(days.trailing_zeros())).filter(|day| *day <= to);
            }
            left = !0;
            (year, month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
        }
    }

    /// The last day from one back to another that fits, month by month.
    fn previous_day(&self, from: i64, to: i64) -> Option<i64> {
        let (mut year, month, of_month) = date(from);
        let mut month = month as u32;
        let mut left = u32::MAX >> (31 - of_month);
        loop {
            let first = civil::first_day(year, month);
            let days = self.days_of(year, month) & left;
            if days != 0 {
                let last = i64::from(31 - days.leading_zeros());
                return Some(first - 1 + last).filter(|day| *day >= to);
            }
            if first <= to {
                return None;
            }
            left = !0;
            (year, month) = if month == 1 { (year - 1, 12) } else { (year, month - 1) };
        }
    }

    /// The first second of a day from one on that fits.
    fn next_of_day(&self, from: i64) -> Option<i64> {
        let (hour, minute, second) = (from / 3600, from / 60 % 60, from % 60);
        let hours = u64::from(self.hours);
        let of_hour = |minute: i64, second: i64| {
            let now = up(self.minutes, minute).filter(|found| *found == minute);
            let now = now.and_then(|_| up(self.seconds, second)).map(|second| minute * 60 + second);
            now.or_else(|| Some(up(self.minutes, minute + 1)? * 60 + up(self.seconds, 0)?))
        };
        let now = up(hours, hour).filter(|found| *found == hour);
        let now = now.and_then(|_| of_hour(minute, second)).map(|found| hour * 3600 + found);
        now.or_else(|| Some(up(hours, hour + 1)? * 3600 + of_hour(0, 0)?))
    }

    /// The last second of a day up to one that fits.
    fn previous_of_day(&self, to: i64) -> Option<i64> {
        let (hour, minute, second) = (to / 3600, to / 60 % 60, to % 60);
        let hours = u64::from(self.hours);
        let of_hour = |minute: i64, second: i64| {
            let now = down(self.minutes, minute).filter(|found| *found == minute);
            let now = now.and_then(|_| down(self.seconds, second)).map(|second| minute * 60 + second);
            now.or_else(|| Some(down(self.minutes, minute - 1)? * 60 + down(self.seconds, 59)?))
        };
        let now = down(hours, hour).filter(|found| *found == hour);
        let now = now.and_then(|_| of_hour(minute, second)).map(|found| hour * 3600 + found);
        now.or_else(|| Some(down(hours, hour - 1)? * 3600 + of_hour(59, 59)?))
    }

    /// Whether any year has a day that fits: calendars repeat after 400 of them.
    pub(super) fn ever_fires(&self) -> bool {
        (2000..2400).any(|year| (1..=12).any(|month| self.days_of(year, month) != 0))
    }
}

/// The first bit from a place up.
fn up(set: u64, from: i64) -> Option<i64> {
    let left = if from > 63 { 0 } else { set & !0 << from };
    (left != 0).then(|| i64::from(left.trailing_zeros()))
}

/// The last bit from a place down.
fn down(set: u64, from: i64) -> Option<i64> {
    let left = if from < 0 { 0 } else { set & u64::MAX >> (63 - from) };
    (left != 0).then(|| i64::from(63 - left.leading_zeros()))
}
