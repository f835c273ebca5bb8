//! What a process costs that has nothing to do.

mod common;

use std::{future::Future, sync::Arc, time::Duration};

use common::new_run;
use windlass_core::{ClaimId, NodeId, RunId, RunState, Time};
use windlass_sqlite::{Sqlite, SqliteOptions, counting};
use windlass_store::{
    Act, Claim, DefinitionId, DefinitionRow, NewMessage, NewNode, NewRun, Owner, SpreadClaim, Store, Unit,
    Wait,
};

fn new_node() -> NewNode {
    NewNode {
        id: NodeId::new(),
        name: None,
        version: "1".into(),
        // One of them is in no run's mouth yet.
        queues: vec!["default".into(), "unheard of".into()],
        stale_after: Duration::from_secs(30),
    }
}

fn claim(node: NodeId, definition: DefinitionId) -> Claim {
    Claim {
        node,
        claim: ClaimId::new(),
        room: 10,
        queues: vec![("default".into(), 10), ("unheard of".into(), 10)],
        workflows: vec![("etl".into(), definition)],
        bytes: usize::MAX,
        kept: Vec::new(),
        free_own: true,
    }
}

fn spread_claim(node: NodeId, definition: DefinitionId) -> SpreadClaim {
    let Claim { claim, room, queues, workflows, .. } = claim(node, definition);
    SpreadClaim { node, claim, room, queues, workflows, suspect_after: 5, suspects: 1 }
}

/// How many statements it takes to ask this ten times, and what was said at last.
async fn ten_times<T: Send, F: Future<Output = T>>(ask: impl Fn() -> F) -> (u64, T) {
    // The first time, a connection has to meet the names.
    ask().await;
    let before = counting::so_far();
    for _ in 1..10 {
        ask().await;
    }
    let said = ask().await;
    (counting::so_far() - before, said)
}

#[tokio::test]
async fn whatever_an_idle_node_asks_is_one_statement() {
    counting::begin();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("app.db");
    let store = SqliteOptions::new().readers(1).open(file.to_str().unwrap()).await.unwrap();
    let row = DefinitionRow { workflow: "etl".into(), version: "1".into(), body: bytes::Bytes::new() };
    let (me, etl) = (new_node(), store.define(row).await.unwrap());
    store.join(me.clone()).await.unwrap();
    let commit = async |run, act| {
        let batch = Arc::new(vec![Unit { run, act }]);
        store.commit(Some(me.id), batch).await.unwrap().remove(0).unwrap();
    };
    let (parked, held, mine) = (RunId::new(), RunId::new(), ClaimId::new());
    for run in [parked, held] {
        let owner = Some(Owner { claim: mine, definition: etl });
        commit(run, Act::Start(Box::new(NewRun { owner, ..new_run() }))).await;
    }
    let until = Some(Time(i64::MAX));
    let wait = Wait { state: RunState::Suspended, until, topics: Vec::new(), reason: None, blocked_by: None };
    commit(parked, Act::Park { claim: mine, steps: vec![], consumed: vec![], wait }).await;

    let (beats, beat) = ten_times(async || store.heartbeat(me.id, 1.into()).await.unwrap()).await;
    assert_eq!((beats, beat.others.len(), beat.inbox.len()), (10, 0, 0));
    let (looks, looked) = ten_times(async || store.look(claim(me.id, etl)).await.unwrap()).await;
    assert_eq!((looks, looked.finds(), looked.next_due), (10, false, until));
    let asked = async || store.claim_tasks(spread_claim(me.id, etl)).await.unwrap();
    assert_eq!(ten_times(asked).await.0, 10);

    // Whatever there is to be told is told.
    let message = NewMessage { topic: "news".into(), body: bytes::Bytes::new(), key: None };
    commit(held, Act::Send(message)).await;
    let other = Sqlite::open(file.to_str().unwrap()).await.unwrap();
    let neighbour = new_node();
    other.join(neighbour.clone()).await.unwrap();
    let beat = store.heartbeat(me.id, 1.into()).await.unwrap();
    assert_eq!((beat.others[0].id, beat.inbox[0].run), (neighbour.id, held));
}
