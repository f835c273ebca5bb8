use super::{world::World, *};

fn plain() -> Backoff {
    Backoff::default().jitter(0.0)
}

#[test]
fn the_delays_are_those_that_are_written_down() {
    let seconds =
        |backoff: Backoff| (1..=11).map(|streak| backoff.delay(streak, 0.5).as_secs()).collect::<Vec<_>>();
    assert_eq!(seconds(plain()), [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
    assert_eq!(
        seconds(plain().initial(secs(10)).multiplier(3.0).max_delay(secs(100)))[..4],
        [10, 30, 90, 100]
    );
    let default = Backoff::default();
    assert_eq!(default.delay(1, 0.0), Duration::from_millis(900));
    assert_eq!(default.delay(4, 1.0), Duration::from_millis(8_800));
    assert_eq!(default.delay(1000, 1.0), secs(300), "the longest is the longest after jitter too");
    assert_eq!(default.delay(u32::MAX, 0.0), secs(270));
}

#[test]
fn a_failing_schedule_is_held_back_longer_and_longer() {
    let mut world = World::new(draft().every(secs(1)).backoff(plain()), at("10:00:00"));
    for _ in 0..4 {
        world.until(world.state.wake().unwrap()).fail();
    }
    // The runs fail at once; each next one is for the latest time that was held back.
    let expected = ["10:00:01", "10:00:02", "10:00:04", "10:00:08"];
    assert_eq!(world.started(), expected);
    let until = at("10:00:16");
    let last_error = "no bank".to_owned();
    assert_eq!(world.state.status(), Status::Backoff { until, streak: 4, last_error });
    world.until(until).complete();
    assert_eq!(world.state.status(), Status::Completed);
    world.until(at("10:00:17"));
    assert_eq!(world.started()[5], "10:00:17");
}

#[test]
fn what_was_held_back_is_caught_up_with_as_the_schedule_says() {
    let held = |catch_up| {
        let draft = draft().every(secs(1)).backoff(plain().initial(secs(5))).overlap(Overlap::Allow);
        let mut world = World::new(draft.catch_up(catch_up), at("10:00:00"));
        world.until(at("10:00:01.5")).fail().until(at("10:00:06.9"));
        world.started()
    };
    assert_eq!(held(CatchUp::Latest), ["10:00:01", "10:00:06 at 10:00:06.5"]);
    assert_eq!(held(CatchUp::Skip), ["10:00:01"]);
    let all = ["10:00:05 at 10:00:06.5", "10:00:06 at 10:00:06.5"];
    assert_eq!(held(CatchUp::All { max: 2 })[1..], all);
}

#[test]
fn too_many_failures_stop_it_until_a_reset() {
    let mut world = World::new(draft().every(mins(10)).backoff(plain().trip_after(3)), at("09:55:00"));
    for _ in 0..3 {
        world.until(world.state.wake().unwrap()).fail();
    }
    let last_error = "no bank".to_owned();
    assert_eq!(world.state.status(), Status::Tripped { streak: 3, last_error });
    assert_eq!(world.tells.last(), Some(&Tell::Trips { streak: 3 }));
    assert_eq!(world.state.wake(), None);
    world.until(at("11:05:00"));
    assert_eq!(world.started(), ["10:00", "10:10", "10:20"]);

    world.trigger("now");
    assert_eq!(world.skipped(), [("now".to_owned(), Skip::Tripped)]);

    // A success of a run that was under way does not wake it; only a person does.
    world.tell(Event::Reset);
    assert_eq!(world.started()[3..], ["11:00 at 11:05"]);
    world.fail();
    assert!(matches!(world.state.status(), Status::Backoff { streak: 1, .. }));
}

#[test]
fn a_success_while_it_is_stopped_leaves_it_stopped() {
    let draft = draft().every(secs(1)).overlap(Overlap::Allow).backoff(plain().trip_after(1));
    let mut world = World::new(draft, at("10:00:00"));
    world.until(at("10:00:02")).fail().complete();
    let last_error = "no bank".to_owned();
    assert_eq!(world.state.status(), Status::Tripped { streak: 1, last_error });
    world.until(at("10:01:00"));
    assert_eq!(world.starts.len(), 2);
}

#[test]
fn runs_beside_each_other_that_fail_together_are_one_failure() {
    let draft = draft().every(secs(1)).overlap(Overlap::Allow).backoff(plain().trip_after(2));
    let mut world = World::new(draft, at("10:00:00"));
    world.until(at("10:00:03")).fail().fail().fail();
    assert!(matches!(world.state.status(), Status::Backoff { streak: 1, .. }));
    world.until(at("10:00:04")).fail();
    assert!(matches!(world.state.status(), Status::Tripped { streak: 2, .. }));
}

#[test]
fn a_failure_of_before_the_reset_does_not_stop_it_again() {
    let draft = draft().every(secs(1)).overlap(Overlap::Allow).backoff(plain().trip_after(1));
    let mut world = World::new(draft, at("10:00:00"));
    world.until(at("10:00:02")).fail().tell(Event::Reset).fail().until(at("10:00:03"));
    assert_eq!(world.started(), ["10:00:01", "10:00:02", "10:00:03"]);
    world.fail();
    assert!(matches!(world.state.status(), Status::Tripped { streak: 1, .. }));
}

#[test]
fn a_run_that_somebody_forgave_beforehand_does_not_begin_a_new_row() {
    let mut world = World::new(draft().manual().backoff(plain().trip_after(1)), at("10:00:00"));
    world.trigger("a").tell(Event::Reset).fail();
    assert_eq!((world.state.status(), world.tells.len()), (Status::Idle, 0));
    world.trigger("b").fail();
    assert!(matches!(world.state.status(), Status::Tripped { streak: 1, .. }));
}

#[test]
fn a_wish_passes_through_the_backoff() {
    let mut world = World::new(draft().every(mins(1)).backoff(plain().initial(mins(5))), at("10:00:00"));
    world.until(at("10:01:00")).fail().until(at("10:03:30")).trigger("now");
    assert_eq!(world.started(), ["10:01", "10:03:30"]);
    assert_eq!(world.starts[1].key, "job!now");
    assert_eq!(world.state.status(), Status::Running);
}

#[test]
fn a_cancelled_run_is_neither_a_failure_nor_a_success() {
    let mut world = World::new(draft().every(mins(1)).backoff(plain()), at("10:00:00"));
    world.until(at("10:01:00")).fail().until(at("10:02:00")).end(Outcome::Cancelled);
    assert!(matches!(world.state.status(), Status::Backoff { streak: 1, .. }));
    world.until(at("10:03:00")).complete().until(at("10:04:00")).end(Outcome::Cancelled);
    assert_eq!(world.state.status(), Status::Idle);
}

#[test]
fn a_delay_after_a_run_is_put_off_by_the_backoff() {
    let draft = draft().every(secs(1)).after_finish().catch_up(CatchUp::Skip);
    let mut world = World::new(draft.backoff(plain().initial(secs(30))), at("10:00:00"));
    world.until(at("10:00:01")).fail().until(at("10:00:30"));
    assert_eq!(world.starts.len(), 1);
    world.until(at("10:00:31")).complete().until(at("10:00:32"));
    assert_eq!(world.started(), ["10:00:01", "10:00:31", "10:00:32"]);
}

#[test]
fn a_long_error_is_kept_in_part() {
    let mut world = World::new(draft().every(mins(1)), at("10:00:00"));
    world.until(at("10:01:00")).end(Outcome::Failed { error: "ä".repeat(5_000) });
    let Status::Backoff { last_error, .. } = world.state.status() else { panic!() };
    assert_eq!(last_error.chars().count(), 1_000);
}
