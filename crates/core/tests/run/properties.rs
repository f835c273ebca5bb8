//! What holds for every workflow, whatever happens to its runs.

use std::collections::BTreeMap;

use proptest::prelude::*;
use windlass_core::{LaneId, OnFailure, StepKind, Verdict};

use crate::{
    model::{self, Expected},
    player::{self, Trouble},
    script::{self, Shape},
    watch,
    world::World,
};

/// Cases are told by a few numbers, which a failure prints: they are all that is needed to repeat it.
/// `PROPTEST_CASES` asks for more of them.
fn config() -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig {
        cases: asked.unwrap_or(1_000),
        failure_persistence: None,
        max_shrink_iters: 2_000,
        ..ProptestConfig::default()
    }
}

const CALM: Trouble = Trouble { events: 0, crashes: false, endings: false, max_recoveries: u32::MAX };

fn expected(shape: Shape, generation: u32) -> Expected {
    let outcome = |lane, attempt| script::outcome(shape.seed, generation, lane, attempt);
    model::expect(&script::workflow(shape), &script::initial_context(shape.seed), outcome)
}

fn ended_lanes(world: &World) -> BTreeMap<LaneId, StepKind> {
    let ends = world.records().filter(|(_, step)| step.kind.is_terminal() && step.kind != StepKind::Skipped);
    ends.map(|(_, step)| (world.plan.lane(&step.name).expect("it has a lane"), step.kind)).collect()
}

/// The run ended exactly as the model says.
fn ends_as_expected(world: &World, expected: &Expected) {
    let failed = !expected.failed.is_empty();
    let fail_fast = world.setup.definition.on_failure == OnFailure::FailFast;
    match world.verdict() {
        Verdict::Completed => assert!(!failed, "{:?} failed", expected.failed),
        Verdict::Failed { step, failure, also } => {
            let mut named: Vec<LaneId> =
                also.iter().chain([step]).filter_map(|step| world.plan.lane(step)).collect();
            named.sort();
            if !fail_fast {
                let mut all = expected.failed.clone();
                all.sort();
                assert_eq!(named, all);
            }
            let first = world.plan.lane(step).expect("it has a lane");
            assert!(expected.failed.contains(&first), "{step} was not to fail");
            let place = first.task.0;
            assert!(failure.message.starts_with(&format!("{place}.")), "{step}: {failure}");
        }
        other => panic!("nobody interfered, but: {other:?}"),
    }
    for (lane, kind) in ended_lanes(world) {
        // Once a run fails fast, attempts are cut off, and what fails is not tried again.
        let interrupted = failed && fail_fast && kind != StepKind::Completed;
        assert!(interrupted || expected.lanes.get(&lane) == Some(&kind), "{lane:?} {kind:?}");
    }
    if failed && fail_fast {
        return;
    }
    assert_eq!(ended_lanes(world), expected.lanes);
    for at in world.setup.definition.indices() {
        assert_eq!(world.run.outcome(at), Some(expected.outcomes[&at]), "{at:?}");
        assert_eq!(world.run.skip(at), expected.skips.get(&at), "{at:?}");
    }
    assert_eq!(world.run.final_context(), expected.context);
    assert_eq!(watch::facts(world).final_context(), expected.context);
}

/// Whoever looks at the records sees what the run itself said.
fn records_tell_the_same(world: &mut World) {
    let indices: Vec<_> = world.setup.definition.indices().collect();
    let told: Vec<_> = indices.iter().map(|at| world.run.outcome(*at)).zip(world.run.tasks()).collect();
    let context = world.run.final_context();
    world.rebuild();
    for (at, ((outcome, old), new)) in indices.into_iter().zip(told.into_iter().zip(world.run.tasks())) {
        // A `for_each` over nothing has ended as soon as it is looked at, and a run that is closing does not
        // look any more.
        let over_nothing = world.setup.definition.task(at).for_each.is_some() && world.run.instances(at) == 0;
        if outcome.is_some() || !over_nothing {
            assert_eq!(outcome, world.run.outcome(at), "{}", old.name);
        }
        if outcome.is_some() {
            assert_eq!(old, new);
        }
    }
    assert_eq!(world.run.final_context(), context);
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_run_ends_the_same_way_in_whatever_order_things_happen_and_however_often_it_crashes(
        seed: u64, tasks in 1..30_usize, events in 0..300_usize, crashes: bool,
    ) {
        let shape = Shape { seed, tasks, time_limits: false };
        let mut world = player::play(shape, Trouble { events, crashes, ..CALM });
        ends_as_expected(&world, &expected(shape, 1));
        records_tell_the_same(&mut world);
    }

    #[test]
    fn a_run_ends_once_and_is_never_stuck_whatever_people_and_time_limits_do_to_it(
        seed: u64, tasks in 1..30_usize, events in 0..300_usize, max_recoveries in 0..6_u32,
    ) {
        let shape = Shape { seed, tasks, time_limits: true };
        let mut world = player::play(shape, Trouble { events, crashes: true, endings: true, max_recoveries });
        records_tell_the_same(&mut world);
    }

    #[test]
    fn a_retried_run_keeps_completed_work_and_does_the_rest_again(
        seed: u64, tasks in 1..30_usize, events in 0..200_usize, endings: bool,
    ) {
        let shape = Shape { seed, tasks, time_limits: endings };
        let trouble = Trouble { events, crashes: true, endings, max_recoveries: 3 };
        let mut world = player::play(shape, trouble);
        for _ in 0..3 {
            if *world.verdict() == Verdict::Completed {
                break;
            }
            let completed = |world: &World| -> Vec<LaneId> {
                let lanes = ended_lanes(world);
                lanes.into_iter().filter(|(_, kind)| *kind == StepKind::Completed).map(|(id, _)| id).collect()
            };
            let kept = completed(&world);
            let before = world.started.len();
            world = player::play_again(shape, trouble, world);
            for lane in &kept {
                let name = world.name_of(*lane);
                prop_assert!(!world.started[before..].contains(&name), "{} was done again", name);
            }
            prop_assert!(kept.iter().all(|lane| completed(&world).contains(lane)));
        }
    }

    #[test]
    fn a_step_that_keeps_killing_its_process_is_abandoned_and_no_other(
        seed: u64, tasks in 1..10_usize, max_recoveries in 0..4_u32,
    ) {
        let shape = Shape { seed, tasks, time_limits: false };
        let mut world = player::play_dying(shape, max_recoveries);
        records_tell_the_same(&mut world);
    }
}
