//! What becomes of a schedule that is declared again.

use super::{world::World, *};

fn hourly() -> ScheduleDraft {
    draft().cron("0 * * * *")
}

fn pause(world: &mut World) -> &mut World {
    world.tell(Event::Pause { note: "bank holiday".to_owned() })
}

#[test]
fn what_passed_in_a_pause_is_made_up_for_though_the_times_are_others_now() {
    let mut world = World::new(hourly(), at("10:30:00"));
    pause(&mut world).until(at("13:00:05")).update(draft().cron("15 * * * *"));
    assert_eq!(world.started(), [""; 0], "it is still paused");
    assert_eq!(world.missed(), [("11:00".to_owned(), "12:00".to_owned(), 2)]);
    world.until(at("13:10:00")).tell(Event::Resume);
    assert_eq!(world.started(), ["13:00 at 13:10"]);
    assert_eq!(world.starts[0].origin, Origin::CatchUp);
    world.complete().until(at("13:15:00"));
    assert_eq!(world.started()[1..], ["13:15"]);
}

#[test]
fn what_passed_in_a_pause_is_told_if_it_is_not_made_up_for() {
    let mut world = World::new(hourly().catch_up(CatchUp::Skip), at("10:30:00"));
    pause(&mut world).until(at("13:00:05")).update(draft().cron("15 * * * *"));
    assert_eq!(world.missed(), [("11:00".to_owned(), "13:00".to_owned(), 3)]);
    world.tell(Event::Resume);
    assert_eq!(world.started(), [""; 0]);
}

#[test]
fn what_passed_while_it_was_stopped_is_made_up_for_though_the_times_are_others_now() {
    let backoff = Backoff::default().trip_after(1);
    let mut world = World::new(hourly().backoff(backoff), at("10:30:00"));
    world.until(at("11:00:00")).fail().until(at("13:30:00")).update(draft().cron("15 * * * *"));
    assert_eq!(world.missed(), [("12:00".to_owned(), "12:00".to_owned(), 1)]);
    world.tell(Event::Reset);
    assert_eq!(world.started(), ["11:00", "13:00 at 13:30"]);
}

#[test]
fn a_time_that_its_jitter_put_off_is_not_lost_when_the_times_change() {
    let mut world = World::new(hourly().jitter(mins(50)), at("14:59:00"));
    let due = world.schedule.due(at("15:00:00"));
    world.until(Time(due.0 - 1));
    assert!(world.starts.is_empty() && world.now > at("15:00:00"));
    world.update(draft().cron("59 23 * * *"));
    assert_eq!(world.starts[0].scheduled_at, at("15:00:00"));
}

#[test]
fn another_number_of_runs_loses_no_time() {
    let mut world = World::new(draft().every(mins(1)).count(5), at("10:00:00"));
    pause(&mut world).until(at("10:03:30")).update(draft().every(mins(1)).count(9));
    world.tell(Event::Resume);
    assert_eq!(world.started(), ["10:03 at 10:03:30"]);
    assert_eq!(world.missed(), [("10:01".to_owned(), "10:02".to_owned(), 2)]);
}

#[test]
fn no_more_wait_than_may_when_the_times_change() {
    let many = || draft().every(secs(1)).overlap(Overlap::BufferAll).catch_up(CatchUp::All { max: 1_000 });
    let mut world = World::new(many(), at("10:00:00"));
    world.until(at("10:00:11"));
    pause(&mut world).until(at("10:30:00")).update(many().every(secs(7)));
    assert_eq!(world.state.waiting.len(), 1_000);
    assert_eq!(world.skipped().len(), 10);
    assert!(world.skipped().iter().all(|(_, why)| *why == Skip::Full));
}

#[test]
fn past_times_of_the_old_settings_are_not_looked_for_in_the_new_ones() {
    let mut world = World::new(hourly(), at("10:30:00"));
    world.tell(Event::Backfill { from: at("07:00:00"), to: at("10:00:00") });
    world.update(draft().every(Duration::from_millis(1)).overlap(Overlap::Allow));
    assert_eq!(world.tells[0], Tell::BackfillDropped { first: at("08:00:00"), last: at("09:00:00") });
    assert_eq!(world.started(), ["07:00 at 10:30"]);
    assert_eq!(world.state.wake(), Some(at("10:30:00.001")));
}

#[test]
fn past_times_go_on_when_something_else_changes() {
    let mut world = World::new(hourly(), at("10:30:00"));
    world.tell(Event::Backfill { from: at("07:00:00"), to: at("10:00:00") });
    world.update(hourly().jitter(secs(1))).complete();
    assert_eq!(world.started(), ["07:00 at 10:30", "08:00 at 10:30"]);
}

#[test]
fn what_waits_starts_when_runs_may_be_beside_each_other_from_now_on() {
    let minutely = || draft().every(mins(1));
    let mut world = World::new(minutely().overlap(Overlap::BufferAll), at("10:00:00"));
    world.until(at("10:03:00")).update(minutely().overlap(Overlap::Allow));
    assert_eq!(world.started(), ["10:01", "10:02 at 10:03", "10:03"]);
    assert_eq!(world.state.wake(), Some(at("10:04:00")));
}
