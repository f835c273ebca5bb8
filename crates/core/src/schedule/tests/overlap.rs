use super::{world::World, *};

/// A run is started at 10:00 and takes until half past two minutes later.
fn busy(overlap: Overlap) -> World {
    let mut world = World::new(draft().every(mins(1)).overlap(overlap), at("09:59:30"));
    world.until(at("10:02:30"));
    world
}

#[test]
fn a_time_is_left_out_while_a_run_is_under_way() {
    let mut world = busy(Overlap::Skip);
    world.complete().until(at("10:03:00"));
    assert_eq!(world.started(), ["10:00", "10:03"]);
    assert_eq!(world.skipped(), [("10:01".to_owned(), Skip::Running), ("10:02".to_owned(), Skip::Running)]);
}

#[test]
fn one_time_waits_and_others_are_left_out() {
    let mut world = busy(Overlap::BufferOne);
    assert_eq!(world.started(), ["10:00"]);
    world.complete();
    assert_eq!(world.started(), ["10:00", "10:01 at 10:02:30"]);
    assert_eq!(world.skipped(), [("10:02".to_owned(), Skip::Running)]);
    world.complete().until(at("10:03:00"));
    assert_eq!(world.started().len(), 3);
}

#[test]
fn all_times_wait_and_come_one_after_the_other() {
    let mut world = busy(Overlap::BufferAll);
    world.complete();
    assert_eq!(world.started(), ["10:00", "10:01 at 10:02:30"]);
    world.complete();
    assert_eq!(world.started(), ["10:00", "10:01 at 10:02:30", "10:02 at 10:02:30"]);
    assert_eq!(world.skipped(), []);
}

#[test]
fn what_waits_counts_among_the_runs_that_are_left() {
    let mut world = World::new(draft().every(mins(1)).overlap(Overlap::BufferAll).count(2), at("10:00:00"));
    world.until(at("10:05:00")).complete().complete();
    assert_eq!(world.started(), ["10:01", "10:02 at 10:05"]);
    assert_eq!(world.state.running(&world.schedule), [""; 0]);
    assert_eq!(world.state.wake(), None);
}

#[test]
fn no_more_than_a_thousand_wait() {
    let draft = draft().every(secs(1)).overlap(Overlap::BufferAll).catch_up(CatchUp::All { max: 1_000 });
    let mut world = World::new(draft, at("10:00:00"));
    world.away_until(at("10:30:00")).trigger("a").trigger("b");
    assert_eq!((world.starts.len(), world.state.waiting.len()), (1, 1_000));
    assert_eq!(world.skipped(), [("b".to_owned(), Skip::Full)]);
}

#[test]
fn the_running_one_is_cancelled_once_and_the_latest_follows_it() {
    let mut world = busy(Overlap::CancelRunning);
    assert_eq!(world.cancels, ["job@2026-03-01T10:00:00Z"]);
    assert_eq!(world.started(), ["10:00"], "two never run at once");
    world.end(Outcome::Cancelled);
    assert_eq!(world.started(), ["10:00", "10:02 at 10:02:30"]);
    assert_eq!(world.skipped(), [("10:01".to_owned(), Skip::Replaced)]);
    assert_eq!(world.state.status(), Status::Running);
    world.until(at("10:03:00"));
    assert_eq!(world.cancels, ["job@2026-03-01T10:00:00Z", "job@2026-03-01T10:02:00Z"]);
}

#[test]
fn what_waits_is_not_started_to_be_cancelled_at_once() {
    let mut world = World::new(draft().every(mins(1)).overlap(Overlap::CancelRunning), at("09:59:30"));
    world.until(at("10:01:00"));
    world.now = at("10:02:00");
    world.end(Outcome::Cancelled);
    assert_eq!(world.started(), ["10:00", "10:02"]);
    assert_eq!(world.cancels, ["job@2026-03-01T10:00:00Z"]);
    assert_eq!(world.skipped(), [("10:01".to_owned(), Skip::Replaced)]);
}

#[test]
fn of_times_that_come_at_once_and_cancel_each_other_only_the_last_starts() {
    let draft = draft().every(secs(1)).overlap(Overlap::CancelRunning).catch_up(CatchUp::All { max: 9 });
    for (absence, times) in [(5, 4), (60, 59)] {
        let mut world = World::new(draft.clone(), at("10:00:00"));
        world.away_until(at("10:00:00") + secs(absence));
        let last: Vec<Time> = world.starts.iter().map(|firing| firing.scheduled_at).collect();
        assert_eq!((last, world.cancels.len()), (vec![world.now], 0));
        let until = short(world.now - secs(1));
        assert_eq!(world.missed(), [("10:00:01".to_owned(), until, times)]);
    }
}

#[test]
fn runs_may_be_beside_each_other_if_that_is_allowed() {
    let mut world = busy(Overlap::Allow);
    assert_eq!(world.started(), ["10:00", "10:01", "10:02"]);
    let keys = ["job@2026-03-01T10:00:00Z", "job@2026-03-01T10:01:00Z", "job@2026-03-01T10:02:00Z"];
    assert_eq!(world.state.running(&world.schedule), keys);
    world.complete().complete();
    assert_eq!(world.state.status(), Status::Running);
    world.complete();
    assert_eq!(world.state.status(), Status::Completed);
}

#[test]
fn no_more_than_a_thousand_are_under_way_and_the_next_waits() {
    let draft = draft().every(secs(1)).overlap(Overlap::Allow).catch_up(CatchUp::All { max: 1_000 });
    let mut world = World::new(draft, at("10:00:00"));
    world.away_until(at("10:30:00")).until(at("10:30:01")).trigger("a");
    assert_eq!((world.starts.len(), world.state.waiting.len()), (1_000, 2));
    assert_eq!(world.state.wake(), Some(at("10:30:02")));
    world.complete().complete();
    assert_eq!(world.started()[1_000..], ["10:30:01", "10:30:01"]);
}

#[test]
fn what_counts_from_the_end_of_a_run_never_overlaps() {
    let mut world = World::new(draft().every(mins(1)).after_finish(), at("10:00:00"));
    world.until(at("10:05:00"));
    assert_eq!(world.started(), ["10:01"]);
    assert_eq!(world.state.wake(), None);
    world.complete().until(at("10:05:59"));
    assert_eq!(world.started(), ["10:01"]);
    world.until(at("10:06:20")).complete();
    assert_eq!(world.state.next_times(&world.schedule, 3), [at("10:07:20")]);
    // A run that somebody asks for puts it off too.
    world.until(at("10:07:00")).trigger("a").until(at("10:08:00")).complete().until(at("10:09:00"));
    assert_eq!(world.started(), ["10:01", "10:06", "10:07", "10:09"]);
}

#[test]
fn what_counts_from_the_end_begins_when_it_may() {
    let mut world =
        World::new(draft().every(mins(1)).after_finish().starting_at(at("12:00:00")), at("10:00:00"));
    world.until(at("13:00:00"));
    assert_eq!(world.started(), ["12:00"]);
    let mut world =
        World::new(draft().every(mins(1)).after_finish().ending_at(at("10:01:30")), at("10:00:00"));
    world.until(at("10:01:15")).complete().until(at("13:00:00"));
    assert_eq!(world.started(), ["10:01"]);
    assert_eq!(world.state.wake(), None);
}

#[test]
fn the_end_of_anothers_run_changes_nothing() {
    let mut world = World::new(draft().every(Duration::from_millis(500)), at("10:00:00"));
    world.until(at("10:00:00.5"));
    let before = world.state.clone();
    let end =
        |key: &str| Event::Ended { key: key.to_owned(), outcome: Outcome::Completed, at: at("10:00:00.5") };
    for key in ["job@2026-03-01T10:00:00.500Z", "job2@2026-03-01T10:00:00.5Z", "job!2026", "job", "job@"] {
        world.tell(end(key));
        assert_eq!(world.state, before, "{key}");
    }
    world.tell(end("job@2026-03-01T10:00:00.5Z"));
    assert_eq!(world.state.status(), Status::Completed);
}
