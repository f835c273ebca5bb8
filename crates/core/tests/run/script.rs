//! Random workflows, and what their tasks do.

use std::time::Duration;

use serde_json::{Map, Value, json};
use windlass_core::{
    Changes, Definition, Draft, Durability, Ended, Failure, LaneId, Merge, OnFailure, Op, Output, Retry,
    Rule, TaskDraft,
};

use crate::dice::Dice;

const KEYS: [&str; 4] = ["k0", "k1", "k2", "k3"];

/// What may vary from one random workflow to the next.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub seed: u64,
    pub tasks: usize,
    /// Whether time limits may change how things end.
    pub time_limits: bool,
}

/// A random workflow with everything in it, declared in any order.
pub fn workflow(shape: Shape) -> Definition {
    let mut dice = Dice::of(&[shape.seed, 1]);
    let mut draft = Draft::new("random").output(Output::Nothing);
    draft.on_failure = if dice.chance(25) { OnFailure::FailFast } else { OnFailure::FinishOthers };
    draft.durability = if dice.chance(40) { Durability::Pipelined } else { Durability::Strict };
    draft.timeout = (shape.time_limits && dice.chance(30)).then(|| seconds(&mut dice, 30));
    let mut tasks: Vec<TaskDraft> = (0..shape.tasks).map(|at| task(at, shape, &mut dice)).collect();
    dice.shuffle(&mut tasks);
    draft.tasks = tasks;
    draft.check().unwrap_or_else(|problems| panic!("{shape:?} is not sound: {problems}"))
}

fn seconds(dice: &mut Dice, most: usize) -> Duration {
    Duration::from_secs(1 + dice.below(most) as u64)
}

fn task(at: usize, shape: Shape, dice: &mut Dice) -> TaskDraft {
    let mut earlier: Vec<String> = (0..at).map(|at| format!("t{at}")).collect();
    dice.shuffle(&mut earlier);
    earlier.truncate(dice.below(5));
    let mut task = TaskDraft::new(format!("t{at}")).after(earlier.clone());
    if !earlier.is_empty() && dice.chance(30) {
        task = task.for_each(dice.pick(&earlier).clone());
        task.limit = dice.chance(50).then(|| 1 + dice.below(3) as u32);
    }
    task.rule = match dice.below(10) {
        0..=4 => None,
        5 | 6 => Some(Rule::Always),
        _ => Some(rule(&earlier, 2, dice)),
    };
    task.retry = Retry::attempts(1 + dice.below(4) as u32).delay(Duration::from_secs(dice.below(3) as u64));
    task.allow_failure = dice.chance(20);
    task.merge = if dice.chance(25) { Merge::Deep } else { Merge::LastWins };
    task.deadline = (shape.time_limits && dice.chance(20)).then(|| seconds(dice, 10));
    task
}

fn rule(dependencies: &[String], depth: usize, dice: &mut Dice) -> Rule {
    let many = |dice: &mut Dice| {
        let count = dice.below(3);
        (0..count).map(|_| rule(dependencies, depth - 1, dice)).collect::<Vec<_>>()
    };
    match dice.below(if depth > 0 { 9 } else { 5 }) {
        0..=3 if !dependencies.is_empty() => {
            let name = dice.pick(dependencies).clone();
            match dice.below(4) {
                0 => Rule::succeeded(name),
                1 => Rule::failed(name),
                2 => Rule::skipped(name),
                _ => Rule::done(name),
            }
        }
        0..=4 => Rule::Context {
            key: (*dice.pick(&["k0", "k1", "k2.a", "k3"])).to_owned(),
            op: *dice.pick(&[Op::Eq, Op::Ne, Op::Gt, Op::Le, Op::Contains, Op::Exists, Op::NotExists]),
            value: json!(dice.below(3)),
        },
        5 => Rule::all(many(dice)),
        6 => Rule::any(many(dice)),
        7 => Rule::none(many(dice)),
        _ => Rule::not(rule(dependencies, depth - 1, dice)),
    }
}

/// What a run starts with.
pub fn initial_context(seed: u64) -> Map<String, Value> {
    let mut dice = Dice::of(&[seed, 2]);
    KEYS.iter().filter(|_| dice.chance(40)).map(|key| ((*key).to_owned(), json!("initial"))).collect()
}

/// How this attempt ends: the same whenever and however often it is made.
pub fn outcome(seed: u64, generation: u32, lane: LaneId, attempt: u32) -> Ended {
    let place = [u64::from(lane.task.0), lane.item.map_or(0, |item| u64::from(item) + 1)];
    let mut dice = Dice::of(&[seed, 3, u64::from(generation), u64::from(attempt), place[0], place[1]]);
    let failure = || Failure::new(format!("{}.{} broke at attempt {attempt}", place[0], place[1]));
    match dice.below(12) {
        0 | 1 => Ended::Failed(failure()),
        2 => Ended::Failed(Failure::permanent(failure())),
        3 => Ended::Failed(Failure::retry_after(failure(), Duration::from_secs(5))),
        _ => {
            // Not of the attempt, nor of the generation: work that is done again comes out the same.
            let mut dice = Dice::of(&[seed, 4, place[0], place[1]]);
            Ended::Completed { changes: changes(&mut dice), items: Some(dice.below(6) as u32) }
        }
    }
}

fn changes(dice: &mut Dice) -> Changes {
    let mut changes = Changes::default();
    if dice.chance(50) {
        return changes;
    }
    for _ in 0..=dice.below(2) {
        let key = (*dice.pick(&KEYS)).to_owned();
        if changes.keys().any(|there| there == key) {
            continue;
        }
        let value = match dice.below(6) {
            0 => {
                changes.removed.insert(key);
                continue;
            }
            1 => json!({ "a": dice.below(3), *dice.pick(&["b", "c"]): [dice.below(3)] }),
            2 => json!([dice.below(3), dice.below(3)]),
            3 => json!("text"),
            _ => json!(dice.below(4)),
        };
        changes.set.insert(key, value);
    }
    changes
}
