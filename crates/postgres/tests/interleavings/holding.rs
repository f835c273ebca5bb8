//! Who holds a run: exactly one, who has seen all that was written before, and whom others can find.

use std::{collections::HashSet, sync::Arc};

use windlass_core::{ClaimId, NodeId, RunId};
use windlass_store::{Act, Claim, Claimed, Store};

use crate::{
    acts::{
        FIRST, HELD, NEW, ONE, SECOND, TWO, claim_of, message, new_run, node_of, park, start, units, wait_for,
    },
    ask::Ask,
    database::Database,
    invariants,
    proxy::Stop,
    world::{Stage, World},
};

fn claim(node: NodeId, claim: u64) -> Claim {
    match claim_of(node, claim) {
        Ask::Claim(claim) => claim,
        other => unreachable!("{other:?}"),
    }
}

fn runs(claimed: &Claimed) -> Vec<RunId> {
    claimed.runs.iter().map(|image| image.run.id).collect()
}

#[tokio::test]
async fn two_claimers_never_get_the_same_run() {
    let database = Database::new().await;
    World::Empty.make(&Stage::Tables(&database)).await;
    let ready: Vec<RunId> = (0..60_u8).map(|id| RunId::from_bytes([id + 1; 16])).collect();
    let starts = ready.iter().map(|run| (*run, start(new_run()))).collect();
    database.free.commit(None, units(starts)).await.unwrap();
    let mut claimers = Vec::new();
    for number in 0..6_u8 {
        let node = NodeId::from_bytes([100 + number; 16]);
        database.free.join(node_of(node)).await.unwrap();
        let store = Arc::clone(if number % 2 == 0 { &database.free } else { &database.stopped });
        claimers.push(tokio::spawn(async move {
            let mut taken = Vec::new();
            // It looks again as long as it is told that there is more: others may be at what it passes over.
            loop {
                let request = Claim { room: 3, ..claim(node, ClaimId::new().0) };
                let claimed = store.claim(request).await.unwrap();
                taken.extend(runs(&claimed));
                if !claimed.more {
                    return taken;
                }
            }
        }));
    }
    let mut taken = Vec::new();
    for claimer in claimers {
        taken.extend(claimer.await.unwrap());
    }
    assert_eq!(taken.len(), ready.len());
    assert_eq!(taken.into_iter().collect::<HashSet<_>>(), ready.into_iter().collect());
    invariants::check(&database).await.unwrap();
}

#[tokio::test]
async fn a_claim_waits_for_nobody_and_knows_that_it_has_to_look_again() {
    let database = Database::new().await;
    World::Ready.make(&Stage::Tables(&database)).await;
    database.proxy.stop_at(Stop::BeforeCommit);
    let store = Arc::clone(&database.stopped);
    let other = tokio::spawn(async move { store.claim(claim(ONE, 7)).await.unwrap() });
    database.proxy.stopped().await;
    let claimed = tokio::select! {
        claimed = database.free.claim(claim(TWO, 8)) => claimed.unwrap(),
        () = database.until_it_waits("free") => panic!("it waits"),
    };
    assert!(claimed.runs.is_empty() && claimed.more);
    database.proxy.go_on();
    assert_eq!(runs(&other.await.unwrap()), [FIRST]);
}

/// A claim that was under way before something came to a run, and took the run only after it.
#[tokio::test]
async fn whoever_claims_a_run_sees_what_came_to_it_just_before() {
    let database = Database::new().await;
    World::Ready.make(&Stage::Tables(&database)).await;
    let schema = &database.schema;
    // The claim has its view of the tables, and stands still before it takes the first run.
    let halt = format!(
        "CREATE FUNCTION {schema}.halt() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
            IF current_setting('application_name') LIKE '%.stopped' THEN PERFORM pg_advisory_xact_lock(4711); END IF; \
            RETURN NULL; END $$; \
         CREATE TRIGGER halt BEFORE DELETE ON {schema}.ready FOR EACH STATEMENT EXECUTE FUNCTION {schema}.halt(); \
         SELECT pg_advisory_lock(4711)"
    );
    database.client.batch_execute(&halt).await.unwrap();
    let store = Arc::clone(&database.stopped);
    let claimed = tokio::spawn(async move { store.claim(claim(ONE, 7)).await.unwrap() });
    database.until_it_waits("stopped").await;
    database.free.commit(None, units(vec![(FIRST, message("go", None))])).await.unwrap();
    database.client.batch_execute("SELECT pg_advisory_unlock(4711)").await.unwrap();
    let claimed = claimed.await.unwrap();
    assert_eq!(runs(&claimed), [FIRST]);
    assert_eq!(claimed.runs[0].inbox.len(), 1);
}

#[tokio::test]
async fn a_claim_that_is_sent_again_before_the_first_sending_is_done_gets_the_same_runs() {
    let database = Database::new().await;
    World::Ready.make(&Stage::Tables(&database)).await;
    database.free.commit(None, units(vec![(SECOND, start(new_run()))])).await.unwrap();
    database.proxy.stop_at(Stop::BeforeCommit);
    let store = Arc::clone(&database.stopped);
    let request = Claim { room: 1, ..claim(ONE, 7) };
    let first = tokio::spawn({
        let request = request.clone();
        async move { store.claim(request).await }
    });
    database.proxy.stopped().await;
    let store = Arc::clone(&database.free);
    let again = tokio::spawn(async move { store.claim(request).await.unwrap() });
    database.until_it_waits("free").await;
    database.proxy.go_on();
    assert_eq!(runs(&first.await.unwrap().unwrap()), [FIRST]);
    assert_eq!(runs(&again.await.unwrap()), [FIRST]);
}

#[tokio::test]
async fn a_run_that_is_taken_back_before_its_release_is_answered_is_still_found() {
    let database = Database::new().await;
    World::Ready.make(&Stage::Tables(&database)).await;
    let store = &database.stopped;
    store.claim(claim(ONE, HELD.0)).await.unwrap();
    database.proxy.stop_at(Stop::Committed);
    let release = tokio::spawn({
        let store = Arc::clone(store);
        async move { store.commit(Some(ONE), units(vec![(FIRST, Act::Release { claim: HELD })])).await }
    });
    database.proxy.stopped().await;
    assert_eq!(runs(&store.claim(claim(ONE, 7)).await.unwrap()), [FIRST]);
    database.proxy.go_on();
    release.await.unwrap().unwrap()[0].as_ref().unwrap();
    // With the next batch a store tidies up.
    store.commit(None, units(vec![(NEW, start(new_run()))])).await.unwrap();
    invariants::check(&database).await.unwrap();
    assert_eq!(runs(&store.claim(claim(ONE, 7)).await.unwrap()), [FIRST]);
}

#[tokio::test]
async fn an_application_that_takes_its_time_before_it_commits_holds_up_nobody() {
    let database = Database::new().await;
    World::Held.make(&Stage::Tables(&database)).await;
    let (application, schema) = (&database.applications.free, &database.schema);
    let calls = format!("BEGIN; SELECT {schema}.send('{FIRST}', 'go'); SELECT {schema}.cancel('{FIRST}')");
    application.batch_execute(&calls).await.unwrap();
    tokio::select! {
        parked = database.stopped.commit(Some(ONE), units(vec![(FIRST, park(HELD, vec![], wait_for("go")))])) => {
            parked.unwrap()[0].as_ref().unwrap();
        }
        () = database.until_it_waits("stopped") => {
            application.batch_execute("ROLLBACK").await.unwrap();
            panic!("it waits");
        }
    }
    assert!(database.stopped.claim(claim(TWO, 7)).await.unwrap().runs.is_empty());
    // What the run waits for is there when the transaction commits.
    application.batch_execute("COMMIT").await.unwrap();
    let claimed = database.stopped.claim(claim(TWO, 8)).await.unwrap();
    assert_eq!(runs(&claimed), [FIRST]);
    let topics: Vec<_> = claimed.runs[0].inbox.iter().map(|row| row.topic.as_str()).collect();
    assert_eq!(topics, ["news", "go", "!cancel"]);
}
