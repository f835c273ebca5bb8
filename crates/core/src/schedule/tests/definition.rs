use super::*;

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let problems = ScheduleDraft::new("my job", "")
        .every(Duration::ZERO)
        .cron("0 0 31 2 *")
        .timezone("Europe/Berln")
        .catch_up(CatchUp::All { max: 0 })
        .catch_up_within(Duration::ZERO)
        .count(0)
        .starting_at(at("10:00:00"))
        .ending_at(at("09:00:00"))
        .backoff(Backoff::default().multiplier(0.5).jitter(2.0).initial(hours(1)).trip_after(0))
        .check()
        .unwrap_err();
    let expected = [
        "a schedule cannot be called `my job`: a name has letters, digits, `_`, `-` and `.` only",
        "a workflow cannot be called ``: a name needs at least one character",
        "`my job` says when in more than one way (every, cron): make it several schedules",
        "the interval of `my job` cannot be used: 0s is shorter than 1ms",
        "`0 0 31 2 *` is not a cron expression: it never fires: no year has such a day",
        "there is no time zone `Europe/Berln`: did you mean `Europe/Berlin`?",
        "the catch-up of `my job` cannot be used: 0 times are not between 1 and 1000",
        "the catch-up of `my job` cannot be used: nothing is within 0s: say `CatchUp::Skip` if that is meant",
        "the count of `my job` cannot be used: with 0 runs it would do nothing: leave it out for no limit",
        "the end of `my job` cannot be used: 2026-03-01T09:00:00Z is not after its beginning at 2026-03-01T10:00:00Z",
        "the backoff of `my job` cannot be used: a multiplier of 0.5 is not a number from 1 up",
        "the backoff of `my job` cannot be used: a jitter of 2 is not between 0 and 1",
        "the backoff of `my job` cannot be used: its first delay of 1h is longer than its longest of 5m",
        "the backoff of `my job` cannot be used: it stops after 0 failures: it would never run",
    ];
    assert_eq!(problems.to_string().lines().collect::<Vec<_>>(), expected);
    assert_eq!(problems.iter().count(), expected.len());
}

#[test]
fn settings_without_effect_are_refused() {
    let week = on("2026-03-02T00:00:00");
    for (draft, message) in [
        (draft(), "`job` does not say when: use `every`, `cron`, `at` or `manual`"),
        (draft().cron("@daily").after_finish(), "`job` has `after_finish`, which is for `every` only"),
        (draft().every(secs(1)).timezone("UTC"), "`job` has `timezone`, which is for `cron` only"),
        (
            draft().manual().jitter(secs(1)),
            "`job` has `jitter`, which is for schedules with times of their own only",
        ),
        (draft().manual().count(3), "`job` has `count`"),
        (draft().manual().catch_up(CatchUp::Skip), "`job` has `catch_up`"),
        (
            draft().every(secs(1)).catch_up(CatchUp::Skip).catch_up_within(secs(1)),
            "`job` has `catch_up_within`, which is for schedules that catch up only",
        ),
        (draft().every(Duration::from_nanos(1_000_001)), "1.000001ms is finer than a microsecond"),
        (draft().at(Time::MAX), "is beyond the calendar"),
        (
            draft().every(secs(1)).catch_up(CatchUp::All { max: 1001 }),
            "1001 times are not between 1 and 1000",
        ),
        (
            draft().cron("0 0 * * MON").starting_at(at("00:00:00")).ending_at(week),
            "`job` never fires: it has no time from 2026-03-01T00:00:00Z until 2026-03-02T00:00:00Z",
        ),
        (
            draft().at(at("10:00:00")).ending_at(at("10:00:00")),
            "it has no time from the beginning until 2026-03-01",
        ),
    ] {
        let problems = draft.check().unwrap_err().to_string();
        assert!(problems.contains(message), "{problems}");
    }
    let many = (0..1001).fold(draft(), |draft, second| draft.at(Time(second)));
    assert!(many.check().unwrap_err().to_string().contains("it has 1001, and 1000 are the most"));
}

#[test]
fn a_fixed_rate_begins_with_its_start_or_with_1970() {
    let times = |draft: ScheduleDraft| {
        let schedule = draft.check().unwrap();
        schedule.next_times(3, at("10:02:00")).into_iter().map(short).collect::<Vec<_>>()
    };
    assert_eq!(times(draft().every(mins(15))), ["10:15", "10:30", "10:45"]);
    assert_eq!(times(draft().every(mins(15)).starting_at(at("09:50:00"))), ["10:05", "10:20", "10:35"]);
    assert_eq!(times(draft().every(mins(15)).starting_at(at("11:00:00"))), ["11:00", "11:15", "11:30"]);
    assert_eq!(times(draft().every(mins(15)).ending_at(at("10:30:00"))), ["10:15"]);
    assert_eq!(times(draft().every(mins(15)).count(2)), ["10:15", "10:30"]);
}

#[test]
fn instants_are_sorted_and_each_counts_once() {
    let schedule =
        draft().at(at("12:00:00")).at(at("10:00:00")).at(at("12:00:00")).at(at("11:00:00")).check().unwrap();
    let times: Vec<String> = schedule.next_times(9, at("10:00:00")).into_iter().map(short).collect();
    assert_eq!(times, ["11:00", "12:00"]);
    assert_eq!(schedule.previous_time(at("11:00:00")).map(short).as_deref(), Some("10:00"));
    assert_eq!(schedule.previous_time(at("10:00:00")), None);
}

#[test]
fn a_schedule_is_told_in_words() {
    let berlin = draft().cron("0 9 * * MON-FRI").timezone("Europe/Berlin");
    for (draft, words) in [
        (berlin, "every weekday at 09:00 in Europe/Berlin"),
        (draft().cron("0 2 * * *"), "every day at 02:00 in UTC"),
        (draft().cron("*/15 * * * *"), "every 15 minutes"),
        (draft().cron("30 * * * *").timezone("Asia/Kolkata"), "every hour at minute 30 in Asia/Kolkata"),
        (draft().every(secs(90)), "every 1m30s"),
        (draft().every(secs(30)).after_finish(), "30s after each run has ended"),
        (draft().at(at("10:00:00")), "once, at 2026-03-01T10:00:00Z"),
        (
            draft().at(at("10:00:00")).at(at("11:00:00")),
            "at 2 instants from 2026-03-01T10:00:00Z to 2026-03-01T11:00:00Z",
        ),
        (draft().manual(), "only by hand"),
        (
            draft().every(hours(1)).starting_at(at("10:00:00")).ending_at(at("20:00:00")).count(3),
            "every 1h, from 2026-03-01T10:00:00Z, until 2026-03-01T20:00:00Z, 3 times",
        ),
    ] {
        assert_eq!(draft.check().unwrap().in_words(), words);
    }
}

#[test]
fn every_kind_of_schedule_is_read_as_it_was_written() {
    let full = draft()
        .cron("0 9 * * mon-fri")
        .timezone("europe/berlin")
        .input("abc")
        .overlap(Overlap::BufferAll)
        .catch_up(CatchUp::All { max: 7 })
        .catch_up_within(hours(3))
        .jitter(secs(30))
        .starting_at(at("00:00:00"))
        .ending_at(on("2027-01-01T00:00:00"))
        .count(100)
        .backoff(Backoff::default().trip_after(5));
    for draft in [
        full,
        draft().every(secs(90)),
        draft().every(secs(90)).after_finish(),
        draft().at(at("10:00:00")).at(at("09:00:00")),
        draft().manual(),
    ] {
        let schedule = draft.check().unwrap();
        let json = serde_json::to_string(&schedule).unwrap();
        let read: Schedule = serde_json::from_str(&json).unwrap();
        assert_eq!(read, schedule, "{json}");
        assert_eq!(read.fingerprint(), schedule.fingerprint());
        assert_eq!(serde_json::to_string(&read).unwrap(), json);
    }
    let short = r#"{"name":"poll","workflow":"inbox","every":{"secs":30,"nanos":0}}"#;
    let read: Schedule = serde_json::from_str(short).unwrap();
    assert_eq!(read, ScheduleDraft::new("poll", "inbox").every(secs(30)).check().unwrap());
    let wrong = r#"{"name":"poll","workflow":"inbox","every":{"secs":0,"nanos":0}}"#;
    assert!(
        serde_json::from_str::<Schedule>(wrong).unwrap_err().to_string().contains("0s is shorter than 1ms")
    );
}

#[test]
fn the_fingerprint_of_a_schedule_never_changes() {
    let schedule = draft().cron("0 2 * * *").timezone("Europe/Paris").jitter(secs(30)).check().unwrap();
    assert_eq!(schedule.fingerprint(), "c2befd827f4223ba");
}

#[test]
fn each_setting_counts_and_is_named_when_it_changes() {
    let base = || draft().cron("0 2 * * *");
    let same = draft().cron(" 0  2 ? * *").timezone("utc");
    assert_eq!(base().check(), same.clone().check());
    assert_eq!(base().check().unwrap().fingerprint(), same.check().unwrap().fingerprint());
    let renamed = ScheduleDraft { workflow: "elt".to_owned(), ..base() };
    for (changed, words) in [
        (renamed, "the workflow was etl, and is elt"),
        (base().input("other"), "the input is another one"),
        (
            base().timezone("Europe/Paris"),
            "the times were cron `0 2 * * *` in UTC, and are cron `0 2 * * *` in Europe/Paris",
        ),
        (draft().every(secs(30)), "the times were cron `0 2 * * *` in UTC, and are every 30s"),
        (base().overlap(Overlap::CancelRunning), "the overlap was skip, and is cancel the running one"),
        (base().catch_up(CatchUp::All { max: 5 }), "the catch-up was the latest, and is the latest 5"),
        (base().catch_up_within(hours(2)), "the window of the catch-up was none, and is 2h"),
        (base().jitter(secs(30)), "the jitter was 0s, and is 30s"),
        (base().starting_at(at("10:00:00")), "the beginning was none, and is 2026-03-01T10:00:00Z"),
        (base().ending_at(at("10:00:00")), "the end was none, and is 2026-03-01T10:00:00Z"),
        (base().count(3), "the number of runs was none, and is 3"),
        (
            base().backoff(Backoff::default().trip_after(5)),
            "the backoff was 1s × 2 up to 5m, jitter 0.1, and is 1s × 2 up to 5m, jitter 0.1, stopped after 5 failures",
        ),
    ] {
        let (before, after) = (base().check().unwrap(), changed.check().unwrap());
        assert_ne!(before, after);
        assert_ne!(before.fingerprint(), after.fingerprint(), "{words}");
        assert_eq!(before.difference(&after), [words]);
        assert_eq!(after.difference(&after), [""; 0]);
    }
}

#[test]
fn jitter_is_the_same_everywhere_and_never_reaches_the_next_time() {
    let schedule = draft().cron("* * * * *").jitter(secs(30)).check().unwrap();
    let times = schedule.next_times(1000, at("10:00:00"));
    let late: Vec<u64> = times.iter().map(|time| schedule.due(*time).since(*time).as_secs()).collect();
    assert!(late.iter().all(|late| *late < 30));
    assert!((0..30).all(|second| late.contains(&second)), "spread over the whole of it");
    assert_eq!(schedule.due(at("10:00:00")).to_string(), "2026-03-01T10:00:05.457496Z");

    let other = ScheduleDraft::new("other", "etl").cron("* * * * *").jitter(secs(30)).check().unwrap();
    assert!(times.iter().filter(|time| schedule.due(**time) == other.due(**time)).count() < 10);

    let wide = draft().every(secs(1)).jitter(hours(1)).check().unwrap();
    for pair in wide.next_times(1000, at("10:00:00")).windows(2) {
        assert!(wide.due(pair[0]) >= pair[0] && wide.due(pair[0]) < pair[1]);
    }
    let late = |time: &Time| wide.due(*time).since(*time).as_millis() / 100;
    let late: Vec<u128> = wide.next_times(1000, at("10:00:00")).iter().map(late).collect();
    for tenth in 0..10 {
        let gathered = late.iter().filter(|late| **late == tenth).count();
        assert!((50..200).contains(&gathered), "{gathered} of 1000 are {tenth} tenths of a second late");
    }
}
