use super::{world::World, *};

/// Every hour, and nobody is there from a quarter past ten until twenty past three.
fn away(draft: ScheduleDraft) -> World {
    let mut world = World::new(draft.every(hours(1)), at("09:30:00"));
    world.until(at("10:15:00")).complete();
    world.away_until(at("15:20:00"));
    world
}

#[test]
fn the_latest_missed_time_is_made_up_for_and_says_so() {
    let mut world = away(draft());
    assert_eq!(world.started(), ["10:00", "15:00 at 15:20"]);
    assert_eq!(world.starts[0].origin, Origin::Clock);
    assert_eq!(world.starts[1].origin, Origin::CatchUp);
    assert_eq!(world.missed(), [("11:00".to_owned(), "14:00".to_owned(), 4)]);
    world.complete().until(at("16:00:00"));
    assert_eq!(world.started()[2..], ["16:00"]);
    assert_eq!(world.starts[2].origin, Origin::Clock);
}

#[test]
fn nothing_is_made_up_for_if_that_is_said() {
    let mut world = away(draft().catch_up(CatchUp::Skip));
    assert_eq!(world.started(), ["10:00"]);
    assert_eq!(world.missed(), [("11:00".to_owned(), "15:00".to_owned(), 5)]);
    world.until(at("16:00:00"));
    assert_eq!(world.started(), ["10:00", "16:00"]);
}

#[test]
fn a_time_that_is_a_moment_late_was_not_missed() {
    let mut world = World::new(draft().every(hours(1)).catch_up(CatchUp::Skip), at("09:30:00"));
    world.away_until(at("10:00:10"));
    assert_eq!(world.started(), ["10:00 at 10:00:10"]);
    assert_eq!(world.starts[0].origin, Origin::Clock);
    world.complete().away_until(at("11:00:11"));
    assert_eq!(world.started().len(), 1);
}

#[test]
fn a_hiccup_of_some_seconds_loses_no_time() {
    let mut world =
        World::new(draft().every(secs(1)).overlap(Overlap::Allow).catch_up(CatchUp::Skip), at("10:00:00"));
    world.away_until(at("10:00:05"));
    assert_eq!(world.starts.len(), 5);
    assert_eq!(world.tells, []);
    // The time that has just come was not missed, those before were.
    world.away_until(at("10:01:05"));
    assert_eq!(world.starts.len(), 6);
    assert_eq!(world.missed(), [("10:00:06".to_owned(), "10:01:04".to_owned(), 59)]);
}

#[test]
fn the_latest_so_many_are_made_up_for_the_oldest_first() {
    let world = away(draft().overlap(Overlap::Allow).catch_up(CatchUp::All { max: 3 }));
    assert_eq!(world.started()[1..], ["13:00 at 15:20", "14:00 at 15:20", "15:00 at 15:20"]);
    assert_eq!(world.missed(), [("11:00".to_owned(), "12:00".to_owned(), 2)]);
    let world = away(draft().overlap(Overlap::Allow).catch_up(CatchUp::All { max: 9 }));
    assert_eq!(world.started().len(), 6);
    assert_eq!(world.missed(), []);
}

#[test]
fn what_is_made_up_for_overlaps_like_any_other() {
    let all = CatchUp::All { max: 9 };
    assert_eq!(away(draft().catch_up(all)).started(), ["10:00", "11:00 at 15:20"]);
    let mut world = away(draft().overlap(Overlap::BufferAll).catch_up(all));
    world.complete().complete();
    assert_eq!(world.started(), ["10:00", "11:00 at 15:20", "12:00 at 15:20", "13:00 at 15:20"]);
}

#[test]
fn what_is_too_long_ago_is_not_made_up_for() {
    let within = |window| {
        away(draft().overlap(Overlap::Allow).catch_up(CatchUp::All { max: 9 }).catch_up_within(window))
    };
    assert_eq!(within(mins(140)).started()[1..], ["13:00 at 15:20", "14:00 at 15:20", "15:00 at 15:20"]);
    assert_eq!(within(mins(139)).started()[1..], ["14:00 at 15:20", "15:00 at 15:20"]);
    let none = away(draft().catch_up_within(mins(19)));
    assert_eq!(none.started(), ["10:00"]);
    assert_eq!(none.missed(), [("11:00".to_owned(), "15:00".to_owned(), 5)]);
}

#[test]
fn a_pause_of_years_is_caught_up_with_in_one_step() {
    for draft in
        [draft().every(Duration::from_millis(1)), draft().cron("* * * * * *").timezone("Europe/Berlin")]
    {
        let mut world = World::new(draft.overlap(Overlap::Allow), at("10:00:00"));
        world.tell(Event::Pause { note: "later".to_owned() });
        world.now = on("2056-03-01T10:00:00.5");
        let steps = world.tells.len() + world.starts.len();
        world.tell(Event::Resume);
        assert_eq!(world.tells.len() + world.starts.len() - steps, 2);
        assert!(matches!(world.tells[0], Tell::Missed { times: 1000, .. }));
        assert!(world.state.wake() > Some(world.now));
    }
}

#[test]
fn what_passed_in_a_pause_of_seconds_was_missed_too() {
    let mut world = World::new(draft().every(secs(1)).overlap(Overlap::Allow), at("10:00:00"));
    world.tell(Event::Pause { note: String::new() }).until(at("10:00:05.5")).tell(Event::Resume);
    assert_eq!(world.started(), ["10:00:05 at 10:00:05.5"]);
    assert_eq!(world.missed(), [("10:00:01".to_owned(), "10:00:04".to_owned(), 4)]);
}

#[test]
fn daily_times_that_fall_into_a_change_of_clocks_are_caught_up_with_as_they_would_have_been() {
    let berlin = draft().cron("30 2 * * *").timezone("Europe/Berlin").overlap(Overlap::Allow);
    let mut world = World::new(berlin.catch_up(CatchUp::All { max: 10 }), on("2026-03-27T12:00:00"));
    world.away_until(on("2026-03-30T12:00:00"));
    let times: Vec<String> = world.starts.iter().map(|firing| firing.scheduled_at.to_string()).collect();
    assert_eq!(times, ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]);
}

#[test]
fn jitter_is_waited_for_also_after_an_absence() {
    let mut world = World::new(draft().cron("0 * * * *").jitter(mins(50)), at("09:30:00"));
    let due = world.schedule.due(at("15:00:00"));
    assert!(due > at("15:00:00"));
    world.away_until(Time(due.0 - 1));
    assert_eq!(world.starts[0].scheduled_at, at("14:00:00"), "the next one still has to wait");
    world.complete().until(due);
    assert_eq!(world.starts[1].scheduled_at, at("15:00:00"));
    assert_eq!(world.starts[1].origin, Origin::Clock);
}

#[test]
fn no_more_runs_are_made_up_for_than_are_left() {
    let world = away(draft().overlap(Overlap::Allow).catch_up(CatchUp::All { max: 9 }).count(3));
    assert_eq!(world.started(), ["10:00", "14:00 at 15:20", "15:00 at 15:20"]);
    assert_eq!(world.state.wake(), None);
    assert_eq!(world.state.next_times(&world.schedule, 5), []);
}

#[test]
fn a_delay_after_a_run_is_caught_up_with_once() {
    let delayed = |catch_up| {
        let draft = draft().every(mins(1)).after_finish().catch_up(catch_up);
        let mut world = World::new(draft, at("10:00:00"));
        world.away_until(at("11:00:00"));
        world
    };
    assert_eq!(delayed(CatchUp::All { max: 9 }).started(), ["10:01 at 11:00"]);
    let mut world = delayed(CatchUp::Skip);
    assert_eq!(world.started(), [""; 0]);
    world.until(at("11:01:00"));
    assert_eq!(world.started(), ["11:01"]);
}

/// A run ends a moment after its next time has come, and nobody is there to hear of it for hours.
#[test]
fn what_was_missed_while_nobody_heard_of_an_end_is_judged_by_the_clock_as_it_is() {
    for (catch_up, expected) in [
        (CatchUp::Skip, vec!["10:00"]),
        (CatchUp::Latest, vec!["10:00", "15:00 at 15:20"]),
        (CatchUp::All { max: 2 }, vec!["10:00", "14:00 at 15:20", "15:00 at 15:20"]),
    ] {
        let overlap = if catch_up == CatchUp::Skip { Overlap::Skip } else { Overlap::Allow };
        let mut world =
            World::new(draft().every(hours(1)).overlap(overlap).catch_up(catch_up), at("09:30:00"));
        world.until(at("10:59:00"));
        world.now = at("11:00:05");
        world.end_unseen(Outcome::Completed, at("15:20:00"));
        assert_eq!(world.started(), expected, "{catch_up:?}");
    }
}

#[test]
fn a_back_off_and_a_fixed_delay_count_from_the_end_and_not_from_when_it_is_heard_of() {
    let backoff = Backoff::default().initial(mins(30)).max_delay(hours(9)).jitter(0.0);
    let mut world = World::new(draft().every(hours(1)).backoff(backoff), at("09:30:00"));
    world.until(at("10:05:00")).end_unseen(Outcome::Failed { error: "no bank".to_owned() }, at("10:20:00"));
    let Status::Backoff { until, .. } = world.state.status() else { panic!("it has failed") };
    assert_eq!(short(until), "10:35");
    let mut world = World::new(draft().every(hours(1)).after_finish(), at("09:30:00"));
    world.until(at("10:35:00")).end_unseen(Outcome::Completed, at("10:50:00")).until(at("11:35:00"));
    assert_eq!(world.started(), ["10:30", "11:35"]);
}
