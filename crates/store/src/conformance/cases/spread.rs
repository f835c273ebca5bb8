//! Attempts that any node may execute.

use std::sync::Arc;

use windlass_core::{ClaimId, NodeId, RunId, RunState};

use crate::{
    Act, Idle, NewSpread, OUTCOME, Place, Reach, Refusal, SpreadClaim, SpreadClaimed, SpreadKey, SpreadRow,
    StoreError, Swept, Written,
    conformance::{
        Fixture,
        scene::{Held, Scene, b, end, new_end, new_run, park, record, step, wait_for},
    },
};

fn task(step: &str) -> SpreadKey {
    attempt(step, 1)
}

fn attempt(step: &str, attempt: u32) -> SpreadKey {
    SpreadKey { step: step.into(), attempt }
}

fn deliver(claim: ClaimId, task: &SpreadKey) -> Act {
    Act::Deliver { claim, task: task.clone(), outcome: b(&task.step) }
}

fn withdraw(claim: ClaimId, tasks: &[SpreadKey], reach: Reach) -> Act {
    Act::Withdraw { claim, tasks: tasks.to_vec(), reach }
}

impl<F: Fixture> Scene<F> {
    async fn publish(&self, held: Held, tasks: &[SpreadKey]) {
        let act = self.publishing(held.claim, tasks, "default").await;
        self.done(held.node, held.run, act).await;
    }

    async fn publishing(&self, claim: ClaimId, tasks: &[SpreadKey], queue: &str) -> Act {
        let queue: Arc<str> = queue.into();
        let tasks = tasks.iter().map(|key| NewSpread { key: key.clone(), queue: queue.clone() }).collect();
        Act::Publish { claim, definition: self.define("etl", "1").await, tasks }
    }

    /// A run with these attempts published, and a node that holds all of them.
    async fn spread(&self, tasks: &[SpreadKey]) -> (Held, NodeId, ClaimId) {
        let held = self.held().await;
        self.publish(held, tasks).await;
        let node = self.node().await;
        let (claim, taken) = self.take_tasks(node).await;
        assert_eq!(taken.len(), tasks.len(), "all were free");
        (held, node, claim)
    }

    pub(super) async fn wish(&self, node: NodeId) -> SpreadClaim {
        SpreadClaim {
            node,
            claim: self.claim_id(),
            room: 1000,
            queues: vec![("default".into(), 1000)],
            workflows: vec![("etl".into(), self.define("etl", "1").await)],
            suspect_after: 100,
            suspects: 0,
        }
    }

    async fn claim_tasks(&self, request: SpreadClaim) -> SpreadClaimed {
        self.store.claim_tasks(request).await.expect("the store hands out attempts")
    }

    async fn take_tasks(&self, node: NodeId) -> (ClaimId, Vec<SpreadKey>) {
        let request = self.wish(node).await;
        (request.claim, keys(&self.claim_tasks(request).await.tasks))
    }

    async fn published(&self, run: RunId) -> Vec<SpreadKey> {
        keys(&self.image(run).await.published)
    }

    /// Sees to it that what is delivered comes too late, and leaves no trace.
    async fn too_late(&self, node: impl Into<Option<NodeId>>, run: RunId, act: Act) {
        let before = self.store.load(run).await.unwrap();
        assert_eq!(self.write(node, run, act).await, Ok(Written::TooLate));
        assert_eq!(self.store.load(run).await.unwrap(), before);
    }
}

fn keys(rows: &[SpreadRow]) -> Vec<SpreadKey> {
    rows.iter().map(|row| row.key.clone()).collect()
}

pub(super) async fn what_is_published_shows_everything_it_was_given<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    let version = scene.define("etl", "1").await;
    let run = scene.start_as(crate::NewRun { priority: 3, ..new_run() }).await;
    let (claim, _) = scene.take(node).await;
    let act = scene.publishing(claim, &[attempt("enrich[10]", 2), task("enrich[1]")], "gpu").await;
    let at = scene.done(node, run, act).await;
    let row = |key: SpreadKey| SpreadRow {
        run,
        key,
        generation: 1,
        workflow: "etl".into(),
        definition: version,
        queue: "gpu".into(),
        lane: "".into(),
        priority: 3,
        at,
        deaths: 0,
        holder: None,
    };
    let expected = vec![row(attempt("enrich[10]", 2)), row(task("enrich[1]"))];
    assert_eq!(scene.image(run).await.published, expected, "by step and attempt");

    scene.done(node, run, Act::Release { claim }).await;
    let claimed = scene.claim(scene.request(node).await).await;
    assert_eq!(claimed.runs[0].published, expected, "whoever takes the run over sees it");
}

pub(super) async fn what_is_published_again_only_takes_the_version<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let (held, node, claim) = scene.spread(&[task("a")]).await;
    let before = scene.image(held.run).await.published.remove(0);
    scene.advance(std::time::Duration::from_secs(1));
    let newer = scene.define("etl", "2").await;
    let again = |queue: &str| {
        let tasks = vec![NewSpread { key: task("a"), queue: queue.into() }];
        Act::Publish { claim: held.claim, definition: newer, tasks }
    };
    scene.done(held.node, held.run, again("gpu")).await;
    let expected = SpreadRow { definition: newer, ..before };
    assert_eq!(scene.image(held.run).await.published, [expected]);
    scene.done(node, held.run, deliver(claim, &task("a"))).await;
}

pub(super) async fn only_the_holder_of_a_run_publishes_and_withdraws<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let (held, node, claim) = scene.spread(&[task("a")]).await;
    let before = scene.image(held.run).await;
    for (node, claim) in [(Some(node), held.claim), (Some(held.node), claim), (None, held.claim)] {
        let act = scene.publishing(claim, &[task("b")], "default").await;
        assert_eq!(scene.write(node, held.run, act).await, Err(Refusal::NotYours));
        let act = withdraw(claim, &[task("a")], Reach::All);
        assert_eq!(scene.write(node, held.run, act).await, Err(Refusal::NotYours));
    }
    scene.unchanged(held.run, &before).await;
}

pub(super) async fn an_outcome_commits_only_together_with_its_row<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let (held, node, claim) = scene.spread(&[task("a"), task("b")]).await;
    let other = scene.node().await;
    scene.too_late(other, held.run, deliver(claim, &task("a"))).await;
    scene.too_late(node, held.run, deliver(scene.claim_id(), &task("a"))).await;
    scene.too_late(held.node, held.run, deliver(held.claim, &task("a"))).await;
    scene.too_late(None, held.run, deliver(claim, &task("a"))).await;
    scene.too_late(node, held.run, deliver(claim, &attempt("a", 2))).await;
    scene.too_late(node, scene.run_id(), deliver(claim, &task("a"))).await;

    let at = scene.done(node, held.run, deliver(claim, &task("a"))).await;
    let image = scene.image(held.run).await;
    assert_eq!(keys(&image.published), [task("b")]);
    let inbox: Vec<_> = image.inbox.iter().map(|row| (&*row.topic, row.body.clone(), row.at)).collect();
    assert_eq!(inbox, [(OUTCOME, b("a"), at)]);
    assert!(matches!(image.standing.place, Place::Owned { .. }), "its owner goes on");
    scene.too_late(node, held.run, deliver(claim, &task("a"))).await;
}

pub(super) async fn a_withdrawn_attempt_and_its_successor_cannot_both_have_an_outcome<F: Fixture>(
    fixture: F,
) {
    let scene = Scene::new(fixture);
    let (held, node, claim) = scene.spread(&[task("a")]).await;
    let acts = vec![
        (held.run, withdraw(held.claim, &[task("a")], Reach::All)),
        (held.run, scene.publishing(held.claim, &[attempt("a", 2)], "default").await),
    ];
    let answers = scene.batch(held.node, acts).await;
    assert!(matches!(&answers[0], Ok(Written::Withdrawn { out, .. }) if out.is_empty()), "{answers:?}");
    scene.too_late(node, held.run, deliver(claim, &task("a"))).await;
    scene.too_late(node, held.run, deliver(claim, &attempt("a", 2))).await;
    let (second, taken) = scene.take_tasks(node).await;
    assert_eq!(taken, [attempt("a", 2)]);
    scene.too_late(node, held.run, deliver(second, &task("a"))).await;
    scene.done(node, held.run, deliver(second, &attempt("a", 2))).await;
    assert_eq!(scene.topics(held.run).await, [OUTCOME]);
}

pub(super) async fn nothing_is_delivered_to_a_run_that_has_ended<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    for idle in [false, true] {
        let (held, node, claim) = scene.spread(&[task("a"), task("b")]).await;
        if idle {
            scene.done(held.node, held.run, park(held.claim, wait_for(&["never"]))).await;
            let act = Act::EndIdle { only: Idle::Any, end: new_end(RunState::Cancelled) };
            scene.done(None, held.run, act).await;
        } else {
            scene.done(held.node, held.run, end(held.claim, RunState::Cancelled)).await;
        }
        assert_eq!(scene.published(held.run).await, [], "an end takes along what is published");
        assert_eq!(scene.store.held_tasks(node).await.unwrap(), []);
        scene.too_late(node, held.run, deliver(claim, &task("a"))).await;

        scene.done(None, held.run, Act::Reopen { after: 1 }).await;
        scene.too_late(node, held.run, deliver(claim, &task("a"))).await;
        let (reclaim, _) = scene.take(held.node).await;
        let again = Held { claim: reclaim, ..held };
        scene.publish(again, &[task("a")]).await;
        scene.too_late(node, held.run, deliver(claim, &task("a"))).await;
        assert_eq!(scene.image(held.run).await.published[0].generation, 2);
        scene.done(held.node, held.run, end(reclaim, RunState::Failed)).await;
    }
}

pub(super) async fn an_outcome_wakes_the_run_that_waits_for_it<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let (held, node, claim) = scene.spread(&[task("a"), task("b")]).await;
    scene.done(held.node, held.run, park(held.claim, wait_for(&[OUTCOME]))).await;
    scene.done(node, held.run, deliver(claim, &task("a"))).await;
    assert_eq!(scene.place(held.run).await, Place::Ready);
    let claimed = scene.claim(scene.request(held.node).await).await;
    assert_eq!(keys(&claimed.runs[0].published), [task("b")]);
    assert_eq!(claimed.runs[0].inbox[0].topic, OUTCOME);
}

pub(super) async fn an_attempt_that_has_an_outcome_is_not_published_again<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let (held, node, claim) = scene.spread(&[task("a")]).await;
    scene.done(node, held.run, deliver(claim, &task("a"))).await;
    scene.publish(held, &[task("a"), task("b")]).await;
    assert_eq!(scene.published(held.run).await, [task("b")], "its outcome lies in the inbox");
    let consumed = scene.image(held.run).await.inbox.iter().map(|row| row.seq).collect();
    let taken_in = Act::Record { claim: held.claim, steps: vec![step("a", 1)], consumed, forget: false };
    scene.done(held.node, held.run, taken_in).await;
    scene.publish(held, &[task("a")]).await;
    assert_eq!(scene.published(held.run).await, [task("b")], "its outcome was taken in");

    let act = withdraw(held.claim, &[task("a"), task("b")], Reach::All);
    let answer = scene.write(held.node, held.run, act).await;
    assert!(matches!(&answer, Ok(Written::Withdrawn { out, .. }) if *out == [task("a")]), "{answer:?}");
}

pub(super) async fn what_nobody_has_begun_can_be_withdrawn_alone<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let (held, node, claim) = scene.spread(&[task("a"), task("b")]).await;
    scene.publish(held, &[task("c")]).await;
    scene.done(node, held.run, deliver(claim, &task("b"))).await;
    let named = [task("c"), task("b"), task("a"), task("none")];
    for _ in 0..2 {
        let answer = scene.write(held.node, held.run, withdraw(held.claim, &named, Reach::Unclaimed)).await;
        let Ok(Written::Withdrawn { out, .. }) = answer else { panic!("{answer:?}") };
        assert_eq!(out, [task("b"), task("a")], "the same when it is asked again");
    }
    assert_eq!(scene.published(held.run).await, [task("a")]);
    scene.publish(held, &[task("c")]).await;
    assert_eq!(scene.published(held.run).await, [task("a"), task("c")], "it may be published again");
}

pub(super) async fn the_most_urgent_attempts_are_taken_first<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    let mut runs = Vec::new();
    for priority in [5, 5, 1] {
        let run = scene.start_as(crate::NewRun { priority, ..new_run() }).await;
        let (claim, _) = scene.take(node).await;
        scene.publish(Held { node, claim, run }, &[task("b"), task("a")]).await;
        runs.push(run);
    }
    let mut request = scene.wish(node).await;
    request.room = 4;
    let claimed = scene.claim_tasks(request.clone()).await;
    let taken: Vec<_> = claimed.tasks.iter().map(|row| (row.run, &*row.key.step)).collect();
    assert_eq!(taken, [(runs[2], "a"), (runs[2], "b"), (runs[0], "a"), (runs[0], "b")]);
    assert!(claimed.more);
    assert!(claimed.tasks.iter().all(|row| row.holder == Some((node, request.claim))));
    let again = scene.claim_tasks(request.clone()).await;
    assert_eq!(again.tasks, claimed.tasks, "the same claim answers the same");
    assert_eq!(scene.store.held_tasks(node).await.unwrap(), claimed.tasks);

    let rest = scene.claim_tasks(scene.wish(node).await).await;
    assert_eq!(rest.tasks.len(), 2);
    assert!(!rest.more);
    let other = SpreadClaim { node: scene.node().await, ..request };
    assert_eq!(scene.claim_tasks(other).await.tasks, [], "another node's claim of the same id is another");
}

pub(super) async fn a_node_takes_only_attempts_it_has_room_and_code_for<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let held = scene.held().await;
    scene.publish(held, &[task("a"), task("b")]).await;
    let gpu = scene.publishing(held.claim, &[task("c"), task("d")], "gpu").await;
    scene.done(held.node, held.run, gpu).await;
    let wish = scene.wish(held.node).await;
    let newer = scene.define("etl", "2").await;
    let nothing = [
        SpreadClaim { room: 0, ..wish.clone() },
        SpreadClaim { queues: vec![("default".into(), 0)], ..wish.clone() },
        SpreadClaim { queues: vec![("cpu".into(), 9)], ..wish.clone() },
        SpreadClaim { workflows: vec![("etl".into(), newer)], ..wish.clone() },
        SpreadClaim { workflows: vec![("mail".into(), wish.workflows[0].1)], ..wish.clone() },
        SpreadClaim { workflows: vec![], ..wish.clone() },
    ];
    for request in nothing {
        let claimed = scene.claim_tasks(request).await;
        assert_eq!((claimed.tasks, claimed.more), (vec![], false));
    }
    let queues = vec![("default".into(), 1), ("gpu".into(), 9)];
    let claimed = scene.claim_tasks(SpreadClaim { queues, ..wish.clone() }).await;
    assert_eq!(keys(&claimed.tasks), [task("a"), task("c"), task("d")], "a full queue is passed over");
    assert!(claimed.more, "one of the first queue is left");
}

pub(super) async fn attempts_of_the_dead_are_free_again_with_one_more_death<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let (held, node, claim) = scene.spread(&[task("a"), task("b"), task("c")]).await;
    scene.store.heartbeat(held.node, 0.into()).await.unwrap();
    scene.advance(crate::conformance::scene::STALE / 2);
    scene.store.heartbeat(held.node, 0.into()).await.unwrap();
    scene.bury(held.node, node).await;
    let answer = scene.try_batch(node, vec![(held.run, deliver(claim, &task("a")))]).await;
    assert!(matches!(answer, Err(StoreError::Fenced)), "{answer:?}");
    let swept = scene.store.sweep(held.node, 2).await.unwrap();
    assert_eq!(swept, Swept { released: 0, tasks: 2, more: true });
    let swept = scene.store.sweep(held.node, 2).await.unwrap();
    assert_eq!(swept, Swept { released: 0, tasks: 1, more: false });
    let published = scene.image(held.run).await.published;
    assert!(published.iter().all(|row| row.deaths == 1 && row.holder.is_none()), "{published:?}");

    let (_, taken) = scene.take_tasks(held.node).await;
    assert_eq!(taken.len(), 3);
}

pub(super) async fn attempts_of_a_leaving_node_are_free_again_uncounted<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let (held, node, _) = scene.spread(&[task("a")]).await;
    scene.store.leave(node).await.unwrap();
    let published = scene.image(held.run).await.published;
    assert_eq!((published[0].deaths, published[0].holder), (0, None));

    let (_, taken) = scene.take_tasks(held.node).await;
    assert_eq!(taken, [task("a")]);
    let other = scene.node().await;
    scene.store.leave(held.node).await.unwrap();
    assert_eq!(scene.place(held.run).await, Place::Ready, "its own runs too");
    assert_eq!(scene.take_tasks(other).await.1, [task("a")]);
}

pub(super) async fn suspects_are_taken_one_by_one<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let (held, node, _) = scene.spread(&[task("a"), task("b")]).await;
    scene.advance(crate::conformance::scene::STALE / 2);
    scene.store.heartbeat(held.node, 0.into()).await.unwrap();
    scene.bury(held.node, node).await;
    scene.store.sweep(held.node, 10).await.unwrap();
    scene.publish(held, &[task("c")]).await;

    let wish = scene.wish(held.node).await;
    let none = SpreadClaim { suspect_after: 1, suspects: 0, ..wish.clone() };
    let claimed = scene.claim_tasks(none.clone()).await;
    assert_eq!((keys(&claimed.tasks), claimed.more), (vec![task("c")], false));
    let one = SpreadClaim { suspects: 1, claim: scene.claim_id(), ..none };
    let claimed = scene.claim_tasks(one).await;
    assert_eq!((keys(&claimed.tasks), claimed.more), (vec![task("a")], true));
}

pub(super) async fn what_comes_too_late_leaves_its_neighbours_alone<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let held = scene.held().await;
    scene.publish(held, &[task("a"), task("b")]).await;
    let (claim, _) = scene.take_tasks(held.node).await;
    let answers = scene
        .batch(
            held.node,
            vec![
                (held.run, deliver(claim, &attempt("a", 7))),
                (held.run, record(held.claim, vec![step("x", 1)])),
                (held.run, deliver(claim, &task("a"))),
                (held.run, deliver(claim, &task("b"))),
                (held.run, end(held.claim, RunState::Completed)),
            ],
        )
        .await;
    assert_eq!(answers[0], Ok(Written::TooLate));
    assert!(answers[1..].iter().all(|answer| matches!(answer, Ok(Written::Done { .. }))), "{answers:?}");
}

pub(super) async fn whoever_executes_an_attempt_may_save_for_the_next<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let (held, node, claim) = scene.spread(&[task("a")]).await;
    let save = |claim, value: &str| Act::SaveSpread { claim, task: task("a"), value: b(value) };
    scene.too_late(node, held.run, save(scene.claim_id(), "1")).await;
    scene.too_late(held.node, held.run, save(held.claim, "1")).await;
    scene.done(node, held.run, save(claim, "1")).await;
    scene.done(node, held.run, save(claim, "2")).await;
    let saved = scene.image(held.run).await.saved;
    assert_eq!(saved, [crate::SavedRow { step: "a".into(), value: b("2") }]);
    scene.done(held.node, held.run, end(held.claim, RunState::Failed)).await;
    assert_eq!(scene.image(held.run).await.saved, [], "an end takes it along");
}
