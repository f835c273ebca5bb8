//! Starts that turn out to have a run already.

use super::{world::World, *};

fn minutely() -> ScheduleDraft {
    draft().every(mins(1))
}

#[test]
fn a_run_that_existed_starts_no_other_in_the_same_step() {
    let mut world = World::new(draft().cron("0 * * * *"), at("10:30:00"));
    let past = Event::Backfill { from: at("07:00:00"), to: at("10:00:00") };
    let state = world.schedule.decide(world.state.clone(), past, world.now).state;
    let existed = Event::Existed { key: "job@2026-03-01T07:00:00Z".to_owned() };
    let decision = world.schedule.decide(state, existed.clone(), world.now);
    assert_eq!(decision.commands, [Command::Advance(Some(world.now))]);
    let again = world.schedule.decide(decision.state.clone(), existed, world.now);
    assert_eq!(again, Decision { state: decision.state.clone(), commands: Vec::new() });
    world.state = decision.state;
    world.until(world.now);
    assert_eq!(world.started(), ["08:00 at 10:30"]);
}

#[test]
fn a_run_that_existed_leaves_no_trace() {
    let mut world = World::new(minutely().count(2), at("10:00:00"));
    world.store.insert("job@2026-03-01T10:02:00Z".to_owned(), false);
    world.until(at("10:01:00")).complete();
    let last = world.state.last_run().cloned();
    world.until(at("10:02:30"));
    assert_eq!((world.state.runs(), world.state.last_run()), (1, last.as_ref()));
    assert_eq!(world.state.status(), Status::Completed);
    world.until(at("10:03:00")).complete().until(at("10:09:00"));
    assert_eq!(world.started(), ["10:01", "10:03"], "it does not count");
}

#[test]
fn the_last_run_is_the_last_that_was_started_indeed() {
    let mut world = World::new(minutely().overlap(Overlap::Allow), at("10:00:00"));
    let last = |world: &World| world.state.last_run().unwrap().key.clone();
    world.until(at("10:02:00")).tell(Event::Ended {
        key: "job@2026-03-01T10:02:00Z".to_owned(),
        outcome: Outcome::Completed,
        at: at("10:02:00"),
    });
    world.store.insert("job@2026-03-01T10:03:00Z".to_owned(), false);
    world.until(at("10:03:00"));
    assert_eq!(last(&world), "job@2026-03-01T10:02:00Z", "though an older one is still under way");
    world.until(at("10:04:00"));
    world.store.insert("job@2026-03-01T10:05:00Z".to_owned(), false);
    world.until(at("10:05:00"));
    assert_eq!(last(&world), "job@2026-03-01T10:04:00Z", "which is still under way");
}
