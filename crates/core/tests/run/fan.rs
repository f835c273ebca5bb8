//! Tasks that run once per element.

use std::time::Duration;

use windlass_core::{
    Draft, Failure, OnFailure, Output, Retry, Rule, StepKind, TaskDraft, TaskState, Verdict,
};

use crate::world::{Setup, World};

fn once(name: &str) -> TaskDraft {
    TaskDraft::new(name).retry(Retry::never())
}

fn draft(tasks: impl IntoIterator<Item = TaskDraft>) -> Draft {
    let draft = Draft::new("story").output(Output::Nothing);
    tasks.into_iter().fold(draft, Draft::task)
}

fn limited(limit: u32) -> TaskDraft {
    let mut each = once("each").for_each("list");
    each.limit = Some(limit);
    each
}

#[test]
fn no_more_instances_are_in_flight_than_the_limit_says() {
    let mut world = World::of(draft([once("list"), limited(2)]));
    world.complete_with_items("list", 4);
    assert_eq!(world.running(), ["each[0]", "each[1]"]);
    world.complete("each[1]");
    assert_eq!(world.running(), ["each[0]", "each[2]"]);
    world.crash();
    world.commit_all();
    assert_eq!(world.running(), ["each[0]", "each[2]"], "the limit holds after a crash");
}

#[test]
fn without_a_limit_as_many_run_as_the_node_has_slots() {
    let definition = draft([once("list"), once("each").for_each("list")]).check().expect("it is sound");
    let mut world = World::new(Setup { fan_limit: 3, ..Setup::new(definition) });
    world.complete_with_items("list", 10);
    assert_eq!(world.running().len(), 3);
}

#[test]
fn an_instance_that_waits_for_its_retry_keeps_its_place() {
    let mut each = limited(1);
    each.retry = Retry::attempts(2).delay(Duration::from_secs(5));
    let mut world = World::of(draft([once("list"), each]));
    world.complete_with_items("list", 2);
    world.fail("each[0]");
    assert!(world.running().is_empty());
    world.pass(Duration::from_secs(10));
    assert_eq!(world.running(), ["each[0]"]);
}

#[test]
fn when_one_instance_has_failed_the_others_finish_and_the_task_has_failed() {
    let mut workflow = draft([once("list"), limited(1), once("after").after(["each"])]);
    workflow.on_failure = OnFailure::FailFast;
    let mut world = World::of(workflow);
    world.complete_with_items("list", 3);
    world.fail("each[0]");
    assert_eq!(world.running(), ["each[1]"]);
    world.crash();
    world.commit_all();
    assert_eq!(world.running(), ["each[1]"], "a crash does not make the run fail any faster");
    world.complete("each[1]");
    world.fail("each[2]");
    let Verdict::Failed { step, also, .. } = world.verdict() else { panic!("two instances failed") };
    assert_eq!((step.as_str(), also.as_slice()), ("each[0]", &["each[2]".to_owned()][..]));
    assert_eq!(world.state("each"), TaskState::Failed);
}

#[test]
fn the_error_of_a_for_each_is_that_of_its_first_failed_element_whichever_failed_first() {
    let mut world = World::of(draft([once("list"), once("each").for_each("list")]));
    world.complete_with_items("list", 3);
    world.fail("each[2]");
    world.fail("each[1]");
    world.complete("each[0]");
    assert_eq!(world.view("each").failure, Some(Failure::new("each[1] broke")));
    assert_eq!(world.run.instance_failure(world.task("each"), 2), Some(&Failure::new("each[2] broke")));
}

#[test]
fn a_for_each_that_may_fail_completes_and_hands_the_outcomes_on() {
    let mut each = once("each").for_each("list");
    each.allow_failure = true;
    let mut world = World::of(draft([once("list"), each, once("after").after(["each"])]));
    world.complete_with_items("list", 2);
    world.fail("each[0]");
    world.complete("each[1]");
    assert_eq!(world.running(), ["after"]);
    let each = world.task("each");
    assert_eq!(world.run.instance(each, 0), Some(StepKind::Failed));
    assert_eq!(world.run.instance(each, 1), Some(StepKind::Completed));
    world.crash();
    world.commit_all();
    assert_eq!(world.running(), ["after"]);
    world.complete("after");
    assert_eq!(*world.verdict(), Verdict::Completed);
}

#[test]
fn a_for_each_over_nothing_completes_at_once_before_and_after_a_crash() {
    let mut world =
        World::of(draft([once("list"), once("each").for_each("list"), once("after").after(["each"])]));
    world.complete_with_items("list", 0);
    assert_eq!(world.state("each"), TaskState::Completed);
    assert_eq!(world.running(), ["after"]);
    let ended_at = world.view("each").ended_at;
    world.pass(Duration::from_secs(60));
    world.crash();
    assert_eq!(world.view("each").ended_at, ended_at);
    world.commit_all();
    assert_eq!(world.running(), ["after"]);
}

#[test]
fn a_for_each_over_a_for_each_runs_once_per_instance() {
    let nested = once("nested").for_each("each");
    let mut world = World::of(draft([once("list"), once("each").for_each("list"), nested]));
    world.complete_with_items("list", 2);
    world.complete("each[0]");
    world.complete("each[1]");
    assert_eq!(world.running(), ["nested[0]", "nested[1]"]);
    let counted = ["list", "each[0]", "nested[0]"].map(|step| world.plan.lane(step).expect("it is there"));
    assert_eq!(counted.map(|lane| world.plan.hands_out(lane)), [true, false, false]);
}

#[test]
fn a_for_each_over_a_task_that_failed_has_no_elements() {
    let each = once("each").for_each("list").rule(Rule::Always);
    let mut world = World::of(draft([once("list"), each]));
    world.fail("list");
    assert_eq!(world.state("each"), TaskState::Completed);
    assert_eq!(world.run.instances(world.task("each")), 0);
}

#[test]
fn a_skipped_for_each_has_no_instances_and_stays_skipped_after_a_crash() {
    let each = once("each").for_each("list").rule(Rule::context("go").eq(true));
    let mut world = World::of(draft([once("list"), each, once("after").after(["list"])]));
    world.complete_with_items("list", 5);
    world.crash();
    assert_eq!(world.state("each"), TaskState::Skipped);
    world.commit_all();
    world.complete("after");
    assert_eq!(world.started.iter().filter(|step| step.starts_with("each")).count(), 0);
}

#[test]
fn an_ended_for_each_is_told_by_its_records_alone() {
    let mut world = World::of(draft([once("list"), once("each").for_each("list"), once("last")]));
    world.complete_with_items("list", 2);
    world.complete("each[1]");
    world.pass(Duration::from_secs(5));
    world.complete("each[0]");
    let told = world.view("each");
    world.pass(Duration::from_secs(60));
    world.rebuild();
    assert_eq!(world.view("each"), told, "whoever looks at the records sees the same task");
}
