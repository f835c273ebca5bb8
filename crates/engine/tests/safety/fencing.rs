//! Who may write: claims, leases and names, with answers that get lost.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use windlass::{Cancelled, Client, Compressed, RunId, RunState, prelude::*};
use windlass_core::NodeId;
use windlass_store::{Act, Place, Refusal, Store, StoreError, Written};

use crate::{
    eventually::{PATIENCE, eventually, eventually_async},
    faulty::{Asked, Fault, Faulty},
    room::Room,
    stage::{Stage, What},
};

/// The node that holds a run.
async fn holder(store: &dyn Store, run: RunId) -> Option<NodeId> {
    let image = store.load(run).await.expect("a run can be loaded").expect("the run is there");
    match image.standing.place {
        Place::Owned { node, .. } => Some(node),
        _ => None,
    }
}

fn is_park(act: &Act) -> bool {
    matches!(act, Act::Park { .. })
}

fn is_end(act: &Act) -> bool {
    matches!(act, Act::End { .. })
}

fn is_send(act: &Act) -> bool {
    matches!(act, Act::Send(_))
}

fn is_start(act: &Act) -> bool {
    matches!(act, Act::Start(_))
}

type Answers = Vec<Result<Written, Refusal>>;

/// A store that loses the answer to the first park, and holds its repeat back.
struct ParkTwice {
    store: Arc<Faulty>,
    again: CancellationToken,
    answers: Arc<Mutex<Vec<Answers>>>,
}

impl ParkTwice {
    async fn new(room: &Room) -> Self {
        let store = Arc::new(Faulty::new(room.store().await));
        let (parks, again) = (AtomicUsize::new(0), CancellationToken::new());
        let held = again.clone();
        store.on_call(move |asked| match asked {
            asked if !asked.commits(is_park) => Fault::None,
            _ if parks.fetch_add(1, Ordering::SeqCst) == 0 => Fault::AnswerLost,
            _ => Fault::HeldUntil(held.clone()),
        });
        let answers = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&answers);
        store.on_commit(move |_, units, fate| {
            if units.iter().any(|unit| is_park(&unit.act)) {
                noted.lock().push(fate.clone().expect("the store answers"));
            }
        });
        Self { store, again, answers }
    }

    fn wait_for_the_first(&self) {
        eventually("the run is parked", PATIENCE, || self.answers.lock().len() == 1);
    }

    /// Lets the repeat through, which must be refused.
    fn repeat(&self) {
        self.again.cancel();
        eventually("the park is sent again", PATIENCE, || self.answers.lock().len() == 2);
        let answers = self.answers.lock();
        let refused = |answer| matches!(answer, &Err(Refusal::NotYours | Refusal::Earlier));
        assert!(answers[1].iter().all(refused), "{:?}", answers[1]);
    }
}

async fn a_park_sent_twice_does_not_take_the_run_from_its_next_owner(room: Room) {
    let stage = Stage::default();
    let (falls, falls_later) = (CancellationToken::new(), CancellationToken::new());
    let parks = ParkTwice::new(&room).await;
    // With room for one run it cannot claim the run again while it still tries to park it.
    let first = stage.engine("first", parks.store.clone(), &falls).max_runs(1);
    let first = first.launch().await.expect("it launches");
    let run = first.start(stage.workflow(), 0).await.expect("the run starts");
    let id = run.id();
    run.pause().await.expect("the run is paused");
    falls.cancel();
    parks.wait_for_the_first();

    let second = stage.engine("second", room.store().await, &falls_later);
    let second = second.launch().await.expect("it launches");
    second.run(&stage.workflow(), id).resume().await.expect("the run is resumed");
    eventually("the next owner goes on", PATIENCE, || stage.when("second", "second", What::Began).is_some());
    let store = room.store().await;
    let owner = holder(&*store, id).await;
    parks.repeat();
    assert_eq!(holder(&*store, id).await, owner, "the run is still its next owner's");
    falls_later.cancel();
    assert_eq!(second.run(&stage.workflow(), id).await.expect("the run completes"), 1);
    let begun = stage.scenes().iter().filter(|scene| scene.what == What::Began).count();
    assert_eq!(begun, 2, "each step ran once: {:?}", stage.scenes());
}

async fn a_park_sent_twice_does_not_park_the_run_that_the_same_node_has_claimed_again(room: Room) {
    let (stage, falls) = (Stage::default(), CancellationToken::new());
    let parks = ParkTwice::new(&room).await;
    let engine = stage.engine("only", parks.store.clone(), &falls).launch().await.expect("it launches");
    let run = engine.start(stage.workflow(), 0).await.expect("the run starts");
    run.pause().await.expect("the run is paused");
    falls.cancel();
    parks.wait_for_the_first();
    let client = room.client().await;
    client.run(&stage.workflow(), run.id()).resume().await.expect("the run is resumed");
    eventually("the node goes on", PATIENCE, || stage.when("only", "second", What::Returned).is_some());
    parks.repeat();
    let result = tokio::time::timeout(PATIENCE, run).await.expect("the run goes on");
    assert_eq!(result.expect("the run completes"), 1);
    engine.stop().await.expect("it stops");
}

async fn a_node_that_is_cut_off_stops_what_it_runs_before_another_may_take_over(room: Room) {
    const LEASE: Duration = Duration::from_millis(1500);
    let stage = Stage::default();
    let (never, at_once) = (CancellationToken::new(), CancellationToken::new());
    at_once.cancel();
    let store = Arc::new(Faulty::new(room.store().await));
    let cut_off = Arc::clone(&store);
    let first = stage.engine("first", store, &never).stale_after(LEASE).launch().await.expect("it launches");
    let run = first.start(stage.workflow(), 0).await.expect("the run starts");
    eventually("the run begins", PATIENCE, || stage.when("first", "first", What::Began).is_some());
    let second = stage.engine("second", room.store().await, &at_once).stale_after(LEASE);
    let second = second.launch().await.expect("it launches");

    cut_off.on_call(|_| Fault::Silent);
    let since = Instant::now();
    assert_eq!(second.run(&stage.workflow(), run.id()).await.expect("the run completes"), 1);
    let dropped = stage.when("first", "first", What::Dropped).expect("the cut-off node stopped its attempt");
    let taken_over = stage.when("second", "first", What::Began).expect("the other node ran it");
    assert!(dropped < taken_over, "two nodes ran the step at once: {:?}", stage.scenes());
    assert!(dropped - since < LEASE, "the attempt was stopped only {:?} after the cut", dropped - since);
}

async fn a_fenced_node_commits_nothing_and_starts_afresh_without_fencing_its_successor(room: Room) {
    let stage = Stage::default();
    let falls = CancellationToken::new();
    let store = Arc::new(Faulty::new(room.store().await).deaf());
    let (late, fenced, joins) = (CancellationToken::new(), CancellationToken::new(), Arc::default());
    let (held, heard, counted) = (late.clone(), fenced.clone(), Arc::<AtomicUsize>::clone(&joins));
    // It hears of its death by its late commit, and not by a claim that was slow.
    store.on_call(move |asked| match asked {
        Asked::Join => {
            counted.fetch_add(1, Ordering::SeqCst);
            Fault::None
        }
        asked if asked.commits(is_end) => Fault::HeldUntil(held.clone()),
        Asked::Claim => Fault::HeldUntil(heard.clone()),
        _ => Fault::None,
    });
    let noted = fenced.clone();
    store.on_commit(move |_, units, fate| {
        if units.iter().any(|unit| is_end(&unit.act)) && matches!(fate, Err(StoreError::Fenced)) {
            noted.cancel();
        }
    });
    let never = Duration::from_secs(1_000);
    let before = stage.engine("before", store, &falls).name("web").heartbeat(never).stale_after(never * 10);
    let before = before.poll(never).launch().await.expect("it launches");
    let run = before.start(stage.workflow(), 0).await.expect("the run starts");
    falls.cancel();
    eventually("the run is about to end", PATIENCE, || {
        stage.when("before", "second", What::Returned).is_some()
    });

    let after = stage.engine("after", room.store().await, &falls).name("web");
    let after = after.launch().await.expect("it launches");
    let named = |nodes: Vec<windlass_store::NodeRow>| {
        nodes.into_iter().find(|node| node.name.as_deref() == Some("web") && !node.dead).map(|node| node.id)
    };
    let successor =
        named(after.nodes().await.expect("nodes can be listed")).expect("the successor has the name");
    late.cancel();
    tokio::time::timeout(PATIENCE, fenced.cancelled()).await.expect("the late commit is refused");
    assert_eq!(after.run(&stage.workflow(), run.id()).await.expect("the run completes"), 1);
    eventually("the fenced node joins anew", PATIENCE, || joins.load(Ordering::SeqCst) >= 2);
    eventually_async("both are nodes", PATIENCE, || async {
        after.nodes().await.expect("nodes can be listed").iter().filter(|node| !node.dead).count() == 2
    })
    .await;
    let now = named(after.nodes().await.expect("nodes can be listed"));
    assert_eq!(now, Some(successor), "the successor is still the node of that name");
    before.stop().await.expect("it stops");
    after.stop().await.expect("it stops");
}

/// What a run hands in cannot be written for once. Nobody else may take it up: its node lives, and still has it.
async fn a_run_that_breaks_off_goes_on(room: Room, is_broken: fn(&Act) -> bool) {
    let (stage, falls) = (Stage::default(), CancellationToken::new());
    falls.cancel();
    let store = Arc::new(Faulty::new(room.store().await));
    let broken = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&broken);
    store.on_call(move |asked| match asked {
        asked if asked.commits(is_broken) && counted.fetch_add(1, Ordering::SeqCst) == 0 => Fault::Broken,
        _ => Fault::None,
    });
    let engine = stage.engine("only", store, &falls).launch().await.expect("it launches");
    let run = engine.start(stage.workflow(), 0).await.expect("the run starts");
    let id = run.id();
    let result = tokio::time::timeout(PATIENCE, run).await;
    assert_eq!(result.expect("the run goes on").expect("the run completes"), 1);
    assert_eq!(broken.load(Ordering::SeqCst), 2, "it was handed in again");
    let image = room.store().await.load(id).await.expect("a run can be loaded").expect("the run is there");
    assert_eq!(image.standing.recoveries, 0, "its node lived all the time");
    let steps: Vec<_> = image.steps.iter().map(|step| (&*step.name, step.attempt)).collect();
    assert_eq!(steps, [("first", 1), ("second", 1)]);
    engine.stop().await.expect("it stops");
}

async fn a_run_whose_record_could_not_be_written_goes_on_while_its_node_lives(room: Room) {
    a_run_that_breaks_off_goes_on(room, |act| matches!(act, Act::Record { .. })).await;
}

async fn a_run_whose_end_could_not_be_written_goes_on_while_its_node_lives(room: Room) {
    a_run_that_breaks_off_goes_on(room, is_end).await;
}

/// The answer to a start is lost, and who owns the run cannot be read back.
async fn a_run_whose_owner_could_not_be_read_goes_on_while_its_node_lives(room: Room) {
    let (stage, falls) = (Stage::default(), CancellationToken::new());
    falls.cancel();
    let store = Arc::new(Faulty::new(room.store().await));
    let (starts, loads) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, read) = (Arc::clone(&starts), Arc::clone(&loads));
    store.on_call(move |asked| match asked {
        asked if asked.commits(is_start) && counted.fetch_add(1, Ordering::SeqCst) == 0 => Fault::AnswerLost,
        Asked::Read if counted.load(Ordering::SeqCst) == 2 && read.fetch_add(1, Ordering::SeqCst) == 0 => {
            Fault::Broken
        }
        _ => Fault::None,
    });
    let engine = stage.engine("only", store, &falls).launch().await.expect("it launches");
    let id = engine.start(stage.workflow(), 0).await.expect("the run starts").id();
    let run = room.client().await.run(&stage.workflow(), id);
    let result = tokio::time::timeout(PATIENCE, run).await;
    assert_eq!(result.expect("the run goes on").expect("the run completes"), 1);
    assert!(loads.load(Ordering::SeqCst) > 0, "somebody wanted to know whose it is");
    engine.stop().await.expect("it stops");
}

/// A start is committed or not, and either way the node does not hear of it before its lease is over.
async fn start_of_unknown_fate(room: Room, fault: Fault) {
    let stage = Stage::default();
    let falls = CancellationToken::new();
    falls.cancel();
    let store = Arc::new(Faulty::new(room.store().await));
    let (cut, starts) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
    let (hook, noted, faulty) = (Arc::clone(&cut), Arc::clone(&starts), Arc::clone(&store));
    // Claiming reserves a thousand places for a moment, and the start needs one of its own.
    let engine = stage.engine("only", store, &falls).max_runs(5000).stale_after(Duration::from_millis(900));
    let engine = engine.launch().await.expect("it launches");
    faulty.on_call(move |asked| {
        if let Asked::Commit(batch) = asked {
            let starts = batch.iter().filter_map(|unit| match &unit.act {
                Act::Start(new) => Some((unit.run, new.owner.is_some())),
                _ => None,
            });
            noted.lock().extend(starts);
        }
        match asked {
            // The first start cuts the node off, and a new name connects it again.
            asked if asked.commits(is_start) && noted.lock().len() == 1 => {
                hook.store(true, Ordering::SeqCst);
                fault.clone()
            }
            Asked::Join => {
                hook.store(false, Ordering::SeqCst);
                Fault::None
            }
            Asked::Heartbeat if hook.load(Ordering::SeqCst) => Fault::Silent,
            _ => Fault::None,
        }
    });
    let start = tokio::time::timeout(PATIENCE, engine.start(stage.workflow(), 0));
    let run = start.await.expect("the start is answered").expect("the run starts");
    let id = run.id();
    let result = tokio::time::timeout(PATIENCE, run).await.expect("the run goes on");
    assert_eq!(result.expect("the run completes"), 1);
    assert_eq!(*starts.lock(), [(id, true), (id, false)], "the same start again, for anyone to claim");
    let runs = engine.runs().list().await.expect("runs can be found");
    assert_eq!(runs.len(), 1, "one start is one run");
    assert_eq!(runs[0].standing.state(), RunState::Completed);
    assert_eq!(stage.scenes().iter().filter(|scene| scene.what == What::Began).count(), 2);
    engine.stop().await.expect("it stops");
}

async fn a_start_that_was_committed_but_not_answered_is_one_run_under_the_next_identity(room: Room) {
    start_of_unknown_fate(room, Fault::NoAnswer).await;
}

async fn a_start_that_never_arrived_is_sent_again_under_the_next_identity(room: Room) {
    start_of_unknown_fate(room, Fault::Silent).await;
}

/// The first commit of an act like this suffers a fault, and the node is cut off until it has its next name. Counts such
/// commits.
fn cut_off(store: &Faulty, is: fn(&Act) -> bool, fault: Fault) -> Arc<AtomicUsize> {
    let (cut, asked_for) = (AtomicBool::new(false), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&asked_for);
    store.on_call(move |asked| match asked {
        asked if asked.commits(is) && counted.fetch_add(1, Ordering::SeqCst) == 0 => {
            cut.store(true, Ordering::SeqCst);
            fault.clone()
        }
        Asked::Join => {
            cut.store(false, Ordering::SeqCst);
            Fault::None
        }
        Asked::Heartbeat if cut.load(Ordering::SeqCst) => Fault::Silent,
        _ => Fault::None,
    });
    asked_for
}

/// An event is committed or not, and either way its sender does not hear of it before the lease is over.
async fn event_of_unknown_fate(room: Room, fault: Fault) {
    let store = Arc::new(Faulty::new(room.store().await));
    let sent = cut_off(&store, is_send, fault);
    let engine = Engine::over(store).workflow(two_payments::workflow()).heartbeat(Duration::from_millis(100));
    let engine = engine.stale_after(Duration::from_millis(900)).launch().await.expect("it launches");
    let run = engine.start(two_payments::workflow(), ()).await.expect("the run starts");
    let sending = tokio::time::timeout(PATIENCE, run.send(PAID, &1));
    sending.await.expect("the event is answered").expect("it is sent");
    run.send(PAID, &2).await.expect("it is sent");
    let result = tokio::time::timeout(PATIENCE, run).await.expect("the run goes on");
    assert_eq!(result.expect("the run completes"), (1, 2));
    assert_eq!(sent.load(Ordering::SeqCst), 3, "the first was sent again, under the next name");
    engine.stop().await.expect("it stops");
}

/// The same with an order.
async fn order_of_unknown_fate(room: Room, fault: Fault) {
    let (stage, never) = (Stage::default(), CancellationToken::new());
    let store = Arc::new(Faulty::new(room.store().await));
    let sent = cut_off(&store, is_send, fault);
    let engine = stage.engine("only", store, &never).stale_after(Duration::from_millis(900));
    let engine = engine.launch().await.expect("it launches");
    let run = engine.start(stage.workflow(), 0).await.expect("the run starts");
    eventually("it executes", PATIENCE, || stage.when("only", "first", What::Began).is_some());
    let answer = tokio::time::timeout(PATIENCE, run.cancel("enough")).await.expect("the order is answered");
    // If it was written at first, the run may have ended before it was sent again.
    let answer = answer.expect("it is given");
    assert!(
        matches!(answer, Cancelled::Requested | Cancelled::AlreadyEnded(RunState::Cancelled)),
        "{answer:?}"
    );
    let id = run.id();
    let result = tokio::time::timeout(PATIENCE, run).await.expect("the run ends");
    assert!(result.is_err(), "{result:?}");
    assert_eq!(sent.load(Ordering::SeqCst), 2, "it was sent again, under the next name");
    let image = room.store().await.load(id).await.expect("a run can be loaded").expect("it is there");
    assert_eq!((image.standing.state(), image.inbox), (RunState::Cancelled, Vec::new()));
    assert!(stage.scenes().iter().all(|scene| scene.step == "first" && scene.what != What::Returned));
    engine.stop().await.expect("it stops");
}

async fn an_event_that_was_committed_but_not_answered_is_received_once_under_the_next_identity(room: Room) {
    event_of_unknown_fate(room, Fault::NoAnswer).await;
}

async fn an_event_that_never_arrived_is_sent_again_under_the_next_identity(room: Room) {
    event_of_unknown_fate(room, Fault::Silent).await;
}

async fn an_order_that_was_committed_but_not_answered_is_carried_out_under_the_next_identity(room: Room) {
    order_of_unknown_fate(room, Fault::NoAnswer).await;
}

async fn an_order_that_never_arrived_is_sent_again_under_the_next_identity(room: Room) {
    order_of_unknown_fate(room, Fault::Silent).await;
}

async fn a_batch_whose_answer_was_lost_is_sent_again_and_written_once(room: Room) {
    let stage = Stage::default();
    let falls = CancellationToken::new();
    falls.cancel();
    let store = Arc::new(Faulty::new(room.store().await));
    let every_other = AtomicUsize::new(0);
    store.on_call(move |asked| match asked {
        Asked::Commit(_) if every_other.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) => Fault::AnswerLost,
        _ => Fault::None,
    });
    let engine = stage.engine("only", store, &falls).launch().await.expect("it launches");
    let run = engine.start(stage.workflow(), 0).await.expect("the run starts");
    let id = run.id();
    let result = tokio::time::timeout(PATIENCE, run).await.expect("the run goes on");
    assert_eq!(result.expect("the run completes"), 1);
    let image = room.store().await.load(id).await.expect("a run can be loaded").expect("the run is there");
    let steps: Vec<_> = image.steps.iter().map(|step| (&*step.name, step.attempt)).collect();
    assert_eq!(steps, [("first", 1), ("second", 1)]);
    assert_eq!(stage.scenes().iter().filter(|scene| scene.what == What::Began).count(), 2);
    engine.stop().await.expect("it stops");
}

async fn what_was_claimed_goes_on_at_once_although_the_answer_was_lost(room: Room) {
    const NEVER: Duration = Duration::from_secs(1000);
    let (stage, falls) = (Stage::default(), CancellationToken::new());
    falls.cancel();
    let before = stage.engine("before", room.store().await, &falls).launch().await.expect("it launches");
    before.stop().await.expect("it stops");
    let client = room.client().await;
    let run = client.start(stage.workflow(), 0).await.expect("the run starts");
    let (store, claims) = (Arc::new(Faulty::new(room.store().await)), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&claims);
    store.on_call(move |asked| match asked {
        Asked::Claim if counted.fetch_add(1, Ordering::SeqCst) == 0 => Fault::AnswerLost,
        _ => Fault::None,
    });
    // No heartbeat comes to find what it holds without knowing.
    let engine = stage.engine("only", store, &falls).heartbeat(NEVER).stale_after(NEVER * 3);
    let engine = engine.launch().await.expect("it launches");
    let result = tokio::time::timeout(PATIENCE, run).await.expect("the run goes on");
    assert_eq!(result.expect("the run completes"), 1);
    assert!(claims.load(Ordering::SeqCst) > 1, "the claim was sent again");
    assert_eq!(stage.scenes().iter().filter(|scene| scene.what == What::Began).count(), 2);
    engine.stop().await.expect("it stops");
}

async fn a_process_beats_once_for_all_that_it_runs(room: Room) {
    const BEAT: Duration = Duration::from_millis(100);
    let (stage, falls) = (Stage::default(), CancellationToken::new());
    let (store, beats) = (Arc::new(Faulty::new(room.store().await)), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&beats);
    store.on_call(move |asked| {
        if matches!(asked, Asked::Heartbeat) {
            counted.fetch_add(1, Ordering::SeqCst);
        }
        Fault::None
    });
    let engine = stage.engine("only", store, &falls).heartbeat(BEAT).launch().await.expect("it launches");
    engine.start_many(stage.workflow(), 0..50_u64).await.expect("the runs start");
    let begun = || stage.scenes().iter().filter(|scene| scene.what == What::Began).count();
    eventually("all are at work", PATIENCE, || begun() == 50);
    let (before, since) = (beats.load(Ordering::SeqCst), Instant::now());
    eventually("it beats", PATIENCE, || beats.load(Ordering::SeqCst) >= before + 10);
    assert!(since.elapsed() >= BEAT * 8, "ten beats for fifty runs in {:?}", since.elapsed());
    falls.cancel();
    engine.stop().await.expect("it stops");
}

async fn a_step_that_takes_longer_than_the_lease_runs_once(room: Room) {
    const LEASE: Duration = Duration::from_millis(1500);
    let (stage, falls) = (Stage::default(), CancellationToken::new());
    let launch = async |name| {
        let engine = stage.engine(name, room.store().await, &falls).stale_after(LEASE);
        engine.poll(Duration::from_millis(100)).launch().await.expect("it launches")
    };
    let (first, second) = (launch("first").await, launch("second").await);
    let run = first.start(stage.workflow(), 0).await.expect("the run starts");
    let id = run.id();
    let store = room.store().await;
    eventually_async("its process has lived for two leases", PATIENCE, || async {
        let owner = holder(&*store, id).await;
        let nodes = store.nodes().await.expect("nodes are listed");
        let owner = nodes.iter().find(|node| Some(node.id) == owner);
        owner.is_some_and(|node| node.heartbeat_at.since(node.started_at) > LEASE * 2)
    })
    .await;
    falls.cancel();
    let result = tokio::time::timeout(PATIENCE, run).await.expect("the run goes on");
    assert_eq!(result.expect("the run completes"), 1);
    assert_eq!(stage.scenes().iter().filter(|scene| scene.what == What::Began).count(), 2);
    let image = store.load(id).await.expect("a run can be loaded").expect("it is there");
    assert_eq!(image.standing.recoveries, 0);
    first.stop().await.expect("it stops");
    second.stop().await.expect("it stops");
}

const PAID: Event<u32> = Event::new("paid");

/// Two payments, in the order in which they came.
#[flow]
async fn two_payments(cx: &Flow) -> windlass::Result<(u32, u32)> {
    let first = cx.event(PAID).await?;
    Ok((first, cx.event(PAID).await?))
}

async fn an_event_whose_answer_was_lost_is_sent_again_and_received_once(room: Room) {
    let store = Arc::new(Faulty::new(room.store().await));
    let sent = AtomicUsize::new(0);
    store.on_call(move |asked| match asked {
        asked if asked.commits(is_send) && sent.fetch_add(1, Ordering::SeqCst) == 0 => Fault::AnswerLost,
        _ => Fault::None,
    });
    let engine = Engine::over(store).workflow(two_payments::workflow()).launch().await.expect("it launches");
    let run = engine.start(two_payments::workflow(), ()).await.expect("the run starts");
    run.send(PAID, &1).await.expect("it is sent");
    run.send(PAID, &2).await.expect("it is sent");
    let result = tokio::time::timeout(PATIENCE, run).await.expect("the run goes on");
    assert_eq!(result.expect("the run completes"), (1, 2));
    engine.stop().await.expect("it stops");
}

async fn a_pause_whose_answer_was_lost_does_not_undo_a_later_resume(room: Room) {
    let stage = Stage::default();
    let (falls, again) = (CancellationToken::new(), CancellationToken::new());
    let store = Arc::new(Faulty::new(room.store().await));
    let (sent, held) = (Arc::new(AtomicUsize::new(0)), again.clone());
    let counted = Arc::clone(&sent);
    store.on_call(move |asked| match asked {
        asked if !asked.commits(is_send) => Fault::None,
        _ if counted.fetch_add(1, Ordering::SeqCst) == 0 => Fault::AnswerLost,
        _ => Fault::HeldUntil(held.clone()),
    });
    let engine = stage.engine("only", room.store().await, &falls).launch().await.expect("it launches");
    let run = engine.start(stage.workflow(), 0).await.expect("the run starts");
    let other = Client::over(store, Arc::new(Compressed::default())).await.expect("it connects");
    let pausing = other.run(&stage.workflow(), run.id());
    let pausing = tokio::spawn(async move { pausing.pause().await });
    eventually("the pause is sent again", PATIENCE, || sent.load(Ordering::SeqCst) == 2);
    run.resume().await.expect("the run is resumed");
    again.cancel();
    pausing.await.expect("nothing panics").expect("the pause is answered");
    // Orders lie there until the next record of the run.
    let image = room.store().await.load(run.id()).await.expect("a run can be loaded").expect("it is there");
    let orders: Vec<_> = image.inbox.iter().map(|row| &*row.topic).collect();
    assert_eq!(orders, ["!pause", "!resume"]);
    falls.cancel();
    let result = tokio::time::timeout(PATIENCE, run).await.expect("the run goes on");
    assert_eq!(result.expect("the run completes"), 1);
    engine.stop().await.expect("it stops");
}

on_both! {
    a_process_beats_once_for_all_that_it_runs,
    a_step_that_takes_longer_than_the_lease_runs_once,
    what_was_claimed_goes_on_at_once_although_the_answer_was_lost,
    an_event_whose_answer_was_lost_is_sent_again_and_received_once,
    a_pause_whose_answer_was_lost_does_not_undo_a_later_resume,
    a_park_sent_twice_does_not_take_the_run_from_its_next_owner,
    a_park_sent_twice_does_not_park_the_run_that_the_same_node_has_claimed_again,
    a_node_that_is_cut_off_stops_what_it_runs_before_another_may_take_over,
    a_fenced_node_commits_nothing_and_starts_afresh_without_fencing_its_successor,
    a_start_that_was_committed_but_not_answered_is_one_run_under_the_next_identity,
    a_start_that_never_arrived_is_sent_again_under_the_next_identity,
    a_batch_whose_answer_was_lost_is_sent_again_and_written_once,
    an_event_that_was_committed_but_not_answered_is_received_once_under_the_next_identity,
    an_event_that_never_arrived_is_sent_again_under_the_next_identity,
    an_order_that_was_committed_but_not_answered_is_carried_out_under_the_next_identity,
    an_order_that_never_arrived_is_sent_again_under_the_next_identity,
    a_run_whose_record_could_not_be_written_goes_on_while_its_node_lives,
    a_run_whose_end_could_not_be_written_goes_on_while_its_node_lives,
    a_run_whose_owner_could_not_be_read_goes_on_while_its_node_lives,
}
