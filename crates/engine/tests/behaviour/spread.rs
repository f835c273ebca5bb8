//! Tasks that any node executes, whoever holds their run.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;
use windlass::{
    Assignment, EngineBuilder, Executing, Executor, Outcome, RunState, TaskState, Time, prelude::*,
    testing::Lab,
};
use windlass_store::{Call, Memory, Side, Verdict};

const SECOND: Duration = Duration::from_secs(1);

/// Who did what, over all engines of a test.
type Ledger = Arc<Mutex<Vec<(&'static str, String)>>>;

/// What a task sees of the engine that executes it.
struct Place {
    name: &'static str,
    ledger: Ledger,
}

impl Place {
    fn note(&self, what: impl ToString) {
        self.ledger.lock().push((self.name, what.to_string()));
    }
}

fn places(ledger: &Ledger) -> BTreeSet<&'static str> {
    ledger.lock().iter().map(|(place, _)| *place).collect()
}

/// How often each was done.
fn counts(ledger: &Ledger) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for (_, what) in &*ledger.lock() {
        *counts.entry(what.clone()).or_default() += 1;
    }
    counts
}

#[workflow(spread, output = total)]
mod wide {
    use super::*;

    #[task]
    pub async fn plan(input: u64) -> Result<Vec<u64>> {
        Ok((0..input).collect())
    }

    #[task(for_each = plan)]
    pub async fn square(item: u64, place: Res<Place>) -> Result<u64> {
        tokio::time::sleep(SECOND).await;
        place.note(item);
        Ok(item * item)
    }

    #[task]
    pub async fn total(square: &[u64]) -> Result<u64> {
        Ok(square.iter().sum())
    }
}

/// A node with few slots, so that there is work for others.
async fn small(lab: &Lab, name: &'static str, ledger: &Ledger) -> Result<Engine> {
    let place = Place { name, ledger: Arc::clone(ledger) };
    Ok(lab.engine().queue("default", 4).resource(place).workflow(wide::workflow()).launch().await?)
}

fn sum_of_squares(n: u64) -> u64 {
    (0..n).map(|n| n * n).sum()
}

#[windlass::test]
async fn one_run_is_worked_on_by_all_nodes(lab: Lab) -> Result<()> {
    let ledger = Ledger::default();
    let first = small(&lab, "first", &ledger).await?;
    let _others = (small(&lab, "second", &ledger).await?, small(&lab, "third", &ledger).await?);
    let begun = lab.now();
    let run = first.start(wide::workflow(), 120).await?;
    assert_eq!(run.await?, sum_of_squares(120));
    assert_eq!(places(&ledger), ["first", "second", "third"].into());
    assert_eq!(counts(&ledger).len(), 120);
    assert!(counts(&ledger).values().all(|count| *count == 1), "each once: {:?}", counts(&ledger));
    let took = lab.now().since(begun);
    assert!(took < SECOND * 15, "twelve at a time: {took:?}");
    Ok(())
}

#[windlass::test]
async fn what_a_dead_node_executed_is_done_by_the_others(lab: Lab) -> Result<()> {
    let ledger = Ledger::default();
    let first = small(&lab, "first", &ledger).await?;
    let (second, _third) = (small(&lab, "second", &ledger).await?, small(&lab, "third", &ledger).await?);
    let run = first.start(wide::workflow(), 60).await?;
    lab.advance(SECOND * 2 + SECOND / 2).await;
    lab.crash(&second);
    assert_eq!(run.await?, sum_of_squares(60));
    assert_eq!(counts(&ledger).len(), 60, "nothing is lost");
    assert!(counts(&ledger).values().all(|count| *count == 1), "and what was delivered is not repeated");
    Ok(())
}

#[windlass::test]
async fn outcomes_find_the_next_owner_when_the_first_one_dies(lab: Lab) -> Result<()> {
    let ledger = Ledger::default();
    let place = Place { name: "owner", ledger: Arc::clone(&ledger) };
    let owner = lab.engine().queue("default", 1).resource(place).workflow(wide::workflow()).launch().await?;
    let id = owner.start(wide::workflow(), 9).await?.id();
    let _second = small(&lab, "second", &ledger).await?;
    lab.advance(SECOND + SECOND / 2).await;
    assert!(places(&ledger).contains("second"));
    lab.crash(&owner);
    let third = small(&lab, "third", &ledger).await?;
    assert_eq!(third.run(&wide::workflow(), id).await?, sum_of_squares(9));
    // What the dead node itself was at is all that was begun twice, and it noted none of that.
    assert!(counts(&ledger).values().all(|count| *count == 1), "{:?}", counts(&ledger));
    Ok(())
}

#[tokio::test]
async fn answers_that_are_lost_have_nothing_executed_twice() -> Result<()> {
    let (begun, calls) = (std::time::Instant::now(), AtomicUsize::new(0));
    let store = Memory::new(move || Time(1_000_000) + begun.elapsed());
    store.on_call(move |moment| match (moment.call, moment.side) {
        // It was done, and every other time nobody hears of it.
        (Call::Commit | Call::ClaimTasks, Side::After) if calls.fetch_add(1, Ordering::SeqCst) % 2 == 0 => {
            Verdict::Unavailable
        }
        _ => Verdict::Proceed,
    });
    let ledger = Ledger::default();
    let place = Place { name: "here", ledger: Arc::clone(&ledger) };
    let engine = Engine::over(Arc::new(store)).queue("default", 5).resource(place).workflow(wide::workflow());
    let engine = engine.launch().await?;
    assert_eq!(engine.start(wide::workflow(), 10).await?.await?, sum_of_squares(10));
    assert_eq!(counts(&ledger).len(), 10);
    assert!(counts(&ledger).values().all(|count| *count == 1), "{:?}", counts(&ledger));
    engine.stop().await?;
    Ok(())
}

#[windlass::test]
async fn a_program_that_spreads_survives_a_crash_at_every_boundary(lab: Lab) -> Result<()> {
    lab.crash_everywhere(|engine| async move {
        let place = Place { name: "here", ledger: Ledger::default() };
        let engine = engine.resource(place).workflow(wide::workflow()).launch().await?;
        let run = engine.start(wide::workflow(), 3).key("three").await?;
        assert_eq!(run.await?, 5);
        Ok::<_, Failure>(())
    })
    .await?;
    Ok(())
}

/// Lets a test see and steer what a task does.
#[derive(Default)]
struct Gate {
    entered: Notify,
    open: Notify,
    tidied: Notify,
}

#[workflow(output = report)]
mod studio {
    use super::*;

    #[task]
    pub async fn sketch(input: u32, context: &mut Context, place: Res<Place>) -> Result<u32> {
        place.note("sketch");
        context.set("size", input)?;
        Ok(input)
    }

    #[task(queue = "gpu", retry(attempts = 3, delay = "1s", jitter = 0.0), timeout = "1m")]
    pub async fn render(sketch: u32, context: &mut Context, place: Res<Place>, cx: &Cx) -> Result<u32> {
        place.note("render");
        let size: u32 = context.get("size")?;
        context.set("seen", size + 1)?;
        Ok(sketch * cx.attempt())
    }

    #[task]
    pub async fn report(render: u32, context: &mut Context, place: Res<Place>) -> Result<(u32, u32)> {
        place.note("report");
        Ok((render, context.get("seen")?))
    }
}

async fn launch(builder: EngineBuilder, name: &'static str, ledger: &Ledger) -> Result<Engine> {
    let place = Place { name, ledger: Arc::clone(ledger) };
    Ok(builder.resource(place).workflow(studio::workflow()).launch().await?)
}

#[windlass::test]
async fn a_task_goes_to_the_nodes_that_serve_its_queue(lab: Lab) -> Result<()> {
    let ledger = Ledger::default();
    let web = launch(lab.engine(), "web", &ledger).await?;
    let _gpu = launch(lab.engine().serve(["gpu"]), "gpu", &ledger).await?;
    let run = web.start(studio::workflow(), 7).await?;
    assert_eq!(run.await?, (7, 8), "the context travels along");
    let expected = [("web", "sketch"), ("gpu", "render"), ("web", "report")];
    assert_eq!(*ledger.lock(), expected.map(|(place, what)| (place, what.to_owned())));
    Ok(())
}

#[windlass::test]
async fn a_task_whose_queue_nobody_serves_waits_without_being_held(lab: Lab) -> Result<()> {
    let ledger = Ledger::default();
    let web = launch(lab.engine(), "web", &ledger).await?;
    let run = web.start(studio::workflow(), 7).await?;
    lab.advance(SECOND * 60).await;
    let status = run.status().await?;
    assert_eq!(status.state, RunState::Suspended, "it costs no memory");
    let _gpu = launch(lab.engine().serve(["gpu"]), "gpu", &ledger).await?;
    assert_eq!(run.await?, (7, 8));
    Ok(())
}

#[windlass::test]
async fn a_failed_attempt_is_tried_again_wherever_there_is_room(lab: Lab) -> Result<()> {
    let ledger = Ledger::default();
    lab.fail("render", 1..=2, "the device is busy");
    let web = launch(lab.engine(), "web", &ledger).await?;
    let _gpu = launch(lab.engine().serve(["gpu"]), "gpu", &ledger).await?;
    let mut run = web.start(studio::workflow(), 7).await?;
    assert_eq!((&mut run).await?, (21, 8));
    assert_eq!(lab.attempts("render"), 3);
    assert_eq!(run.status().await?.task("render").unwrap().attempts.len(), 3);
    Ok(())
}

#[windlass::test]
async fn rules_send_tasks_to_queues_whatever_their_code_says(lab: Lab) -> Result<()> {
    let ledger = Ledger::default();
    let rules = |builder: EngineBuilder| builder.route("studio.re*", "far").route("studio.*", "nowhere");
    let rules = |builder| rules(builder).route("studio.sketch", "never");
    let web = launch(rules(lab.engine()).serve(["default", "nowhere"]), "web", &ledger).await?;
    let _far = launch(rules(lab.engine()).serve(["far"]), "far", &ledger).await?;
    let run = web.start(studio::workflow(), 7).await?;
    assert_eq!(run.await?, (7, 8));
    let expected = [("web", "sketch"), ("far", "render"), ("far", "report")];
    assert_eq!(*ledger.lock(), expected.map(|(place, what)| (place, what.to_owned())));

    let wrong = launch(lab.engine().route("studo.*", "far"), "wrong", &ledger).await.unwrap_err();
    assert!(wrong.message.contains("`studo.*`"), "{wrong:?}");
    Ok(())
}

#[workflow(output = done)]
mod gated {
    use super::*;

    #[task(queue = "far", timeout = "10s", retry(attempts = 2, delay = "1s", jitter = 0.0))]
    pub async fn wait(input: u32, gate: Res<Arc<Gate>>, place: Res<Place>, cx: &Cx) -> Result<u32> {
        place.note(format!("wait {}", cx.attempt()));
        gate.entered.notify_one();
        tokio::select! {
            () = gate.open.notified() => Ok(input),
            () = cx.cancelled() => {
                gate.tidied.notify_one();
                Err("asked to stop".into())
            }
        }
    }

    #[task(queue = "far", deadline = "30s")]
    pub async fn done(wait: u32) -> Result<u32> {
        Ok(wait + 1)
    }
}

struct Pair {
    owner: Engine,
    far: Engine,
    gate: Arc<Gate>,
    ledger: Ledger,
}

impl Pair {
    async fn launch(lab: &Lab) -> Result<Self> {
        let (gate, ledger) = (Arc::new(Gate::default()), Ledger::default());
        let owner = gated_engine(hasty(lab), "owner", &gate, &ledger).await?;
        let far = gated_engine(hasty(lab).serve(["far"]), "far", &gate, &ledger).await?;
        Ok(Self { owner, far, gate, ledger })
    }
}

/// An engine with a short lease.
fn hasty(lab: &Lab) -> EngineBuilder {
    lab.engine().heartbeat(SECOND * 5).stale_after(SECOND * 30)
}

async fn gated_engine(
    builder: EngineBuilder,
    name: &'static str,
    gate: &Arc<Gate>,
    ledger: &Ledger,
) -> Result<Engine> {
    let place = Place { name, ledger: Arc::clone(ledger) };
    let builder = builder.resource(place).shared(Arc::new(Arc::clone(gate)));
    Ok(builder.workflow(gated::workflow()).launch().await?)
}

#[windlass::test]
async fn an_attempt_that_takes_too_long_fails_and_the_next_one_counts(lab: Lab) -> Result<()> {
    let pair = Pair::launch(&lab).await?;
    let run = pair.owner.start(gated::workflow(), 7).await?;
    pair.gate.entered.notified().await;
    pair.gate.entered.notified().await;
    assert_eq!(counts(&pair.ledger).keys().collect::<Vec<_>>(), ["wait 1", "wait 2"]);
    pair.gate.open.notify_one();
    assert_eq!(run.await?, 8);
    Ok(())
}

#[windlass::test]
async fn a_deadline_passes_although_nobody_takes_the_task(lab: Lab) -> Result<()> {
    let pair = Pair::launch(&lab).await?;
    let mut run = pair.owner.start(gated::workflow(), 7).await?;
    pair.gate.entered.notified().await;
    let far = pair.far.clone();
    let stopped = tokio::spawn(async move { far.stop().await });
    pair.gate.open.notify_one();
    stopped.await.unwrap()?;
    let begun = lab.now();
    let error = (&mut run).await.unwrap_err();
    assert_eq!(error.code(), "run_failed");
    assert!(error.to_string().contains("done"), "{error}");
    let took = lab.now().since(begun);
    assert!(took >= SECOND * 29 && took < SECOND * 40, "{took:?}");
    assert_eq!(lab.attempts("done"), 0);
    Ok(())
}

#[windlass::test]
async fn a_cancelled_run_stops_what_others_execute_for_it(lab: Lab) -> Result<()> {
    let pair = Pair::launch(&lab).await?;
    let mut run = pair.owner.start(gated::workflow(), 7).await?;
    pair.gate.entered.notified().await;
    run.cancel("enough").await?;
    assert_eq!((&mut run).await.unwrap_err().code(), "run_cancelled");
    pair.gate.tidied.notified().await;
    lab.advance(SECOND * 30).await;
    assert_eq!(run.status().await?.state, RunState::Cancelled, "what came late changed nothing");
    assert_eq!(run.status().await?.task("wait").unwrap().state, TaskState::Cancelled);

    run.retry().await?;
    pair.gate.entered.notified().await;
    pair.gate.open.notify_one();
    assert_eq!(pair.owner.run(&gated::workflow(), run.id()).await?, 8, "the next generation publishes anew");
    Ok(())
}

#[windlass::test]
async fn a_paused_run_takes_back_what_nobody_has_begun_and_keeps_what_comes(lab: Lab) -> Result<()> {
    let ledger = Ledger::default();
    let place = Place { name: "first", ledger: Arc::clone(&ledger) };
    let engine = lab.engine().queue("default", 4).resource(place).workflow(wide::workflow()).launch().await?;
    let run = engine.start(wide::workflow(), 12).await?;
    lab.advance(SECOND * 3 / 2).await;
    assert_eq!(counts(&ledger).len(), 4);
    run.pause().await?;
    lab.advance(SECOND * 60).await;
    assert_eq!(counts(&ledger).len(), 8, "what was begun is done, and nothing else");
    let status = run.status().await?;
    assert_eq!(status.state, RunState::Paused);
    let done = status.tasks.iter().find(|task| &*task.name == "square").and_then(|task| task.items);
    assert_eq!(done.map(|(done, _)| done), Some(8), "and it is recorded");
    run.resume().await?;
    assert_eq!(run.await?, sum_of_squares(12));
    assert!(counts(&ledger).values().all(|count| *count == 1), "{:?}", counts(&ledger));
    Ok(())
}

#[windlass::test]
async fn a_node_that_stops_finishes_what_it_executes_or_hands_it_over(lab: Lab) -> Result<()> {
    let pair = Pair::launch(&lab).await?;
    let run = pair.owner.start(gated::workflow(), 7).await?;
    pair.gate.entered.notified().await;
    pair.far.stop_now().await?;
    let far = gated_engine(lab.engine().serve(["far"]), "second", &pair.gate, &pair.ledger).await?;
    pair.gate.entered.notified().await;
    assert_eq!(*pair.ledger.lock(), [("far", "wait 1".to_owned()), ("second", "wait 1".to_owned())]);
    let stopping = tokio::spawn({
        let far = far.clone();
        async move { far.stop().await }
    });
    pair.gate.open.notify_one();
    stopping.await.unwrap()?;
    let _third = gated_engine(lab.engine().serve(["far"]), "third", &pair.gate, &pair.ledger).await?;
    assert_eq!(run.await?, 8);
    assert_eq!(pair.ledger.lock().len(), 2, "a graceful stop delivers what it has");
    Ok(())
}

#[windlass::test]
async fn a_node_that_is_cut_off_delivers_nothing(lab: Lab) -> Result<()> {
    let pair = Pair::launch(&lab).await?;
    let run = pair.owner.start(gated::workflow(), 7).await?;
    pair.gate.entered.notified().await;
    lab.cut_off(&pair.far);
    let _second = gated_engine(hasty(&lab).serve(["far"]), "second", &pair.gate, &pair.ledger).await?;
    pair.gate.entered.notified().await;
    assert_eq!(pair.ledger.lock().last(), Some(&("second", "wait 1".to_owned())));
    lab.reconnect(&pair.far);
    pair.gate.open.notify_one();
    assert_eq!(run.await?, 8);
    Ok(())
}

#[windlass::test]
async fn a_task_that_kills_every_node_abandons_its_run(lab: Lab) -> Result<()> {
    let (gate, ledger) = (Arc::new(Gate::default()), Ledger::default());
    let owner = gated_engine(lab.engine().max_recoveries(2), "owner", &gate, &ledger).await?;
    let mut run = owner.start(gated::workflow(), 7).await?;
    for _ in 0..3 {
        let far = lab.engine().max_recoveries(2).serve(["far"]);
        let far = gated_engine(far, "far", &gate, &ledger).await?;
        gate.entered.notified().await;
        lab.crash(&far);
    }
    let _last = gated_engine(lab.engine().max_recoveries(2).serve(["far"]), "last", &gate, &ledger).await?;
    let error = (&mut run).await.unwrap_err();
    assert_eq!(error.code(), "run_abandoned");
    assert!(error.to_string().contains("wait"), "{error}");
    assert_eq!(ledger.lock().len(), 3, "the last one did not try");
    assert_eq!(run.status().await?.task("wait").unwrap().state, TaskState::Abandoned);
    Ok(())
}

#[workflow]
mod cursor {
    use super::*;

    #[task(queue = "far", retry(attempts = 3, delay = "1s", jitter = 0.0))]
    pub async fn walk(cx: &Cx, context: &mut Context) -> Result<u32> {
        let from: u32 = cx.saved()?.unwrap_or(0);
        cx.save(from + 10).await?;
        context.set("attempts", cx.attempt())?;
        if cx.attempt() < 3 { Err("interrupted".into()) } else { Ok(from) }
    }
}

#[windlass::test]
async fn what_an_attempt_saves_is_there_for_the_next_one_on_another_node(lab: Lab) -> Result<()> {
    let owner = lab.engine().workflow(cursor::workflow()).launch().await?;
    let one = || lab.engine().queue("far", 1).serve(["far"]).workflow(cursor::workflow());
    let _nodes = (one().launch().await?, one().launch().await?);
    assert_eq!(owner.start(cursor::workflow(), ()).await?.await?, 20);
    Ok(())
}

/// Adds what it is given, and fails once.
struct Adder {
    seen: Arc<Mutex<Vec<Assignment>>>,
}

impl Executor for Adder {
    fn execute(&self, assignment: Assignment, cx: Cx) -> Executing<'_> {
        Box::pin(async move {
            self.seen.lock().push(assignment.clone());
            assert_eq!(assignment.key, cx.key());
            if assignment.attempt == 1 {
                return Err("the service is away".into());
            }
            let Outcome::Completed(Value::Number(base)) = &assignment.results["sketch"] else {
                return Err("no base".into());
            };
            Ok(json!(base.as_u64().unwrap_or(0) + 100))
        })
    }
}

#[windlass::test]
async fn an_executor_stands_in_for_the_code_of_a_queue(lab: Lab) -> Result<()> {
    let (ledger, seen) = (Ledger::default(), Arc::default());
    let adder = Adder { seen: Arc::clone(&seen) };
    let engine =
        launch(lab.engine().route("studio.report", "default").executor("gpu", adder), "web", &ledger);
    let engine = engine.await?;
    let mut run = engine.start(studio::workflow(), 7).await?;
    let error = (&mut run).await.unwrap_err();
    assert!(error.to_string().contains("seen"), "an executor changes no context: {error}");
    assert_eq!(counts(&ledger).get("render"), None);
    let seen = seen.lock().clone();
    assert_eq!(seen.len(), 2);
    assert_eq!((&*seen[0].workflow, &*seen[0].task, seen[0].attempt), ("studio", "render", 1));
    assert_eq!((&seen[1].input, &seen[1].context["size"], seen[1].attempt), (&json!(7), &json!(7), 2));
    let text = serde_json::to_string(&seen[1]).unwrap();
    assert_eq!(serde_json::from_str::<Assignment>(&text).unwrap(), seen[1], "it can be sent anywhere");
    assert_eq!(run.status().await?.task("render").unwrap().state, TaskState::Completed);
    Ok(())
}

#[windlass::test]
async fn what_an_older_version_published_is_executed_by_the_next(lab: Lab) -> Result<()> {
    let workflow = |version: &str| {
        let body = |cx: TaskCx| async move { Ok(cx.input::<u32>()? + 1) };
        let builder = Workflow::builder("changing").task(Task::new("far", body).queue("far"));
        builder.version(version).build().expect("it is sound")
    };
    let old = lab.engine().workflow(workflow("1")).launch().await?;
    let id = old.start(workflow("1"), json!(1)).await?.id();
    lab.advance(SECOND).await;
    lab.crash(&old);
    let new = lab.engine().serve(["default", "far"]).workflow(workflow("2")).launch().await?;
    assert_eq!(new.run(&workflow("2"), id).await?, json!(2));
    assert_eq!(lab.attempts("far"), 1);
    Ok(())
}
