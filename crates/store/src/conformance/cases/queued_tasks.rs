//! Published attempts in queues that were declared.

use std::sync::Arc;

use windlass_core::{ClaimId, NodeId, RunId, RunState};

use super::super::{
    Fixture,
    scene::{Held, SECOND, Scene, b, end, new_run, park, wait_for},
};
use crate::{
    Act, Idle, NewEnd, NewMessage, NewRun, NewSpread, QueueChange, QueueLimits, Rate, Reach, SpreadClaim,
    SpreadClaimed, SpreadKey,
};

const NO_LIMITS: QueueLimits = QueueLimits::NONE;

const fn at_once(concurrency: u32) -> QueueLimits {
    QueueLimits { concurrency: Some(concurrency), ..NO_LIMITS }
}

fn task(step: &str) -> SpreadKey {
    SpreadKey { step: step.into(), attempt: 1 }
}

impl<F: Fixture> Scene<F> {
    async fn limit_tasks(&self, limits: QueueLimits) {
        let change = QueueChange::Limits(limits);
        self.store.change_queue("tight".into(), change).await.expect("the store keeps queues");
    }

    /// A run that a node of its own holds, in this queue and with this key, and that has published these steps in `tight`.
    async fn publisher(&self, queue: &str, key: &str, steps: &[&str]) -> Held {
        let queue_key = (!key.is_empty()).then(|| key.into());
        let run = self.start_as(NewRun { queue: queue.into(), queue_key, ..new_run() }).await;
        let node = self.node().await;
        let queues: Vec<(Arc<str>, usize)> = vec![(queue.into(), 1000)];
        let request = crate::Claim { queues, ..self.request(node).await };
        let claim = request.claim;
        assert_eq!(super::super::scene::ids(&self.claim(request).await), [run]);
        let tasks = steps.iter().map(|step| NewSpread { key: task(step), queue: "tight".into() }).collect();
        let act = Act::Publish { claim, definition: self.define("etl", "1").await, tasks };
        self.done(node, run, act).await;
        Held { node, claim, run }
    }

    async fn tight_wish(&self, node: NodeId, room: usize) -> SpreadClaim {
        SpreadClaim { room, queues: vec![("tight".into(), 1000)], ..self.wish(node).await }
    }

    async fn seize(&self, node: NodeId, room: usize) -> SpreadClaimed {
        let request = self.tight_wish(node, room).await;
        self.store.claim_tasks(request).await.expect("the store hands out attempts")
    }

    async fn steps(&self, node: NodeId, room: usize) -> Vec<String> {
        self.seize(node, room).await.tasks.iter().map(|row| row.key.step.to_string()).collect()
    }

    /// Delivers what a node executes of a run.
    async fn finish(&self, node: NodeId, run: RunId, step: &str) {
        let held = self.store.held_tasks(node).await.expect("the store shows attempts");
        let row = held.iter().find(|row| row.run == run && &*row.key.step == step).expect("it is held");
        let claim = row.holder.map_or(ClaimId(0), |(_, claim)| claim);
        self.done(node, run, Act::Deliver { claim, task: task(step), outcome: b("done") }).await;
    }

    async fn running(&self) -> u64 {
        let rows = self.store.queues(Some("tight".into())).await.expect("the store shows queues");
        rows[0].running
    }
}

pub(super) async fn no_more_attempts_are_executed_than_a_queue_allows(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    scene.limit_tasks(at_once(2)).await;
    let held = scene.publisher("default", "", &["a", "b", "c", "d", "e", "f"]).await;
    let (one, two) = (scene.node().await, scene.node().await);
    assert_eq!(scene.steps(one, 1).await, ["a"]);
    assert_eq!(scene.steps(two, 9).await, ["b"]);
    let full = scene.seize(one, 9).await;
    assert!(full.limited, "so that it is asked again when something leaves");
    assert!(full.tasks.is_empty() && !full.more, "what a limit keeps back is not offered");
    assert_eq!(scene.running().await, 2);
    scene.finish(one, held.run, "a").await;
    assert_eq!(scene.steps(one, 9).await, ["c"], "an outcome makes room for another");
    let back = Act::Withdraw { claim: held.claim, tasks: vec![task("b")], reach: Reach::All };
    scene.write(held.node, held.run, back).await.expect("its holder takes it back");
    assert_eq!(scene.steps(two, 9).await, ["d"], "so does one that is withdrawn");
    scene.store.leave(two).await.expect("it leaves");
    assert_eq!(scene.steps(one, 9).await, ["d"], "and one whose node leaves");
    scene.done(held.node, held.run, end(held.claim, RunState::Cancelled)).await;
    assert_eq!(scene.running().await, 0, "and the end of their run");
}

pub(super) async fn a_dead_node_leaks_no_slot_of_an_attempt(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    scene.limit_tasks(at_once(1)).await;
    scene.publisher("default", "", &["a", "b"]).await;
    let (judge, condemned) = (scene.node().await, scene.node().await);
    assert_eq!(scene.steps(condemned, 9).await, ["a"]);
    scene.bury(judge, condemned).await;
    assert!(scene.steps(judge, 9).await.is_empty());
    scene.store.sweep(judge, 1000).await.expect("the judge lives");
    assert_eq!(scene.steps(judge, 9).await, ["a"]);
}

pub(super) async fn a_run_shares_its_slot_with_one_of_its_attempts(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    scene.limit_tasks(at_once(1)).await;
    let held = scene.publisher("tight", "", &["a", "b"]).await;
    scene.publisher("default", "", &["c"]).await;
    let node = scene.node().await;
    assert_eq!(scene.steps(node, 9).await, ["a"], "it does not wait for its own run");
    assert_eq!(scene.running().await, 1);
    assert!(scene.steps(node, 9).await.is_empty());
    scene.done(held.node, held.run, park(held.claim, wait_for(&["go"]))).await;
    assert_eq!(scene.running().await, 1, "the attempt has the slot to itself");
    assert!(scene.steps(node, 9).await.is_empty());
    scene.finish(node, held.run, "a").await;
    assert_eq!(scene.steps(node, 9).await, ["b"]);
}

pub(super) async fn a_run_does_not_wait_for_the_slot_that_its_own_attempt_has(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    let rate = Some(Rate { count: 1, per: SECOND });
    let all = [
        at_once(1),
        QueueLimits { per_key: Some(1), ..NO_LIMITS },
        QueueLimits { per_node: Some(1), ..NO_LIMITS },
        QueueLimits { rate, ..NO_LIMITS },
    ];
    for limits in all {
        scene.limit_tasks(limits).await;
        let held = scene.publisher("tight", "k", &["a"]).await;
        let other =
            scene.start_as(NewRun { queue: "tight".into(), queue_key: Some("k".into()), ..new_run() }).await;
        let node = scene.node().await;
        assert_eq!(scene.steps(node, 9).await, ["a"], "{limits:?}");
        scene.done(held.node, held.run, park(held.claim, wait_for(&["go"]))).await;
        let ask = async || {
            let request = scene.request(node).await;
            let request = crate::Claim { queues: vec![("tight".into(), 1000)], ..request };
            (request.claim, super::super::scene::ids(&scene.claim(request).await))
        };
        assert!(ask().await.1.is_empty(), "{limits:?}");
        let go = Act::Send(NewMessage { topic: "go".into(), body: b(""), key: None });
        scene.done(None, held.run, go).await;
        let (claim, runs) = ask().await;
        assert_eq!(runs, [held.run], "{limits:?}");
        assert_eq!(scene.running().await, 1, "they share it: {limits:?}");
        scene.done(node, held.run, end(claim, RunState::Cancelled)).await;
        let over = NewEnd { state: RunState::Cancelled, output: None, failure: None };
        scene.done(None, other, Act::EndIdle { only: Idle::Any, end: over }).await;
        assert_eq!(scene.running().await, 0, "{limits:?}");
    }
}

pub(super) async fn a_second_attempt_takes_a_slot_of_its_own(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    scene.limit_tasks(at_once(3)).await;
    let held = scene.publisher("tight", "", &["a", "b", "c", "d"]).await;
    let node = scene.node().await;
    assert_eq!(scene.steps(node, 9).await, ["a", "b", "c"]);
    assert_eq!(scene.running().await, 3);
    scene.finish(node, held.run, "b").await;
    let run = scene.start_as(NewRun { queue: "tight".into(), ..new_run() }).await;
    let queues: Vec<(Arc<str>, usize)> = vec![("tight".into(), 1000)];
    let ask = async || {
        let request = crate::Claim { queues: queues.clone(), ..scene.request(node).await };
        super::super::scene::ids(&scene.claim(request).await)
    };
    assert_eq!(ask().await, [run], "runs and attempts are counted together");
    assert!(scene.steps(node, 9).await.is_empty());
    scene.start_as(NewRun { queue: "tight".into(), ..new_run() }).await;
    assert!(ask().await.is_empty());
}

pub(super) async fn attempts_count_by_the_key_of_their_run_and_keys_take_turns(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    scene.limit_tasks(QueueLimits { per_key: Some(2), ..NO_LIMITS }).await;
    let much = scene.publisher("other", "a", &["a1", "a2", "a3", "a4"]).await;
    scene.publisher("other", "b", &["b1"]).await;
    scene.publisher("default", "", &["c1", "c2", "c3"]).await;
    let node = scene.node().await;
    let mut first = scene.steps(node, 3).await;
    first.sort();
    assert_eq!(first, ["a1", "b1", "c1"]);
    assert_eq!(scene.steps(node, 9).await, ["a2", "c2", "c3"]);
    assert!(scene.steps(node, 9).await.is_empty());
    scene.finish(node, much.run, "a1").await;
    assert_eq!(scene.steps(node, 9).await, ["a3"]);
}

pub(super) async fn a_node_executes_no_more_of_a_queue_than_its_share(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    scene.limit_tasks(QueueLimits { per_node: Some(1), ..NO_LIMITS }).await;
    let held = scene.publisher("tight", "", &["a", "b", "c"]).await;
    assert_eq!(scene.steps(held.node, 9).await, ["a"], "with the run that it holds");
    let node = scene.node().await;
    assert_eq!(scene.steps(node, 9).await, ["b"]);
    assert!(scene.steps(node, 9).await.is_empty() && scene.steps(held.node, 9).await.is_empty());
}

pub(super) async fn a_rate_counts_attempts_that_take_a_slot(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    let rate = Rate { count: 2, per: SECOND };
    scene.limit_tasks(QueueLimits { rate: Some(rate), ..NO_LIMITS }).await;
    scene.publisher("default", "", &["a", "b", "c"]).await;
    let node = scene.node().await;
    let first = scene.seize(node, 9).await;
    assert_eq!(first.tasks.len(), 2);
    assert_eq!((first.more, first.next), (false, Some(rate.noted(first.now) + SECOND)));
    scene.advance(SECOND + SECOND / 1000);
    assert_eq!(scene.steps(node, 9).await, ["c"]);
    assert_eq!(scene.seize(node, 9).await.next, None, "nothing is left to be taken");
}

pub(super) async fn a_rate_of_keys_counts_attempts_by_the_key_of_their_run(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    let rate = Rate { count: 1, per: SECOND };
    scene.limit_tasks(QueueLimits { key_rate: Some(rate), ..NO_LIMITS }).await;
    let held = scene.publisher("default", "k", &["a", "b", "c"]).await;
    let node = scene.node().await;
    let first = scene.seize(node, 9).await;
    assert_eq!(first.tasks.len(), 1);
    assert_eq!((first.more, first.next), (false, Some(rate.noted(first.now) + SECOND)));
    scene.publisher("default", "l", &["d"]).await;
    assert_eq!(scene.steps(node, 9).await, ["d"], "another key does not wait");
    scene.advance(SECOND + SECOND / 1000);
    assert_eq!(scene.steps(node, 9).await, ["b"]);
    // What is given back is free as before.
    scene.store.leave(node).await.expect("it leaves");
    let other = scene.node().await;
    scene.advance(SECOND + SECOND / 1000);
    assert_eq!(scene.seize(other, 9).await.tasks.len(), 2, "one of each key");
    scene.limit_tasks(NO_LIMITS).await;
    assert_eq!(scene.seize(other, 9).await.tasks.len(), 2, "and the rest, which rested");
    scene.finish(other, held.run, "c").await;
}

pub(super) async fn attempts_without_a_key_have_no_rate_of_keys_beside_that_of_their_queue(
    fixture: impl Fixture,
) {
    let scene = Scene::new(fixture);
    let (rate, key_rate) = (Rate { count: 5, per: SECOND }, Rate { count: 1, per: SECOND });
    scene.limit_tasks(QueueLimits { rate: Some(rate), key_rate: Some(key_rate), ..NO_LIMITS }).await;
    scene.publisher("default", "", &["a", "b", "c"]).await;
    let node = scene.node().await;
    assert_eq!(scene.steps(node, 2).await.len(), 2);
    assert_eq!(scene.steps(node, 9).await, ["c"], "what the queue began is not what a key began");
}

pub(super) async fn a_paused_queue_gives_no_attempts(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    scene.limit_tasks(NO_LIMITS).await;
    scene.publisher("tight", "", &["a"]).await;
    let node = scene.node().await;
    let pause = async |paused| {
        scene.store.change_queue("tight".into(), QueueChange::Paused(paused)).await.expect("it changes")
    };
    pause(true).await;
    assert!(scene.steps(node, 9).await.is_empty());
    pause(false).await;
    assert_eq!(scene.steps(node, 9).await, ["a"]);
}

pub(super) async fn what_is_executed_when_a_queue_is_declared_counts(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    let held = scene.publisher("default", "", &["a", "b", "c"]).await;
    let node = scene.node().await;
    let request = scene.tight_wish(node, 2).await;
    let claimed = scene.store.claim_tasks(request).await.expect("the store hands out attempts");
    assert!(claimed.tasks.len() == 2 && claimed.more && !claimed.limited);
    scene.limit_tasks(at_once(2)).await;
    assert_eq!(scene.running().await, 2);
    assert!(scene.steps(node, 9).await.is_empty());
    scene.finish(node, held.run, "a").await;
    assert_eq!(scene.steps(node, 9).await, ["c"]);
}

pub(super) async fn a_task_claim_sent_again_takes_no_second_slot(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    scene.limit_tasks(at_once(2)).await;
    scene.publisher("default", "", &["a", "b", "c"]).await;
    let node = scene.node().await;
    let request = scene.tight_wish(node, 1).await;
    for _ in 0..2 {
        let claimed = scene.store.claim_tasks(request.clone()).await.expect("the store hands out attempts");
        assert_eq!(claimed.tasks.len(), 1);
        assert_eq!(scene.running().await, 1);
    }
}
