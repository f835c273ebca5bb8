//! Three processes share one file while one of them is killed and another is frozen past its lease.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use windlass::{Client, RunId, RunState};
use windlass_core::NodeId;
use windlass_store::{Place, Query, RunSummary, Store};

use crate::{
    child::Child,
    eventually::{PATIENCE, eventually, eventually_async},
    graph,
    ledger::{self, Attempt},
    role::{Part, Role},
    room::Room,
};

const RUNS: usize = 5000;
pub const LEASE: Duration = Duration::from_secs(3);
/// How many runs each process holds at most.
const HELD: usize = 100;
/// How long each step takes, in milliseconds.
const STEP: u64 = 50;

/// A process that holds so many runs at most.
pub fn serving(name: &str, room: &Room, held: usize) -> Child {
    let role = Role::new(name, room, Part::Serve).max_runs(held).park_after(Duration::from_millis(500));
    Child::ready(role.lease(Duration::from_millis(500), LEASE))
}

/// Waits until three processes have all begun as many attempts as they hold runs.
pub fn all_work(room: &Room, held: usize) {
    eventually("all three work", PATIENCE, || {
        let effects = ledger::effects(&room.effects());
        let worked = |by: &str| effects.iter().filter(|effect| effect.process() == by).count();
        ["killed", "frozen", "sound"].iter().all(|by| worked(by) > held)
    });
}

/// Every run there is.
pub async fn all(store: &dyn Store) -> Vec<RunSummary> {
    let mut query = Query { limit: 1000, ..Query::default() };
    let mut runs = Vec::new();
    loop {
        let page = store.find(query.clone()).await.expect("runs can be found");
        query.after = page.runs.last().map(|run| run.id);
        runs.extend(page.runs);
        if !page.more {
            return runs;
        }
    }
}

pub async fn held_by(store: &dyn Store, node: NodeId) -> Vec<RunId> {
    let query = Query { states: vec![RunState::Running], limit: 2000, ..Query::default() };
    let running = store.find(query).await.expect("runs can be found").runs;
    let held =
        |run: &RunSummary| matches!(run.standing.place, Place::Owned { node: holder, .. } if holder == node);
    running.iter().filter(|run| held(run)).map(|run| run.id).collect()
}

/// Whether all of these runs have gone from a node, and on.
async fn go_on(store: &dyn Store, runs: &[RunId], node: NodeId) -> bool {
    for run in runs {
        let image = store.load(*run).await.expect("a run can be loaded").expect("the run is there");
        let goes_on = match image.standing.place {
            Place::Owned { node: holder, .. } => holder != node,
            Place::Ended(_) => true,
            Place::Ready | Place::Waiting(_) => false,
        };
        if !goes_on {
            return false;
        }
    }
    true
}

/// The living node of a process.
pub async fn node_of(client: &Client, child: &Child) -> Option<NodeId> {
    let nodes = client.nodes().await.expect("nodes can be listed");
    nodes.iter().find(|node| node.pid == child.pid() && !node.dead).map(|node| node.id)
}

#[tokio::test(flavor = "multi_thread")]
async fn three_processes_share_five_thousand_runs_while_one_is_killed_and_one_is_a_zombie() {
    let room = Room::new();
    let [mut killed, mut frozen, sound] =
        ["killed", "frozen", "sound"].map(|name| serving(name, &room, HELD));
    let (client, store) = (room.client().await, room.store().await);
    let workflow = graph::pair(&std::sync::Arc::new(ledger::Ledger::open(&room.effects(), "nobody")));
    let started = client.start_many(workflow, vec![STEP; RUNS]).await.expect("the runs start");
    assert_eq!(started.len(), RUNS);

    all_work(&room, HELD);
    let node = node_of(&client, &killed).await.expect("the process is a node");
    killed.kill();
    let began = Instant::now();
    let orphans = held_by(&*store, node).await;
    assert!(!orphans.is_empty(), "the killed process held nothing, so this shows nothing");
    eventually_async("the runs of the killed process go on", PATIENCE, || go_on(&*store, &orphans, node))
        .await;
    let took = began.elapsed();
    assert!(took < Duration::from_secs(1), "{} runs went on only after {took:?}", orphans.len());

    let while_frozen = freeze_past_lease(&room, &client, &mut frozen).await;
    thaw_and_finish(&client, frozen, sound).await;

    let all = all(&*store).await;
    assert_eq!(all.len(), RUNS);
    assert!(all.iter().all(|run| run.standing.state() == RunState::Completed));
    check_ends(&room, RUNS, HELD);
    let executed = check_effects(&room, while_frozen, HELD);
    assert_eq!(executed.len(), 2 * RUNS, "two steps of each run, each in one attempt");
}

/// Freezes a process just before it ends a run, until it is declared dead and swept. Answers how many effects there
/// were then.
pub async fn freeze_past_lease(room: &Room, client: &Client, frozen: &mut Child) -> usize {
    let node = node_of(client, frozen).await.expect("the process is a node");
    frozen.tell("freeze before an end");
    frozen.freeze_in_trap();
    eventually_async("the frozen process is declared dead and swept", PATIENCE, || async {
        let nodes = client.nodes().await.expect("nodes can be listed");
        nodes.iter().all(|other| other.id != node)
    })
    .await;
    ledger::effects(&room.effects()).len()
}

/// Lets a frozen process go on, and sees all runs to their ends.
pub async fn thaw_and_finish(client: &Client, mut frozen: Child, sound: Child) {
    frozen.thaw();
    assert_eq!(frozen.hear("late"), "this node was declared dead", "the late write is refused");
    eventually_async("the frozen process is back under another name", PATIENCE, || async {
        node_of(client, &frozen).await.is_some()
    })
    .await;
    eventually_async("all runs complete", PATIENCE, || async {
        client.runs().live().limit(1).list().await.expect("runs can be found").is_empty()
    })
    .await;
    frozen.stop();
    sound.stop();
}

/// No run was ended twice: under two claims, or by two processes.
pub fn check_ends(room: &Room, runs: usize, held: usize) {
    let mut ends: HashMap<String, HashSet<String>> = HashMap::new();
    for line in room.lines("ends") {
        let (run, by) = line.split_once(' ').expect("a run and who ended it");
        ends.entry(run.to_owned()).or_default().insert(by.to_owned());
    }
    // What the killed process ended in its last moment it could not write down.
    assert!(ends.len() > runs - held, "only {} ends were noted", ends.len());
    for (run, by) in ends {
        assert_eq!(by.len(), 1, "run {run} was ended by {by:?}");
    }
}

/// What was executed twice had been in flight in a node that was disturbed, and each node executed it once. Answers all
/// that was executed.
pub fn check_effects(room: &Room, while_frozen: usize, held: usize) -> HashSet<Attempt> {
    let effects = ledger::effects(&room.effects());
    // Each of its two threads may have been frozen on the way to its next line.
    let late = effects.iter().skip(while_frozen).filter(|effect| effect.by == "frozen#1").count();
    assert!(late <= 2, "a node that lost its lease began {late} attempts");
    // On a slow machine a process may lose its lease without our doing, and goes on as another node.
    let nodes: HashSet<String> = effects.iter().map(|effect| effect.by.clone()).collect();
    let last = |process: &str| nodes.iter().filter(|node| ledger::process(node) == process).max().cloned();
    let undisturbed = ["sound", "frozen"].into_iter().filter_map(last);
    // The frozen process may find nothing left to do when it is back.
    let undisturbed: HashSet<String> = undisturbed.filter(|node| node != "frozen#1").collect();
    let by_attempt = ledger::by_attempt(effects);
    let mut repeats = 0;
    for (attempt, by) in &by_attempt {
        assert_eq!(
            by.iter().collect::<HashSet<_>>().len(),
            by.len(),
            "{attempt:?} ran twice in one node: {by:?}"
        );
        let sound = by.iter().filter(|node| undisturbed.contains(*node)).count();
        assert!(sound <= 1, "{attempt:?} ran in two nodes that were not disturbed: {by:?}");
        repeats += by.len() - 1;
    }
    let disturbed = nodes.len() - undisturbed.len();
    // Beside the runs that a node holds, half as many may be there whose end is being written.
    let in_flight = held + held / 2;
    assert!(
        repeats <= disturbed * in_flight,
        "{repeats} repeats, but {disturbed} nodes had {in_flight} runs in flight each"
    );
    by_attempt.into_keys().collect()
}
