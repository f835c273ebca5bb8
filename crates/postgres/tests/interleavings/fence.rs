//! A node that was declared dead changes nothing, whenever it comes to hear of it, and holds up nobody.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use windlass_core::NodeId;
use windlass_store::{NewNode, Store, StoreError};

use crate::{
    acts::{
        FIRST, HELD, NEW, NEWER, ONE, TWO, V1, claim_of, definition, end, etl, message, new_run, node_of,
        owned, record, start,
    },
    ask::{Ask, Said},
    database::Database,
    proxy::Stop,
    world::{Stage, World},
};

/// How long a process that is frozen in a transaction may hold up the others.
const SOON: Duration = Duration::from_secs(3);

/// What a database or a role may have set, as it is written in a URL.
const SERIALIZABLE: &str = "%20-c%20default_transaction_isolation%3Dserializable";
const REPEATABLE_READ: &str = "%20-c%20default_transaction_isolation%3Drepeatable%5C%20read";

/// What a node does to a run that it holds, and to others.
fn batch() -> Ask {
    let acts = vec![
        (FIRST, record(vec![])),
        (FIRST, end()),
        (NEW, start(new_run())),
        (NEWER, owned(9)),
        (FIRST, message("go", None)),
    ];
    Ask::commit(ONE, acts)
}

fn ask(store: &Arc<windlass_postgres::Postgres>, ask: Ask) -> tokio::task::JoinHandle<Said> {
    let store = Arc::clone(store);
    tokio::spawn(async move { ask.put(&*store).await })
}

fn fenced() -> Said {
    Said::Words(format!("{:?}", StoreError::Fenced))
}

fn is_unavailable(said: &Said) -> bool {
    matches!(said, Said::Words(words) if words.starts_with("Unavailable"))
}

/// A batch that waits while its node is being declared dead looks only then whether the node lives.
async fn waits_and_is_fenced(database: &Database) {
    World::Stale.make(&Stage::Tables(database)).await;
    waits_there_and_is_fenced(database, &database.free, "free", batch()).await;
}

/// So does a heartbeat, which is one statement and waits in the middle of it.
async fn beats_and_is_fenced(database: &Database) {
    World::Stale.make(&Stage::Tables(database)).await;
    waits_there_and_is_fenced(database, &database.free, "free", Ask::Heartbeat(ONE)).await;
}

async fn waits_there_and_is_fenced(
    database: &Database,
    store: &Arc<windlass_postgres::Postgres>,
    way: &str,
    asked: Ask,
) {
    database.proxy.stop_at(Stop::BeforeCommit);
    let death = ask(&database.stopped, Ask::DeclareDead(TWO, ONE));
    database.proxy.stopped().await;
    let waits = ask(store, asked);
    database.until_it_waits(way).await;
    database.proxy.go_on();
    assert_eq!(death.await.unwrap(), Said::Words("true".into()));
    let before = database.contents().await;
    assert_eq!(waits.await.unwrap(), fenced());
    assert_eq!(database.contents().await, before);
}

#[tokio::test]
async fn a_batch_that_waited_for_the_death_of_its_node_is_fenced() {
    waits_and_is_fenced(&Database::new().await).await;
}

#[tokio::test]
async fn a_batch_of_a_handle_that_knows_what_its_node_holds_is_fenced_all_the_same() {
    let database = Database::new().await;
    World::Stale.make(&Stage::Tables(&database)).await;
    waits_there_and_is_fenced(&database, &database.maker, "maker", batch()).await;
}

/// What is a transaction by itself: the fence is in it.
#[tokio::test]
async fn a_batch_that_is_one_statement_is_fenced_where_it_waits() {
    for isolation in ["", SERIALIZABLE, REPEATABLE_READ] {
        for act in [(FIRST, record(vec![])), (FIRST, end()), (NEWER, owned(9)), (NEW, start(new_run()))] {
            let database = Database::with(isolation).await;
            World::Stale.make(&Stage::Tables(&database)).await;
            let batch = Ask::commit(ONE, vec![act]);
            waits_there_and_is_fenced(&database, &database.maker, "maker", batch).await;
        }
    }
}

#[tokio::test]
async fn a_batch_is_fenced_on_a_database_that_is_serializable() {
    waits_and_is_fenced(&Database::with(SERIALIZABLE).await).await;
}

#[tokio::test]
async fn a_batch_is_fenced_on_a_database_that_repeats_reads() {
    waits_and_is_fenced(&Database::with(REPEATABLE_READ).await).await;
}

#[tokio::test]
async fn a_heartbeat_that_waited_for_the_death_of_its_node_is_fenced() {
    beats_and_is_fenced(&Database::new().await).await;
}

#[tokio::test]
async fn a_heartbeat_is_fenced_on_a_database_that_is_serializable() {
    beats_and_is_fenced(&Database::with(SERIALIZABLE).await).await;
}

#[tokio::test]
async fn a_heartbeat_is_fenced_on_a_database_that_repeats_reads() {
    beats_and_is_fenced(&Database::with(REPEATABLE_READ).await).await;
}

#[tokio::test]
async fn two_define_one_version_at_once_on_a_database_that_is_serializable() {
    let database = Database::with(SERIALIZABLE).await;
    let insert = format!(
        "BEGIN; INSERT INTO {}.definition (workflow, version, body) VALUES ('etl', '1', '{{}}')",
        database.schema
    );
    let other = crate::common::connect(crate::common::cluster().url()).await;
    other.batch_execute(&insert).await.unwrap();
    let defined = ask(&database.free, Ask::Define(definition("1")));
    database.until_it_waits("free").await;
    other.batch_execute("COMMIT").await.unwrap();
    assert_eq!(defined.await.unwrap(), Said::Words("()".into()));
}

#[tokio::test]
async fn whatever_a_dead_node_asks_leaves_nothing() {
    let database = Database::new().await;
    World::Stale.make(&Stage::Tables(&database)).await;
    assert!(database.free.declare_dead(TWO, ONE, windlass_store::Death::Stale).await.unwrap());
    let before = database.contents().await;
    for asked in [
        batch(),
        Ask::commit(ONE, vec![(FIRST, record(vec![]))]),
        Ask::commit(ONE, vec![(FIRST, windlass_store::Act::Release { claim: HELD })]),
        Ask::commit(ONE, vec![(NEW, start(new_run()))]),
        claim_of(ONE, 8),
        Ask::Unblock(ONE, vec![(etl(), V1)]),
        Ask::Heartbeat(ONE),
        Ask::Sweep(ONE),
        Ask::DeclareDead(ONE, TWO),
        Ask::Leave(ONE),
        Ask::Join(node_of(ONE)),
    ] {
        assert_eq!(asked.clone().put(&*database.free).await, fenced(), "{asked:?}");
        assert_eq!(database.contents().await, before, "{asked:?}");
    }
}

#[tokio::test]
async fn a_process_that_is_frozen_in_a_transaction_is_declared_dead_and_swept() {
    let database = Database::new().await;
    World::Stale.make(&Stage::Tables(&database)).await;
    database.proxy.stop_at(Stop::BeforeCommit);
    let frozen = ask(&database.stopped, batch());
    database.proxy.stopped().await;
    let began = Instant::now();
    assert!(database.free.declare_dead(TWO, ONE, windlass_store::Death::Stale).await.unwrap());
    assert!(began.elapsed() < SOON, "it took {:?}", began.elapsed());
    assert_eq!(database.free.sweep(TWO, 10).await.unwrap().released, 1);
    database.proxy.go_on();
    let said = frozen.await.unwrap();
    assert!(is_unavailable(&said), "{said:?}");
    // It asks again, as it does when it does not know what became of a batch.
    assert_eq!(batch().put(&*database.stopped).await, fenced());
    assert!(database.free.load(NEW).await.unwrap().is_none());
    assert!(database.free.load(FIRST).await.unwrap().unwrap().steps.is_empty());
}

#[tokio::test]
async fn a_node_that_lives_is_not_taken_for_a_frozen_one() {
    let database = Database::new().await;
    World::Held.make(&Stage::Tables(&database)).await;
    database.proxy.stop_at(Stop::BeforeCommit);
    let slow = ask(&database.stopped, Ask::commit(ONE, vec![(FIRST, record(vec![]))]));
    database.proxy.stopped().await;
    assert!(!database.free.declare_dead(TWO, ONE, windlass_store::Death::Stale).await.unwrap());
    database.proxy.go_on();
    let said = slow.await.unwrap();
    assert!(matches!(&said, Said::Words(words) if words.starts_with("[Ok(Done")), "{said:?}");
}

#[tokio::test]
async fn a_new_boot_does_not_wait_for_its_frozen_predecessor() {
    let database = Database::new().await;
    let named = |id| NewNode { name: Some("web".into()), ..node_of(NodeId::from_bytes([id; 16])) };
    let (old, new) = (named(5), named(6));
    database.stopped.join(old.clone()).await.unwrap();
    database.proxy.stop_at(Stop::BeforeCommit);
    let frozen = ask(&database.stopped, Ask::commit(old.id, vec![(NEW, start(new_run()))]));
    database.proxy.stopped().await;
    let began = Instant::now();
    assert_eq!(database.free.join(new).await.unwrap().fenced, [old.id]);
    assert!(began.elapsed() < SOON, "it took {:?}", began.elapsed());
    database.proxy.go_on();
    let said = frozen.await.unwrap();
    assert!(is_unavailable(&said), "{said:?}");
    assert!(database.free.load(NEW).await.unwrap().is_none());
}
