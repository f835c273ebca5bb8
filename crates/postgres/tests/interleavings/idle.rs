//! What a node costs that has nothing to do.

use windlass_store::{Act, Store};

use crate::{
    acts::{FIRST, HELD, ONE, claim_of, tasks_of},
    ask::Ask,
    database::Database,
    world::{Stage, World},
};

#[tokio::test]
async fn whatever_an_idle_node_asks_is_one_statement() {
    let database = Database::new().await;
    World::Held.make(&Stage::Tables(&database)).await;
    let Ask::Claim(claim) = claim_of(ONE, 7) else { unreachable!("it asks for a claim") };
    let Ask::ClaimTasks(tasks) = tasks_of(ONE, 7) else { unreachable!("it asks for attempts") };
    let store = &database.stopped;
    let beat = store.heartbeat(ONE, 1.into()).await.unwrap();
    let consumed: Vec<i64> = beat.inbox.iter().map(|row| row.seq).collect();
    assert_eq!((beat.others.len(), consumed.len()), (2, 1), "whatever there is to be told is told");
    let takes_in = Act::Record { claim: HELD, steps: vec![], consumed, forget: false };
    Ask::commit(ONE, vec![(FIRST, takes_in)]).put(&**store).await;
    for _ in 0..3 {
        database.proxy.count();
        store.heartbeat(ONE, 1.into()).await.unwrap();
        assert_eq!(database.proxy.counted(), 1, "for a heartbeat that sees others, and what it holds");
        database.proxy.count();
        assert!(!store.look(claim.clone()).await.unwrap().finds());
        assert_eq!(database.proxy.counted(), 1, "for a look for runs");
        database.proxy.count();
        assert!(store.claim_tasks(tasks.clone()).await.unwrap().tasks.is_empty());
        assert_eq!(database.proxy.counted(), 1, "for a look for published attempts");
    }
}
