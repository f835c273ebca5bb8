//! How the cases speak with a store.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use windlass_core::{ClaimId, NodeId, RunId, RunState, StepKind, Time};

use super::Fixture;
use crate::{
    Act, Claim, Claimed, DefinitionId, DefinitionRow, KeyConflict, KeyLife, NewEnd, NewKey, NewMessage,
    NewNode, NewRun, Owner, Place, Query, Refusal, RunImage, StepRow, Store, StoreError, Unit, Wait, Written,
};

pub(super) const SECOND: Duration = Duration::from_secs(1);
/// After this long without a heartbeat the nodes of a scene are stale.
pub(super) const STALE: Duration = Duration::from_secs(30);

/// A store in a test, with what every case does again and again.
pub(super) struct Scene<F> {
    pub(super) fixture: F,
    pub(super) store: Arc<dyn Store>,
    count: AtomicU64,
}

/// A run in the hands of a node.
#[derive(Clone, Copy)]
pub(super) struct Held {
    pub(super) node: NodeId,
    pub(super) claim: ClaimId,
    pub(super) run: RunId,
}

impl<F: Fixture> Scene<F> {
    pub(super) fn new(fixture: F) -> Self {
        let store = fixture.store();
        Self { fixture, store, count: AtomicU64::new(0) }
    }

    pub(super) fn advance(&self, span: Duration) {
        self.fixture.advance(span);
    }

    fn number(&self) -> u64 {
        self.count.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// An id that sorts after all earlier ones of this scene.
    pub(super) fn run_id(&self) -> RunId {
        RunId::from_bytes(u128::from(self.number()).to_be_bytes())
    }

    pub(super) fn node_id(&self) -> NodeId {
        NodeId::from_bytes(u128::from(self.number()).to_be_bytes())
    }

    pub(super) fn claim_id(&self) -> ClaimId {
        ClaimId(self.number())
    }

    pub(super) async fn node(&self) -> NodeId {
        let id = self.node_id();
        self.store.join(new_node(id)).await.expect("a fresh node joins");
        id
    }

    pub(super) async fn named(&self, name: &str) -> (NodeId, Vec<NodeId>) {
        let id = self.node_id();
        let node = NewNode { name: Some(name.into()), ..new_node(id) };
        (id, self.store.join(node).await.expect("a fresh node joins").fenced)
    }

    pub(super) async fn define(&self, workflow: &str, version: &str) -> DefinitionId {
        let row = DefinitionRow { workflow: workflow.into(), version: version.into(), body: b("{}") };
        self.store.define(row).await.expect("a definition is kept")
    }

    /// Commits one act.
    pub(super) async fn write(
        &self,
        node: impl Into<Option<NodeId>>,
        run: RunId,
        act: Act,
    ) -> Result<Written, Refusal> {
        self.batch(node, vec![(run, act)]).await.remove(0)
    }

    /// Commits one act that must be done.
    pub(super) async fn done(&self, node: impl Into<Option<NodeId>>, run: RunId, act: Act) -> Time {
        match self.write(node, run, act).await {
            Ok(Written::Done { at }) => at,
            other => panic!("expected an act to be done, but: {other:?}"),
        }
    }

    pub(super) async fn batch(
        &self,
        node: impl Into<Option<NodeId>>,
        acts: Vec<(RunId, Act)>,
    ) -> Vec<Result<Written, Refusal>> {
        let count = acts.len();
        let answers = self.try_batch(node, acts).await.expect("the store commits");
        assert_eq!(answers.len(), count, "every unit is answered");
        answers
    }

    pub(super) async fn try_batch(
        &self,
        node: impl Into<Option<NodeId>>,
        acts: Vec<(RunId, Act)>,
    ) -> Result<Vec<Result<Written, Refusal>>, StoreError> {
        let units = acts.into_iter().map(|(run, act)| Unit { run, act }).collect();
        self.store.commit(node.into(), Arc::new(units)).await
    }

    /// Starts a plain run, which is then ready.
    pub(super) async fn start(&self) -> RunId {
        self.start_as(new_run()).await
    }

    pub(super) async fn start_as(&self, new: NewRun) -> RunId {
        let run = self.run_id();
        match self.write(None, run, start(new)).await {
            Ok(Written::Started { owned: false, .. }) => run,
            other => panic!("expected a run to be started, but: {other:?}"),
        }
    }

    /// A node that holds a fresh run.
    pub(super) async fn held(&self) -> Held {
        let node = self.node().await;
        self.held_by(node).await
    }

    pub(super) async fn held_by(&self, node: NodeId) -> Held {
        let run = self.start().await;
        let (claim, runs) = self.take(node).await;
        assert_eq!(runs, [run], "nothing else was ready");
        Held { node, claim, run }
    }

    /// A run that was held once and is now ready again.
    pub(super) async fn released(&self) -> RunId {
        let Held { node, claim, run } = self.held().await;
        self.done(node, run, Act::Release { claim }).await;
        run
    }

    /// A run that has ended, with the claim that ended it.
    pub(super) async fn ended(&self, state: RunState) -> Held {
        let held = self.held().await;
        self.done(held.node, held.run, end(held.claim, state)).await;
        held
    }

    /// Claims all that is ready in `default` of `etl`.
    pub(super) async fn take(&self, node: NodeId) -> (ClaimId, Vec<RunId>) {
        let request = self.request(node).await;
        (request.claim, ids(&self.claim(request).await))
    }

    pub(super) async fn request(&self, node: NodeId) -> Claim {
        Claim {
            node,
            claim: self.claim_id(),
            room: 1000,
            queues: vec![("default".into(), 1000)],
            workflows: vec![("etl".into(), self.define("etl", "1").await)],
            bytes: usize::MAX,
            kept: Vec::new(),
            free_own: false,
        }
    }

    pub(super) async fn claim(&self, request: Claim) -> Claimed {
        self.store.claim(request).await.expect("the store hands out runs")
    }

    pub(super) async fn image(&self, run: RunId) -> RunImage {
        self.store.load(run).await.expect("the store loads").expect("the run is there")
    }

    pub(super) async fn place(&self, run: RunId) -> Place {
        self.image(run).await.standing.place
    }

    pub(super) async fn topics(&self, run: RunId) -> Vec<String> {
        self.image(run).await.inbox.into_iter().map(|row| row.topic).collect()
    }

    /// Lets a node die of silence, in the eyes of another.
    pub(super) async fn bury(&self, judge: NodeId, condemned: NodeId) {
        self.advance(STALE + SECOND);
        self.store.heartbeat(judge, 0.into()).await.expect("the judge lives");
        let dead = self.store.declare_dead(judge, condemned, crate::Death::Stale).await;
        assert!(dead.expect("the judge lives"), "a silent node can be declared dead");
    }

    pub(super) async fn found(&self, query: Query) -> Vec<RunId> {
        let page = self.store.find(query).await.expect("the store finds");
        page.runs.into_iter().map(|run| run.id).collect()
    }

    /// Sees to it that nothing at all changes for a run.
    pub(super) async fn unchanged(&self, run: RunId, before: &RunImage) {
        assert_eq!(self.image(run).await, *before);
    }
}

pub(super) fn b(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

pub(super) fn ids(claimed: &Claimed) -> Vec<RunId> {
    claimed.runs.iter().map(|image| image.run.id).collect()
}

pub(super) fn new_node(id: NodeId) -> NewNode {
    NewNode { id, name: None, version: "1.0".into(), queues: vec!["default".into()], stale_after: STALE }
}

pub(super) fn new_run() -> NewRun {
    NewRun {
        workflow: "etl".into(),
        queue: "default".into(),
        queue_key: None,
        priority: 5,
        delay: None,
        timeout: None,
        input: b("{}"),
        context: None,
        key: None,
        tags: Vec::new(),
        forked_from: None,
        trace: None,
        parent: None,
        steps: Vec::new(),
        owner: None,
    }
}

pub(super) fn start(new: NewRun) -> Act {
    Act::Start(Box::new(new))
}

pub(super) fn owned_by(claim: ClaimId, definition: DefinitionId) -> NewRun {
    NewRun { owner: Some(Owner { claim, definition }), ..new_run() }
}

/// A key that is kept, and refuses another digest.
pub(super) fn key(key: &str, digest: u8) -> NewKey {
    NewKey { key: key.into(), digest: [digest; 16], life: KeyLife::Kept, conflict: KeyConflict::Refuse }
}

pub(super) fn with_key(key: NewKey) -> NewRun {
    NewRun { key: Some(key), ..new_run() }
}

pub(super) fn step(name: &str, attempt: u32) -> StepRow {
    StepRow {
        generation: 1,
        name: name.into(),
        attempt,
        epoch: 0,
        kind: StepKind::Completed,
        started_at: Time(1),
        ended_at: Time(2),
        output: Some(b(name)),
        detail: None,
    }
}

pub(super) fn record(claim: ClaimId, steps: Vec<StepRow>) -> Act {
    Act::Record { claim, steps, consumed: Vec::new(), forget: false }
}

/// Takes inbox rows in, and records nothing.
pub(super) fn take_in(claim: ClaimId, consumed: Vec<i64>) -> Act {
    Act::Record { claim, steps: Vec::new(), consumed, forget: false }
}

pub(super) fn new_end(state: RunState) -> NewEnd {
    let failed = state != RunState::Completed;
    NewEnd { state, output: (!failed).then(|| b("42")), failure: failed.then(|| b("why")) }
}

pub(super) fn end(claim: ClaimId, state: RunState) -> Act {
    Act::End { claim, steps: Vec::new(), end: new_end(state) }
}

pub(super) fn park(claim: ClaimId, wait: Wait) -> Act {
    Act::Park { claim, steps: Vec::new(), consumed: Vec::new(), wait }
}

/// Suspended, for nothing in particular.
pub(super) fn wait() -> Wait {
    Wait { state: RunState::Suspended, until: None, topics: Vec::new(), reason: None, blocked_by: None }
}

pub(super) fn wait_for(topics: &[&str]) -> Wait {
    Wait { topics: topics.iter().map(|&topic| topic.into()).collect(), ..wait() }
}

pub(super) fn wait_until(until: Time) -> Wait {
    Wait { until: Some(until), ..wait() }
}

pub(super) fn send(topic: &str) -> Act {
    Act::Send(NewMessage { topic: topic.into(), body: b("hello"), key: None })
}

pub(super) fn send_once(topic: &str, key: &str) -> Act {
    Act::Send(NewMessage { topic: topic.into(), body: b("hello"), key: Some(key.into()) })
}
