//! Batches as wholes, and the fence around them.

use windlass_core::RunState;

use crate::{
    Act, Idle, Place, Refusal, StoreError, Written,
    conformance::{
        Fixture,
        scene::{
            SECOND, Scene, end, key, new_end, new_run, owned_by, park, record, send, start, step, wait_for,
            with_key,
        },
    },
};

pub(super) async fn an_empty_batch_is_answered_with_nothing<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    assert_eq!(scene.batch(None, vec![]).await, []);
}

pub(super) async fn units_are_written_in_order_and_see_each_other<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    let version = scene.define("etl", "1").await;
    let (run, claim) = (scene.run_id(), scene.claim_id());
    let answers = scene
        .batch(
            node,
            vec![
                (run, start(owned_by(claim, version))),
                (run, send("news")),
                (run, record(claim, vec![step("a", 1)])),
                (run, end(claim, RunState::Completed)),
                (run, Act::Reopen { after: 1 }),
                (run, send("more")),
            ],
        )
        .await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    let image = scene.image(run).await;
    assert_eq!((image.standing.generation, image.steps.len()), (2, 1));
    assert_eq!(scene.topics(run).await, ["more"]);
}

pub(super) async fn all_that_a_batch_writes_carries_one_time<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let held = scene.held().await;
    scene.advance(SECOND);
    let run = scene.run_id();
    let answers = scene
        .batch(held.node, vec![(run, start(new_run())), (held.run, end(held.claim, RunState::Completed))])
        .await;
    let [Ok(Written::Started { at, .. }), Ok(Written::Done { at: ended_at })] = answers[..] else {
        panic!("{answers:?}");
    };
    assert_eq!(at, ended_at);
    assert_eq!(scene.image(run).await.run.created_at, at);
}

pub(super) async fn a_refused_unit_leaves_its_neighbours_alone<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let taken = scene.start_as(with_key(key("k", 1))).await;
    let (first, refused, last) = (scene.run_id(), scene.run_id(), scene.run_id());
    let batch = vec![
        (first, start(new_run())),
        (refused, start(with_key(key("k", 2)))),
        (last, start(with_key(key("other", 2)))),
    ];
    let answers = scene.batch(None, batch).await;
    assert_eq!(answers[1], Err(Refusal::KeyTaken { run: taken }));
    assert!(answers[0].is_ok() && answers[2].is_ok(), "{answers:?}");
    assert_eq!(scene.found(crate::Query::default()).await, [last, first, taken]);
}

pub(super) async fn a_failed_record_fails_all_later_records_of_its_own_run<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let held = scene.held().await;
    let other = scene.held_by(held.node).await;
    let before = scene.image(held.run).await;
    let answers = scene
        .batch(
            held.node,
            vec![
                (held.run, record(scene.claim_id(), vec![step("a", 1)])),
                (other.run, record(other.claim, vec![step("a", 1)])),
                (held.run, record(held.claim, vec![step("b", 1)])),
                (other.run, end(other.claim, RunState::Completed)),
                (held.run, end(held.claim, RunState::Completed)),
            ],
        )
        .await;
    assert_eq!(answers[0], Err(Refusal::NotYours));
    for later in [2, 4] {
        assert_eq!(answers[later], Err(Refusal::Earlier));
    }
    assert!(answers[1].is_ok() && answers[3].is_ok(), "{answers:?}");
    scene.unchanged(held.run, &before).await;

    let answers = scene.batch(held.node, vec![(held.run, record(held.claim, vec![step("b", 1)]))]).await;
    assert!(answers[0].is_ok(), "the next batch is a new one: {answers:?}");
}

pub(super) async fn what_strangers_are_refused_takes_nothing_from_the_holder<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let held = scene.held().await;
    let ended = scene.ended(RunState::Completed).await;
    let end_idle = || Act::EndIdle { only: Idle::Any, end: new_end(RunState::Cancelled) };
    let answers = scene
        .batch(
            held.node,
            vec![
                (held.run, end_idle()),
                (held.run, record(held.claim, vec![step("a", 1)])),
                (held.run, Act::Reopen { after: 1 }),
                (held.run, send("news")),
                (held.run, end(held.claim, RunState::Completed)),
                (held.run, end_idle()),
                (ended.run, send("late")),
                (ended.run, end_idle()),
            ],
        )
        .await;
    let refused: Vec<_> =
        answers.iter().enumerate().filter_map(|(at, answer)| Some((at, answer.clone().err()?))).collect();
    let over = || Refusal::Ended(RunState::Completed);
    assert_eq!(refused, [(0, Refusal::Held), (2, Refusal::Open), (5, over()), (6, over()), (7, over())]);
    assert!(matches!(scene.place(held.run).await, Place::Ended(_)));
}

pub(super) async fn what_a_holder_is_refused_takes_nothing_from_strangers<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let held = scene.held().await;
    let answers = scene
        .batch(
            held.node,
            vec![(held.run, record(scene.claim_id(), vec![step("a", 1)])), (held.run, send("news"))],
        )
        .await;
    assert_eq!(answers[0], Err(Refusal::NotYours));
    assert!(answers[1].is_ok(), "{answers:?}");
    assert_eq!(scene.topics(held.run).await, ["news"]);
}

pub(super) async fn what_follows_a_start_that_was_not_made_is_refused<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    let taken = scene.start_as(with_key(key("k", 1))).await;
    let (refused, existing) = (scene.run_id(), scene.run_id());
    let answers = scene
        .batch(
            node,
            vec![
                (refused, start(with_key(key("k", 2)))),
                (refused, send("news")),
                (existing, start(with_key(key("k", 1)))),
                (existing, send("news")),
                (existing, send("news")),
            ],
        )
        .await;
    let expected = [
        Err(Refusal::KeyTaken { run: taken }),
        Err(Refusal::Unknown),
        Ok(Written::Existing { run: taken }),
        Err(Refusal::Unknown),
        Err(Refusal::Unknown),
    ];
    assert_eq!(answers, expected);
}

pub(super) async fn a_batch_with_its_answer_lost_may_be_sent_again<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let held = scene.held().await;
    let other = scene.held_by(held.node).await;
    let batch = || {
        vec![
            (held.run, record(held.claim, vec![step("a", 1)])),
            (held.run, end(held.claim, RunState::Failed)),
            (other.run, record(other.claim, vec![step("a", 1)])),
            (other.run, park(other.claim, wait_for(&["go"]))),
        ]
    };
    let first = scene.batch(held.node, batch()).await;
    assert!(first.iter().all(Result::is_ok), "{first:?}");
    let before = [scene.image(held.run).await, scene.image(other.run).await];
    let again = scene.batch(held.node, batch()).await;
    assert_eq!(again[..2], first[..2], "an end is known again");
    assert_eq!(again[2..], [Err(Refusal::NotYours), Err(Refusal::Earlier)], "a parked run is let go of");
    scene.unchanged(held.run, &before[0]).await;
    scene.unchanged(other.run, &before[1]).await;
}

pub(super) async fn a_fenced_node_commits_nothing<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let held = scene.held().await;
    let judge = scene.node().await;
    scene.bury(judge, held.node).await;
    let before = scene.image(held.run).await;
    let fresh = scene.run_id();
    for node in [held.node, scene.node_id()] {
        let batch = vec![
            (fresh, start(new_run())),
            (held.run, record(held.claim, vec![step("a", 1)])),
            (held.run, send("news")),
        ];
        let answer = scene.try_batch(node, batch).await;
        assert!(matches!(answer, Err(StoreError::Fenced)), "{answer:?}");
        let answer = scene.try_batch(node, vec![]).await;
        assert!(matches!(answer, Err(StoreError::Fenced)), "an empty batch too: {answer:?}");
    }
    scene.unchanged(held.run, &before).await;
    assert_eq!(scene.store.load(fresh).await.unwrap(), None);

    let answer = scene.write(None, fresh, start(new_run())).await;
    assert!(matches!(answer, Ok(Written::Started { .. })), "a client has no fence: {answer:?}");
}

pub(super) async fn starts_and_messages_of_a_fenced_node_are_sent_again_under_a_new_identity<F: Fixture>(
    fixture: F,
) {
    let scene = Scene::new(fixture);
    let old = scene.node().await;
    let version = scene.define("etl", "1").await;
    let (run, claim) = (scene.run_id(), scene.claim_id());
    let target = scene.start_as(crate::NewRun { queue: "slow".into(), ..new_run() }).await;
    let batch = || {
        vec![
            (run, start(owned_by(claim, version))),
            (target, crate::conformance::scene::send_once("paid", "k")),
        ]
    };
    let first = scene.batch(old, batch()).await;
    assert!(matches!(first[0], Ok(Written::Started { owned: true, .. })), "{first:?}");

    let new = scene.node().await;
    scene.bury(new, old).await;
    let again = scene.batch(new, batch()).await;
    assert_eq!(again[0], Ok(Written::Existing { run }));
    assert!(again[1].is_ok(), "{again:?}");
    assert_eq!(scene.topics(target).await, ["paid"]);
    let place = scene.place(run).await;
    assert_eq!(place, crate::Place::Owned { node: old, claim }, "who holds it is read back");
}
