//! Batches that touch the same runs in another order do not wait for each other.

mod common;

use std::sync::Arc;

use bytes::Bytes;
use common::{cluster, fresh, new_run};
use windlass_core::{ClaimId, RunId, RunState};
use windlass_postgres::PostgresOptions;
use windlass_store::{Act, DefinitionId, Idle, NewEnd, NewMessage, NewRun, Store, Unit};

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
