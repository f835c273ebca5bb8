//! The order of records does not depend on the connections that they came by.

mod common;

use std::sync::Arc;

use common::{cluster, new_run, node, step};
use windlass_core::{ClaimId, RunId};
use windlass_postgres::{Postgres, PostgresOptions};
use windlass_store::{Act, DefinitionId, Store, Unit};

#[tokio::test]
async fn steps_come_back_in_the_order_in_which_they_were_recorded_whichever_connection_they_came_by() {
    let schema = format!("order_{}", uuid::Uuid::now_v7().simple());
    let open = || PostgresOptions::new().schema(&schema).open(cluster().url());
    let (one, other) = (open().await.unwrap(), open().await.unwrap());
    let (me, run, claim) = (node(), RunId::from_bytes([7; 16]), ClaimId(1));
    one.join(me.clone()).await.unwrap();
    let write = async |store: &Postgres, act| {
        let answers = store.commit(Some(me.id), Arc::new(vec![Unit { run, act }])).await.unwrap();
        assert!(answers[0].is_ok(), "{answers:?}");
    };
    let new = new_run(claim, DefinitionId(1));
    write(&one, Act::Start(Box::new(new))).await;
    let names = ["a", "b", "c", "d", "e"];
    for (name, store) in names.into_iter().zip([&one, &other].into_iter().cycle()) {
        write(store, Act::Record { claim, steps: vec![step(name)], consumed: Vec::new(), forget: false })
            .await;
    }
    let image = one.load(run).await.unwrap().expect("it was started");
    let recorded: Vec<_> = image.steps.iter().map(|step| &*step.name).collect();
    assert_eq!(recorded, names);
}
