//! One run per key.

use std::time::Duration;

use windlass_core::{RunId, RunState};

use crate::{
    Act, Claim, Idle, KeyConflict, KeyLife, NewKey, NewMessage, NewRun, Place, Query, Refusal, Replace,
    STOPS, Written,
    conformance::{
        Fixture,
        scene::{SECOND, Scene, b, end, key, new_end, start, with_key},
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

fn taken(how: KeyConflict, input: &str, delay: Option<Duration>) -> NewRun {
    let key = NewKey { conflict: how, ..key("k", input.len() as u8) };
    NewRun { input: b(input), delay, ..with_key(key) }
}

fn replacing() -> KeyConflict {
    let order = NewMessage { topic: "!cancel".into(), body: b("replaced"), key: None };
    KeyConflict::Replace(Box::new(Replace { end: new_end(RunState::Cancelled), order }))
}

impl<F: Fixture> Scene<F> {
    async fn start_taken(&self, new: NewRun) -> (RunId, Result<Written, Refusal>) {
        let run = self.run_id();
        (run, self.write(None, run, start(new)).await)
    }
}

fn is_started(answer: &Result<Written, Refusal>) -> bool {
    matches!(answer, Ok(Written::Started { .. }))
}

pub(super) async fn a_start_may_be_rejected_while_a_run_with_its_key_is_live(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    let reject = || taken(KeyConflict::Reject, "a", None);
    let (first, answer) = scene.start_taken(reject()).await;
    assert!(is_started(&answer));
    assert_eq!(
        scene.start_taken(reject()).await.1,
        Err(Refusal::KeyTaken { run: first }),
        "the same input too"
    );
    assert_eq!(
        scene.write(None, first, start(reject())).await,
        Ok(Written::Existing { run: first }),
        "but for a repeat"
    );
    let node = scene.node().await;
    let (claim, _) = scene.take(node).await;
    assert_eq!(scene.start_taken(reject()).await.1, Err(Refusal::KeyTaken { run: first }));
    scene.done(node, first, end(claim, RunState::Completed)).await;
    let (second, answer) = scene.start_taken(reject()).await;
    assert!(is_started(&answer), "{answer:?}");
    assert_eq!(scene.store.by_key("etl".into(), "k".into()).await.unwrap(), Some(second));
}

pub(super) async fn a_start_may_be_rejected_for_the_time_that_its_key_was_given(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    let mut new = taken(KeyConflict::Reject, "a", None);
    new.key.as_mut().unwrap().life = KeyLife::For(SECOND);
    let (first, _) = scene.start_taken(new.clone()).await;
    let over = Act::EndIdle { only: Idle::Any, end: new_end(RunState::Cancelled) };
    scene.done(None, first, over).await;
    assert_eq!(scene.start_taken(new.clone()).await.1, Err(Refusal::KeyTaken { run: first }));
    scene.advance(SECOND);
    assert!(is_started(&scene.start_taken(new).await.1));
}

pub(super) async fn a_run_that_is_replaced_before_it_begins_has_ended(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    for delay in [None, Some(SECOND)] {
        let (first, _) = scene.start_taken(taken(replacing(), "a", delay)).await;
        let (second, answer) = scene.start_taken(taken(replacing(), "bb", None)).await;
        assert!(is_started(&answer), "{answer:?}");
        assert_eq!(scene.image(first).await.standing.state(), RunState::Cancelled);
        assert_eq!(scene.store.by_key("etl".into(), "k".into()).await.unwrap(), Some(second));
        assert_eq!(
            scene.write(None, second, start(taken(replacing(), "bb", None))).await,
            Ok(Written::Existing { run: second })
        );
        let (claim, runs) = scene.take(node).await;
        assert_eq!(runs, [second]);
        scene.done(node, second, end(claim, RunState::Completed)).await;
    }
}

pub(super) async fn a_run_that_is_replaced_after_it_has_begun_is_told_to_stop(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    let (first, _) = scene.start_taken(taken(replacing(), "a", None)).await;
    let (claim, _) = scene.take(node).await;
    let (second, answer) = scene.start_taken(taken(replacing(), "a", None)).await;
    assert!(is_started(&answer), "{answer:?}");
    assert_eq!(scene.place(first).await, Place::Owned { node, claim });
    assert_eq!(scene.topics(first).await, ["!cancel"]);
    scene.done(node, first, end(claim, RunState::Cancelled)).await;
    assert_eq!(scene.take(node).await.1, [second]);
    let batch = [taken(replacing(), "x", None), taken(replacing(), "y", None), taken(replacing(), "z", None)];
    let ids = [scene.run_id(), scene.run_id(), scene.run_id()];
    let acts = ids.into_iter().zip(batch.map(start)).collect();
    assert!(scene.batch(None, acts).await.iter().all(is_started));
    let mut states = Vec::new();
    for run in ids {
        states.push(scene.image(run).await.standing.state());
    }
    assert_eq!(
        states,
        [RunState::Cancelled, RunState::Cancelled, RunState::Pending],
        "the last of a batch stays"
    );
}

pub(super) async fn a_start_that_is_debounced_moves_the_run_that_has_not_begun(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    let debounce = |input: &str| taken(KeyConflict::Debounce, input, Some(SECOND * 2));
    let (first, answer) = scene.start_taken(debounce("a")).await;
    assert!(is_started(&answer));
    scene.advance(SECOND);
    let mut next = debounce("bb");
    next.context = Some(b("{}"));
    assert_eq!(scene.start_taken(next).await.1, Ok(Written::Existing { run: first }));
    let image = scene.image(first).await;
    assert_eq!((image.run.input, image.run.context), (b("bb"), Some(b("{}"))));
    assert_eq!(image.standing.opened_at, image.run.created_at + SECOND * 3);
    scene.advance(SECOND);
    assert!(scene.take(node).await.1.is_empty(), "it waits anew");
    scene.advance(SECOND);
    // It is ready, and still has not begun.
    let none = Claim { room: 0, ..scene.request(node).await };
    scene.claim(none).await;
    assert_eq!(scene.start_taken(debounce("ccc")).await.1, Ok(Written::Existing { run: first }));
    assert!(scene.take(node).await.1.is_empty());
    scene.advance(SECOND * 2);
    let (claim, runs) = scene.take(node).await;
    assert_eq!(runs, [first]);
    let (second, answer) = scene.start_taken(debounce("dddd")).await;
    assert!(is_started(&answer), "one that has begun is left alone");
    assert_eq!(scene.image(first).await.run.input, b("ccc"));
    scene.done(node, first, end(claim, RunState::Completed)).await;
    scene.advance(SECOND * 2);
    assert_eq!(scene.take(node).await.1, [second]);
}

pub(super) async fn a_start_that_is_debounced_leaves_a_run_alone_that_was_told_to_stop(
    fixture: impl Fixture,
) {
    let scene = Scene::new(fixture);
    for topic in STOPS {
        let debounce = |input: &str| taken(KeyConflict::Debounce, input, Some(SECOND));
        let (first, answer) = scene.start_taken(debounce("a")).await;
        assert!(is_started(&answer), "{answer:?}");
        let word = Act::Send(NewMessage { topic: topic.into(), body: b("enough"), key: None });
        scene.done(None, first, word).await;
        let (second, answer) = scene.start_taken(debounce("bb")).await;
        assert!(is_started(&answer), "{answer:?}");
        assert_eq!(scene.image(first).await.run.input, b("a"));
        let over = Act::EndIdle { only: Idle::Any, end: new_end(RunState::Cancelled) };
        scene.done(None, second, over).await;
    }
}
