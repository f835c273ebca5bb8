//! What people ask of a run: cancel, terminate, pause, resume, retry.

use std::time::Duration;

use windlass_core::{
    Draft, Ended, Failure, Order, Output, Rest, Retry, Rule, StepKind, TaskDraft, TaskState, Verdict,
};

use crate::world::World;

fn once(name: &str) -> TaskDraft {
    TaskDraft::new(name).retry(Retry::never())
}

fn draft(tasks: impl IntoIterator<Item = TaskDraft>) -> Draft {
    let draft = Draft::new("story").output(Output::Nothing);
    tasks.into_iter().fold(draft, Draft::task)
}

fn cancel() -> Order {
    Order::Cancel { reason: "not needed".to_owned() }
}

fn assert_cancelled(world: &World) {
    assert_eq!(*world.verdict(), Verdict::Cancelled { reason: "not needed".to_owned() });
}

#[test]
fn a_run_that_is_cancelled_before_it_begins_never_starts() {
    let mut world = World::with_orders(draft([once("a")]), &[cancel()]);
    world.commit_all();
    assert_cancelled(&world);
    assert!(world.started.is_empty());
    assert_eq!(world.state("a"), TaskState::Cancelled);
}

#[test]
fn cancelling_stops_what_runs_and_starts_nothing_more() {
    let mut world = World::of(draft([once("a"), once("b").after(["a"])]));
    world.order(cancel());
    assert!(world.live.values().all(|live| live.stopped), "the token has fired");
    assert!(world.end.is_none(), "what runs has its grace");
    world.end_with("a", Ended::Cut);
    assert_cancelled(&world);
    assert_eq!(world.started, ["a"]);
    assert_eq!(world.state("a"), TaskState::Cancelled);
}

#[test]
fn cancelling_ends_a_paused_run_a_waiting_run_and_a_deferred_one() {
    let retried = || TaskDraft::new("a").retry(Retry::attempts(2).delay(Duration::from_secs(3600)));
    let mut paused = World::of(draft([once("a"), once("b").after(["a"])]));
    paused.order(Order::Pause);
    paused.complete("a");
    assert!(matches!(paused.run.rest(), Rest::Paused(None)));
    let mut waiting = World::of(draft([retried()]));
    waiting.fail("a");
    assert!(matches!(waiting.run.rest(), Rest::Waiting(Some(_))));
    let mut deferred = World::of(draft([once("a")]));
    let lane = deferred.plan.lane("a").expect("a is there");
    deferred.defer(lane, deferred.now + Duration::from_secs(3600));
    for world in [&mut paused, &mut waiting, &mut deferred] {
        world.change_hands();
        world.order(cancel());
        for step in world.running() {
            world.end_with(&step, Ended::Cut);
        }
        world.commit_all();
        assert_cancelled(world);
    }
}

#[test]
fn cancel_and_complete_racing_give_one_end() {
    let mut cancelled_first = World::of(draft([once("a")]));
    cancelled_first.order(cancel());
    cancelled_first.complete("a");
    assert_cancelled(&cancelled_first);
    assert_eq!(cancelled_first.state("a"), TaskState::Completed, "its result is kept for a retry");

    let mut completed_first = World::of(draft([once("a")]));
    let lane = completed_first.plan.lane("a").expect("a is there");
    completed_first.finish(lane, Ended::Completed { changes: Default::default(), items: None });
    completed_first.order(cancel());
    completed_first.commit_all();
    assert_eq!(*completed_first.verdict(), Verdict::Completed);
}

#[test]
fn a_cancel_that_was_heard_before_a_crash_is_obeyed_after_it() {
    let mut world = World::of(draft([once("a"), once("b")]));
    world.order(cancel());
    world.end_with("a", Ended::Cut);
    world.crash();
    world.commit_all();
    assert_cancelled(&world);
    assert_eq!(world.started, ["a", "b"], "nothing started again");
}

#[test]
fn the_first_verdict_stands() {
    let mut workflow = draft([once("a")]);
    workflow.timeout = Some(Duration::from_secs(10));
    let mut world = World::of(workflow);
    world.order(cancel());
    world.order(Order::Cancel { reason: "again".to_owned() });
    world.pass(Duration::from_secs(20));
    world.end_with("a", Ended::Cut);
    assert_cancelled(&world);
}

#[test]
fn an_attempt_that_fails_while_its_run_is_cancelled_is_not_tried_again() {
    let retried = TaskDraft::new("a").retry(Retry::attempts(5).delay(Duration::ZERO));
    let mut world = World::of(draft([retried]));
    world.order(cancel());
    world.fail("a");
    assert_cancelled(&world);
    assert_eq!(world.started, ["a"]);
    assert_eq!(world.state("a"), TaskState::Failed, "its error is told");
}

#[test]
fn terminating_ends_a_run_at_once_although_something_executes() {
    let mut world = World::of(draft([once("a"), once("b")]));
    world.order(Order::Terminate { reason: "now".to_owned() });
    world.commit_all();
    assert_eq!(*world.verdict(), Verdict::Cancelled { reason: "now".to_owned() });
}

#[test]
fn a_run_that_is_terminated_before_it_begins_asks_for_nothing_but_its_end() {
    let skipped = once("a").rule(Rule::context("go").eq(true));
    let orders = [Order::Terminate { reason: "now".to_owned() }];
    let mut world = World::with_orders(draft([skipped]), &orders);
    assert_eq!(world.flights.len(), 1, "no record follows the end");
    world.commit_all();
    assert_eq!(*world.verdict(), Verdict::Cancelled { reason: "now".to_owned() });
}

#[test]
fn pausing_lets_what_runs_finish_and_nothing_new_start() {
    let mut world = World::of(draft([once("a"), once("b").after(["a"]), once("c").after(["b"])]));
    world.order(Order::Pause);
    assert_eq!(world.run.rest(), Rest::Busy, "what runs goes on");
    world.complete("a");
    assert!(world.running().is_empty());
    assert_eq!(world.state("b"), TaskState::Ready);
    assert_eq!(world.run.rest(), Rest::Paused(None));
    world.pass(Duration::from_secs(3600));
    world.change_hands();
    assert!(world.running().is_empty(), "whoever takes it up next keeps the pause");
    world.order(Order::Resume);
    assert_eq!(world.running(), ["b"]);
}

#[test]
fn a_run_that_was_paused_and_resumed_before_it_began_begins() {
    let world = World::with_orders(draft([once("a")]), &[Order::Pause, Order::Resume]);
    assert_eq!(world.running(), ["a"]);
}

#[test]
fn a_retry_that_falls_due_in_a_pause_waits_for_its_end() {
    let retried = TaskDraft::new("a").retry(Retry::attempts(2).delay(Duration::from_secs(1)));
    let mut world = World::of(draft([retried]));
    world.fail("a");
    world.order(Order::Pause);
    assert_eq!(world.run.next_tick(), None, "nothing to wake up for");
    world.pass(Duration::from_secs(10));
    assert!(world.running().is_empty());
    world.order(Order::Resume);
    assert_eq!(world.running(), ["a"]);
}

#[test]
fn a_time_limit_ends_a_paused_run() {
    let mut workflow = draft([once("a")]);
    workflow.timeout = Some(Duration::from_secs(60));
    let mut world = World::with_orders(workflow, &[Order::Pause]);
    assert_eq!(world.run.rest(), Rest::Paused(Some(world.now + Duration::from_secs(60))));
    world.pass(Duration::from_secs(60));
    world.commit_all();
    assert!(matches!(world.verdict(), Verdict::TimedOut { unfinished, .. } if *unfinished == ["a"]));
}

#[test]
fn a_node_that_gives_a_run_up_starts_nothing_and_its_cut_attempts_do_not_count() {
    let mut world = World::of(draft([once("a"), once("b").after(["a"])]));
    world.halt();
    world.end_with("a", Ended::Cut);
    assert_eq!(world.run.rest(), Rest::Halted);
    world.change_hands();
    assert_eq!(world.running(), ["a"]);
    assert_eq!(
        world.live.values().next().map(|live| live.number),
        Some(1),
        "an attempt that was cut is repeated"
    );
}

#[test]
fn a_retry_keeps_completed_work_and_does_the_rest_again() {
    let mut world = World::of(draft([once("a"), once("b").after(["a"]), once("c").after(["b"])]));
    world.complete("a");
    world.fail("b");
    assert_eq!(world.state("c"), TaskState::Skipped);
    world.retry();
    assert_eq!(world.running(), ["b"]);
    assert_eq!(
        world.live.values().next().map(|live| live.number),
        Some(1),
        "a generation has all its attempts"
    );
    world.complete("b");
    world.complete("c");
    assert_eq!(*world.verdict(), Verdict::Completed);
    assert_eq!(world.started, ["a", "b", "b", "c"]);
}

#[test]
fn a_retry_runs_only_the_failed_instances_of_a_for_each() {
    let mut world =
        World::of(draft([once("list"), once("each").for_each("list"), once("end").after(["each"])]));
    world.complete_with_items("list", 3);
    world.complete("each[0]");
    world.fail("each[1]");
    world.complete("each[2]");
    assert_eq!(world.state("end"), TaskState::Skipped);
    world.retry();
    assert_eq!(world.running(), ["each[1]"]);
    world.complete("each[1]");
    assert_eq!(world.view("each").items, Some((3, 3)));
    world.complete("end");
    assert_eq!(*world.verdict(), Verdict::Completed);
}

#[test]
fn a_deadline_in_a_retried_run_counts_from_its_reopening() {
    let mut limited = once("b").after(["a"]);
    limited.deadline = Some(Duration::from_secs(10));
    let mut world = World::of(draft([once("a"), limited]));
    world.complete("a");
    world.fail("b");
    let a_ended_at = world.view("a").ended_at;
    world.pass(Duration::from_secs(3600));
    world.retry();
    let deadline = world.live.values().next().and_then(|live| live.deadline);
    assert_eq!(deadline, Some(world.now + Duration::from_secs(10)));
    assert_eq!(world.view("a").ended_at, a_ended_at, "kept work ended when it ended");
}

#[test]
fn what_depends_on_kept_work_waits_until_all_upstream_of_it_is_done_again() {
    let mut child = once("child").after(["kept"]);
    child.deadline = Some(Duration::from_secs(10));
    let kept = once("kept").after(["a"]).rule(Rule::Always);
    let mut world = World::of(draft([once("a"), kept, child]));
    world.fail("a");
    world.complete("kept");
    world.fail("child");
    world.retry();
    assert_eq!(world.running(), ["a"], "child sees the changes of a, so it waits for them");
    world.pass(Duration::from_secs(60));
    world.complete_with("a", serde_json::json!({ "k": 1 }));
    assert_eq!(world.running(), ["child"]);
    assert_eq!(world.sees("child"), serde_json::json!({ "k": 1 }));
    let deadline = world.live.values().next().and_then(|live| live.deadline);
    assert_eq!(deadline, Some(world.now + Duration::from_secs(10)), "it was not ready before");
}

#[test]
fn a_completed_for_each_stays_completed_in_a_retry_although_its_rule_would_say_no_now() {
    let on_failure = once("each").for_each("list").after(["check"]).rule(Rule::failed("check"));
    let mut world = World::of(draft([once("list"), once("check"), on_failure]));
    world.fail("check");
    world.complete_with_items("list", 2);
    world.complete("each[0]");
    world.complete("each[1]");
    world.retry();
    assert_eq!(world.state("each"), TaskState::Completed);
    world.complete("check");
    assert_eq!(*world.verdict(), Verdict::Completed);
    assert_eq!(world.run.outcome(world.task("each")), Some(StepKind::Completed));
}

#[test]
fn the_errors_of_an_earlier_generation_are_not_this_ones() {
    let mut world = World::of(draft([once("a")]));
    world.end_with("a", Ended::Failed(Failure::permanent("no")));
    assert_eq!(world.view("a").failure.map(|failure| failure.message), Some("no".to_owned()));
    world.retry();
    assert_eq!(world.view("a").failure, None);
}
