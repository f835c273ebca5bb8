//! Retries, time limits, and lives after death.

use std::time::Duration;

use windlass_core::{
    CallKind, Command, Detail, Divergence, Draft, Ended, Event, Failure, LaneId, OnFailure, Order, Output,
    Plan, Rest, Retry, Run, Seed, Step, StepKind, TaskDraft, TaskState, Time, VERDICT, Verdict,
};

use crate::world::{Setup, World};

const SECOND: Duration = Duration::from_secs(1);

fn once(name: &str) -> TaskDraft {
    TaskDraft::new(name).retry(Retry::never())
}

fn draft(tasks: impl IntoIterator<Item = TaskDraft>) -> Draft {
    let draft = Draft::new("story").output(Output::Nothing);
    tasks.into_iter().fold(draft, Draft::task)
}

fn plain_retry(attempts: u32) -> Retry {
    Retry::attempts(attempts).delay(SECOND).jitter(0.0)
}

/// A run that is abandoned after more than this many deaths.
fn mortal(tasks: impl IntoIterator<Item = TaskDraft>, max_recoveries: u32) -> World {
    let definition = draft(tasks).check().expect("it is sound");
    World::new(Setup { max_recoveries, ..Setup::new(definition) })
}

#[test]
fn attempts_count_every_execution_the_first_included() {
    let mut world = World::of(draft([TaskDraft::new("a").retry(plain_retry(3))]));
    world.fail("a");
    assert!(world.running().is_empty());
    assert_eq!(world.state("a"), TaskState::Ready);
    assert_eq!(world.run.rest(), Rest::Waiting(Some(world.now + SECOND)));
    world.pass(SECOND);
    world.fail("a");
    world.pass(2 * SECOND);
    world.fail("a");
    assert!(matches!(world.verdict(), Verdict::Failed { step, .. } if step == "a"));
    assert_eq!(world.view("a").attempts, 3);
    assert_eq!(world.started.len(), 3);
}

#[test]
fn a_failure_may_decide_for_itself() {
    let mut permanent = World::of(draft([TaskDraft::new("a").retry(plain_retry(3))]));
    permanent.end_with("a", Ended::Failed(Failure::permanent("no")));
    assert!(permanent.end.is_some());
    let mut later = World::of(draft([TaskDraft::new("a").retry(plain_retry(3))]));
    later.end_with("a", Ended::Failed(Failure::retry_after("busy", 90 * SECOND)));
    assert_eq!(later.run.next_tick(), Some(later.now + 90 * SECOND));
}

#[test]
fn a_retry_keeps_its_time_and_its_number_over_a_crash() {
    let mut world = World::of(draft([TaskDraft::new("a").retry(plain_retry(2))]));
    world.fail("a");
    let due = world.run.next_tick();
    world.crash();
    assert_eq!(world.run.next_tick(), due);
    world.pass(SECOND);
    world.commit_all();
    assert_eq!(world.live.values().next().map(|live| live.number), Some(2));
    world.fail("a");
    assert!(matches!(world.verdict(), Verdict::Failed { .. }), "a crash gives no attempt back");
}

#[test]
fn no_retry_begins_at_or_after_the_deadline() {
    let task = |seconds| {
        let mut task = TaskDraft::new("a").retry(plain_retry(9).fixed());
        task.deadline = Some(seconds * SECOND);
        task
    };
    let mut in_time = World::of(draft([task(2)]));
    in_time.fail("a");
    assert!(in_time.end.is_none());
    let mut too_late = World::of(draft([task(1)]));
    too_late.fail("a");
    assert!(matches!(too_late.verdict(), Verdict::Failed { .. }));
}

#[test]
fn a_deadline_counts_from_the_recorded_end_of_the_latest_dependency_across_crashes() {
    let mut limited = once("b").after(["list", "each"]);
    limited.deadline = Some(10 * SECOND);
    let mut world = World::of(draft([once("list"), once("each").for_each("list"), limited]));
    world.complete_with_items("list", 1);
    world.pass(3 * SECOND);
    world.complete("each[0]");
    let deadline = world.now + 10 * SECOND;
    for _ in 0..2 {
        assert_eq!(world.live.values().next().and_then(|live| live.deadline), Some(deadline));
        world.pass(4 * SECOND);
        world.crash();
        world.commit_all();
    }
}

#[test]
fn a_run_that_times_out_stops_what_runs_and_says_what_was_unfinished() {
    let mut workflow = draft([once("a"), once("b"), once("c").after(["b"])]);
    workflow.timeout = Some(60 * SECOND);
    let mut world = World::of(workflow);
    world.complete("a");
    world.pass(30 * SECOND);
    world.crash();
    world.commit_all();
    assert_eq!(world.run.next_tick(), Some(world.now + 30 * SECOND), "measured across crashes");
    world.pass(30 * SECOND);
    assert!(world.live.values().all(|live| live.stopped));
    world.end_with("b", Ended::Cut);
    let Verdict::TimedOut { after, unfinished } = world.verdict() else { panic!("it is late") };
    assert_eq!(*after, 60 * SECOND);
    assert_eq!(*unfinished, ["b", "c"]);
    assert_eq!(world.verdict().state(), windlass_core::RunState::Failed);
}

#[test]
fn a_run_whose_last_task_ends_with_its_time_has_completed() {
    let mut workflow = draft([once("a")]);
    workflow.timeout = Some(60 * SECOND);
    let mut world = World::of(workflow);
    world.now = world.now + 60 * SECOND;
    world.complete("a");
    assert_eq!(*world.verdict(), Verdict::Completed);
}

#[test]
fn a_deferred_attempt_lets_its_run_be_parked_and_begins_again_at_its_top() {
    let mut world = World::of(draft([once("a"), once("b")]));
    let lane = world.plan.lane("a").expect("a is there");
    let until = world.now + 3600 * SECOND;
    world.defer(lane, until);
    assert_eq!(world.run.rest(), Rest::Busy, "b executes");
    world.complete("b");
    assert_eq!(world.run.rest(), Rest::Waiting(Some(until)));
    world.undefer(lane);
    assert_eq!(world.run.rest(), Rest::Busy);
    world.defer(lane, until);
    world.change_hands();
    assert_eq!(world.running(), ["a"]);
    assert_eq!(world.live[&lane].number, 1, "waiting is no attempt");
}

#[test]
fn an_attempt_that_ends_while_it_is_deferred_ends_once() {
    let mut world = World::of(draft([once("a"), once("b")]));
    let lane = world.plan.lane("a").expect("a is there");
    world.defer(lane, world.now + SECOND);
    world.complete("a");
    assert_eq!(world.run.alive(), 1);
    assert_eq!(world.run.rest(), Rest::Busy, "b executes");
    world.complete("b");
    assert_eq!(*world.verdict(), Verdict::Completed);
}

#[test]
fn starts_are_recorded_only_after_a_recovery_and_before_they_happen() {
    let mut world = World::of(draft([once("a"), once("b").after(["a"])]));
    world.complete("a");
    assert!(world.durable.iter().all(|(_, step)| step.kind != StepKind::Started));
    world.crash();
    assert!(world.running().is_empty(), "its start is not durable yet");
    world.commit_all();
    assert_eq!(world.running(), ["b"]);
    let (_, last) = world.durable.last().expect("the start is recorded");
    assert_eq!((&*last.name, last.kind, last.epoch), ("b", StepKind::Started, 1));
}

#[test]
fn a_recorded_task_does_not_run_again_and_an_unrecorded_one_does() {
    let mut world = World::of(draft([once("a"), once("b")]));
    world.complete("a");
    let lane = world.plan.lane("b").expect("b is there");
    world.finish(lane, Ended::Completed { changes: Default::default(), items: None });
    world.crash();
    world.commit_all();
    assert_eq!(world.running(), ["b"], "its record was lost with the process");
    world.complete("b");
    assert_eq!(*world.verdict(), Verdict::Completed);
    assert_eq!(world.started, ["a", "b", "b"]);
}

#[test]
fn a_step_that_kills_its_process_too_often_in_a_row_is_abandoned_by_name() {
    let mut world = mortal([once("a"), once("poison").after(["a"])], 2);
    world.complete("a");
    // The first death is not counted: before it, starts are not recorded.
    for _ in 0..3 {
        world.crash();
        world.commit_all();
        assert_eq!(world.running(), ["poison"]);
    }
    world.crash();
    world.commit_all();
    assert_eq!(*world.verdict(), Verdict::Abandoned { step: "poison".to_owned(), deaths: 3 });
    assert_eq!(world.state("poison"), TaskState::Abandoned);
    assert_eq!(world.state("a"), TaskState::Completed);
}

#[test]
fn a_step_that_ends_in_between_resets_the_count_and_the_next_death_counts_again() {
    let mut world = mortal([once("poison"), once("b"), once("c").after(["b"])], 1);
    world.crash();
    world.commit_all();
    world.crash();
    world.commit_all();
    assert_eq!(world.deaths["poison"], 1);
    world.complete("b");
    world.crash();
    world.commit_all();
    assert_eq!(world.deaths["poison"], 1, "b has ended, so the run can live");
    assert!(world.end.is_none());
    world.crash();
    world.commit_all();
    assert!(matches!(world.verdict(), Verdict::Abandoned { deaths: 2, .. }));
}

#[test]
fn a_run_whose_starts_were_not_yet_recorded_blames_nobody() {
    let mut world = mortal([once("a")], 0);
    for _ in 0..20 {
        world.crash();
    }
    assert!(world.end.is_none());
    world.commit_all();
    assert_eq!(world.running(), ["a"]);
}

#[test]
fn an_abandoned_run_can_be_retried_and_begins_to_count_anew() {
    let mut world = mortal([once("poison")], 0);
    world.crash();
    world.commit_all();
    world.crash();
    world.commit_all();
    assert!(matches!(world.verdict(), Verdict::Abandoned { .. }));
    world.retry();
    assert_eq!(world.running(), ["poison"]);
    world.complete("poison");
    assert_eq!(*world.verdict(), Verdict::Completed);
}

#[test]
fn records_that_the_code_has_no_place_for_are_told_and_nothing_starts() {
    let mut world = World::of(draft([once("list"), once("each").for_each("list")]));
    world.complete_with_items("list", 1);
    world.complete("each[0]");
    let seed = |tasks: Vec<TaskDraft>| Seed {
        plan: Plan::new(draft(tasks).check().expect("it is sound").into()).into(),
        generation: 1,
        recoveries: 0,
        max_recoveries: 5,
        opened_at: world.opened_at,
        timeout: None,
        fan_limit: 1,
        spread: Default::default(),
        published: Vec::new(),
        context: Default::default(),
        steps: world.durable.clone(),
    };
    let gone = Run::new(seed(vec![once("list")])).expect_err("each is recorded");
    assert_eq!(gone, Divergence::Gone { step: "each[0]".to_owned() });
    let single = Run::new(seed(vec![once("list"), once("each")])).expect_err("each is no single task");
    assert_eq!(single, Divergence::Shape { step: "each[0]".to_owned() });
}

/// A run of these tasks that is taken up from its records, and what it asks for.
fn taken_up(
    tasks: impl IntoIterator<Item = TaskDraft>,
    (generation, recoveries): (u32, u32),
    steps: Vec<(u32, Step)>,
) -> (Run, Vec<Command>) {
    let mut run = Run::new(Seed {
        plan: Plan::new(draft(tasks).check().expect("it is sound").into()).into(),
        generation,
        recoveries,
        max_recoveries: 0,
        opened_at: Time(0),
        timeout: Some(SECOND),
        fan_limit: 1,
        spread: Default::default(),
        published: Vec::new(),
        context: Default::default(),
        steps,
    })
    .expect("the records fit");
    run.apply(Event::Begin, Time(0));
    run.apply(Event::Recorded(1), Time(0));
    let commands = run.take_commands();
    (run, commands)
}

fn recorded(generation: u32, name: &str, kind: StepKind, detail: Detail) -> (u32, Step) {
    let (started_at, ended_at) = (Time(0), Time(0));
    (generation, Step { name: name.into(), attempt: 1, epoch: 0, kind, started_at, ended_at, detail })
}

fn starts(run: &Run, commands: &[Command]) -> Vec<String> {
    let starts = commands.iter().filter_map(|command| match command {
        Command::Start(attempt) => Some(run.step_name(attempt.lane).to_string()),
        _ => None,
    });
    starts.collect()
}

#[test]
fn what_was_undone_is_done_again_by_a_retry_and_the_rest_is_kept() {
    let plain = |name, kind| recorded(1, name, kind, Detail::default());
    let steps = vec![
        plain("a", StepKind::Completed),
        plain("b", StepKind::Completed),
        plain("a//undo", StepKind::Completed),
        plain("b//undo", StepKind::Failed),
    ];
    let tasks = [once("a"), once("b"), once("c").after(["a", "b"])];
    let (run, commands) = taken_up(tasks.clone(), (2, 0), steps.clone());
    assert_eq!(starts(&run, &commands), ["a"]);
    let lanes = ["a", "b"].map(|task| LaneId::of(run.plan().definition.find(task).expect("it is there")));
    assert_eq!(lanes.map(|lane| run.times_undone(lane)), [1, 0]);
    assert_eq!(lanes.map(|lane| run.has_completed(lane)), [false, true]);
    // The generation that undid it knows it as completed.
    let (run, _) = taken_up(tasks, (1, 0), steps);
    assert_eq!(lanes.map(|lane| run.has_completed(lane)), [true, true]);
}

#[test]
fn a_verdict_that_is_recorded_is_final_and_nothing_starts() {
    let verdict = Verdict::Cancelled { reason: "no".to_owned() };
    let detail = Detail { verdict: Some(Box::new(verdict.clone())), ..Detail::default() };
    let steps = vec![recorded(1, "//verdict", StepKind::Skipped, detail)];
    let (run, commands) = taken_up([once("a")], (1, 0), steps);
    assert_eq!(commands, [Command::End(verdict)]);
    assert_eq!(run.next_tick(), None, "there is nothing left to wait for");
}

#[test]
fn what_a_task_waits_for_kills_nobody() {
    let detail = Detail { call: CallKind::Sleep, ..Detail::default() };
    let steps = vec![recorded(1, "a/sleep", StepKind::Started, detail)];
    let (run, commands) = taken_up([once("a")], (1, 1), steps);
    assert_eq!(starts(&run, &commands), ["a"]);
}

/// A run with these records that is taken up after its process died.
fn recovered(workflow: Draft, max_recoveries: u32, steps: Vec<(u32, Step)>) -> Run {
    let seed = Seed {
        plan: Plan::new(workflow.check().expect("it is sound").into()).into(),
        generation: 1,
        recoveries: 1,
        max_recoveries,
        opened_at: Time(0),
        timeout: None,
        fan_limit: 1,
        spread: Default::default(),
        published: Vec::new(),
        context: Default::default(),
        steps,
    };
    Run::new(seed).expect("the records fit")
}

#[test]
fn a_recorded_verdict_stands_whatever_has_failed_and_whatever_kills_its_process() {
    let mut workflow = draft([once("a"), once("b")]);
    workflow.on_failure = OnFailure::FailFast;
    let cancelled = Verdict::Cancelled { reason: "enough".to_owned() };
    let verdict = Detail { verdict: Some(Box::new(cancelled.clone())), ..Detail::default() };
    let failed = Detail { failure: Some(Box::new(Failure::new("no"))), ..Detail::default() };
    let steps = vec![
        recorded(1, "a", StepKind::Completed, Detail::default()),
        recorded(1, "b", StepKind::Failed, failed),
        recorded(1, VERDICT, StepKind::Skipped, verdict),
        recorded(1, "a//undo", StepKind::Started, Detail::default()),
    ];
    let run = recovered(workflow, 0, steps);
    assert_eq!(run.closing(), Some(&cancelled));
    assert_eq!(run.undo_deaths().get("a//undo"), Some(&1));
}

#[test]
fn a_function_that_is_closed_while_it_waits_to_be_alone_ends() {
    let function = TaskDraft { flow: true, ..once("function") };
    let steps = vec![recorded(1, "/charge", StepKind::Started, Detail::default())];
    let mut run = recovered(draft([function]), 1, steps);
    let lane = LaneId::of(run.plan().flow().expect("it is a function"));
    run.apply(Event::Begin, Time(1));
    assert_eq!(run.take_commands(), [Command::Isolate(lane)]);
    assert!(run.is_isolating(lane));
    run.apply(Event::Order(Order::Cancel { reason: "enough".to_owned() }), Time(2));
    let commands = run.take_commands();
    assert!(matches!(&commands[..], [Command::Start(attempt)] if attempt.closing), "{commands:?}");
    // What it waited for comes too late.
    assert!(!run.is_isolating(lane));
    run.apply(Event::Isolated(lane), Time(3));
    let ended = Ended::Cut;
    run.apply(Event::Ended { lane, started_at: Time(2), ended, dice: 0.0 }, Time(4));
    let commands = run.take_commands();
    let is_end = |command: &Command| matches!(command, Command::End(Verdict::Cancelled { .. }));
    assert!(commands.iter().any(is_end), "{commands:?}");
}
