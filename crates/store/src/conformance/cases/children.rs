//! What a run hears of its children.

use windlass_core::{ClaimId, RunId, RunState};

use crate::{
    Act, Idle, NewRun, Parent, Place, Refusal, RunImage, Written,
    conformance::{
        Fixture,
        scene::{
            Held, SECOND, Scene, end, new_end, new_run, owned_by, park, send, start, step, take_in, wait_for,
        },
    },
};

const TOPIC: &str = ">pay";

fn child_of(parent: RunId) -> NewRun {
    NewRun { parent: Some(Parent { run: parent, topic: TOPIC.into() }), ..new_run() }
}

fn end_idle() -> Act {
    Act::EndIdle { only: Idle::Any, end: new_end(RunState::Cancelled) }
}

/// What lies in an inbox: topics and bodies.
fn heard(image: &RunImage) -> Vec<(String, String)> {
    let text = |body: &bytes::Bytes| String::from_utf8(body.to_vec()).expect("the id of a child is text");
    image.inbox.iter().map(|row| (row.topic.clone(), text(&row.body))).collect()
}

fn of(children: &[RunId]) -> Vec<(String, String)> {
    children.iter().map(|child| (TOPIC.to_owned(), child.to_string())).collect()
}

impl<F: Fixture> Scene<F> {
    /// Has a node hold a child of a run from its start.
    async fn child(&self, node: windlass_core::NodeId, parent: RunId) -> Held {
        let (run, claim) = (self.run_id(), self.claim_id());
        let new = NewRun { owner: owned_by(claim, self.define("etl", "1").await).owner, ..child_of(parent) };
        let started = self.write(node, run, start(new)).await;
        assert!(matches!(started, Ok(Written::Started { owned: true, .. })), "{started:?}");
        Held { node, claim, run }
    }
}

pub(super) async fn a_parent_is_told_of_each_end_however_it_comes<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let parent = scene.held().await;
    let held = scene.child(parent.node, parent.run).await;
    let taken = scene.start_as(child_of(parent.run)).await;
    let (claim, runs) = scene.take(parent.node).await;
    assert_eq!(runs, [taken]);
    let idle = scene.start_as(child_of(parent.run)).await;
    let delayed = scene.start_as(NewRun { delay: Some(SECOND), ..child_of(parent.run) }).await;
    assert_eq!(scene.image(idle).await.run.parent, child_of(parent.run).parent);

    let last = Act::End { claim, steps: vec![step("a", 1)], end: new_end(RunState::Failed) };
    let at = scene.done(held.node, held.run, end(held.claim, RunState::Completed)).await;
    scene.done(held.node, taken, last).await;
    scene.done(None, idle, end_idle()).await;
    scene.done(None, delayed, end_idle()).await;
    let image = scene.image(parent.run).await;
    assert_eq!(heard(&image), of(&[held.run, taken, idle, delayed]));
    assert_eq!(image.inbox[0].at, at, "it is told with the end");
    assert_eq!(scene.store.inbox(parent.node, None).await.unwrap(), image.inbox, "its holder hears of it");
}

pub(super) async fn a_parent_that_waits_for_its_child_is_ready_when_that_ends<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let parent = scene.held().await;
    let child = scene.child(parent.node, parent.run).await;
    let other = scene.child(parent.node, parent.run).await;
    scene.done(parent.node, parent.run, park(parent.claim, wait_for(&["!cancel", TOPIC]))).await;
    assert!(matches!(scene.place(parent.run).await, Place::Waiting(_)));
    scene.done(child.node, child.run, end(child.claim, RunState::Completed)).await;
    assert_eq!(scene.place(parent.run).await, Place::Ready);

    let (claim, runs) = scene.take(parent.node).await;
    assert_eq!(runs, [parent.run]);
    let consumed = vec![scene.image(parent.run).await.inbox[0].seq];
    scene.done(parent.node, parent.run, take_in(claim, consumed)).await;
    scene.done(parent.node, parent.run, park(claim, wait_for(&[">other"]))).await;
    scene.done(other.node, other.run, end(other.claim, RunState::Completed)).await;
    assert!(matches!(scene.place(parent.run).await, Place::Waiting(_)), "another topic wakes nobody");
    assert_eq!(heard(&scene.image(parent.run).await), of(&[other.run]));
}

pub(super) async fn a_park_finds_the_child_that_ended_before_it<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let parent = scene.held().await;
    let child = scene.child(parent.node, parent.run).await;
    scene.done(child.node, child.run, end(child.claim, RunState::Completed)).await;
    scene.done(parent.node, parent.run, park(parent.claim, wait_for(&[TOPIC]))).await;
    assert_eq!(scene.place(parent.run).await, Place::Ready);
}

pub(super) async fn an_end_sent_again_tells_nobody_twice<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let parent = scene.held().await;
    let child = scene.child(parent.node, parent.run).await;
    let act = end(child.claim, RunState::Completed);
    scene.done(child.node, child.run, act.clone()).await;
    scene.done(child.node, child.run, act.clone()).await;
    let inbox = scene.image(parent.run).await.inbox;
    assert_eq!(inbox.len(), 1);

    scene.done(parent.node, parent.run, take_in(parent.claim, vec![inbox[0].seq])).await;
    scene.done(child.node, child.run, act.clone()).await;
    assert_eq!(scene.image(parent.run).await.inbox, [], "nor after it was taken in");
    scene.done(parent.node, parent.run, end(parent.claim, RunState::Failed)).await;
    scene.done(None, parent.run, Act::Reopen { after: 1 }).await;
    scene.done(child.node, child.run, act).await;
    assert_eq!(scene.image(parent.run).await.inbox, [], "nor in the parent's next generation");
}

pub(super) async fn an_end_sent_again_does_not_bring_back_what_the_parents_end_threw_away<F: Fixture>(
    fixture: F,
) {
    let scene = Scene::new(fixture);
    let parent = scene.held().await;
    let child = scene.child(parent.node, parent.run).await;
    let act = end(child.claim, RunState::Completed);
    scene.done(child.node, child.run, act.clone()).await;
    scene.done(parent.node, parent.run, end(parent.claim, RunState::Failed)).await;
    scene.done(None, parent.run, Act::Reopen { after: 1 }).await;
    scene.done(child.node, child.run, act).await;
    assert_eq!(scene.image(parent.run).await.inbox, []);
}

pub(super) async fn a_parent_is_told_again_when_a_reopened_child_ends<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let parent = scene.held().await;
    let child = scene.child(parent.node, parent.run).await;
    scene.done(child.node, child.run, end(child.claim, RunState::Failed)).await;
    let consumed = vec![scene.image(parent.run).await.inbox[0].seq];
    scene.done(parent.node, parent.run, take_in(parent.claim, consumed)).await;
    scene.done(None, child.run, Act::Reopen { after: 1 }).await;
    let (claim, runs) = scene.take(child.node).await;
    assert_eq!(runs, [child.run]);
    scene.done(child.node, child.run, end(claim, RunState::Completed)).await;
    scene.done(None, child.run, Act::Reopen { after: 2 }).await;
    scene.done(None, child.run, end_idle()).await;
    assert_eq!(heard(&scene.image(parent.run).await), of(&[child.run, child.run]));
}

pub(super) async fn a_parent_that_has_ended_or_is_not_there_is_passed_over<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let parent = scene.held().await;
    let (child, idle) =
        (scene.child(parent.node, parent.run).await, scene.start_as(child_of(parent.run)).await);
    scene.done(parent.node, parent.run, end(parent.claim, RunState::Completed)).await;
    let before = scene.image(parent.run).await;
    scene.done(child.node, child.run, end(child.claim, RunState::Completed)).await;
    scene.done(None, idle, end_idle()).await;
    scene.unchanged(parent.run, &before).await;
    scene.done(None, parent.run, Act::Reopen { after: 1 }).await;
    assert_eq!(scene.image(parent.run).await.inbox, [], "the next generation did not start it");

    let orphan = scene.start_as(child_of(scene.run_id())).await;
    scene.done(None, orphan, end_idle()).await;
    let own = scene.run_id();
    scene.write(None, own, start(child_of(own))).await.unwrap();
    scene.done(None, own, end_idle()).await;
    assert_eq!(scene.image(own).await.inbox, [], "one that is its own parent has ended");
}

pub(super) async fn what_one_batch_says_of_parents_and_children_comes_in_its_order<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    let finish = |child: &Held| (child.run, end(child.claim, RunState::Completed));
    let waits = |parent: &Held| (parent.run, park(parent.claim, wait_for(&[TOPIC])));
    for parks_first in [true, false] {
        let parent = scene.held_by(node).await;
        let child = scene.child(node, parent.run).await;
        let mut batch = vec![waits(&parent), finish(&child)];
        if !parks_first {
            batch.reverse();
        }
        assert!(scene.batch(node, batch).await.iter().all(Result::is_ok));
        assert_eq!(scene.place(parent.run).await, Place::Ready);
        assert_eq!(heard(&scene.image(parent.run).await), of(&[child.run]));
        scene.done(None, parent.run, end_idle()).await;
    }

    let parent = scene.held_by(node).await;
    let mut children = Vec::new();
    for _ in 0..4 {
        children.push(scene.child(node, parent.run).await);
    }
    children.reverse();
    let mut batch: Vec<_> = children.iter().map(finish).collect();
    batch.insert(2, (parent.run, send("news")));
    assert!(scene.batch(node, batch).await.iter().all(Result::is_ok));
    let [a, b, c, d] = [0, 1, 2, 3].map(|at| children[at].run);
    let mut expected = of(&[a, b, c, d]);
    expected.insert(2, ("news".into(), "hello".into()));
    assert_eq!(heard(&scene.image(parent.run).await), expected);

    let child = scene.child(node, parent.run).await;
    let batch = vec![finish(&child), finish(&parent)];
    assert!(scene.batch(node, batch).await.iter().all(Result::is_ok));
    assert_eq!(scene.image(parent.run).await.inbox, []);
}

pub(super) async fn many_children_of_many_parents_end_in_one_batch<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    let (held, waiting) = (scene.held_by(node).await, scene.held_by(node).await);
    let (mut mine, mut theirs, mut batch) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..60 {
        let parent = match number % 3 {
            0 => held.run,
            1 => waiting.run,
            _ => scene.run_id(),
        };
        let child = scene.child(node, parent).await;
        match number % 3 {
            0 => mine.push(child.run),
            1 => theirs.push(child.run),
            _ => {}
        }
        batch.push((child.run, end(child.claim, RunState::Completed)));
    }
    scene.done(node, waiting.run, park(waiting.claim, wait_for(&[TOPIC]))).await;
    assert!(scene.batch(node, batch).await.iter().all(Result::is_ok));
    assert_eq!(heard(&scene.image(held.run).await), of(&mine));
    let image = scene.image(waiting.run).await;
    assert_eq!((heard(&image), image.standing.place), (of(&theirs), Place::Ready));
}

pub(super) async fn a_parent_that_a_child_makes_ready_comes_before_a_new_run<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let parent = scene.held().await;
    let child = scene.child(parent.node, parent.run).await;
    scene.done(parent.node, parent.run, park(parent.claim, wait_for(&[TOPIC]))).await;
    let version = scene.define("etl", "1").await;
    let (first, second) = (scene.run_id(), scene.run_id());
    let owned = |claim: u64| start(owned_by(ClaimId(claim), version));
    let batch = vec![
        (first, owned(1_001)),
        (child.run, end(child.claim, RunState::Completed)),
        (second, owned(1_002)),
    ];
    let answers = scene.batch(parent.node, batch).await;
    assert!(matches!(answers[0], Ok(Written::Started { owned: true, .. })), "{answers:?}");
    assert!(matches!(answers[2], Ok(Written::Started { owned: false, .. })), "{answers:?}");
}

pub(super) async fn a_parent_cannot_be_told_under_the_name_of_an_event<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    for topic in ["", "pay", "!cancel"] {
        let parent = Some(Parent { run: scene.run_id(), topic: topic.into() });
        let run = scene.run_id();
        let answer = scene.write(None, run, start(NewRun { parent, ..new_run() })).await;
        assert!(matches!(answer, Err(Refusal::Unfit(_))), "{answer:?}");
        assert_eq!(scene.store.load(run).await.unwrap(), None);
    }
}
