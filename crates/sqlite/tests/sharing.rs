//! Several who have one file open.

mod common;

use std::{path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use common::new_run;
use windlass_core::{ClaimId, NodeId, RunId, RunState, StepKind, Time};
use windlass_sqlite::{CommitMoment, Sqlite, SqliteOptions};
use windlass_store::{
    Act, Claim, Death, DefinitionId, DefinitionRow, Hint, NewEnd, NewNode, NewRun, Owner, Place, Refusal,
    StepRow, Store, StoreError, Unit, Written,
};

const LONG: Duration = Duration::from_secs(30);

struct Scene {
    directory: tempfile::TempDir,
}

/// One who has the file open.
struct Party {
    store: Sqlite,
    node: NodeId,
    definition: DefinitionId,
}

impl Scene {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("app.db")
    }

    async fn party(&self) -> Party {
        self.party_with(SqliteOptions::new()).await
    }

    async fn party_with(&self, options: SqliteOptions) -> Party {
        let store = options.open(self.file().to_str().unwrap()).await.unwrap();
        let node = NodeId::new();
        store.join(new_node(node)).await.unwrap();
        let row = DefinitionRow {
            workflow: Arc::from("etl"),
            version: Arc::from("1"),
            body: Bytes::from_static(b"{}"),
        };
        let definition = store.define(row).await.unwrap();
        Party { store, node, definition }
    }
}

fn owned(owner: Option<Owner>) -> NewRun {
    NewRun { owner, ..new_run() }
}

fn new_node(id: NodeId) -> NewNode {
    let stale_after = LONG;
    NewNode { id, name: None, version: "1".into(), queues: vec!["default".into()], stale_after }
}

fn step(name: &str) -> StepRow {
    StepRow {
        generation: 1,
        name: Arc::from(name),
        attempt: 1,
        epoch: 0,
        kind: StepKind::Completed,
        started_at: Time(1),
        ended_at: Time(2),
        output: Some(Bytes::from_static(b"2")),
        detail: None,
    }
}

fn end(claim: ClaimId) -> Act {
    let end = NewEnd { state: RunState::Completed, output: Some(Bytes::from_static(b"2")), failure: None };
    Act::End { claim, steps: vec![step("last")], end }
}

impl Party {
    async fn start_owned(&self, claim: ClaimId) -> RunId {
        let run = RunId::new();
        let owner = Owner { claim, definition: self.definition };
        let written = self.act(run, Act::Start(Box::new(owned(Some(owner))))).await.unwrap();
        assert!(matches!(written, Written::Started { owned: true, .. }), "{written:?}");
        run
    }

    async fn act(&self, run: RunId, act: Act) -> Result<Written, Refusal> {
        let batch = Arc::new(vec![Unit { run, act }]);
        self.store.commit(Some(self.node), batch).await.unwrap().remove(0)
    }

    async fn record(&self, run: RunId, claim: ClaimId, name: &str) -> Result<Written, Refusal> {
        self.act(run, Act::Record { claim, steps: vec![step(name)], consumed: Vec::new(), forget: false })
            .await
    }

    async fn claim(&self, claim: ClaimId, room: usize) -> Vec<RunId> {
        let request = Claim {
            node: self.node,
            claim,
            room,
            queues: vec![(Arc::from("default"), room)],
            workflows: vec![(Arc::from("etl"), self.definition)],
            bytes: 1 << 20,
            kept: Vec::new(),
            free_own: false,
        };
        let claimed = self.store.claim(request).await.unwrap();
        claimed.runs.iter().map(|image| image.run.id).collect()
    }
}

#[tokio::test]
async fn a_run_is_claimed_by_one_of_two_and_its_records_go_along() {
    let scene = Scene::new();
    let (first, second) = (scene.party().await, scene.party().await);
    let claim = ClaimId::new();
    let run = first.start_owned(claim).await;
    first.record(run, claim, "extract").await.unwrap();
    assert_eq!(second.claim(ClaimId::new(), 10).await, []);

    first.act(run, Act::Release { claim }).await.unwrap();
    let next = ClaimId::new();
    assert_eq!(second.claim(next, 10).await, [run]);
    assert_eq!(first.record(run, claim, "late").await, Err(Refusal::NotYours));
    second.record(run, next, "extract").await.unwrap();
    second.record(run, next, "transform").await.unwrap();
    second.act(run, end(next)).await.unwrap();

    let image = first.store.load(run).await.unwrap().unwrap();
    let names: Vec<_> = image.steps.iter().map(|step| &*step.name).collect();
    assert_eq!(names, ["extract", "transform", "last"]);
}

/// How many rows say what nodes hold, and how many bytes they have.
fn holdings(scene: &Scene) -> (i64, i64) {
    let conn = rusqlite::Connection::open(scene.file()).unwrap();
    conn.query_row("SELECT count(*), coalesce(sum(length(runs)), 0) FROM holding", [], |row| {
        Ok((row.get(0)?, row.get(1)?))
    })
    .unwrap()
}

#[tokio::test]
async fn what_a_node_holds_is_written_once_shrinks_and_goes() {
    let scene = Scene::new();
    let (party, heir) = (scene.party().await, scene.party().await);
    let claim = ClaimId::new();
    let starts: Vec<_> = (0..200)
        .map(|_| {
            let owner = Some(Owner { claim, definition: party.definition });
            Unit { run: RunId::new(), act: Act::Start(Box::new(owned(owner))) }
        })
        .collect();
    let runs: Vec<_> = starts.iter().map(|unit| unit.run).collect();
    party.store.commit(Some(party.node), Arc::new(starts)).await.unwrap();
    let (rows, all) = holdings(&scene);
    assert_eq!(rows, 1);

    let ends =
        |runs: &[RunId]| Arc::new(runs.iter().map(|run| Unit { run: *run, act: end(claim) }).collect());
    party.store.commit(Some(party.node), ends(&runs[..100])).await.unwrap();
    assert_eq!(holdings(&scene), (1, all), "half of it is worth keeping as it is");
    party.store.commit(Some(party.node), ends(&runs[100..160])).await.unwrap();
    assert_eq!(holdings(&scene), (1, all / 5), "a fifth is not");

    // What is left is found by whoever takes over.
    party.store.close().await;
    assert!(heir.store.declare_dead(heir.node, party.node, Death::Gone).await.unwrap());
    let swept = heir.store.sweep(heir.node, 30).await.unwrap();
    assert_eq!((swept.released, swept.more), (30, true));
    let swept = heir.store.sweep(heir.node, 30).await.unwrap();
    assert_eq!((swept.released, swept.more), (10, false));
    assert_eq!(holdings(&scene), (0, 0));
    let mut taken = heir.claim(ClaimId::new(), 200).await;
    taken.sort();
    assert_eq!(taken, runs[160..]);
    assert_eq!(heir.store.nodes().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_run_that_changed_hands_belongs_to_the_last_one_who_got_it() {
    let scene = Scene::new();
    let (first, second) = (scene.party().await, scene.party().await);
    let (claim, next) = (ClaimId::new(), ClaimId::new());
    // Two runs come in one row, and only one of them goes: the row of the first node still lists it.
    let owner = || Some(Owner { claim, definition: first.definition });
    let (stays, goes) = (RunId::new(), RunId::new());
    let starts = [stays, goes].map(|run| Unit { run, act: Act::Start(Box::new(owned(owner()))) });
    first.store.commit(Some(first.node), Arc::new(starts.into())).await.unwrap();
    first.act(goes, Act::Release { claim }).await.unwrap();
    assert_eq!(second.claim(next, 10).await, [goes]);
    assert_eq!(holdings(&scene).0, 2);

    let place = |run| {
        let store = &first.store;
        async move { store.load(run).await.unwrap().unwrap().standing.place }
    };
    assert_eq!(place(goes).await, Place::Owned { node: second.node, claim: next });
    assert_eq!(place(stays).await, Place::Owned { node: first.node, claim });
    first.store.leave(first.node).await.unwrap();
    assert_eq!(place(goes).await, Place::Owned { node: second.node, claim: next });
    assert_eq!(place(stays).await, Place::Ready);
}

#[tokio::test]
async fn a_node_that_acts_through_two_handles_is_believed_by_neither() {
    let scene = Scene::new();
    let (mut first, second) = (scene.party().await, scene.party().await);
    let claim = ClaimId::new();
    let run = second.start_owned(claim).await;
    second.record(run, claim, "extract").await.unwrap();

    // The same node, through the other handle: what the first handle knew is not true any more.
    first.node = second.node;
    first.record(run, claim, "extract").await.unwrap();
    first.record(run, claim, "transform").await.unwrap();
    second.record(run, claim, "transform").await.unwrap();
    second.record(run, claim, "check").await.unwrap();
    first.act(run, Act::Release { claim }).await.unwrap();
    assert_eq!(second.record(run, claim, "late").await, Err(Refusal::NotYours));

    let image = second.store.load(run).await.unwrap().unwrap();
    let names: Vec<_> = image.steps.iter().map(|step| &*step.name).collect();
    assert_eq!(names, ["extract", "transform", "check"]);
}

#[tokio::test]
async fn the_commit_of_another_is_hinted_within_milliseconds() {
    let scene = Scene::new();
    let (first, second) = (scene.party().await, scene.party().await);
    let mut hints = first.store.hints();
    while hints.try_recv().is_ok() {}
    second.start_owned(ClaimId::new()).await;
    let hint = tokio::time::timeout(LONG, hints.recv()).await.expect("a hint comes").unwrap();
    assert_eq!(hint, Hint::Changed);
}

#[tokio::test]
async fn what_a_node_does_alone_is_not_hinted_to_itself() {
    let scene = Scene::new();
    let party = scene.party().await;
    let mut hints = party.store.hints();
    let claim = ClaimId::new();
    let run = party.start_owned(claim).await;
    party.act(run, end(claim)).await.unwrap();
    assert!(hints.try_recv().is_err());
}

#[tokio::test]
async fn what_a_client_does_on_the_same_handle_is_hinted() {
    let scene = Scene::new();
    let party = scene.party().await;
    let mut hints = party.store.hints();
    let unit = Unit { run: RunId::new(), act: Act::Start(Box::new(owned(None))) };
    party.store.commit(None, Arc::new(vec![unit])).await.unwrap();
    let hint = tokio::time::timeout(LONG, hints.recv()).await.expect("a hint comes").unwrap();
    assert_eq!(hint, Hint::Changed);
}

#[tokio::test]
async fn a_batch_that_is_written_twice_is_hinted_to_the_other_node_of_its_handle() {
    let scene = Scene::new();
    let party = scene.party().await;
    party.store.join(new_node(NodeId::new())).await.unwrap();
    let known = party.start_owned(ClaimId::new()).await;
    let mut hints = party.store.hints();
    while hints.try_recv().is_ok() {}
    // A start that is there already has the writer give the batch up and forget what it knows.
    let start = |run| Unit { run, act: Act::Start(Box::new(owned(None))) };
    let batch = Arc::new(vec![start(known), start(RunId::new())]);
    party.store.commit(Some(party.node), batch).await.unwrap();
    let hint =
        tokio::time::timeout(Duration::from_secs(3), hints.recv()).await.expect("a hint comes").unwrap();
    assert_eq!(hint, Hint::Changed);
}

#[tokio::test]
async fn who_shares_a_transaction_with_a_repeated_start_is_answered_as_if_alone() {
    let scene = Scene::new();
    let slow = |moment| match moment {
        CommitMoment::Before(_) => std::thread::sleep(Duration::from_millis(100)),
        CommitMoment::After(_) => {}
    };
    let party = scene.party_with(SqliteOptions::new().on_commit(slow)).await;
    let (claim, other) = (ClaimId::new(), ClaimId::new());
    let (ends, records) = (party.start_owned(claim).await, party.start_owned(other).await);
    let commit = |node, run, act| party.store.commit(node, Arc::new(vec![Unit { run, act }]));
    let me = Some(party.node);
    let again = Act::Start(Box::new(owned(None)));
    let first = party.store.heartbeat(party.node, 0.into());
    let record = Act::Record { claim: other, steps: vec![step("a")], consumed: Vec::new(), forget: false };
    let (ended, recorded, known) =
        (commit(me, ends, end(claim)), commit(me, records, record), commit(None, ends, again));
    first.await.unwrap();
    let answers =
        (ended.await.unwrap().remove(0), recorded.await.unwrap().remove(0), known.await.unwrap().remove(0));
    assert!(
        matches!(answers, (Ok(Written::Done { .. }), Ok(Written::Done { .. }), Ok(Written::Existing { .. }))),
        "{answers:?}"
    );
    party.record(records, other, "b").await.unwrap();
    let image = party.store.load(records).await.unwrap().unwrap();
    assert_eq!(image.steps.iter().map(|step| &*step.name).collect::<Vec<_>>(), ["a", "b"]);
}

/// One who starts runs, does something with each, takes what others left, and says much of it twice.
async fn bustle(store: Arc<Sqlite>, definition: DefinitionId, seed: u64) -> Vec<(RunId, bool)> {
    let node = NodeId::new();
    store.join(new_node(node)).await.unwrap();
    let mut all = Vec::new();
    for round in 0..25_u64 {
        let dice = |n: u64| (seed * 31 + round * 17 + n * 7) % 10;
        let claim = ClaimId::new();
        let owner = Owner { claim, definition };
        let runs: Vec<_> = (0..1 + (seed * 13 + round * 29) % 50).map(|_| RunId::new()).collect();
        let starts = runs.iter().zip(0..).map(|(run, n)| {
            let mut new = owned((dice(n) > 0).then(|| owner.clone()));
            new.queue = Arc::from(format!("queue-{seed}"));
            Unit { run: *run, act: Act::Start(Box::new(new)) }
        });
        let starts = Arc::new(starts.collect::<Vec<_>>());
        let answers = store.commit(Some(node), Arc::clone(&starts)).await.unwrap();
        let owned: Vec<_> =
            answers.iter().map(|answer| matches!(answer, Ok(Written::Started { owned: true, .. }))).collect();
        assert!(answers.iter().all(|answer| matches!(answer, Ok(Written::Started { .. }))), "{answers:?}");
        if dice(0) < 4 {
            let again = store.commit(Some(node), starts).await.unwrap();
            for (answer, run) in again.into_iter().zip(&runs) {
                assert_eq!(answer, Ok(Written::Existing { run: *run }));
            }
        }
        let mine: Vec<_> =
            runs.iter().zip(&owned).filter(|(_, owned)| **owned).map(|(run, _)| *run).collect();
        let units = mine.iter().zip(0..).flat_map(|(run, n)| {
            let record =
                Act::Record { claim, steps: vec![step("first")], consumed: Vec::new(), forget: false };
            let last = if dice(n) < 7 { end(claim) } else { Act::Release { claim } };
            [record, last].map(|act| Unit { run: *run, act })
        });
        let units = Arc::new(units.collect::<Vec<_>>());
        let answers = store.commit(Some(node), Arc::clone(&units)).await.unwrap();
        assert!(answers.iter().all(|answer| matches!(answer, Ok(Written::Done { .. }))), "{answers:?}");
        if dice(1) < 4 {
            for (chunk, before) in
                store.commit(Some(node), units).await.unwrap().chunks(2).zip(answers.chunks(2))
            {
                let refused = chunk == [Err(Refusal::NotYours), Err(Refusal::Earlier)];
                assert!(refused || chunk == before, "{chunk:?} after {before:?}");
            }
        }
        let claim = ClaimId::new();
        let request = Claim {
            node,
            claim,
            room: 30,
            queues: (0..4).map(|n| (Arc::from(format!("queue-{n}")), 30)).collect(),
            workflows: vec![(Arc::from("etl"), definition)],
            bytes: 1 << 20,
            kept: Vec::new(),
            free_own: false,
        };
        let taken = store.claim(request.clone()).await.unwrap().runs;
        if dice(2) < 4 && !taken.is_empty() {
            assert_eq!(store.claim(request).await.unwrap().runs, taken);
        }
        let ends = taken.iter().map(|image| Unit { run: image.run.id, act: end(claim) });
        let answers = store.commit(Some(node), Arc::new(ends.collect())).await.unwrap();
        assert!(answers.iter().all(|answer| matches!(answer, Ok(Written::Done { .. }))), "{answers:?}");
        all.extend(runs.into_iter().zip(owned));
    }
    store.leave(node).await.unwrap();
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_who_say_much_of_it_twice_lose_nothing() {
    let scene = Scene::new();
    let (one, two) = (scene.party().await, scene.party().await);
    let definition = one.definition;
    let stores = [Arc::new(one.store), Arc::new(two.store)];
    let busy: Vec<_> =
        (0..4).map(|n| tokio::spawn(bustle(Arc::clone(&stores[n as usize % 2]), definition, n))).collect();
    let mut all = Vec::new();
    for one in busy {
        all.extend(one.await.unwrap());
    }
    for (run, owned) in &all {
        let image = stores[0].load(*run).await.unwrap().unwrap();
        let names: Vec<_> = image.steps.iter().map(|step| &*step.name).collect();
        let ended = matches!(image.standing.place, Place::Ended(_));
        assert!(ended || image.standing.place == Place::Ready, "{image:?}");
        let first = if *owned { &["first"][..] } else { &[] };
        assert_eq!(names, if ended { [first, &["last"]].concat() } else { first.to_vec() });
    }
    let places = rusqlite::Connection::open(scene.file()).unwrap();
    let count = |sql: &str| places.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(count("SELECT count(*) FROM run"), all.len() as i64);
    assert_eq!(count("SELECT (SELECT count(*) FROM ready) + (SELECT count(*) FROM ended)"), all.len() as i64);
}

#[tokio::test]
async fn the_runs_of_a_process_that_is_gone_are_taken_over_at_once() {
    let scene = Scene::new();
    let (dead, living) = (scene.party().await, scene.party().await);
    let mut hints = living.store.hints();
    let run = dead.start_owned(ClaimId::new()).await;
    let beat = living.store.heartbeat(living.node, 0.into()).await.unwrap();
    assert_eq!(beat.gone, []);
    assert!(!living.store.declare_dead(living.node, dead.node, Death::Gone).await.unwrap());

    // Closing without leaving is what the end of a process does: its locks go.
    dead.store.close().await;
    let gone = async {
        loop {
            if hints.recv().await.unwrap() == Hint::Gone(dead.node) {
                return;
            }
        }
    };
    tokio::time::timeout(LONG, gone).await.expect("the death is hinted");
    assert_eq!(living.store.heartbeat(living.node, 0.into()).await.unwrap().gone, [dead.node]);
    assert!(living.store.declare_dead(living.node, dead.node, Death::Gone).await.unwrap());
    assert_eq!(living.store.sweep(living.node, 10).await.unwrap().released, 1);
    assert_eq!(living.claim(ClaimId::new(), 10).await, [run]);
    assert_eq!(living.store.load(run).await.unwrap().unwrap().standing.recoveries, 1);

    let locks = scene.directory.path().join("app.db-locks");
    assert!(!locks.join(format!("node-{}", dead.node)).exists());
    assert!(locks.join(format!("node-{}", living.node)).exists());
}

#[tokio::test]
async fn a_fenced_node_changes_nothing_and_lets_its_lock_go() {
    let scene = Scene::new();
    let (frozen, judge) = (scene.party().await, scene.party().await);
    let claim = ClaimId::new();
    let run = frozen.start_owned(claim).await;
    let named = |id| NewNode { name: Some("web".into()), ..new_node(id) };
    let (old, new) = (NodeId::new(), NodeId::new());
    frozen.store.join(named(old)).await.unwrap();
    assert_eq!(judge.store.join(named(new)).await.unwrap().fenced, [old]);

    let units = Arc::new(vec![Unit { run, act: Act::Release { claim } }]);
    let answer = frozen.store.commit(Some(old), units).await;
    assert!(matches!(answer, Err(StoreError::Fenced)), "{answer:?}");
    let image = judge.store.load(run).await.unwrap().unwrap();
    assert_eq!(image.standing.place, Place::Owned { node: frozen.node, claim });
    let lock = scene.directory.path().join("app.db-locks").join(format!("node-{old}"));
    assert!(!lock.exists());
}

#[tokio::test]
async fn a_node_that_joins_in_the_transaction_that_fenced_it_keeps_its_lock() {
    let scene = Scene::new();
    // Whatever is asked while a commit takes its time shares the next transaction.
    let slow = |moment| match moment {
        CommitMoment::Before(_) => std::thread::sleep(Duration::from_millis(100)),
        CommitMoment::After(_) => {}
    };
    let party = scene.party_with(SqliteOptions::new().on_commit(slow)).await;
    let early = NodeId::new();
    let first = party.store.heartbeat(party.node, 0.into());
    let (fenced, joined) = (party.store.heartbeat(early, 0.into()), party.store.join(new_node(early)));
    let (left, again) = (party.store.leave(party.node), party.store.join(new_node(party.node)));
    first.await.unwrap();
    assert!(matches!(fenced.await, Err(StoreError::Fenced)));
    joined.await.unwrap();
    left.await.unwrap();
    again.await.unwrap();
    // The next transaction begins when all is done that follows the last one.
    party.store.heartbeat(early, 0.into()).await.unwrap();
    for node in [early, party.node] {
        assert!(scene.directory.path().join("app.db-locks").join(format!("node-{node}")).exists());
    }
}

#[tokio::test]
async fn the_lock_of_a_node_that_nobody_knows_and_whose_process_is_gone_is_cleared_away() {
    let scene = Scene::new();
    let (party, other) = (scene.party().await, scene.party().await);
    let locks = scene.directory.path().join("app.db-locks");
    let (left, dead) =
        (locks.join(format!("node-{}", NodeId::new())), locks.join(format!("node-{}", other.node)));
    std::fs::write(&left, "").unwrap();
    other.store.close().await;
    let beat = party.store.heartbeat(party.node, 0.into()).await.unwrap();
    assert_eq!(beat.gone, [other.node]);
    assert!(!left.exists());
    assert!(dead.exists() && locks.join(format!("node-{}", party.node)).exists());
}

#[tokio::test]
async fn a_node_that_leaves_takes_its_lock_along() {
    let scene = Scene::new();
    let party = scene.party().await;
    let lock = scene.directory.path().join("app.db-locks").join(format!("node-{}", party.node));
    assert!(lock.exists());
    party.store.leave(party.node).await.unwrap();
    assert!(!lock.exists());
}

#[tokio::test]
async fn two_who_write_as_fast_as_they_can_both_get_their_turns() {
    let scene = Scene::new();
    let (first, second) = (scene.party().await, scene.party().await);
    let work = async |party: &Party| {
        for _ in 0..100 {
            let claim = ClaimId::new();
            let run = party.start_owned(claim).await;
            party.act(run, end(claim)).await.unwrap();
        }
    };
    tokio::join!(work(&first), work(&second));
    let query = windlass_store::Query { limit: 1000, ..Default::default() };
    let page = first.store.find(query).await.unwrap();
    assert_eq!(page.runs.len(), 200);
    assert!(page.runs.iter().all(|run| run.standing.state() == RunState::Completed));
}

/// Another program writes to the file for a while, and says when it has begun.
fn write_elsewhere(file: PathBuf) -> std::thread::JoinHandle<()> {
    let (begun, is_begun) = std::sync::mpsc::channel();
    let writing = std::thread::spawn(move || {
        let program = rusqlite::Connection::open(file).unwrap();
        program.execute_batch("BEGIN IMMEDIATE").unwrap();
        begun.send(()).unwrap();
        // For so long it writes: nobody waits for anything here.
        std::thread::sleep(Duration::from_millis(150));
        program.execute_batch("COMMIT").unwrap();
    });
    is_begun.recv().unwrap();
    writing
}

#[tokio::test]
async fn whatever_writes_waits_while_another_program_does_and_is_never_told_that_the_file_is_busy() {
    let scene = Scene::new();
    let party = scene.party().await;
    let ready = Act::Start(Box::new(owned(None)));
    party.act(RunId::new(), ready.clone()).await.unwrap();

    let writing = write_elsewhere(scene.file());
    party.act(RunId::new(), ready).await.unwrap();
    writing.join().unwrap();

    let writing = write_elsewhere(scene.file());
    assert_eq!(party.claim(ClaimId::new(), 10).await.len(), 2);
    writing.join().unwrap();

    let writing = write_elsewhere(scene.file());
    party.store.heartbeat(party.node, 2.into()).await.unwrap();
    writing.join().unwrap();

    let writing = write_elsewhere(scene.file());
    party.store.sweep(party.node, 10).await.unwrap();
    writing.join().unwrap();

    let writing = write_elsewhere(scene.file());
    party.store.leave(party.node).await.unwrap();
    writing.join().unwrap();
}
