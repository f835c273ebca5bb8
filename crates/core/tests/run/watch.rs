//! What must hold whenever a run asks for something.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use windlass_core::{
    Attempt, Changes, Command, Durability, LaneId, OnFailure, Step, StepKind, TASK_TRANSITIONS, TaskIx,
    TaskState, Time, Verdict,
};

use crate::{
    model::Facts,
    world::{Flight, World},
};

pub fn command(world: &World, command: &Command) {
    let ended = world.flights.iter().any(|flight| matches!(flight, Flight::End(_)));
    assert!(!ended, "nothing is asked for after the end: {command:?}");
    match command {
        Command::Record { lane, step } => record(world, *lane, step),
        Command::Start(attempt) => start(world, attempt),
        Command::Isolate(lane) => {
            let name = world.name_of(*lane);
            assert!(world.suspects.contains(&name), "{name} is no suspect");
            assert!(
                !world.isolating.contains(lane) && !world.isolated.contains(lane),
                "it was asked already"
            );
        }
        Command::Stop(lane) => assert!(world.live.contains_key(lane), "only what executes is stopped"),
        Command::End(verdict) => end(world, verdict),
        Command::Publish(_) | Command::Withdraw { .. } => panic!("nothing is spread here"),
    }
}

fn record(world: &World, lane: LaneId, step: &Step) {
    assert_eq!(*step.name, *world.name_of(lane));
    assert_eq!(step.epoch, world.recoveries, "a record says in which life it was written");
    assert!(step.started_at <= step.ended_at && step.ended_at <= world.now, "{step:?}");
    assert!(!is_settled(world, &step.name), "{} has ended, and nothing more is known of it", step.name);
    if step.kind == StepKind::Skipped {
        assert_eq!(step.attempt, 0, "what was skipped was not attempted");
        assert_eq!(
            step.detail.skipped.as_deref().cloned(),
            facts(world).skip(lane.task),
            "the rule sees what the task would"
        );
        assert!(step.detail.skipped.is_some());
    } else {
        assert_eq!(step.attempt, attempts(world, &step.name) + 1, "attempts count every execution");
    }
}

/// How many attempts of this generation have ended.
fn attempts(world: &World, name: &str) -> u32 {
    let mine = world.records().filter(|(generation, step)| {
        *generation == world.generation && *step.name == *name && step.kind == StepKind::Retrying
    });
    u32::try_from(mine.count()).expect("attempts are few")
}

/// Whether a step is done with for good in this generation.
fn is_settled(world: &World, name: &str) -> bool {
    world.records().any(|(generation, step)| {
        *step.name == *name
            && (step.kind == StepKind::Completed || generation == world.generation && step.kind.is_terminal())
    })
}

fn start(world: &World, attempt: &Attempt) {
    let lane = attempt.lane;
    let name = world.name_of(lane);
    let definition = &world.setup.definition;
    let task = definition.task(lane.task);
    assert!(!world.live.contains_key(&lane), "{name} executes already");
    assert!(!is_settled(world, &name), "{name} is recorded, and never starts again");
    assert_eq!(attempt.number, attempts(world, &name) + 1);
    held(world, &name);
    let has_leave = !world.suspects.contains(&name) || world.isolated.contains(&lane);
    assert!(has_leave, "{name} is on its last life, and starts only with leave");

    let facts = facts(world);
    for dependency in &task.dependencies {
        assert!(facts.outcomes.contains_key(dependency), "{name} starts before its dependencies ended");
    }
    assert_eq!(facts.skip(lane.task), None, "{name} starts against its rule");
    let upstream: BTreeSet<TaskIx> =
        facts.lineage.ancestors(lane.task).iter().copied().chain([lane.task]).collect();
    for ancestor in upstream.iter().filter(|at| **at != lane.task) {
        assert!(facts.outcomes.contains_key(ancestor), "{name} starts before an ancestor ended");
    }
    if definition.durability == Durability::Strict {
        let unsafe_ground = world.flights.iter().find(|flight| match flight {
            Flight::Record(step) => {
                let from = world.plan.lane(&step.name).expect("a record has a lane");
                from == lane || from.task != lane.task && upstream.contains(&from.task)
            }
            Flight::End(_) => true,
        });
        assert!(unsafe_ground.is_none(), "{name} builds on what is not durable: {unsafe_ground:?}");
    }
    if world.recoveries > 0 {
        let announced = world.durable.iter().any(|(generation, step)| {
            *generation == world.generation
                && step.kind == StepKind::Started
                && *step.name == *name
                && step.attempt == attempt.number
                && step.epoch == world.recoveries
        });
        assert!(announced, "after a recovery, {name} starts only once its start is recorded");
    }
    if let Some(each) = task.for_each {
        let limit = each.limit.unwrap_or(world.setup.fan_limit) as usize;
        let others = world.live.keys().filter(|other| other.task == lane.task).count();
        assert!(others < limit, "more than {limit} instances of {name} are in flight");
    }
    let deadline = task.deadline.map(|limit| ready_at(world, lane.task) + limit);
    assert_eq!(attempt.deadline, deadline, "the deadline of {name} counts from its readiness");
}

/// What an attempt is given to see is what the model says.
pub fn context(world: &World, lane: LaneId, given: &Map<String, Value>) {
    let seen = facts(world).context_for(lane.task);
    assert_eq!(*given, seen, "{} sees what its ancestors left", world.name_of(lane));
}

fn held(world: &World, name: &str) {
    assert!(!world.is_paused(), "{name} starts in a paused run");
    assert!(!world.halted, "{name} starts although its node gives the run up");
    assert_eq!(world.verdict_of_person(), None, "{name} starts in a run that a person ended");
    let definition = &world.setup.definition;
    if let Some(timeout) = definition.timeout {
        assert!(world.now < world.opened_at + timeout, "{name} starts after the run's time limit");
    }
    let fatal =
        |at: &TaskIx| world.run.outcome(*at) == Some(StepKind::Failed) && !definition.task(*at).allow_failure;
    let failed = definition.indices().find(fatal);
    assert!(
        definition.on_failure == OnFailure::FinishOthers || failed.is_none(),
        "{name} starts in a run that fails fast"
    );
}

/// When everything upstream of a task had ended, by the records.
fn ready_at(world: &World, task: TaskIx) -> Time {
    let upstream = world.lineage.ancestors(task);
    let ends = world.records().filter(|(generation, step)| {
        let counts = *generation == world.generation || step.kind == StepKind::Completed;
        let from = world.plan.lane(&step.name).expect("a record has a lane").task;
        counts && step.kind.is_terminal() && upstream.contains(&from)
    });
    ends.map(|(_, step)| step.ended_at).fold(world.opened_at, Time::max)
}

fn end(world: &World, verdict: &Verdict) {
    let definition = &world.setup.definition;
    let failed = world.records().any(|(generation, step)| {
        let task = world.plan.lane(&step.name).expect("a record has a lane").task;
        generation == world.generation
            && step.kind == StepKind::Failed
            && !definition.task(task).allow_failure
    });
    let all_ended = definition.indices().all(|at| world.run.outcome(at).is_some());
    let overdue = definition.timeout.is_some_and(|timeout| world.now >= world.opened_at + timeout);
    let terminated = world.inbox.iter().any(|order| matches!(order, windlass_core::Order::Terminate { .. }));
    assert!(terminated || world.live.is_empty(), "the run ends while something executes");
    match verdict {
        Verdict::Completed => assert!(all_ended && !failed),
        Verdict::Failed { .. } => {
            assert!(failed && (all_ended || definition.on_failure == OnFailure::FailFast));
        }
        Verdict::TimedOut { unfinished, .. } => {
            assert!(overdue);
            assert!(!unfinished.is_empty(), "a run that has nothing left to do is not late");
        }
        Verdict::Cancelled { .. } => assert!(world.verdict_of_person().is_some()),
        Verdict::Abandoned { .. } => {}
    }
}

/// What the records say, for the model.
pub fn facts(world: &World) -> Facts<'_> {
    let definition = &world.setup.definition;
    let outcomes = definition.indices().filter_map(|at| Some((at, world.run.outcome(at)?))).collect();
    let mut by_lane: BTreeMap<LaneId, Option<&Changes>> = BTreeMap::new();
    for (_, step) in world.records().filter(|(_, step)| step.kind == StepKind::Completed) {
        let lane = world.plan.lane(&step.name).expect("a record has a lane");
        by_lane.insert(lane, step.detail.changes.as_deref());
    }
    let mut changes: BTreeMap<TaskIx, Changes> = BTreeMap::new();
    for (lane, change) in by_lane {
        let entry = changes.entry(lane.task).or_default();
        change.into_iter().for_each(|change| entry.extend(change));
    }
    Facts { definition, lineage: &world.lineage, initial: &world.setup.context, outcomes, changes }
}

/// Whether a task can be seen in one state and then in the other: along the table, and through no end.
fn leads_to(from: TaskState, to: TaskState) -> bool {
    if from == to {
        return true;
    }
    let mut reached = vec![from];
    let mut next = 0;
    while let Some(at) = reached.get(next).copied() {
        next += 1;
        if at == to {
            return true;
        }
        let steps = TASK_TRANSITIONS.iter().filter(|step| step.from == at && !step.why.starts_with("retry:"));
        for step in steps {
            if !reached.contains(&step.to) {
                reached.push(step.to);
            }
        }
    }
    false
}

pub fn states(world: &mut World) {
    let views = world.run.tasks();
    for (view, before) in views.iter().zip(&world.states) {
        assert!(leads_to(*before, view.state), "{} went from {before} to {}", view.name, view.state);
    }
    world.states = views.iter().map(|view| view.state).collect();
}

/// What would abandon the run if it were executing at one more death is suspect, until something has ended since.
pub fn suspect(world: &mut World) {
    let alive = world.durable.iter().any(|(generation, step)| {
        *generation == world.generation && step.epoch == world.recoveries && step.kind != StepKind::Started
    });
    let last_life = world.deaths.iter().filter(|(_, deaths)| **deaths >= world.setup.max_recoveries);
    world.suspects = if alive { BTreeSet::new() } else { last_life.map(|(name, _)| name.clone()).collect() };
}

/// Counts, by the records alone, in how many deaths in a row each step was executing.
pub fn count_deaths(world: &mut World) {
    let mine =
        |(generation, step): &&(u32, Step)| *generation == world.generation && step.epoch == world.recoveries;
    let records: Vec<&Step> = world.durable.iter().filter(mine).map(|(_, step)| step).collect();
    let ended = |started: &Step| {
        records.iter().any(|step| {
            step.kind != StepKind::Started && step.name == started.name && step.attempt == started.attempt
        })
    };
    let executing = records.iter().filter(|step| step.kind == StepKind::Started && !ended(step));
    let some_ended = records.iter().any(|step| step.kind != StepKind::Started);
    let before = |name: &str| if some_ended { 0 } else { world.deaths.get(name).copied().unwrap_or(0) };
    world.deaths =
        executing.map(|step| (step.name.to_string(), before(&step.name) + 1)).collect::<BTreeMap<_, _>>();
}

/// A run is abandoned when, and only when, a step killed its process too often.
pub fn poison(world: &World) {
    let worst = world.deaths.iter().find(|(_, deaths)| **deaths > world.setup.max_recoveries);
    let verdict = world.flights.iter().find_map(|flight| match flight {
        Flight::End(verdict) => Some(verdict),
        Flight::Record(_) => None,
    });
    match (worst, verdict) {
        (Some((step, deaths)), Some(verdict)) => {
            assert!(world.live.is_empty());
            if let Verdict::Abandoned { step: named, deaths: counted } = verdict {
                assert_eq!((named, counted), (step, deaths));
            }
        }
        (Some((step, _)), None) => panic!("{step} killed its process too often, and the run goes on"),
        (None, Some(Verdict::Abandoned { step, .. })) => panic!("{step} is blamed for nothing"),
        (None, _) => {}
    }
}
