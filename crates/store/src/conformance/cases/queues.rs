//! Queues that were declared.

use std::{sync::Arc, time::Duration};

use windlass_core::{ClaimId, NodeId, RunId, RunState, Time, VERDICT};

use super::super::{
    Fixture,
    scene::{
        SECOND, Scene, end, ids, new_end, new_run, owned_by, park, record, send, start, step, wait, wait_for,
        wait_until,
    },
};
use crate::{
    Act, Claim, Claimed, Idle, NewRun, Place, QueueChange, QueueChanged, QueueLimits, QueueRow, Rate, STOPS,
    Written,
};

const NO_LIMITS: QueueLimits = QueueLimits::NONE;

impl<F: Fixture> Scene<F> {
    async fn change(&self, change: QueueChange) -> QueueChanged {
        self.store.change_queue("tight".into(), change).await.expect("the store keeps queues")
    }

    pub(super) async fn limit(&self, limits: QueueLimits) -> QueueChanged {
        self.change(QueueChange::Limits(limits)).await
    }

    async fn pause(&self, paused: bool) -> QueueChanged {
        self.change(QueueChange::Paused(paused)).await
    }

    pub(super) async fn queue(&self) -> QueueRow {
        let mut rows = self.store.queues(Some("tight".into())).await.expect("the store shows queues");
        assert_eq!(rows.len(), 1, "it was declared");
        rows.remove(0)
    }

    /// Starts a run with this key, or none.
    pub(super) async fn keyed(&self, key: &str) -> RunId {
        self.start_as(NewRun { queue_key: (!key.is_empty()).then(|| key.into()), ..tight() }).await
    }

    pub(super) async fn several(&self, key: &str, count: usize) -> Vec<RunId> {
        let mut runs = Vec::new();
        for _ in 0..count {
            runs.push(self.keyed(key).await);
        }
        runs
    }

    pub(super) async fn asking(&self, node: NodeId, room: usize) -> Claim {
        Claim { room, queues: vec![("tight".into(), 1000)], ..self.request(node).await }
    }

    pub(super) async fn get(&self, node: NodeId, room: usize) -> (ClaimId, Vec<RunId>) {
        let request = self.asking(node, room).await;
        let looked = self.store.look(request.clone()).await.expect("the store looks");
        let claimed = self.claim(request.clone()).await;
        assert_eq!(looked.work, !claimed.runs.is_empty(), "a look finds what a claim would");
        assert!(looked.limited && claimed.limited);
        (request.claim, ids(&claimed))
    }
}

pub(super) fn tight() -> NewRun {
    NewRun { queue: "tight".into(), ..new_run() }
}

pub(super) const fn at_once(concurrency: u32) -> QueueLimits {
    QueueLimits { concurrency: Some(concurrency), ..NO_LIMITS }
}

const fn per_key(per_key: u32) -> QueueLimits {
    QueueLimits { per_key: Some(per_key), ..NO_LIMITS }
}

pub(super) async fn a_queue_says_what_it_was_told_and_what_is_in_it(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    assert!(scene.store.queues(None).await.expect("the store shows queues").is_empty());
    assert_eq!(scene.limit(at_once(2)).await, QueueChanged::Created);
    assert_eq!(scene.limit(at_once(2)).await, QueueChanged::Unchanged);
    let limits = QueueLimits {
        concurrency: Some(3),
        per_node: Some(2),
        per_key: Some(1),
        rate: Some(Rate { count: 7, per: Duration::from_millis(1500) }),
        key_rate: Some(Rate { count: 2, per: Duration::from_micros(2_000_001) }),
        ageing: Some(Duration::from_secs(60)),
        hold: true,
    };
    assert_eq!(scene.limit(limits).await, QueueChanged::Updated);
    assert_eq!(scene.pause(true).await, QueueChanged::Updated);
    assert_eq!(scene.pause(true).await, QueueChanged::Unchanged);
    let row = QueueRow { limits, paused: true, ..QueueRow::new("tight".into()) };
    assert_eq!(scene.queue().await, row);
    let other = scene.store.queues(Some("other".into())).await;
    assert!(other.expect("the store shows queues").is_empty());

    assert_eq!(scene.pause(false).await, QueueChanged::Updated);
    let node = scene.node().await;
    let first = scene.keyed("a").await;
    scene.advance(SECOND);
    scene.keyed("b").await;
    scene.start().await;
    let oldest = Some(scene.image(first).await.run.created_at);
    assert_eq!(scene.queue().await, QueueRow { paused: false, depth: 2, oldest, ..row.clone() });
    assert_eq!(scene.get(node, 1).await.1, [first]);
    let (depth, running) = (1, 1);
    let found = scene.queue().await;
    assert_eq!((found.depth, found.running), (depth, running));
    assert!(found.oldest > oldest);
}

pub(super) async fn no_more_runs_are_held_than_a_queue_allows(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    let (one, two) = (scene.node().await, scene.node().await);
    scene.limit(at_once(3)).await;
    let runs = scene.several("", 5).await;
    let (claim, taken) = scene.get(one, 2).await;
    assert_eq!(taken, runs[..2]);
    assert_eq!(scene.get(two, 10).await.1, runs[2..3]);
    assert!(scene.get(one, 10).await.1.is_empty());
    scene.done(one, runs[0], end(claim, RunState::Completed)).await;
    assert_eq!(scene.get(two, 10).await.1, runs[3..4], "whoever ends makes room for another");
    assert!(scene.get(two, 10).await.1.is_empty());
}

pub(super) async fn a_node_has_no_more_of_a_queue_than_its_share(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    let (one, two) = (scene.node().await, scene.node().await);
    scene.limit(QueueLimits { per_node: Some(1), ..at_once(3) }).await;
    let runs = scene.several("", 4).await;
    assert_eq!(scene.get(one, 10).await.1, runs[..1]);
    assert!(scene.get(one, 10).await.1.is_empty());
    assert_eq!(scene.get(two, 10).await.1, runs[1..2]);
}

pub(super) async fn no_more_runs_of_a_key_are_held_than_a_queue_allows(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    let (one, two) = (scene.node().await, scene.node().await);
    scene.limit(per_key(2)).await;
    let (a, b) = (scene.several("a", 4).await, scene.several("b", 1).await);
    let free = scene.several("", 3).await;
    let (claim, taken) = scene.get(one, 100).await;
    assert_eq!(taken, [&a[..2], &b, &free].concat(), "those without a key are not counted");
    assert!(scene.get(two, 100).await.1.is_empty());
    scene.done(one, a[1], end(claim, RunState::Failed)).await;
    assert_eq!(scene.get(two, 100).await.1, a[2..3]);
}

pub(super) async fn each_key_has_its_turn(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    scene.limit(NO_LIMITS).await;
    let (a, free) = (scene.several("a", 4).await, scene.several("", 2).await);
    let (c, b) = (scene.several("c", 2).await, scene.several("b", 1).await);
    let mut order = Vec::new();
    for room in [1, 1, 3, 2, 10] {
        let (_, taken) = scene.get(node, room).await;
        order.push(taken);
    }
    let sorted = |mut runs: Vec<RunId>| {
        runs.sort();
        runs
    };
    assert_eq!(order[0], [free[0]]);
    assert_eq!(order[1], [a[0]]);
    assert_eq!(order[2], sorted(vec![b[0], c[0], free[1]]));
    assert_eq!(order[3], sorted(vec![a[1], c[1]]));
    assert_eq!(order[4], a[2..]);
}

pub(super) async fn among_the_runs_of_a_key_the_most_urgent_comes_first(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    scene.limit(per_key(1)).await;
    let late = scene.keyed("a").await;
    let urgent = NewRun { priority: 1, queue_key: Some("a".into()), ..tight() };
    let urgent = scene.start_as(urgent).await;
    let (claim, taken) = scene.get(node, 10).await;
    assert_eq!(taken, [urgent]);
    scene.done(node, urgent, end(claim, RunState::Completed)).await;
    assert_eq!(scene.get(node, 10).await.1, [late]);
}

pub(super) async fn a_declared_queue_is_weighed_beside_others_by_what_comes_next(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    scene.limit(at_once(2)).await;
    let tight: Vec<_> = scene.several("", 3).await;
    let plain = [scene.start().await, scene.start().await];
    let urgent = scene.start_as(NewRun { priority: 0, ..new_run() }).await;
    let queues: Vec<(Arc<str>, usize)> = vec![("default".into(), 1000), ("tight".into(), 1000)];
    let asking = async |room| Claim { room, queues: queues.clone(), ..scene.request(node).await };
    assert_eq!(ids(&scene.claim(asking(2).await).await), [urgent, tight[0]]);
    let rest = scene.claim(asking(10).await).await;
    assert_eq!(ids(&rest), [tight[1], plain[0], plain[1]]);
    assert!(!rest.more, "what a limit keeps back is not offered");
}

pub(super) async fn a_run_that_is_given_up_gives_its_slot_back(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    scene.limit(at_once(1)).await;
    let runs = scene.several("", 3).await;
    let (claim, _) = scene.get(node, 10).await;
    scene.done(node, runs[0], park(claim, wait_for(&["paid"]))).await;
    let (claim, taken) = scene.get(node, 10).await;
    assert_eq!(taken, runs[1..2]);
    scene.done(None, runs[0], send("paid")).await;
    assert!(scene.get(node, 10).await.1.is_empty());
    scene.done(node, runs[1], Act::Release { claim }).await;
    assert_eq!(scene.get(node, 10).await.1, runs[..1]);
}

pub(super) async fn a_run_that_is_parked_keeps_its_slot_if_the_queue_says_so(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    let (one, two) = (scene.node().await, scene.node().await);
    scene.limit(QueueLimits { hold: true, ..per_key(1) }).await;
    let (first, next) = (scene.keyed("a").await, scene.keyed("a").await);
    let (claim, taken) = scene.get(one, 10).await;
    assert_eq!(taken, [first]);
    scene.done(one, first, park(claim, wait_for(&["paid"]))).await;
    assert!(scene.get(two, 10).await.1.is_empty());
    let urgent = NewRun { priority: 0, queue_key: Some("a".into()), ..tight() };
    scene.start_as(urgent).await;
    scene.done(None, first, send("paid")).await;
    let (claim, taken) = scene.get(two, 10).await;
    assert_eq!(taken, [first], "whoever has a slot comes before those who wait for it");
    assert_eq!(scene.queue().await.running, 1);

    scene.done(two, first, park(claim, wait())).await;
    let stopped = Act::EndIdle { only: Idle::Any, end: new_end(RunState::Cancelled) };
    scene.done(None, first, stopped).await;
    assert_eq!(scene.queue().await.running, 0);
    assert_eq!(scene.get(two, 1).await.1.len(), 1);
    assert!(scene.get(one, 1).await.1.is_empty() && scene.place(next).await == Place::Ready);
}

pub(super) async fn slots_that_nobody_needs_go_when_a_queue_no_longer_holds(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    scene.limit(QueueLimits { hold: true, ..at_once(1) }).await;
    let runs = scene.several("", 2).await;
    let (claim, _) = scene.get(node, 10).await;
    scene.done(node, runs[0], park(claim, wait())).await;
    assert!(scene.get(node, 10).await.1.is_empty());
    scene.limit(at_once(1)).await;
    assert_eq!(scene.get(node, 10).await.1, runs[1..]);
}

pub(super) async fn the_slots_of_the_dead_are_free_when_they_are_swept(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    let (judge, condemned) = (scene.node().await, scene.node().await);
    scene.limit(at_once(2)).await;
    let runs = scene.several("a", 3).await;
    assert_eq!(scene.get(condemned, 10).await.1, runs[..2]);
    scene.bury(judge, condemned).await;
    assert!(scene.get(judge, 10).await.1.is_empty());
    scene.store.sweep(judge, 1000).await.expect("the judge lives");
    assert_eq!(scene.queue().await.running, 0, "a process that is gone leaks nothing");
    assert_eq!(scene.get(judge, 10).await.1, runs[..2]);
    assert!(scene.get(judge, 10).await.1.is_empty());
}

pub(super) async fn the_slots_of_a_leaving_node_are_free(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    let (stays, leaves) = (scene.node().await, scene.node().await);
    scene.limit(QueueLimits { hold: true, ..at_once(1) }).await;
    let runs = scene.several("", 2).await;
    assert_eq!(scene.get(leaves, 10).await.1, runs[..1]);
    scene.store.leave(leaves).await.expect("it leaves");
    assert_eq!(scene.queue().await.running, 1, "it is the run's");
    assert_eq!(scene.get(stays, 10).await.1, runs[..1]);
    scene.limit(at_once(1)).await;
    scene.store.leave(stays).await.expect("it leaves");
    assert_eq!(scene.queue().await.running, 0);
}

pub(super) async fn a_paused_queue_keeps_what_it_has(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    let version = scene.define("etl", "1").await;
    assert_eq!(scene.pause(true).await, QueueChanged::Created);
    let run = scene.keyed("").await;
    assert!(scene.get(node, 10).await.1.is_empty());
    let owned = NewRun { queue: "tight".into(), ..owned_by(ClaimId(1), version) };
    let answer = scene.write(node, scene.run_id(), start(owned)).await;
    assert!(matches!(answer, Ok(Written::Started { owned: false, .. })), "{answer:?}");
    assert_eq!(scene.pause(false).await, QueueChanged::Updated);
    let (claim, taken) = scene.get(node, 1).await;
    assert_eq!(taken, [run]);
    scene.pause(true).await;
    assert_eq!(scene.place(run).await, Place::Owned { node, claim }, "what was taken goes on");
}

pub(super) async fn nothing_is_declared_by_resuming_what_was_never_paused(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    assert_eq!(scene.pause(false).await, QueueChanged::Unchanged);
    assert!(scene.store.queues(None).await.expect("the store shows queues").is_empty());
}

pub(super) async fn a_queue_that_is_removed_has_no_limits_and_is_not_shown(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    assert_eq!(scene.change(QueueChange::Removed).await, QueueChanged::Unchanged, "it was never declared");
    scene.limit(QueueLimits { hold: true, ..at_once(1) }).await;
    let runs = [scene.several("", 2).await, scene.several("a", 2).await].concat();
    let (claim, taken) = scene.get(node, 10).await;
    assert_eq!(taken, runs[..1]);
    scene.done(node, runs[0], park(claim, wait())).await;
    scene.pause(true).await;
    assert_eq!(scene.change(QueueChange::Removed).await, QueueChanged::Updated);
    assert_eq!(scene.change(QueueChange::Removed).await, QueueChanged::Unchanged);
    assert!(scene.store.queues(None).await.expect("the store shows queues").is_empty());
    assert_eq!(scene.pause(false).await, QueueChanged::Unchanged);
    assert_eq!(scene.get(node, 10).await.1, runs[1..]);
    assert_eq!(scene.limit(at_once(3)).await, QueueChanged::Created);
    assert_eq!(scene.queue().await.running, 3, "what is under way counts");
}

pub(super) async fn a_run_of_a_declared_queue_is_not_held_from_its_start(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    let version = scene.define("etl", "1").await;
    let start_owned = async |key: Option<&str>| {
        let new = NewRun {
            queue: "tight".into(),
            queue_key: key.map(Into::into),
            ..owned_by(scene.claim_id(), version)
        };
        match scene.write(node, scene.run_id(), start(new)).await {
            Ok(Written::Started { owned, .. }) => owned,
            other => panic!("expected a run to be started, but: {other:?}"),
        }
    };
    assert!(start_owned(None).await, "nobody has said anything about this queue");
    assert!(!start_owned(Some("a")).await, "a key declares it");
    assert_eq!(scene.queue().await.limits, NO_LIMITS);
    assert_eq!(scene.limit(at_once(5)).await, QueueChanged::Updated);
    assert!(!start_owned(None).await);
}

pub(super) async fn what_is_held_when_a_queue_is_declared_counts(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    let runs = scene.several("", 4).await;
    let request = scene.asking(node, 2).await;
    assert_eq!(ids(&scene.claim(request.clone()).await), runs[..2]);
    scene.limit(at_once(1)).await;
    assert_eq!(scene.queue().await.running, 2);
    scene.done(node, runs[0], end(request.claim, RunState::Completed)).await;
    assert!(scene.get(node, 10).await.1.is_empty(), "there is still one");
    scene.done(node, runs[1], end(request.claim, RunState::Completed)).await;
    assert_eq!(scene.get(node, 10).await.1, runs[2..3]);
}

pub(super) async fn limits_may_change_at_any_time(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    scene.limit(at_once(2)).await;
    let runs = scene.several("", 5).await;
    let (claim, taken) = scene.get(node, 10).await;
    assert_eq!(taken, runs[..2]);
    scene.limit(at_once(1)).await;
    assert_eq!(scene.place(runs[1]).await, Place::Owned { node, claim }, "a lower limit takes nothing away");
    scene.done(node, runs[0], end(claim, RunState::Completed)).await;
    assert!(scene.get(node, 10).await.1.is_empty());
    scene.limit(at_once(3)).await;
    assert_eq!(scene.get(node, 10).await.1, runs[2..4]);
    scene.limit(NO_LIMITS).await;
    assert_eq!(scene.get(node, 10).await.1, runs[4..]);
}

pub(super) async fn a_claim_sent_again_takes_no_second_slot(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    scene.limit(at_once(2)).await;
    let runs = scene.several("a", 3).await;
    let request = scene.asking(node, 1).await;
    for _ in 0..2 {
        assert_eq!(ids(&scene.claim(request.clone()).await), runs[..1]);
        assert_eq!(scene.queue().await.running, 1);
    }
}

pub(super) async fn a_rate_lets_no_more_be_taken_in_any_span(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    let rate = Rate { count: 3, per: SECOND };
    scene.limit(QueueLimits { rate: Some(rate), ..NO_LIMITS }).await;
    let runs = scene.several("a", 8).await;
    let take = async |room| -> Claimed {
        let request = scene.asking(node, room).await;
        scene.claim(request).await
    };
    let request = scene.asking(node, 1).await;
    let first = scene.claim(request.clone()).await;
    assert_eq!(ids(&first), runs[..1]);
    scene.advance(SECOND / 2);
    let then = take(100).await;
    assert_eq!(ids(&then), runs[1..3]);
    assert_eq!((then.more, then.next_due), (false, Some(rate.noted(first.now) + SECOND)));
    scene.done(node, runs[0], end(request.claim, RunState::Completed)).await;
    assert!(ids(&take(100).await).is_empty(), "an end does not give a start back");
    scene.advance(SECOND / 2 + SECOND / 1000);
    let next = take(100).await;
    assert_eq!(ids(&next), runs[3..4]);
    assert_eq!(next.next_due, Some(rate.noted(then.now) + SECOND));
    scene.advance(SECOND * 2);
    let rest = take(100).await;
    assert_eq!((ids(&rest), rest.next_due), (runs[4..7].to_vec(), Some(rate.noted(rest.now) + SECOND)));
}

pub(super) async fn a_limited_queue_is_passed_over_by_nobody_who_waits_for_a_time(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    scene.limit(at_once(1)).await;
    let runs = scene.several("", 2).await;
    let (claim, _) = scene.get(node, 1).await;
    let later: Time = scene.image(runs[0]).await.run.created_at + SECOND * 3;
    scene.done(node, runs[0], park(claim, wait_until(later))).await;
    let (claim, taken) = scene.get(node, 1).await;
    assert_eq!(taken, runs[1..]);
    scene.advance(SECOND * 3);
    assert!(
        scene.claim(scene.asking(node, 1).await).await.runs.is_empty(),
        "it is due, and waits for its slot"
    );
    scene.done(node, runs[1], end(claim, RunState::Completed)).await;
    assert_eq!(scene.get(node, 1).await.1, runs[..1]);
}

/// A run of the queue that may take so long.
fn timed(timeout: Duration) -> NewRun {
    NewRun { timeout: Some(timeout), ..tight() }
}

/// Has the queue give nothing in one of the ways in which it may.
async fn close<F: Fixture>(scene: &Scene<F>, node: NodeId, way: usize) {
    match way {
        0 => drop(scene.pause(true).await),
        1 => {
            scene.keyed("").await;
            assert_eq!(scene.get(node, 1).await.1.len(), 1);
            scene.limit(at_once(1)).await;
        }
        _ => {
            let rate = Some(Rate { count: 1, per: SECOND * 3600 });
            scene.limit(QueueLimits { rate, key_rate: rate, ..NO_LIMITS }).await;
            scene.keyed("a").await;
            assert_eq!(scene.get(node, 1).await.1.len(), 1);
        }
    }
}

pub(super) async fn what_is_told_to_stop_is_handed_out_of_a_queue_that_gives_nothing(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    for way in 0..3 {
        scene.limit(NO_LIMITS).await;
        let runs = [scene.keyed("a").await, scene.keyed("a").await, scene.keyed("").await];
        let (claim, taken) = scene.get(node, 10).await;
        assert_eq!(taken.len(), 3);
        for run in runs {
            scene.done(node, run, park(claim, wait_for(&["paid", STOPS[0]]))).await;
        }
        close(&scene, node, way).await;
        // One is told while it waits, one when it is ready already; and one is only paid.
        scene.done(None, runs[0], send(STOPS[0])).await;
        scene.done(None, runs[1], send("paid")).await;
        assert_eq!(scene.get(node, 10).await.1, runs[..1]);
        scene.done(None, runs[1], send(STOPS[1])).await;
        scene.done(None, runs[2], send("paid")).await;
        assert_eq!(scene.get(node, 10).await.1, runs[1..2]);
        assert!(scene.get(node, 10).await.1.is_empty(), "the others wait for their turn");
        scene.pause(false).await;
        scene.limit(NO_LIMITS).await;
        assert!(scene.get(node, 10).await.1.contains(&runs[2]));
    }
}

pub(super) async fn what_is_over_its_time_is_handed_out_of_a_queue_that_gives_nothing(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    for way in 0..3 {
        scene.limit(NO_LIMITS).await;
        let parked = scene.start_as(timed(SECOND * 4)).await;
        let (claim, taken) = scene.get(node, 1).await;
        assert_eq!(taken, [parked]);
        scene.done(node, parked, park(claim, wait_for(&["paid"]))).await;
        close(&scene, node, way).await;
        let pending = scene.start_as(NewRun { queue_key: Some("a".into()), ..timed(SECOND * 2) }).await;
        let delayed = scene.start_as(NewRun { delay: Some(SECOND), ..timed(SECOND * 5) }).await;
        let patient = scene.keyed("").await;
        let opened_at = scene.image(pending).await.standing.opened_at;
        scene.done(None, parked, send("paid")).await;
        scene.advance(SECOND + SECOND / 2);
        let nothing = scene.claim(scene.asking(node, 10).await).await;
        assert_eq!((ids(&nothing), nothing.more), (vec![], false));
        assert_eq!(nothing.next_due, Some(opened_at + SECOND * 2), "whoever claims knows when to come back");
        scene.advance(SECOND / 2 + SECOND / 1000);
        assert_eq!(scene.get(node, 10).await.1, [pending]);
        scene.advance(SECOND * 2);
        assert_eq!(scene.get(node, 10).await.1, [parked]);
        scene.advance(SECOND * 2);
        assert_eq!(scene.get(node, 10).await.1, [delayed], "its time began with the end of its delay");
        assert!(scene.get(node, 10).await.1.is_empty());
        scene.pause(false).await;
        scene.limit(NO_LIMITS).await;
        assert!(scene.get(node, 10).await.1.contains(&patient));
    }
}

pub(super) async fn a_run_that_stops_takes_neither_a_slot_nor_a_turn_of_a_rate(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    let (one, two) = (scene.node().await, scene.node().await);
    let rate = Some(Rate { count: 1, per: SECOND * 3600 });
    scene.limit(QueueLimits { rate, per_node: Some(1), ..at_once(1) }).await;
    let late = scene.start_as(timed(SECOND)).await;
    scene.advance(SECOND * 2);
    let (claim, taken) = scene.get(one, 10).await;
    assert_eq!(taken, [late]);
    assert_eq!(scene.queue().await.running, 0);
    let next = scene.keyed("").await;
    assert_eq!(scene.get(one, 10).await.1, [next], "nothing has begun before it");
    scene.limit(at_once(2)).await;
    assert_eq!(scene.queue().await.running, 1, "what stops is not counted later either");
    scene.done(one, late, end(claim, RunState::Failed)).await;
    assert_eq!(scene.queue().await.running, 1);

    // One that has kept its slot keeps it until it ends.
    scene.limit(QueueLimits { hold: true, ..at_once(2) }).await;
    let kept = scene.keyed("").await;
    let (claim, taken) = scene.get(two, 10).await;
    assert_eq!(taken, [kept]);
    scene.done(two, kept, park(claim, wait_for(&[STOPS[0]]))).await;
    scene.pause(true).await;
    scene.done(None, kept, send(STOPS[0])).await;
    let (claim, taken) = scene.get(two, 10).await;
    assert_eq!((taken, scene.queue().await.running), (vec![kept], 2));
    scene.done(two, kept, end(claim, RunState::Cancelled)).await;
    assert_eq!(scene.queue().await.running, 1);
}

pub(super) async fn a_run_whose_end_is_settled_stops_however_often_it_is_given_up(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    let (judge, node) = (scene.node().await, scene.node().await);
    scene.limit(NO_LIMITS).await;
    let run = scene.keyed("a").await;
    let (claim, _) = scene.get(node, 1).await;
    let cancelled = scene.done(None, run, send(STOPS[0])).await;
    scene.pause(true).await;
    scene.done(node, run, Act::Release { claim }).await;
    let (claim, taken) = scene.get(node, 1).await;
    assert_eq!(taken, [run], "it has not taken its order in yet");
    let seqs = scene.image(run).await.inbox.iter().map(|row| row.seq).collect();
    let taken_in = Act::Record { claim, steps: vec![step(VERDICT, 0)], consumed: seqs, forget: false };
    scene.done(node, run, taken_in).await;
    scene.done(node, run, park(claim, wait_until(cancelled + SECOND * 5))).await;
    assert!(scene.get(node, 1).await.1.is_empty(), "it waits before it tries to undo again");
    scene.advance(SECOND * 6);
    let (_, taken) = scene.get(node, 1).await;
    assert_eq!(taken, [run]);
    scene.bury(judge, node).await;
    scene.store.sweep(judge, 1000).await.expect("the judge lives");
    let (claim, taken) = scene.get(judge, 1).await;
    assert_eq!(taken, [run]);
    scene.done(judge, run, record(claim, vec![step("undo", 1)])).await;
    scene.done(judge, run, end(claim, RunState::Cancelled)).await;
}

pub(super) async fn whoever_had_to_stop_first_comes_first_and_those_for_whom_there_is_room(
    fixture: impl Fixture,
) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    scene.pause(true).await;
    let mut runs = Vec::new();
    for seconds in [4, 2, 3, 1] {
        let queue_key = (seconds % 2 == 0).then(|| "a".into());
        runs.push(scene.start_as(NewRun { queue_key, ..timed(SECOND * seconds) }).await);
    }
    let other = scene.start_as(NewRun { workflow: "mail".into(), ..timed(SECOND) }).await;
    scene.advance(SECOND * 5);
    let request = scene.asking(node, 2).await;
    let first = scene.claim(request).await;
    assert_eq!((ids(&first), first.more), (vec![runs[1], runs[3]], true));
    assert_eq!(scene.get(node, 2).await.1, [runs[0], runs[2]]);
    assert!(scene.get(node, 2).await.1.is_empty());
    assert_eq!(scene.place(other).await, Place::Ready, "this node has no code for it");
}

pub(super) async fn a_reopened_run_waits_for_its_turn_again(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    scene.pause(true).await;
    let run = scene.start_as(timed(SECOND)).await;
    scene.advance(SECOND * 2);
    let (claim, taken) = scene.get(node, 1).await;
    assert_eq!(taken, [run]);
    scene.done(node, run, record(claim, vec![step(VERDICT, 0)])).await;
    scene.done(node, run, end(claim, RunState::Failed)).await;
    scene.done(None, run, Act::Reopen { after: 1 }).await;
    assert!(scene.get(node, 1).await.1.is_empty(), "its time begins anew");
    scene.advance(SECOND * 2);
    assert_eq!(scene.get(node, 1).await.1, [run]);
}
