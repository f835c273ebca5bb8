//! Queues with limits over all processes.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use windlass::{QueueChanged, prelude::*, testing::Lab};

const SECOND: Duration = Duration::from_secs(1);

/// Sees from within what is under way.
#[derive(Clone, Default)]
struct Observer(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    now: usize,
    most: usize,
    by_key: HashMap<String, usize>,
    most_of_a_key: usize,
    /// What began, in this order.
    begun: Vec<String>,
}

impl Observer {
    fn enter(&self, key: &str) {
        let mut seen = self.0.lock();
        seen.now += 1;
        seen.most = seen.most.max(seen.now);
        let of_key = seen.by_key.entry(key.to_owned()).or_default();
        *of_key += 1;
        let of_key = *of_key;
        seen.most_of_a_key = seen.most_of_a_key.max(of_key);
        seen.begun.push(key.to_owned());
    }

    fn leave(&self, key: &str) {
        let mut seen = self.0.lock();
        seen.now -= 1;
        *seen.by_key.entry(key.to_owned()).or_default() -= 1;
    }

    fn most(&self) -> usize {
        self.0.lock().most
    }

    fn begun(&self) -> Vec<String> {
        self.0.lock().begun.clone()
    }
}

#[workflow]
mod mail {
    use super::*;

    #[task]
    pub async fn send(input: String, observer: Res<Observer>) -> Result<String> {
        observer.enter(&input);
        tokio::time::sleep(SECOND).await;
        observer.leave(&input);
        Ok(input)
    }
}

async fn node(lab: &Lab, observer: &Observer) -> Result<Engine> {
    let engine = lab.engine().queue("mail", 100).resource(observer.clone()).workflow(mail::workflow());
    Ok(engine.launch().await?)
}

/// Starts so many runs with this key, or with none.
async fn start(engine: &Engine, key: &str, count: usize) -> Result<Vec<windlass::Run<String>>> {
    let mut runs = Vec::new();
    for _ in 0..count {
        let start = engine.start(mail::workflow(), key.to_owned()).queue("mail");
        runs.push(if key.is_empty() { start.await? } else { start.queue_key(key).await? });
    }
    Ok(runs)
}

async fn all(runs: Vec<windlass::Run<String>>) -> Result<()> {
    for run in runs {
        run.await?;
    }
    Ok(())
}

#[windlass::test]
async fn no_more_runs_are_under_way_than_a_queue_allows_and_each_end_lets_the_next_begin(
    lab: Lab,
) -> Result<()> {
    let observer = Observer::default();
    let nodes = [node(&lab, &observer).await?, node(&lab, &observer).await?, node(&lab, &observer).await?];
    nodes[0].queue("mail").concurrency(4).await?;
    let begun = lab.now();
    let mut runs = Vec::new();
    for node in &nodes {
        runs.extend(start(node, "", 8).await?);
    }
    all(runs).await?;
    assert_eq!(observer.0.lock().most, 4);
    let took = lab.now().since(begun);
    assert!(took < Duration::from_millis(6_500), "24 runs of a second, four at a time: {took:?}");
    Ok(())
}

#[windlass::test]
async fn one_process_has_no_more_than_its_share(lab: Lab) -> Result<()> {
    let (mine, others) = (Observer::default(), Observer::default());
    let (one, _two) = (node(&lab, &mine).await?, node(&lab, &others).await?);
    one.queue("mail").concurrency(5).per_node(2).await?;
    all(start(&one, "", 12).await?).await?;
    assert_eq!((mine.0.lock().most, others.0.lock().most), (2, 2));
    Ok(())
}

#[windlass::test]
async fn no_more_runs_of_a_key_are_under_way_than_a_queue_allows(lab: Lab) -> Result<()> {
    let observer = Observer::default();
    let nodes = [node(&lab, &observer).await?, node(&lab, &observer).await?];
    nodes[0].queue("mail").per_key(2).await?;
    let inputs = (0..30).map(|number| ["a", "b", "c"][number % 3].to_owned());
    let ids = nodes[1]
        .start_many(mail::workflow(), inputs)
        .queue("mail")
        .queue_key(|input: &String| input.clone())
        .await?;
    for id in ids {
        nodes[0].run(&mail::workflow(), id).await?;
    }
    let seen = observer.0.lock();
    assert_eq!((seen.most_of_a_key, seen.most), (2, 6));
    Ok(())
}

#[windlass::test]
async fn a_key_with_one_run_does_not_wait_behind_a_key_with_many(lab: Lab) -> Result<()> {
    let observer = Observer::default();
    let engine = node(&lab, &observer).await?;
    engine.queue("mail").concurrency(1).await?;
    engine.queues().pause("mail").await?;
    let mut runs = start(&engine, "much", 50).await?;
    runs.extend(start(&engine, "rare", 1).await?);
    engine.queues().resume("mail").await?;
    runs.pop().unwrap().await?;
    assert_eq!(observer.begun()[..2], ["much", "rare"]);
    Ok(())
}

#[windlass::test]
async fn a_paused_queue_begins_nothing_until_it_is_resumed(lab: Lab) -> Result<()> {
    let observer = Observer::default();
    let engine = node(&lab, &observer).await?;
    assert_eq!(engine.queues().pause("mail").await?, QueueChanged::Created);
    let runs = start(&engine, "", 3).await?;
    lab.advance(SECOND * 3600).await;
    assert!(observer.begun().is_empty());
    let status = engine.queues().get("mail").await?.unwrap();
    assert_eq!((status.depth, status.running, status.paused), (3, 0, true));
    assert!(status.oldest.unwrap() >= SECOND * 3600);
    let begun = lab.now();
    engine.queues().resume("mail").await?;
    all(runs).await?;
    assert!(lab.now().since(begun) < SECOND * 2);
    Ok(())
}

#[windlass::test]
async fn a_rate_is_never_exceeded_and_the_engine_wakes_when_the_next_may_begin(lab: Lab) -> Result<()> {
    let observer = Observer::default();
    let nodes = [node(&lab, &observer).await?, node(&lab, &observer).await?];
    nodes[0].queue("mail").rate(5, SECOND * 10).await?;
    let begun = lab.now();
    let mut runs = start(&nodes[0], "", 6).await?;
    runs.extend(start(&nodes[1], "", 6).await?);
    lab.advance(SECOND * 9).await;
    assert_eq!(observer.begun().len(), 5);
    all(runs).await?;
    assert_eq!(observer.begun().len(), 12);
    let took = lab.now().since(begun);
    assert!(took >= SECOND * 21 && took < SECOND * 22, "{took:?}");
    Ok(())
}

#[windlass::test]
async fn a_key_that_has_begun_enough_waits_and_keeps_no_other_waiting(lab: Lab) -> Result<()> {
    let observer = Observer::default();
    let nodes = [node(&lab, &observer).await?, node(&lab, &observer).await?];
    nodes[0].queue("mail").key_rate(2, SECOND * 10).await?;
    let begun = lab.now();
    let mut runs = start(&nodes[0], "much", 5).await?;
    lab.advance(SECOND).await;
    runs.extend(start(&nodes[1], "rare", 1).await?);
    runs.extend(start(&nodes[1], "", 3).await?);
    lab.advance(SECOND).await;
    assert_eq!(observer.begun(), ["much", "much", "rare", "", "", ""]);
    all(runs).await?;
    let took = lab.now().since(begun);
    assert!(took >= SECOND * 21 && took < SECOND * 22, "{took:?}");
    Ok(())
}

#[windlass::test]
async fn the_more_urgent_run_goes_first_until_the_other_has_waited_long_enough(lab: Lab) -> Result<()> {
    let observer = Observer::default();
    let engine = node(&lab, &observer).await?;
    engine.queue("mail").concurrency(1).ageing(SECOND * 60).await?;
    engine.queues().pause("mail").await?;
    let asked = |name: &str, priority| {
        engine.start(mail::workflow(), name.to_owned()).queue("mail").priority(priority)
    };
    let runs = vec![asked("late", 9).await?, asked("urgent", 0).await?];
    engine.queues().resume("mail").await?;
    all(runs).await?;
    assert_eq!(observer.begun(), ["urgent", "late"]);

    engine.queues().pause("mail").await?;
    let mut runs = vec![asked("late", 9).await?];
    lab.advance(SECOND * 60 * 10).await;
    runs.push(asked("urgent", 0).await?);
    engine.queues().resume("mail").await?;
    all(runs).await?;
    assert_eq!(observer.begun()[2..], ["late", "urgent"]);
    Ok(())
}

#[windlass::test]
async fn a_queue_says_how_much_of_it_ended_in_the_last_minute(lab: Lab) -> Result<()> {
    let observer = Observer::default();
    let node = || lab.engine().heartbeat(SECOND * 5).stale_after(SECOND * 30);
    let node = || node().queue("mail", 100).resource(observer.clone()).workflow(mail::workflow()).launch();
    let (engine, other) = (node().await?, node().await?);
    engine.queue("mail").await?;
    all(start(&engine, "", 7).await?).await?;
    all(start(&other, "", 5).await?).await?;
    lab.advance(SECOND * 20).await;
    let ended =
        async || Ok::<_, windlass::Error>(other.queues().get("mail").await?.unwrap().ended_per_minute);
    assert_eq!(ended().await?, 12);
    lab.advance(SECOND * 90).await;
    assert_eq!(ended().await?, 0);
    Ok(())
}

#[windlass::test]
async fn a_delayed_run_is_as_old_as_it_is_due(lab: Lab) -> Result<()> {
    let observer = Observer::default();
    let engine = node(&lab, &observer).await?;
    engine.queue("mail").await?;
    engine.queues().pause("mail").await?;
    engine.start(mail::workflow(), String::new()).queue("mail").delay(SECOND * 3600).await?;
    lab.advance(SECOND * 3610).await;
    let status = engine.queues().get("mail").await?.unwrap();
    assert_eq!((status.depth, status.oldest), (1, Some(SECOND * 10)));
    Ok(())
}

#[windlass::test]
async fn limits_change_while_runs_are_under_way(lab: Lab) -> Result<()> {
    let observer = Observer::default();
    let engine = node(&lab, &observer).await?;
    assert_eq!(engine.queue("mail").concurrency(1).await?, QueueChanged::Created);
    assert_eq!(engine.queue("mail").concurrency(1).await?, QueueChanged::Unchanged);
    let runs = start(&engine, "", 9).await?;
    lab.advance(Duration::from_millis(500)).await;
    assert_eq!(observer.begun().len(), 1);
    assert_eq!(engine.queue("mail").concurrency(8).await?, QueueChanged::Updated);
    lab.advance(Duration::from_millis(100)).await;
    assert_eq!(observer.begun().len(), 8);
    all(runs).await
}

#[windlass::test]
async fn a_queue_that_is_removed_has_no_limits(lab: Lab) -> Result<()> {
    let observer = Observer::default();
    let engine = node(&lab, &observer).await?;
    engine.queue("mail").concurrency(1).await?;
    let runs = start(&engine, "", 5).await?;
    lab.advance(Duration::from_millis(100)).await;
    assert_eq!(observer.begun().len(), 1);
    assert_eq!(engine.queues().remove("mail").await?, QueueChanged::Updated);
    assert!(engine.queues().get("mail").await?.is_none());
    all(runs).await?;
    assert_eq!(observer.most(), 5);
    Ok(())
}

#[windlass::test]
async fn a_killed_process_leaks_no_slot(lab: Lab) -> Result<()> {
    let (lost, observer) = (Observer::default(), Observer::default());
    let first = node(&lab, &lost).await?;
    first.queue("mail").concurrency(2).per_key(1).await?;
    let mut ids = Vec::new();
    for run in start(&first, "a", 3).await?.into_iter().chain(start(&first, "b", 3).await?) {
        ids.push(run.id());
    }
    lab.advance(Duration::from_millis(100)).await;
    assert_eq!(lost.0.lock().now, 2);
    lab.crash(&first);
    let second = node(&lab, &observer).await?;
    for id in ids {
        second.run(&mail::workflow(), id).await?;
    }
    let most = |seen: &Seen| (seen.most, seen.most_of_a_key);
    assert_eq!(most(&observer.0.lock()), (2, 1));
    assert_eq!(second.queues().get("mail").await?.unwrap().running, 0);
    Ok(())
}

#[flow]
async fn errand(cx: &Flow, input: String) -> Result<String> {
    // A sleep counts from the last thing that was recorded.
    cx.step("set_out", || async { Ok::<_, Failure>(()) }).await?;
    cx.sleep(SECOND * 60).await?;
    Ok(input)
}

#[windlass::test]
async fn a_parked_run_makes_room_unless_its_queue_holds(lab: Lab) -> Result<()> {
    let engine = lab.engine().queue("mail", 100).workflow(errand::workflow()).launch().await?;
    for (hold, least, most) in [(false, 60, 70), (true, 180, 200)] {
        let setup = engine.queue("mail").per_key(1);
        if hold {
            setup.hold().await?
        } else {
            setup.await?
        };
        let begun = lab.now();
        let mut runs = Vec::new();
        for _ in 0..3 {
            runs.push(engine.start(errand::workflow(), "a".to_owned()).queue("mail").queue_key("a").await?);
        }
        for run in runs {
            run.await?;
        }
        let took = lab.now().since(begun).as_secs();
        assert!((least..most).contains(&took), "{took} s with hold = {hold}");
    }
    Ok(())
}

#[workflow]
mod blocker {
    use super::*;

    #[task]
    pub async fn block(input: ()) -> Result<()> {
        tokio::time::sleep(SECOND * 300).await;
        Ok(input)
    }
}

#[flow]
async fn journey(cx: &Flow, _input: (), observer: Res<Observer>) -> Result<()> {
    let told = Observer::clone(&observer);
    cx.step("book", || async { Ok::<_, Failure>(()) })
        .undo(move |()| async move {
            told.enter("undone");
            Ok::<_, Failure>(())
        })
        .await?;
    cx.sleep(SECOND * 3600 * 24).await?;
    Ok(())
}

#[windlass::test]
async fn neither_a_cancel_nor_a_time_limit_waits_for_a_queue_that_gives_nothing(lab: Lab) -> Result<()> {
    let observer = Observer::default();
    let engine = lab.engine().queue("mail", 100).resource(observer.clone()).workflow(journey::workflow());
    let engine = engine.workflow(blocker::workflow()).launch().await?;
    for way in 0..3 {
        let begun = observer.begun().len();
        let start = || engine.start(journey::workflow(), ()).queue("mail");
        engine.queue("mail").await?;
        let cancelled = start().await?;
        let late = start().timeout(SECOND * 100).await?;
        lab.advance(SECOND * 50).await;
        match way {
            0 => drop(engine.queues().pause("mail").await?),
            1 => drop(engine.queue("mail").concurrency(1).await?),
            _ => drop(engine.queue("mail").rate(1, SECOND * 3600 * 24).await?),
        }
        let blocker = engine.start(blocker::workflow(), ()).queue("mail").await?;
        let pending = start().timeout(SECOND * 20).await?;
        let asked = lab.now();
        cancelled.cancel("no more").await?;
        assert_eq!(cancelled.await.unwrap_err().code(), "run_cancelled");
        assert!(lab.now().since(asked) < SECOND, "in way {way}");
        assert_eq!(pending.await.unwrap_err().code(), "run_timed_out");
        assert!(lab.now().since(asked) < SECOND * 21, "in way {way}");
        assert_eq!(late.await.unwrap_err().code(), "run_timed_out");
        assert!(lab.now().since(asked) < SECOND * 51, "in way {way}");
        let undone = observer.begun()[begun..].iter().filter(|what| *what == "undone").count();
        assert_eq!(undone, 2, "what had begun is undone, in way {way}");
        engine.queues().resume("mail").await?;
        engine.queue("mail").await?;
        blocker.await?;
    }
    Ok(())
}

#[windlass::test]
async fn a_limit_of_nothing_says_to_pause_instead(lab: Lab) -> Result<()> {
    let engine = node(&lab, &Observer::default()).await?;
    let setups = [
        engine.queue("mail").concurrency(0),
        engine.queue("mail").per_node(0),
        engine.queue("mail").per_key(0),
        engine.queue("mail").rate(0, SECOND),
    ];
    for setup in setups {
        let why = setup.await.unwrap_err();
        assert_eq!(why.code(), "invalid");
        assert!(why.to_string().contains(".queues().pause(\"mail\")"), "{why}");
    }
    let why = engine.queue("mail").rate(1, Duration::ZERO).await.unwrap_err().to_string();
    assert_eq!(why, "the `rate` of queue `mail` is for no time at all: name a span");
    assert!(engine.queue("").concurrency(1).await.is_err() && engine.queues().pause("").await.is_err());
    let why = engine.queues().pause("windlass").await.unwrap_err().to_string();
    assert_eq!(why, "the queue `windlass` is the engine's own: choose another name");
    assert!(engine.queue("windlass").concurrency(1).await.is_err());
    assert!(engine.queues().list().await?.is_empty(), "nothing is stored before it is right");
    Ok(())
}

#[windlass::test]
async fn a_child_has_a_key_within_its_queue(lab: Lab) -> Result<()> {
    #[flow]
    async fn family(cx: &Flow, input: String) -> Result<String> {
        cx.run(mail::workflow(), input).queue("mail").queue_key("a").await
    }
    let observer = Observer::default();
    let engine = lab
        .engine()
        .queue("mail", 100)
        .resource(observer.clone())
        .workflow(mail::workflow())
        .workflow(family::workflow())
        .launch()
        .await?;
    engine.queue("mail").per_key(1).await?;
    let one = engine.start(family::workflow(), "a".to_owned()).await?;
    let two = engine.start(family::workflow(), "a".to_owned()).await?;
    all(vec![one, two]).await?;
    assert_eq!(observer.0.lock().most, 1);
    Ok(())
}

#[workflow]
mod render {
    use super::*;

    #[task]
    pub async fn frames(input: String) -> Result<Vec<String>> {
        Ok(vec![input; 4])
    }

    #[task(for_each = frames, queue = "gpu")]
    pub async fn draw(item: &str, observer: Res<Observer>) -> Result<()> {
        observer.enter(item);
        tokio::time::sleep(SECOND).await;
        observer.leave(item);
        Ok(())
    }
}

async fn studio(lab: &Lab, observer: &Observer) -> Result<Engine> {
    let engine = lab.engine().queue("gpu", 100).resource(observer.clone()).workflow(render::workflow());
    Ok(engine.launch().await?)
}

#[windlass::test]
async fn no_more_spread_tasks_are_executed_than_their_queue_allows(lab: Lab) -> Result<()> {
    let observer = Observer::default();
    let nodes = [studio(&lab, &observer).await?, studio(&lab, &observer).await?];
    nodes[0].queue("gpu").concurrency(3).await?;
    let begun = lab.now();
    let mut runs = Vec::new();
    for node in &nodes {
        for _ in 0..3 {
            runs.push(node.start(render::workflow(), String::new()).await?);
        }
    }
    for run in runs {
        run.await?;
    }
    assert_eq!((observer.most(), observer.begun().len()), (3, 24));
    let took = lab.now().since(begun);
    assert!(took < Duration::from_millis(8_900), "24 tasks of a second, three at a time: {took:?}");
    Ok(())
}

#[windlass::test]
async fn spread_tasks_count_by_the_key_of_their_run(lab: Lab) -> Result<()> {
    let observer = Observer::default();
    let nodes = [studio(&lab, &observer).await?, studio(&lab, &observer).await?];
    nodes[0].queue("gpu").per_key(1).await?;
    let mut runs = Vec::new();
    for key in ["a", "b"] {
        runs.push(nodes[0].start(render::workflow(), key.to_owned()).queue_key(key).await?);
    }
    for run in runs {
        run.await?;
    }
    let seen = observer.0.lock();
    assert_eq!((seen.most_of_a_key, seen.most, seen.begun.len()), (1, 2, 8));
    Ok(())
}

#[windlass::test]
async fn a_rate_holds_for_spread_tasks_and_the_next_begins_in_time(lab: Lab) -> Result<()> {
    let observer = Observer::default();
    let engine = studio(&lab, &observer).await?;
    engine.queue("gpu").rate(1, SECOND * 10).await?;
    let begun = lab.now();
    engine.start(render::workflow(), String::new()).await?.await?;
    let took = lab.now().since(begun);
    assert!(took >= SECOND * 31 && took < SECOND * 32, "{took:?}");
    Ok(())
}

#[windlass::test]
async fn a_rate_of_keys_holds_for_spread_tasks_and_the_next_begins_in_time(lab: Lab) -> Result<()> {
    let observer = Observer::default();
    let engine = studio(&lab, &observer).await?;
    engine.queue("gpu").key_rate(1, SECOND * 10).await?;
    let begun = lab.now();
    let one = engine.start(render::workflow(), String::new()).queue_key("a").await?;
    let two = engine.start(render::workflow(), String::new()).queue_key("b").await?;
    one.await?;
    two.await?;
    let took = lab.now().since(begun);
    assert!(took >= SECOND * 31 && took < SECOND * 32, "each key by itself: {took:?}");
    Ok(())
}

#[windlass::test]
async fn a_paused_queue_begins_no_spread_task_until_it_is_resumed(lab: Lab) -> Result<()> {
    let observer = Observer::default();
    let engine = studio(&lab, &observer).await?;
    engine.queues().pause("gpu").await?;
    let run = engine.start(render::workflow(), String::new()).await?;
    lab.advance(SECOND * 600).await;
    assert!(observer.begun().is_empty());
    let begun = lab.now();
    engine.queues().resume("gpu").await?;
    run.await?;
    assert!(lab.now().since(begun) < SECOND * 2);
    Ok(())
}

#[workflow(spread)]
mod spread_mail {
    use super::*;

    #[task]
    pub async fn first(input: String, observer: Res<Observer>) -> Result<String> {
        super::mail::send(input, observer).await
    }

    #[task]
    pub async fn second(input: String, observer: Res<Observer>) -> Result<String> {
        super::mail::send(input, observer).await
    }

    #[task]
    pub async fn last(first: String, second: String) -> Result<String> {
        Ok(first + &second)
    }
}

#[windlass::test]
async fn a_run_never_waits_for_the_slot_that_it_has_itself(lab: Lab) -> Result<()> {
    let observer = Observer::default();
    let builder = lab.engine().queue("mail", 100).resource(observer.clone());
    let engine = builder.workflow(spread_mail::workflow()).launch().await?;
    engine.queue("mail").concurrency(1).await?;
    let begun = lab.now();
    let mut runs = Vec::new();
    for _ in 0..3 {
        runs.push(engine.start(spread_mail::workflow(), "a".to_owned()).queue("mail").await?);
    }
    for run in runs {
        run.await?;
    }
    assert_eq!((observer.most(), observer.begun().len()), (1, 6));
    let took = lab.now().since(begun);
    assert!(took < SECOND * 12, "six tasks of a second, one at a time: {took:?}");
    Ok(())
}

#[workflow]
mod sneaking {
    use super::*;

    #[task(queue = "windlass")]
    pub async fn sneak() -> Result<()> {
        Ok(())
    }
}

#[windlass::test]
async fn nothing_is_put_into_the_queue_of_the_engine_or_into_one_without_a_name(lab: Lab) -> Result<()> {
    let Err(error) = lab.engine().workflow(sneaking::workflow()).launch().await else {
        panic!("it was launched");
    };
    assert!(error.to_string().contains("`windlass` is the engine's own"), "{error}");
    let engine = lab.engine().resource(Observer::default()).workflow(mail::workflow()).launch().await?;
    for (queue, part) in [("windlass", "the engine's own"), ("", "needs a name")] {
        let start = engine.start(mail::workflow(), "x".to_owned()).queue(queue).queue_key("x");
        let error = start.await.unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
        let bulk = engine.start_many(mail::workflow(), ["x".to_owned()]).queue(queue);
        assert!(bulk.await.unwrap_err().to_string().contains(part));
    }
    Ok(())
}
