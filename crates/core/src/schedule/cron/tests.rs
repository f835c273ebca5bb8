use proptest::prelude::*;

use super::*;
use crate::{Time, schedule::Zone};

mod model;

fn cron(text: &str) -> Cron {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn at(text: &str) -> Time {
    Time(text.parse::<jiff::Timestamp>().unwrap_or_else(|error| panic!("{text}: {error}")).as_microsecond())
}

/// The first times after an instant, and that the search back finds the same.
fn times(text: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
    let (cron, zone) = (cron(text), Zone::named(zone).unwrap());
    let first = cron.next(at(after), &zone);
    let found: Vec<Time> = std::iter::successors(first, |time| cron.next(*time, &zone)).take(count).collect();
    for pair in found.windows(2) {
        assert_eq!(cron.previous(pair[1], &zone), Some(pair[0]), "{text} back from {}", pair[1]);
    }
    found.iter().map(|time| time.to_string().replace(":00Z", "Z")).collect()
}

#[test]
fn days_are_counted_as_written() {
    for (text, expected) in [
        ("0 0 L * *", ["01-31", "02-28", "03-31", "04-30"]),
        ("0 0 L-2 * *", ["01-29", "02-26", "03-29", "04-28"]),
        // The last of January and of February 2026 are Saturdays.
        ("0 0 LW * *", ["01-30", "02-27", "03-31", "04-30"]),
        // The 15th of February and of March are Sundays.
        ("0 0 15W * *", ["01-15", "02-16", "03-16", "04-15"]),
        // The first of February and of March are Sundays, the first of August is a Saturday.
        ("0 0 1W * *", ["01-01", "02-02", "03-02", "04-01"]),
        ("0 0 1W 7,8,9,10 *", ["07-01", "08-03", "09-01", "10-01"]),
        // The 31st of May is a Sunday.
        ("0 0 31W * *", ["01-30", "03-31", "05-29", "07-31"]),
        ("0 0 ? * FRI#2", ["01-09", "02-13", "03-13", "04-10"]),
        ("0 0 ? * 1#5", ["03-30", "06-29", "08-31", "11-30"]),
        ("0 0 ? * FRIL", ["01-30", "02-27", "03-27", "04-24"]),
        ("0 0 * * 0", ["01-04", "01-11", "01-18", "01-25"]),
        ("0 0 * * SAT-SUN", ["01-03", "01-04", "01-10", "01-11"]),
        ("0 0 31 * *", ["01-31", "03-31", "05-31", "07-31"]),
        // Either the 13th or a Friday.
        ("0 0 13 * FRI", ["01-02", "01-09", "01-13", "01-16"]),
        // A field that begins with a star only takes away: odd days that are Mondays.
        ("0 0 */2 * MON", ["01-05", "01-19", "02-09", "02-23"]),
        ("0 0 1,L 2,3 *", ["02-01", "02-28", "03-01", "03-31"]),
        ("0 0 1-7/3 1 *", ["01-01", "01-04", "01-07", "2027-01-01"]),
    ] {
        let expected = expected.map(|day| match day.len() {
            5 => format!("2026-{day}T00:00Z"),
            _ => format!("{day}T00:00Z"),
        });
        assert_eq!(times(text, "UTC", "2025-12-31T12:00:00Z", 4), expected, "{text}");
    }
}

#[test]
fn weekday_numbers_are_those_of_cron_and_sunday_is_0_or_7() {
    for (number, name) in ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"].iter().enumerate() {
        assert_eq!(cron(&format!("0 0 * * {number}")), cron(&format!("0 0 * * {name}")), "{name}");
    }
    // The 4th of January 2026 was a Sunday, and the 5th a Monday.
    assert_eq!(times("0 0 * * 1", "UTC", "2026-01-04T12:00:00Z", 1), ["2026-01-05T00:00Z"]);
    assert_eq!(cron("0 0 * * 5-7"), cron("0 0 * * FRI,SAT,SUN"));
    assert_eq!(cron("0 0 * * 7-2"), cron("0 0 * * SUN-TUE"));
    assert_eq!(cron("0 0 * * 7/2"), cron("0 0 * * 0,2,4,6"));
    assert_eq!(cron("0 0 * * 0-7"), cron("0 0 * * SUN-SAT"));
    assert_eq!(cron("0 0 ? * 7#1"), cron("0 0 ? * SUN#1"));
    assert_eq!(cron("0 0 ? * 7L"), cron("0 0 ? * SUNL"));
}

#[test]
fn seconds_are_optional() {
    assert_eq!(cron("0 30 9 * * *"), cron("30 9 * * *"));
    let expected =
        ["2026-01-01T00:00:15Z", "2026-01-01T00:00:30Z", "2026-01-01T00:00:45Z", "2026-01-01T00:01Z"];
    assert_eq!(times("*/15 * * * * *", "UTC", "2026-01-01T00:00:00.5Z", 4), expected);
}

#[test]
fn leap_days_are_waited_for_over_a_century_without_one() {
    let expected = ["2096-02-29T00:00Z", "2104-02-29T00:00Z", "2108-02-29T00:00Z"];
    assert_eq!(times("0 0 29 2 *", "UTC", "2092-03-01T00:00:00Z", 3), expected);
    // Days of the week that begin with a star take away: leap days that are a Saturday or a Sunday.
    let expected = ["2032-02-29T00:00Z", "2048-02-29T00:00Z", "2060-02-29T00:00Z"];
    assert_eq!(times("0 0 29 2 */6", "UTC", "2026-01-01T00:00:00Z", 3), expected);
}

/// Clocks go forward: the local times from 02:00 (in Havana and Cairo from midnight) do not exist.
#[test]
fn a_time_that_does_not_exist_runs_at_the_first_instant_after_it() {
    for (text, zone, after, expected) in [
        ("30 2 * * *", "Europe/Berlin", "2026-03-28", ["03-28T01:30", "03-29T01:00", "03-30T00:30"]),
        ("0 2 * * *", "Europe/Berlin", "2026-03-28", ["03-28T01:00", "03-29T01:00", "03-30T00:00"]),
        ("0 3 * * *", "Europe/Berlin", "2026-03-28", ["03-28T02:00", "03-29T01:00", "03-30T01:00"]),
        // All that is left out is made up for at once.
        ("0,30 2 * * *", "Europe/Berlin", "2026-03-28T01:15", ["03-28T01:30", "03-29T01:00", "03-30T00:00"]),
        ("0 1-3 * * *", "Europe/Berlin", "2026-03-28T23:30", ["03-29T00:00", "03-29T01:00", "03-29T23:00"]),
        ("*/20 2 * * *", "Europe/Berlin", "2026-03-28T01:30", ["03-28T01:40", "03-29T01:00", "03-30T00:00"]),
        ("30 2 * * *", "America/New_York", "2026-03-07", ["03-07T07:30", "03-08T07:00", "03-09T06:30"]),
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-02", ["10-02T15:45", "10-03T15:30", "10-04T15:15"]),
        ("30 0 * * *", "Africa/Cairo", "2026-04-22", ["04-22T22:30", "04-23T22:00", "04-24T21:30"]),
        ("0 0 * * *", "America/Havana", "2026-03-07", ["03-07T05:00", "03-08T05:00", "03-09T04:00"]),
        // Hours that begin with a star have others before and after.
        ("15 * * * *", "Europe/Berlin", "2026-03-28T23:30", ["03-29T00:15", "03-29T01:15", "03-29T02:15"]),
        ("30 */2 * * *", "Europe/Berlin", "2026-03-28T23:00", ["03-28T23:30", "03-29T02:30", "03-29T04:30"]),
        (
            "0 * * * *",
            "Australia/Lord_Howe",
            "2026-10-03T14:00",
            ["10-03T14:30", "10-03T16:00", "10-03T17:00"],
        ),
    ] {
        let after = if after.len() == 10 { format!("{after}T00:00:00Z") } else { format!("{after}:00Z") };
        let expected = expected.map(|time| format!("2026-{time}Z"));
        assert_eq!(times(text, zone, &after, 3), expected, "{text} in {zone}");
    }
}

/// Clocks go back: the local times from 02:00 (in New York from 01:00, on Lord Howe from 01:30) exist twice.
#[test]
fn a_time_that_exists_twice_runs_once_unless_it_is_an_interval() {
    for (text, zone, after, expected) in [
        ("30 2 * * *", "Europe/Berlin", "2026-10-24", ["10-24T00:30", "10-25T00:30", "10-26T01:30"]),
        ("0 2 * * *", "Europe/Berlin", "2026-10-24T12:00", ["10-25T00:00", "10-26T01:00", "10-27T01:00"]),
        ("0 3 * * *", "Europe/Berlin", "2026-10-24", ["10-24T01:00", "10-25T02:00", "10-26T02:00"]),
        ("0 1,2,3 * * *", "Europe/Berlin", "2026-10-24T12:00", ["10-24T23:00", "10-25T00:00", "10-25T02:00"]),
        ("30 1 * * *", "America/New_York", "2026-10-31", ["10-31T05:30", "11-01T05:30", "11-02T06:30"]),
        ("45 1 * * *", "Australia/Lord_Howe", "2026-04-04", ["04-04T14:45", "04-05T15:15", "04-06T15:15"]),
        // These go by what a clock shows that nobody sets.
        ("30 * * * *", "Europe/Berlin", "2026-10-25", ["10-25T00:30", "10-25T01:30", "10-25T02:30"]),
        ("*/30 * * * *", "Europe/Berlin", "2026-10-25T00:15", ["10-25T00:30", "10-25T01:00", "10-25T01:30"]),
        ("*/40 2 * * *", "Europe/Berlin", "2026-10-25T00:15", ["10-25T00:40", "10-25T01:00", "10-25T01:40"]),
        (
            "*/15 * * * *",
            "Australia/Lord_Howe",
            "2026-04-04T14:45",
            ["04-04T15:00", "04-04T15:15", "04-04T15:30"],
        ),
    ] {
        let after = if after.len() == 10 { format!("{after}T00:00:00Z") } else { format!("{after}:00Z") };
        let expected = expected.map(|time| format!("2026-{time}Z"));
        assert_eq!(times(text, zone, &after, 3), expected, "{text} in {zone}");
    }
}

#[test]
fn a_day_that_an_island_left_out_is_made_up_for_when_it_ends() {
    // Samoa went from the 29th of December 2011 to the 31st.
    let expected = ["2011-12-29T22:00Z", "2011-12-30T10:00Z", "2011-12-30T22:00Z"];
    assert_eq!(times("0 12 * * *", "Pacific/Apia", "2011-12-29T00:00:00Z", 3), expected);
}

#[test]
fn what_is_wrong_is_named_with_its_place_and_what_to_write() {
    let hours = "in the hours, at character 3, ";
    let days = "in the days of the month, at character 5, ";
    let week = "in the days of the week, at character 9, ";
    for (text, message) in [
        ("", "it is empty: write five fields, such as `0 2 * * *`"),
        ("  ", "it is empty"),
        (
            "0 2 * *",
            "it has 4 fields: write 5 (minutes, hours, days of the month, months, days of the week), or 6",
        ),
        ("0", "it has 1 field: "),
        ("0 0 0 2 * * 2026", "it has 7 fields"),
        ("0 24 * * *", &format!("{hours}`24` is not between 0 and 23")),
        ("0 1-24 * * *", "in the hours, at character 5, `24` is not between 0 and 23"),
        ("0 99999999999999999999 * * *", "`99999999999999999999` is not between 0 and 23"),
        ("60 * * * *", "in the minutes, at character 1, `60` is not between 0 and 59"),
        ("61 0 0 * * *", "in the seconds, at character 1, `61`"),
        ("0 0 0 * *", &format!("{days}`0` is not between 1 and 31")),
        ("0 0 * 13 *", "in the months, at character 7, `13` is not between 1 and 12"),
        ("0 0 * * 8", &format!("{week}`8` is not between 0 and 7")),
        ("0 x * * *", &format!("{hours}`x` has no meaning here: write 0 to 23 and `* , - /`")),
        ("0 5! * * *", "in the hours, at character 4, `!` has no meaning here"),
        ("0 ** * * *", "in the hours, at character 4, `*` has no meaning here"),
        ("0 1,,2 * * *", "in the hours, at character 5, something is missing before `,`"),
        ("0 1, * * *", "in the hours, at character 5, something is missing at the end of the field"),
        ("0 1- * * *", "in the hours, at character 5, something is missing at the end of the field"),
        ("0 -1 * * *", &format!("{hours}something is missing before `-`")),
        ("0 */ * * *", "in the hours, at character 5, something is missing at the end"),
        ("0 */x * * *", "in the hours, at character 5, `x` has no meaning here: write a number"),
        ("0 */0 * * *", "a step of 0 is not between 1 and 23: the field has 24 values"),
        ("*/90 * * * *", "in the minutes, at character 3, a step of 90 is not between 1 and 59"),
        ("0 17-9 * * *", &format!("{hours}the range `17-9` ends before it begins: write `17-23,0-9`")),
        (
            "0 0 * * FRI-MON",
            &format!("{week}the range `FRI-MON` ends before it begins: write `FRI-SAT,SUN-MON`"),
        ),
        ("0 0 * DEC-JAN *", "write `DEC,JAN`"),
        ("0 0 * * FRY", &format!("{week}`FRY` is not a name: did you mean `FRI`?")),
        ("0 0 * * Friday", &format!("{week}`Friday` is not a name: did you mean `FRI`?")),
        ("0 0 * Augustus *", "did you mean `AUG`?"),
        ("0 0 * * Dienstag", "`Dienstag` is not a name: write 0 to 7, SUN to SAT and `* , - / ? L #`"),
        ("0 0 * * мон", "is not a name"),
        (
            "0 L * * *",
            &format!("{hours}`L` may be written in the days of the month and in the days of the week only"),
        ),
        (
            "0 0 * * 5W",
            "in the days of the week, at character 10, `W` may be written in the days of the month only",
        ),
        (
            "0 0 5#1 * *",
            "in the days of the month, at character 6, `#` may be written in the days of the week only",
        ),
        (
            "0 ? * * *",
            &format!("{hours}`?` may be written in the days of the month and in the days of the week"),
        ),
        ("0 0 ?,1 * *", &format!("{days}`?` stands alone")),
        ("0 0 1,? * *", "in the days of the month, at character 7, `?` stands alone"),
        ("0 0 * * L", &format!("{week}`L` says the last of which day: write `FRIL` or `5L`")),
        ("0 0 W * *", &format!("{days}`W` says nearest to which day")),
        ("0 0 5L * *", "`L` stands before its number"),
        ("0 0 1-5W * *", "`L`, `W` and `#` follow a single day, not a range"),
        ("0 0 * * MON-FRI#2", "follow a single day"),
        ("0 0 * * FRI#6", "in the days of the week, at character 13, `6` is not between 1 and 5"),
        ("0 0 L-31 * *", "`31` is not between 0 and 30"),
        ("0 0 31 2 *", "it never fires: no year has such a day"),
        ("0 0 30 FEB *", "it never fires"),
        ("0 0 31W 4,6,9,11 *", "it never fires"),
        ("0 0 L-30 2 ?", "it never fires"),
        ("@dayly", "at character 1, `@dayly` is not known, did you mean `@daily`?"),
        (" @fortnightly", "at character 2, `@fortnightly` is not known: there are @yearly"),
        ("@reboot", "`@reboot` is not a time: start a run when the program starts instead"),
        ("@daily 5", "it has 2 fields"),
        ("@every 5m", "`@every` is not cron: use a schedule with `every` instead"),
    ] {
        let error = text.parse::<Cron>().unwrap_err();
        let shown = error.to_string();
        assert!(shown.contains(message), "{text}: {shown}\nwanted: {message}");
        assert!(shown.starts_with(&format!("`{text}` is not a cron expression: ")), "{shown}");
    }
}

#[test]
fn what_means_the_same_is_equal_and_is_kept_as_written() {
    for (one, other) in [
        ("@daily", "0 0 * * *"),
        ("@Midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * SUN"),
        ("@yearly", "@annually"),
        ("@monthly", "0 0 1 * *"),
        ("@hourly", "0 * * * *"),
        ("  0\t0 * *  mon-fri", "0 0 * * 1-5"),
        ("0 0 ? JAN *", "0 0 * 1 ?"),
        ("10/20 * * * *", "10-59/20 * * * *"),
    ] {
        assert_eq!(cron(one), cron(other), "{one}");
        let json = serde_json::to_string(&cron(one)).unwrap();
        assert_eq!(serde_json::from_str::<Cron>(&json).unwrap(), cron(one), "{json}");
    }
    assert_eq!(cron("  0\t0 * *  mon-fri").to_string(), "0 0 * * MON-FRI");
    assert_ne!(cron("0 0-23 * * *"), cron("0 * * * *"), "one goes by times of day, the other by intervals");
    assert!(serde_json::from_str::<Cron>("\"0 0 31 2 *\"").unwrap_err().to_string().contains("never fires"));
}

#[test]
fn an_expression_is_told_in_words() {
    for (text, words) in [
        ("0 9 * * MON-FRI", "every weekday at 09:00"),
        ("0 2 * * *", "every day at 02:00"),
        ("* * * * *", "every minute"),
        ("*/15 * * * *", "every 15 minutes"),
        ("*/7 * * * *", "every hour at minutes 0, 7, 14, 21, 28, 35, 42, 49 and 56"),
        ("0 * * * *", "every hour"),
        ("30 * * * *", "every hour at minute 30"),
        ("5,35 * * * *", "every hour at minutes 5 and 35"),
        ("0 */2 * * *", "every 2 hours"),
        ("15 */2 * * *", "every 2 hours at minute 15"),
        ("0 9-17 * * *", "every hour from 09:00 to 17:00"),
        ("*/15 9-17 * * MON-FRI", "every weekday, every 15 minutes from 09:00 to 17:45"),
        ("0,30 8,12 * * *", "every day at 08:00, 08:30, 12:00 and 12:30"),
        ("* 1,5 * * *", "every minute of the hours 1 and 5"),
        ("*/10 * * * * *", "every 10 seconds"),
        ("* * * * * *", "every second"),
        ("30 0 9 * * *", "every day at 09:00:30"),
        ("*/10 5 9 * * *", "every day at 09:05:00, 09:05:10, 09:05:20, 09:05:30, 09:05:40 and 09:05:50"),
        ("* 5 9 * * *", "every second of the minute 5 of the hour 9"),
        ("0 0 1,15 * *", "on the 1st and the 15th of every month at 00:00"),
        ("0 0 1-7 * *", "on the 1st to 7th of every month at 00:00"),
        ("0 0 22,23 JUN *", "on the 22nd and the 23rd of June at 00:00"),
        ("0 0 11 * *", "on the 11th of every month at 00:00"),
        ("0 0 L * *", "on the last day of every month at 00:00"),
        ("0 0 L-1 * *", "on the day before the last of every month at 00:00"),
        ("0 0 L-3 * *", "on the 3rd day before the last of every month at 00:00"),
        ("0 0 LW 3,6 *", "on the last weekday of March and June at 00:00"),
        ("0 0 15W * *", "on the weekday nearest to the 15th of every month at 00:00"),
        ("0 0 ? * FRI#2", "on the second Friday of every month at 00:00"),
        ("0 0 ? * FRIL", "on the last Friday of every month at 00:00"),
        ("0 0 ? * MON,FRIL", "every Monday and on the last Friday of every month at 00:00"),
        ("0 0 * * SAT,SUN", "every Sunday and Saturday at 00:00"),
        ("0 0 * 6-8 *", "every day in June to August at 00:00"),
        ("0 0 * 7 MON", "every Monday in July at 00:00"),
        ("0 0 13 * FRI", "on the 13th of every month and every Friday at 00:00"),
        ("0 0 */20 * MON", "on the 1st and the 21st of every month, if that is also every Monday at 00:00"),
        ("0 0 1-31 * MON", "every day at 00:00"),
    ] {
        assert_eq!(cron(text).in_words(), words, "{text}");
    }
}

#[test]
fn the_ends_of_the_calendar_are_ends() {
    let zone = Zone::named("Europe/Berlin").unwrap();
    for text in ["0 0 29 2 *", "* * * * * *", "0 0 ? * MON#5"] {
        let cron = cron(text);
        for time in [Time(i64::MIN), Time::MAX, Time(i64::MAX - 1), Time(0)] {
            assert!(cron.next(time, &zone).is_none_or(|next| next > time), "{text} after {time}");
            assert!(cron.previous(time, &zone).is_none_or(|before| before < time), "{text} before {time}");
        }
        assert_eq!(cron.next(Time::MAX, &zone), None);
        assert_eq!(cron.previous(Time(i64::MIN), &zone), None);
        assert!(cron.next(Time(i64::MIN), &zone).is_some());
        assert!(cron.previous(Time::MAX, &zone).is_some());
    }
}

proptest! {
    #[test]
    fn no_text_is_too_odd_to_be_answered(text in "[0-9a-zA-Z*/,#?LW -]{0,30}|.{0,30}|@.{0,8}") {
        if let Err(error) = text.parse::<Cron>() {
            prop_assert!(error.to_string().contains(&text));
            prop_assert!(error.character.is_none_or(|at| at >= 1 && at <= text.chars().count() + 1));
        }
    }

    #[test]
    fn what_is_read_is_written_so_that_it_is_read_again(
        minute in list("[0-5]?[0-9]"),
        hour in list("1?[0-9]"),
        day in prop_oneof![list("[12]?[1-9]"), "(\\?|L|LW|[1-9]W|L-[0-9])(,[1-9]|,L)?"],
        month in list("[1-9]|1[0-2]|JAN|apr|DEC"),
        week in prop_oneof![list("[0-7]|SUN|mon|SAT"), "(\\?|[0-7]#[1-5]|FRI#[1-5]|[0-7]L|TUEL)(,[0-7]|,SATL)?"],
    ) {
        let text = [minute, hour, day, month, week].join(" ");
        if let Ok(cron) = text.parse::<Cron>() {
            prop_assert_eq!(cron.to_string().parse::<Cron>().unwrap(), cron.clone());
            prop_assert!(!cron.in_words().is_empty());
            prop_assert!(cron.next(Time(0), &Zone::utc()).is_some());
        }
    }
}

/// Values, ranges and steps of a field.
fn list(value: &str) -> impl Strategy<Value = String> + use<> {
    let item = format!("(\\*|({value})|({value})-({value}))(/[1-9][0-9]?)?");
    proptest::string::string_regex(&format!("{item}(,{item})?")).unwrap()
}
