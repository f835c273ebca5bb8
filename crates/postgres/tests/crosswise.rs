//! Batches that touch the same runs in another order do not wait for each other.

mod common;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use common::{cluster, fresh, new_run, node};
use windlass_core::{ClaimId, RunId, RunState};
use windlass_postgres::PostgresOptions;
use windlass_store::{Act, DefinitionId, Idle, NewEnd, NewMessage, NewRun, Parent, Store, Unit};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_written_one_by_one_and_what_is_written_together_is_locked_at_once() {
    let store = Arc::new(PostgresOptions::new().schema(fresh()).open(cluster().url()).await.unwrap());
    for _ in 0..200 {
        let runs = [RunId::new(), RunId::new()];
        let start = |run| {
            let new = NewRun { owner: None, ..new_run(ClaimId(1), DefinitionId(1)) };
            Unit { run, act: Act::Start(Box::new(new)) }
        };
        store.commit(None, Arc::new(runs.map(start).to_vec())).await.unwrap();
        let batch = |one, other| {
            let end = NewEnd { state: RunState::Cancelled, output: None, failure: None };
            let message = NewMessage { topic: "news".into(), key: None, body: Bytes::new() };
            let units = vec![
                Unit { run: one, act: Act::EndIdle { only: Idle::Any, end } },
                Unit { run: other, act: Act::Send(message) },
            ];
            let store = Arc::clone(&store);
            tokio::spawn(async move { store.commit(None, Arc::new(units)).await })
        };
        let [a, b] = runs;
        for written in [batch(a, b), batch(b, a)] {
            written.await.unwrap().expect("neither waits for the other");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn children_of_the_same_parents_end_in_any_order() {
    let store = Arc::new(PostgresOptions::new().schema(fresh()).open(cluster().url()).await.unwrap());
    let nodes = [node(), node()];
    for node in &nodes {
        store.join(node.clone()).await.unwrap();
    }
    for round in 0..200 {
        let parents = [RunId::new(), RunId::new()];
        let idle = |run| {
            let new = NewRun {
                owner: None,
                delay: Some(Duration::from_secs(60)),
                ..new_run(ClaimId(1), DefinitionId(1))
            };
            Unit { run, act: Act::Start(Box::new(new)) }
        };
        store.commit(None, Arc::new(parents.map(idle).to_vec())).await.unwrap();
        let (mut ends, claim) = (Vec::new(), ClaimId(round + 1));
        for (node, order) in nodes.iter().zip([[0, 1], [1, 0]]) {
            let children = order.map(|at| (RunId::new(), parents[at]));
            let start = |(run, parent)| {
                let parent = Some(Parent { run: parent, topic: ">child".into() });
                Unit { run, act: Act::Start(Box::new(NewRun { parent, ..new_run(claim, DefinitionId(1)) })) }
            };
            store.commit(Some(node.id), Arc::new(children.map(start).to_vec())).await.unwrap();
            let end = |(run, _)| {
                let end = NewEnd { state: RunState::Completed, output: None, failure: None };
                Unit { run, act: Act::End { claim, steps: Vec::new(), end } }
            };
            ends.push((node.id, children.map(end).to_vec()));
        }
        let ends = ends.into_iter().map(|(node, units)| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { store.commit(Some(node), Arc::new(units)).await })
        });
        for written in ends.collect::<Vec<_>>() {
            let answers = written.await.unwrap().expect("neither waits for the other");
            assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        }
        for parent in parents {
            assert_eq!(store.load(parent).await.unwrap().unwrap().inbox.len(), 2);
        }
    }
}
