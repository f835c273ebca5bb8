//! Rows are gathered and written many at a time, and nobody can tell.

mod common;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use common::new_run;
use windlass_core::{ClaimId, NodeId, RunId, RunState, StepKind, Time};
use windlass_sqlite::{Holder, Sqlite, Transacted};
use windlass_store::{
    Act, DefinitionId, DefinitionRow, Idle, KeyConflict, KeyLife, NewEnd, NewKey, NewMessage, NewNode,
    NewRun, Owner, Parent, Place, Query, Refusal, RunImage, StepRow, Store, Unit, Wait, Written,
};

type Answers = Vec<Result<Written, Refusal>>;

/// A store with one node.
struct Scene {
    store: Sqlite,
    node: NodeId,
    definition: DefinitionId,
}

impl Scene {
    async fn new() -> Self {
        let store = Sqlite::open("sqlite::memory:").await.unwrap();
        let node = NodeId::new();
        let stale_after = Duration::from_secs(30);
        store
            .join(NewNode { id: node, name: None, version: "1".into(), queues: Vec::new(), stale_after })
            .await
            .unwrap();
        let (workflow, version, body) = (Arc::from("etl"), Arc::from("1"), Bytes::from_static(b"{}"));
        let definition = store.define(DefinitionRow { workflow, version, body }).await.unwrap();
        Self { store, node, definition }
    }

    fn owned(&self, claim: ClaimId) -> Act {
        let owner = Some(Owner { claim, definition: self.definition });
        start(NewRun { owner, ..new_run() })
    }

    async fn batch(&self, units: Vec<(RunId, Act)>) -> Answers {
        let units = units.into_iter().map(|(run, act)| Unit { run, act }).collect();
        self.store.commit(Some(self.node), Arc::new(units)).await.unwrap()
    }

    /// A run that the node holds.
    async fn held(&self) -> (RunId, ClaimId) {
        let (run, claim) = (RunId::new(), ClaimId::new());
        let answers = self.batch(vec![(run, self.owned(claim))]).await;
        assert!(matches!(answers[..], [Ok(Written::Started { owned: true, .. })]), "{answers:?}");
        (run, claim)
    }

    async fn image(&self, run: RunId) -> RunImage {
        self.store.load(run).await.unwrap().unwrap()
    }

    async fn steps(&self, run: RunId) -> Vec<String> {
        self.image(run).await.steps.iter().map(|step| step.name.to_string()).collect()
    }
}

fn start(new: NewRun) -> Act {
    Act::Start(Box::new(new))
}

fn keyed(key: &str, digest: u8) -> Act {
    let (key, digest) = (key.to_owned(), [digest; 16]);
    let key = NewKey { key, digest, life: KeyLife::Kept, conflict: KeyConflict::Refuse };
    start(NewRun { key: Some(key), ..new_run() })
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

fn record(claim: ClaimId, name: &str) -> Act {
    Act::Record { claim, steps: vec![step(name)], consumed: Vec::new(), forget: false }
}

fn end_with(claim: ClaimId, steps: Vec<StepRow>) -> Act {
    let end = NewEnd { state: RunState::Completed, output: Some(Bytes::from_static(b"2")), failure: None };
    Act::End { claim, steps, end }
}

fn cancel() -> Act {
    let end = NewEnd { state: RunState::Cancelled, output: None, failure: None };
    Act::EndIdle { only: Idle::Any, end }
}

fn send(topic: &str) -> Act {
    Act::Send(NewMessage { topic: topic.to_owned(), body: Bytes::from_static(b"1"), key: None })
}

fn is_done(answer: &Result<Written, Refusal>) -> bool {
    matches!(answer, Ok(Written::Done { .. }))
}

fn is_started(answer: &Result<Written, Refusal>) -> bool {
    matches!(answer, Ok(Written::Started { .. }))
}

#[tokio::test]
async fn a_start_sent_again_among_others_is_known_and_costs_them_nothing() {
    let scene = Scene::new().await;
    let (held, claim) = scene.held().await;
    scene.batch(vec![(held, record(claim, "a"))]).await;
    // All that comes with a start is there already, each in a table of its own.
    let again = NewRun { delay: Some(Duration::from_secs(60)), tags: vec!["eu".into()], ..new_run() };
    let again = start(NewRun { steps: vec![step("fork")], ..again });
    let known = RunId::new();
    assert!(scene.batch(vec![(known, again.clone())]).await.iter().all(is_started));
    let before = scene.image(known).await;

    let mut units: Vec<_> = (0..100).map(|_| (RunId::new(), start(new_run()))).collect();
    units[49] = (known, again);
    units.push((held, record(claim, "a")));
    units.push((held, record(claim, "b")));
    let answers = scene.batch(units).await;
    assert_eq!(answers[49], Ok(Written::Existing { run: known }));
    assert_eq!(answers.iter().filter(|answer| is_started(answer)).count(), 99, "{answers:?}");
    assert!(answers[100..].iter().all(is_done), "{answers:?}");
    assert_eq!(scene.image(known).await, before);
    assert_eq!(scene.steps(held).await, ["a", "b"]);
    let all = scene.store.find(Query { limit: 1_000, ..Query::default() }).await.unwrap();
    assert_eq!(all.runs.len(), 101);
    // The node still holds what it held.
    assert!(scene.batch(vec![(held, end_with(claim, vec![step("c")]))]).await.iter().all(is_done));
    assert_eq!(scene.steps(held).await, ["a", "b", "c"]);
}

#[tokio::test]
async fn a_held_run_that_is_started_again_stays_held() {
    let scene = Scene::new().await;
    let ((run, claim), twice) = (scene.held().await, RunId::new());
    let units = vec![
        (twice, scene.owned(ClaimId(7))),
        (run, record(claim, "a")),
        (run, scene.owned(claim)),
        (twice, scene.owned(ClaimId(8))),
        (twice, record(ClaimId(7), "a")),
        (run, end_with(claim, vec![step("b")])),
    ];
    let answers = scene.batch(units).await;
    assert!(is_started(&answers[0]) && is_done(&answers[1]), "{answers:?}");
    assert_eq!(answers[2..4], [run, twice].map(|run| Ok(Written::Existing { run })));
    assert!(answers[4..].iter().all(is_done), "{answers:?}");
    assert_eq!(scene.steps(run).await, ["a", "b"]);
    let place = Place::Owned { node: scene.node, claim: ClaimId(7) };
    assert_eq!(scene.image(twice).await.standing.place, place);
}

#[tokio::test]
async fn acts_on_a_run_see_where_the_same_batch_put_it() {
    let scene = Scene::new().await;
    let (fresh, idle) = (RunId::new(), RunId::new());
    let ((ends, claim), (released, other)) = (scene.held().await, scene.held().await);
    let units = vec![
        (fresh, start(new_run())),
        (fresh, send("news")),
        (idle, start(new_run())),
        (idle, cancel()),
        (released, Act::Release { claim: other }),
        (released, cancel()),
        (ends, record(claim, "a")),
        (ends, end_with(claim, vec![step("b")])),
        (ends, record(claim, "c")),
        (ends, end_with(claim, vec![step("b")])),
        (ends, Act::Reopen { after: 1 }),
        (ends, cancel()),
        (ends, send("late")),
    ];
    let answers = scene.batch(units).await;
    assert!(is_started(&answers[0]) && is_started(&answers[2]), "{answers:?}");
    assert!([1, 3, 4, 5, 6, 7, 8, 9, 10, 11].iter().all(|at| is_done(&answers[*at])), "{answers:?}");
    assert_eq!(answers[12], Err(Refusal::Ended(RunState::Cancelled)));
    assert_eq!(scene.steps(ends).await, ["a", "b"]);
    assert_eq!(scene.image(fresh).await.inbox.len(), 1);
    assert_eq!(scene.image(released).await.standing.state(), RunState::Cancelled);
}

#[tokio::test]
async fn a_start_sees_what_the_same_batch_made_ready() {
    let scene = Scene::new().await;
    let (first, second, third) = (RunId::new(), RunId::new(), RunId::new());
    let units = vec![
        (first, start(new_run())),
        (second, scene.owned(ClaimId::new())),
        (first, cancel()),
        (second, cancel()),
        (third, scene.owned(ClaimId::new())),
    ];
    let answers = scene.batch(units).await;
    assert!(matches!(answers[1], Ok(Written::Started { owned: false, .. })), "{answers:?}");
    assert!(matches!(answers[4], Ok(Written::Started { owned: true, .. })), "{answers:?}");
}

#[tokio::test]
async fn a_key_taken_in_the_same_batch_is_taken_and_an_id_counts_before_it() {
    let scene = Scene::new().await;
    let (first, second, third) = (RunId::new(), RunId::new(), RunId::new());
    let units = vec![
        (first, keyed("k1", 1)),
        (second, keyed("k2", 1)),
        (third, keyed("k1", 1)),
        (first, keyed("k2", 2)),
        (second, keyed("k2", 2)),
        (third, keyed("k1", 2)),
    ];
    let answers = scene.batch(units).await;
    assert!(answers[..2].iter().all(is_started), "{answers:?}");
    assert_eq!(answers[2..5], [first, first, second].map(|run| Ok(Written::Existing { run })));
    assert_eq!(answers[5], Err(Refusal::KeyTaken { run: first }));
}

#[tokio::test]
async fn steps_of_a_run_that_nothing_is_remembered_of_are_kept_once() {
    let scene = Scene::new().await;
    let (run, claim) = scene.held().await;
    scene.batch(vec![(run, record(claim, "a"))]).await;
    // A start that is there already has the writer forget, and read again.
    let repeat = (run, scene.owned(claim));
    let wait = Wait {
        state: RunState::Suspended,
        until: None,
        topics: vec!["go".into()],
        reason: None,
        blocked_by: None,
    };
    let park = Act::Park { claim, steps: vec![step("c"), step("b")], consumed: Vec::new(), wait };
    let names = ["a", "b", "b", "a"].map(|name| (run, record(claim, name)));
    let units = [repeat].into_iter().chain(names).chain([(run, send("go")), (run, park)]);
    let answers = scene.batch(units.collect()).await;
    assert!(answers[1..].iter().all(is_done), "{answers:?}");
    assert_eq!(scene.steps(run).await, ["a", "b", "c"]);
    assert_eq!(scene.image(run).await.standing.place, Place::Ready);
}

#[tokio::test]
async fn what_is_written_together_is_told_apart() {
    let scene = Scene::new().await;
    // Neighbours in a statement differ in what they have, and some of it lies in the same place in memory.
    let shared = Bytes::from_static(b"shared");
    for count in [1, 7, 8, 31, 32, 33, 41, 97] {
        let mut units = Vec::new();
        for n in 0..count {
            let some = |every: usize| (n % every == 0).then(|| Bytes::from(n.to_string()));
            let new = NewRun {
                input: if n % 2 == 0 { shared.clone() } else { shared.slice(..n % 6) },
                context: some(3),
                timeout: some(4).map(|_| Duration::from_micros(n as u64)),
                trace: some(5).map(|_| format!("trace {n}")),
                tags: some(6).map(|_| format!("tag {n}")).into_iter().collect(),
                forked_from: some(7).map(|_| RunId::new()),
                parent: some(8).map(|_| Parent { run: RunId::new(), topic: format!(">{n}") }),
                ..new_run()
            };
            let claim = ClaimId(n as u64 + 1);
            let last = StepRow {
                attempt: n as u32 % 3,
                epoch: u32::from(n % 11 == 0),
                kind: if n % 13 == 0 { StepKind::Failed } else { StepKind::Completed },
                output: if n % 3 == 0 { Some(Bytes::from_static(b"2")) } else { some(2) },
                detail: some(9),
                ..step(&format!("step {}", n % 4))
            };
            let owner = Some(Owner { claim, definition: scene.definition });
            units.push((RunId::new(), claim, NewRun { owner, ..new }, last));
        }
        let starts = units.iter().map(|(run, _, new, _)| (*run, start(new.clone()))).collect();
        assert!(scene.batch(starts).await.iter().all(is_started));
        let ends = units.iter().map(|(run, claim, _, last)| {
            (*run, end_with(*claim, vec![step(&format!("first {claim:?}")), last.clone()]))
        });
        assert!(scene.batch(ends.collect()).await.iter().all(is_done));
        for (id, claim, new, last) in units {
            let RunImage { run, steps, .. } = scene.image(id).await;
            assert_eq!((run.input, run.context, run.trace), (new.input, new.context, new.trace));
            assert_eq!((run.timeout, run.tags, run.forked_from), (new.timeout, new.tags, new.forked_from));
            assert_eq!(run.parent, new.parent);
            assert_eq!(steps, [step(&format!("first {claim:?}")), last]);
        }
    }
}

/// The answer to a commit may be an error although everything is on disk. Whoever tries again still holds the run.
#[tokio::test]
async fn a_task_whose_record_is_there_already_hears_that_and_not_that_it_lost_the_run() {
    let scene = Scene::new().await;
    let (run, claim) = scene.held().await;
    let holder = Holder { node: scene.node, run, claim };
    let transact = |holder| scene.store.transact(holder, |_| Ok::<_, String>(step("a")));
    assert!(matches!(transact(holder).await, Ok(Transacted::Committed)));
    assert!(matches!(transact(holder).await, Ok(Transacted::Before)));
    let stranger = Holder { claim: ClaimId::new(), ..holder };
    assert!(matches!(transact(stranger).await, Ok(Transacted::NotYours)));
    assert_eq!(scene.steps(run).await, ["a"]);
}
