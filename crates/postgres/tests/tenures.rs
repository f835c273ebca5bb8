//! A claim changes no run: what a run is held by is in a list, and what it leaves goes with its end.

mod common;

use std::sync::Arc;

use bytes::Bytes;
use common::{cluster, connect, fresh, new_run, node, step};
use tokio_postgres::Client;
use windlass_core::{ClaimId, NodeId, RunId, RunState};
use windlass_postgres::{Postgres, PostgresOptions};
use windlass_store::{
    Act, Claim, DefinitionId, NewEnd, NewRun, NewSpread, Refusal, RunImage, SpreadKey, Store, Unit, Written,
};

const RUN: RunId = RunId::from_bytes([7; 16]);
const VERSION: DefinitionId = DefinitionId(3);

/// A schema with a node, beside which others may join.
struct World {
    schema: String,
    store: Postgres,
    client: Client,
}

impl World {
    async fn new() -> Self {
        let schema = fresh();
        let store = PostgresOptions::new().schema(&schema).open(cluster().url()).await.unwrap();
        Self { schema, store, client: connect(cluster().url()).await }
    }

    async fn join(&self) -> NodeId {
        let node = node();
        self.store.join(node.clone()).await.unwrap();
        node.id
    }

    /// Enqueues the run.
    async fn enqueue(&self) {
        let new = NewRun { owner: None, ..new_run(ClaimId(1), VERSION) };
        self.write(None, Act::Start(Box::new(new))).await.unwrap();
    }

    async fn write(&self, node: Option<NodeId>, act: Act) -> Result<Written, Refusal> {
        self.store.commit(node, Arc::new(vec![Unit { run: RUN, act }])).await.unwrap().remove(0)
    }

    async fn claim(&self, node: NodeId, claim: ClaimId) -> Vec<RunImage> {
        let request = Claim {
            node,
            claim,
            room: 10,
            queues: vec![("default".into(), 10)],
            workflows: vec![("etl".into(), VERSION)],
            kept: Vec::new(),
            bytes: usize::MAX,
            free_own: false,
        };
        self.store.claim(request).await.unwrap().runs
    }

    async fn load(&self) -> RunImage {
        self.store.load(RUN).await.unwrap().expect("it was started")
    }

    /// What a query answers, as text.
    async fn ask(&self, sql: &str) -> String {
        self.client.query_one(&sql.replace("{s}", &self.schema), &[]).await.unwrap().get(0)
    }
}

fn end(claim: ClaimId) -> Act {
    let end = NewEnd { state: RunState::Completed, output: None, failure: None };
    Act::End { claim, steps: vec![step("a")], end }
}

fn save(claim: ClaimId) -> Act {
    Act::Save { claim, step: "a".into(), value: Bytes::from_static(b"1") }
}

fn publish(claim: ClaimId) -> Act {
    let key = SpreadKey { step: "a".into(), attempt: 1 };
    Act::Publish { claim, definition: VERSION, tasks: vec![NewSpread { key, queue: "default".into() }] }
}

#[tokio::test]
async fn a_run_that_is_claimed_and_ended_is_never_changed_and_says_what_version_had_it() {
    let world = World::new().await;
    let (me, claim) = (world.join().await, ClaimId(5));
    world.enqueue().await;
    let row = "SELECT concat_ws(' ', ctid, xmin, xmax) FROM {s}.run";
    let before = world.ask(row).await;
    assert_eq!(world.claim(me, claim).await[0].standing.definition, Some(VERSION));
    assert_eq!(world.load().await.standing.definition, Some(VERSION));
    world.write(Some(me), end(claim)).await.unwrap();
    assert_eq!(world.ask(row).await, before);
    assert_eq!(world.load().await.standing.definition, Some(VERSION));
    world.write(None, Act::Reopen { after: 1 }).await.unwrap();
    assert_eq!(world.load().await.standing.definition, Some(VERSION));
}

/// The list of the first claim is still there when the run is held again, and speaks of the same run and the same node.
#[tokio::test]
async fn whoever_gave_a_run_up_holds_it_no_more_also_when_its_node_has_it_again() {
    let world = World::new().await;
    let me = world.join().await;
    world.enqueue().await;
    let (first, second) = (ClaimId(5), ClaimId(6));
    world.claim(me, first).await;
    world.write(Some(me), Act::Release { claim: first }).await.unwrap();
    assert_eq!(world.claim(me, second).await.len(), 1);
    // A handle that knows nothing finds the same in the tables.
    let other = PostgresOptions::new().schema(&world.schema).open(cluster().url()).await.unwrap();
    for store in [&world.store, &other] {
        let units = [Act::Release { claim: first }, end(first)].map(|act| vec![Unit { run: RUN, act }]);
        for units in units {
            let answers = store.commit(Some(me), Arc::new(units)).await.unwrap();
            assert_eq!(answers, [Err(Refusal::NotYours)]);
        }
    }
    let kept = Act::Record { claim: second, steps: vec![step("a")], consumed: Vec::new(), forget: false };
    let answers = other.commit(Some(me), Arc::new(vec![Unit { run: RUN, act: kept }])).await.unwrap();
    assert!(answers[0].is_ok(), "{answers:?}");
    world.write(Some(me), end(second)).await.unwrap();
}

#[tokio::test]
async fn what_a_run_has_saved_and_published_goes_with_its_end_whoever_did_it() {
    let left = "SELECT concat_ws(' ', (SELECT count(*) FROM {s}.saved), (SELECT count(*) FROM {s}.spread))";
    for is_inherited in [false, true] {
        let world = World::new().await;
        let me = world.join().await;
        world.enqueue().await;
        let mut claim = ClaimId(5);
        world.claim(me, claim).await;
        for act in [save(claim), publish(claim)] {
            world.write(Some(me), act).await.unwrap();
        }
        if is_inherited {
            world.write(Some(me), Act::Release { claim }).await.unwrap();
            claim = ClaimId(6);
            world.claim(me, claim).await;
        }
        assert_eq!(world.ask(left).await, "1 1");
        world.write(Some(me), end(claim)).await.unwrap();
        assert_eq!(world.ask(left).await, "0 0");
    }
}

/// What is given up several times in each second, for years, outlives 32 bits.
#[tokio::test]
async fn a_run_is_given_up_and_claimed_more_than_two_thousand_million_times() {
    let world = World::new().await;
    let me = world.join().await;
    world.enqueue().await;
    let many = format!("UPDATE {}.run SET tenure = {}", world.schema, i32::MAX);
    world.client.batch_execute(&many).await.unwrap();
    for claim in [ClaimId(5), ClaimId(6)] {
        assert_eq!(world.claim(me, claim).await.len(), 1);
        world.write(Some(me), save(claim)).await.unwrap();
        world.write(Some(me), Act::Release { claim }).await.unwrap();
    }
    assert_eq!(world.claim(me, ClaimId(7)).await.len(), 1);
    world.store.leave(me).await.unwrap();
    let other = world.join().await;
    assert_eq!(world.claim(other, ClaimId(8)).await.len(), 1);
    world.write(Some(other), end(ClaimId(8))).await.unwrap();
    assert_eq!(world.ask("SELECT tenure::text FROM {s}.run").await, (i64::from(i32::MAX) + 3).to_string());
}
