//! Days and months, without a time zone.

/// How many days before the first of 1970 the first day of a month lies, or after it.
pub(super) fn first_day(year: i64, month: u32) -> i64 {
    // Years begin in March here, so that the leap day is the last of its year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * i64::from(month) + 2) / 5;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// How many days a month has.
pub(super) fn length(year: i64, month: u32) -> u32 {
    match month {
        2 if year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// The day of the week: 0 is Sunday.
pub(super) fn weekday(day: i64) -> u32 {
    // The first of 1970 was a Thursday.
    (day + 4).rem_euclid(7) as u32
}

#[cfg(test)]
mod tests {
    use jiff::civil::Date;

    use super::*;
    use crate::time::date;

    #[test]
    fn a_calendar_library_has_the_same_months() {
        for year in [-401, 0, 1, 1600, 1899, 1900, 1970, 1999, 2000, 2023, 2024, 2100, 2400, 9999] {
            for month in 1..=12_u32 {
                let other = Date::new(year, month as i8, 1).unwrap();
                let day = first_day(year.into(), month);
                assert_eq!(length(year.into(), month), other.days_in_month() as u32, "{other}");
                assert_eq!(weekday(day), other.weekday().to_sunday_zero_offset() as u32, "{other}");
                assert_eq!(date(day), (year.into(), month.into(), 1), "{other}");
            }
        }
    }
}
