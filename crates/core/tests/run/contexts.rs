//! What tasks see of the context.

use serde_json::json;
use windlass_core::{Draft, Merge, Output, Retry, Rule, TaskDraft, TaskState};

use crate::world::{Setup, World};

fn once(name: &str) -> TaskDraft {
    TaskDraft::new(name).retry(Retry::never())
}

fn deep(mut task: TaskDraft) -> TaskDraft {
    task.merge = Merge::Deep;
    task
}

/// A run of these tasks that starts with `{"input": 1}`.
fn world(tasks: impl IntoIterator<Item = TaskDraft>) -> World {
    let draft = tasks.into_iter().fold(Draft::new("story").output(Output::Nothing), Draft::task);
    let mut setup = Setup::new(draft.check().expect("the draft is sound"));
    setup.context.insert("input".to_owned(), json!(1));
    World::new(setup)
}

#[test]
fn the_later_declared_dependency_wins_whoever_arrives_first() {
    for order in [["left", "right"], ["right", "left"]] {
        let mut world = world([once("left"), once("right"), once("join").after(["left", "right"])]);
        for name in order {
            world.complete_with(name, json!({ "who": name }));
        }
        assert_eq!(world.sees("join"), json!({ "input": 1, "who": "right" }));
    }
}

#[test]
fn declared_order_is_that_of_the_dependencies_and_not_of_the_tasks() {
    let mut world = world([once("left"), once("right"), once("join").after(["right", "left"])]);
    world.complete_with("left", json!({ "who": "left" }));
    world.complete_with("right", json!({ "who": "right" }));
    assert_eq!(world.sees("join"), json!({ "input": 1, "who": "left" }));
}

#[test]
fn a_branch_that_merely_inherited_a_value_does_not_overwrite_one_that_changed_it() {
    let mut world = world([
        once("root"),
        once("changes").after(["root"]),
        once("inherits").after(["root"]),
        once("join").after(["changes", "inherits"]),
    ]);
    world.complete_with("root", json!({ "k": "old" }));
    world.complete_with("changes", json!({ "k": "new" }));
    world.complete("inherits");
    assert_eq!(world.sees("join"), json!({ "input": 1, "k": "new" }));
}

#[test]
fn siblings_do_not_see_each_others_changes() {
    let mut world = world([once("a"), once("b"), once("after_b").after(["b"])]);
    world.complete_with("a", json!({ "k": 1 }));
    assert_eq!(world.sees("b"), json!({ "input": 1 }));
    world.complete("b");
    assert_eq!(world.sees("after_b"), json!({ "input": 1 }));
}

#[test]
fn a_skipped_or_failed_parent_erases_neither_the_initial_context_nor_its_ancestors_changes() {
    let never = Rule::context("no").eq(true);
    let mut world = world([
        once("root"),
        once("skipped").after(["root"]).rule(never),
        once("failed").after(["root"]),
        once("a").after(["skipped"]).rule(Rule::Always),
        once("b").after(["failed"]).rule(Rule::Always),
        once("c").after(["skipped", "failed"]).rule(Rule::Always),
    ]);
    world.complete_with("root", json!({ "k": 2 }));
    world.fail("failed");
    for child in ["a", "b", "c"] {
        assert_eq!(world.sees(child), json!({ "input": 1, "k": 2 }));
    }
}

#[test]
fn a_rule_sees_what_the_task_sees() {
    let rule = || Rule::context("k").eq("right");
    let mut world = world([
        once("left"),
        once("right"),
        once("yes").after(["left", "right"]).rule(rule()),
        once("no").after(["right", "left"]).rule(rule()),
    ]);
    world.complete_with("right", json!({ "k": "right" }));
    world.complete_with("left", json!({ "k": "left" }));
    assert_eq!(world.running(), ["yes"]);
    assert_eq!(world.sees("yes")["k"], "right");
    assert_eq!(world.state("no"), TaskState::Skipped);
}

#[test]
fn a_removed_key_is_gone_for_those_that_come_after() {
    let mut world = world([once("a"), once("b").after(["a"]), once("c").after(["b"])]);
    world.complete_with("a", json!({ "k": 1 }));
    world.complete_with("b", json!({ "k": null, "input": null }));
    assert_eq!(world.sees("c"), json!({}));
    world.complete_with("c", json!({ "k": 3 }));
    assert_eq!(json!(world.run.final_context()), json!({ "k": 3 }));
}

#[test]
fn a_deep_merge_joins_what_was_written_side_by_side_and_replaces_what_was_seen() {
    let mut world = world([
        once("first"),
        once("left").after(["first"]),
        once("right").after(["first"]),
        deep(once("join").after(["left", "right"])),
        once("plain").after(["left", "right"]),
    ]);
    world.complete_with("first", json!({ "k": { "gone": 1 }, "list": [0] }));
    world.complete_with("right", json!({ "k": { "b": 2, "both": "right" }, "list": [2, 1] }));
    world.complete_with("left", json!({ "k": { "a": 1, "both": "left" }, "list": [1] }));
    assert_eq!(world.sees("join")["k"], json!({ "a": 1, "b": 2, "both": "right" }));
    assert_eq!(world.sees("join")["list"], json!([1, 2]));
    assert_eq!(world.sees("plain")["k"], json!({ "b": 2, "both": "right" }));
}

#[test]
fn what_the_instances_of_a_for_each_changed_is_joined_in_the_order_of_the_elements() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let mut world = world([once("list"), once("each").for_each("list"), once("after").after(["each"])]);
        world.complete_with_items("list", 3);
        for item in order {
            world.complete_with(&format!("each[{item}]"), json!({ "last": item }));
        }
        assert_eq!(world.sees("after")["last"], 2);
    }
}

#[test]
fn the_final_context_is_that_of_a_task_after_all_leaves() {
    let mut world = world([once("b"), once("a"), once("a2").after(["a"])]);
    world.complete_with("a", json!({ "k": "a", "a": 1 }));
    world.complete_with("a2", json!({ "k": "a2" }));
    world.complete_with("b", json!({ "k": "b" }));
    assert_eq!(json!(world.run.final_context()), json!({ "input": 1, "k": "a2", "a": 1 }));
}

#[test]
fn a_failed_attempt_changes_nothing() {
    let retried = TaskDraft::new("a").retry(Retry::attempts(2).delay(std::time::Duration::ZERO));
    let mut world = world([retried, once("b").after(["a"]).rule(Rule::Always)]);
    world.fail("a");
    world.pass(std::time::Duration::ZERO);
    assert_eq!(world.sees("a"), json!({ "input": 1 }));
    world.fail("a");
    assert_eq!(world.sees("b"), json!({ "input": 1 }));
}

#[test]
fn asking_early_what_a_task_will_see_does_not_settle_it() {
    let mut world = world([once("other"), once("a"), once("b").after(["a"])]);
    let b = world.task("b");
    world.complete_with("other", json!({ "other": 1 }));
    assert_eq!(json!(*world.run.context_for(b)), json!({ "input": 1 }));
    world.complete_with("a", json!({ "k": 1 }));
    assert_eq!(world.sees("b"), json!({ "input": 1, "k": 1 }));
    world.complete("b");
    assert_eq!(json!(*world.run.context_for(b)), json!({ "input": 1, "k": 1 }));
}
