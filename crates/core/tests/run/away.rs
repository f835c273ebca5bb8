//! Attempts that are published for any node to execute.

use std::{sync::Arc, time::Duration};

use windlass_core::{
    Attempt, Command, Draft, Ended, Event, Failure, LaneId, Order, Plan, Rest, Run, RunState, Seed, Step,
    StepKind, TaskDraft, TaskIx, Time, Verdict,
};

const SECOND: Duration = Duration::from_secs(1);
const START: Time = Time(1_000_000);

/// A run whose tasks are all spread, but for those named `here…`.
struct Spread {
    run: Run,
    now: Time,
    seed: Seed,
    steps: Vec<Step>,
    commands: Vec<Command>,
}

impl Spread {
    fn of(draft: Draft) -> Self {
        Self::with(draft, |_| {})
    }

    fn with(draft: Draft, change: impl FnOnce(&mut Seed)) -> Self {
        let plan = Arc::new(Plan::new(Arc::new(draft.check().expect("the draft is sound"))));
        let spread = plan.definition.tasks.iter().map(|task| !task.name.starts_with("here")).collect();
        let mut seed = Seed {
            plan,
            generation: 1,
            recoveries: 0,
            max_recoveries: 5,
            opened_at: START,
            timeout: None,
            fan_limit: 2,
            spread,
            published: Vec::new(),
            context: serde_json::Map::new(),
            steps: Vec::new(),
        };
        change(&mut seed);
        let run = Run::new(seed.clone()).expect("it fits");
        let mut spread = Self { run, now: START, seed, steps: Vec::new(), commands: Vec::new() };
        spread.apply(Event::Begin);
        spread
    }

    /// Another node takes the run up, from what is recorded and published.
    fn take_over(&mut self, published: &[(LaneId, u32)]) {
        self.seed.steps.extend(self.steps.drain(..).map(|step| (1, step)));
        self.seed.recoveries += 1;
        self.seed.published = published.to_vec();
        self.run = Run::new(self.seed.clone()).expect("it fits");
        self.commands.clear();
        self.apply(Event::Begin);
    }

    /// Applies an event; records are durable at once.
    fn apply(&mut self, event: Event) {
        self.run.apply(event, self.now);
        loop {
            let commands = self.run.take_commands();
            let steps: Vec<Step> = commands
                .iter()
                .filter_map(|command| match command {
                    Command::Record { step, .. } => Some(step.clone()),
                    _ => None,
                })
                .collect();
            let records = steps.len() as u64;
            self.steps.extend(steps);
            self.commands.extend(commands.into_iter().filter(|c| !matches!(c, Command::Record { .. })));
            if records == 0 {
                return;
            }
            self.run.apply(Event::Recorded(records), self.now);
        }
    }

    fn ended(&mut self, lane: LaneId, ended: Ended) {
        self.apply(Event::Ended { lane, started_at: self.now, ended, dice: 0.5 });
    }

    fn pass(&mut self, span: Duration) {
        self.now = self.now + span;
        self.apply(Event::Tick);
    }

    fn take(&mut self) -> Vec<Command> {
        std::mem::take(&mut self.commands)
    }

    fn published(&mut self) -> Vec<(LaneId, u32)> {
        let commands = self.take();
        let published = commands.into_iter().map(|command| match command {
            Command::Publish(Attempt { lane, number, .. }) => (lane, number),
            other => panic!("only what is published was expected, not {other:?}"),
        });
        published.collect()
    }
}

fn one(task: usize) -> LaneId {
    LaneId::of(TaskIx::from(task))
}

fn item(task: usize, item: u32) -> LaneId {
    LaneId { task: TaskIx::from(task), item: Some(item) }
}

fn done() -> Ended {
    Ended::Completed { changes: Default::default(), items: None }
}

fn two() -> Draft {
    Draft::new("two").task(TaskDraft::new("a")).task(TaskDraft::new("b").after(["a"]))
}

/// Ten elements, handed out to instances that are spread.
fn ten() -> Spread {
    let draft = Draft::new("ten").task(TaskDraft::new("here")).task(TaskDraft::new("each").for_each("here"));
    let mut spread = Spread::of(draft);
    assert!(matches!(spread.take()[..], [Command::Start(_)]));
    spread.ended(one(0), Ended::Completed { changes: Default::default(), items: Some(10) });
    spread
}

#[test]
fn what_is_spread_is_published_and_its_outcome_counts_like_any_other() {
    let mut spread = Spread::of(two());
    assert_eq!(spread.published(), [(one(0), 1)]);
    assert_eq!(spread.run.out(one(0)), Some(1));
    assert_eq!(spread.run.rest(), Rest::Waiting(None), "nothing executes here");
    spread.ended(one(0), Ended::Failed(Failure::new("no")));
    assert_eq!(spread.run.out(one(0)), None);
    spread.pass(SECOND * 60);
    assert_eq!(spread.published(), [(one(0), 2)], "the next attempt");
    spread.ended(one(0), done());
    assert_eq!(spread.published(), [(one(1), 1)]);
    spread.ended(one(1), done());
    assert_eq!(spread.take(), [Command::End(Verdict::Completed)]);
}

#[test]
fn a_run_does_not_rest_while_something_executes_beside_what_is_away() {
    let mut spread = Spread::of(
        Draft::new("w")
            .task(TaskDraft::new("a"))
            .task(TaskDraft::new("here").after(Vec::<String>::new()))
            .output(windlass_core::Output::Nothing),
    );
    assert_eq!(spread.take().len(), 2);
    assert_eq!(spread.run.rest(), Rest::Busy);
    spread.ended(one(1), done());
    assert_eq!(spread.run.rest(), Rest::Waiting(None));
    spread.apply(Event::Halt);
    assert_eq!(spread.run.rest(), Rest::Halted, "another node hears of the outcome");
}

#[test]
fn what_is_out_is_not_published_again_by_the_next_owner() {
    let mut spread = ten();
    let out = spread.published();
    assert_eq!(out, [(item(1, 0), 1), (item(1, 1), 1)], "no more than the limit");
    spread.seed.fan_limit = 1;
    spread.take_over(&out);
    assert_eq!(spread.published(), [], "whatever its own limit is");
    assert_eq!(spread.run.away().count(), 2);
    spread.ended(item(1, 1), done());
    assert_eq!(spread.published(), [(item(1, 2), 1)]);
    assert!(spread.steps.iter().all(|step| step.kind != StepKind::Started), "it counts its own deaths");

    let again = [(item(1, 0), 1), (item(1, 2), 1), (item(1, 9), 7), (item(1, 1), 1)];
    spread.take_over(&again);
    assert_eq!(spread.published(), [], "what is not current is not waited for either");
    assert_eq!(spread.run.away().collect::<Vec<_>>(), [(item(1, 0), 1), (item(1, 2), 1)]);
}

#[test]
fn an_attempt_that_is_out_is_known_even_while_the_run_is_paused_or_backs_off() {
    let mut spread = Spread::of(two());
    spread.published();
    spread.ended(one(0), Ended::Failed(Failure::new("no")));
    spread.pass(SECOND * 60);
    let out = spread.published();
    assert_eq!(out, [(one(0), 2)]);
    spread.seed.steps.extend(spread.steps.drain(..).map(|step| (1, step)));
    spread.seed.published = out;
    spread.run = Run::new(spread.seed.clone()).expect("it fits");
    spread.apply(Event::Order(Order::Pause));
    spread.apply(Event::Begin);
    assert_eq!(spread.run.out(one(0)), Some(2));
    assert_eq!(spread.run.rest(), Rest::Paused(None));
    spread.ended(one(0), done());
    assert_eq!(spread.take(), [], "paused: nothing new");
    spread.apply(Event::Order(Order::Resume));
    assert_eq!(spread.published(), [(one(1), 1)]);
}

#[test]
fn what_was_withdrawn_while_paused_is_published_again() {
    let mut spread = Spread::of(two());
    spread.published();
    spread.apply(Event::Order(Order::Pause));
    spread.ended(one(0), Ended::Cut);
    assert_eq!(spread.take(), []);
    assert_eq!(spread.run.out(one(0)), None);
    spread.apply(Event::Order(Order::Resume));
    assert_eq!(spread.published(), [(one(0), 1)], "the same attempt");
}

#[test]
fn a_deadline_recalls_what_is_out_once() {
    let limited = TaskDraft { deadline: Some(SECOND * 10), ..TaskDraft::new("a") };
    let mut spread = Spread::of(Draft::new("w").task(limited));
    spread.published();
    assert_eq!(spread.run.next_tick(), Some(START + SECOND * 10));
    assert_eq!(spread.run.rest(), Rest::Waiting(Some(START + SECOND * 10)));
    spread.pass(SECOND * 10);
    let attempt = Attempt { lane: one(0), number: 1, deadline: Some(START + SECOND * 10), closing: false };
    assert_eq!(spread.take(), [Command::Withdraw { attempt, after: SECOND * 10 }]);
    assert_eq!(spread.run.rest(), Rest::Busy, "what becomes of it is not known yet");
    spread.pass(SECOND);
    assert_eq!(spread.take(), []);
    assert_eq!(spread.run.out(one(0)), Some(1), "an outcome that was quicker counts");
    spread.ended(one(0), Ended::Failed(Failure::deadline_exceeded(SECOND * 10)));
    assert!(matches!(spread.take()[..], [Command::End(Verdict::Failed { .. })]));
}

#[test]
fn an_attempt_that_killed_too_often_abandons_its_run() {
    let mut spread = ten();
    spread.published();
    spread.ended(item(1, 1), Ended::Killed { deaths: 6 });
    assert_eq!(spread.take(), [Command::Stop(item(1, 0))]);
    spread.ended(item(1, 0), Ended::Cut);
    let verdict = Verdict::Abandoned { step: "each[1]".into(), deaths: 6 };
    assert_eq!(verdict.state(), RunState::Abandoned);
    assert_eq!(spread.take(), [Command::End(verdict)]);
}

#[test]
fn a_cancelled_run_stops_what_is_away() {
    let mut spread = ten();
    spread.published();
    spread.apply(Event::Order(Order::Cancel { reason: "enough".into() }));
    assert_eq!(spread.take(), [Command::Stop(item(1, 0)), Command::Stop(item(1, 1))]);
    spread.ended(item(1, 0), Ended::Cut);
    spread.ended(item(1, 1), Ended::Cut);
    assert!(matches!(spread.take()[..], [Command::End(Verdict::Cancelled { .. })]));
}
