use std::time::Instant;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{Definition, Op};

fn draft<const N: usize>(tasks: [TaskDraft; N]) -> Draft {
    tasks.into_iter().fold(Draft::new("etl"), Draft::task)
}

fn task(name: &str) -> TaskDraft {
    TaskDraft::new(name)
}

fn problems(draft: Draft) -> Vec<String> {
    draft.check().unwrap_err().iter().map(ToString::to_string).collect()
}

fn sound<const N: usize>(tasks: [TaskDraft; N]) -> Definition {
    draft(tasks).check().unwrap()
}

#[test]
fn a_sound_draft_becomes_a_definition_with_places_for_names() {
    let clean = task("clean").after(["extract", "extract"]);
    let enrich = TaskDraft { limit: Some(8), ..task("enrich").for_each("clean") };
    let definition = sound([enrich, clean, task("extract")]);
    assert_eq!(definition.tasks[0].dependencies, [TaskIx(1)]);
    assert_eq!(definition.tasks[0].for_each, Some(crate::ForEach { over: TaskIx(1), limit: Some(8) }));
    assert_eq!(definition.tasks[1].dependencies, [TaskIx(2)], "a dependency named twice is one dependency");
    assert_eq!(definition.output, Some(TaskIx(0)));
    assert_eq!(*definition.version, *definition.fingerprint());
    let pinned = Draft { version: Some("7".to_owned()), ..draft([task("a")]) };
    assert_eq!(&*pinned.check().unwrap().version, "7");
}

#[test]
fn every_problem_is_told_at_once() {
    let mut odd = task("load").after(["exract"]).rule(Rule::failed("clean"));
    odd.retry.attempts = 0;
    odd.timeout = Some(Duration::ZERO);
    odd.limit = Some(0);
    let draft = draft([task("extract"), odd, task("extract"), task("input"), task("bad name")]);
    assert_eq!(
        problems(draft.output(Output::Named("laod".to_owned()))),
        [
            "two tasks are called `extract`",
            "a task cannot be called `input`: in a task's parameters that word means something else",
            "a task cannot be called `bad name`: a name has letters, digits, `_`, `-` and `.` only",
            "`load` waits for `exract`, but no task has that name: did you mean `extract`?",
            "the rule of `load` names `clean`, which is not among its dependencies",
            "`load` has a limit, but does not run for each element of anything",
            "`load` has 0 attempts: the first execution counts, so at least 1 is needed",
            "`load` has a timeout of 0: leave it out for none",
            "`load` has a limit of 0: leave it out for none",
            "the output is to be that of `laod`, but no task has that name: did you mean `load`?",
        ],
    );
}

#[test]
fn a_workflow_needs_a_task_and_a_name() {
    assert_eq!(
        problems(Draft::new("")),
        [
            "a workflow cannot be called ``: a name needs at least one character",
            "the workflow `` has no tasks"
        ],
    );
    let long = Draft { name: "x".repeat(201), ..draft([task("a")]) };
    assert!(problems(long)[0].ends_with("a name has at most 200 characters"));
    for reserved in RESERVED {
        assert_eq!(problems(draft([task(reserved)])).len(), 1, "{reserved}");
    }
    sound([task("größe.v2-b_1")]);
}

#[test]
fn each_cycle_is_told_as_the_way_round_it() {
    assert_eq!(
        problems(draft([
            task("a").after(["b"]),
            task("b").after(["a"]),
            task("c").after(["c"]),
            task("d").after(["a"]),
        ])),
        ["tasks wait for each other: a → b → a", "tasks wait for each other: c → c"],
    );
}

#[test]
fn a_rule_may_name_only_dependencies_but_any_key() {
    let rule = Rule::any([Rule::failed("laod"), Rule::done("a")]);
    assert_eq!(
        problems(
            draft([task("a"), task("load"), task("b").after(["load"]).rule(rule)]).output(Output::Nothing)
        ),
        [
            "the rule of `b` names `laod`, which is not among its dependencies: did you mean `load`?",
            "the rule of `b` names `a`, which is not among its dependencies",
        ],
    );
    let free = task("a").rule(Rule::context("k").exists());
    draft([free]).output(Output::Nothing).check().unwrap();
}

#[test]
fn a_rule_that_could_not_be_read_again_is_refused() {
    let odd = Rule::Context { key: "k".to_owned(), op: Op::In, value: json!(1) };
    assert_eq!(
        problems(draft([task("a").rule(odd)]).output(Output::Nothing)),
        ["the rule of `a` cannot be used: $.value: `In` takes an array"],
    );
    let deep = (0..40).fold(Rule::Always, |rule, _| Rule::not(rule));
    assert_eq!(problems(draft([task("a").rule(deep)]).output(Output::Nothing)).len(), 1);
}

#[test]
fn for_each_needs_a_dependency_that_exists() {
    let lost = TaskDraft { for_each: Some("cleen".to_owned()), ..task("a") };
    let apart = TaskDraft { for_each: Some("clean".to_owned()), ..task("b") };
    let both = task("c").for_each("cleaner");
    assert_eq!(
        problems(draft([task("clean"), lost, apart, both])),
        [
            "`c` waits for `cleaner`, but no task has that name: did you mean `clean`?",
            "`a` runs for each element of `cleen`, but no task has that name: did you mean `clean`?",
            "`b` runs for each element of `clean`, which is not among its dependencies",
        ],
    );
}

#[test]
fn a_retry_that_makes_no_sense_is_refused_with_the_reason() {
    for (retry, why) in [
        (Retry::attempts(3).jitter(1.5), "a jitter of 1.5 is not between 0 and 1"),
        (Retry::attempts(3).jitter(f64::NAN), "a jitter of NaN is not between 0 and 1"),
        (Retry::attempts(3).factor(0.5), "a factor of 0.5 is not a number from 1 up"),
        (
            Retry::attempts(3).max_delay(Duration::from_millis(500)),
            "its first delay of 1s is longer than its longest of 500ms",
        ),
        (
            Retry { on: Vec::new(), ..Retry::default() },
            "it says on no failure at all: write `never` if that is meant",
        ),
        (Retry::attempts(3).on(RetryOn::Matching(Vec::new())), "`matching` has no text to look for"),
        (
            Retry::attempts(3).on(RetryOn::Matching(vec![String::new()])),
            "`matching` looks for an empty text, which is in every message",
        ),
        (Retry::attempts(3).on(RetryOn::Predicate(String::new())), "`predicate` names no function"),
    ] {
        assert_eq!(
            problems(draft([task("a").retry(retry)])),
            [format!("the retry of `a` cannot be used: {why}")],
        );
    }
}

#[test]
fn the_output_is_the_only_leaf_without_a_condition() {
    let report = || task("report").after(["load"]).rule(Rule::failed("load"));
    assert_eq!(sound([task("load"), task("other").after(["load"]), report()]).output, Some(TaskIx(1)));
    assert_eq!(
        problems(draft([task("load"), report()])),
        ["every last task has a condition (`report`): say with `output` whose result is the run's"],
    );
    assert_eq!(
        problems(draft([task("a"), task("b")])),
        ["the output could be that of `a`, `b`: say which with `output`"],
    );
    let loose = |output| draft([task("a"), task("b")]).output(output).check().unwrap().output;
    assert_eq!(loose(Output::LeafIfAny), None);
    assert_eq!(loose(Output::Nothing), None);
    assert_eq!(loose(Output::Named("b".to_owned())), Some(TaskIx(1)));
    assert_eq!(sound([task("a").rule(Rule::Always)]).output, Some(TaskIx(0)));
}

#[test]
fn ten_thousand_tasks_are_checked_at_once_and_so_are_ten_thousand_mistakes() {
    let chain = |odd: &str| {
        (1..10_000).fold(draft([task("t0")]), |draft, at| {
            draft.task(task(&format!("t{at}")).after([format!("t{}{odd}", at - 1)]))
        })
    };
    let began = Instant::now();
    assert_eq!(chain("").check().unwrap().tasks.len(), 10_000);
    assert_eq!(problems(chain("x")).len(), 9_999);
    let wide: Vec<String> = (0..10_000).map(|at| format!("t{at}")).collect();
    let rule = Rule::any(wide.iter().map(Rule::failed));
    let fan = wide.iter().fold(Draft::new("wide"), |draft, name| draft.task(task(name)));
    fan.task(task("join").after(wide.clone()).rule(rule)).output(Output::Nothing).check().unwrap();
    // Minutes, if every task were compared with every other; a busy machine must not fail it.
    assert!(began.elapsed() < Duration::from_secs(60), "it took {:?}", began.elapsed());
}

fn any_task() -> impl Strategy<Value = TaskDraft> {
    let name = || "[a-f]|input|.{0,3}";
    (
        name(),
        proptest::collection::vec(name(), 0..4),
        proptest::option::of(name().prop_map(Rule::Failed)),
        proptest::option::of(name()),
        proptest::option::of(0..3_u32),
        0..3_u32,
        proptest::option::of((0..2_u64).prop_map(Duration::from_secs)),
    )
        .prop_map(|(name, dependencies, rule, for_each, limit, attempts, timeout)| TaskDraft {
            dependencies,
            rule,
            for_each,
            limit,
            timeout,
            ..TaskDraft::new(name).retry(Retry::attempts(attempts))
        })
}

fn any_output() -> impl Strategy<Value = Output> {
    prop_oneof![
        Just(Output::Leaf),
        Just(Output::LeafIfAny),
        Just(Output::Nothing),
        "[a-g]".prop_map(Output::Named),
    ]
}

proptest! {
    #[test]
    fn no_draft_is_too_odd_to_be_answered(
        tasks in proptest::collection::vec(any_task(), 0..8), output in any_output(),
    ) {
        let draft = tasks.into_iter().fold(Draft::new("odd"), Draft::task).output(output);
        match draft.clone().check() {
            Ok(definition) => {
                prop_assert_eq!(Graph::of(&definition).len(), draft.tasks.len());
                let record = serde_json::to_string(&definition).unwrap();
                prop_assert_eq!(serde_json::from_str::<Definition>(&record).unwrap(), definition);
            }
            Err(problems) => {
                let lines = problems.iter().count();
                prop_assert!(lines > 0);
                prop_assert!(problems.iter().all(|problem| !problem.to_string().is_empty()));
            }
        }
    }

    #[test]
    fn tasks_that_wait_only_for_earlier_ones_are_always_sound(
        picks in proptest::collection::vec(proptest::collection::vec(any::<proptest::sample::Index>(), 0..4), 1..20),
    ) {
        let draft = picks.iter().enumerate().fold(Draft::new("dag"), |draft, (at, picks)| {
            let earlier = picks.iter().filter(|_| at > 0).map(|pick| format!("t{}", pick.index(at.max(1))));
            draft.task(task(&format!("t{at}")).after(earlier))
        });
        prop_assert!(draft.output(Output::LeafIfAny).check().is_ok());
    }
}
