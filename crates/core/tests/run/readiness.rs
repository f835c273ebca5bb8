//! Which tasks run, which are skipped, and what that means for the run.

use serde_json::json;
use windlass_core::{
    Draft, Durability, Ended, Failure, OnFailure, Output, Retry, Rule, Skip, StepKind, TaskDraft, TaskState,
    Time, Verdict,
};

use crate::world::World;

fn once(name: &str) -> TaskDraft {
    TaskDraft::new(name).retry(Retry::never())
}

fn draft(tasks: impl IntoIterator<Item = TaskDraft>) -> Draft {
    let draft = Draft::new("story").output(Output::Nothing);
    tasks.into_iter().fold(draft, Draft::task)
}

#[test]
fn a_child_of_a_failed_task_does_not_run_by_default_and_neither_does_its_child() {
    let mut world = World::of(draft([once("a"), once("b").after(["a"]), once("c").after(["b"])]));
    world.fail("a");
    assert_eq!(world.started, ["a"]);
    assert_eq!(world.view("b").skip, Some(Skip::UpstreamFailed("a".to_owned())));
    assert_eq!(world.view("c").skip, Some(Skip::UpstreamSkipped("b".to_owned())));
    let Verdict::Failed { step, failure, also } = world.verdict() else { panic!("a failed") };
    assert_eq!((step.as_str(), failure.message.as_str()), ("a", "a broke"));
    assert!(also.is_empty(), "what was skipped has not failed");
}

#[test]
fn a_failed_task_stops_only_its_dependents() {
    let mut world = World::of(draft([once("a"), once("b").after(["a"]), once("x"), once("y").after(["x"])]));
    world.fail("a");
    world.complete("x");
    assert_eq!(world.running(), ["y"]);
    world.complete("y");
    assert!(matches!(world.verdict(), Verdict::Failed { step, .. } if step == "a"));
    assert_eq!(world.state("y"), TaskState::Completed);
}

#[test]
fn a_task_that_always_runs_does_so_after_failed_and_skipped_tasks() {
    let always = once("cleanup").after(["a", "b"]).rule(Rule::Always);
    let mut world = World::of(draft([once("a"), once("b").after(["a"]), always]));
    world.fail("a");
    assert_eq!(world.running(), ["cleanup"]);
    world.complete("cleanup");
    assert!(matches!(world.verdict(), Verdict::Failed { .. }), "cleaning up mends nothing");
}

#[test]
fn a_rule_replaces_the_default_and_chooses_a_branch() {
    let mut world = World::of(draft([
        once("a"),
        once("good").after(["a"]).rule(Rule::succeeded("a")),
        once("bad").after(["a"]).rule(Rule::failed("a")),
        once("after_skip").after(["good"]).rule(Rule::skipped("good")),
        once("join")
            .after(["good", "bad"])
            .rule(Rule::any([Rule::succeeded("good"), Rule::succeeded("bad")])),
    ]));
    world.fail("a");
    assert_eq!(world.view("good").skip, Some(Skip::Rule));
    assert_eq!(world.running(), ["bad", "after_skip"]);
    world.complete("bad");
    world.complete("after_skip");
    assert_eq!(world.running(), ["join"]);
}

#[test]
fn a_rule_of_a_task_without_dependencies_looks_at_what_the_run_started_with() {
    let task = |name| once(name).rule(Rule::context("dry").eq(true));
    let mut world = World::of(draft([once("first"), task("skipped")]));
    assert_eq!(world.state("skipped"), TaskState::Skipped);
    world.commit_all();
    world.complete("first");
    assert_eq!(*world.verdict(), Verdict::Completed);
    assert_eq!(json!(world.run.final_context()), json!({}));
}

#[test]
fn a_run_of_which_everything_is_skipped_has_completed() {
    let mut world = World::of(draft([once("a").rule(Rule::context("go").eq(true)), once("b").after(["a"])]));
    world.commit_all();
    assert_eq!(*world.verdict(), Verdict::Completed);
    assert!(world.started.is_empty());
    assert_eq!(world.view("a").attempts, 0);
}

#[test]
fn a_task_that_may_fail_leaves_the_verdict_alone_but_its_dependents_are_skipped() {
    let mut may_fail = once("a");
    may_fail.allow_failure = true;
    let mut world = World::of(draft([may_fail, once("b").after(["a"])]));
    world.fail("a");
    assert_eq!(*world.verdict(), Verdict::Completed);
    assert_eq!(world.state("a"), TaskState::Failed);
    assert_eq!(world.view("b").skip, Some(Skip::UpstreamFailed("a".to_owned())));
}

#[test]
fn failing_fast_stops_what_runs_and_starts_nothing_more() {
    let mut workflow = draft([once("a"), once("slow"), once("next").after(["slow"])]);
    workflow.on_failure = OnFailure::FailFast;
    let mut world = World::of(workflow);
    world.fail("a");
    assert!(world.end.is_none(), "what runs has its grace");
    assert!(world.live.values().all(|live| live.stopped));
    world.complete("slow");
    assert!(matches!(world.verdict(), Verdict::Failed { step, .. } if step == "a"));
    assert_eq!(world.started, ["a", "slow"]);
    assert_eq!(world.state("slow"), TaskState::Completed, "it was quicker than its grace");
    assert_eq!(world.state("next"), TaskState::Cancelled);
}

#[test]
fn a_task_that_may_fail_does_not_make_a_run_fail_fast() {
    let mut may_fail = once("a");
    may_fail.allow_failure = true;
    let mut workflow = draft([may_fail, once("b")]);
    workflow.on_failure = OnFailure::FailFast;
    let mut world = World::of(workflow);
    world.fail("a");
    world.complete("b");
    assert_eq!(*world.verdict(), Verdict::Completed);
}

#[test]
fn tasks_that_never_started_are_not_reported_as_failed() {
    let mut workflow = draft([once("a"), once("waits"), once("late").after(["waits"])]);
    workflow.on_failure = OnFailure::FailFast;
    let mut world = World::of(workflow);
    world.fail("a");
    world.end_with("waits", Ended::Cut);
    for task in ["waits", "late"] {
        assert_eq!(world.state(task), TaskState::Cancelled);
        assert_eq!(world.view(task).failure, None);
    }
    let Verdict::Failed { also, .. } = world.verdict() else { panic!("a failed") };
    assert!(also.is_empty());
}

#[test]
fn nothing_starts_before_what_it_builds_on_is_durable() {
    let tasks = || [once("a"), once("b").after(["a"])];
    let mut strict = World::of(draft(tasks()));
    let mut pipelined = draft(tasks());
    pipelined.durability = Durability::Pipelined;
    let mut pipelined = World::of(pipelined);
    for world in [&mut strict, &mut pipelined] {
        let lane = world.plan.lane("a").expect("a is there");
        world.finish(lane, Ended::Completed { changes: Default::default(), items: None });
    }
    assert!(strict.running().is_empty());
    assert_eq!(pipelined.running(), ["b"]);
    strict.commit(1);
    assert_eq!(strict.running(), ["b"]);
}

#[test]
fn the_last_outcome_and_the_end_travel_together() {
    let mut world = World::of(draft([once("a")]));
    let lane = world.plan.lane("a").expect("a is there");
    world.finish(lane, Ended::Completed { changes: Default::default(), items: None });
    assert_eq!(world.flights.len(), 2, "the record and the end, in one go");
}

#[test]
fn a_run_that_fails_names_every_task_that_failed_and_the_first_ones_error() {
    let mut world = World::of(draft([once("a"), once("b"), once("c")]));
    world.fail("b");
    world.fail("a");
    world.complete("c");
    let Verdict::Failed { step, failure, also } = world.verdict() else { panic!("two failed") };
    assert_eq!((step.as_str(), &**failure), ("b", &Failure::new("b broke")));
    assert_eq!(*also, ["a"]);
    assert_eq!(world.run.outcome(world.task("a")), Some(StepKind::Failed));
}

#[test]
fn a_result_that_is_recorded_already_is_not_recorded_again_and_holds_nobody_up() {
    let mut world = World::of(draft([once("a"), once("b").after(["a"]), once("c").after(["b"])]));
    let recorded = |at| Ended::Recorded { changes: Default::default(), items: None, at };
    let lane = |world: &World, step: &str| world.plan.lane(step).expect("it is there");
    world.finish(lane(&world, "a"), recorded(Time(7)));
    assert_eq!(world.running(), ["b"], "nothing has to be committed first");
    assert_eq!(world.view("a").ended_at, Some(Time(7)), "it ended when the record says");
    world.complete("b");
    world.end_with("c", recorded(Time(9)));
    assert_eq!(*world.verdict(), Verdict::Completed);
    let names: Vec<String> = world.records().map(|(_, step)| step.name.to_string()).collect();
    assert_eq!(names, ["b"], "the others were written by whoever said so");
}
