//! A run that gives itself up, or ends, while a child of it ends: whichever comes first, it is not left waiting. Here each is
//! written by the store that knows best who holds it, and looks up the least.

use std::sync::Arc;

use windlass_core::{NodeId, RunId};
use windlass_postgres::Postgres;
use windlass_store::{Act, Idle, NewRun, Parent, Place, Store, Written};

use crate::{
    acts::{CHILD, HELD, end, end_idle, node_of, owned, park, start, units, wait_for},
    database::Database,
    invariants,
    proxy::Stop,
    world::{Stage, World},
};

const PARENTS: NodeId = NodeId::from_bytes([50; 16]);
const CHILDRENS: NodeId = NodeId::from_bytes([51; 16]);

/// A run that its node holds from its start, so that its store knows all of it.
async fn begin(store: &Postgres, node: NodeId, act: Act) -> RunId {
    let run = RunId::new();
    let answers = store.commit(Some(node), units(vec![(run, act)])).await.unwrap();
    assert!(matches!(answers[0], Ok(Written::Started { owned: true, .. })), "{answers:?}");
    run
}

fn child_of(parent: RunId) -> Act {
    match owned(HELD.0) {
        Act::Start(new) => {
            let parent = Some(Parent { run: parent, topic: CHILD.into() });
            start(NewRun { parent, ..*new })
        }
        other => unreachable!("{other:?}"),
    }
}

/// Lets the end of a child and what its parent does meet at every statement of the one that is stopped.
async fn meet(parents_act: &Act, is_child_stopped: bool) {
    let database = Database::new().await;
    World::Empty.make(&Stage::Tables(&database)).await;
    let (stopped, free) = (&database.stopped, &database.free);
    let (parents, childrens) = if is_child_stopped { (free, stopped) } else { (stopped, free) };
    parents.join(node_of(PARENTS)).await.unwrap();
    childrens.join(node_of(CHILDRENS)).await.unwrap();
    for k in 1.. {
        let parent = begin(parents, PARENTS, owned(HELD.0)).await;
        let child = begin(childrens, CHILDRENS, child_of(parent)).await;
        let write = |store: &Arc<Postgres>, node, run, act| {
            let store = Arc::clone(store);
            tokio::spawn(async move { store.commit(Some(node), units(vec![(run, act)])).await.unwrap() })
        };
        let of_parent = || write(parents, PARENTS, parent, parents_act.clone());
        let of_child = || write(childrens, CHILDRENS, child, end());
        database.proxy.stop_at(Stop::Before(k));
        let mut one = if is_child_stopped { of_child() } else { of_parent() };
        let is_over = tokio::select! {
            () = database.proxy.stopped() => false,
            answers = &mut one => { answers.unwrap()[0].as_ref().unwrap(); true }
        };
        let mut other = if is_child_stopped { of_parent() } else { of_child() };
        let answers = tokio::select! {
            answers = &mut other => Some(answers.unwrap()),
            () = database.until_it_waits("free"), if !is_over => None,
        };
        if !is_over {
            database.proxy.go_on();
            one.await.unwrap()[0].as_ref().unwrap();
        }
        let answers = if let Some(answers) = answers { answers } else { other.await.unwrap() };
        answers[0].as_ref().unwrap();
        invariants::check(&database).await.unwrap();
        let image = free.load(parent).await.unwrap().unwrap();
        match image.standing.place {
            Place::Ready => assert_eq!(image.inbox.len(), 1, "at {k}"),
            Place::Ended(_) => assert!(image.inbox.is_empty(), "at {k}"),
            place => panic!("at {k}: {place:?}"),
        }
        if is_over {
            assert!(k > 4, "they met {} times", k - 1);
            return;
        }
        // The next is held from its start only if nothing else is ready.
        free.commit(None, units(vec![(parent, end_idle(Idle::Any))])).await.unwrap();
    }
}

#[tokio::test]
async fn a_parent_that_parks_is_ready_however_its_childs_end_comes_in_between() {
    meet(&park(HELD, vec![], wait_for(CHILD)), true).await;
    meet(&park(HELD, vec![], wait_for(CHILD)), false).await;
}

#[tokio::test]
async fn a_parent_that_ends_hears_nothing_however_its_childs_end_comes_in_between() {
    meet(&end(), true).await;
    meet(&end(), false).await;
}
