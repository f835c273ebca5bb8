//! Mistakes that others made, each with a test that it is not made here.

use super::{world::World, *};

#[test]
fn the_next_run_does_not_wait_for_the_last_to_finish_unless_it_should() {
    let mut world = World::new(draft().every(secs(1)).overlap(Overlap::Allow), at("10:00:00"));
    world.until(at("10:01:00"));
    assert_eq!(world.starts.len(), 60);
    assert!(world.starts.iter().all(|firing| firing.fired_at == firing.scheduled_at));
}

#[test]
fn starting_a_run_and_advancing_are_one_decision() {
    let world = World::new(draft().every(mins(1)), at("10:00:00"));
    let decision = world.schedule.decide(world.state, Event::Due, at("10:01:00"));
    assert!(
        matches!(&decision.commands[..], [Command::Start(_), Command::Advance(Some(next))] if *next == at("10:02:00"))
    );
    // The same decision is made by whoever is asked, and whoever comes second has nothing to start.
    let again = world.schedule.decide(decision.state, Event::Due, at("10:01:00"));
    assert_eq!(again.commands, []);
}

#[test]
fn a_finished_time_is_never_fired_again() {
    let mut world = World::new(draft().cron("0 * * * *"), at("09:30:00"));
    world.until(at("10:00:00")).complete();
    let key = world.starts[0].key.clone();
    for minute in 0..60 * 24 {
        world.now = at("10:00:00") + mins(minute);
        let end = Event::Ended { key: key.clone(), outcome: Outcome::Completed, at: world.now };
        world.tell(Event::Due).tell(end);
    }
    let fired = world.starts.iter().filter(|firing| firing.key == key).count();
    assert_eq!(fired, 1);
}

#[test]
fn catching_up_never_begins_with_the_oldest_for_ever() {
    let mut world = World::new(
        draft().every(mins(1)).catch_up(CatchUp::All { max: 5 }).overlap(Overlap::BufferAll),
        at("10:00:00"),
    );
    // Each absence is longer than what is made up for in it.
    for hour in 11..20 {
        world.away_until(at(&format!("{hour}:00:00")));
        for _ in 0..5 {
            world.complete();
        }
        assert_eq!(world.starts.last().unwrap().scheduled_at, world.now);
    }
    assert_eq!(world.starts.len(), 9 * 5);
}

#[test]
fn a_fixed_rate_is_not_a_fixed_delay() {
    let mut world = World::new(draft().every(mins(1)), at("10:00:00"));
    for minute in 1..=30 {
        world.until(at("10:00:00") + mins(minute)).until(at("10:00:40") + mins(minute)).complete();
    }
    let expected: Vec<Time> = (1..=30).map(|minute| at("10:00:00") + mins(minute)).collect();
    assert_eq!(world.starts.iter().map(|firing| firing.fired_at).collect::<Vec<_>>(), expected);
}

#[test]
fn a_sleeping_backoff_is_woken_by_a_reset() {
    let mut world =
        World::new(draft().every(mins(1)).backoff(Backoff::default().initial(mins(5))), at("10:00:00"));
    world.until(at("10:01:00")).fail().until(at("10:02:30"));
    assert!(world.state.wake().unwrap() > at("10:05:00"));
    world.tell(Event::Reset);
    assert_eq!(world.started(), ["10:01", "10:02 at 10:02:30"]);
    assert_eq!(world.state.wake(), Some(at("10:03:00")));
}

#[test]
fn a_sleeping_backoff_is_woken_by_a_success() {
    let mut world =
        World::new(draft().every(mins(1)).backoff(Backoff::default().initial(mins(5))), at("10:00:00"));
    world.until(at("10:01:00")).fail().until(at("10:02:30")).trigger("by hand").complete();
    assert_eq!(world.started(), ["10:01", "10:02:30", "10:02 at 10:02:30"]);
    assert_eq!(world.state.wake(), Some(at("10:03:00")));
}

#[test]
fn a_schedule_is_due_at_its_instant_and_not_at_the_next_poll() {
    let world = World::new(draft().cron("*/7 * * * * *"), at("10:00:00.25"));
    assert_eq!(world.state.wake(), Some(at("10:00:07")));
}

#[test]
fn a_clock_that_goes_back_fires_nothing_again() {
    let mut world = World::new(draft().every(mins(1)).overlap(Overlap::Allow), at("10:00:00"));
    world.until(at("10:05:00"));
    for second in (0..300).step_by(7) {
        world.now = at("10:00:00") + secs(second);
        world.tell(Event::Due);
    }
    assert_eq!(world.starts.len(), 5);
    assert_eq!(world.state.wake(), Some(at("10:06:00")));
}

#[test]
fn a_clock_that_was_far_ahead_is_forgiven_by_a_reset() {
    let mut world = World::new(draft().every(hours(1)), at("10:30:00"));
    world.away_until(on("2027-03-01T10:30:00")).complete();
    world.now = at("10:31:00");
    world.tell(Event::Due);
    assert_eq!(world.state.wake(), Some(on("2027-03-01T11:00:00")), "what was decided on stays decided on");
    world.tell(Event::Reset).until(at("11:00:00"));
    assert_eq!(world.starts.last().unwrap().scheduled_at, at("11:00:00"));
}

#[test]
fn a_run_that_is_taken_up_again_after_a_reset_is_still_known_to_be_under_way() {
    let mut world = World::new(draft().every(hours(1)).overlap(Overlap::Allow), at("10:30:00"));
    world.away_until(at("14:30:00"));
    world.now = at("10:31:00");
    world.tell(Event::Reset).until(at("14:10:00"));
    let times: Vec<String> = world.starts.iter().map(|firing| short(firing.scheduled_at)).collect();
    assert_eq!(times, ["14:00", "11:00", "12:00", "13:00"]);
    assert_eq!(world.state.running(&world.schedule).len(), 4);
}

#[test]
fn a_delay_that_began_when_the_clock_was_far_ahead_is_forgiven_by_a_reset() {
    let mut world = World::new(draft().every(mins(1)).after_finish(), at("10:00:00"));
    world.until(at("10:01:00"));
    world.now = on("2027-03-01T10:00:00");
    world.complete();
    world.now = at("10:05:00");
    world.tell(Event::Reset).until(at("10:06:00"));
    assert_eq!(world.started(), ["10:01", "10:06"]);
}
