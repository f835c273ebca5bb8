//! Conditions that are asked again and again.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use windlass::{
    EngineBuilder, Error, Retention, RunState,
    prelude::*,
    schedule::Status,
    store::{Act, Idle, Memory, NewEnd, Store, Unit},
    testing::Lab,
    trigger::Trigger,
};

use crate::world::*;

/// What a trigger is to answer, and how often it was asked.
#[derive(Clone, Default)]
pub struct Desk {
    answers: Arc<Mutex<Vec<Result<Fire<Order>>>>>,
    asked: Arc<AtomicUsize>,
}

#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Order {
    pub takes: u64,
    pub lines: HashMap<String, u32>,
}

impl Desk {
    /// Answers so for ever.
    fn answering(answer: Result<Fire<Order>>) -> Self {
        let desk = Self::default();
        desk.answer(answer);
        desk
    }

    fn answer(&self, answer: Result<Fire<Order>>) {
        *self.answers.lock() = vec![answer];
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

/// An order that takes so long, with a few lines.
pub fn order(seconds: u64) -> Order {
    let lines = (0..20).map(|line| (format!("line {line}"), line)).collect();
    Order { takes: seconds, lines }
}

#[workflow]
pub mod fulfil {
    use super::*;

    #[task]
    pub async fn pack(input: Order) -> Result<u64> {
        tokio::time::sleep(secs(input.takes)).await;
        Ok(input.takes)
    }
}

/// Whether somebody has ordered something.
#[trigger(every = "5s", starts = fulfil, timeout = "30s")]
async fn new_order(desk: Res<Desk>) -> Result<Fire<Order>> {
    desk.asked.fetch_add(1, Ordering::SeqCst);
    desk.answers.lock()[0].clone()
}

#[trigger(cron = "0 2 * * *", timezone = "Europe/Paris", starts = fulfil, concurrent)]
async fn at_night() -> Result<Fire<Order>> {
    Ok(Fire::run(order(1)))
}

fn with_trigger(engine: EngineBuilder, desk: &Desk) -> EngineBuilder {
    engine.resource(desk.clone()).workflow(fulfil::workflow()).trigger(new_order::trigger())
}

async fn runs(engine: &Engine) -> Result<usize> {
    Ok(engine.runs().workflow("fulfil").limit(500).list().await?.len())
}

#[windlass::test]
async fn a_trigger_is_asked_on_its_interval_and_starts_what_it_says(lab: Lab) -> Result<()> {
    let desk = Desk::answering(Ok(Fire::Skip));
    let engine = with_trigger(lab.engine(), &desk).launch().await?;
    lab.advance(secs(21)).await;
    assert_eq!((desk.asked(), runs(&engine).await?), (4, 0));
    desk.answer(Ok(Fire::run(order(1)).key("7")));
    lab.advance(secs(2)).await;
    assert_eq!(runs(&engine).await?, 0, "it is not asked yet");
    lab.advance(secs(3)).await;
    let found = engine.runs().workflow("fulfil").list().await?;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].key.as_deref(), Some("new_order#7"));
    let status = engine.triggers().get("new_order").await?.status().await?;
    assert_eq!((status.fired, status.words.as_str(), status.workflow.as_str()), (1, "every 5s", "fulfil"));
    assert!(engine.runs().queue("windlass").list().await?.is_empty());
    Ok(())
}

#[windlass::test]
async fn firing_never_waits_for_the_run(lab: Lab) -> Result<()> {
    let desk = Desk::answering(Ok(Fire::Skip));
    let engine = with_trigger(lab.engine(), &desk).launch().await?;
    for number in 0..4 {
        desk.answer(Ok(Fire::run(order(86_400)).key(format!("order {number}"))));
        lab.advance(secs(5)).await;
    }
    assert!(runs(&engine).await? >= 3);
    assert!(
        engine
            .runs()
            .workflow("fulfil")
            .list()
            .await?
            .iter()
            .all(|run| run.standing.state() == RunState::Running)
    );
    Ok(())
}

#[windlass::test]
async fn the_same_key_is_not_fired_again_while_its_run_is_live(lab: Lab) -> Result<()> {
    let desk = Desk::answering(Ok(Fire::run(order(12)).key("7")));
    let engine = with_trigger(lab.engine(), &desk).launch().await?;
    // It fires at 5 s, is under way until 17 s, fires again at 20 s, and at 35 s.
    lab.advance(secs(44)).await;
    assert_eq!(runs(&engine).await?, 3);
    Ok(())
}

#[windlass::test]
async fn a_dedupe_without_a_key_does_not_depend_on_the_order_of_a_map(lab: Lab) -> Result<()> {
    let desk = Desk::default();
    let engine = {
        desk.answer(Ok(Fire::Skip));
        with_trigger(lab.engine(), &desk).launch().await?
    };
    for _ in 0..20 {
        // Each map has another order.
        desk.answer(Ok(Fire::run(order(86_400))));
        lab.advance(secs(5)).await;
    }
    assert_eq!(runs(&engine).await?, 1);
    desk.answer(Ok(Fire::run(order(86_401))));
    lab.advance(secs(5)).await;
    assert_eq!(runs(&engine).await?, 2);
    Ok(())
}

#[windlass::test]
async fn once_is_once_and_concurrent_is_as_often_as_it_says(lab: Lab) -> Result<()> {
    let once = Trigger::new("once", fulfil::workflow(), |_| async { Ok(Fire::run(order(1)).key("7")) });
    let often = Trigger::new("often", fulfil::workflow(), |_| async { Ok(Fire::run(order(600))) });
    let engine = lab.engine().workflow(fulfil::workflow());
    let engine =
        engine.trigger(once.every(secs(10)).once()).trigger(often.every(secs(10)).concurrent().tag("often"));
    let engine = engine.launch().await?;
    lab.advance(secs(55)).await;
    assert_eq!(engine.runs().key("once#7").list().await?.len(), 1);
    assert_eq!(engine.triggers().get("once").await?.status().await?.fired, 1);
    assert_eq!(engine.runs().tag("often").list().await?.len(), 5);
    Ok(())
}

#[windlass::test]
async fn once_holds_though_what_has_ended_is_discarded(lab: Lab) -> Result<()> {
    let once = Trigger::new("once", fulfil::workflow(), |_| async { Ok(Fire::run(order(1)).key("7")) });
    let often = Trigger::new("often", fulfil::workflow(), |_| async { Ok(Fire::run(order(1)).key("7")) });
    let engine = lab.engine().retention(Retention::default()).workflow(fulfil::workflow());
    let engine = engine.trigger(once.every(hours(6)).once()).trigger(often.every(hours(6))).launch().await?;
    lab.advance(hours(24 * 20)).await;
    assert_eq!(engine.triggers().get("once").await?.status().await?.fired, 1);
    assert_eq!(engine.runs().key("once#7").list().await?.len(), 1);
    let kept = engine.runs().key("often#7").limit(500).list().await?.len();
    assert!((20..50).contains(&kept), "the others go after a week: {kept}");
    Ok(())
}

#[windlass::test]
async fn a_start_that_finds_its_key_taken_is_taken_back(lab: Lab) -> Result<()> {
    let desk = Desk::answering(Ok(Fire::run(order(1)).key("7")));
    let engine = with_trigger(lab.engine(), &desk).launch().await?;
    engine.start(fulfil::workflow(), order(600)).key("new_order#7").await?;
    lab.advance(secs(21)).await;
    let trigger = engine.triggers().get("new_order").await?;
    let status = trigger.status().await?;
    assert_eq!((status.fired, status.running, desk.asked()), (0, 0, 4));
    desk.answer(Ok(Fire::run(order(600)).key("8")));
    lab.advance(secs(5)).await;
    let status = trigger.status().await?;
    assert_eq!((status.fired, status.running), (1, 1));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trigger_whose_run_was_ended_is_asked_again_by_the_next_program() -> Result<()> {
    let begun = std::time::Instant::now();
    let store = Memory::new(move || windlass::Time(1_767_225_600_000_000) + begun.elapsed());
    let asked = Arc::new(AtomicUsize::new(0));
    let launch = || {
        let asked = Arc::clone(&asked);
        let ask = move |_| {
            asked.fetch_add(1, Ordering::Relaxed);
            async { Ok(Fire::Skip) }
        };
        let often = Trigger::new("often", fulfil::workflow(), ask).every(Duration::from_millis(10));
        Engine::over(Arc::new(store.process())).workflow(fulfil::workflow()).trigger(often).launch()
    };
    let until_asked = async |more: usize| {
        let wanted = asked.load(Ordering::Relaxed) + more;
        while asked.load(Ordering::Relaxed) < wanted {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let first = launch().await?;
    until_asked(2).await;
    let own = first.run_by_key(&the_engines_own("windlass.trigger.often")?, "trigger").await?;
    let own = own.expect("it is a run").id();
    first.stop().await?;
    let end = NewEnd { state: RunState::Cancelled, output: None, failure: None };
    let end = Unit { run: own, act: Act::EndIdle { only: Idle::Any, end } };
    let ended = store.commit(None, Arc::new(vec![end])).await?;
    assert!(ended[0].is_ok(), "{ended:?}");
    let second = launch().await?;
    tokio::time::timeout(secs(60), until_asked(5)).await?;
    second.stop().await?;
    Ok(())
}

#[windlass::test]
async fn an_error_a_panic_and_a_time_out_back_off_like_a_schedule(lab: Lab) -> Result<()> {
    let desk = Desk::answering(Err(Failure::new("the server is away")));
    let engine = lab.engine().resource(desk.clone()).workflow(fulfil::workflow());
    let backoff = Backoff::default().initial(secs(60)).jitter(0.0).trip_after(3);
    let slow = Trigger::new("slow", fulfil::workflow(), |_| async {
        tokio::time::sleep(hours(1)).await;
        Ok(Fire::Skip)
    });
    let rude = Trigger::new("rude", fulfil::workflow(), |_| async { panic!("no") });
    let engine = engine
        .trigger(new_order::trigger().backoff(backoff))
        .trigger(slow.every(secs(5)).timeout(secs(2)))
        .trigger(rude.every(secs(5)))
        .launch()
        .await?;
    lab.advance(secs(64)).await;
    assert_eq!(desk.asked(), 1);
    let orders = engine.triggers().get("new_order").await?;
    let Status::Backoff { streak: 1, last_error, .. } = orders.status().await?.status else {
        panic!("it has failed")
    };
    assert_eq!(last_error, "the server is away");
    for (name, expected) in [("slow", "the trigger took longer than 2s"), ("rude", "the trigger panicked")] {
        let Status::Backoff { last_error, .. } = engine.triggers().get(name).await?.status().await?.status
        else {
            panic!("{name} has failed")
        };
        assert_eq!(last_error, expected);
    }
    lab.advance(mins(10)).await;
    assert_eq!(desk.asked(), 3, "it has tripped");
    assert!(matches!(orders.status().await?.status, Status::Tripped { streak: 3, .. }));
    desk.answer(Ok(Fire::run(order(1)).key("7")));
    orders.reset().await?;
    lab.advance(secs(1)).await;
    assert_eq!((desk.asked(), runs(&engine).await?), (4, 1), "a reset wakes it at once");
    assert_eq!(orders.status().await?.status, Status::Completed);
    Ok(())
}

#[windlass::test]
async fn one_engine_asks_at_a_time_and_another_goes_on(lab: Lab) -> Result<()> {
    let desk = Desk::answering(Ok(Fire::Skip));
    let first = with_trigger(lab.engine(), &desk).launch().await?;
    let without = lab.engine().workflow(fulfil::workflow()).launch().await?;
    let second = with_trigger(lab.engine(), &desk).launch().await?;
    lab.advance(secs(51)).await;
    assert_eq!(desk.asked(), 10);
    lab.crash(&first);
    lab.advance(secs(50)).await;
    assert_eq!(desk.asked(), 20);
    desk.answer(Ok(Fire::run(order(1)).key("7")));
    lab.advance(secs(5)).await;
    assert_eq!(runs(&without).await?, 1);
    second.triggers().get("new_order").await?.pause("stock-taking").await?;
    lab.advance(secs(50)).await;
    assert_eq!(desk.asked(), 21);
    assert_eq!(without.triggers().list().await?[0].paused.as_deref(), Some("stock-taking"));
    Ok(())
}

#[windlass::test]
async fn a_trigger_by_the_clock_is_asked_when_the_clock_says_so(lab: Lab) -> Result<()> {
    let engine = lab.engine().workflow(fulfil::workflow()).trigger(at_night::trigger()).launch().await?;
    lab.advance(hours(49)).await;
    let found = engine.runs().workflow("fulfil").list().await?;
    let created: Vec<String> = found.iter().map(|run| short(run.created_at)).collect();
    assert_eq!(created, ["2026-01-02T01:00", "01:00"]);
    Ok(())
}

#[windlass::test]
async fn a_crash_while_it_is_asked_neither_loses_an_answer_nor_starts_two(lab: Lab) -> Result<()> {
    let boundaries = lab
        .crash_everywhere(|engine| async move {
            let desk = Desk::answering(Ok(Fire::run(order(1)).key("7")));
            let engine = engine.resource(desk).workflow(fulfil::workflow());
            let engine = engine.trigger(new_order::trigger().once()).launch().await?;
            while engine.runs().workflow("fulfil").completed().list().await?.is_empty() {
                tokio::time::sleep(secs(1)).await;
            }
            tokio::time::sleep(secs(20)).await;
            assert_eq!(runs(&engine).await?, 1);
            Ok::<_, Failure>(())
        })
        .await?;
    assert!(boundaries >= 6, "{boundaries}");
    Ok(())
}

#[windlass::test]
async fn everything_that_a_trigger_lacks_is_said_at_launch(lab: Lab) -> Result<()> {
    let never = Trigger::new("never", fulfil::workflow(), |_| async { Ok(Fire::Skip) });
    let twice = || Trigger::new("twice", fulfil::workflow(), |_| async { Ok(Fire::Skip) }).cron("0 25 * * *");
    let engine = lab.engine().trigger(new_order::trigger()).trigger(never).trigger(twice()).trigger(twice());
    let Err(Error::Launch { problems }) = engine.launch().await else { panic!("much is wrong") };
    let said = problems.join("\n");
    for part in [
        "trigger `new_order` starts `fulfil`, which the engine was not given",
        "trigger `new_order` takes a resource of type `schedules::triggers::Desk`",
        "`never` does not say when",
        "at character 3, `25` is not between 0 and 23",
        "trigger `twice` is given more than once",
    ] {
        assert!(said.contains(part), "{part} is not in\n{said}");
    }
    Ok(())
}

/// The same function, asked by hand.
#[tokio::test]
async fn the_function_stays_what_it_is() {
    let desk = Desk::answering(Ok(Fire::Skip));
    assert!(matches!(new_order(Res::new(desk)).await, Ok(Fire::Skip)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopping_does_not_wait_for_a_question() -> Result<()> {
    let asked = Arc::new(tokio::sync::Notify::new());
    let called = Arc::clone(&asked);
    let slow = Trigger::new("slow", fulfil::workflow(), move |_| {
        called.notify_one();
        async {
            tokio::time::sleep(hours(1)).await;
            Ok(Fire::Skip)
        }
    });
    let engine = Engine::open("sqlite::memory:").workflow(fulfil::workflow());
    let engine = engine.trigger(slow.every(Duration::from_millis(10)).timeout(hours(2))).launch().await?;
    asked.notified().await;
    let begun = std::time::Instant::now();
    engine.stop().await?;
    assert!(begun.elapsed() < secs(5), "{:?}", begun.elapsed());
    Ok(())
}
