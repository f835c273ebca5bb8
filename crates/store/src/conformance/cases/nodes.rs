//! Joining, living, dying, and what becomes of the runs.

use windlass_core::{NodeId, RunState};

use crate::{
    Act, Death, NewNode, Place, Pulse, Standing, StoreError, Swept,
    conformance::{
        Fixture,
        scene::{SECOND, STALE, Scene, end, new_node, record, send, step},
    },
};

pub(super) async fn a_node_shows_what_it_said_of_itself<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let id = scene.node_id();
    let node = NewNode {
        name: Some("web-1".into()),
        version: "2.3".into(),
        queues: vec!["b".into(), "a".into()],
        stale_after: SECOND * 7,
        ..new_node(id)
    };
    let joined = scene.store.join(node).await.unwrap();
    assert_eq!(joined.fenced, []);
    scene.advance(SECOND);
    let pulse = Pulse { running: 12, ended: [("a".to_owned(), 34)].into() };
    let beat = scene.store.heartbeat(id, pulse.clone()).await.unwrap();
    assert_eq!(beat.now, joined.now + SECOND);
    assert_eq!((beat.others, beat.gone, beat.inbox), (vec![], vec![], vec![]));

    let row = scene.store.nodes().await.unwrap().remove(0);
    assert_eq!((row.id, row.name.as_deref(), &*row.version), (id, Some("web-1"), "2.3"));
    assert_eq!((row.queues, row.stale_after), (vec!["b".to_owned(), "a".to_owned()], SECOND * 7));
    assert_eq!((row.started_at, row.heartbeat_at), (joined.now, beat.now));
    assert_eq!((row.dead, row.running, row.ended), (false, 12, pulse.ended));
}

pub(super) async fn nodes_see_each_other<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let (first, second, third) = (scene.node().await, scene.node().await, scene.node().await);
    scene.bury(first, third).await;
    let others = scene
        .store
        .heartbeat(second, 0.into())
        .await
        .unwrap_or_else(|_| panic!("a stale node may still live"));
    let seen: Vec<_> = others.others.iter().map(|row| (row.id, row.dead)).collect();
    assert_eq!(seen, [(first, false), (third, true)]);
    let all: Vec<_> = scene.store.nodes().await.unwrap().iter().map(|row| (row.id, row.dead)).collect();
    assert_eq!(all, [(first, false), (second, false), (third, true)]);
}

pub(super) async fn a_join_sent_again_is_harmless<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let id = scene.node_id();
    let node = || NewNode { name: Some("web-1".into()), ..new_node(id) };
    scene.store.join(node()).await.unwrap();
    scene.advance(SECOND);
    let again = scene.store.join(node()).await.unwrap();
    assert_eq!(again.fenced, [], "a node is not its own predecessor");
    let rows = scene.store.nodes().await.unwrap();
    assert_eq!((rows.len(), rows[0].heartbeat_at), (1, again.now));

    let judge = scene.node().await;
    scene.bury(judge, id).await;
    assert!(matches!(scene.store.join(node()).await, Err(StoreError::Fenced)), "the dead do not rise");
}

pub(super) async fn a_new_boot_fences_its_predecessor_of_that_name<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let (old, fenced) = scene.named("web-1").await;
    assert_eq!(fenced, []);
    let (other, _) = scene.named("web-2").await;
    let (nameless, _) = (scene.node().await, scene.node().await);
    let (new, fenced) = scene.named("web-1").await;
    assert_eq!(fenced, [old]);
    assert!(matches!(scene.store.heartbeat(old, 0.into()).await, Err(StoreError::Fenced)));
    for alive in [other, nameless, new] {
        scene.store.heartbeat(alive, 0.into()).await.expect("only the namesake is fenced");
    }
    let (_, fenced) = scene.named("web-1").await;
    assert_eq!(fenced, [new], "who was dead before is not fenced again");
}

pub(super) async fn a_node_is_stale_only_after_its_own_limit<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let (judge, condemned) = (scene.node().await, scene.node().await);
    let dead = |why| {
        let store = scene.store.clone();
        async move { store.declare_dead(judge, condemned, why).await.unwrap() }
    };
    scene.advance(STALE);
    assert!(!dead(Death::Stale).await, "at the limit it still lives");
    scene.store.heartbeat(condemned, 0.into()).await.expect("and is not fenced");
    scene.advance(STALE);
    assert!(!dead(Death::Stale).await, "a heartbeat counts from its own time");
    scene.advance(std::time::Duration::from_micros(1));
    assert!(dead(Death::Stale).await);
    assert!(dead(Death::Stale).await, "dead is dead");
    assert!(dead(Death::Gone).await, "whatever is asked");
    assert!(matches!(scene.store.heartbeat(condemned, 0.into()).await, Err(StoreError::Fenced)));
}

pub(super) async fn the_judged_nodes_own_limit_counts<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let (patient, hasty) = (scene.node_id(), scene.node_id());
    scene.store.join(NewNode { stale_after: STALE * 10, ..new_node(patient) }).await.unwrap();
    scene.store.join(NewNode { stale_after: SECOND, ..new_node(hasty) }).await.unwrap();
    scene.advance(SECOND * 5);
    assert!(!scene.store.declare_dead(hasty, patient, Death::Stale).await.unwrap());
    assert!(scene.store.declare_dead(patient, hasty, Death::Stale).await.unwrap());
}

pub(super) async fn a_node_whose_process_is_gone_can_be_declared_dead_at_once<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let (judge, condemned) = (scene.node().await, scene.node().await);
    assert!(!scene.store.declare_dead(judge, condemned, Death::Gone).await.unwrap(), "it is not gone");
    if !scene.fixture.kill(condemned) {
        return;
    }
    assert_eq!(scene.store.heartbeat(judge, 0.into()).await.unwrap().gone, [condemned]);
    assert!(
        !scene.store.declare_dead(judge, condemned, Death::Stale).await.unwrap(),
        "it is gone, not stale"
    );
    assert!(scene.store.declare_dead(judge, condemned, Death::Gone).await.unwrap());
    let beat = scene.store.heartbeat(judge, 0.into()).await.unwrap();
    assert_eq!(beat.gone, [], "nobody needs to declare it again");
    assert_eq!(beat.others.len(), 1);
}

pub(super) async fn an_unknown_node_is_as_good_as_dead<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let judge = scene.node().await;
    for why in [Death::Stale, Death::Gone] {
        assert!(scene.store.declare_dead(judge, scene.node_id(), why).await.unwrap());
    }
}

pub(super) async fn a_leaving_node_gives_its_runs_back_uncounted<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let held = scene.held().await;
    let other = scene.held().await;
    let before = scene.image(held.run).await.standing;
    scene.store.leave(held.node).await.unwrap();
    let after = scene.image(held.run).await.standing;
    assert_eq!(after, Standing { place: Place::Ready, ..before });
    assert!(matches!(scene.place(other.run).await, Place::Owned { .. }), "another node keeps its own");
    let nodes: Vec<_> = scene.store.nodes().await.unwrap().iter().map(|row| row.id).collect();
    assert_eq!(nodes, [other.node]);
    assert!(
        matches!(scene.store.leave(held.node).await, Err(StoreError::Fenced)),
        "it is not known any more"
    );
}

pub(super) async fn runs_of_the_dead_become_ready_and_are_counted<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let held = scene.held().await;
    scene.done(held.node, held.run, record(held.claim, vec![step("a", 1)])).await;
    let ended = scene.held_by(held.node).await;
    scene.done(held.node, ended.run, end(ended.claim, RunState::Completed)).await;
    let survivor = scene.held().await;
    let nothing = scene.store.sweep(survivor.node, 10).await.unwrap();
    assert_eq!(nothing, Swept { released: 0, tasks: 0, more: false }, "the living keep their runs");

    scene.bury(survivor.node, held.node).await;
    assert!(matches!(scene.place(held.run).await, Place::Owned { .. }), "death alone moves nothing");
    let before = scene.image(held.run).await;
    let swept = scene.store.sweep(survivor.node, 10).await.unwrap();
    assert_eq!(swept, Swept { released: 1, tasks: 0, more: false });
    let after = scene.image(held.run).await;
    assert_eq!(after.standing, Standing { place: Place::Ready, recoveries: 1, ..before.standing });
    assert_eq!(after.steps, before.steps);
    assert_eq!(scene.image(ended.run).await.standing.state(), RunState::Completed, "no end is undone");
    assert!(matches!(scene.place(survivor.run).await, Place::Owned { .. }));
    let nodes: Vec<_> = scene.store.nodes().await.unwrap().iter().map(|row| row.id).collect();
    assert_eq!(nodes, [survivor.node], "the dead node is removed");
}

pub(super) async fn recoveries_add_up_and_begin_anew_with_a_generation<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let judge = scene.node().await;
    let run = scene.start().await;
    for expected in 1..=2 {
        let node = scene.node().await;
        assert_eq!(scene.take(node).await.1, [run]);
        scene.bury(judge, node).await;
        scene.store.sweep(judge, 10).await.unwrap();
        assert_eq!(scene.image(run).await.standing.recoveries, expected);
    }
    let (claim, _) = scene.take(judge).await;
    scene.done(judge, run, end(claim, RunState::Abandoned)).await;
    assert_eq!(scene.image(run).await.standing.recoveries, 2, "the end does not hide how it came to it");
    scene.done(None, run, Act::Reopen { after: 1 }).await;
    assert_eq!(scene.image(run).await.standing.recoveries, 0);
}

pub(super) async fn a_sweep_takes_no_more_than_its_limit_and_the_node_goes_last<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let held = scene.held().await;
    for _ in 0..2 {
        scene.held_by(held.node).await;
    }
    let (judge, idle) = (scene.node().await, scene.node().await);
    scene.bury(judge, held.node).await;
    assert!(scene.store.declare_dead(judge, idle, Death::Stale).await.unwrap());
    assert_eq!(scene.store.nodes().await.unwrap().len(), 3);
    for (limit, expected, nodes) in [
        (0, Swept { released: 0, tasks: 0, more: true }, 2),
        (2, Swept { released: 2, tasks: 0, more: true }, 2),
        (2, Swept { released: 1, tasks: 0, more: false }, 1),
        (2, Swept { released: 0, tasks: 0, more: false }, 1),
    ] {
        assert_eq!(scene.store.sweep(judge, limit).await.unwrap(), expected);
        assert_eq!(scene.store.nodes().await.unwrap().len(), nodes);
    }
    assert_eq!(scene.take(judge).await.1.len(), 3, "none is lost");
}

pub(super) async fn the_late_writes_of_a_swept_node_are_refused<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let held = scene.held().await;
    let heir = scene.node().await;
    scene.bury(heir, held.node).await;
    scene.store.sweep(heir, 10).await.unwrap();
    assert_eq!(scene.take(heir).await.1, [held.run]);
    let before = scene.image(held.run).await;
    let late = scene.try_batch(held.node, vec![(held.run, end(held.claim, RunState::Completed))]).await;
    assert!(matches!(late, Err(StoreError::Fenced)), "{late:?}");
    scene.unchanged(held.run, &before).await;
}

pub(super) async fn the_fence_holds_for_every_method_that_changes_something<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let (judge, dead, stale) = (scene.node().await, scene.node().await, scene.node().await);
    let run = scene.start().await;
    scene.done(None, run, send("news")).await;
    scene.bury(judge, dead).await;
    let fenced =
        |answer: Result<(), StoreError>| assert!(matches!(answer, Err(StoreError::Fenced)), "{answer:?}");
    for node in [dead, scene.node_id()] {
        let node: NodeId = node;
        fenced(scene.store.heartbeat(node, 0.into()).await.map(drop));
        fenced(scene.store.leave(node).await);
        fenced(scene.store.declare_dead(node, stale, Death::Stale).await.map(drop));
        fenced(scene.store.sweep(node, 10).await.map(drop));
        fenced(scene.store.claim(scene.request(node).await).await.map(drop));
        fenced(scene.store.claim_tasks(scene.wish(node).await).await.map(drop));
        fenced(scene.store.unblock(node, vec![]).await.map(drop));
    }
    assert_eq!(scene.place(run).await, Place::Ready);
    let nodes = scene.store.nodes().await.unwrap();
    let dead_ones: Vec<_> = nodes.iter().filter(|row| row.dead).map(|row| row.id).collect();
    assert_eq!((nodes.len(), dead_ones), (3, vec![dead]), "the fenced node judged and swept nobody");
}
