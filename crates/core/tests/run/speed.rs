//! Large graphs: the work grows with their size, not with its square.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use serde_json::json;
use windlass_core::{
    Changes, Command, Draft, Ended, Event, Output, Plan, Retry, Rule, Run, Seed, Step, TaskDraft, Time,
    Verdict,
};

const TASKS: usize = 10_000;

/// Far more than is needed on a busy machine without optimisation, and far less than anything quadratic takes.
const BUDGET: Duration = Duration::from_secs(if cfg!(debug_assertions) { 15 } else { 1 });

fn once(at: usize) -> TaskDraft {
    TaskDraft::new(format!("t{at}")).retry(Retry::never())
}

fn chain() -> Draft {
    let link = |at: usize| once(at).after(at.checked_sub(1).map(|before| format!("t{before}")));
    draft((0..TASKS).map(link))
}

/// One task, then all others but one, then one after them all.
fn diamond() -> Draft {
    let middle = (1..TASKS - 1).map(|at| once(at).after(["t0"]));
    let last = once(TASKS - 1).after((1..TASKS - 1).map(|at| format!("t{at}")));
    draft([once(0)].into_iter().chain(middle).chain([last]))
}

fn draft(tasks: impl IntoIterator<Item = TaskDraft>) -> Draft {
    let mut draft = Draft::new("large").output(Output::Nothing);
    draft.tasks.extend(tasks);
    draft
}

fn seed(draft: Draft, steps: Vec<Step>) -> Seed {
    let definition = draft.check().expect("it is sound");
    Seed {
        plan: Plan::new(definition.into()).into(),
        generation: 1,
        recoveries: 0,
        max_recoveries: 5,
        opened_at: Time(0),
        timeout: None,
        fan_limit: u32::MAX,
        spread: Default::default(),
        published: Vec::new(),
        context: json!({ "kept": "as it was" }).as_object().cloned().expect("it is an object"),
        steps: steps.into_iter().map(|step| (1, step)).collect(),
    }
}

/// Drives a run to its end and answers with its records, and how long all that took.
fn drive(draft: Draft, changes: impl Fn(usize) -> Changes, items: Option<u32>) -> (Run, Vec<Step>, Duration) {
    let begun = Instant::now();
    let mut run = Run::new(seed(draft, Vec::new())).expect("a run without records fits its plan");
    run.apply(Event::Begin, Time(0));
    let (mut todo, mut records, mut now) = (VecDeque::new(), Vec::new(), Time(0));
    loop {
        for command in run.take_commands() {
            match command {
                Command::Record { step, .. } => records.push(step),
                Command::Start(attempt) => todo.push_back((attempt.lane, run.context_for(attempt.lane.task))),
                Command::Stop(_) | Command::Isolate(_) | Command::Publish(_) | Command::Withdraw { .. } => {
                    panic!("nothing has happened to the run")
                }
                Command::End(verdict) => {
                    assert_eq!(verdict, Verdict::Completed);
                    return (run, records, begun.elapsed());
                }
            }
        }
        now = now + Duration::from_micros(1);
        match todo.pop_front() {
            Some((lane, context)) => {
                assert_eq!(context["kept"], "as it was");
                drop(context);
                let ended = Ended::Completed { changes: changes(lane.task.get()), items };
                run.apply(Event::Ended { lane, started_at: now, ended, dice: 0.5 }, now);
                run.apply(Event::Recorded(1), now);
            }
            None => panic!("the run is stuck"),
        }
    }
}

fn set(key: String, value: usize) -> Changes {
    Changes { set: [(key, json!(value))].into(), ..Changes::default() }
}

#[track_caller]
fn assert_quick(spent: Duration) {
    assert!(spent < BUDGET, "it took {spent:?}");
}

#[test]
fn a_chain_of_ten_thousand_tasks_is_quick() {
    let (_, records, spent) = drive(chain(), |_| Changes::default(), None);
    assert_eq!(records.len(), TASKS);
    assert_quick(spent);
}

#[test]
fn ten_thousand_tasks_side_by_side_are_quick() {
    let (_, records, spent) = drive(diamond(), |_| Changes::default(), None);
    assert_eq!(records.len(), TASKS);
    assert_quick(spent);
}

#[test]
fn a_for_each_over_ten_thousand_elements_is_quick() {
    let each = TaskDraft::new("each").retry(Retry::never()).for_each("t0");
    let items = u32::try_from(TASKS).expect("it is small");
    let changes = |task| set("by".to_owned(), task);
    let (_, records, spent) = drive(draft([once(0), each]), changes, Some(items));
    assert_eq!(records.len(), TASKS + 1);
    assert_quick(spent);
}

#[test]
fn a_chain_in_which_every_task_writes_the_same_key_is_quick() {
    let (run, _, spent) = drive(chain(), |at| set("last".to_owned(), at), None);
    assert_eq!(run.final_context()["last"], TASKS - 1);
    assert_quick(spent);
}

#[test]
fn a_chain_in_which_every_task_adds_a_key_is_quick() {
    let (run, _, spent) = drive(chain(), |at| set(format!("k{at}"), at), None);
    assert_eq!(run.final_context().len(), TASKS + 1);
    assert_quick(spent);
}

#[test]
fn a_wide_graph_in_which_every_task_adds_a_key_is_quick() {
    let (run, _, spent) = drive(diamond(), |at| set(format!("k{at}"), at), None);
    assert_eq!(run.final_context().len(), TASKS + 1);
    assert_quick(spent);
}

#[test]
fn a_chain_of_rules_that_read_a_changed_context_is_quick() {
    let mut draft = chain();
    for (at, task) in draft.tasks.iter_mut().enumerate().skip(1) {
        task.rule = Some(Rule::context("last").eq(at - 1));
    }
    let (run, _, spent) = drive(draft, |at| set("last".to_owned(), at), None);
    assert_eq!(run.final_context()["last"], TASKS - 1);
    assert_quick(spent);
}

#[test]
fn a_long_run_is_taken_up_quickly_from_its_records() {
    let (_, mut records, _) = drive(chain(), |at| set("last".to_owned(), at), None);
    records.truncate(TASKS - 1);
    let seed = seed(chain(), records);
    let begun = Instant::now();
    let mut run = Run::new(seed).expect("a run fits its own records");
    run.apply(Event::Begin, Time(0));
    let [Command::Start(attempt)] = run.take_commands()[..] else { panic!("one task is left") };
    assert_eq!(run.context_for(attempt.lane.task)["last"], TASKS - 2);
    assert_quick(begun.elapsed());
}
