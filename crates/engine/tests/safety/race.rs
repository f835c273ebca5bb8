//! Races by the hundred on one file: each has one winner, and everybody hears the same of it.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use windlass::{Cancelled, Client, Error, RunId, RunState, prelude::*};
use windlass_store::Act;

use crate::{
    eventually::PATIENCE,
    faulty::{Fault, Faulty},
    room::Room,
};

const PAID: Event<u64> = Event::new("paid");
/// For how long races begin, and how many there are at a time: of a number that shares nothing with the kinds of races.
const HUNT: Duration = Duration::from_secs(3);
const ABREAST: u64 = 49;

/// Steps and waits that are over within two milliseconds; answers what was received, if that came in time.
#[flow]
async fn racer(cx: &Flow, number: u64) -> windlass::Result<Option<u64>> {
    cx.step("first", move || nap(number, 1)).await?;
    let paid = cx.event(PAID).timeout(micros(number, 2)).await?;
    cx.step("last", move || nap(number, 3)).await?;
    Ok(paid)
}

async fn nap(number: u64, salt: u64) -> windlass::Result<()> {
    tokio::time::sleep(micros(number, salt)).await;
    Ok(())
}

/// A time below two milliseconds that follows from a number: half of them are close to nothing.
fn micros(number: u64, salt: u64) -> Duration {
    let mixed = (number * 16 + salt).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
    Duration::from_micros(if mixed.is_multiple_of(2) { mixed % 50 } else { mixed % 2_000 })
}

/// What a run was asked by others, and how that was answered.
#[derive(Debug)]
struct Race {
    run: RunId,
    cancelled: Option<Cancelled>,
    /// Whether an event was taken.
    paid: Option<bool>,
    outcome: Result<Option<u64>, Error>,
}

/// Starts a run, meddles with it, and waits for its end.
async fn race(client: Client, number: u64) -> Race {
    let run = client.start(racer::workflow(), number).await.expect("the run starts");
    let id = run.id();
    let (mut cancelled, mut paid) = (None, None);
    tokio::time::sleep(micros(number, 4)).await;
    match number % 4 {
        0 => cancelled = Some(run.cancel("a race").await.expect("the order is answered")),
        1 => {
            // Whoever comes too late hears that.
            let is_late = |error: Error| assert_eq!(error.code(), "already_ended");
            run.pause().await.unwrap_or_else(is_late);
            tokio::time::sleep(micros(number, 5)).await;
            run.resume().await.unwrap_or_else(is_late);
        }
        2 => {
            paid = Some(match run.send(PAID, &number).await {
                Ok(()) => true,
                Err(error) => {
                    assert_eq!(error.code(), "already_ended");
                    false
                }
            });
        }
        // This one races with those who rescue it alone.
        _ => {}
    }
    let outcome = tokio::time::timeout(PATIENCE, run).await.expect("the run ends");
    Race { run: id, cancelled, paid, outcome }
}

/// The ends that a node was told that it has written.
type Ends = Arc<Mutex<HashMap<RunId, HashSet<RunState>>>>;

async fn engine(store: Arc<Faulty>, ends: &Ends) -> Engine {
    let ends = Arc::clone(ends);
    store.on_commit(move |_, units, fate| {
        let Ok(answers) = fate else { return };
        for (unit, answer) in units.iter().zip(answers) {
            if let (Act::End { end, .. }, Ok(_)) = (&unit.act, answer) {
                ends.lock().entry(unit.run).or_default().insert(end.state);
            }
        }
    });
    let engine = Engine::over(store).workflow(racer::workflow()).max_runs(32);
    let engine = engine.heartbeat(Duration::from_millis(50)).stale_after(Duration::from_millis(400));
    // Waits of a millisecond are parked too.
    let engine = engine.cancel_grace(Duration::from_millis(5)).park_after(Duration::from_micros(300));
    engine.launch().await.expect("it launches")
}

/// Again and again one node is held up for longer than its lease, with all that it has just asked for; the other rescues
/// its runs, and then what was asked arrives late.
async fn hold_up(store: &Faulty, is_over: &AtomicBool) -> usize {
    let mut times = 0;
    while !is_over.load(Ordering::SeqCst) {
        let goes_on = CancellationToken::new();
        let held = goes_on.clone();
        store.on_call(move |_| Fault::HeldUntil(held.clone()));
        tokio::time::sleep(Duration::from_millis(600)).await;
        store.on_call(|_| Fault::None);
        goes_on.cancel();
        tokio::time::sleep(Duration::from_millis(250)).await;
        times += 1;
    }
    times
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_race_has_one_end_and_everybody_hears_the_same_of_it() {
    let (room, ends) = (Room::new(), Ends::default());
    let steady = engine(Arc::new(Faulty::new(room.store().await)), &ends).await;
    let store = Arc::new(Faulty::new(room.store().await));
    let shaky = engine(Arc::clone(&store), &ends).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let (flag, held) = (Arc::clone(&is_over), Arc::clone(&store));
    let holding_up = tokio::spawn(async move { hold_up(&held, &flag).await });

    let (client, until) = (room.client().await, Instant::now() + HUNT);
    let hunters: Vec<_> = (0..ABREAST)
        .map(|first| {
            let client = client.clone();
            tokio::spawn(async move {
                let mut races = Vec::new();
                for number in (first..).step_by(ABREAST as usize) {
                    races.push(race(client.clone(), number).await);
                    if Instant::now() > until {
                        break;
                    }
                }
                races
            })
        })
        .collect();
    let mut races = Vec::new();
    for hunter in hunters {
        races.extend(hunter.await.expect("nothing panics"));
    }
    is_over.store(true, Ordering::SeqCst);
    let times = holding_up.await.expect("nothing panics");
    assert!(times > 1, "only {times} rescues");

    let (mut rescued, mut received_by, mut cancelled_as) = (0, HashSet::new(), HashSet::new());
    let store = room.store().await;
    for Race { run, cancelled, paid, outcome } in &races {
        let image = store.load(*run).await.expect("a run can be loaded").expect("it is there");
        let state = image.standing.state();
        let story = format!("{run} is {state}: {cancelled:?} {paid:?} {outcome:?} {image:#?}");
        rescued += image.standing.recoveries;
        assert_eq!(image.standing.generation, 1, "{story}");
        assert_eq!(outcome.is_ok(), state == RunState::Completed, "{story}");
        match cancelled {
            None => assert_eq!(state, RunState::Completed, "{story}"),
            Some(Cancelled::Requested | Cancelled::Blocked) => {
                assert!(matches!(state, RunState::Completed | RunState::Cancelled), "{story}");
            }
            Some(Cancelled::AlreadyEnded(then)) => assert_eq!(state, *then, "{story}"),
        }
        if let Ok(received) = outcome {
            assert!(received.is_none() || *paid == Some(true), "{story}");
            if paid.is_some() {
                received_by.insert(received.is_some());
            }
        }
        let written = ends.lock().remove(run).unwrap_or_default();
        assert!(written.iter().all(|written| *written == state), "{written:?} was written too: {story}");
        let mut steps = HashSet::new();
        let completed = image.steps.iter().filter(|step| step.kind == windlass_core::StepKind::Completed);
        assert!(completed.map(|step| &step.name).all(|name| steps.insert(name)), "{story}");
        if cancelled.is_some() {
            cancelled_as.insert(state);
        }
    }
    assert!(races.len() > 200 && rescued > 0, "{} races, {rescued} rescues", races.len());
    assert_eq!((received_by.len(), cancelled_as.len()), (2, 2), "the races were not close");
    shaky.stop().await.expect("it stops");
    steady.stop().await.expect("it stops");
}
