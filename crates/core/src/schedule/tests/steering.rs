use super::{world::World, *};

fn minutely() -> ScheduleDraft {
    draft().every(mins(1))
}

fn pause(world: &mut World) -> &mut World {
    world.tell(Event::Pause { note: "bank holiday".to_owned() })
}

#[test]
fn a_paused_schedule_starts_nothing_and_goes_on_when_it_is_resumed() {
    let mut world = World::new(minutely().overlap(Overlap::BufferAll), at("10:00:00"));
    world.until(at("10:02:30"));
    pause(&mut world).complete();
    assert_eq!(world.state.paused(), Some("bank holiday"));
    assert_eq!((world.started(), world.state.wake()), (vec!["10:01".to_owned()], None));
    world.until(at("10:10:30"));
    world.tell(Event::Resume);
    assert_eq!(world.started(), ["10:01", "10:02 at 10:10:30"], "what waited goes first");
    world.complete();
    assert_eq!(world.started()[2..], ["10:10 at 10:10:30"], "and then the latest that was missed");
    assert_eq!(world.state.paused(), None);
    world.tell(Event::Resume).complete().until(at("10:11:00"));
    assert_eq!(world.started()[3..], ["10:11"]);
}

#[test]
fn somebody_may_start_a_run_at_any_time() {
    let mut world = World::new(draft().manual(), at("10:00:00"));
    assert_eq!((world.state.wake(), world.state.status()), (None, Status::Idle));
    pause(&mut world).trigger("a");
    assert_eq!((world.starts[0].key.as_str(), world.starts[0].origin), ("job!a", Origin::Trigger));
    world.trigger("a").trigger("b");
    assert_eq!(world.skipped(), [("b".to_owned(), Skip::Running)], "the same wish is told once");
    world.complete().trigger("a").trigger("b");
    assert_eq!(world.starts.len(), 2);
    assert_eq!(world.state.runs(), 2);
    assert_eq!(world.state.last_run().unwrap().key, "job!b");
}

#[test]
fn a_wish_that_is_told_again_cancels_nothing() {
    let mut world = World::new(minutely().overlap(Overlap::CancelRunning), at("10:00:00"));
    world.trigger("a").complete().until(at("10:01:00"));
    let before = world.state.clone();
    world.trigger("a");
    assert_eq!((world.cancels.len(), world.tells.len()), (0, 0));
    assert_eq!(world.state, before);
}

#[test]
fn a_wish_with_an_endless_id_is_refused() {
    let mut world = World::new(draft().manual(), at("10:00:00"));
    world.trigger(&"ä".repeat(201));
    assert_eq!(world.skipped(), [("ä".repeat(200), Skip::TooLong)]);
    world.trigger(&"ä".repeat(200)).complete();
    assert_eq!((world.starts.len(), world.state.status()), (1, Status::Completed));
}

#[test]
fn a_wish_that_waits_is_not_held_by_a_pause() {
    let mut world = World::new(minutely().overlap(Overlap::BufferAll), at("10:00:00"));
    world.until(at("10:02:00")).trigger("a");
    pause(&mut world).complete();
    assert_eq!(world.starts[1].key, "job!a");
    world.complete();
    assert_eq!(world.starts.len(), 2, "but the time that waited is");
}

#[test]
fn a_wish_that_waits_is_told_once_and_does_not_pass_a_trip() {
    let backoff = Backoff::default().trip_after(1);
    let mut world = World::new(minutely().overlap(Overlap::BufferAll).backoff(backoff), at("10:00:00"));
    world.until(at("10:01:00")).trigger("a").trigger("a").fail();
    assert_eq!(world.started(), ["10:01"]);
    assert_eq!(world.tells.iter().filter(|tell| matches!(tell, Tell::Waits { .. })).count(), 1);
    world.tell(Event::Reset);
    assert_eq!(world.starts[1].key, "job!a");
    world.complete();
    assert_eq!(world.starts.len(), 2);
}

#[test]
fn declaring_it_again_with_the_same_settings_changes_nothing() {
    let mut world = World::new(minutely(), at("10:00:00"));
    world.until(at("10:01:30"));
    let before = world.state.clone();
    let again = Schedule::try_from(minutely()).unwrap();
    let decision = world.schedule.decide(before.clone(), Event::Update(Box::new(again)), world.now);
    assert_eq!(decision, Decision { state: before, commands: Vec::new() });
}

#[test]
fn other_settings_take_effect_from_now_on_and_are_told() {
    let mut world = World::new(draft().cron("0 * * * *"), at("10:30:00"));
    world.until(at("11:30:00")).complete();
    let to = draft().cron("*/20 * * * *").check().unwrap();
    world.tell(Event::Update(Box::new(to)));
    let difference =
        vec!["the times were cron `0 * * * *` in UTC, and are cron `*/20 * * * *` in UTC".to_owned()];
    assert_eq!(world.tells, [Tell::Updated { difference }]);
    world.until(at("11:59:59"));
    assert_eq!(world.started(), ["11:00", "11:40"], "11:20 was no time of it before");
}

#[test]
fn what_the_old_settings_missed_is_settled_before_they_change() {
    let mut world = World::new(draft().cron("0 2 * * *"), at("00:00:00"));
    world.now = at("03:00:00");
    world.tell(Event::Update(Box::new(draft().cron("30 2 * * *").check().unwrap())));
    assert_eq!(world.started(), ["02:00 at 03:00"]);
    assert_eq!(world.state.next_times(&world.schedule, 1), [on("2026-03-02T02:30:00")]);
}

#[test]
fn more_runs_are_allowed_from_now_on() {
    let mut world = World::new(minutely().count(2), at("10:00:00"));
    for minute in ["10:01:00", "10:02:00"] {
        world.until(at(minute)).complete();
    }
    world.until(at("10:30:30"));
    assert_eq!((world.starts.len(), world.state.wake()), (2, None));
    world.trigger("more").complete();
    world.tell(Event::Update(Box::new(minutely().count(3).check().unwrap())));
    world.until(at("10:40:00"));
    assert_eq!(world.started()[3..], ["10:31"], "nothing was missed while there was nothing to do");
}

#[test]
fn a_removed_schedule_says_what_waited() {
    let mut world = World::new(minutely().overlap(Overlap::BufferAll), at("10:00:00"));
    world.until(at("10:02:00")).tell(Event::Remove);
    assert!(world.removed);
    assert_eq!(world.skipped(), [("10:02".to_owned(), Skip::Removed)]);
    assert_eq!(world.state.wake(), None);
}

#[test]
fn a_removed_schedule_says_which_past_times_it_leaves_out() {
    let mut world = World::new(draft().cron("0 * * * *"), at("10:30:00"));
    world.tell(Event::Backfill { from: at("07:00:00"), to: at("10:00:00") }).tell(Event::Remove);
    assert_eq!(world.tells, [Tell::BackfillDropped { first: at("08:00:00"), last: at("09:00:00") }]);
}

#[test]
fn an_instant_that_has_just_passed_when_it_is_declared_still_counts() {
    let mut world = World::new(draft().at(at("09:59:55")), at("10:00:00"));
    world.until(at("10:00:00"));
    assert_eq!(world.started(), ["09:59:55 at 10:00"]);
    let mut world = World::new(draft().at(at("09:59:50")), at("10:00:00"));
    world.until(at("12:00:00"));
    assert_eq!(world.started(), [""; 0], "one that is longer ago does not");
    assert_eq!(world.state.wake(), None);
}

#[test]
fn past_times_are_listed_first_and_then_started_one_after_the_other() {
    let mut world = World::new(draft().cron("0 * * * *"), at("10:30:00"));
    let (from, to) = (at("07:00:00"), at("10:00:00"));
    let listed = world.schedule.backfill(&world.state, from, to, world.now).unwrap();
    assert_eq!(listed.iter().copied().map(short).collect::<Vec<_>>(), ["07:00", "08:00", "09:00"]);
    world.tell(Event::Backfill { from, to });
    assert_eq!(world.started(), ["07:00 at 10:30"]);
    assert_eq!(world.starts[0].origin, Origin::Backfill);
    assert_eq!(world.starts[0].key, "job@2026-03-01T07:00:00Z");
    world.complete().complete().complete();
    assert_eq!(world.started(), ["07:00 at 10:30", "08:00 at 10:30", "09:00 at 10:30"]);
    // Asked for again, each keeps the run it has.
    world.tell(Event::Backfill { from, to: at("10:10:00") }).until(at("10:30:00"));
    assert_eq!(world.started()[3..], ["10:00 at 10:30"]);
    world.complete();
    assert_eq!((world.starts.len(), world.state.runs()), (4, 4));
    assert_eq!(world.state.wake(), Some(at("11:00:00")));
}

#[test]
fn past_times_make_room_for_the_present() {
    let mut world = World::new(draft().cron("0 * * * *"), at("10:30:00"));
    world.tell(Event::Backfill { from: at("07:00:00"), to: at("10:00:00") });
    world.until(at("11:10:00")).complete();
    assert_eq!(
        world.started(),
        ["07:00 at 10:30", "11:00 at 11:10"],
        "it waited, though others are left out"
    );
    assert_eq!(world.skipped(), []);
    world.complete();
    assert_eq!(world.started()[2..], ["08:00 at 11:10"]);
}

#[test]
fn past_times_wait_for_a_failing_schedule() {
    let backoff = Backoff::default().jitter(0.0).initial(mins(2)).trip_after(2);
    let mut world = World::new(draft().cron("0 * * * *").backoff(backoff), at("10:30:00"));
    world.tell(Event::Backfill { from: at("05:00:00"), to: at("10:00:00") });
    world.fail().until(at("10:31:00"));
    assert_eq!(world.started(), ["05:00 at 10:30"]);
    world.until(at("10:32:00")).fail().until(at("12:30:00"));
    assert_eq!(world.started(), ["05:00 at 10:30", "06:00 at 10:32"]);
    world.tell(Event::Reset).complete();
    assert_eq!(world.started()[2..], ["12:00 at 12:30", "07:00 at 12:30"]);
}

#[test]
fn past_times_may_be_started_all_at_once_if_runs_may_overlap() {
    let mut world = World::new(draft().every(secs(1)).overlap(Overlap::Allow), at("10:00:00"));
    world.tell(Event::Backfill { from: at("09:43:00"), to: at("10:00:00") });
    assert_eq!(world.starts.len(), 1_000, "as many as may be under way");
    world.until(at("10:00:01")).complete();
    assert_eq!(world.starts.last().unwrap().scheduled_at, at("10:00:01"), "the present goes first");
    for _ in 0..20 {
        world.complete();
    }
    assert_eq!(world.starts.len(), 1_021);
    assert_eq!(world.state.wake(), Some(at("10:00:02")));
}

#[test]
fn a_wish_for_past_times_that_cannot_be_is_refused_with_the_reason() {
    let refused = |draft: ScheduleDraft, from: &str, to: &str| {
        let mut world = World::new(draft, at("10:30:00"));
        world.tell(Event::Backfill { from: on(from), to: on(to) });
        assert_eq!(world.starts, []);
        let Some(Tell::BackfillRefused(error)) = world.tells.pop() else { panic!("{:?}", world.tells) };
        assert_eq!(world.schedule.backfill(&world.state, on(from), on(to), world.now), Err(error.clone()));
        error.to_string()
    };
    let day = ("2026-02-28T00:00:00", "2026-03-01T00:00:00");
    let error = refused(draft().cron("* * * * *"), "2016-03-01T00:00:00", "2026-03-01T00:00:00");
    let expected = "`job` has more than 10000 times from 2016-03-01T00:00:00Z until 2026-03-01T00:00:00Z: ask for fewer, \
                    such as until 2016-03-07T22:40:00Z";
    assert_eq!(error, expected);
    assert_eq!(
        refused(draft().cron("@daily"), day.1, day.0),
        format!("from {}Z until {}Z is no time at all", day.1, day.0)
    );
    let future = refused(draft().cron("@daily"), day.0, "2026-03-02T00:00:00");
    assert_eq!(future, "2026-03-02T00:00:00Z is not past yet: it is 2026-03-01T10:30:00Z");
    let manual = refused(draft().manual(), day.0, day.1);
    assert_eq!(manual, "`job` has no times that could be past: it fires only by hand");
    let delay = refused(draft().every(secs(1)).after_finish(), day.0, day.1);
    assert!(delay.ends_with("it fires 1s after each run has ended"));

    let mut world = World::new(draft().cron("0 * * * *"), at("10:30:00"));
    for _ in 0..12 {
        world.tell(Event::Backfill { from: at("07:00:00"), to: at("10:00:00") });
    }
    assert!(matches!(&world.tells[..], [Tell::BackfillRefused(BackfillError::Busy { .. }), ..]));
}

#[test]
fn times_that_will_still_come_are_not_past() {
    let mut world = World::new(draft().cron("0 * * * *"), at("09:30:00"));
    pause(&mut world);
    world.now = at("12:30:00");
    let listed = world.schedule.backfill(&world.state, at("08:00:00"), at("12:30:00"), world.now).unwrap();
    assert_eq!(listed, [at("08:00:00"), at("09:00:00")], "the pause holds back the others");
}
