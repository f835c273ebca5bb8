//! One run per key.

use windlass_core::RunState;

use crate::{
    KeyConflict, KeyLife, NewKey, NewRun, Query, Refusal, Written,
    conformance::{
        Fixture,
        scene::{SECOND, Scene, end, key, start, with_key},
    },
};

pub(super) async fn the_same_key_and_input_give_the_same_run<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let first = scene.start_as(with_key(key("k", 1))).await;
    let second = scene.run_id();
    let answer = scene.write(None, second, start(with_key(key("k", 1)))).await;
    assert_eq!(answer, Ok(Written::Existing { run: first }));
    assert_eq!(scene.store.load(second).await.unwrap(), None, "the second run was not made");
    assert_eq!(scene.image(first).await.run.key.as_deref(), Some("k"));
}

pub(super) async fn the_same_key_with_another_input_is_refused_unless_asked_otherwise<F: Fixture>(
    fixture: F,
) {
    let scene = Scene::new(fixture);
    let first = scene.start_as(with_key(key("k", 1))).await;
    let second = scene.run_id();
    let answer = scene.write(None, second, start(with_key(key("k", 2)))).await;
    assert_eq!(answer, Err(Refusal::KeyTaken { run: first }));
    assert_eq!(scene.store.load(second).await.unwrap(), None);

    let lenient = NewKey { conflict: KeyConflict::ReturnExisting, ..key("k", 2) };
    let answer = scene.write(None, second, start(with_key(lenient))).await;
    assert_eq!(answer, Ok(Written::Existing { run: first }), "the later start's choice counts");
}

pub(super) async fn a_key_belongs_to_its_workflow_alone<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let first = scene.start_as(with_key(key("k", 1))).await;
    let other = scene.start_as(NewRun { workflow: "other".into(), ..with_key(key("k", 2)) }).await;
    assert_eq!(scene.store.by_key("etl".into(), "k".into()).await.unwrap(), Some(first));
    assert_eq!(scene.store.by_key("other".into(), "k".into()).await.unwrap(), Some(other));
    assert_eq!(scene.store.by_key("none".into(), "k".into()).await.unwrap(), None);
}

pub(super) async fn a_key_stands_for_its_run_after_the_end<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    let first = scene.start_as(with_key(key("k", 1))).await;
    let (claim, _) = scene.take(node).await;
    scene.done(node, first, end(claim, RunState::Failed)).await;
    let answer = scene.write(None, scene.run_id(), start(with_key(key("k", 1)))).await;
    assert_eq!(answer, Ok(Written::Existing { run: first }));
}

pub(super) async fn a_key_lapses_when_its_life_is_over<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let short = |digest| NewKey { life: KeyLife::For(SECOND * 10), ..key("k", digest) };
    let first = scene.start_as(with_key(short(1))).await;
    scene.advance(SECOND * 9);
    let answer = scene.write(None, scene.run_id(), start(with_key(short(1)))).await;
    assert_eq!(answer, Ok(Written::Existing { run: first }), "a repeat does not lengthen its life");
    scene.advance(SECOND);
    assert_eq!(scene.store.by_key("etl".into(), "k".into()).await.unwrap(), None);

    let second = scene.start_as(with_key(key("k", 2))).await;
    assert_eq!(scene.store.by_key("etl".into(), "k".into()).await.unwrap(), Some(second));
    scene.advance(SECOND * 100);
    let kept = scene.store.by_key("etl".into(), "k".into()).await.unwrap();
    assert_eq!(kept, Some(second), "the new run's key has a life of its own");
    let both = scene.found(Query { key: Some("k".into()), ..Query::default() }).await;
    assert_eq!(both, [second, first], "a listing shows all that were started under it");
}

pub(super) async fn of_two_starts_with_one_key_in_one_batch_the_first_is_made<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let (first, second, third) = (scene.run_id(), scene.run_id(), scene.run_id());
    let answers = scene
        .batch(
            None,
            vec![
                (first, start(with_key(key("k", 1)))),
                (second, start(with_key(key("k", 1)))),
                (third, start(with_key(key("k", 2)))),
            ],
        )
        .await;
    assert!(matches!(answers[0], Ok(Written::Started { .. })), "{answers:?}");
    assert_eq!(answers[1], Ok(Written::Existing { run: first }));
    assert_eq!(answers[2], Err(Refusal::KeyTaken { run: first }));
}

pub(super) async fn an_id_that_exists_is_found_before_its_key_is_looked_at<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let first = scene.start_as(with_key(key("k", 1))).await;
    let second = scene.start().await;
    let answer = scene.write(None, second, start(with_key(key("k", 2)))).await;
    assert_eq!(answer, Ok(Written::Existing { run: second }), "not that run {first} has the key");
}
