use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{world::World, *};

#[derive(Clone, Debug)]
enum Act {
    Pass(u64),
    StepBack(u64),
    Due,
    End(usize, Outcome),
    EndAgain(usize),
    Trigger(u8),
    Pause,
    Resume,
    Reset,
    Again,
    Jitter(u64),
    Backfill(u64),
}

fn outcomes() -> impl Strategy<Value = Outcome> {
    let failed = Outcome::Failed { error: "no".to_owned() };
    prop_oneof![Just(Outcome::Completed), Just(failed), Just(Outcome::Cancelled)]
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        6 => (0..90_u64).prop_map(Act::Pass),
        1 => (0..5_000_u64).prop_map(Act::Pass),
        1 => (0..600_u64).prop_map(Act::StepBack),
        4 => Just(Act::Due),
        8 => (0..4_usize, outcomes()).prop_map(|(which, outcome)| Act::End(which, outcome)),
        1 => (0..9_usize).prop_map(Act::EndAgain),
        1 => (0..9_u8).prop_map(Act::Trigger),
        1 => Just(Act::Pause),
        2 => Just(Act::Resume),
        2 => Just(Act::Reset),
        1 => Just(Act::Again),
        1 => (0..20_u64).prop_map(Act::Jitter),
        1 => (0..600_u64).prop_map(Act::Backfill),
    ];
    prop::collection::vec(act, 1..120)
}

fn drafts() -> impl Strategy<Value = ScheduleDraft> {
    let timing = prop_oneof![
        3 => (5..40_u64).prop_map(|period| draft().every(secs(period))),
        1 => (5..40_u64).prop_map(|pause| draft().every(secs(pause)).after_finish()),
        2 => Just(draft().cron("*/10 * * * * *").timezone("Europe/Berlin")),
        1 => Just(draft().at(at("10:00:30")).at(at("10:01:00")).at(at("10:05:00"))),
    ];
    let overlap = prop_oneof![
        Just(Overlap::Skip),
        Just(Overlap::BufferOne),
        Just(Overlap::BufferAll),
        Just(Overlap::CancelRunning),
        Just(Overlap::Allow)
    ];
    let catch_up = prop_oneof![
        Just(CatchUp::Skip),
        Just(CatchUp::Latest),
        (1..5_u32).prop_map(|max| CatchUp::All { max })
    ];
    let trip = prop::option::of(1..4_u32);
    (timing, overlap, catch_up, 0..20_u64, prop::option::of(1..30_u64), trip).prop_map(
        |(draft, overlap, catch_up, jitter, count, trip_after)| ScheduleDraft {
            overlap,
            catch_up,
            count,
            backoff: Backoff { trip_after, ..Backoff::default() },
            ..draft.jitter(secs(jitter))
        },
    )
}

fn play(world: &mut World, act: &Act) {
    let live = |world: &World| -> Vec<String> {
        world.store.iter().filter(|(_, live)| **live).map(|(key, _)| key.clone()).collect()
    };
    match act {
        Act::Pass(seconds) => {
            world.now = world.now + secs(*seconds);
        }
        Act::StepBack(seconds) => world.now = world.now - secs(*seconds),
        Act::Due => {
            world.tell(Event::Due);
        }
        Act::End(which, outcome) => {
            let live = live(world);
            if let Some(key) = live.get(which % live.len().max(1)).cloned() {
                world.store.insert(key.clone(), false);
                let at = world.now;
                world.tell(Event::Ended { key, outcome: outcome.clone(), at });
            }
        }
        Act::EndAgain(which) => {
            let ended: Vec<String> =
                world.store.iter().filter(|(_, live)| !**live).map(|(key, _)| key.clone()).collect();
            if let Some(key) = ended.get(which % ended.len().max(1)).cloned() {
                let (outcome, at) = (Outcome::Failed { error: "late".to_owned() }, world.now);
                world.tell(Event::Ended { key, outcome, at });
            }
        }
        Act::Trigger(id) => {
            world.trigger(&id.to_string());
        }
        Act::Pause => {
            world.tell(Event::Pause { note: String::new() });
        }
        Act::Resume => {
            world.tell(Event::Resume);
        }
        Act::Reset => {
            // A reset after the clock went back takes times up again, which the store refuses: see the traps.
            if world.state.cursor <= world.now {
                world.tell(Event::Reset);
            }
        }
        Act::Again => {
            let again = world.schedule.clone();
            world.tell(Event::Update(Box::new(again)));
        }
        Act::Jitter(seconds) => {
            let to = ScheduleDraft::from(world.schedule.clone()).jitter(secs(*seconds)).check().unwrap();
            world.tell(Event::Update(Box::new(to)));
        }
        Act::Backfill(seconds) => {
            let (from, to) = (world.now - secs(*seconds), world.now);
            world.tell(Event::Backfill { from, to });
        }
    }
}

/// Every time up to the last that was decided on, and what became of it.
fn accounted(world: &World, declared: Time) -> Result<(), TestCaseError> {
    let by_clock = |firing: &&Firing| firing.origin.is_by_clock();
    let started: Vec<Time> = world.starts.iter().filter(by_clock).map(|firing| firing.scheduled_at).collect();
    let skipped = world.tells.iter().filter_map(|tell| match tell {
        Tell::Skipped { slot: Slot::Time(time), .. } => Some(*time),
        _ => None,
    });
    let waiting =
        world.state.waiting.iter().filter(|waiting| waiting.origin.is_by_clock()).map(|waiting| waiting.at);
    let one_by_one: Vec<Time> = started.iter().copied().chain(skipped).chain(waiting).collect();
    let distinct: BTreeSet<Time> = one_by_one.iter().copied().collect();
    prop_assert_eq!(distinct.len(), one_by_one.len(), "a time was decided on twice");
    if matches!(world.schedule.timing(), Timing::AfterFinish(_)) {
        return Ok(());
    }
    let mut all = distinct;
    for tell in &world.tells {
        if let Tell::Missed { first, last, times } = tell {
            let missed: Vec<Time> =
                std::iter::successors(Some(*first), |time| world.schedule.next_time(*time))
                    .take_while(|time| time <= last)
                    .collect();
            prop_assert_eq!(missed.len().min(1_000) as u64, *times);
            for time in missed {
                prop_assert!(all.insert(time), "{} was missed, and something else", time);
            }
        }
    }
    let first = world.schedule.next_time(declared);
    let expected: BTreeSet<Time> = std::iter::successors(first, |time| world.schedule.next_time(*time))
        .take_while(|time| *time <= world.state.cursor)
        .collect();
    prop_assert_eq!(all, expected, "every time is decided on, and no other");
    Ok(())
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn each_time_is_decided_on_once_whatever_the_order_of_events(draft in drafts(), acts in acts()) {
        let begun = at("10:00:00");
        let mut world = World::new(draft, begun);
        for act in &acts {
            play(&mut world, act);
            let live = world.store.values().filter(|live| **live).count();
            prop_assert_eq!(world.state.running(&world.schedule).len(), live, "what is under way is known");
            if world.schedule.settings().overlap != Overlap::Allow {
                prop_assert!(live <= 1, "two run at once");
            }
            if let Some(count) = world.schedule.settings().count {
                let started = world.starts.iter().filter(|firing| firing.origin.is_by_clock()).count() as u64;
                prop_assert!(started <= count, "more were started than may be");
            }
        }
        let declared = if matches!(world.schedule.timing(), Timing::At(_)) { begun - secs(10) } else { begun };
        accounted(&world, declared)?;
    }

    #[test]
    fn ends_that_are_not_awaited_may_be_heard_of_at_the_next_time(
        draft in drafts(),
        runs in prop::collection::vec((1..60_u64, outcomes()), 1..40),
    ) {
        let mut prompt = World::new(draft.clone(), at("10:00:00"));
        let mut late = World::new(draft, at("10:00:00"));
        let mut unheard = Vec::new();
        for (seconds, outcome) in runs {
            let end = prompt.now + secs(seconds);
            prompt.until(end);
            // Whoever is woken hears first of what has ended, and then of the clock.
            while let Some(wake) = late.state.wake().filter(|wake| *wake <= end) {
                late.now = late.now.max(wake);
                unheard.drain(..).for_each(|event| { late.tell(event); });
                late.tell(Event::Due);
            }
            late.now = end;
            let Some(key) = prompt.store.iter().find(|(_, live)| **live).map(|(key, _)| key.clone()) else { continue };
            let event = Event::Ended { key: key.clone(), outcome, at: end };
            prompt.store.insert(key.clone(), false);
            late.store.insert(key, false);
            prompt.tell(event.clone());
            unheard.push(event);
            if late.state.awaits_ends(&late.schedule) {
                unheard.drain(..).for_each(|event| { late.tell(event); });
            }
            prop_assert_eq!(&prompt.starts, &late.starts);
            prop_assert_eq!(prompt.skipped(), late.skipped());
        }
    }

    #[test]
    fn a_schedule_that_is_woken_when_it_wants_to_be_comes_to_rest(draft in drafts(), acts in acts()) {
        let mut world = World::new(draft, at("10:00:00"));
        for act in &acts {
            play(&mut world, act);
            let mut turns = 0;
            while world.state.wake().is_some_and(|wake| wake <= world.now) {
                world.tell(Event::Due);
                turns += 1;
                // One for each past time that has a run already.
                prop_assert!(turns < 2_000, "it wants to hear of the same time again and again");
            }
            // Then the clock has nothing more to say.
            let quiet = world.schedule.decide(world.state.clone(), Event::Due, world.now);
            prop_assert_eq!(quiet.commands, []);
            prop_assert_eq!(&quiet.state, &world.state);
        }
    }

    #[test]
    fn a_fixed_rate_never_drifts(
        period in 1_000..100_000_000_u64,
        start in prop::option::of(0..1_000_000_000_000_000_i64),
        after in 0..2_000_000_000_000_000_i64,
    ) {
        let mut draft = draft().every(Duration::from_micros(period));
        draft.start = start.map(Time);
        let schedule = draft.check().unwrap();
        let times = schedule.next_times(50, Time(after));
        prop_assert!(times[0] > Time(after));
        let (first, period) = (start.unwrap_or(0), period as i64);
        prop_assert!(times[0].0 - after.max(first - 1) <= period);
        for (place, time) in (0_i64..).zip(&times) {
            prop_assert_eq!(time.0, times[0].0 + place * period);
            prop_assert_eq!((time.0 - first) % period, 0);
            prop_assert!(time.0 >= first);
            prop_assert_eq!(schedule.next_time(Time(time.0 - 1)), Some(*time));
            prop_assert_eq!(schedule.previous_time(Time(time.0 + 1)), Some(*time));
        }
    }
}
